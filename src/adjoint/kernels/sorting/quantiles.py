"""Quantiles without gradients: a partition at the ranks that are wanted in place of a sort."""

from __future__ import annotations

import numpy as np

from adjoint.c_kernels import sorting
from adjoint.checks.sorting import check_quantile
from adjoint.core import dtypes
from adjoint.core.errors import ValueRangeError
from adjoint.core.shapes import wrap_dim
from adjoint.kernels.sorting.order import Array, last_axis, take

_MANY = 8  # ranks from which on a sort is as fast as a partition


def quantile(self: Array, q: Array, dim: int | None, keepdim: bool, interpolation: str) -> Array:
    """The elements at rank q (n - 1), or between two of them; NaN if there is one."""
    return _quantile("quantile", self, q, dim, keepdim, interpolation)


def nanquantile(self: Array, q: Array, dim: int | None, keepdim: bool, interpolation: str) -> Array:
    """The quantiles of the elements that are numbers."""
    return _quantile("nanquantile", self, q, dim, keepdim, interpolation)


def _quantile(
    what: str, self: Array, q: Array, dim: int | None, keepdim: bool, interpolation: str
) -> Array:
    check_quantile(
        what, self.shape, dtypes.of(self.dtype), q.ndim, dtypes.of(q.dtype), interpolation
    )
    every = dim is None or self.ndim == 0
    axis = wrap_dim(what, 0 if dim is None else dim, self.ndim)
    rows = self.reshape(-1) if every else last_axis(self, axis)
    wanted, ignore_nan = within(q.reshape(-1), 0, 1, f"{what}: q"), what == "nanquantile"
    found = sorting.quantiles(rows, wanted, interpolation, ignore_nan=ignore_nan)
    if found is None:
        result = _rows(rows, wanted, ignore_nan, interpolation)
    else:
        result = np.moveaxis(found, 0, -1)
    if keepdim and self.ndim:
        result = result.reshape((1,) * self.ndim + (-1,)) if every else np.expand_dims(result, axis)
    result = np.moveaxis(result, -1, 0) if q.ndim else result[..., 0]
    return np.ascontiguousarray(result) if result.ndim else result


def _rows(rows: Array, q: Array, ignore_nan: bool, interpolation: str) -> Array:
    """The quantiles of each row, along the last axis."""
    last = rows.shape[-1] - 1
    nan = np.isnan(rows)
    count = last - np.count_nonzero(nan, axis=-1, keepdims=True) if ignore_nan else last
    ranks = q * np.maximum(count, 0).astype(rows.dtype) if ignore_nan else q * rows.dtype.type(last)
    any_nan = bool(nan.any())
    if any_nan and not ignore_nan:
        ranks = np.where(nan.any(axis=-1, keepdims=True), last, ranks)
    ranks = np.broadcast_to(ranks, (*rows.shape[:-1], q.size))
    if interpolation == "nearest":
        ranks = np.rint(ranks)
    low, high = np.floor(ranks).astype(np.int64), np.ceil(ranks).astype(np.int64)
    if any_nan or q.size > _MANY:
        ordered = np.sort(rows, axis=-1)
    else:  # without NaN all rows have the same ranks
        wanted = np.unique((low[(0,) * (low.ndim - 1)], high[(0,) * (low.ndim - 1)]))
        ordered = np.partition(rows, wanted, axis=-1) if wanted.size else rows
    if interpolation in ("lower", "nearest"):
        return take(ordered, low, -1)
    above = take(ordered, high, -1)
    if interpolation == "higher":
        return above
    weight = ranks - low if interpolation == "linear" else rows.dtype.type(0.5)
    return _between(take(ordered, low, -1), above, weight.astype(rows.dtype), low == high)


def _between(below: Array, above: Array, weight: Array, same: Array) -> Array:
    """below + weight (above - below) from the nearer end, without NaN where one is infinite."""
    with np.errstate(invalid="ignore"):
        step = above - below
        value = np.where(weight < 0.5, below + weight * step, above - step * (1 - weight))
        infinite = np.isinf(below) | np.isinf(above)
        if infinite.any():
            value = np.where(infinite, np.where(same, below, below + above), value)
    return value


def within(self: Array, low: float, high: float, what: str) -> Array:
    """The argument, which must lie in [low, high]."""
    if self.size and not (self.min() >= low and self.max() <= high):
        outside = self[~((self >= low) & (self <= high))].flat[0]
        bounds = f"in the range [{low}, {high}]"
        if high == np.finfo(np.float64).max:
            bounds = "finite" if low < 0 else f"at least {low}"
        raise ValueRangeError(f"{what} must be {bounds}, got {outside}")
    return self.copy()
