"""Norms, ranks, condition numbers, powers, pseudo-inverses and least squares from few operators."""

# Capitals are matrices here, not constants.
# pyright: reportConstantRedefinition=false

from __future__ import annotations

import math
from typing import Any

from adjoint import ops
from adjoint.checks.linalg import check_dtype, check_matrix, check_square
from adjoint.core.dtypes import finfo
from adjoint.core.errors import ShapeError, ValueRangeError
from adjoint.core.shapes import Shape, wrap_dims
from adjoint.decompositions.linalg.scaling import near_one
from adjoint.ops.directions import is_differentiated

Tensor = Any


def eigvalsh(self: Tensor, UPLO: str) -> Tensor:
    """Without vectors, unless derivatives will need them."""
    return ops._linalg_eigh(self, UPLO, is_differentiated(self))[0]


def svdvals(A: Tensor, driver: str | None) -> Tensor:
    """Without vectors, unless derivatives will need them."""
    return ops._linalg_svd(A, False, is_differentiated(A), driver=driver)[1]


def svd_legacy(self: Tensor, some: bool, compute_uv: bool) -> tuple[Tensor, Tensor, Tensor]:
    """U, S and V (not Vᴴ); without vectors, zeros in their place."""
    if compute_uv:
        U, S, Vh = ops._linalg_svd(self, not some, True)
        return U, S, Vh.mH
    m, n = self.shape[-2:]
    S = svdvals(self, None)
    return self.new_zeros((*self.shape[:-2], m, m)), S, self.new_zeros((*self.shape[:-2], n, n))


def matrix_power(self: Tensor, n: int) -> Tensor:
    """Aⁿ by repeated squaring; of the inverse if n is negative."""
    check_square("linalg_matrix_power(A)", self.shape)
    if n == 0:
        nothing = self.masked_fill(ops.full((), True), 0)  # depends on A, with gradient 0
        return nothing + ops.eye(self.shape[-1], dtype=self.dtype)
    if n < 0:
        return matrix_power(ops.linalg_inv(self), -n)
    if n == 1:
        return self.clone()
    half = matrix_power(self, n // 2) if n > 3 else self
    result = half.matmul(half)
    return result.matmul(self) if n % 2 else result


def _check_order(ord: Any) -> None:
    if ord not in ("fro", "nuc", 1, -1, 2, -2, math.inf, -math.inf):
        raise ValueRangeError(
            f"linalg_matrix_norm: ord is 'fro', 'nuc', 1, -1, 2, -2, inf or -inf, got {ord!r}"
        )


def matrix_norm(self: Tensor, ord: Any, dim: Shape, keepdim: bool, dtype: Any) -> Tensor:
    """'fro': of the elements; 'nuc', 2, -2: of the singular values; 1, inf: of sums."""
    _check_order(ord)
    if len(dim) != 2:
        raise ShapeError(f"linalg_matrix_norm: dim must name two dimensions, got {tuple(dim)}")
    check_matrix("linalg_matrix_norm(A)", self.shape)
    if dtype is not None:
        self = self.to(dtype)
    if ord == "fro":
        return ops.linalg_vector_norm(self, 2, dim, keepdim)
    rows, columns = wrap_dims("linalg_matrix_norm", dim, self.ndim)
    if ord in ("nuc", 2, -2):
        values = ops.linalg_svdvals(self.movedim((rows, columns), (-2, -1)))
        result = values.sum(-1) if ord == "nuc" else _extreme(values, -1, ord > 0)
    else:
        summed, kept = (rows, columns) if abs(ord) == 1 else (columns, rows)
        sums = self.abs().sum((summed,), True)
        result = _extreme(sums, kept, ord > 0).squeeze(summed - (summed > kept))
    if keepdim:
        for d in sorted((rows, columns)):
            result = result.unsqueeze(d)
    return result


def _extreme(x: Tensor, dim: int, largest: bool) -> Tensor:
    return x.amax((dim,)) if largest else x.amin((dim,))


def norm(self: Tensor, ord: Any, dim: Shape | None, keepdim: bool, dtype: Any) -> Tensor:
    """A vector norm over all or one dimension, a matrix norm over two."""
    if ord is None or (dim is not None and len(dim) == 1 and not isinstance(ord, str)):
        return ops.linalg_vector_norm(self, 2 if ord is None else ord, dim, keepdim, dtype=dtype)
    if dim is None:
        if self.ndim not in (1, 2):
            raise ShapeError(
                f"linalg_norm(x, ord={ord!r}): without dim, x must have 1 or 2 dimensions, "
                f"got {self.ndim}"
            )
        dim = tuple(range(self.ndim))
    if len(dim) == 1 and not isinstance(ord, str):
        return ops.linalg_vector_norm(self, ord, dim, keepdim, dtype=dtype)
    return matrix_norm(self, ord, dim, keepdim, dtype)


def cond(self: Tensor, p: Any) -> Tensor:
    """|A| |A⁻¹|; for p = 2 and -2 the ratio of the extreme singular values."""
    check_matrix("linalg_cond(A)", self.shape)
    self = near_one(self)
    if p in (None, 2, -2):
        values = ops.linalg_svdvals(self)
        largest, smallest = values.select(-1, 0), values.select(-1, -1)
        return smallest / largest if p == -2 else largest / smallest
    check_square("linalg_cond(A)", self.shape)
    inverse, info = ops.linalg_inv_ex(self)
    singular = info != 0
    inverse = inverse.masked_fill(singular.unsqueeze(-1).unsqueeze(-1), 0)
    product = matrix_norm(self, p, (-2, -1), False, None) * matrix_norm(
        inverse, p, (-2, -1), False, None
    )
    return product.masked_fill(singular, math.inf)


def matrix_rank(input: Tensor, atol: Any, rtol: Any, hermitian: bool) -> Tensor:
    """How many singular values (or moduli of eigenvalues) exceed max(atol, rtol s₀)."""
    check_matrix("linalg_matrix_rank(A)", input.shape)
    check_dtype("linalg_matrix_rank(A)", input.dtype)
    if hermitian:
        check_square("linalg_matrix_rank(A, hermitian=True)", input.shape)
        values = ops.linalg_eigvalsh(input.detach()).abs()
    else:
        values = ops.linalg_svdvals(input.detach())
    if not values.shape[-1]:
        return input.new_zeros(input.shape[:-2], dtype=ops.count_nonzero(values).dtype)
    if rtol is None:
        default = finfo(values.dtype).eps * max(input.shape[-2:])
        rtol = default if atol is None else _unless(atol, default)
    limit = values.amax((-1,)) * rtol
    if atol is not None:
        limit = ops.maximum(limit, atol if hasattr(atol, "shape") else ops.full_like(limit, atol))
    return (values > limit.unsqueeze(-1)).sum((-1,))


def matrix_rank_tol(input: Tensor, tol: Any, hermitian: bool) -> Tensor:
    """An absolute tolerance alone."""
    return matrix_rank(input, tol, 0.0, hermitian)


def _unless(atol: Any, default: float) -> Any:
    """0 where an absolute tolerance is given, else the default."""
    if hasattr(atol, "shape"):
        return (atol <= 0).to(atol.dtype) * default
    return 0.0 if atol > 0 else default


def pinv_floats(self: Tensor, atol: float | None, rtol: float | None, hermitian: bool) -> Tensor:
    """Tolerances as numbers."""
    real = self.dtype.to_real()
    tolerances = [None if t is None else ops.full((), t, dtype=real) for t in (atol, rtol)]
    return ops.linalg_pinv(self, atol=tolerances[0], rtol=tolerances[1], hermitian=hermitian)


def pinv_rcond(self: Tensor, rcond: float, hermitian: bool) -> Tensor:
    """A relative tolerance alone."""
    return pinv_floats(self, 0.0, rcond, hermitian)


def pinverse(self: Tensor, rcond: float) -> Tensor:
    """A relative tolerance alone."""
    return pinv_floats(self, 0.0, rcond, False)


def pinv_tangent(self: Tensor, tangent: Tensor, atol: Any, rtol: Any) -> Tensor:
    """Ṗ = -P Ȧ P + P Pᴴ Ȧᴴ (1 - A P) + (1 - P A) Ȧᴴ Pᴴ P.  Golub and Pereyra 1973."""
    P = ops.linalg_pinv(self, atol=atol, rtol=rtol)
    turned = tangent.mH
    outer = P.matmul(P.mH).matmul(turned)
    inner = turned.matmul(P.mH.matmul(P))
    change = outer - outer.matmul(self).matmul(P) + inner - P.matmul(self.matmul(inner))
    return change - P.matmul(tangent).matmul(P)


_DRIVERS = ("gels", "gelsy", "gelsd", "gelss")


def lstsq(
    self: Tensor, b: Tensor, rcond: float | None, driver: str | None
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The shortest least-squares solution; residuals where A has full column rank and more rows."""
    what = "linalg_lstsq(A, B)"
    check_matrix(what, self.shape)
    check_dtype(what, self.dtype)
    if driver is not None and driver not in _DRIVERS:
        raise ValueRangeError(f"{what}: driver is one of {', '.join(_DRIVERS)}, got {driver!r}")
    m, n = self.shape[-2:]
    vector = b.ndim == self.ndim - 1 and b.shape == self.shape[:-1]
    right = b.unsqueeze(-1) if vector else b
    limit = finfo(self.dtype).eps * max(m, n) if rcond is None else rcond
    solution, rank, values = ops._linalg_lstsq(self, right, limit)
    residuals = _real(self.reshape((-1,)).narrow(0, 0, 0))
    if m > n and n and _is_full(rank, n, driver):
        error = self.matmul(solution) - right
        residuals = _real(error * error.conj()).sum((-2,))
    solution = solution.squeeze(-1) if vector else solution
    rank = rank if driver != "gels" else rank.new_zeros((0,))
    values = values if driver in ("gelsd", "gelss") else values.new_zeros((0,))
    return solution, residuals, rank, values


def _real(x: Tensor) -> Tensor:
    return ops.real(x) if x.is_complex() else x


def _is_full(rank: Tensor, n: int, driver: str | None) -> bool:
    """Whether residuals are given: not by gelsy, the default, nor for deficient matrices."""
    if driver == "gels":
        return True
    return driver in ("gelsd", "gelss") and bool((rank == n).all())
