"""Derivatives of matrix products that are too long for a row.

For C = A B:  Ā = C̄ Bᴴ,  B̄ = Aᴴ C̄,  Ċ = Ȧ B + A Ḃ.  Each formula only chooses the dimensions to
sum over. The engine sums over broadcast dimensions, batch dimensions included.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from adjoint import ops
from adjoint.checks import einsum as contraction
from adjoint.checks.einsum import Labels

Tensor = Any
Number = bool | int | float | complex


def scaled(grad: Tensor, factor: Number) -> Tensor:
    """x̄ = conj(factor) ȳ for y = factor x."""
    return grad * factor.conjugate()


def matmul_self_vjp(grad: Tensor, self_shape: Sequence[int], other: Tensor) -> Tensor:
    """Ā = C̄ Bᴴ for C = A B of any ranks; a vector is a matrix of one row (A) or column (B)."""
    if other.ndim == 1:
        if len(self_shape) == 1:
            return grad * other.conj()
        return grad.unsqueeze(-1) * other.conj()
    if len(self_shape) == 1:  # c = a B: sum over the batch happens in one product
        return other.conj().matmul(grad.unsqueeze(-1)).squeeze(-1)
    if other.ndim == 2 or len(self_shape) > 2:
        return grad.matmul(other.mH)
    return _flat_rows(grad.mT).mT.matmul(_flat_rows(other.mT).conj())


def matmul_other_vjp(grad: Tensor, self: Tensor, other_shape: Sequence[int]) -> Tensor:
    """B̄ = Aᴴ C̄ for C = A B of any ranks. With one matrix B for a batch of A, in one product."""
    if self.ndim == 1:
        if len(other_shape) == 1:
            return grad * self.conj()
        return self.conj().unsqueeze(-1) * grad.unsqueeze(-2)
    if len(other_shape) == 1:
        return _flat_rows(self).mH.matmul(grad.reshape(-1))
    if len(other_shape) == 2:
        return _flat_rows(self).mH.matmul(_flat_rows(grad))
    return self.mH.matmul(grad)


def _flat_rows(x: Tensor) -> Tensor:
    """Lay the matrices of a batch under each other."""
    return x.reshape(math.prod(x.shape[:-1]), x.shape[-1])


def linear_input_vjp(grad: Tensor, weight: Tensor) -> Tensor:
    """x̄ = ȳ conj(W) for y = x Wᵀ; W may be a vector, for a single output."""
    if weight.ndim == 1:
        return grad.unsqueeze(-1) * weight.conj()
    return grad.matmul(weight.conj())


def linear_weight_vjp(grad: Tensor, input: Tensor, weight_ndim: int) -> Tensor:
    """W̄ = ȳᵀ conj(x), summed over all dimensions but the last, in one product."""
    rows = _flat_rows(input.conj())
    if weight_ndim == 1:
        return rows.t().mv(grad.reshape(-1))
    return _flat_rows(grad).t().mm(rows)


def einsum_vjp(
    grad: Tensor, equation: str, tensors: Sequence[Tensor], path: Sequence[int] | None
) -> list[Tensor]:
    """x̄_k = einsum of ȳ and the conjugates of all other operands, with x_k's indices as the output.

    A label that only x_k has is spread out again, one that it repeats goes on a diagonal, one that
    was stretched from size 1 is summed.
    """
    shapes = tuple(tuple(t.shape) for t in tensors)
    others = [_as(t, grad).conj() for t in tensors] if len(tensors) > 1 else []
    found: list[Tensor] = []
    for k in range(len(tensors)):
        step = contraction.transpose(equation, shapes, k)
        result = ops.einsum(step.equation, [grad, *others[:k], *others[k + 1 :]])
        result = result if step.reshape is None else result.reshape(step.reshape)
        result = result if step.expand is None else result.expand(step.expand)
        found.append(_repeat_on_diagonals(result, step.own, step.labels))
    return found


def _as(x: Tensor, like: Tensor) -> Tensor:
    """Return x in the dtype of `like`: an einsum that only multiplies has promoted it."""
    return x if x.dtype is like.dtype else x.to(like.dtype)


def _repeat_on_diagonals(x: Tensor, own: Labels, labels: Labels) -> Tensor:
    """Turn dimensions `own`, each label once, into `labels`, where a label may repeat."""
    if own == labels:
        return x
    dims = list(own)
    for label in own:
        for _ in range(labels.count(label) - 1):
            position = dims.index(label)
            x = x.movedim(position, -1).diag_embed()
            dims.append(dims.pop(position))
            dims.append(label)
    order: list[int] = []
    for label in labels:
        order.append(next(k for k, d in enumerate(dims) if d == label and k not in order))
    return x.permute(order)
