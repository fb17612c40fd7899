"""Derivatives of activation functions that are too long for a row."""

from __future__ import annotations

from typing import Any

from adjoint import ops

Tensor = Any
STRAIGHT = 800.0  # beyond it silu and mish are


def silu_curvature(self: Tensor) -> Tensor:
    """(x σ)'' = σ' (2 - x tanh(x/2)), which falls as exp(-|x|) on both sides."""
    if self.is_complex():
        sigma = self.sigmoid()
        slope = sigma * (1 - sigma)
        return (slope * (2 + self * (1 - 2 * sigma))).conj()
    x = ops.clamp(self, -STRAIGHT, STRAIGHT)
    return ops._expit_slope(x) * (2 - x * (0.5 * x).tanh())


def mish_curvature(self: Tensor) -> Tensor:
    """(x t)'' = t' (2 + x (log t')') with t = tanh(log(1 + eˣ)).

    t' is 4u(1+u)/(2+2u+u²)² in u = eˣ on the left, 4w²(1+w)/(1+2w+2w²)² in w = e⁻ˣ on the right.
    """
    x = ops.clamp(self, -STRAIGHT, STRAIGHT)
    right = x > 0
    u, w = ops.where(right, 0, x).exp(), ops.where(right, -x, 0).exp()
    below, above = 2 + u * (2 + u), 1 + w * (2 + 2 * w)
    slope = ops.where(right, w * w * (1 + w) / (above * above), u * (1 + u) / (below * below))
    left_rate = 1 + u / (1 + u) - 4 * u * (1 + u) / below
    right_rate = 4 * w * (1 + 2 * w) / above - 2 - w / (1 + w)
    return 4 * slope * (2 + x * ops.where(right, right_rate, left_rate))


def log_softmax_jvp(self_t: Tensor, result: Tensor, dim: int) -> Tensor:
    """ẋ - Σ softmax ẋ."""
    return self_t.to(result.dtype) - (self_t * result.exp()).sum((dim,), True)
