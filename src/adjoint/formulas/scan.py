"""Derivatives of scans.

One operator carries them all: `_linear_recurrence`, y[k] = a[k] y[k-1] + b[k]. Its derivatives are
recurrences again (run the other way in reverse mode), and it never divides, so running products
with zeros and log-scale sums with infinities are exact to every order.
"""

from __future__ import annotations

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


def _decay(result: Tensor, dim: int) -> Tensor:
    """exp(y[k] - y[k+1]), at most 1 in size for real y; the last one is not used."""
    if result.ndim == 0 or result.shape[dim] == 0:
        return result
    length = result.shape[dim]
    last = result.narrow(dim, length - 1, 1)
    following = ops.cat([result.narrow(dim, 1, length - 1), last], dim)
    return ops._exp_difference(result, following)


def logcumsumexp_vjp(grad: Tensor, self: Tensor, result: Tensor, dim: int) -> Tensor:
    """x̄[k] = exp(x[k] - y[k]) s[k],  s[k] = ȳ[k] + exp(y[k] - y[k+1]) s[k+1].

    That is Σ_{i≥k} exp(x[k] - y[i]) ȳ[i], without an exponent above 0.
    """
    sums = ops._linear_recurrence(_decay(result, dim).conj(), grad, dim, True)
    return ops._exp_difference(self, result).conj() * sums


def logcumsumexp_jvp(self_p: Tensor, self_t: Tensor, result: Tensor, dim: int) -> Tensor:
    """ẏ[k] = exp(y[k-1] - y[k]) ẏ[k-1] + exp(x[k] - y[k]) ẋ[k]."""
    decay = ops._shift(_decay(result, dim), dim, 1, 0)
    return ops._linear_recurrence(decay, ops._exp_difference(self_p, result) * self_t, dim, False)
