"""What repeated eigenvalues and singular values leave open, and how derivatives deal with it."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np

from adjoint.core.errors import GradError
from adjoint.kernels.linalg.common import Array, mH, real_dtype

# Note [Repeated values]. Vectors that belong to equal eigenvalues (or singular values) are
# determined up to a rotation among themselves. A gradient arrives as slopes w̄ in the values and
# X = Vᴴ V̄. Let i, j be such a pair.
#   * The skew part of X at (i, j) is the derivative along the rotation. It is divided by
#     w[j] - w[i] = 0, so it must vanish; otherwise the function depends on the basis: GradError.
#   * The result at (i, j) is then a limit 0/0. For a function of V g(w) Vᴴ with cotangent M the
#     Hermitian part of X is H = M g(w), the slopes are M[i,i] g'(w), and the limit is
#     M[i,j] g'(w) = r H[i,j] with r = g'/g. The diagonals tell it: w̄[i] = r H[i,i], or, with a
#     function of the values added, w̄[i] = r H[i,i] + c. Where they do not, the cotangent fits
#     V w Vᴴ as well as V Vᴴ; then the first, r = 1/w, is assumed, with a warning.
# A basis in special position (the axes, for the identity) hides both: U.sum() is stationary there,
# and a cotangent with one element has no diagonal. So while differentiating, such bases are turned
# (`eigh_generic`). Forward mode knows the direction: in the basis that makes Vᴴ Ȧ V diagonal
# within a block, nothing is left open.

NEAR = 100  # values closer than this many ulp of the largest one count as equal


def _pairs(values: Array) -> Array:
    """Which pairs of different positions hold equal values."""
    n = values.shape[-1]
    size = np.max(np.abs(values), -1, initial=0.0)
    limit = NEAR * np.finfo(values.dtype).eps * size
    gaps = np.abs(values[..., :, None] - values[..., None, :])
    return (gaps <= limit[..., None, None]) & ~np.eye(n, dtype=bool)


def clusters(values: Array) -> Iterator[tuple[tuple[int, ...], slice]]:
    """The runs of equal values, which are sorted: the position in the batch, and where they are."""
    if values.shape[-1] < 2:
        return
    size = np.max(np.abs(values), -1, keepdims=True)
    close = np.abs(np.diff(values, axis=-1)) <= NEAR * np.finfo(values.dtype).eps * size
    for index in np.ndindex(*values.shape[:-1]):
        if close[index].any():
            yield from ((index, run) for run in _runs(close[index]))


def _runs(close: Array) -> Iterator[slice]:
    start = 0
    for position in range(1, len(close) + 2):
        if position > len(close) or not close[position - 1]:
            if position - start > 1:
                yield slice(start, position)
            start = position


def turn(size: int, dtype: np.dtype[Any], along: Array | None = None) -> Array:
    """A unitary matrix: in general position, or the one that makes `along` diagonal, ascending.

    Of singular values, which descend, `along` is given with the other sign.
    """
    if along is not None:
        return np.linalg.eigh(0.5 * (along + mH(along)))[1].astype(dtype)
    return np.linalg.qr(np.random.default_rng(size).standard_normal((size, size)))[0].astype(dtype)


def inverse_gaps(values: Array) -> Array:
    """1/(w[j] - w[i]), and 0 for equal values and on the diagonal."""
    gaps = values[..., None, :] - values[..., :, None]
    skip = _pairs(values) | np.eye(values.shape[-1], dtype=bool)
    return np.where(skip, 0, 1 / np.where(skip, 1, gaps)).astype(values.dtype)


def inverse_sums(values: Array) -> Array:
    """1/(s[i] + s[j]), and 0 where both vanish."""
    sums = values[..., None, :] + values[..., :, None]
    top = np.max(np.abs(values), -1, initial=0.0)[..., None, None]
    skip = sums <= NEAR * np.finfo(values.dtype).eps * top
    return np.where(skip, 0, 1 / np.where(skip, 1, sums)).astype(values.dtype)


def repeated_ratio(symmetric: Array, skew: Array, slopes: Array, values: Array) -> Array:
    """r for each pair of equal values, 0 elsewhere: Note [Repeated values]. Checks the gauge."""
    shape = np.broadcast_shapes(symmetric.shape, skew.shape)
    ratio = np.zeros(shape, real_dtype(symmetric))
    n = shape[-1]
    pairs = np.broadcast_to(_pairs(values), shape)
    blocked = pairs | np.eye(n, dtype=bool)
    size = np.max(np.abs(symmetric) + np.abs(skew), (-2, -1), initial=0.0, keepdims=True)
    loose = np.sqrt(np.finfo(ratio.dtype).eps)
    if np.any(np.abs(np.where(blocked, skew, 0)) > loose * size):
        raise GradError(_DEPENDS)
    if not pairs.any():
        return ratio
    symmetric = np.broadcast_to(symmetric, shape)
    slopes = np.broadcast_to(slopes, shape[:-1])
    values = np.broadcast_to(values, shape[:-1])
    for index in np.ndindex(*shape[:-2]):
        if pairs[index].any():
            ratio[index] = _ratios(symmetric[index], slopes[index], values[index], pairs[index])
    return ratio


def _ratios(symmetric: Array, slopes: Array, values: Array, pairs: Array) -> Array:
    """`repeated_ratio` of one matrix."""
    ratio = np.zeros(pairs.shape, values.dtype)
    loose = np.sqrt(np.finfo(values.dtype).eps)
    size = loose * (np.max(np.abs(symmetric)) + np.max(np.abs(slopes)))
    left = set(range(len(values)))
    while left:
        block = np.flatnonzero(pairs[min(left)] | (np.arange(len(values)) == min(left)))
        left -= set(block.tolist())
        inside = symmetric[np.ix_(block, block)]
        if len(block) > 1:
            r = _fit(inside, slopes[block], float(np.mean(values[block])), float(size))
            ratio[np.ix_(block, block)] = r * (1 - np.eye(len(block)))
    return ratio


def _fit(H: Array, slopes: Array, value: float, size: float) -> float:
    """r with slopes = r diag(H), else with slopes = r diag(H) + c."""
    diagonal = np.real(np.diagonal(H))
    if np.max(np.abs(H)) <= size and np.ptp(slopes) <= size:
        return 0.0  # nothing in the block but a function of the values
    if np.max(np.abs(diagonal)) > size:
        r = float(diagonal @ slopes / (diagonal @ diagonal))
        if np.max(np.abs(slopes - r * diagonal)) <= size:
            return r
        if np.ptp(diagonal) > size:
            centred = diagonal - diagonal.mean()
            r = float(centred @ slopes / (centred @ centred))
            if np.max(np.abs(slopes - slopes.mean() - r * centred)) <= size:
                return r
    off = np.abs(H - np.diag(np.diagonal(H)))
    if np.ptp(slopes) > size or np.max(off) > size:
        warnings.warn(_ASSUMED, stacklevel=2)
        return 1 / value if value else 0.0
    return 0.0


def repeated_guess(tangent: Array, values: Array) -> Array:
    """1/w for each pair of equal values, 0 elsewhere: the assumption of Note [Repeated values]."""
    pairs = np.broadcast_to(_pairs(values), tangent.shape)
    ratio = np.zeros(tangent.shape, values.dtype)
    size = np.max(np.abs(tangent), (-2, -1), initial=0.0, keepdims=True)
    used = pairs & (np.abs(tangent) > np.sqrt(np.finfo(ratio.dtype).eps) * size)
    if used.any():
        warnings.warn(_ASSUMED, stacklevel=2)
        w = np.broadcast_to(values[..., None, :], tangent.shape)
        ratio = np.where(used & (w != 0), 1 / np.where(w != 0, w, 1), 0).astype(values.dtype)
    return ratio


def refuse_repeated(self: Array, values: Array) -> Array:
    """`self`, unless values repeat: their vectors have no second derivative."""
    if _pairs(values).any():
        raise GradError(_SECOND)
    return self.copy()


_DEPENDS = (
    "linalg: eigenvectors (or singular vectors) are determined up to a factor of modulus 1, those "
    "of a repeated value up to a rotation among themselves, and the function depends on that "
    "choice, so it has no derivative here. Use a function that does not depend on it, such as "
    "V @ diag(f(w)) @ V.mH."
)
_ASSUMED = (
    "linalg: at repeated eigenvalues (or singular values) this direction does not determine the "
    "derivative of the vectors; the function was taken to be one of V @ diag(w) @ V.mH (or of "
    "U @ diag(S) @ Vh). If it is not, move the input a little away from the repeated values."
)
_SECOND = (
    "linalg: the second derivative of eigenvectors (or singular vectors) at repeated values is not "
    "determined by what reaches them. Move the input a little away from the repeated values."
)


def eig_gaps(self: Array, inner: Array, slopes: Array) -> Array:
    """1/(w[j] - w[i]), and 0 for equal values, where `inner` must vanish."""
    pairs = _pairs(self)
    size = np.max(np.abs(inner), (-2, -1), initial=0.0, keepdims=True)
    loose = np.sqrt(np.finfo(self.dtype).eps)
    skip = pairs | np.eye(self.shape[-1], dtype=bool)
    if np.any(
        np.abs(np.where(skip, inner, 0))
        > loose * np.maximum(size, np.max(np.abs(slopes), initial=0))
    ):
        raise GradError(_DEPENDS)
    apart = np.abs(slopes[..., :, None] - slopes[..., None, :])
    if np.any(pairs & (apart > loose * np.max(np.abs(slopes), initial=0.0))):
        warnings.warn(_UNKNOWN, stacklevel=2)
    gaps = self[..., None, :] - self[..., :, None]
    return np.where(skip, 0, 1 / np.where(skip, 1, gaps)).astype(self.dtype)


_UNKNOWN = (
    "linalg_eig: at repeated eigenvalues the derivative is not determined by what reaches the "
    "values and vectors; it was taken without the part that mixes them. Move the input a little."
)
