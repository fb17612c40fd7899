"""Derivatives of sorting that do not fit a line of the table."""

from __future__ import annotations

from typing import Any

Tensor = Any


def distinct_vjp(grad: Tensor, inverse: Tensor, counts: Tensor, dim: int | None) -> Tensor:
    """x̄[i] = ȳ[u] / c[u] for the c[u] elements i that are the value u."""
    if dim is None:
        return (grad / counts).index_select(0, inverse.reshape((-1,))).reshape(inverse.shape)
    return (grad / _along(counts, dim, grad.ndim)).index_select(dim, inverse)


def distinct_jvp(
    values: Tensor, self_t: Tensor, inverse: Tensor, counts: Tensor, dim: int | None
) -> Tensor:
    """ẏ[u] = Σ ẋ[i] / c[u], over the elements i that are the value u."""
    zeros = values.new_zeros(values.shape)
    if dim is None:
        return zeros.index_add(0, inverse.reshape((-1,)), self_t.reshape((-1,))) / counts
    return zeros.index_add(dim, inverse, self_t) / _along(counts, dim, values.ndim)


def _along(counts: Tensor, dim: int, ndim: int) -> Tensor:
    return counts.reshape((-1,) + (1,) * (ndim - 1 - dim % ndim))
