"""Factors of the matrices A + tD near a matrix A with clusters: Note [Repeated values] in
clusters.py.

If A is the same for all t, D spreads the values of a cluster within the space of their vectors, so
only matrices as large as the clusters are factorised. If A already varies with t (it was computed
from the factors of another matrix with clusters), D is added to it.
"""

# Capitals are matrices here, not constants.
# pyright: reportConstantRedefinition=false

from __future__ import annotations

from typing import Any

import numpy as np

from adjoint.checks.linalg import check_real
from adjoint.core import dtypes
from adjoint.core.lazy import Lazy
from adjoint.kernels.linalg.clusters import (
    Cluster,
    Set,
    apart_at_zero,
    of_eigenvalues,
    of_general,
    of_singular_values,
    spread_out,
    zeros_that_matter,
)
from adjoint.kernels.linalg.common import Array, mH
from adjoint.kinks.fans import FAN, steps_of

linalg = Lazy("scipy.linalg")
optimize = Lazy("scipy.optimize")


def _everywhere(x: Array) -> Array:
    """A copy of an array for each t."""
    return np.repeat(x[None], FAN, 0)


def _varies(A: Array) -> bool:
    return not (np.array_equal(A[0], A[1]) and np.array_equal(A[0], A[-1]))


def _moved(block: Array | int, D: Array, cluster: Cluster | Set) -> Array:
    """block + tD for each t but 0."""
    steps = (cluster.reach * steps_of(D.dtype, cluster.equal)).astype(D.real.dtype)
    return block + steps[:, None, None] * D


# ---- Hermitian matrices -------------------------------------------------------------------------


def eigh_clusters(
    A: Array, UPLO: str, compute_v: bool, values: Array, vectors: Array, closeness: float
) -> list[Cluster]:
    """The clusters of eigenvalues that have vectors."""
    return of_eigenvalues(values, closeness) if compute_v else []


def eigh_fan(
    A: Array, UPLO: str, compute_v: bool, eigenvalues: Array, eigenvectors: Array, closeness: float
) -> tuple[Array, Array]:
    """Eigenvalues and vectors of A + tD; A holds a matrix for each t, the others are of t = 0."""
    check_real("values that are parted", dtypes.of(eigenvalues.dtype))
    found = of_eigenvalues(eigenvalues, closeness)
    values, vectors = _everywhere(eigenvalues), _everywhere(eigenvectors)
    moved = A.copy() if _varies(A) else None
    for cluster in found:
        V = eigenvectors[(*cluster.index, slice(None), cluster.block)]
        D = spread_out(V.shape[-1], V.dtype)
        if moved is not None:
            moved[(slice(1, None), *cluster.index)] += _moved(0, V @ D @ mH(V), cluster)
            continue
        place = (slice(1, None), *cluster.index)
        w = eigenvalues[(*cluster.index, cluster.block)]
        parts, Q = np.linalg.eigh(_moved(np.diag(w - w[0]).astype(V.dtype), D, cluster))
        values[(*place, cluster.block)] = w[0] + parts
        vectors[(*place, slice(None), cluster.block)] = V @ Q
    if moved is not None:
        made = np.linalg.eigh(moved[1:], UPLO.upper())  # type: ignore[arg-type]
        values[1:], vectors[1:] = made.eigenvalues, made.eigenvectors
    return values, vectors


# ---- singular values ----------------------------------------------------------------------------


def svd_clusters(
    A: Array, full_matrices: bool, compute_uv: bool, driver: str | None, U: Array, S: Array,
    Vh: Array, closeness: float,
) -> list[Cluster]:  # fmt: skip
    """The clusters of singular values that have vectors."""
    if not compute_uv:
        return []
    return of_singular_values(S, closeness, zeros_that_matter(A.shape, A.dtype))


def svd_fan(
    A: Array, full_matrices: bool, compute_uv: bool, driver: str | None, U: Array, S: Array,
    Vh: Array, closeness: float,
) -> tuple[Array, Array, Array]:  # fmt: skip
    """The factors of A + tD; A holds a matrix for each t, the others are of t = 0."""
    check_real("values that are parted", dtypes.of(S.dtype))
    found = of_singular_values(S, closeness, zeros_that_matter(A.shape, A.dtype))
    left, values, right = _everywhere(U), _everywhere(S), _everywhere(Vh)
    moved = A.copy() if _varies(A) else None
    for cluster in found:
        place, block = (slice(1, None), *cluster.index), cluster.block
        U1, V1h = U[(*cluster.index, slice(None), block)], Vh[(*cluster.index, block)]
        size = U1.shape[-1]
        D = (apart_at_zero if cluster.at_zero else spread_out)(size, A.dtype)
        if moved is not None:
            moved[place] += _moved(0, U1 @ D @ V1h, cluster)
            continue
        s = S[(*cluster.index, block)]
        P, parts, Qh = _factors(_moved(np.diag(s).astype(A.dtype), D, cluster), cluster)
        left[(*place, slice(None), block)], right[(*place, block)] = U1 @ P, Qh @ V1h
        values[(*place, block)] = parts
    if moved is not None:
        left[1:], values[1:], right[1:] = np.linalg.svd(moved[1:], full_matrices=full_matrices)
    return left, values, right


def _factors(blocks: Array, cluster: Cluster) -> tuple[Array, Array, Array]:
    """Singular values and vectors; away from 0 blocks are Hermitian, and both sides turn alike."""
    if cluster.at_zero:
        return np.linalg.svd(blocks)
    values, vectors = np.linalg.eigh(blocks)
    P = vectors[..., ::-1]
    return P, values[..., ::-1], mH(P)


# ---- general matrices ---------------------------------------------------------------------------


def eig_clusters(self: Array, values: Array, vectors: Array, closeness: float) -> list[Set]:
    """The sets of eigenvalues that are close together, or nearly defective."""
    return of_general(values, vectors, closeness)


def eig_fan(
    self: Array, eigenvalues: Array, eigenvectors: Array, closeness: float
) -> tuple[Array, Array]:
    """Eigenvalues and vectors of A + tD, in the order of A's."""
    values, vectors = _everywhere(eigenvalues), _everywhere(eigenvectors)
    found = of_general(eigenvalues, eigenvectors, closeness)
    moved = self.copy()
    for one in found:
        D = _within(self[(0, *one.index)], eigenvalues[one.index], one.members)
        moved[(slice(1, None), *one.index)] += _moved(0, D, one)
    everything = np.ndindex(*self.shape[1:-2]) if _varies(self) else {s.index for s in found}
    for index in everything:
        for k in range(1, FAN):
            place = (k, *index)
            values[place], vectors[place] = _in_order(moved[place], eigenvalues[index])
    return values, vectors


def _within(A: Array, values: Array, members: Array) -> Array:
    """D = X S Xᴴ P: S separates the values of a set, P projects on their space, X is a basis of it.

    D is real if A is: then the set is its own conjugate, or the conjugate set is treated alike.
    """
    P = _projector(A, values, members)
    mine = values[members]
    conjugate = np.sort_complex(mine.conj()) if not np.iscomplexobj(A) else None
    alone = conjugate is not None and not np.allclose(conjugate, np.sort_complex(mine))
    if conjugate is not None and not alone:
        P = np.real(P)
    X = np.linalg.svd(P)[0][:, : len(members)]
    D = X @ spread_out(len(members), X.dtype) @ mH(X) @ P
    return (2 * np.real(D) if alone else D).astype(A.dtype)


def _projector(A: Array, values: Array, members: Array) -> Array:
    """The projector on the space of some eigenvalues along the space of the others."""
    others = np.delete(values, members)

    def chosen(value: Any) -> bool:
        nearest = np.min(np.abs(values[members] - value))
        return bool(nearest <= np.min(np.abs(others - value), initial=np.inf))

    wide = np.result_type(A.dtype, np.complex64)
    found: Any = linalg.schur(A.astype(wide), output="complex", sort=chosen)
    T, Z, count = found
    if not 0 < count < len(A):
        return np.eye(len(A), dtype=wide)
    rest = linalg.solve_sylvester(T[:count, :count], -T[count:, count:], -T[:count, count:])
    left = np.concatenate([np.eye(count), -rest], 1)
    return Z[:, :count] @ left @ mH(Z)


def _in_order(A: Array, like: Array) -> tuple[Array, Array]:
    values, vectors = np.linalg.eig(A)
    order = optimize.linear_sum_assignment(np.abs(like[:, None] - values))[1]
    return values[order], vectors[:, order]
