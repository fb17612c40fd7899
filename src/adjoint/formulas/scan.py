"""Derivatives of scans.

One operator carries them all: `_linear_recurrence`, y[k] = a[k] y[k-1] + b[k]. Its derivatives are
recurrences again (run the other way in reverse mode), and it never divides, so running products
with zeros and log-scale sums with infinities are exact to every order.
"""

from __future__ import annotations

import math
from typing import Any

from adjoint import ops

Tensor = Any


def linear_recurrence_vjp(
    grad: Tensor, a: Tensor, result: Tensor, dim: int, reverse: bool,
    grad_input_mask: tuple[bool, ...],
) -> tuple[Tensor | None, Tensor | None]:  # fmt: skip
    """λ[k] = ȳ[k] + conj(a[k+1]) λ[k+1]:  b̄ = λ,  ā[k] = λ[k] conj(y[k-1]); mirrored if reverse."""
    back = 1 if reverse else -1
    b_bar = ops._linear_recurrence(ops._shift(a, dim, back, 0).conj(), grad, dim, not reverse)
    a_bar = b_bar * ops._shift(result, dim, -back, 0).conj() if grad_input_mask[0] else None
    return a_bar, b_bar


def _log_shares(self: Tensor, result: Tensor, dim: int) -> tuple[Tensor, Tensor]:
    """exp(y[k-1] - y[k]) and exp(x[k] - y[k]), which add up to 1, as do their derivatives to 0."""
    before = ops.full_like(result, -math.inf)
    if result.ndim:
        before = ops._shift(result, dim, 1, -math.inf)
    shares = ops._exp_shares(ops.stack([before, self.to(result.dtype)]), result, (0,), False)
    return shares.select(0, 0), shares.select(0, 1)


def logcumsumexp_vjp(grad: Tensor, self: Tensor, result: Tensor, dim: int) -> Tensor:
    """x̄[k] = exp(x[k] - y[k]) s[k],  s[k] = ȳ[k] + exp(y[k] - y[k+1]) s[k+1].

    That is Σ_{i≥k} exp(x[k] - y[i]) ȳ[i], without an exponent above 0.
    """
    decay, own = _log_shares(self, result, dim)
    following = ops._shift(decay, dim, -1, 0) if result.ndim else decay
    sums = ops._linear_recurrence(following.conj(), grad, dim, True)
    return own.conj() * sums


def logcumsumexp_jvp(self_p: Tensor, self_t: Tensor, result: Tensor, dim: int) -> Tensor:
    """ẏ[k] = exp(y[k-1] - y[k]) ẏ[k-1] + exp(x[k] - y[k]) ẋ[k]."""
    decay, own = _log_shares(self_p, result, dim)
    return ops._linear_recurrence(decay, own * self_t, dim, False)
