"""Grids of affine maps: the map applied to every place of a regular grid from -1 to 1."""

from __future__ import annotations

from typing import Any

from adjoint import ops
from adjoint.checks import resampling
from adjoint.core.errors import ShapeError
from adjoint.core.shapes import Shape, show

Tensor = Any


def _centres(count: int, align_corners: bool, dtype: Any) -> Tensor:
    """-1 to 1 are the centres of the elements at the ends, or their outer edges."""
    if count <= 1:
        return ops.zeros((count,), dtype=dtype)
    steps = ops.linspace(-1, 1, count, dtype=dtype)
    return steps if align_corners else steps * (count - 1) / count


def _places(size: Shape, align_corners: bool, dtype: Any) -> Tensor:
    """The coordinates of every element, the last dimension's first, and 1: (places, dims + 1)."""
    sizes = size[2:]
    columns = []
    for dim, count in reversed(list(enumerate(sizes))):
        steps = _centres(count, align_corners, dtype)
        columns.append(steps.reshape((-1, *(1,) * (len(sizes) - 1 - dim))).expand(sizes))
    columns.append(ops.ones(sizes, dtype=dtype))
    return ops.stack(columns, -1).reshape((-1, len(sizes) + 1))


def affine_grid_generator(theta: Tensor, size: Shape, align_corners: bool) -> Tensor:
    """grid[n, place] = theta[n] (place, 1)."""
    resampling.check_affine("affine_grid_generator", tuple(theta.shape), size)
    places = _places(size, align_corners, theta.dtype)
    return ops.matmul(places, theta.mT).reshape((*(size[0], *size[2:]), len(size) - 2))


def affine_grid_generator_backward(grad: Tensor, size: Shape, align_corners: bool) -> Tensor:
    """The transpose: Σ over places of grad (place, 1)ᵀ."""
    what, dims = "affine_grid_generator_backward", len(size) - 2
    resampling.check_affine(what, (size[0], dims, dims + 1), size)
    wanted = (size[0], *size[2:], dims)
    if tuple(grad.shape) != wanted:
        raise ShapeError(
            f"{what}: size={tuple(size)} makes grids of {show(wanted)}, got {show(grad.shape)}."
        )
    places = _places(size, align_corners, grad.dtype)
    return ops.matmul(grad.reshape((size[0], -1, dims)).mT, places)
