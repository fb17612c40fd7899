"""Determinants, and their derivatives as products of singular values, right at singular matrices.

With A = U S Vᴴ and φ = det(U) det(Vᴴ), adj(A) = φ V adj(S) Uᴴ, and adj(S) holds the products of all
other singular values. Nothing is divided by a singular value, so nothing is lost when some vanish.
"""

from __future__ import annotations

import numpy as np

from adjoint.kernels.linalg.common import Array, mH, square
from adjoint.kernels.linalg.solve import lu_factor_ex


def _parity(pivots: Array) -> Array:
    """The sign of the permutation that LAPACK's swaps make."""
    swaps = (pivots != np.arange(1, pivots.shape[-1] + 1)).sum(-1)
    return 1 - 2 * (swaps % 2)


def det(A: Array) -> tuple[Array, Array, Array]:
    """The determinant, with the LU factors and pivots."""
    square("linalg_det(A)", A)
    LU, pivots, _ = lu_factor_ex(A, True, False)
    product = np.prod(np.diagonal(LU, 0, -2, -1), -1)
    return np.asarray(product * _parity(pivots), A.dtype), LU, pivots


def slogdet(A: Array) -> tuple[Array, Array, Array, Array]:
    """det(A)/|det(A)| and log|det(A)|, with the LU factors and pivots."""
    square("linalg_slogdet(A)", A)
    LU, pivots, _ = lu_factor_ex(A, True, False)
    diagonal = np.diagonal(LU, 0, -2, -1)
    size = np.abs(diagonal)
    with np.errstate(divide="ignore"):
        logarithm = np.log(size).sum(-1)
    sign = np.prod(diagonal / np.where(size > 0, size, 1), -1) * _parity(pivots)
    return np.asarray(sign, A.dtype), np.asarray(logarithm, size.dtype), LU, pivots


def _svd(A: Array) -> tuple[Array, Array, Array]:
    """U φ, S and Vᴴ."""
    U, S, Vh = np.linalg.svd(A)
    phase = np.linalg.det(U) * np.linalg.det(Vh)
    return U * np.conj(phase)[..., None, None], S, Vh


def _others(S: Array) -> Array:
    """∏_{k≠i} s[k], as the product of the elements before i times that of the elements after."""
    ones = np.ones((*S.shape[:-1], 1), S.dtype)
    before = np.cumprod(np.concatenate([ones, S[..., :-1]], -1), -1)
    after = np.cumprod(np.concatenate([ones, S[..., :0:-1]], -1), -1)[..., ::-1]
    return before * after


def _others_of_pairs(S: Array) -> Array:
    """∏_{k≠i,j} s[k] for i ≠ j, and 0 on the diagonal."""
    n = S.shape[-1]
    without = np.repeat(S[..., None, :], n, -2)
    without[..., np.arange(n), np.arange(n)] = 1
    pairs = _others(without)
    pairs[..., np.arange(n), np.arange(n)] = 0
    return pairs


def adjugate(self: Array) -> Array:
    """adj(A): A adj(A) = det(A) I."""
    square("det(A)", self)
    if not self.size:
        return self.copy()
    U, S, Vh = _svd(self)
    return np.asarray((mH(Vh) * _others(S)[..., None, :]) @ mH(U), self.dtype)


def adjugate_tangent(self: Array, tangent: Array) -> Array:
    """The derivative of adj(A) along E. With E' = Uᴴ E V and P[i,j] = ∏_{k≠i,j} s[k]:

    V D Uᴴ φ,  D[i,j] = -P[i,j] E'[i,j],  D[i,i] = Σ_j P[i,j] E'[j,j].
    """
    if not self.size or not tangent.size:
        return np.zeros(np.broadcast_shapes(self.shape, tangent.shape), self.dtype)
    U, S, Vh = np.linalg.svd(self)
    phase = (np.linalg.det(U) * np.linalg.det(Vh))[..., None, None]
    pairs = _others_of_pairs(S)
    inner = mH(U) @ tangent @ mH(Vh)
    trace = (pairs @ np.diagonal(inner, 0, -2, -1)[..., None])[..., 0]
    core = -pairs * inner
    n = S.shape[-1]
    core[..., np.arange(n), np.arange(n)] = trace
    return np.asarray(phase * (mH(Vh) @ core @ mH(U)), self.dtype)
