"""Derivatives of QR and LU factorisations of matrices of any shape."""

# Capitals are matrices here, not constants.
# pyright: reportConstantRedefinition=false

from __future__ import annotations

from typing import Any

from adjoint import ops
from adjoint.formulas.linalg.solve import lower_half
from adjoint.ops.fans import closeness_in_graph, is_in_graph, order_ahead

Tensor = Any


def _solve_right(upper: Tensor, x: Tensor) -> Tensor:
    """X R⁻ᴴ for upper triangular R."""
    return ops.linalg_solve_triangular(upper.mH, x, upper=False, left=False)


def _thin_qr_vjp(grad_q: Any, grad_r: Any, Q: Tensor, R: Tensor) -> Tensor:
    """Ā = (Q̄ + Q C) R⁻ᴴ,  C = Φ(M)+Φ(M)ᴴ of M = R R̄ᴴ - Q̄ᴴ Q: its lower triangle mirrored."""
    inner = None if grad_r is None else R.matmul(grad_r.mH)
    if grad_q is not None:
        inner = -grad_q.mH.matmul(Q) if inner is None else inner - grad_q.mH.matmul(Q)
    half = lower_half(inner)
    total = Q.matmul(half + half.mH)
    return _solve_right(R, total if grad_q is None else total + grad_q)


def _fold_complement(grad_q: Tensor, Q: Tensor, count: int) -> Tensor:
    """The part of Q̄ that reaches A through the columns of Q beyond `count`, and the rest.

    Those columns Q₂ complete Q₁ to a basis: dQ₂ = -Q₁ dQ₁ᴴ Q₂ up to a rotation of Q₂ among
    themselves, which a function of A must not depend on; `_require_gauge` raises if it does.
    """
    Q1, Q2 = Q.narrow(-1, 0, count), Q.narrow(-1, count, Q.shape[-1] - count)
    rest = grad_q.narrow(-1, count, Q.shape[-1] - count)
    turn = Q2.mH.matmul(rest)
    rest = ops._require_gauge(rest, turn - turn.mH, "linalg_qr: the columns of Q beyond those of A")
    return grad_q.narrow(-1, 0, count) - Q2.matmul(rest.mH.matmul(Q1))


def qr_vjp(grad_q: Any, grad_r: Any, A: Tensor, Q: Tensor, R: Tensor, mode: str) -> Any:
    """The gradient of A = Q R for every shape and mode; see `_thin_qr_vjp`.

    Wide matrices A = [X Y] with X = Q U, R = [U V]:  V = Qᴴ Y gives Ȳ = Q V̄ and adds Y V̄ᴴ to Q̄.
    """
    grad_q = None if mode == "r" else grad_q
    if grad_q is None and grad_r is None:
        return None
    if mode == "r":
        Q, R = ops.linalg_qr(A, "reduced")
    return qr_fan_vjp(grad_q, grad_r, A, Q, _of_full_rank(R), mode)


def _of_full_rank(R: Tensor) -> Tensor:
    """Triangular matrices of full rank: checked in graphs; elsewhere they would stand for a fan."""
    if not is_in_graph(R):
        return R
    return ops._linalg_require_rank(R, closeness_in_graph(R, order_ahead() + 1))


def qr_fan_vjp(grad_q: Any, grad_r: Any, A: Tensor, Q: Tensor, R: Tensor, mode: str) -> Any:
    """As `qr_vjp`, of a fan; Q is there in mode r, too."""
    if grad_q is None and grad_r is None:
        return None
    m, n = A.shape[-2:]
    if mode == "complete" and m > n:
        grad_q = None if grad_q is None else _fold_complement(grad_q, Q, n)
        grad_r = None if grad_r is None else grad_r.narrow(-2, 0, n)
        Q, R = Q.narrow(-1, 0, n), R.narrow(-2, 0, n)
    if m >= n:
        return _thin_qr_vjp(grad_q, grad_r, Q, R)
    return _wide_qr_vjp(grad_q, grad_r, A, Q, R)


def _wide_qr_vjp(grad_q: Any, grad_r: Any, A: Tensor, Q: Tensor, R: Tensor) -> Tensor:
    m, n = A.shape[-2:]
    Y, U = A.narrow(-1, m, n - m), R.narrow(-1, 0, m)
    if grad_r is None:
        return ops.cat([_thin_qr_vjp(grad_q, None, Q, U), ops.zeros_like(Y)], -1)
    grad_u, grad_v = grad_r.narrow(-1, 0, m), grad_r.narrow(-1, m, n - m)
    through = Y.matmul(grad_v.mH)
    grad_q = through if grad_q is None else grad_q + through
    return ops.cat([_thin_qr_vjp(grad_q, grad_u, Q, U), Q.matmul(grad_v)], -1)


def lu_factor_vjp(grad: Tensor, LU: Tensor, pivots: Tensor) -> Tensor:
    """The gradient through the packed factors."""
    k = min(LU.shape[-2:])
    grad_l, grad_u = grad.narrow(-1, 0, k).tril(-1), grad.narrow(-2, 0, k).triu()
    P, L, U = ops.lu_unpack(_of_full_rank(LU), pivots)
    return lu_vjp(grad_l, grad_u, P, L, U)


def lu_vjp(grad_l: Any, grad_u: Any, P: Tensor, L: Tensor, U: Tensor) -> Any:
    """A = P L U:  Ā = P L⁻ᴴ (Ū + tril(Lᴴ L̄ - Ū Uᴴ, -1) U⁻ᴴ) for square A.

    Ū is upper triangular. Nothing is divided by the last pivot, which tells how singular A is.
    Tall, L = [L₁; L₂]:  Ā₂ = L̄₂ U⁻ᴴ and tril(…) loses triu(L₂ᴴ L̄₂).
    Wide, U = [U₁ U₂]:  Ā₂ = L⁻ᴴ Ū₂ and Lᴴ L̄ loses Ū₂ U₂ᴴ.
    """
    if grad_l is None and grad_u is None:
        return None
    m, n, k = L.shape[-2], U.shape[-1], L.shape[-1]
    grad_l = ops.zeros_like(L) if grad_l is None else grad_l
    grad_u = ops.zeros_like(U) if grad_u is None else grad_u
    L1, U1 = L.narrow(-2, 0, k), U.narrow(-1, 0, k)
    above = grad_u.narrow(-1, 0, k)
    below = L1.mH.matmul(grad_l.narrow(-2, 0, k)) - above.matmul(U1.mH)
    rest_l, rest_u = grad_l.narrow(-2, k, m - k), grad_u.narrow(-1, k, n - k)
    if n > k:
        below = below - rest_u.matmul(U.narrow(-1, k, n - k).mH)
    below = below.tril(-1)
    if m > k:
        below = below - L.narrow(-2, k, m - k).mH.matmul(rest_l).triu()
    inner = above + _solve_right(U1, below)
    result = ops.linalg_solve_triangular(L1.mH, inner, upper=True, unitriangular=True)
    if m > k:
        result = ops.cat([result, _solve_right(U1, rest_l)], -2)
    if n > k:
        other = ops.linalg_solve_triangular(L1.mH, rest_u, upper=True, unitriangular=True)
        result = ops.cat([result, other], -1)
    return P.matmul(result)


def ldl_factor_vjp(grad: Tensor, LD: Tensor, pivots: Tensor, hermitian: bool) -> Tensor:
    """A = P L D Lᴴ Pᵀ:  Ā = P L⁻ᴴ M̄ L⁻¹ Pᵀ,  M̄ = low(Lᴴ L̄ D⁻ᴴ) + D̄, made Hermitian.

    low keeps the part below the blocks of D. Symmetric complex A has Lᵀ in place of Lᴴ, and L*⁻¹ on
    the right.
    """
    P, L, D = ops._linalg_ldl_unpack(LD, pivots, hermitian)
    _, rows, block = ops._linalg_ldl_layout(pivots)
    together = block.unsqueeze(-1) == block.unsqueeze(-2)
    n = LD.shape[-1]
    below = (ops.arange(n).unsqueeze(-1) > ops.arange(n)) & ~together
    grad_l = grad.gather(-2, rows).masked_fill(~below, 0)
    turned = L.mH.matmul(grad_l)
    turned = ops._linalg_solve(D, turned.mH, False)[0].mH  # X D⁻ᴴ
    inner = turned.masked_fill(~below, 0) + grad.masked_fill(~together, 0).tril()
    right = L if hermitian else L.conj()
    inner = ops.linalg_solve_triangular(right, inner, upper=False, left=False, unitriangular=True)
    inner = ops.linalg_solve_triangular(L.mH, inner, upper=True, unitriangular=True)
    inner = P.matmul(inner).matmul(P.mT)
    return 0.5 * (inner + (inner.mH if hermitian else inner.mT))
