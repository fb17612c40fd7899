"""Derivatives of distances between points."""

from __future__ import annotations

from typing import Any

from adjoint import ops
from adjoint.formulas.reduction import norm_direction

Tensor = Any


def cdist_vjp(grad: Tensor, x1: Tensor, x2: Tensor, result: Tensor, p: float) -> Tensor:
    """x̄[i] = Σⱼ D̄[i,j] ∂|x[i] - y[j]|/∂x[i]."""
    if p == 2:
        return ops._euclidean_dist_backward(grad, x1, x2, result)
    return ops._cdist_backward(grad, x1, x2, p, result)


def cdist_jvp(tangent: Tensor, x1: Tensor, x2: Tensor, result: Tensor, p: float) -> Tensor:
    """ẏ[i,j] = ⟨∂|x[i] - y[j]|/∂x[i], ẋ[i]⟩."""
    if p == 2:
        return ops._euclidean_dist_along(tangent, x1, x2, result)
    difference = x1.unsqueeze(-2) - x2.unsqueeze(-3)
    direction = norm_direction(difference, result, p, (-1,), False)
    return (direction * tangent.unsqueeze(-2)).sum((-1,))
