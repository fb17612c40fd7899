"""Eigenvalues, singular values and pseudo-inverses."""

# Capitals are matrices here, not constants.
# pyright: reportConstantRedefinition=false

from __future__ import annotations

import numpy as np

from adjoint.core.errors import ValueRangeError
from adjoint.kernels.linalg.common import Array, matrices, mH, square


def eigh(A: Array, UPLO: str, compute_v: bool) -> tuple[Array, Array]:
    """Eigenvalues in ascending order, and orthonormal eigenvectors, of one triangle of A."""
    square("linalg_eigh(A)", A)
    if UPLO.upper() not in ("L", "U"):
        raise ValueRangeError(f"linalg_eigh(A): UPLO must be L or U, got {UPLO!r}")
    if not compute_v:
        values = np.linalg.eigvalsh(A, UPLO.upper())  # type: ignore[arg-type]
        return values, np.empty((0,), A.dtype)
    found = np.linalg.eigh(A, UPLO.upper())  # type: ignore[arg-type]
    return found.eigenvalues, found.eigenvectors


def eig(self: Array) -> tuple[Array, Array]:
    """Complex eigenvalues and eigenvectors of norm 1."""
    square("linalg_eig(A)", self)
    wide = np.result_type(self.dtype, np.complex64)
    values, vectors = np.linalg.eig(self)
    return values.astype(wide), vectors.astype(wide)


def svd(
    A: Array, full_matrices: bool, compute_uv: bool, driver: str | None
) -> tuple[Array, Array, Array]:
    """A = U S Vᴴ, singular values in descending order."""
    matrices("linalg_svd(A)", A)
    if not compute_uv:
        empty = np.empty((0,), A.dtype)
        return empty, np.linalg.svd(A, compute_uv=False), empty.copy()
    U, S, Vh = np.linalg.svd(A, full_matrices=full_matrices)
    return U, S, Vh


def pinv(self: Array, atol: Array | None, rtol: Array | None, hermitian: bool) -> Array:
    """V S⁺ Uᴴ, where singular values up to max(atol, rtol s₀) count as zero."""
    matrices("linalg_pinv(A)", self)
    if not self.size:
        return np.zeros((*self.shape[:-2], self.shape[-1], self.shape[-2]), self.dtype)
    if hermitian:
        square("linalg_pinv(A, hermitian=True)", self)
        values, V = np.linalg.eigh(self)
        U, S, Vh = V, values, mH(V)
    else:
        U, S, Vh = np.linalg.svd(self, full_matrices=False)
    size = np.abs(S)
    limit = tolerance(np.max(size, -1), self.shape, atol, rtol)
    keep = size > limit[..., None]
    inverse = np.where(keep, 1 / np.where(keep, S, 1), 0).astype(S.dtype)
    return np.asarray(mH(Vh) @ (inverse[..., None] * mH(U)), self.dtype)


def tolerance(top: Array, shape: tuple[int, ...], atol: Array | None, rtol: Array | None) -> Array:
    """max(atol, rtol s₀); rtol is ε max(m, n) unless atol alone is given."""
    default = max(shape[-2:]) * np.finfo(top.dtype).eps
    if rtol is None:
        rtol = np.where(np.asarray(atol) > 0, 0.0, default) if atol is not None else default
    bound = np.asarray(rtol) * top
    return bound if atol is None else np.maximum(np.asarray(atol), bound)
