"""Factors and solutions with NumPy's signatures and results."""

from __future__ import annotations

from typing import Any, NamedTuple

from adjoint.core.dtypes import int32, int64
from adjoint.core.errors import ValueRangeError
from adjoint.doors import ad
from adjoint.doors.numpy.conversion import common
from adjoint.tensor.tensor import Tensor


class EigResult(NamedTuple):
    """Eigenvalues and eigenvectors."""

    eigenvalues: Tensor
    eigenvectors: Tensor


class EighResult(NamedTuple):
    """Eigenvalues and eigenvectors of a Hermitian matrix."""

    eigenvalues: Tensor
    eigenvectors: Tensor


class SVDResult(NamedTuple):
    """Left vectors, singular values, right vectors."""

    U: Tensor
    S: Tensor
    Vh: Tensor


class SlogdetResult(NamedTuple):
    """The sign of a determinant and the logarithm of its size."""

    sign: Tensor
    logabsdet: Tensor


class QRResult(NamedTuple):
    """An orthonormal and a triangular factor."""

    Q: Tensor
    R: Tensor


def first(*values: Any) -> Any:
    """The first that is not None."""
    return next(v for v in values if v is not None)


def one_triangle(a: Tensor, UPLO: str) -> Tensor:
    """The Hermitian matrix of one triangle, which is all that NumPy reads of a matrix."""
    if UPLO.upper() not in ("L", "U"):
        raise ValueRangeError(f"UPLO={UPLO!r} is 'L' or 'U'")
    half = ad.tril(a, -1) if UPLO.upper() == "L" else ad.triu(a, 1)
    return half + half.mH + ad.diag_embed(ad.real(a.diagonal(0, -2, -1)).to(a.dtype))


def solve(a: Tensor, b: Tensor) -> Tensor:
    """The solution of a x = b; b is a vector if it has one dimension, else a stack of matrices."""
    a, b = common(a, b)
    if b.ndim == 1:
        return ad.linalg_solve(a, b.unsqueeze(-1)).squeeze(-1)
    return ad.linalg_solve(a, b.reshape([*(1,) * (a.ndim - b.ndim), *b.shape]))


def svd(a: Tensor, full_matrices: bool, compute_uv: bool, hermitian: bool) -> Any:
    """The singular value decomposition, or the singular values alone."""
    a = one_triangle(a, "L") if hermitian else a
    if compute_uv:
        return SVDResult(*ad.linalg_svd(a, bool(full_matrices)))
    return ad.linalg_svdvals(a)


def qr(a: Tensor, mode: str) -> Any:
    """The factors Q and R, or R alone."""
    if mode not in ("reduced", "complete", "r"):
        raise ValueRangeError(f"qr: there is no mode={mode!r} here; use reduced, complete or r")
    found = ad.linalg_qr(a, mode)
    return found[1] if mode == "r" else QRResult(*found)


def lstsq(a: Tensor, b: Tensor, rcond: Any) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The solution of least squares, the residuals, the rank, the singular values."""
    a, b = common(a, b)
    right = b.unsqueeze(-1) if b.ndim == 1 else b
    x = ad.linalg_lstsq(a, right, rcond)[0]
    s = ad.linalg_svdvals(a)
    rank = matrix_rank(a, None, False, rtol=rcond)
    rest = right - ad.matmul(a, x)
    squares = ad.sum(ad.real(rest * rest.conj()), 0)
    rows, columns = a.shape[-2:]
    whole = rows > columns and (a.home is not None or int(rank) == columns)
    residuals = squares if whole else squares[:0]
    return (x.squeeze(-1) if b.ndim == 1 else x), residuals, rank.to(int32), s


def matrix_rank(A: Tensor, tol: Any, hermitian: bool, *, rtol: Any = None) -> Tensor:
    """How many singular values are larger than a bound."""
    if A.ndim < 2:
        return ad.any(ad.ne(A, 0)).to(int64)
    if tol is None:
        return ad.linalg_matrix_rank(A, rtol=rtol, hermitian=hermitian)
    return ad.linalg_matrix_rank(A, atol=float(tol), rtol=0.0, hermitian=hermitian)
