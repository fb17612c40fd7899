"""Derivatives of convolutions in the bias; the others are convolutions again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

Tensor = Any


def bias_vjp(grad: Tensor) -> Tensor:
    """b̄ = Σ ȳ over samples and places."""
    return grad.sum((0, *range(2, grad.ndim)))


def bias_jvp(bias_t: Tensor, shape: Sequence[int]) -> Tensor:
    """The bias at every place."""
    return bias_t.reshape((-1, *(1,) * (len(shape) - 2))).expand(shape)
