"""Distinct values of all elements, or distinct slices along a dimension, sorted or in the given
order.

No NaN equals another, so each is a distinct value. Complex numbers are sorted by their real parts,
then by their imaginary parts.
"""

from __future__ import annotations

import numpy as np

from adjoint.c_kernels import selection
from adjoint.core.errors import DimensionError, ShapeError
from adjoint.core.shapes import wrap_dim
from adjoint.kernels.sorting.order import Array, comparable, order

_NONE = np.zeros(0, np.int64)  # in place of a result that was not asked for


def distinct(self: Array, dim: int | None, consecutive: bool) -> tuple[Array, Array, Array]:
    """The distinct values, which of them each element (or slice) is, and how often each occurs."""
    if dim is not None:
        return _distinct_slices(self, dim, consecutive)
    flat = self.reshape(-1)
    keys = comparable(flat)
    ranked = None if consecutive else order(keys, 0, False)
    keys = keys if ranked is None else keys[ranked]
    new = _news(keys[1:] != keys[:-1], flat.size)
    inverse, counts = _places(new, ranked)
    values = flat[new] if ranked is None else flat[ranked[new]]
    return values, inverse.reshape(self.shape), counts


def _distinct_slices(self: Array, dim: int, consecutive: bool) -> tuple[Array, Array, Array]:
    if self.ndim == 0:
        raise DimensionError("unique: a scalar has no dimensions; leave dim out")
    axis = wrap_dim("unique", dim, self.ndim)
    if self.size == 0 and self.shape[axis] > 0:
        raise ShapeError(f"unique: slices along dimension {axis} have no elements to compare")
    slices = np.moveaxis(self, axis, 0)
    keys = comparable(slices).reshape((len(slices), -1)) if self.size else np.zeros((0, 1))
    ranked = None if consecutive else np.lexsort(keys.T[::-1])
    keys = keys if ranked is None else keys[ranked]
    new = _news((keys[1:] != keys[:-1]).any(axis=1), len(keys))
    inverse, counts = _places(new, ranked)
    values = slices[new] if ranked is None else slices[ranked[new]]
    return np.ascontiguousarray(np.moveaxis(values, 0, axis)), inverse, counts


def _news(differs: Array, size: int) -> Array:
    """Where a value occurs first, in order."""
    new = np.ones(size, np.bool_)
    new[1:] = differs
    return new


def _places(new: Array, ranked: Array | None) -> tuple[Array, Array]:
    """Which value each element is, and how often each occurs; with None they are in order."""
    running = np.cumsum(new, dtype=np.int64)
    running -= 1
    inverse = running
    if ranked is not None:
        inverse = np.empty(new.size, np.int64)
        inverse[ranked] = running
    return inverse, np.diff(np.append(np.nonzero(new)[0], new.size))


def unique2(
    self: Array, sorted: bool, return_inverse: bool, return_counts: bool
) -> tuple[Array, Array, Array]:
    """The distinct values in order; where each element went and the counts only if asked for."""
    if return_inverse or return_counts:
        values, inverse, counts = distinct(self, None, False)
        return values, inverse if return_inverse else _NONE, counts if return_counts else _NONE
    return _values(self), _NONE, _NONE


def unique_consecutive(
    self: Array, return_inverse: bool, return_counts: bool, dim: int | None
) -> tuple[Array, Array, Array]:
    """One value for each run of equals; the rest only if asked for."""
    if return_inverse or return_counts or dim is not None:
        values, inverse, counts = distinct(self, dim, True)
        return values, inverse if return_inverse else _NONE, counts if return_counts else _NONE
    flat = self.reshape(-1)
    found = selection.runs(flat)
    if found is None:
        keys = comparable(flat)
        found = flat[_news(keys[1:] != keys[:-1], flat.size)]
    return found, _NONE, _NONE


def _values(self: Array) -> Array:
    """The distinct values alone."""
    if self.dtype.kind in "iu" and self.size:
        low, high = int(self.min()), int(self.max())
        if high - low <= self.size:  # a table of all possible values is short
            occurs = np.zeros(high - low + 1, np.bool_)
            occurs[self.astype(np.int64, copy=False) - low] = True
            return (np.flatnonzero(occurs) + low).astype(self.dtype)
    values = np.sort(comparable(self), axis=None)
    values = values[_news(values[1:] != values[:-1], values.size)]
    return values.astype(self.dtype, copy=False)
