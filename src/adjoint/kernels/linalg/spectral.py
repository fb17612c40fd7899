"""Eigenvalues, singular values, pseudo-inverses and exponentials."""

# Capitals are matrices here, not constants.
# pyright: reportConstantRedefinition=false

from __future__ import annotations

import numpy as np

from adjoint.core import dtypes
from adjoint.core.errors import ValueRangeError
from adjoint.core.infinitesimal import FAN
from adjoint.kernels.linalg.common import Array, matrices, mH, square
from adjoint.kernels.linalg.repeated import clusters, eig_step, repeat_over_fan, split, turn


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


def matrix_exp(self: Array) -> Array:
    """Σ Aᵏ/k!."""
    from scipy.linalg import expm

    wide = self.astype(np.float32) if self.dtype in dtypes.REDUCED else self
    square("linalg_matrix_exp(A)", wide)
    if not self.size:
        return self.copy()
    return np.asarray(expm(wide)).astype(self.dtype)


# ---- vectors of repeated values in general position -------------------------------------------


def eigh_generic(A: Array, UPLO: str, direction: Array | None) -> tuple[Array, Array]:
    """`eigh`, with the bases of repeated eigenvalues turned: Note [Repeated values]."""
    values, vectors = eigh(A, UPLO, True)
    for index, block in clusters(values):
        V = vectors[(*index, slice(None), block)]
        along = None if direction is None else mH(V) @ direction[index] @ V
        vectors[(*index, slice(None), block)] = V @ turn(V.shape[-1], A.dtype, along)
    return values, vectors


def svd_generic(
    A: Array, full_matrices: bool, direction: Array | None
) -> tuple[Array, Array, Array]:
    """`svd`, with the bases of repeated singular values, and those beyond them, turned."""
    U, S, Vh = svd(A, full_matrices, True, None)
    for index, block in clusters(S):
        left, right = U[(*index, slice(None), block)], Vh[(*index, block)]
        along = None if direction is None else -(mH(left) @ direction[index] @ mH(right))
        Q = turn(left.shape[-1], A.dtype, along)
        U[(*index, slice(None), block)], Vh[(*index, block)] = left @ Q, mH(Q) @ right
    k = S.shape[-1]
    if U.shape[-1] > k:
        U[..., k:] = U[..., k:] @ turn(U.shape[-1] - k, A.dtype)
    if Vh.shape[-2] > k:
        Vh[..., k:, :] = mH(turn(Vh.shape[-2] - k, A.dtype)) @ Vh[..., k:, :]
    return U, S, Vh


def eigh_fan(
    A: Array, UPLO: str, direction: Array | None, eigenvalues: Array, eigenvectors: Array
) -> tuple[Array, Array]:
    """Eigenvalues parted, for the same vectors: Note [Repeated values]."""
    values = split(eigenvalues, descending=False, zeros=False)
    return values, repeat_over_fan(eigenvectors, values)


def svd_fan(
    A: Array, full_matrices: bool, direction: Array | None, U: Array, S: Array, Vh: Array
) -> tuple[Array, Array, Array]:
    """Singular values parted from each other, and from 0 where there are vectors beyond them."""
    values = split(S, descending=True, zeros=A.shape[-1] != A.shape[-2])
    return repeat_over_fan(U, values), values, repeat_over_fan(Vh, values)


def eig_fan(self: Array, eigenvalues: Array, eigenvectors: Array) -> tuple[Array, Array]:
    """Eigenvalues and vectors of A + εD, with D in general position, in the order of A's.

    Beside A the vectors are others, so they are computed; defective matrices have enough of them
    there.
    """
    values = np.broadcast_to(eigenvalues, (FAN, *eigenvalues.shape)).copy()
    vectors = np.broadcast_to(eigenvectors, (FAN, *eigenvectors.shape)).copy()
    for index in np.ndindex(*self.shape[:-2]):
        size = eig_step(eigenvalues[index], eigenvectors[index])
        for k in range(FAN) if size else ():
            beside = self[index] + (k + 1) * size * turn(self.shape[-1], self.dtype)
            values[(k, *index)], vectors[(k, *index)] = _in_order(beside, eigenvalues[index])
    return values, vectors


def _in_order(A: Array, like: Array) -> tuple[Array, Array]:
    from scipy.optimize import linear_sum_assignment

    values, vectors = np.linalg.eig(A)
    order = linear_sum_assignment(np.abs(like[:, None] - values))[1]
    return values[order], vectors[:, order]
