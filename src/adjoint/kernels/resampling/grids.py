"""Sampling at the places of a grid, and its derivatives.

A place is a row of a sparse matrix: for each tap its index and weight, the product of one weight
along each dimension. The matrix of a whole batch multiplies the input with its channels last.

What PyTorch does at the edges: coordinates beyond the border are brought back (padding modes 1, 2)
or their taps count as zeros (mode 0); a coordinate on the border or beyond does not move its result
in mode 1. A coordinate that is not a number counts as 0 in the plane and as the last one in space,
where it must be some place; with padding by zeros its result is NaN in the plane, 0 in space.
"""

from __future__ import annotations

import math
from itertools import product
from typing import Any

import numpy as np

from adjoint.core.lazy import Lazy
from adjoint.core.records import record
from adjoint.core.shapes import Shape
from adjoint.kernels.pointwise import widen
from adjoint.kernels.resampling import filters

Array = np.ndarray[Any, np.dtype[Any]]

sparse = Lazy("scipy.sparse")
BILINEAR, NEAREST, BICUBIC = 0, 1, 2
ZEROS, BORDER, REFLECTION = 0, 1, 2
OUTSIDE = -100.0  # a coordinate whose taps all lie outside


@record
class Along:
    """The taps of all places along one dimension; one entry for each tap."""

    indices: tuple[Array, ...]  # inside the input, also where the tap is not used
    used: tuple[Array | None, ...]  # whether the tap lies inside; None where all do
    weights: tuple[Array, ...]
    slopes: tuple[Array, ...]  # the derivatives of the weights by the coordinate of the grid


def grid_sample(
    input: Array, grid: Array, interpolation_mode: int, padding_mode: int, align_corners: bool
) -> Array:
    """The input at the places of the grid."""
    sizes = input.shape[2:]
    axes = _axes(widen(grid), sizes, interpolation_mode, padding_mode, align_corners)
    # a weight that is NaN outside stays NaN, so that a place that is not a number shows
    matrix = _matrix(axes, [a.weights for a in axes], grid.shape[0], sizes, masks=False)
    rows = matrix @ _rows(widen(input))
    return _channels(rows, grid.shape[:-1], input.shape[1], input.dtype)


def grid_sample_input_backward(
    grad_output: Array, grid: Array, input_size: Shape, interpolation_mode: int,
    padding_mode: int, align_corners: bool,
) -> Array:  # fmt: skip
    """Each gradient is spread over the taps of its place."""
    count, channels, *sizes = input_size
    axes = _axes(widen(grid), tuple(sizes), interpolation_mode, padding_mode, align_corners)
    matrix = _matrix(axes, [a.weights for a in axes], count, tuple(sizes), masks=True)
    rows = matrix.T @ _rows(widen(grad_output))
    return _channels(rows, (count, *sizes), channels, grad_output.dtype)


def grid_sample_grid_backward(
    grad_output: Array, input: Array, grid: Array, interpolation_mode: int, padding_mode: int,
    align_corners: bool,
) -> Array:  # fmt: skip
    """How the sum of products with grad_output changes with each coordinate of the grid."""
    if interpolation_mode == NEAREST:
        return np.zeros_like(grid)
    sizes, count = input.shape[2:], grid.shape[0]
    axes = _axes(widen(grid), sizes, interpolation_mode, padding_mode, align_corners)
    rows, gradients = _rows(widen(input)), _rows(widen(grad_output))
    result = np.empty((gradients.shape[0], len(axes)), rows.dtype)
    for moved in range(len(axes)):
        factors = [a.slopes if i == moved else a.weights for i, a in enumerate(axes)]
        changes = _matrix(axes, factors, count, sizes, masks=True) @ rows
        # coordinates are counted from the last dimension
        np.einsum("pc,pc->p", changes, gradients, out=result[:, len(axes) - 1 - moved])
    return result.reshape(grid.shape).astype(grid.dtype, copy=False)


def _rows(x: Array) -> Array:
    """The channels of each element as a row."""
    count = x.shape[0] * math.prod(x.shape[2:])
    return np.ascontiguousarray(np.moveaxis(x, 1, -1)).reshape(count, x.shape[1])


def _channels(rows: Array, places: Shape, channels: int, dtype: Any) -> Array:
    """Rows of channels as a batch of channels."""
    last = rows.reshape(*places, channels).astype(dtype, copy=False)
    return np.ascontiguousarray(np.moveaxis(last, -1, 1))


def _matrix(axes: list[Along], factors: list[Any], count: int, sizes: Shape, *, masks: bool) -> Any:
    """The matrix of all places: products of one factor along each dimension."""
    places = axes[0].weights[0].size
    taps = list(product(*(range(len(a.indices)) for a in axes)))
    size = math.prod(sizes)
    whole: Any = np.int32 if max(count * size, places * len(taps)) < 2**31 else np.int64
    indices = np.empty((places, len(taps)), whole)
    weights = np.empty((places, len(taps)), axes[0].weights[0].dtype)
    start = np.repeat(np.arange(count, dtype=whole) * size, places // max(count, 1))
    for n, tap in enumerate(taps):
        flat, weight, used = 0, 1, None
        for axis, factor, length, k in zip(axes, factors, sizes, tap, strict=True):
            flat = flat * length + axis.indices[k]
            weight = weight * factor[k]
            used = _both(used, axis.used[k])
        indices[:, n] = start + flat
        if used is not None:
            weight = np.where(used, weight, 0) if masks else weight * used
        weights[:, n] = weight
    ends = np.arange(places + 1, dtype=whole) * len(taps)
    return sparse.csr_array(
        (weights.reshape(-1), indices.reshape(-1), ends), (places, count * size)
    )


def _both(a: Array | None, b: Array | None) -> Array | None:
    return b if a is None else a if b is None else a & b


# --- taps along one dimension --------------------------------------------------------------------


def _axes(grid: Array, sizes: Shape, mode: int, padding: int, align_corners: bool) -> list[Along]:
    """The taps along each dimension; the last coordinate of the grid is of the first dimension."""
    flat = grid.reshape(-1, grid.shape[-1])
    return [
        _along(flat[:, len(sizes) - 1 - d], size, len(sizes), mode, padding, align_corners)
        for d, size in enumerate(sizes)
    ]


def _along(
    coordinate: Array, size: int, dims: int, mode: int, padding: int, align_corners: bool
) -> Along:
    # -1 and 1 are the centres of the elements at the ends, or their outer edges
    slope = (size - 1) / 2 if align_corners else size / 2
    place = (coordinate + 1) * slope if align_corners else (coordinate + 1) * slope - 0.5
    if mode == BICUBIC:
        return _cubic(place, slope, size, padding, align_corners)
    slopes = np.full_like(place, slope)
    if padding != ZEROS:
        place, slopes = _brought_back(place, slopes, size, padding, align_corners)
        place = np.where(np.isnan(place), 0 if dims == 2 else size - 1, place)
    elif dims == 3:
        place = np.where(np.isfinite(place), place, OUTSIDE)
    if mode == NEAREST:
        indices, used = _inside(np.rint(place), size)
        ones = np.ones_like(place)
        return Along((indices,), (used,), (ones,), (np.zeros_like(place),))
    first = np.floor(place)
    t = place - first
    low, low_used = _inside(first, size)
    high, high_used = _inside(first + 1, size)
    return Along((low, high), (low_used, high_used), (1 - t, t), (-slopes, slopes))


def _cubic(place: Array, slope: float, size: int, padding: int, align_corners: bool) -> Along:
    """Four taps, of which each is brought back by itself."""
    first = np.floor(place)
    t = place - first
    found = []
    for near in range(-1, 3):
        tap = first + near
        if padding != ZEROS:
            tap, _ = _brought_back(tap, tap, size, padding, align_corners)
        weight, change = filters.cubic(t - near), filters.cubic_slope(t - near)
        found.append((*_inside(tap, size), weight, change * slope))
    return Along(*zip(*found, strict=True))


def _brought_back(
    place: Array, slopes: Array, size: int, padding: int, align_corners: bool
) -> tuple[Array, Array]:
    """Places inside, and the derivatives by what they were."""
    if padding == REFLECTION:
        low, span = (0.0, size - 1) if align_corners else (-0.5, size)
        if span == 0:
            return np.zeros_like(place), np.zeros_like(place)
        away = place - low
        turns = np.floor(np.abs(away) / span)
        rest = np.fmod(np.abs(away), span)
        odd = turns % 2 == 1
        slopes = np.where((away < 0) != odd, -slopes, slopes)
        place = np.where(odd, span - rest, rest) + low
    inside = (place > 0) & (place < size - 1)
    return np.clip(place, 0, size - 1), np.where(inside, slopes, 0)


def _inside(place: Array, size: int) -> tuple[Array, Array | None]:
    """Whole places as indices, and which of them are inside; None if all are."""
    used = (place >= 0) & (place <= size - 1)
    if used.all():
        return place.astype(np.int32), None
    return np.where(used, place, 0).astype(np.int32), used
