"""Derivatives of samples in the parameters of their distribution."""

from __future__ import annotations

from typing import Any

from adjoint import ops

Tensor = Any


def dirichlet_slope(self: Tensor, result: Tensor) -> Tensor:
    """d xᵢ/d αᵢ / (1 - xᵢ): xᵢ alone has a beta distribution of αᵢ and the sum of the others."""
    total = self.sum((-1,), True).expand(self.shape) if self.ndim else self
    return ops._dirichlet_grad(result, self, total)


def sample_dirichlet_vjp(grad: Tensor, self: Tensor, result: Tensor) -> Tensor:
    """ᾱᵢ = sᵢ (ḡᵢ - Σ xⱼ ḡⱼ): what xᵢ gains, the others lose in proportion."""
    if self.ndim == 0:
        return grad * 0
    return dirichlet_slope(self, result) * (grad - (result * grad).sum((-1,), True))


def sample_dirichlet_jvp(self_p: Tensor, self_t: Tensor, result: Tensor) -> Tensor:
    """ẋᵢ = sᵢ α̇ᵢ - xᵢ Σ sⱼ α̇ⱼ."""
    if self_p.ndim == 0:
        return self_t * 0
    moved = dirichlet_slope(self_p, result) * self_t
    return moved - result * moved.sum((-1,), True)
