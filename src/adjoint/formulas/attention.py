"""Derivatives of attention that are too long for a row."""

from __future__ import annotations

from typing import Any

from adjoint import ops

Tensor = Any


def attention_vjp(
    grad: Tensor,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    bias: Tensor | None,
    starts: Tensor | None,
    ends: Tensor | None,
    coins: Tensor | None,
    output: Tensor,
    logsumexp: Tensor,
    dropout_p: float,
    scale: float,
    wanted: Any,
) -> tuple[Tensor | None, ...]:
    """The gradients of query, key, value and bias, in one pass over the blocks."""
    found = ops._attention_backward(
        grad, query, key, value, bias, starts, ends, coins, output, logsumexp, dropout_p, scale,
        tuple(wanted),
    )  # fmt: skip
    return tuple(gradient if needed else None for gradient, needed in zip(found, wanted))
