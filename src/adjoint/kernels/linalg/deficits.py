"""Triangular factors without full rank, and matrices near a matrix with such a factor.

Note [Deficits]. The derivatives of A = Q R and A = P L U divide by R and U. Where an element of
their diagonal vanishes, or is tiny compared with its column, a function of Q and R may still be
smooth: a function of their product. So the function is also computed near the matrix, where that
element is r + t: with the same Q, L and P, at Q (R + tD) and P L (U + tD). The rest is as for
clusters of eigenvalues (clusters.py): a function that is not smooth shows a power of 1/t.
"""

# Capitals are matrices here, not constants.
# pyright: reportConstantRedefinition=false

from __future__ import annotations

import numpy as np

from adjoint.core.errors import DegenerateError
from adjoint.core.records import record
from adjoint.kernels.linalg.common import Array, each
from adjoint.kernels.linalg.solve import lu_without_pivots, permutation_of_pivots
from adjoint.kinks.fans import FAN, PROBES, STEPS, steps_of

_BELOW = slice(1 + len(STEPS), 1 + 2 * len(STEPS))  # where t < 0


@record
class Deficit:
    """A matrix of a batch whose triangular factor nearly lacks rank."""

    index: tuple[int, ...]  # which matrix
    sizes: Array  # for each element of the diagonal the size of its column if it is missing, else 0
    equal: bool  # whether one is 0 up to rounding


def deficits(R: Array, closeness: float) -> list[Deficit]:
    """The matrices with a diagonal element that is small compared with its column.

    Unlike gaps between values, small elements do not repel each other, so a small element is as
    likely as it is small: the bound is the square of the bound for gaps.
    """
    diagonal = np.abs(np.diagonal(R, 0, -2, -1))
    if not diagonal.size:
        return []
    count = diagonal.shape[-1]
    moduli = np.abs(np.triu(R)[..., :count])
    top = np.max(moduli, -2, keepdims=True)
    shares = moduli / np.where(top > 0, top, 1)  # whose squares do not overflow
    columns = top[..., 0, :] * np.sqrt(np.sum(shares**2, -2))
    eps = float(np.finfo(R.dtype).eps)
    missing = ~(diagonal > max(10 * count * eps, closeness**2) * columns)
    found = []
    for place in np.argwhere(missing.any(-1)):
        index = tuple(int(i) for i in place)
        size, lost = columns[index], missing[index]
        least = float(np.max(size)) or 1.0
        sizes = np.where(lost, np.where(size > 0, size, least), 0)
        equal = bool(np.any(lost & ~(diagonal[index] > 10 * count * eps * size)))
        found.append(Deficit(index, sizes, equal))
    return found


def _moved(R: Array, found: list[Deficit]) -> Array:
    """R + tD for each t."""
    result = np.repeat(R[None], FAN, 0)
    for deficit in found:
        places = np.arange(len(deficit.sizes))
        moves = steps_of(R.dtype, deficit.equal)[:, None] * deficit.sizes
        result[(slice(1, None), *deficit.index, places, places)] += moves.astype(R.dtype)
    return result


def _varies(A: Array) -> bool:
    return not (np.array_equal(A[0], A[1]) and np.array_equal(A[0], A[-1]))


# ---- A = Q R ------------------------------------------------------------------------------------


def qr_clusters(A: Array, mode: str, Q: Array, R: Array, closeness: float) -> list[Deficit]:
    """The matrices of lower rank, or nearly."""
    return deficits(R, closeness)


def qr_fan(A: Array, mode: str, Q: Array, R: Array, closeness: float) -> tuple[Array, Array]:
    """The factors of Q (R + tD); A holds a matrix for each t, the others are of t = 0."""
    full = "complete" if mode == "complete" else "reduced"
    if mode == "r":
        Q = np.linalg.qr(A[0])[0]
    found = deficits(R, closeness)
    right = _moved(R, found)
    if not _varies(A):
        left = np.repeat(Q[None], FAN, 0)
        for deficit in found:  # the diagonal of R keeps its sign, so that its modulus has a kink
            lost = deficit.sizes > 0
            left[(_BELOW, *deficit.index)][..., :, : lost.size][..., lost] *= -1
            right[(_BELOW, *deficit.index)][..., : lost.size, :][..., lost, :] *= -1
        if not any(deficit.equal for deficit in found):  # with rounding errors of their own
            probes = A[-PROBES:] + Q @ (right[-PROBES:] - R)
            left[-PROBES:], right[-PROBES:] = np.linalg.qr(probes, mode=full)  # type: ignore[call-overload]
        return left, right
    moved = A + Q @ (right - R)
    made = np.linalg.qr(moved[1:], mode=full)  # type: ignore[call-overload]
    return np.concatenate([Q[None], made[0]]), np.concatenate([R[None], made[1]])


# ---- A = P L U ----------------------------------------------------------------------------------


def lu_clusters(
    A: Array, pivot: bool, check_errors: bool, LU: Array, pivots: Array, info: Array,
    closeness: float,
) -> list[Deficit]:  # fmt: skip
    """The matrices of lower rank, or nearly."""
    return deficits(LU, closeness)


def lu_fan(
    A: Array, pivot: bool, check_errors: bool, LU: Array, pivots: Array, info: Array,
    closeness: float,
) -> tuple[Array, Array]:  # fmt: skip
    """The packed factors of P L (U + tD), and the pivots, the same for each t."""
    packed = _moved(LU, deficits(LU, closeness))
    swaps = np.repeat(pivots[None], FAN, 0)
    if _varies(A):
        count = min(LU.shape[-2:])
        lower = np.tril(LU[..., :count], -1) + np.eye(*LU.shape[-2:], dtype=LU.dtype)[:, :count]
        order = permutation_of_pivots(pivots, A.shape[-2])[..., None]
        moved = np.take_along_axis(A, order, -2) + lower @ (packed - LU)[..., :count, :]
        for out, matrix in each(packed[1:], moved[1:]):
            out[...] = lu_without_pivots(matrix)[0]
    return packed, swaps


# ---- in graphs ----------------------------------------------------------------------------------


def require_rank(self: Array, closeness: float) -> Array:
    """`self`, triangular matrices of full rank."""
    if deficits(self, closeness):
        raise DegenerateError(
            "linalg: a triangular factor of a matrix of lower rank has no inverse, and a graph "
            "does not know the derivative there. Compute it without ad.trace; ad.compile does so "
            "by itself."
        )
    return self.copy()
