"""Shared by normalizations: moments, and statistics that belong to an input.

Note [Statistics belong to the input]: the backward of a normalization is given the mean and 1/σ as
numbers, and they are functions of the input. Its own derivative goes through them: `attached` gives
them the derivative that the input says, and none of their own.
"""

from __future__ import annotations

from typing import Any

from adjoint.core import dtypes
from adjoint.core.shapes import Shape

Tensor = Any


def wide(tensor: Tensor) -> Tensor:
    """At least in float32."""
    return tensor.to(dtypes.float32) if tensor.dtype.np in dtypes.REDUCED else tensor


def moments(x: Tensor, dims: Shape) -> tuple[Tensor, Tensor, Tensor]:
    """The mean, the distances from it, and the variance."""
    mean = x.mean(dims, True)
    centered = x - mean
    return mean, centered, (centered * centered).mean(dims, True)


def attached(input: Tensor, dims: Shape, mean: Tensor, rstd: Tensor) -> tuple[Tensor, Tensor]:
    """x̂ and 1/σ, with the derivatives of mean and variance; see the note above.

    r = (r₀⁻² + v - v₀)^-½, where r₀ and v₀ are r and the variance v as constants.
    """
    x, scale = wide(input), wide(rstd).detach()
    middle, _, variance = moments(x, dims)
    if mean.dtype.np not in dtypes.REDUCED:  # one that was rounded is computed again
        middle = with_slope_of(mean, middle)
    scale = moving(scale, variance)
    return (x - middle) * scale, scale


def moving(scale: Tensor, variance: Tensor) -> Tensor:
    """r₀ with the derivatives of (r₀⁻² + v - v₀)^-½."""
    change = scale * scale * (variance - variance.detach())
    return with_slope_of(scale, scale * (1 + change).rsqrt())


def with_slope_of(value: Tensor, smooth: Tensor) -> Tensor:
    """A value with the derivatives of another."""
    return value.detach() + (smooth - smooth.detach())


def returned(h: Tensor, normal: Tensor, rstd: Tensor, dims: Shape) -> Tensor:
    """The gradient of x from that of x̂: r (h - mean(h) - x̂ mean(h x̂))."""
    return (h - h.mean(dims, True) - normal * (h * normal).mean(dims, True)) * rstd


def total(tensor: Tensor, dims: Shape) -> Tensor:
    """The sum over `dims`, where none means none."""
    return tensor.sum(dims) if dims else tensor


def scaled(result: Tensor, weight: Tensor | None, bias: Tensor | None) -> Tensor:
    """Times the weight, plus the bias, where there are any."""
    if weight is not None:
        result = result * wide(weight)
    return result if bias is None else result + wide(bias)
