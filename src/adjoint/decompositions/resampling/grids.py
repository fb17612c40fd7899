"""Sampling at the places of a grid as gathers, with weights that are functions of the grid.

The weights along each dimension are polynomials of the place between its neighbours, so every
derivative in the grid follows, of any order, in both modes. At the kinks, where a place meets an
element or the border, the choices agree with `kernels/resampling/grids.py`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import product
from typing import Any

from adjoint import ops
from adjoint.checks import resampling
from adjoint.checks.resampling import BICUBIC, CUBIC, NEAREST, OUTSIDE, REFLECTION, ZEROS
from adjoint.core import dtypes
from adjoint.core.errors import ShapeError
from adjoint.core.records import record
from adjoint.core.shapes import Shape, show
from adjoint.decompositions.halves import wide

Tensor = Any


# --- PyTorch's operators -------------------------------------------------------------------------


def grid_sampler(
    input: Tensor, grid: Tensor, interpolation_mode: int, padding_mode: int, align_corners: bool
) -> Tensor:
    """The input at the places of the grid, in the plane or in space."""
    if input.ndim not in (4, 5):
        raise ShapeError(
            f"grid_sampler: needs an input of 4 or 5 dimensions, got {show(input.shape)}."
        )
    sampler = ops.grid_sampler_2d if input.ndim == 4 else ops.grid_sampler_3d
    return sampler(input, grid, interpolation_mode, padding_mode, align_corners)


def grid_sampler_2d(
    input: Tensor, grid: Tensor, interpolation_mode: int, padding_mode: int, align_corners: bool
) -> Tensor:
    """The input at the places of the grid, in the plane."""
    options = (interpolation_mode, padding_mode)
    resampling.check_grid("grid_sampler_2d", input, grid, 2, *options)
    return ops._grid_sample(input, grid, *options, align_corners)


def grid_sampler_3d(
    input: Tensor, grid: Tensor, interpolation_mode: int, padding_mode: int, align_corners: bool
) -> Tensor:
    """The input at the places of the grid, in space."""
    options = (interpolation_mode, padding_mode)
    resampling.check_grid("grid_sampler_3d", input, grid, 3, *options)
    return ops._grid_sample(input, grid, *options, align_corners)


def grid_sampler_2d_backward(
    grad_output: Tensor, input: Tensor, grid: Tensor, interpolation_mode: int, padding_mode: int,
    align_corners: bool, output_mask: Sequence[bool],
) -> tuple[Tensor | None, Tensor | None]:  # fmt: skip
    """The gradients of input and grid that are wanted; None for the others."""
    options = (interpolation_mode, padding_mode, align_corners)
    return _gradients("grid_sampler_2d", grad_output, input, grid, 2, options, output_mask)


def grid_sampler_3d_backward(
    grad_output: Tensor, input: Tensor, grid: Tensor, interpolation_mode: int, padding_mode: int,
    align_corners: bool, output_mask: Sequence[bool],
) -> tuple[Tensor | None, Tensor | None]:  # fmt: skip
    """The gradients of input and grid that are wanted; None for the others."""
    options = (interpolation_mode, padding_mode, align_corners)
    return _gradients("grid_sampler_3d", grad_output, input, grid, 3, options, output_mask)


def _gradients(
    what: str, grad_output: Tensor, input: Tensor, grid: Tensor, dims: int,
    options: tuple[int, int, bool], wanted: Sequence[bool],
) -> tuple[Tensor | None, Tensor | None]:  # fmt: skip
    resampling.check_grid(what, input, grid, dims, *options[:2])
    shape = (*input.shape[:2], *grid.shape[1:-1])
    if tuple(grad_output.shape) != shape or grad_output.dtype is not input.dtype:
        raise ShapeError(
            f"{what}_backward: grad_output must have {show(shape)} and {input.dtype}, got "
            f"{show(grad_output.shape)} and {grad_output.dtype}."
        )
    of_input = of_grid = None
    if wanted[0]:
        of_input = ops._grid_sample_input_backward(grad_output, grid, input.shape, *options)
    if wanted[1]:
        of_grid = ops._grid_sample_grid_backward(grad_output, input, grid, *options)
    return of_input, of_grid


# --- sampling ------------------------------------------------------------------------------------


@record
class Tap:
    """One neighbour of every place, along one dimension."""

    index: Tensor  # inside the input, also where the tap is not used
    used: Tensor | None  # whether the tap is inside; None if all are
    weight: Tensor
    slope: Tensor  # the derivative of the weight by the coordinate of the grid


def grid_sample(
    input: Tensor, grid: Tensor, interpolation_mode: int, padding_mode: int, align_corners: bool
) -> Tensor:
    """The sum over the taps of their weights times the elements there."""
    resampling.check_sampling("grid_sampler", input.shape, grid.shape)
    axes = _axes(grid, input.shape[2:], interpolation_mode, padding_mode, align_corners)
    flat = _flat(wide(input))
    total: Tensor = 0
    for taps, index in _taps(axes, flat, input.shape[2:]):
        weight = _product([tap.weight for tap in taps])  # NaN stays, also outside
        total = total + _masked(taps, flat.gather(2, index)) * weight.unsqueeze(1)
    return total.reshape((*input.shape[:2], *grid.shape[1:-1])).to(input.dtype)


def grid_sample_input_backward(
    grad_output: Tensor, grid: Tensor, input_size: Shape, interpolation_mode: int,
    padding_mode: int, align_corners: bool,
) -> Tensor:  # fmt: skip
    """The sum over the taps of their weights times the gradients, at the elements there."""
    shapes = input_size, grid.shape, grad_output.shape
    resampling.check_sampling("grid_sampler_backward", *shapes)
    sizes = tuple(input_size[2:])
    axes = _axes(grid, sizes, interpolation_mode, padding_mode, align_corners)
    flat = _flat(wide(grad_output))
    shape = (*flat.shape[:2], math.prod(sizes))
    total: Tensor = 0
    for taps, index in _taps(axes, flat, sizes):
        weight = _product([tap.weight for tap in taps]).unsqueeze(1)
        part = _masked(taps, flat * weight)
        total = total + ops._gather_backward(part, shape, 2, index)
    return total.reshape(input_size).to(grad_output.dtype)


def grid_sample_grid_backward(
    grad_output: Tensor, input: Tensor, grid: Tensor, interpolation_mode: int, padding_mode: int,
    align_corners: bool,
) -> Tensor:  # fmt: skip
    """The sum over the taps of (grad · element) times the derivatives of their weights."""
    shapes = input.shape, grid.shape, grad_output.shape
    resampling.check_sampling("grid_sampler_backward", *shapes)
    if interpolation_mode == NEAREST:
        return ops.zeros_like(grid)
    axes = _axes(grid, input.shape[2:], interpolation_mode, padding_mode, align_corners)
    flat, grads = _flat(wide(input)), _flat(wide(grad_output))
    totals: list[Tensor] = [0] * len(axes)
    for taps, index in _taps(axes, grads, input.shape[2:]):
        along = (_masked(taps, flat.gather(2, index)) * grads).sum(1)
        for moved in range(len(axes)):
            factors = [t.slope if i == moved else t.weight for i, t in enumerate(taps)]
            totals[moved] = totals[moved] + along * _product(factors)
    return ops.stack(totals[::-1], -1).reshape(grid.shape).to(grid.dtype)


def _flat(x: Tensor) -> Tensor:
    """(batch, channels, elements)"""
    return x.reshape((*x.shape[:2], math.prod(x.shape[2:])))


def _product(factors: Sequence[Tensor]) -> Tensor:
    result, *others = factors
    for factor in others:
        result = result * factor
    return result


def _masked(taps: Sequence[Tap], values: Tensor) -> Tensor:
    """Values of a tap, (batch, channels, places); 0 where the tap is outside."""
    masks = [tap.used for tap in taps if tap.used is not None]
    if not masks:
        return values
    used, *others = masks
    for mask in others:
        used = used & mask
    return ops.where(used.unsqueeze(1), values, 0)


def _taps(
    axes: Sequence[Sequence[Tap]], like: Tensor, sizes: Shape
) -> Iterator[tuple[tuple[Tap, ...], Tensor]]:
    """The taps of all dimensions together, with the index in the flat input for each channel."""
    for taps in product(*axes):
        index: Tensor = 0
        for tap, size in zip(taps, sizes, strict=True):
            index = index * size + tap.index
        yield taps, index.unsqueeze(1).expand((like.shape[0], like.shape[1], index.shape[-1]))


# --- taps along one dimension --------------------------------------------------------------------


def _axes(
    grid: Tensor, sizes: Shape, mode: int, padding: int, align_corners: bool
) -> list[list[Tap]]:
    """The taps along each dimension; the last coordinate of the grid is of the first dimension."""
    flat = wide(grid).reshape((grid.shape[0], math.prod(grid.shape[1:-1]), grid.shape[-1]))
    return [
        _along(flat.select(2, len(sizes) - 1 - d), size, len(sizes), mode, padding, align_corners)
        for d, size in enumerate(sizes)
    ]


def _along(
    coordinate: Tensor, size: int, dims: int, mode: int, padding: int, align_corners: bool
) -> list[Tap]:
    slope = (size - 1) / 2 if align_corners else size / 2
    place = (coordinate + 1) * slope if align_corners else (coordinate + 1) * slope - 0.5
    if mode == BICUBIC:
        return [_cubic(place, n, slope, size, padding, align_corners) for n in range(-1, 3)]
    slopes = ops.full_like(place, slope)
    if padding != ZEROS:
        place, slopes = _brought_back(place, slopes, size, padding, align_corners)
        place = ops.where(place.isnan(), 0.0 if dims == 2 else size - 1.0, place)
    elif dims == 3:
        place = ops.where(place.isfinite(), place, OUTSIDE)
    if mode == NEAREST:
        index, used = _inside(place.round(), size, padding)
        return [Tap(index, used, ops.ones_like(place), ops.zeros_like(place))]
    first = place.floor()
    t = place - first
    low, high = _inside(first, size, padding), _inside(first + 1, size, ZEROS)
    return [Tap(*low, 1 - t, -slopes), Tap(*high, t, slopes)]


def _cubic(
    place: Tensor, near: int, slope: float, size: int, padding: int, align_corners: bool
) -> Tap:
    """One of four neighbours, which is brought back by itself."""
    first = place.floor()
    x = place - first - near
    tap = first + near
    if padding != ZEROS:
        tap, _ = _brought_back(tap, tap, size, padding, align_corners)
    # the cubic convolution kernel (Keys 1981), of |x| up to 1 for the two in the middle
    a, r, sign = CUBIC, (x if near <= 0 else -x), (1 if near <= 0 else -1)
    if near in (0, 1):
        weight = ((a + 2) * r - (a + 3)) * r * r + 1
        change = (3 * (a + 2) * r - 2 * (a + 3)) * r
    else:
        weight = ((a * r - 5 * a) * r + 8 * a) * r - 4 * a
        change = (3 * a * r - 10 * a) * r + 8 * a
    return Tap(*_inside(tap, size, padding), weight, change * (sign * slope))


def _brought_back(
    place: Tensor, slopes: Tensor, size: int, padding: int, align_corners: bool
) -> tuple[Tensor, Tensor]:
    """The places brought back inside, and their derivatives in the given places."""
    if padding == REFLECTION:
        low, span = (0.0, size - 1) if align_corners else (-0.5, size)
        if span == 0:
            return ops.zeros_like(place), ops.zeros_like(place)
        away = place - low
        before = away < 0
        distance = ops.where(before, -away, away)
        odd = (distance / span).floor().fmod(2) == 1
        rest = distance.fmod(span)
        slopes = ops.where(before != odd, -slopes, slopes)
        place = ops.where(odd, span - rest, rest) + low
    inside = (place > 0) & (place < size - 1)
    bounded = place.detach().clamp(0, size - 1)
    return ops.where(inside, place, bounded), ops.where(inside, slopes, 0)


def _inside(place: Tensor, size: int, padding: int) -> tuple[Tensor, Tensor | None]:
    """Whole places as indices, and which of them are inside; None if all are."""
    place = place.detach()
    used = (place >= 0) & (place <= size - 1)
    index = ops.where(used, place, 0).to(dtypes.int64)
    return index, used if padding == ZEROS else None
