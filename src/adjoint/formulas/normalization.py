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


def layer_norm_input_jvp(
    input_t: Tensor, input: Tensor, normalized_shape: Shape, mean: Tensor, rstd: Tensor,
    weight: Tensor | None,
) -> Tensor:  # fmt: skip
    """w dx̂, where the Jacobian of x̂ is symmetric."""
    moved = ops._layer_norm_input_backward(input_t, input, normalized_shape, mean, rstd, None)
    return moved if weight is None else moved * weight
