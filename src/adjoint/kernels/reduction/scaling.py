"""Sums of powers whose terms overflow or underflow: computed again, of numbers of the size of 1.

The quick way comes first. Where a sum of it is beyond its safe range (`is_safe`), rows are divided
by a power of two near their largest element, which rounds nothing, and the result is multiplied
with it. So ordinary numbers pay for one look at the sums.
"""

from __future__ import annotations

import numpy as np

from adjoint.kernels.reduction.common import Array
from adjoint.kernels.reduction.large import reduce

# Sums of squares in between have lost nothing: squares that vanished are rounding errors of the
# smallest of these sums, however many there are, and no square overflowed.
SAFE = {"f": (2.0**-90, 2.0**126), "d": (2.0**-960, 2.0**1022)}

_FEW = 48  # sums


def is_safe(sums: Array, safe: tuple[float, float] | None = None) -> bool:
    """Whether sums of squares are in the safe range, all of them; a NaN is not."""
    least, most = SAFE[sums.dtype.char] if safe is None else safe
    if sums.ndim == 0:
        return bool(least < sums < most)
    if sums.size <= _FEW:  # Python is quicker
        return all(least < number < most for number in sums.ravel().tolist())
    with np.errstate(invalid="ignore"):  # of NaN
        lowest, highest = np.minimum.reduce(sums, None), np.maximum.reduce(sums, None)
    return bool(lowest > least and highest < most)


def sizes(x: Array) -> Array:
    """|x| of real numbers; of complex ones the larger of |re x| and |im x|."""
    if x.dtype.kind == "c":
        return np.maximum(np.abs(x.real), np.abs(x.imag))
    return np.abs(x)


def exponents(x: Array, axes: tuple[int, ...]) -> Array | None:
    """For each row the exponent of its largest element, dimensions kept, 0 where that is 0 or no
    number; None if it is 0 everywhere.
    """
    if not x.size:
        return None
    top = reduce(np.maximum, sizes(x), axes, True)
    exponent: Array = np.where(np.isfinite(top), np.frexp(top)[1], 0)
    return exponent if exponent.any() else None


def scaled(x: Array, exponent: Array) -> Array:
    """x · 2^exponent."""
    if x.dtype.kind != "c":
        return np.ldexp(x, exponent)
    parts = np.ascontiguousarray(x).view(x.real.dtype).reshape(*x.shape, 2)
    return np.ldexp(parts, exponent[..., None]).view(x.dtype).reshape(x.shape)


def without(exponent: Array, axes: tuple[int, ...], keepdims: bool) -> Array:
    """Exponents of rows in the shape of a result."""
    return exponent if keepdims else exponent.squeeze(axes)
