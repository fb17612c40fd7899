"""Repeated eigenvalues and singular values: the freedom they leave, and derivatives beside it."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from adjoint.checks.linalg import check_dtype, check_real
from adjoint.core import dtypes
from adjoint.core.errors import DegenerateError, GradError
from adjoint.core.infinitesimal import FAN
from adjoint.kernels.linalg.common import Array, gauge_limit, mH

# Note [Repeated values]. Vectors that belong to equal eigenvalues (or singular values) are
# determined up to a rotation among themselves. A gradient arrives as slopes w̄ in the values and
# X = Vᴴ V̄. Let i, j be such a pair.
#   * The skew part of X at (i, j) is the derivative along the rotation. It is divided by
#     w[j] - w[i] = 0, so it must vanish; otherwise the function depends on the basis: GradError.
#   * The result at (i, j) is then a limit 0/0, and what arrives does not tell it. So the function
#     is computed beside the matrix too: V diag(w + εd) Vᴴ has the same vectors, and no repeated
#     values if d has none. All derivatives exist there, and those of a function that does not
#     depend on the basis tend to the true ones with ε. A polynomial through six values of ε, a fan,
#     gives the limit, to about 1e-10 for second derivatives. A tensor of `LIMITS` takes the fan
#     along: Note [Kinks] in tensor/limits.py. A derivative that grows as 1/ε on the way is refused.
#   * Singular values 0 of matrices that are not square are parted from 0 likewise. General
#     matrices, which may be defective, are moved themselves: A + εD, with D in general position.
#   * In a graph the values are not known beforehand, so there is no fan: its derivatives hold for
#     values that do not repeat, and check that (`require_distinct`). A compiled function that meets
#     a DegenerateError runs eagerly for that call.
# A basis in special position (the axes, for the identity) hides that a function depends on it:
# U.sum() is stationary there. So while differentiating, such bases are turned (`eigh_generic`).
# Forward mode knows the direction: in the basis that makes Vᴴ Ȧ V diagonal within a block, values
# part along it.

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


STEPS = {4: 0.07, 8: 0.005}  # by bytes of a real number: ε, of the distance to other values


def split(values: Array, descending: bool, zeros: bool) -> Array:
    """w + εd for a fan of ε, d different within each run of equal values, and 0 elsewhere.

    `zeros`: a single 0 is to be parted from 0, too.
    """
    check_real("values that are parted", dtypes.of(values.dtype))
    moves = np.zeros(values.shape, values.dtype)
    for index, block in clusters(values):
        moves[(*index, block)] = _moves(values[index], block, descending)
    if zeros:
        top = np.max(np.abs(values), -1, initial=0.0, keepdims=True)
        alone = (np.abs(values) <= NEAR * np.finfo(values.dtype).eps * top) & (moves == 0)
        for place in zip(*np.nonzero(alone), strict=True):
            *index, last = place
            moves[place] = _moves(values[tuple(index)], slice(last, last + 1), descending)[0]
    steps = STEPS[values.dtype.itemsize] * np.arange(1, FAN + 1)
    return values + steps.reshape((-1,) + (1,) * values.ndim).astype(values.dtype) * moves


def repeat_over_fan(vectors: Array, values: Array) -> Array:
    """The same vectors for all of a fan; only looked at if its values are the same, too."""
    if np.array_equal(values[0], values[-1]):
        return np.broadcast_to(vectors.copy(), (FAN, *vectors.shape))
    return np.broadcast_to(vectors, (FAN, *vectors.shape)).copy()


def _moves(values: Array, block: slice, descending: bool) -> Array:
    """How far the values of a run may go: to the next ones, or to 0 unless they are there."""
    others = np.append(np.delete(values, block), 0.0)
    gaps = np.abs(others - np.mean(values[block]))
    limit = NEAR * np.finfo(values.dtype).eps * np.max(np.abs(values))
    far = gaps[gaps > limit]
    count = block.stop - block.start
    steps = np.arange(1, count + 1) / count * (np.min(far) if far.size else 1.0)
    return steps[::-1] if descending else steps


def eig_step(values: Array, vectors: Array) -> float:
    """How far to go from a matrix with these eigenvalues that repeat; 0 if none do.

    Those of a defective matrix are apart by a root of the rounding error, and their vectors almost
    parallel.
    """
    top = float(np.max(np.abs(values), initial=0.0))
    gaps = np.abs(values[:, None] - values)
    parallel = np.abs(mH(vectors) @ vectors) > 1 - 1e-3
    near = np.where(parallel, 1e-5, NEAR * np.finfo(values.dtype).eps) * top
    if not np.any((gaps <= near) & ~np.eye(len(values), dtype=bool)):
        return 0.0
    far = gaps[gaps > 1e-5 * top]
    step = STEPS[values.real.dtype.itemsize]
    return step * float(np.min(far) if far.size else top or 1.0)


def limit_of_fan(self: Array) -> Array:
    """The value at ε = 0 of the polynomial through those at ε, 2ε, …"""
    return np.tensordot(fan_weights(np.finfo(self.dtype).dtype), self, 1)


def require_no_pole(self: Array) -> Array:
    """`self`, derivatives at ε, 2ε, …, if they do not grow as a power of 1/ε."""
    check_dtype("_linalg_require_no_pole", dtypes.of(self.dtype))
    values = self.reshape(FAN, -1)
    size = np.abs(values)
    eps, step = float(np.finfo(size.dtype).eps), STEPS[size.dtype.itemsize]
    # rounding errors of the vectors are the same for all of a fan, so they look like a pole, too
    least = max(1e-5, 20 * eps / step**2) * np.max(size, initial=0.0)
    relevant = size[0] > max(least, min(500 * eps / step**4, 0.01))
    if any(_has_pole(values[:, relevant], order).any() for order in range(1, 5)):
        raise GradError(_DEPENDS)
    return self.copy()


def _has_pole(values: Array, order: int) -> Array:
    """Whether εᵏ f(ε) tends to a number other than 0, k being the order, as a polynomial would."""
    steps = np.arange(1, FAN + 1, dtype=np.float64)
    basis = np.vander(steps, 3, increasing=True)
    inverse = np.linalg.pinv(basis)
    scaled = values * (steps**order)[:, None]
    parts = inverse @ scaled
    top = np.max(np.abs(scaled), 0)
    clean = np.max(np.abs(scaled - basis @ parts), 0) < 0.01 * top
    return clean & (np.abs(parts[0]) > 0.3 * top)


def fan_weights(dtype: np.dtype[Any]) -> Array:
    """By which the values at ε, 2ε, … are multiplied to give that at 0."""
    return np.array([-((-1) ** k) * math.comb(FAN, k) for k in range(1, FAN + 1)], dtype)


def spread_over_fan(self: Array) -> Array:
    """The transpose of `limit_of_fan`."""
    real = np.finfo(self.dtype).dtype
    return np.multiply.outer(fan_weights(real), self)


def require_split_gauge(self: Array, turn: Array, values: Array) -> Array:
    """`self`, if what is skew in a fan of it, in the limit, vanishes for equal values."""
    inside = _pairs(values) | np.eye(values.shape[-1], dtype=bool)
    if np.any(np.abs(np.where(inside, turn, 0)) > gauge_limit(self)):
        raise GradError(_DEPENDS)
    return self.copy()


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


def inverse_values(values: Array, sizes: Array | None) -> Array:
    """1/s of singular values. Where they vanish: 0 if `sizes` do, else DegenerateError."""
    top = np.max(values, -1, initial=0.0, keepdims=True)
    zero = values <= NEAR * np.finfo(values.dtype).eps * top
    if not zero.any():
        return 1 / values
    if sizes is None or np.any(np.where(zero, sizes, 0) > gauge_limit(sizes)):
        raise DegenerateError(_ZERO)
    return np.where(zero, 0, 1 / np.where(zero, 1, values)).astype(values.dtype)


def require_distinct(self: Array) -> Array:
    """`self`, values that do not repeat."""
    if _pairs(self).any():
        raise DegenerateError(_REPEATED)
    return self.copy()


def require_diagonalizable(self: Array, values: Array) -> Array:
    """`self`, eigenvectors of a matrix whose values do not repeat, and which is not defective."""
    for index in np.ndindex(*values.shape[:-1]):
        if eig_step(values[index], self[index]):
            raise DegenerateError(_REPEATED)
    return self.copy()


_DEPENDS = (
    "linalg: eigenvectors (or singular vectors) are determined up to a factor of modulus 1, those "
    "of a repeated value up to a rotation among themselves, and the function depends on that "
    "choice, so it has no derivative here. Use a function that does not depend on it, such as "
    "V @ diag(f(w)) @ V.mH."
)
_REPEATED = (
    "linalg: eigenvalues (or singular values) repeat, or the matrix is defective, and a graph does "
    "not know the derivative of the vectors there. Compute it without ad.trace; ad.compile does so "
    "by itself."
)
_ZERO = (
    "linalg: a matrix of lower rank has singular vectors of the value 0, and a graph does not know "
    "their derivative. Compute it without ad.trace; ad.compile does so by itself."
)
