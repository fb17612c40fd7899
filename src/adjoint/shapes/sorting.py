"""Shape rules of sorting, selecting and counting; where argument errors are raised without data."""

from __future__ import annotations

from typing import NoReturn

from adjoint.checks.sorting import (
    axis_of,
    check_bincount,
    check_bins,
    check_count,
    check_ordered,
    check_quantile,
    check_search,
    from_right,
)
from adjoint.core import dtypes
from adjoint.core.errors import DependsOnValues
from adjoint.core.shapes import Spec, reduced, wrap_dim, wrap_dims


def argsort(self: Spec, dim: int, descending: bool) -> Spec:
    """int64 indices."""
    check_ordered("argsort", self.dtype)
    wrap_dim("argsort", dim, self.ndim)
    return Spec(self.shape, dtypes.int64)


def sort(self: Spec, dim: int, descending: bool) -> tuple[Spec, Spec]:
    """Values, and int64 indices."""
    check_ordered("sort", self.dtype)
    wrap_dim("sort", dim, self.ndim)
    return self, Spec(self.shape, dtypes.int64)


def topk(self: Spec, k: int, dim: int, largest: bool, sorted: bool) -> tuple[Spec, Spec]:
    """k values and indices along `dim`."""
    check_ordered("topk", self.dtype)
    axis = wrap_dim("topk", dim, self.ndim)
    check_count("topk", self.shape, axis, k, 0)
    shape = (*self.shape[:axis], k, *self.shape[axis + 1 :]) if self.shape else ()
    return Spec(shape, self.dtype), Spec(shape, dtypes.int64)


def _one(what: str, self: Spec, dim: int, keepdim: bool) -> tuple[Spec, Spec]:
    check_ordered(what, self.dtype)
    axis = axis_of(what, self.shape, dim)
    shape = reduced(self.shape, (axis,) if self.shape else (), keepdim)
    return Spec(shape, self.dtype), Spec(shape, dtypes.int64)


def kthvalue(self: Spec, k: int, dim: int, keepdim: bool) -> tuple[Spec, Spec]:
    """One value and index."""
    found = _one("kthvalue", self, dim, keepdim)
    check_count("kthvalue", self.shape, wrap_dim("kthvalue", dim, self.ndim), k, 1)
    return found


def median(self: Spec, dim: int, keepdim: bool) -> tuple[Spec, Spec]:
    """One value and index."""
    return _one("median", self, dim, keepdim)


def mode(self: Spec, dim: int, keepdim: bool) -> tuple[Spec, Spec]:
    """One value and index."""
    return _one("mode", self, dim, keepdim)


def _depends_on_values(what: str, why: str, instead: str) -> NoReturn:
    raise DependsOnValues(f"{what}: {why}, which only the data can tell; {instead}.")


def distinct(self: Spec, dim: int | None, consecutive: bool) -> NoReturn:
    """Unknown without data."""
    _depends_on_values("unique", "the size is the number of distinct values", "use sort")


def bincount(self: Spec, weights: Spec | None, minlength: int) -> NoReturn:
    """Unknown without data."""
    check_bincount(self.shape, self.dtype, None if weights is None else weights.shape, minlength)
    instead = "use zeros(size).scatter_add(0, x, weights)"
    _depends_on_values("bincount", "the size is the greatest element plus one", instead)


def searchsorted(
    sorted_sequence: Spec, self: Spec, out_int32: bool, right: bool, side: str | None,
    sorter: Spec | None,
) -> Spec:  # fmt: skip
    """An index for each value."""
    check_ordered("searchsorted", sorted_sequence.dtype)
    from_right("searchsorted", right, side)
    order = None if sorter is None else (sorter.shape, sorter.dtype)
    check_search(sorted_sequence.shape, self.shape, order)
    return Spec(self.shape, dtypes.int32 if out_int32 else dtypes.int64)


def histc(self: Spec, bins: int, min: float, max: float) -> Spec:
    """`bins` counts for each row."""
    check_bins(self.dtype, bins, min, max)
    return Spec((*self.shape[:-1], bins), self.dtype)


def quantile(self: Spec, q: Spec, dim: int | None, keepdim: bool, interpolation: str) -> Spec:
    """The shape of q, then the remaining dimensions of the input."""
    check_quantile("quantile", self.shape, self.dtype, q.ndim, q.dtype, interpolation)
    left = reduced(self.shape, wrap_dims("quantile", dim, self.ndim), keepdim)
    return Spec((*q.shape, *left), self.dtype)
