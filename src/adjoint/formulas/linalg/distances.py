"""Derivatives of distances between points."""

from __future__ import annotations

from typing import Any

from adjoint import ops

Tensor = Any


def cdist_vjp(grad: Tensor, x1: Tensor, x2: Tensor, result: Tensor, p: float) -> Tensor:
    """x̄[i] = Σⱼ D̄[i,j] ∂|x[i] - y[j]|/∂x[i]."""
    if p == 2:
        return ops._euclidean_dist_backward(grad, x1, x2, result)
    return ops._cdist_backward(grad, x1, x2, p, result)
