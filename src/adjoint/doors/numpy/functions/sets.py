"""Sets of elements, which are sorted vectors."""

from __future__ import annotations

from typing import Any, NamedTuple

from adjoint.core.dtypes import bool_
from adjoint.core.errors import ArgumentError
from adjoint.doors import ad
from adjoint.doors.numpy.conversion import common
from adjoint.doors.numpy.words import so_many
from adjoint.functions import unique as our_unique
from adjoint.tensor.tensor import Tensor


class UniqueAll(NamedTuple):
    """Distinct values, where each is first, which of them each element is, how often it occurs."""

    values: Tensor
    indices: Tensor
    inverse_indices: Tensor
    counts: Tensor


class UniqueCounts(NamedTuple):
    """Distinct values and how often each occurs."""

    values: Tensor
    counts: Tensor


class UniqueInverse(NamedTuple):
    """Distinct values and which of them each element is."""

    values: Tensor
    inverse_indices: Tensor


def unique(
    ar: Tensor,
    return_index: bool = False,
    return_inverse: bool = False,
    return_counts: bool = False,
    axis: Any = None,
    *,
    equal_nan: bool = True,
    sorted: bool = True,
    size: int | None = None,
    fill_value: Any = None,
) -> Any:
    """Distinct elements, or slices; where each is first, which one each element is, how often."""
    if size is not None:
        if return_index or return_inverse or return_counts or axis is not None:
            raise ArgumentError("unique: size= gives the distinct elements alone, without axis=")
        return _so_many_distinct(ar.reshape(-1), size, fill_value)
    line = ar if axis is not None else ar.reshape(-1)
    values, inverse, counts = our_unique(line, True, True, True, dim=axis)
    found = [values]
    if return_index:
        places = ad.arange(inverse.shape[0])
        first = ad.full((counts.shape[0],), inverse.shape[0], dtype=places.dtype)
        found.append(ad.scatter_reduce(first, 0, inverse, places, "amin"))
    if return_inverse:
        found.append(inverse if axis is not None else inverse.reshape(ar.shape))
    if return_counts:
        found.append(counts)
    return tuple(found) if len(found) > 1 else values


def _so_many_distinct(line: Tensor, size: int, fill_value: Any) -> Tensor:
    """`size` distinct elements in order; more than there are, the smallest or `fill_value`."""
    ordered = line.sort()[0]
    is_new = ad.cat([ad.ones((1,), dtype=bool_), ordered[1:] != ordered[:-1]])
    place = so_many(is_new, size, -1).reshape(-1)
    others = ordered[0] if fill_value is None else fill_value
    return ad.where(place >= 0, ad.index_select(ordered, 0, place.clamp(min=0)), others)


def intersect1d(ar1: Tensor, ar2: Tensor, assume_unique: bool, return_indices: bool) -> Any:
    """The elements of both."""
    a, b = (v.reshape(-1) for v in common(ar1, ar2))
    first, at = unique(a, return_index=True)
    second, where = unique(b, return_index=True)
    both = first[ad.isin(first, second)]
    if not return_indices:
        return both
    return both, at[ad.isin(first, second)], where[ad.isin(second, first)]


def setdiff1d(ar1: Tensor, ar2: Tensor, assume_unique: bool) -> Tensor:
    """The elements of the first that the second has not."""
    a, b = (v.reshape(-1) for v in common(ar1, ar2))
    a = a if assume_unique else our_unique(a)
    return a[~ad.isin(a, b)]


def setxor1d(ar1: Tensor, ar2: Tensor, assume_unique: bool) -> Tensor:
    """The elements of one, not of both."""
    a, b = (our_unique(v.reshape(-1)) for v in common(ar1, ar2))
    return our_unique(ad.cat([a[~ad.isin(a, b)], b[~ad.isin(b, a)]]))
