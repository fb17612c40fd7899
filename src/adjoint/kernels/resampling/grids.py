"""Sampling at the places of a grid, and its derivatives.

A place has taps, each with the number of an element and a weight, the product of one weight along
each dimension. Native code (c_kernels/resampling.c) adds them up; without it they are the rows of a
sparse matrix, which multiplies a whole batch with its channels last.

What PyTorch does at the edges: coordinates beyond the border are brought back (padding modes 1, 2)
or their taps are zeros (mode 0); a coordinate on the border or beyond it does not move its
result in modes 1 and 2. A coordinate that is not a number counts as the first element in the plane
and as the last in space; where padding is by zeros its result is NaN in the plane, 0 in space.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from adjoint.c_kernels import resampling as native
from adjoint.checks import resampling
from adjoint.checks.resampling import BICUBIC, NEAREST, OUTSIDE, REFLECTION, ZEROS
from adjoint.core.dtypes import OF
from adjoint.core.lazy import Lazy
from adjoint.core.records import record
from adjoint.core.shapes import Shape
from adjoint.kernels.halves import widen
from adjoint.kernels.resampling import filters

Array = np.ndarray[Any, np.dtype[Any]]

sparse = Lazy("scipy.sparse")


def grid_sample(
    input: Array, grid: Array, interpolation_mode: int, padding_mode: int, align_corners: bool
) -> Array:
    """The input at the places of the grid."""
    resampling.check_floating("grid_sampler", OF[input.dtype], OF[grid.dtype])
    resampling.check_sampling("grid_sampler", input.shape, grid.shape)
    sizes, x = input.shape[2:], widen(input)
    taps = _taps(widen(grid), sizes, interpolation_mode, padding_mode, align_corners)
    elements, weights = taps.elements(sizes), _products(taps.weights)
    found = native.sample(elements, weights, x, grid.shape[1:-1])
    if found is not None:
        return found.astype(input.dtype, copy=False)
    rows = _matrix(elements, weights, grid.shape[0], sizes) @ _rows(x)
    return _channels(rows, grid.shape[:-1], input.dtype)


def grid_sample_input_backward(
    grad_output: Array, grid: Array, input_size: Shape, interpolation_mode: int,
    padding_mode: int, align_corners: bool,
) -> Array:  # fmt: skip
    """Each gradient is spread over the taps of its place."""
    resampling.check_floating("grid_sampler_backward", OF[grad_output.dtype], OF[grid.dtype])
    resampling.check_sampling(
        "grid_sampler_backward", tuple(input_size), grid.shape, grad_output.shape
    )
    count, channels, *_ = input_size
    sizes, gradients = tuple(input_size[2:]), widen(grad_output)
    taps = _taps(widen(grid), sizes, interpolation_mode, padding_mode, align_corners)
    elements, weights = taps.elements(sizes), _products(taps.weights)
    found = native.spread(elements, weights, gradients, sizes)
    if found is not None:
        return found.astype(grad_output.dtype, copy=False)
    matrix = _matrix(elements, weights, count, sizes)
    rows = matrix.T @ _last(gradients).reshape(matrix.shape[0], channels)
    inside = rows.reshape(count, math.prod(sizes) + 1, channels)[:, :-1]
    return _channels(inside, (count, *sizes), grad_output.dtype)


def grid_sample_grid_backward(
    grad_output: Array, input: Array, grid: Array, interpolation_mode: int, padding_mode: int,
    align_corners: bool,
) -> Array:  # fmt: skip
    """How the sum of products with grad_output changes with each coordinate of the grid."""
    dtypes = (OF[grad_output.dtype], OF[input.dtype], OF[grid.dtype])
    resampling.check_floating("grid_sampler_backward", *dtypes)
    resampling.check_sampling("grid_sampler_backward", input.shape, grid.shape, grad_output.shape)
    if interpolation_mode == NEAREST:
        return np.zeros_like(grid)
    sizes, x, gradients = input.shape[2:], widen(input), widen(grad_output)
    taps = _taps(widen(grid), sizes, interpolation_mode, padding_mode, align_corners)
    elements = taps.elements(sizes)
    along = native.products(elements, x, gradients)
    if along is None:
        along = _along(elements, x, gradients)
    slopes, result = taps.slopes(), np.empty((along.shape[1], len(sizes)), along.dtype)
    for moved in range(len(sizes)):
        factors = taps.weights.copy()
        factors[:, moved] = slopes[:, moved]
        # coordinates are counted from the last dimension
        np.einsum("kp,kp->p", along, _products(factors), out=result[:, len(sizes) - 1 - moved])
    return result.reshape(grid.shape).astype(grid.dtype, copy=False)


def _along(elements: Array, x: Array, gradients: Array) -> Array:
    """The sums over channels of the element of each tap times the gradient of its place."""
    rows, columns = _rows(x), _columns(elements, x.shape[0], math.prod(x.shape[2:]))
    last = _last(gradients).reshape(elements.shape[1], x.shape[1])
    result = np.empty(elements.shape, x.dtype)
    for k, chosen in enumerate(columns):
        np.einsum("pc,pc->p", rows[chosen], last, out=result[k])
    return result


def _last(x: Array) -> Array:
    """The array with its channels last."""
    return np.ascontiguousarray(np.moveaxis(x, 1, -1))


def _rows(x: Array) -> Array:
    """The channels of each element as a row; each sample ends with a row of zeros."""
    count, channels, size = *x.shape[:2], math.prod(x.shape[2:])
    rows = np.empty((count, size + 1, channels), x.dtype)
    rows[:, :size] = x.reshape(count, channels, size).swapaxes(1, 2)
    rows[:, size] = 0
    return rows.reshape(count * (size + 1), channels)


def _channels(rows: Array, places: Shape, dtype: Any) -> Array:
    """Rows of channels as a batch of channels."""
    last = rows.reshape(*places, rows.shape[-1]).astype(dtype, copy=False)
    return np.ascontiguousarray(np.moveaxis(last, -1, 1))


def _matrix(elements: Array, weights: Array, count: int, sizes: Shape) -> Any:
    """The matrix of all places, which multiplies `_rows`."""
    taps, places = weights.shape
    columns = _columns(elements, count, math.prod(sizes))
    ends = np.arange(0, taps * places + 1, taps, dtype=columns.dtype)
    data, chosen = (np.ascontiguousarray(a.T).reshape(-1) for a in (weights, columns))
    return sparse.csr_array((data, chosen, ends), (places, count * (math.prod(sizes) + 1)))


def _columns(elements: Array, count: int, size: int) -> Array:
    """The row in `_rows` of each tap of each place; taps outside have the row of zeros."""
    taps, places = elements.shape
    whole: Any = np.int32 if max(count * (size + 1), elements.size) < 2**31 else np.int64
    each = elements.reshape(taps, count, places // max(count, 1)).astype(whole)
    each += np.arange(count, dtype=whole)[:, None] * (size + 1)
    return each.reshape(taps, places)


# --- taps ----------------------------------------------------------------------------------------


@record
class Taps:
    """The neighbours of every place along each dimension; all arrays are (taps, dims, places)."""

    indices: Array  # so large outside that the number of the element is, too
    weights: Array
    slopes: Callable[[], Array]  # makes the derivatives of the weights by the coordinates

    def elements(self, sizes: Shape) -> Array:
        """The number of the element of each tap of all dimensions; outside how many there are."""
        found = self.indices[:, 0]
        for d in range(1, len(sizes)):
            found = _pairs(np.add, found * sizes[d], self.indices[:, d])
        return np.minimum(found, math.prod(sizes), out=found)


def _products(factors: Array) -> Array:
    """The products of one factor along each dimension, for each tap of all dimensions."""
    found = factors[:, 0]
    for d in range(1, factors.shape[1]):
        found = _pairs(np.multiply, found, factors[:, d])
    return found


def _pairs(function: np.ufunc, a: Array, b: Array) -> Array:
    """The function of each row of one matrix with each row of another."""
    return function(a[:, None], b[None]).reshape(len(a) * len(b), a.shape[-1])


def _taps(grid: Array, sizes: Shape, mode: int, padding: int, align_corners: bool) -> Taps:
    """The taps of all places; the last coordinate of the grid is of the first dimension."""
    dims = len(sizes)
    coordinates = np.ascontiguousarray(grid.reshape(grid.size // dims, dims).T[::-1])
    size = np.array(sizes, grid.dtype)[:, None]
    # -1 and 1 are the centres of the elements at the ends, or their outer edges
    slope = (size - 1) / 2 if align_corners else size / 2
    place = (coordinates + 1) * slope
    if not align_corners:
        place -= 0.5
    outside = np.cumprod(sizes)[:, None]
    if mode == BICUBIC:
        return _cubic(place, slope, size, padding, align_corners, outside)
    if padding != ZEROS:
        place, slope = _brought_back(place, slope, size, padding, align_corners)
        lost = np.isnan(place)
        if lost.any():
            place = np.where(lost, 0 if dims == 2 else size - 1, place)
    elif dims == 3:
        place = np.where(np.isfinite(place), place, OUTSIDE)
    if mode == NEAREST:
        indices = _whole(np.rint(place)[None], size, outside)
        return Taps(indices, np.ones(indices.shape, grid.dtype), lambda: np.zeros(indices.shape))
    first = np.floor(place)
    t = place - first
    slopes = np.broadcast_to(slope, place.shape)
    indices = _whole(np.stack((first, first + 1)), size, outside)
    return Taps(indices, np.stack((1 - t, t)), lambda: np.stack((-slopes, slopes)))


def _cubic(
    place: Array, slope: Array, size: Array, padding: int, align_corners: bool, outside: Array
) -> Taps:
    """Four taps; each is brought back inside separately."""
    near = np.arange(-1, 3, dtype=place.dtype)[:, None, None]
    first = np.floor(place)
    t, taps = place - first, first + near
    if padding != ZEROS:
        taps, _ = _brought_back(taps, slope, size, padding, align_corners)
    indices = _whole(taps, size, outside)
    return Taps(indices, filters.cubic_weights(t), lambda: filters.cubic_slopes(t) * slope)


def _brought_back(
    place: Array, slope: Array, size: Array, padding: int, align_corners: bool
) -> tuple[Array, Array]:
    """The places brought back inside, and their derivatives in the given places."""
    if padding == REFLECTION:
        low, span = (0.0, size - 1) if align_corners else (-0.5, size)
        away = place - low
        distance = np.abs(away)
        odd = np.floor(distance / span) % 2 == 1
        rest = np.fmod(distance, span)
        slope = np.where((away < 0) != odd, -slope, slope)
        place = np.where(span == 0, 0, np.where(odd, span - rest, rest) + low)
    slope = np.where((place > 0) & (place < size - 1), slope, 0)
    return np.clip(place, 0, size - 1), slope


def _whole(place: Array, size: Array, outside: Array) -> Array:
    """Integer places as indices; places outside the input get the index `outside`."""
    inside = (place >= 0) & (place <= size - 1)
    whole: Any = np.int32 if 3 * outside[-1, 0] < 2**31 else np.int64
    if inside.all():
        return place.astype(whole)
    return np.where(inside, place, outside).astype(whole)
