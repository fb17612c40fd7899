"""LU factors, unpacked and applied."""

# Capitals are matrices here, not constants.
# pyright: reportConstantRedefinition=false

from __future__ import annotations

from typing import Any

from adjoint import ops
from adjoint.checks.linalg import check_matrix, check_pivots
from adjoint.core.errors import ShapeError

Tensor = Any


def _rows_as_matrix(order: Tensor, dtype: Any) -> Tensor:
    """P with P[order[i], i] = 1, so that A = P L U for A[order] = L U."""
    size = order.shape[-1]
    return (order.unsqueeze(-2) == ops.arange(size).unsqueeze(-1)).to(dtype)


def lu_unpack(
    LU_data: Tensor, LU_pivots: Tensor, unpack_data: bool, unpack_pivots: bool
) -> tuple[Tensor, Tensor, Tensor]:
    """P, L and U from the packed factors; empty tensors for factors not wanted."""
    check_matrix("lu_unpack(LU, pivots)", LU_data.shape)
    if unpack_pivots:
        check_pivots("lu_unpack(LU, pivots)", tuple(LU_data.shape), tuple(LU_pivots.shape))
    m, n = LU_data.shape[-2:]
    k = min(m, n)
    empty = LU_data.new_empty((0,))
    P = L = U = empty
    if unpack_data:
        one = ops.eye(m, k, dtype=LU_data.dtype)
        L = LU_data.narrow(-1, 0, k).tril(-1) + one
        U = LU_data.narrow(-2, 0, k).triu()
    if unpack_pivots:
        P = _rows_as_matrix(ops._linalg_permutation(LU_pivots, m), LU_data.dtype)
    return P, L, U


def lu(A: Tensor, pivot: bool) -> tuple[Tensor, Tensor, Tensor]:
    """A = P L U; without pivoting P is empty."""
    LU, pivots, _ = ops.linalg_lu_factor_ex(A, pivot=pivot)
    return lu_unpack(LU, pivots, True, pivot)


def lu_solve(LU: Tensor, pivots: Tensor, B: Tensor, left: bool, adjoint: bool) -> Tensor:
    """X with A X = B, X A = B, or the same with Aᴴ, from the factors of A = P L U."""
    if LU.ndim < 2 or LU.shape[-1] != LU.shape[-2]:
        raise ShapeError(f"linalg_lu_solve: the factors must be square, got {tuple(LU.shape)}.")
    check_pivots("linalg_lu_solve(LU, pivots, B)", tuple(LU.shape), tuple(pivots.shape))
    if not left:  # X A = B is Aᴴ Xᴴ = Bᴴ
        return lu_solve(LU, pivots, B.mH, True, not adjoint).mH
    P = _rows_as_matrix(ops._linalg_permutation(pivots, LU.shape[-1]), LU.dtype)
    if adjoint:  # Aᴴ = Uᴴ Lᴴ Pᵀ
        half = ops.linalg_solve_triangular(LU.mH, B, upper=False)
        return P.matmul(ops.linalg_solve_triangular(LU.mH, half, upper=True, unitriangular=True))
    half = ops.linalg_solve_triangular(LU, P.mT.matmul(B), upper=False, unitriangular=True)
    return ops.linalg_solve_triangular(LU, half, upper=True)
