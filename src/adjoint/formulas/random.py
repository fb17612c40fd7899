"""Derivatives of samples in the parameters of their distribution."""

from __future__ import annotations

import math
from functools import cache
from typing import Any

from adjoint import ops
from adjoint.core import dtypes

Tensor = Any


def dirichlet_slope(self: Tensor, result: Tensor) -> Tensor:
    """d xᵢ/d αᵢ / (1 - xᵢ): xᵢ alone has a beta distribution of αᵢ and the sum of the others."""
    total = self.sum((-1,), True).expand(self.shape) if self.ndim else self
    return ops._dirichlet_grad(result, self, total)


def sample_dirichlet_vjp(grad: Tensor, self: Tensor, result: Tensor) -> Tensor:
    """ᾱᵢ = sᵢ (ḡᵢ - Σ xⱼ ḡⱼ): the others lose in proportion the amount that xᵢ gains."""
    if self.ndim == 0:
        return grad * 0
    return dirichlet_slope(self, result) * (grad - (result * grad).sum((-1,), True))


def sample_dirichlet_jvp(self_p: Tensor, self_t: Tensor, result: Tensor) -> Tensor:
    """ẋᵢ = sᵢ α̇ᵢ - xᵢ Σ sⱼ α̇ⱼ."""
    if self_p.ndim == 0:
        return self_t * 0
    moved = dirichlet_slope(self_p, result) * self_t
    return moved - result * moved.sum((-1,), True)


# -- the von Mises distribution ------------------------------------------------------------------

_NODES = 40  # of the quadrature: the integrand falls by e⁻⁴⁰ at most, which it resolves to rounding
_ENOUGH = 40.0


def von_mises_slope(self: Tensor, result: Tensor) -> Tensor:
    """d x/d κ of a sample at a constant value of the distribution function F: -(∂F/∂κ)/p.

    With A = I₁(κ)/I₀(κ) this is -∫₀ˣ (cos t - A) e^(κ (cos t - cos x)) dt, and, as the integral to
    π is 0, also the integral from x to π, which does not cancel where the density is small. It is
    a Gauss sum over operators, so derivatives of every order follow.
    """
    kappa, x = (v.to(dtypes.float64) for v in (self, result))
    size = x.abs()
    mean = ops.special_i1e(kappa) / ops.special_i0e(kappa)
    middle = (kappa * (1 - size.cos())).detach() < 1
    lowest = (size.cos() - _ENOUGH / kappa).clamp(min=-1).detach()
    start = size.where(~middle, 0.0)
    # between them the integrand falls to nothing, so that its end does not move with the sample
    end = ops.where(middle, size, lowest.acos())
    nodes, weights = (ops.scalar_tensor(0.0, dtype=dtypes.float64).new_tensor(v) for v in _gauss())
    t = start.unsqueeze(-1) + (end - start).unsqueeze(-1) * nodes
    kappa, mean, far = (v.unsqueeze(-1) for v in (kappa, mean, size.cos()))
    heights = (t.cos() - mean) * (kappa * (t.cos() - far)).exp()
    area = (heights * weights).sum(-1) * (end - start)
    return (x.sign() * ops.where(middle, -area, area)).to(self.dtype)


@cache
def _gauss() -> tuple[list[float], list[float]]:
    """Nodes and weights of Gauss-Legendre quadrature on [0, 1], by Newton's method."""
    nodes, weights = [], []
    for i in range(_NODES):
        x = math.cos(math.pi * (i + 0.75) / (_NODES + 0.5))
        slope = 1.0
        for _ in range(8):
            before, now = 1.0, x
            for n in range(2, _NODES + 1):
                before, now = now, ((2 * n - 1) * x * now - (n - 1) * before) / n
            slope = _NODES * (x * now - before) / (x * x - 1)
            x -= now / slope
        nodes.append((1 + x) / 2)
        weights.append(1 / ((1 - x * x) * slope * slope))
    return nodes, weights
