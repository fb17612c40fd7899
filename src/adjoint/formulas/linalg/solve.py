"""Derivatives of systems of equations, Cholesky factors and determinants.

A cotangent is written with a bar, Ā, a tangent with a dot, Ȧ.
"""

# Capitals are matrices here, not constants.
# pyright: reportConstantRedefinition=false

from __future__ import annotations

from typing import Any

from adjoint import ops

Tensor = Any


def lower_half(x: Tensor) -> Tensor:
    """Φ(X): the lower triangle with half the diagonal, so that Φ(X) + Φ(X)ᴴ = X if X = Xᴴ."""
    return x.tril() - 0.5 * x.diagonal(0, -2, -1).diag_embed()


def cholesky_vjp(grad: Tensor, L: Tensor, upper: bool) -> Tensor:
    """Ā = ½ L⁻ᴴ (P + Pᴴ) L⁻¹,  P = Φ(Lᴴ L̄): the Hermitian gradient.  Murray 2016, §3."""
    if upper:
        grad, L = grad.mH, L.mH
    inner = lower_half(L.mH.matmul(grad))
    inner = 0.5 * (inner + inner.mH)
    right = ops.linalg_solve_triangular(L, inner, upper=False, left=False)
    return ops.linalg_solve_triangular(L.mH, right, upper=True)


def cholesky_jvp(tangent: Tensor, L: Tensor, upper: bool) -> Tensor:
    """L̇ = L Φ(L⁻¹ Ȧ L⁻ᴴ), with the Hermitian part of Ȧ."""
    if upper:
        return cholesky_jvp(tangent, L.mH, False).mH
    tangent = 0.5 * (tangent + tangent.mH)
    half = ops.linalg_solve_triangular(L, tangent, upper=False)
    inner = ops.linalg_solve_triangular(L.mH, half, upper=True, left=False)
    return L.matmul(lower_half(inner))


def solve_vjp(grad: Tensor, A: Tensor, X: Tensor, mask: tuple[bool, bool]) -> tuple[Any, Any]:
    """A X = B:  B̄ = A⁻ᴴ X̄,  Ā = -B̄ Xᴴ."""
    grad_b = ops._linalg_solve(A.mH, grad, False)[0]
    return (-grad_b.matmul(X.mH) if mask[0] else None), grad_b


def _triangle(x: Tensor, upper: bool, unitriangular: bool) -> Tensor:
    """The elements of the matrix that the solver reads."""
    if upper:
        return x.triu(1 if unitriangular else 0)
    return x.tril(-1 if unitriangular else 0)


def solve_triangular_vjp(
    grad: Tensor,
    A: Tensor,
    X: Tensor,
    upper: bool,
    left: bool,
    unitriangular: bool,
    mask: tuple[bool, bool],
) -> tuple[Any, Any]:
    """A X = B:  B̄ = A⁻ᴴ X̄,  Ā = -B̄ Xᴴ on the triangle;  X A = B:  Ā = -Xᴴ B̄."""
    grad_b = ops.linalg_solve_triangular(
        A.mH, grad, upper=not upper, left=left, unitriangular=unitriangular
    )
    if not mask[0]:
        return None, grad_b
    grad_a = grad_b.matmul(X.mH) if left else X.mH.matmul(grad_b)
    return -_triangle(grad_a, upper, unitriangular), grad_b


def triangle_times(A_t: Tensor, X: Tensor, upper: bool, left: bool, unitriangular: bool) -> Tensor:
    """Ȧ X, or X Ȧ, on the triangle that the solver reads: Ẋ = A⁻¹ (Ḃ - Ȧ X)."""
    change = _triangle(A_t, upper, unitriangular)
    return change.matmul(X) if left else X.matmul(change)


def slogdet_vjp(grad_sign: Any, grad_log: Any, A: Tensor, sign: Tensor) -> Any:
    """d log|det A| = Re t,  d sign = i sign Im t,  t = tr(A⁻¹ dA):  Ā = (l̄ - i Im(s̄* sign)) A⁻ᴴ."""
    factor = grad_log
    if A.is_complex() and grad_sign is not None:
        turn = (grad_sign.conj() * sign).imag
        factor = ops.complex(ops.zeros_like(turn) if grad_log is None else grad_log, -turn)
    if factor is None:
        return ops.zeros_like(A)
    return factor.unsqueeze(-1).unsqueeze(-1) * ops.linalg_inv_ex(A)[0].mH
