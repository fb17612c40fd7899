"""Systems of equations, inverses and determinants in terms of few operators."""

# Capitals are matrices here, not constants.
# pyright: reportConstantRedefinition=false

from __future__ import annotations

import math
from typing import Any

from adjoint import ops
from adjoint.checks.linalg import batch_shape, check_matrix, check_square, is_vector
from adjoint.core.errors import ShapeError, ValueRangeError
from adjoint.core.shapes import Shape

Tensor = Any


def cholesky_solve(self: Tensor, input2: Tensor, upper: bool) -> Tensor:
    """X with L Lᴴ X = B, or Uᴴ U X = B."""
    check_matrix("cholesky_solve(B, L): B", self.shape)
    factor = input2.mH if upper else input2
    half = ops.linalg_solve_triangular(factor, self, upper=False)
    return ops.linalg_solve_triangular(factor.mH, half, upper=True)


def cholesky_inverse(self: Tensor, upper: bool) -> Tensor:
    """(L Lᴴ)⁻¹ = W Wᴴ with W = L⁻ᴴ."""
    check_square("cholesky_inverse(L)", self.shape)
    one = ops.eye(self.shape[-1], dtype=self.dtype)
    if upper:
        half = ops.linalg_solve_triangular(self, one, upper=True)
        return half.matmul(half.mH)
    half = ops.linalg_solve_triangular(self, one, upper=False)
    return half.mH.matmul(half)


def solve_ex(A: Tensor, B: Tensor, left: bool, check_errors: bool) -> tuple[Tensor, Tensor]:
    """X of A X = B or X A = B; B may hold vectors."""
    check_square("linalg_solve(A, B)", A.shape)
    vector = is_vector(A.shape, B.shape)
    if vector and not left:
        raise ShapeError("linalg_solve(A, B, left=False): B must hold matrices, not vectors.")
    if vector:
        result, info = ops._linalg_solve(A, B.unsqueeze(-1), check_errors)
        return result.squeeze(-1), info
    if left:
        return tuple(ops._linalg_solve(A, B, check_errors))  # type: ignore[return-value]
    result, info = ops._linalg_solve(A.mT, B.mT, check_errors)
    return result.mT, info


def solve(A: Tensor, B: Tensor, left: bool) -> Tensor:
    """X of A X = B, or an error where A is singular."""
    return solve_ex(A, B, left, True)[0]


def solve_with_factors(A: Tensor, B: Tensor, left: bool, check_errors: bool) -> tuple[Tensor, ...]:
    """X, and the LU factors of A."""
    result, info = solve_ex(A, B, left, check_errors)
    LU, pivots, _ = ops.linalg_lu_factor_ex(A.detach())
    return result, LU, pivots, info


def triangular_solve(
    self: Tensor, A: Tensor, upper: bool, transpose: bool, unitriangular: bool
) -> tuple[Tensor, Tensor]:
    """X with A X = B (or Aᵀ X = B), and a copy of A."""
    batch = batch_shape("triangular_solve(B, A)", A.shape, self.shape)
    matrix = A.mT if transpose else A
    solution = ops.linalg_solve_triangular(
        matrix, self, upper=upper != transpose, unitriangular=unitriangular
    )
    return solution, A.expand((*batch, *A.shape[-2:])).clone()


def tensorsolve(self: Tensor, other: Tensor, dims: Shape | None) -> Tensor:
    """X with Σ A[i…, j…] X[j…] = B[i…]."""
    if dims:
        self = self.movedim(dims, tuple(range(self.ndim - len(dims), self.ndim)))
    shape = self.shape[other.ndim :]
    if math.prod(shape) != other.numel():
        raise ShapeError(
            f"linalg_tensorsolve(A, B): the last dimensions of A, {tuple(shape)}, must hold as "
            f"many elements as B, {other.numel()}."
        )
    matrix = self.reshape((other.numel(), math.prod(shape)))
    return solve(matrix, other.reshape((-1,)), True).reshape(shape)


def tensorinv(self: Tensor, ind: int) -> Tensor:
    """The inverse of A as a map from its last dimensions to its first `ind`."""
    if ind <= 0:
        raise ValueRangeError(f"linalg_tensorinv(A): ind must be positive, got {ind}")
    rows, columns = self.shape[:ind], self.shape[ind:]
    if math.prod(rows) != math.prod(columns):
        raise ShapeError(
            f"linalg_tensorinv(A, ind={ind}): the first dimensions {tuple(rows)} and the others "
            f"{tuple(columns)} must hold equally many elements."
        )
    matrix = self.reshape((math.prod(rows), math.prod(columns)))
    return ops.linalg_inv(matrix).reshape((*columns, *rows))


def logdet(self: Tensor) -> Tensor:
    """log det(A); NaN where a real determinant is negative."""
    sign, size, _, _ = ops._linalg_slogdet(self)
    if self.is_complex():
        return sign.log() + size
    return ops.where(sign == -1, math.nan, size)


def adjugate_tangent(self: Tensor, tangent: Tensor) -> Tensor:
    """The derivative of adj(A) along E by Faddeev and LeVerrier's recurrence, polynomial in both.

    M₁ = I, cₖ = -tr(A Mₖ)/k, Mₖ₊₁ = A Mₖ + cₖ I, adj(A) = (-1)ⁿ⁻¹ Mₙ.
    """
    n = self.shape[-1]
    one = ops.eye(n, dtype=self.dtype)
    M, dM = one.expand(self.shape), ops.zeros_like(self + tangent)
    for k in range(1, n):
        product = self.matmul(M)
        change = tangent.matmul(M) + self.matmul(dM)
        M = product - _trace(product) / k * one
        dM = change - _trace(change) / k * one
    return dM if n % 2 else -dM


def _trace(x: Tensor) -> Tensor:
    return x.diagonal(0, -2, -1).sum(-1).unsqueeze(-1).unsqueeze(-1)
