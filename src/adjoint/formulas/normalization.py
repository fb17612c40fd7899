"""Derivatives of normalizations that are too long for a row."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from adjoint import ops
from adjoint.core.shapes import Shape

Tensor = Any


def layer_norm_vjp(
    grad: Tensor, input: Tensor, normalized_shape: Shape, mean: Tensor, rstd: Tensor,
    weight: Tensor | None, mask: Sequence[bool],
) -> tuple[Tensor | None, Tensor | None, Tensor | None]:  # fmt: skip
    """x̄ = rstd (h - mean(h) - x̂ mean(h x̂)) with h = ḡ w, w̄ = Σ ḡ x̂ and b̄ = Σ ḡ."""
    given = (grad, input, normalized_shape, mean, rstd, weight)
    if not (mask[1] or mask[2]):
        return ops._layer_norm_input_backward(*given), None, None
    of_input, of_weight, of_bias = ops._layer_norm_backward(*given)
    return of_input if mask[0] else None, of_weight if mask[1] else None, of_bias


def layer_norm_input_jvp(
    input_t: Tensor, input: Tensor, normalized_shape: Shape, mean: Tensor, rstd: Tensor,
    weight: Tensor | None,
) -> Tensor:  # fmt: skip
    """w dx̂, where the Jacobian of x̂ is symmetric."""
    moved = ops._layer_norm_input_backward(input_t, input, normalized_shape, mean, rstd, None)
    return moved if weight is None else moved * weight


def rms_norm_vjp(
    grad: Tensor | None, grad_rstd: Tensor | None, input: Tensor, normalized_shape: Shape,
    rstd: Tensor, weight: Tensor | None, eps: float | None, mask: Sequence[bool],
) -> tuple[Tensor | None, Tensor | None]:  # fmt: skip
    """x̄ = rstd (h - x̂ mean(h x̂)) - r̄ rstd² x̂ / n with h = ḡ w, and w̄ = Σ ḡ x̂."""
    of_input: Tensor | None = None
    of_weight: Tensor | None = None
    given = (input, normalized_shape, rstd, weight, (mask[0], mask[1]))
    if grad is not None:
        of_input, of_weight = ops._fused_rms_norm_backward(grad, *given)
    if grad_rstd is not None and mask[0]:
        normal, scale = ops._fused_rms_norm(input, normalized_shape, None, eps)
        along = -grad_rstd * (scale * scale).conj() / math.prod(normalized_shape)
        of_rstd = (along * normal.conj()).to(input.dtype)
        of_input = of_rstd if of_input is None else of_input + of_rstd
    return of_input, of_weight
