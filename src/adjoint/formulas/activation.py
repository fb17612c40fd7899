"""Derivatives of activation functions that are too long for a row."""

from __future__ import annotations

from typing import Any

from adjoint import ops
from adjoint.core.activations import CUBE, RATE

Tensor = Any
STRAIGHT = 800.0  # beyond it silu and mish are
FLAT = 40.0  # beyond it gelu is straight


def silu_curvature(self: Tensor) -> Tensor:
    """(x σ)'' = σ' (2 - x tanh(x/2)), which falls as exp(-|x|) on both sides."""
    if self.is_complex():
        sigma = self.sigmoid()
        slope = sigma * (1 - sigma)
        return (slope * (2 + self * (1 - 2 * sigma))).conj()
    x = ops.clamp(self, -STRAIGHT, STRAIGHT)
    return ops._expit_slope(x) * (2 - x * (0.5 * x).tanh())


def gelu_gate_slope(self: Tensor, result: Tensor, slope: bool) -> Tensor:
    """dσ(v)/dx = σ' v', and of σ'(v) it is -σ' tanh(v/2) v'; v = √(8/π) (x + 0.044715 x³)."""
    x = ops.clamp(self, -FLAT, FLAT)
    square = x * x
    rate = (1 + 3 * CUBE * square) * RATE
    if not slope:
        return ops._gelu_gate(self, True) * rate
    half = x * (1 + CUBE * square) * (RATE / -2)
    return result * (half.tanh() * rate)


def log_softmax_jvp(self_p: Tensor, self_t: Tensor, result: Tensor, dim: int) -> Tensor:
    """ẋ - Σ s ẋ with the shares s. Multiplied by s these tangents add up to 0, which gives the
    tangent of a share above 1/2, whose own formula cancels.
    """
    shares = ops.softmax(self_p.to(result.dtype), dim)
    found = self_t.to(result.dtype) - (self_t * shares).sum((dim,), True)
    if not result.ndim:
        return found
    large = shares > 0.5
    others = (found * shares).masked_fill(large, 0).sum((dim,), True)
    return ops.where(large, -others / shares.masked_fill(~large, 1), found)
