"""Derivatives of normalizations that are too long for a row."""

from __future__ import annotations

from typing import Any

from adjoint import ops
from adjoint.core.shapes import Shape

Tensor = Any


def layer_norm_weight_vjp(
    grad: Tensor, input: Tensor, normalized_shape: Shape, mean: Tensor, rstd: Tensor
) -> Tensor:
    """w̄ = Σ ḡ x̂ over the samples."""
    return grad * ops._standardized(input, normalized_shape, mean, rstd)


def layer_norm_jvp(
    input: Tensor,
    input_t: Tensor | None,
    normalized_shape: Shape,
    mean: Tensor,
    rstd: Tensor,
    weight: Tensor | None,
    weight_t: Tensor | None,
    bias_t: Tensor | None,
) -> Tensor:
    """ẏ = w dx̂ + ẇ x̂ + ḃ, where the Jacobian of x̂ is symmetric."""
    total = ops.zeros_like(input)
    if input_t is not None:
        moved = ops._layer_norm_input_backward(input_t, input, normalized_shape, mean, rstd, None)
        total = moved if weight is None else moved * weight
    if weight_t is not None:
        total = total + ops._standardized(input, normalized_shape, mean, rstd) * weight_t
    return total if bias_t is None else total + bias_t
