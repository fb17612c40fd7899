"""Derivatives of attention that are too long for a row."""

from __future__ import annotations

from typing import Any

from adjoint import ops

Tensor = Any


def attention_vjp(*arguments: Any) -> tuple[Tensor | None, ...]:
    """The gradients of query, key, value and bias that are wanted, in one pass over the blocks."""
    *operands, wanted = arguments
    found = ops._attention_backward(*operands, tuple(wanted))
    return tuple(gradient if needed else None for gradient, needed in zip(found, wanted))
