"""Sorting, selecting and counting in terms of smaller operators."""

from __future__ import annotations

import math
import sys
from typing import Any

from adjoint import ops
from adjoint.checks.sorting import FEW_NUMBERS, axis_of, check_count, check_quantile
from adjoint.core import dtypes
from adjoint.core.errors import ShapeError, ValueRangeError
from adjoint.core.promotion import result_type
from adjoint.core.shapes import Shape, wrap_dim
from adjoint.core.symbolic_sizes import is_open

Tensor = Any
Three = tuple[Tensor, Tensor, Tensor]

_FINITE = sys.float_info.max


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
    ranks = _ranks(
        ordered, ops._within(q.reshape((-1,)), 0, 1, f"{what}: q"), what == "nanquantile"
    )
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
    """Where the quantiles are among the ordered elements; NaN stands last, if it counts."""
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
    """The quantile for a number q."""
    wanted = ops.full((), q, dtype=self.dtype)
    return ops.quantile(self, wanted, dim, keepdim, interpolation=interpolation)


def nanquantile_scalar(
    self: Tensor, q: float, dim: int | None, keepdim: bool, interpolation: str
) -> Tensor:
    """The quantile without NaN for a number q."""
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
    """searchsorted of a number."""
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
    """bucketize of a number."""
    return searchsorted_scalar(boundaries, self, out_int32, right, None, None)


def isin(elements: Tensor, test_elements: Tensor, assume_unique: bool, invert: bool) -> Tensor:
    """Every pair compared; among many test elements, the place of each element is searched for."""
    others, count = test_elements.reshape((-1,)), math.prod(test_elements.shape)
    if is_open(count) or count > FEW_NUMBERS:
        common = result_type(elements, others)
        ordered, wanted = others.to(common).sort()[0], elements.to(common)
        found = ordered[ops.searchsorted(ordered, wanted).clamp(max=count - 1)] == wanted
    else:
        found = (elements.unsqueeze(-1) == others).any(-1)
    return ~found if invert else found


# histograms --------------------------------------------------------------------------------------


def histogram_edges(
    self: Tensor, bins: Tensor, weight: Any, density: bool
) -> tuple[Tensor, Tensor]:
    """The number of elements, or the sum of their weights, between neighbouring `bins`."""
    if weight is not None:
        _check_weight("histogram", self.shape, weight)
        weight = weight.reshape((-1,))
    hist, (edges,) = _histogram("histogram", self.reshape((-1, 1)), [bins], weight, density)
    return hist, edges


def histogram(
    self: Tensor, bins: int, range: Any, weight: Any, density: bool
) -> tuple[Tensor, Tensor]:
    """The histogram over `bins` equal parts of `range`, or of the range of the elements."""
    edges = _equal_parts("histogram", self, bins, range)
    return histogram_edges(self, edges, weight, density)


def histogramdd(
    self: Tensor, bins: Any, range: Any, weight: Any, density: bool
) -> tuple[Tensor, list[Tensor]]:
    """The number of points in each cell; the coordinates of a point are along the last dimension.

    `bins` has edges or the number of equal parts for each coordinate, or a number for all.
    """
    if self.ndim < 2:
        raise ShapeError(f"histogramdd: needs points along 2 dimensions or more, got {self.ndim}")
    count = self.shape[-1]
    bins = [bins] * count if isinstance(bins, int) else list(bins)
    if len(bins) != count:
        raise ShapeError(f"histogramdd: points have {count} coordinates, but bins {len(bins)}")
    if range is not None and len(range) != 2 * count:
        raise ShapeError(f"histogramdd: range needs {2 * count} numbers, got {len(range)}")
    if weight is not None:
        _check_weight("histogramdd", self.shape[:-1], weight)
        weight = weight.reshape((-1,))
    points = self.reshape((math.prod(self.shape[:-1]), count))
    for i, parts in enumerate(bins):
        if isinstance(parts, int):
            bounds = None if range is None else range[2 * i : 2 * i + 2]
            bins[i] = _equal_parts("histogramdd", points.select(1, i), parts, bounds)
    return _histogram("histogramdd", points, bins, weight, density)


def _check_weight(what: str, shape: Shape, weight: Tensor) -> None:
    if weight.shape != shape:
        raise ShapeError(f"{what}: weight has shape {weight.shape}, there are {shape} points")


def _histogram(
    what: str, points: Tensor, edges: list[Tensor], weight: Any, density: bool
) -> tuple[Tensor, list[Tensor]]:
    """The cell of each point: its place along each coordinate, as digits of one number."""
    mass = points.new_ones((points.shape[0],)) if weight is None else weight
    cells, shape = ops.zeros((points.shape[0],), dtype=dtypes.int64), []
    for i, bins in enumerate(edges):
        if bins.ndim != 1 or bins.shape[0] < 2:
            raise ShapeError(f"{what}: edges have one dimension and two elements at least")
        along, count = points.select(1, i), bins.shape[0] - 1
        inside = (along >= bins.select(0, 0)) & (along <= bins.select(0, count))
        mass = mass.masked_fill(~inside, 0)
        places = ops.searchsorted(bins, along.contiguous(), right=True) - 1
        cells = cells * count + places.clamp(0, count - 1)  # the last part has its right end
        shape.append(count)
    hist = mass.new_zeros((math.prod(shape),)).scatter_add(0, cells, mass).reshape(shape)
    if density:
        hist = hist / hist.sum()
        for i, bins in enumerate(edges):
            hist = hist / bins.diff().reshape((-1,) + (1,) * (len(shape) - 1 - i))
    return hist, [bins.clone() for bins in edges]


def _equal_parts(what: str, self: Tensor, bins: int, range: Any) -> Tensor:
    """The edges of `bins` equal parts of `range`, or of the range of the elements."""
    if bins <= 0:
        raise ValueRangeError(f"{what}: bins must be positive, got {bins}")
    if range is None and self.numel():
        low, high = self.detach().aminmax()
    else:
        low, high = (ops.full((), bound, dtype=self.dtype) for bound in range or (0, 1))
    if range is not None and range[0] > range[1]:
        raise ValueRangeError(f"{what}: range must go up, got {tuple(range)}")
    low, high = (ops._within(bound, -_FINITE, _FINITE, f"{what}: range") for bound in (low, high))
    flat = (low == high).to(self.dtype) / 2
    return (low - flat).lerp(high + flat, ops.arange(bins + 1, dtype=self.dtype) / bins)
