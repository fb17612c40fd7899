"""The order of elements along a dimension, as PyTorch has it.

NaN counts as greater than every number: last in ascending order, first in descending. Equal elements keep
their order, whether a stable sort was asked for or not. Complex numbers have no order.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from adjoint.core import dtypes
from adjoint.core.dtypes import REDUCED
from adjoint.core.selection import check_ordered
from adjoint.core.shapes import wrap_dim

Array = np.ndarray[Any, Any]

_RADIX = 2  # bytes: up to this size NumPy's stable sort is a radix sort, and the fastest


def sort(self: Array, dim: int, descending: bool) -> tuple[Array, Array]:
    """The elements in order along `dim`, and where each of them was."""
    check_ordered("sort", dtypes.of(self.dtype))
    axis = wrap_dim("sort", dim, self.ndim)
    if self.ndim == 0:
        return self.copy(), np.zeros((), np.int64)
    indices = order(self, axis, descending)
    return np.take_along_axis(self, indices, axis), indices


def sort_stable(
    self: Array, stable: bool | None, dim: int, descending: bool
) -> tuple[Array, Array]:
    """As `sort`, which keeps the order of equal elements anyway."""
    return sort(self, dim, descending)


def argsort(self: Array, dim: int, descending: bool) -> Array:
    """Where the elements in order along `dim` were."""
    check_ordered("argsort", dtypes.of(self.dtype))
    axis = wrap_dim("argsort", dim, self.ndim)
    return order(self, axis, descending) if self.ndim else np.zeros((), np.int64)




def comparable(self: Array) -> Array:
    """The same numbers in a dtype that NumPy compares fast, and with NaN last."""
    return self.astype(np.float32) if self.dtype in REDUCED else self


def is_nan(self: Array) -> Array:
    """Where elements are not numbers; nowhere for integers."""
    return np.isnan(self) if self.dtype.kind not in "biu" else np.zeros(self.shape, np.bool_)


def order(self: Array, axis: int, descending: bool) -> Array:
    """The stable order of the elements along `axis` of an array that has dimensions."""
    rows = np.ascontiguousarray(np.moveaxis(comparable(self), axis, -1))
    if descending:  # the ascending order of the reverse, reversed: equal elements keep their order
        found = rows.shape[-1] - 1 - _ascending(np.ascontiguousarray(rows[..., ::-1]))[..., ::-1]
    else:
        found = _ascending(rows)
    return np.ascontiguousarray(np.moveaxis(found, -1, axis))


def _ascending(rows: Array) -> Array:
    """The stable order along the last axis.

    NumPy's other sort is several times faster, and differs in the order of equal elements alone.
    """
    if rows.dtype.itemsize <= _RADIX or rows.size == 0:
        return np.argsort(rows, axis=-1, kind="stable")
    found = np.argsort(rows, axis=-1)
    values = np.take_along_axis(rows, found, -1)
    equal = values[..., 1:] == values[..., :-1]
    if rows.dtype.kind == "f":
        equal |= np.isnan(values[..., :-1])  # what follows a NaN is one too
    if np.any(equal):
        _settle_ties(found, equal)
    return found


def _settle_ties(found: Array, equal: Array) -> None:
    """Put the positions of equal elements in order, in place; `equal` says which are as their left."""
    length = found.shape[-1]
    new = np.ones(found.shape, np.bool_)
    np.logical_not(equal, out=new[..., 1:])
    tied = ~new
    tied[..., :-1] |= equal
    run = np.cumsum(new.reshape(-1)).reshape(found.shape)[tied]  # one number for each run of equals
    found[tied] = np.sort(run * length + found[tied]) % length
