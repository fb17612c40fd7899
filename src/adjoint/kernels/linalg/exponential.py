"""The exponential of matrices: Padé's approximant of order 13, scaling and squaring.

Al-Mohy and Higham 2009: how often A must be halved is told by the norm of its powers, not its own,
which is much smaller for matrices far from normal; halving too often costs as many digits.
"""

# Capitals are matrices here, not constants.
# pyright: reportConstantRedefinition=false

from __future__ import annotations

import numpy as np

from adjoint.core.lazy import Lazy
from adjoint.kernels.halves import widen
from adjoint.kernels.linalg.common import Array, square

linalg = Lazy("scipy.linalg")

_C = (
    1.0, 0.5, 3 / 25, 11 / 600, 11 / 5520, 3 / 18400, 1 / 96600, 1 / 1932000, 1 / 48944000,
    1 / 1585785600, 1 / 67395888000, 1 / 3953892096000, 1 / 355850288640000, 1 / 64764752532480000,
)  # fmt: skip
_REACH = 4.25  # of the approximant in float64
_FACTOR = 1.13250775606021113e38  # 1/|c| of the first term that it leaves out, z²⁷
_MANY = 16  # matrices, from which on it pays to compute them together
_SURE = 2.0  # up to this norm SciPy's exponential is as good; for larger ones it halves too rarely


def matrix_exp(self: Array) -> Array:
    """Σ Aᵏ/k!."""
    wide = widen(self)
    square("linalg_matrix_exp(A)", wide)
    if not self.size:
        return self.copy()
    with np.errstate(all="ignore"):
        A: Array = wide.reshape((-1, *self.shape[-2:]))
        found = _together(A) if len(A) >= _MANY else np.stack([_one(a) for a in A])
    return found.reshape(self.shape).astype(self.dtype)


def _norm(A: Array) -> Array:
    """The largest sum of a column."""
    return np.max(np.sum(np.abs(A), -2), -1)


def _one(A: Array) -> Array:
    """The exponential of one matrix; by SciPy, where halving according to the norm is right."""
    norm = float(_norm(A))
    if norm <= _SURE:
        return np.asarray(linalg.expm(A))
    halvings = int(np.frexp(norm / _SURE)[1]) if norm < 1e100 else 0
    if not halvings or float(_norm(A @ A)) < (norm / 4) ** 2:
        return _together(A[None])[0]
    X = np.asarray(linalg.expm(A * 2.0**-halvings))
    for _ in range(halvings):
        X = X @ X
    return X


def _together(A: Array) -> Array:
    norm = _norm(A)
    size = np.frexp(norm)[1]  # so that no power of A overflows
    A = _times(A, -size)
    A2 = A @ A
    A4 = A2 @ A2
    A6 = A4 @ A2
    halvings = np.zeros(len(A), np.int64)
    large = norm > _REACH
    if large.any():
        halvings[large] = _halvings(A[large], A4[large], A6[large], size[large])
    # A has been divided by 2^size, and should have been by 2^halvings
    back = size - halvings
    X = _approximant(*(_times(P, k * back) for k, P in ((1, A), (2, A2), (4, A4), (6, A6))))
    for k in range(int(halvings.max(initial=0))):
        more = halvings > k
        X[more] = X[more] @ X[more]
    X[~np.isfinite(norm)] = np.nan
    return X


def _times(A: Array, exponents: Array) -> Array:
    """A 2ᵏ for each matrix, where 2ᵏ alone may be beyond the range."""
    parts = np.ascontiguousarray(A).view(A.real.dtype)
    return np.ldexp(parts, exponents[:, None, None]).view(A.dtype)


def _halvings(A: Array, A4: Array, A6: Array, size: Array) -> Array:
    """How often A 2^size is to be halved."""
    d6, d8, d10 = (_norm(P) ** (1 / k) for k, P in ((6, A6), (8, A4 @ A4), (10, A4 @ A6)))
    reach = np.minimum(np.maximum(d6, d8), np.maximum(d8, d10))
    count = np.maximum(size + np.ceil(np.log2(np.maximum(reach, 1e-300) / _REACH)), 0)
    # the rest of the series, of the moduli, must be rounding, too
    sums, moduli = np.ones(A.shape[:-1]), np.abs(np.swapaxes(A, -1, -2)).astype(np.float64)
    for _ in range(27):
        sums = (moduli @ sums[..., None])[..., 0]
    rest = np.log2(np.max(sums, -1)) - np.log2(_norm(A)) + 26 * (size - count)
    more = np.ceil((rest - np.log2(_FACTOR) + 53) / 26)
    return (count + np.maximum(more, 0)).astype(np.int64)


def _approximant(A: Array, A2: Array, A4: Array, A6: Array) -> Array:
    """(V - U)⁻¹ (V + U) = 1 + 2 (V - U)⁻¹ U, U and V being the odd and the even terms."""
    one = np.eye(A.shape[-1], dtype=A.dtype)
    high = A6 @ (_C[13] * A6 + _C[11] * A4 + _C[9] * A2)
    U = A @ (high + _C[7] * A6 + _C[5] * A4 + _C[3] * A2 + _C[1] * one)
    high = A6 @ (_C[12] * A6 + _C[10] * A4 + _C[8] * A2)
    V = high + _C[6] * A6 + _C[4] * A4 + _C[2] * A2 + _C[0] * one
    return np.asarray(one + 2 * np.linalg.solve(V - U, U))
