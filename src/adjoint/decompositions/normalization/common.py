"""Shared by normalizations: moments, and statistics that belong to an input.

Note [Statistics belong to the input]: the backward of a normalization is given the mean and 1/σ as
numbers, and they are functions of the input. Its own derivative goes through them: `attached` gives
them the derivative that the input says, and none of their own.
"""

from __future__ import annotations

from typing import Any

from adjoint import ops
from adjoint.core import dtypes
from adjoint.core.shapes import Shape
from adjoint.decompositions.halves import wide
from adjoint.decompositions.reduction import SAFE, scales

Tensor = Any


def moments(x: Tensor, dims: Shape) -> tuple[Tensor, Tensor, Tensor]:
    """The mean, the distances from it, and the variance."""
    mean = x.mean(dims, True)
    centered = x - mean
    return mean, centered, (centered * centered).mean(dims, True)


def inverse_deviation(centered: Tensor, square: Tensor, dims: Shape, eps: float) -> Tensor:
    """1/√(square + eps), where `square` is mean(centered²).

    Where the square overflows, or underflows while eps is as small, the input is scaled to the size
    of 1 first.
    """
    quick = (square + eps).rsqrt()
    if centered.is_complex() or not centered.numel():
        return quick
    least, most = SAFE[square.dtype]
    lost = square >= most
    if eps < least:
        lost = lost | (square + eps <= least)
    size = scales(centered, dims)
    deviation = ((centered / size) ** 2).mean(dims, True).sqrt() * size
    careful = ops.hypot(deviation, ops.full_like(deviation, eps).sqrt()).reciprocal()
    return ops._mostly(lost.logical_not(), quick, careful)


def attached(input: Tensor, dims: Shape, mean: Tensor, rstd: Tensor) -> tuple[Tensor, Tensor]:
    """x̂ and 1/σ, with the derivatives of mean and variance; see the note above."""
    x, scale = wide(input), wide(rstd).detach()
    middle = x.mean(dims, True)
    if mean.dtype.np not in dtypes.REDUCED:  # one that was rounded is computed again
        middle = with_slope_of(mean, middle)
    return moving((x - middle) * scale, scale, dims)


def moving(even: Tensor, scale: Tensor, dims: Shape) -> tuple[Tensor, Tensor]:
    """x r₀ and r₀ with the derivatives of x r and r, where r is 1/√(mean(x²) + eps).

    r = r₀ (1 + mean((x r₀)²) - mean((x r₀)²)₀)^-½, where only r₀ may be large or small.
    """
    square = (even * even).mean(dims, True)
    growth = (1 + (square - square.detach())).rsqrt()
    return with_slope_of(even, even * growth), with_slope_of(scale, scale * growth)


def with_slope_of(value: Tensor, smooth: Tensor) -> Tensor:
    """A value with the derivatives of another."""
    return value.detach() + (smooth - smooth.detach())


def returned(h: Tensor, normal: Tensor, rstd: Tensor, dims: Shape) -> Tensor:
    """The gradient of x from h, the gradient of x̂: r (h - mean(h) - x̂ mean(h x̂))."""
    return (h - h.mean(dims, True) - normal * (h * normal).mean(dims, True)) * rstd


def total(tensor: Tensor, dims: Shape) -> Tensor:
    """The sum over `dims`, where none means none."""
    return tensor.sum(dims) if dims else tensor


def scaled(result: Tensor, weight: Tensor | None, bias: Tensor | None) -> Tensor:
    """Times the weight, plus the bias, where there are any."""
    if weight is not None:
        result = result * wide(weight)
    return result if bias is None else result + wide(bias)
