"""Some eigenvalues of symmetric matrices by LOBPCG, batches at once.

Knyazev 2001, with a basis that is made orthonormal in every step (Stathopoulos and Wu 2002): in
exact arithmetic the same iteration, and no breakdown where residuals become small.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from adjoint.checks import linalg

Array = np.ndarray[Any, np.dtype[Any]]


def _adjoint(array: Array) -> Array:
    return np.swapaxes(array, -1, -2)


def _extreme(A: Array, basis: Array, count: int, largest: bool) -> tuple[Array, Array]:
    """The extreme eigenvalues of A in the span of an orthonormal basis, and their coordinates."""
    values, vectors = np.linalg.eigh(_adjoint(basis) @ (A @ basis))
    order = slice(None, None, -1) if largest else slice(None)
    return values[..., order][..., :count], vectors[..., order][..., :count]


def _signed(X: Array) -> Array:
    """The vectors with the sign that makes their largest element positive."""
    if not X.size:
        return X
    place = np.abs(X).argmax(axis=-2)[..., None, :]
    return X * np.where(np.take_along_axis(X, place, axis=-2) < 0, -1, 1).astype(X.dtype)


def lobpcg(
    A: Array, X: Array, iK: Array | None, k: int, niter: int, tol: float, largest: bool
) -> tuple[Array, Array]:
    """The k extreme eigenvalues of (A + Aᵀ)/2 and their vectors, started from the columns of X."""
    batch = linalg.eigenpairs_batch(A.shape, X.shape, None if iK is None else iK.shape, k)
    A = np.broadcast_to((A + _adjoint(A)) / 2, (*batch, *A.shape[-2:]))
    count = X.shape[-1]
    basis = np.linalg.qr(np.broadcast_to(X, (*A.shape[:-1], count)))[0]
    norm = np.linalg.norm(A, axis=(-2, -1))[..., None]
    values, C = _extreme(A, basis, count, largest)
    X, P = basis @ C, None
    step = 0
    while niter < 0 or step < niter:
        R = A @ X - X * values[..., None, :]
        error = np.linalg.norm(R, axis=-2)[..., :k]
        if (error <= tol * (norm + np.abs(values[..., :k]))).all():
            break
        W = R if iK is None else iK @ R
        parts = [X, W] if P is None else [X, W, P]
        basis = np.linalg.qr(np.concatenate(parts, axis=-1))[0]
        values, C = _extreme(A, basis, count, largest)
        P = basis[..., count:] @ C[..., count:, :]
        X = basis @ C
        step += 1
    return values[..., :k].copy(), _signed(X[..., :k])
