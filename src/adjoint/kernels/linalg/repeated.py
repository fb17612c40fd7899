"""Functions of pairs of values, and checks that formulas need where values repeat.

Note [Repeated values] stands in clusters.py.
"""

from __future__ import annotations

import numpy as np

from adjoint.core.errors import DegenerateError
from adjoint.kernels.linalg.clusters import (
    NEAR,
    of_eigenvalues,
    of_general,
    of_singular_values,
)
from adjoint.kernels.linalg.common import Array, gauge_limit
from adjoint.kernels.linalg.limits import DEPENDS


def _limit(values: Array) -> Array:
    """Up to where the difference of two values of a row is rounding."""
    return NEAR * np.finfo(values.dtype).eps * np.max(np.abs(values), -1, initial=0.0)


def _pairs(values: Array) -> Array:
    """Which pairs of different positions hold equal values."""
    n = values.shape[-1]
    gaps = np.abs(values[..., :, None] - values[..., None, :])
    return (gaps <= _limit(values)[..., None, None]) & ~np.eye(n, dtype=bool)


def inverse_gaps(values: Array) -> Array:
    """1/(w[j] - w[i]), and 0 for equal values and on the diagonal."""
    gaps = values[..., None, :] - values[..., :, None]
    skip = _pairs(values) | np.eye(values.shape[-1], dtype=bool)
    return np.where(skip, 0, 1 / np.where(skip, 1, gaps)).astype(values.dtype)


def inverse_sums(values: Array) -> Array:
    """1/(s[i] + s[j]), and 0 where both vanish."""
    sums = values[..., None, :] + values[..., :, None]
    skip = sums <= _limit(values)[..., None, None]
    return np.where(skip, 0, 1 / np.where(skip, 1, sums)).astype(values.dtype)


def inverse_values(values: Array, sizes: Array | None, closeness: float, loose: bool) -> Array:
    """1/s of singular values. Where they are close to 0, an error unless `sizes` vanish or `loose`.

    Of values that are 0 up to rounding the result is 0.
    """
    zero = values <= _limit(values)[..., None]
    near = zero.copy()
    for cluster in of_singular_values(values, closeness, 1) if closeness else ():
        if cluster.at_zero:
            near[(*cluster.index, cluster.block)] = True
    if not (loose or not near.any() or (sizes is not None and _vanish(sizes, near))):
        raise DegenerateError(_ZERO)
    return np.where(zero, 0, 1 / np.where(zero, 1, values)).astype(values.dtype)


def _vanish(sizes: Array, where: Array) -> bool:
    return not np.any(np.where(where, sizes, 0) > gauge_limit(sizes))


def shared(self: Array, values: Array, nullity: int) -> Array:
    """A number for each value, which are in order; for equal ones their mean.

    For singular values that vanish 0, if there are at least `nullity`, and that is not 0.

    The largest of equal eigenvalues has a kink. This is the subgradient that does not depend on the
    basis: each of them gets a share.
    """
    limit = _limit(values)[..., None]
    result = self.copy()
    if nullity:
        vanish = values <= limit
        vanish &= np.sum(vanish, -1, keepdims=True) >= nullity
        result[np.broadcast_to(vanish, self.shape)] = 0
    apart = np.abs(np.diff(values, axis=-1)) > limit
    if apart.all():
        return result
    run = np.concatenate([np.zeros_like(apart[..., :1]), apart], -1).cumsum(-1)
    together = (run[..., :, None] == run[..., None, :]).astype(result.dtype)
    total = (together @ result[..., None])[..., 0]
    return np.asarray(total / np.sum(together, -1).real, self.dtype)


def require_split_gauge(self: Array, turn: Array, values: Array) -> Array:
    """`self`, after checking that the skew part, `turn`, vanishes for equal values."""
    inside = _pairs(values) | np.eye(values.shape[-1], dtype=bool)
    if np.any(np.abs(np.where(inside, turn, 0)) > gauge_limit(self)):
        raise DegenerateError(DEPENDS)
    return self.copy()


def require_distinct(self: Array, closeness: float, nullity: int) -> Array:
    """`self`, eigenvalues, or singular values if zeros matter (`nullity`), without clusters."""
    if nullity:
        found = of_singular_values(self, closeness, nullity)
    else:
        found = of_eigenvalues(self, closeness)
    if found:
        raise DegenerateError(_REPEATED)
    return self.copy()


def require_diagonalizable(self: Array, values: Array, closeness: float) -> Array:
    """`self`, eigenvectors of a matrix whose values are not close, and which is not defective."""
    if of_general(values, self, closeness):
        raise DegenerateError(_REPEATED)
    return self.copy()


_REPEATED = (
    "linalg: eigenvalues (or singular values) repeat or nearly so, or the matrix is defective, and "
    "a graph does not know the derivative of the vectors there. Compute it without ad.trace; "
    "ad.compile does so by itself."
)
_ZERO = (
    "linalg: a matrix of lower rank has singular vectors of the value 0, and a graph does not know "
    "their derivative. Compute it without ad.trace; ad.compile does so by itself."
)
