"""Householder reflections, Hᵢ = 1 - τᵢ vᵢ vᵢᴴ, as loops that can be differentiated."""

from __future__ import annotations

from typing import Any

from adjoint import ops
from adjoint.checks.linalg import check_matrix, check_reflections, check_same_dtype, check_tall
from adjoint.core.errors import ShapeError
from adjoint.decompositions.linalg.scaling import near_one

Tensor = Any


def _vector(packed: Tensor, i: int) -> Tensor:
    """vᵢ as a column: zeros, a one at i, then the elements below the diagonal of column i."""
    rows = packed.shape[-2]
    below = packed.narrow(-1, i, 1).narrow(-2, i + 1, rows - i - 1)
    top = ops.zeros((*packed.shape[:-2], i, 1), dtype=packed.dtype)
    one = ops.ones((*packed.shape[:-2], 1, 1), dtype=packed.dtype)
    return ops.cat([top, one, below], -2)


def _reflected(x: Tensor, v: Tensor, tau: Tensor) -> Tensor:
    """(1 - τ v vᴴ) X."""
    return x - tau * v.matmul(v.mH.matmul(x))


def _factor(tau: Tensor, i: int) -> Tensor:
    return tau.narrow(-1, i, 1).unsqueeze(-1)


def householder_product(input: Tensor, tau: Tensor) -> Tensor:
    """The first columns of H₁ H₂ … Hₖ."""
    what = "linalg_householder_product(A, tau)"
    check_same_dtype(what, input.dtype, tau.dtype)
    check_reflections(what, tuple(input.shape), tuple(tau.shape))
    check_tall(what, tuple(input.shape))
    rows, columns = input.shape[-2:]
    result = input.masked_fill(ops.full((), True), 0) + ops.eye(rows, columns, dtype=input.dtype)
    for i in reversed(range(tau.shape[-1])):
        result = _reflected(result, _vector(input, i), _factor(tau, i))
    return result


def ormqr(self: Tensor, input2: Tensor, input3: Tensor, left: bool, transpose: bool) -> Tensor:
    """Q C, Qᴴ C, C Q or C Qᴴ for Q = H₁ H₂ … Hₖ."""
    what = "ormqr(A, tau, C)"
    check_same_dtype(what, self.dtype, input2.dtype)
    check_same_dtype(what, self.dtype, input3.dtype)
    check_reflections(what, tuple(self.shape), tuple(input2.shape))
    check_matrix(what, tuple(input3.shape))
    if not left:  # C Q = (Qᴴ Cᴴ)ᴴ
        return ormqr(self, input2, input3.mH, True, not transpose).mH
    if self.shape[-2] != input3.shape[-2]:
        raise ShapeError(
            f"ormqr(A, tau, C): A has {self.shape[-2]} rows, and C {input3.shape[-2]} to reflect."
        )
    order = range(input2.shape[-1])
    result = input3
    for i in order if transpose else reversed(order):
        tau = _factor(input2, i)
        result = _reflected(result, _vector(self, i), tau.conj() if transpose else tau)
    return result if input2.shape[-1] else result.clone()


def geqrf(self: Tensor) -> tuple[Tensor, Tensor]:
    """The reflections that make A upper triangular, packed below R, as LAPACK chooses them.

    With α the element on the diagonal and x the rest: β = -sign(Re α) |(α, x)|, τ = (β - α)/β,
    v = x/(α - β); where x and Im α vanish already, τ = 0.
    """
    m, n = self.shape[-2:]
    work, vectors, factors = self, [], []
    for i in range(min(m, n)):
        column = work.narrow(-1, i, 1).narrow(-2, i, m - i)
        tau, v = _reflection(column)
        top = ops.zeros((*self.shape[:-2], i, 1), dtype=self.dtype)
        v = ops.cat([top, v], -2)
        work = _reflected(work, v, tau.conj())
        vectors.append(v)
        factors.append(tau.squeeze(-1))
    if not factors:
        return self.clone(), self.new_zeros((*self.shape[:-2], 0))
    packed = ops.cat(vectors, -1).tril(-1)
    wide = n - packed.shape[-1]
    if wide:
        packed = ops.cat([packed, ops.zeros((*self.shape[:-2], m, wide), dtype=self.dtype)], -1)
    return work.triu() + packed, ops.cat(factors, -1)


def _reflection(column: Tensor) -> tuple[Tensor, Tensor]:
    """τ and v, with v[0] = 1, of the reflection that takes a column to a multiple of e₁."""
    column = near_one(column)
    alpha = column.narrow(-2, 0, 1)
    rest = column.narrow(-2, 1, column.shape[-2] - 1)
    square = ops.real(rest * rest.conj()) if column.is_complex() else rest * rest
    real = ops.real(alpha) if column.is_complex() else alpha
    below = square.sum(-2, True)
    idle = below == 0
    if column.is_complex():
        idle = idle & (ops.imag(alpha) == 0)
        below = below + ops.imag(alpha) * ops.imag(alpha)
    size = (below + real * real).masked_fill(idle, 1).sqrt()
    beta = ops.where(real >= 0, -size, size)
    tau = ((beta - alpha) / beta).masked_fill(idle, 0)
    tail = (rest / (alpha - beta).masked_fill(idle, 1)).masked_fill(idle, 0)
    return tau, ops.cat([ops.ones_like(alpha), tail], -2)
