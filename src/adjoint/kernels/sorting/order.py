"""The order of elements along a dimension, as PyTorch has it.

NaN counts as greater than every number: last in ascending order, first in descending. Equal
elements keep their order, stable sort or not. Complex numbers have no order.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from adjoint.c_kernels import sorting
from adjoint.checks.sorting import check_ordered
from adjoint.core import dtypes
from adjoint.core.shapes import wrap_dim
from adjoint.kernels.halves import widen

Array = np.ndarray[Any, Any]

_DIGIT = 2  # bytes: elements of up to this size NumPy sorts by digits, in linear time
_SHORT = 16  # along rows of up to so many elements any sort does
_LARGE = 4096  # integers from which it pays to look at their range


def sort(self: Array, dim: int, descending: bool) -> tuple[Array, Array]:
    """The elements in order along `dim`, and where each of them was."""
    check_ordered("sort", dtypes.of(self.dtype))
    axis = wrap_dim("sort", dim, self.ndim)
    if self.ndim == 0:
        return self.copy(), np.zeros((), np.int64)
    found = sorting.ordered(self, axis, descending=descending)
    if found is not None:
        return found
    indices = order(self, axis, descending)
    return take(self, indices, axis), indices


def argsort(self: Array, dim: int, descending: bool) -> Array:
    """Where the elements in order along `dim` were."""
    check_ordered("argsort", dtypes.of(self.dtype))
    axis = wrap_dim("argsort", dim, self.ndim)
    return order(self, axis, descending) if self.ndim else np.zeros((), np.int64)


def comparable(self: Array) -> Array:
    """The numbers in a dtype that NumPy compares fast, and with NaN last."""
    return widen(self)


def take(self: Array, indices: Array, axis: int) -> Array:
    """The elements at `indices` along `axis`."""
    if self.ndim == 1:
        return self[indices]
    if axis in (-1, self.ndim - 1) and indices.size and self.flags.c_contiguous:
        starts = np.arange(0, self.size, self.shape[-1]).reshape((*self.shape[:-1], 1))
        return self.reshape(-1).take(indices + starts)
    return np.take_along_axis(self, indices, axis)


def last_axis(self: Array, axis: int) -> Array:
    """The array with `axis` as the last one; a view."""
    return self if axis == self.ndim - 1 else np.moveaxis(self, axis, -1)


def order(self: Array, axis: int, descending: bool) -> Array:
    """The stable order of the elements along `axis` of an array that has dimensions."""
    found = sorting.ordered(self, axis, descending=descending)
    if found is not None:
        return found[1]
    rows = comparable(self)
    if axis == rows.ndim - 1:
        return _order(rows, descending)
    found = _order(np.ascontiguousarray(np.moveaxis(rows, axis, -1)), descending)
    return np.ascontiguousarray(np.moveaxis(found, -1, axis))


def _order(rows: Array, descending: bool) -> Array:
    """The stable order along the last axis."""
    length = rows.shape[-1]
    if not descending:
        return _by_comparison(rows)
    # the ascending order of the reverse, reversed: equal elements keep their order
    return length - 1 - _by_comparison(rows[..., ::-1])[..., ::-1]


def _by_comparison(rows: Array) -> Array:
    """The ascending stable order.

    NumPy's other sort is several times faster, and differs in the order of equal elements alone.
    """
    if rows.dtype.kind in "iu" and rows.dtype.itemsize > _DIGIT and rows.size > _LARGE:
        rows = _narrowed(rows)
    if rows.shape[-1] <= _SHORT or rows.dtype.itemsize <= _DIGIT or rows.size == 0:
        return rows.argsort(axis=-1, kind="stable")
    rows = np.ascontiguousarray(rows)
    found = rows.argsort(axis=-1)
    values = take(rows, found, -1)
    equal = values[..., 1:] == values[..., :-1]
    if rows.dtype.kind == "f":
        equal |= np.isnan(values[..., :-1])  # after a NaN there are only NaN
    if equal.any():
        _settle_ties(found, equal)
    return found


def _narrowed(rows: Array) -> Array:
    """Integers as one digit each if their range allows: equal ones abound there."""
    low = rows.min()
    if int(rows.max()) - int(low) >= 1 << 8 * _DIGIT:
        return rows
    return (rows - low).astype(np.uint16)


def _settle_ties(found: Array, equal: Array) -> None:
    """Put the positions of equal elements in order, in place; `equal`: which equal their left."""
    length = found.shape[-1]
    new = np.ones(found.shape, np.bool_)
    np.logical_not(equal, out=new[..., 1:])
    tied = ~new
    tied[..., :-1] |= equal
    run = np.cumsum(new.reshape(-1)).reshape(found.shape)[tied]  # one number for each run of equals
    found[tied] = np.sort(run * length + found[tied]) % length
