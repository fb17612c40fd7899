"""Packed factors of symmetric indefinite matrices, unpacked."""

from __future__ import annotations

from typing import Any

from adjoint import ops

Tensor = Any


def ldl_unpack(LD: Tensor, pivots: Tensor, hermitian: bool) -> tuple[Tensor, Tensor, Tensor]:
    """P, L and D of A = P L D Lᴴ Pᵀ (or Lᵀ)."""
    order, rows, block = ops._linalg_ldl_layout(pivots)
    together = block.unsqueeze(-1) == block.unsqueeze(-2)
    n = LD.shape[-1]
    below = (ops.arange(n).unsqueeze(-1) > ops.arange(n)) & ~together
    L = LD.gather(-2, rows).masked_fill(~below, 0) + ops.eye(n, dtype=LD.dtype)
    low = LD.masked_fill(~together, 0).tril(-1)
    own = LD.diagonal(0, -2, -1)
    if hermitian and LD.is_complex():
        own = own.real.to(LD.dtype)
    D = low + own.diag_embed() + (low.mH if hermitian else low.mT)
    P = (order.unsqueeze(-2) == ops.arange(n).unsqueeze(-1)).to(LD.dtype)
    return P, L, D


def ldl_solve(LD: Tensor, pivots: Tensor, B: Tensor, hermitian: bool) -> Tensor:
    """X = P L⁻ᴴ D⁻¹ L⁻¹ Pᵀ B."""
    P, L, D = ldl_unpack(LD, pivots, hermitian)
    right = ops.linalg_solve_triangular(L, P.mT.matmul(B), upper=False, unitriangular=True)
    right = ops._linalg_solve(D, right, False)[0]
    across = L.mH if hermitian else L.mT
    return P.matmul(ops.linalg_solve_triangular(across, right, upper=True, unitriangular=True))
