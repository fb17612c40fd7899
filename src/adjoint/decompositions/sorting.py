"""Sorting, selecting and counting in terms of smaller operators."""

from __future__ import annotations

import math
from typing import Any

from adjoint import ops
from adjoint.core import dtypes
from adjoint.core.errors import ShapeError, ValueRangeError
from adjoint.core.selection import axis_of, check_count, check_quantile
from adjoint.core.shapes import wrap_dim

Tensor = Any
Three = tuple[Tensor, Tensor, Tensor]


def topk(self: Tensor, k: int, dim: int, largest: bool, sorted: bool) -> tuple[Tensor, Tensor]:
    """The first k in order."""
    axis = wrap_dim("topk", dim, self.ndim)
    check_count("topk", self.shape, axis, k, 0)
    values, indices = self.sort(dim, largest)
    if self.ndim == 0:
        return values, indices
    return values.narrow(axis, 0, k), indices.narrow(axis, 0, k)


def kthvalue(self: Tensor, k: int, dim: int, keepdim: bool) -> tuple[Tensor, Tensor]:
    """The k-th in order."""
    axis = axis_of("kthvalue", self.shape, dim)
    check_count("kthvalue", self.shape, axis, k, 1)
    values, indices = self.sort(dim)
    if self.ndim == 0:
        return values, indices
    if keepdim:
        return values.narrow(axis, k - 1, 1), indices.narrow(axis, k - 1, 1)
    return values.select(axis, k - 1), indices.select(axis, k - 1)


# quantiles ---------------------------------------------------------------------------------------


def quantile(self: Tensor, q: Tensor, dim: int | None, keepdim: bool, interpolation: str) -> Tensor:
    """The elements at rank q (n - 1), or between two of them; NaN if there is one."""
    return _quantile("quantile", self, q, dim, keepdim, interpolation)


def nanquantile(
    self: Tensor, q: Tensor, dim: int | None, keepdim: bool, interpolation: str
) -> Tensor:
    """The quantiles of the elements that are numbers."""
    return _quantile("nanquantile", self, q, dim, keepdim, interpolation)


def _quantile(
    what: str, self: Tensor, q: Tensor, dim: int | None, keepdim: bool, interpolation: str
) -> Tensor:
    check_quantile(what, self.shape, self.dtype, q.ndim, q.dtype, interpolation)
    rows = self.reshape((-1,)) if dim is None or self.ndim == 0 else self.movedim(dim, -1)
    ordered = rows.sort(-1)[0]
    ranks = _ranks(ordered, ops._probability(q.reshape((-1,))), what == "nanquantile")
    result = _at_ranks(ordered, ranks, interpolation)
    if self.ndim == 0:
        return result.reshape(q.shape)
    if keepdim:
        kept = (1,) * self.ndim + (-1,)
        result = (
            result.reshape(kept)
            if dim is None
            else result.unsqueeze(-2).movedim(-2, dim - (dim < 0))
        )
    return result.movedim(-1, 0) if q.ndim else result.squeeze(-1)


def _ranks(ordered: Tensor, q: Tensor, ignore_nan: bool) -> Tensor:
    """Where the quantiles are among the ordered elements; NaN stands last, and counts or does not."""
    last = ordered.shape[-1] - 1
    if ignore_nan:
        numbers = (~ordered.isnan()).sum((-1,), True)
        return q * (numbers - 1).clamp(0).to(q.dtype)
    return (q * last).masked_fill(ordered.narrow(-1, last, 1).isnan(), last)


def _at_ranks(ordered: Tensor, ranks: Tensor, interpolation: str) -> Tensor:
    """The elements at `ranks`, or between."""
    if interpolation == "nearest":
        return ordered.gather(-1, ranks.round().to(dtypes.int64))
    low, high = ranks.detach().floor(), ranks.detach().ceil()
    if interpolation == "higher":
        return ordered.gather(-1, high.to(dtypes.int64))
    below = ordered.gather(-1, low.to(dtypes.int64))
    if interpolation == "lower":
        return below
    above = ordered.gather(-1, high.to(dtypes.int64))
    weight = ranks - low if interpolation == "linear" else ops.full_like(ranks, 0.5)
    return _between(below, above, weight, low == high)


def _between(below: Tensor, above: Tensor, weight: Tensor, same: Tensor) -> Tensor:
    """below + weight (above - below), without NaN where one of them is infinite."""
    infinite = below.isinf() | above.isinf()
    value = below.masked_fill(infinite, 0).lerp(above.masked_fill(infinite, 0), weight)
    return ops.where(infinite, ops.where(same, below, below + above), value)


def quantile_scalar(
    self: Tensor, q: float, dim: int | None, keepdim: bool, interpolation: str
) -> Tensor:
    """With a number for q."""
    wanted = ops.full((), q, dtype=self.dtype)
    return ops.quantile(self, wanted, dim, keepdim, interpolation=interpolation)


def nanquantile_scalar(
    self: Tensor, q: float, dim: int | None, keepdim: bool, interpolation: str
) -> Tensor:
    """With a number for q."""
    wanted = ops.full((), q, dtype=self.dtype)
    return ops.nanquantile(self, wanted, dim, keepdim, interpolation=interpolation)


# distinct values ---------------------------------------------------------------------------------


def unique(self: Tensor, sorted: bool, return_inverse: bool) -> tuple[Tensor, Tensor]:
    """The distinct values in order."""
    return unique2(self, sorted, return_inverse, False)[:2]


def unique2(self: Tensor, sorted: bool, return_inverse: bool, return_counts: bool) -> Three:
    """The distinct values in order."""
    return _asked_for(ops._distinct(self, None, False), return_inverse, return_counts)


def unique_consecutive(
    self: Tensor, return_inverse: bool, return_counts: bool, dim: int | None
) -> Three:
    """One value for each run of equals."""
    return _asked_for(ops._distinct(self, dim, True), return_inverse, return_counts)


def _asked_for(found: Three, return_inverse: bool, return_counts: bool) -> Three:
    values, inverse, counts = found
    none = ops.zeros((0,), dtype=dtypes.int64)
    return values, inverse if return_inverse else none, counts if return_counts else none


# searching and counting --------------------------------------------------------------------------


def searchsorted_scalar(
    sorted_sequence: Tensor, self: Any, out_int32: bool, right: bool, side: str | None, sorter: Any
) -> Tensor:
    """With a number to look up."""
    dtype = sorted_sequence.dtype
    if isinstance(self, float) and not dtype.is_floating_point:
        dtype = dtypes.float64  # exact among integers
    value = ops.full((), self, dtype=dtype)
    options = {"out_int32": out_int32, "right": right, "side": side, "sorter": sorter}
    return ops.searchsorted(sorted_sequence, value, **options)


def bucketize(self: Tensor, boundaries: Tensor, out_int32: bool, right: bool) -> Tensor:
    """Which of the intervals between `boundaries` each element is in."""
    if boundaries.ndim != 1:
        raise ShapeError(f"bucketize: boundaries must have one dimension, got {boundaries.ndim}")
    return ops.searchsorted(boundaries, self, out_int32=out_int32, right=right)


def bucketize_scalar(self: Any, boundaries: Tensor, out_int32: bool, right: bool) -> Tensor:
    """With a number to look up."""
    return searchsorted_scalar(boundaries, self, out_int32, right, None, None)


def isin(elements: Tensor, test_elements: Tensor, assume_unique: bool, invert: bool) -> Tensor:
    """Every pair compared."""
    found = (elements.unsqueeze(-1) == test_elements.reshape((-1,))).any(-1)
    return ~found if invert else found


def histogram_edges(
    self: Tensor, bins: Tensor, weight: Any, density: bool
) -> tuple[Tensor, Tensor]:
    """How many elements, or how much of their weight, lies between neighbouring `bins`."""
    if bins.ndim != 1 or bins.shape[0] < 2:
        raise ShapeError(f"histogram: bins must have one dimension and two edges, got {bins.shape}")
    if weight is not None and weight.shape != self.shape:
        raise ShapeError(f"histogram: weight has shape {weight.shape}, the input {self.shape}")
    flat, count = self.reshape((-1,)), bins.shape[0] - 1
    places = ops.searchsorted(bins, flat, right=True) - 1
    places = ops.where(flat == bins.select(0, count), count - 1, places)  # the last one is closed
    inside = (places >= 0) & (places < count)
    mass = ops.ones_like(flat) if weight is None else weight.reshape((-1,))
    mass = mass.masked_fill(~inside, 0)
    hist = mass.new_zeros((count,)).scatter_add(0, places.clamp(0, count - 1), mass)
    if density:
        hist = hist / hist.sum() / bins.diff()
    return hist, bins.clone()


def histogram(
    self: Tensor, bins: int, range: Any, weight: Any, density: bool
) -> tuple[Tensor, Tensor]:
    """With `bins` equal parts of a range, or of that of the elements."""
    if bins <= 0:
        raise ValueRangeError(f"histogram: bins must be positive, got {bins}")
    low, high = _bounds(self, range)
    steps = ops.arange(bins + 1, dtype=self.dtype) / bins
    edges = low.lerp(high, steps)
    return histogram_edges(self, edges, weight, density)


def _bounds(self: Tensor, range: Any) -> tuple[Tensor, Tensor]:
    if range is not None:
        low, high = range
        if not (math.isfinite(low) and math.isfinite(high) and low <= high):
            raise ValueRangeError(f"histogram: range must go up and be finite, got {low}, {high}")
        low, high = (ops.full((), bound, dtype=self.dtype) for bound in (low, high))
    elif self.numel() == 0:
        low, high = (ops.full((), bound, dtype=self.dtype) for bound in (0, 1))
    else:
        low, high = self.detach().aminmax()
    flat = (low == high).to(self.dtype) / 2
    return low - flat, high + flat
