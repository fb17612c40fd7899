"""Elements chosen by rank: the k largest, the k-th smallest, medians, and the most frequent value.

NaN counts as greater than every number. Of equal elements the first are chosen, but the last for
`mode`, as PyTorch does. Without NaN a partition takes the place of a sort.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from adjoint.c_kernels import sorting
from adjoint.checks.sorting import axis_of, check_count, check_ordered
from adjoint.core import dtypes
from adjoint.core.dtypes import DType
from adjoint.core.errors import ShapeError
from adjoint.core.shapes import Shape, reduced, wrap_dim, wrap_dims
from adjoint.kernels.pieces import by_rows
from adjoint.kernels.sorting.order import Array, comparable, last_axis, order, take

_SHORT = 32  # along rows of up to so many elements a sort is as fast as a partition


def topk(self: Array, k: int, dim: int, largest: bool, sorted: bool) -> tuple[Array, Array]:
    """The k largest or smallest elements along `dim` and where they are; in order, asked or not."""
    check_ordered("topk", dtypes.of(self.dtype))
    axis = wrap_dim("topk", dim, self.ndim)
    check_count("topk", self.shape, axis, k, 0)
    if self.ndim == 0:
        return self.copy(), np.zeros((), np.int64)
    found = sorting.top(self, axis, k, largest=largest)
    if found is not None:
        return found
    rows = last_axis(comparable(self), axis)
    indices = _top(rows, k, largest)
    if axis != self.ndim - 1:
        indices = np.moveaxis(indices, -1, axis)
    indices = np.ascontiguousarray(indices)
    return take(self, indices, axis), indices


def _top(rows: Array, k: int, largest: bool) -> Array:
    """Where the k largest (smallest) of each row are."""
    length = rows.shape[-1]
    if length <= _SHORT or 4 * k > length or k == 0 or rows.size == 0:
        return order(rows, rows.ndim - 1, largest)[..., :k]
    if _any_nan(rows):
        return order(rows, rows.ndim - 1, largest)[..., :k]
    return _top_by_partition(rows, k, largest)


def _top_by_partition(rows: Array, k: int, largest: bool) -> Array:
    """As `_top`, without NaN: all beyond the k-th, and the first that equal it."""
    last = rows.shape[-1] - k if largest else k - 1
    threshold = np.partition(rows, last, axis=-1)[..., last : last + 1]
    chosen = rows > threshold if largest else rows < threshold
    equal = rows == threshold
    wanted = k - np.count_nonzero(chosen, axis=-1, keepdims=True)
    if np.any(np.count_nonzero(equal, axis=-1, keepdims=True) != wanted):
        equal &= np.cumsum(equal, axis=-1) <= wanted
    chosen |= equal
    indices = np.nonzero(chosen)[-1].reshape((*rows.shape[:-1], k))
    ranked = order(take(rows, indices, -1), rows.ndim - 1, largest)
    return take(indices, ranked, -1)


def kthvalue(self: Array, k: int, dim: int, keepdim: bool) -> tuple[Array, Array]:
    """The k-th smallest element along `dim`, counted from 1, and where it is."""
    check_ordered("kthvalue", dtypes.of(self.dtype))
    axis = axis_of("kthvalue", self.shape, dim)
    check_count("kthvalue", self.shape, axis, k, 1)
    return _chosen(self, axis, keepdim, k - 1, lambda rows: _ranked(rows, k - 1))


def median(self: Array, dim: int, keepdim: bool) -> tuple[Array, Array]:
    """The median along `dim`, the lower of two, and where it is; NaN if there is one."""
    check_ordered("median", dtypes.of(self.dtype))
    axis = axis_of("median", self.shape, dim)
    return _chosen(self, axis, keepdim, sorting.MEDIAN, _middle)


def nanmedian(self: Array, dim: int, keepdim: bool) -> tuple[Array, Array]:
    """As `median`, of the elements that are numbers."""
    check_ordered("nanmedian", dtypes.of(self.dtype))
    axis = axis_of("nanmedian", self.shape, dim)
    return _chosen(self, axis, keepdim, sorting.MEDIAN_OF_NUMBERS, _middle_of_numbers)


def median_over(self: Array, dim: Shape | None, keepdim: bool, ignore_nan: bool) -> Array:
    """The median over several dimensions; that of nothing is NaN."""
    what = "nanmedian" if ignore_nan else "median"
    check_ordered(what, dtypes.of(self.dtype))
    axes = wrap_dims(what, dim, self.ndim)
    shape = reduced(self.shape, axes, keepdim)
    kept = [d for d in range(self.ndim) if d not in axes]
    count = int(np.prod([self.shape[d] for d in axes], dtype=int))
    if count == 0:
        return np.full(shape, _nothing(what, dtypes.of(self.dtype)), self.dtype)
    rows = comparable(self).transpose((*kept, *axes)).reshape((-1, count))
    native = sorting.choose(rows, 1, sorting.MEDIAN_OF_NUMBERS if ignore_nan else sorting.MEDIAN)
    if native is not None:
        return native[0].astype(self.dtype, copy=False).reshape(shape)
    middle = (_middle_of_numbers if ignore_nan else _middle)(rows) if rows.size else rows[:, 0]
    values = rows[np.arange(len(rows)), middle] if rows.size else middle
    return values.astype(self.dtype, copy=False).reshape(shape)


def _nothing(what: str, dtype: DType) -> float:
    if not dtype.is_floating_point:
        raise ShapeError(f"{what}: an empty tensor of {dtype} has no median")
    return float("nan")


def mode(self: Array, dim: int, keepdim: bool) -> tuple[Array, Array]:
    """The most frequent element along `dim`, the least of several, and where it is last.

    No NaN equals another. Where nothing occurs twice, NaN is the mode if it comes first in the row,
    as in PyTorch.
    """
    check_ordered("mode", dtypes.of(self.dtype))
    axis = axis_of("mode", self.shape, dim)
    return _chosen(self, axis, keepdim, sorting.MODE, _most_frequent)


def _chosen(
    self: Array, axis: int, keepdim: bool, rank: int, choose: Callable[[Array], Array]
) -> tuple[Array, Array]:
    """The element of a rank along `axis`, which `choose` finds without native code, and where."""
    if self.ndim == 0:
        return self.copy(), np.zeros((), np.int64)
    native = sorting.choose(self, axis, rank)
    if native is not None:
        values, places = native
        return (np.expand_dims(values, axis), np.expand_dims(places, axis)) if keepdim else native
    rows = last_axis(comparable(self), axis)
    found = by_rows(choose, rows) if rows.size else np.zeros(rows.shape[:-1], np.int64)
    if self.ndim == 1 and not keepdim:
        return self[found], found
    indices = np.expand_dims(found, axis)
    values = take(self, indices, axis)
    return (values, indices) if keepdim else (values.squeeze(axis), found)


def _any_nan(rows: Array) -> bool:
    return rows.dtype.kind == "f" and bool(np.isnan(rows).any())


def _ranked(rows: Array, k: int) -> Array:
    """Where the k-th element of each row is, counted from 0 in stable order."""
    if rows.shape[-1] <= _SHORT or _any_nan(rows):
        return order(rows, rows.ndim - 1, False)[..., k]
    value = np.partition(rows, k, axis=-1)[..., k : k + 1]
    before = k - np.count_nonzero(rows < value, axis=-1, keepdims=True)  # equal ones to pass over
    equal = rows == value
    if np.any(before):
        equal = np.cumsum(equal, axis=-1) > before
    return equal.argmax(axis=-1)


def _middle(rows: Array) -> Array:
    """Where the median of each row is; the first NaN if there is one."""
    found = _ranked(rows, (rows.shape[-1] - 1) // 2)
    if not _any_nan(rows):
        return found
    nan = np.isnan(rows)
    return np.where(nan.any(axis=-1), nan.argmax(axis=-1), found)


def _middle_of_numbers(rows: Array) -> Array:
    """Where the median of each row's numbers is."""
    if not _any_nan(rows):
        return _middle(rows)
    count = np.count_nonzero(~np.isnan(rows), axis=-1, keepdims=True)
    middle = np.maximum(count - 1, 0) // 2
    return np.take_along_axis(order(rows, rows.ndim - 1, False), middle, -1)[..., 0]


def _most_frequent(rows: Array) -> Array:
    """Where the mode of each row is."""
    ranked = order(rows, rows.ndim - 1, False)
    values = take(rows, ranked, -1)
    places = np.arange(rows.shape[-1])
    first = np.zeros(rows.shape, np.int64)  # where the run of equals begins that a place belongs to
    first[..., 1:] = np.where(values[..., 1:] != values[..., :-1], places[1:], 0)
    so_far = places - np.maximum.accumulate(first, axis=-1)
    best = so_far.argmax(axis=-1)[..., None]
    found = np.take_along_axis(ranked, best, -1)[..., 0]
    if not _any_nan(rows[..., :1]):
        return found
    alone = np.take_along_axis(so_far, best, -1)[..., 0] == 0
    return np.where(alone & np.isnan(rows[..., 0]), 0, found)
