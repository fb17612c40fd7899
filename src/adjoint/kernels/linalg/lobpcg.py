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


def _extreme(matrix: Array, basis: Array, count: int, largest: bool) -> tuple[Array, Array]:
    """The extreme eigenvalues in the span of an orthonormal basis, and their coordinates."""
    values, vectors = np.linalg.eigh(_adjoint(basis) @ (matrix @ basis))
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
    matrix = np.broadcast_to((A + _adjoint(A)) / 2, (*batch, *A.shape[-2:]))
    count = X.shape[-1]
    basis = np.linalg.qr(np.broadcast_to(X, (*matrix.shape[:-1], count)))[0]
    norm = np.linalg.norm(matrix, axis=(-2, -1))[..., None]
    values, turn = _extreme(matrix, basis, count, largest)
    found, moved = basis @ turn, None  # the vectors, and the direction in which they moved last
    # without a limit as long as it may pay: an accuracy that rounding allows is reached by then
    limit = niter if niter >= 0 else 1000 + 20 * A.shape[-1]
    for _ in range(limit):
        residual = matrix @ found - found * values[..., None, :]
        error = np.linalg.norm(residual, axis=-2)[..., :k]
        if (error <= tol * (norm + np.abs(values[..., :k]))).all():
            break
        parts = [found, residual if iK is None else iK @ residual]
        parts += [] if moved is None else [moved]
        basis = np.linalg.qr(np.concatenate(parts, axis=-1))[0]
        values, turn = _extreme(matrix, basis, count, largest)
        moved = basis[..., count:] @ turn[..., count:, :]
        found = basis @ turn
    return values[..., :k].copy(), _signed(found[..., :k])
