"""Sums, products and extremes over neighbouring dimensions, by C code (reduction.c).

Arrays are dense, in float32 or float64, seen as `x[before, count, after]`. None is returned where
there is no native code, and for small arrays.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from adjoint.native import kernels

Array = np.ndarray[Any, Any]
LARGE = 1 << 12  # elements from which a call of native code pays
SUM, PRODUCT, LARGEST, SMALLEST, SQUARES, SIZES = range(6)
OF_UFUNC: dict[Any, int] = {
    np.add: SUM,
    np.multiply: PRODUCT,
    np.maximum: LARGEST,
    np.minimum: SMALLEST,
}
_NARROW = 16  # elements after the reduced dimension below which rows are joined


def reduce(kind: int, x: Array) -> Array | None:
    """The totals of a kind over the middle one of three dimensions, without it."""
    before, count, after = x.shape
    if x.size < LARGE or not (x.flags.c_contiguous and x.flags.aligned):
        return None
    run = kernels.ready("reduction", "reduce", x.dtype)
    if run is None:
        return None
    many = 64 // after
    if 1 < after < _NARROW and count % many == 0 and count > many:
        # short rows, several as one
        wide = reduce(kind, x.reshape(before, count // many, many * after))
        return None if wide is None else _join(kind, wide.reshape(before, many, after))
    result = np.empty((before, after), x.dtype)
    if kernels.call(run, kernels.block([before, count, after, kind]), x, result):
        raise MemoryError("there is no memory for the totals of pieces")
    return result


def _join(kind: int, parts: Array) -> Array:
    """The totals of totals: those of squares and sizes are added."""
    ufunc = next((u for u, k in OF_UFUNC.items() if k == kind), np.add)
    return ufunc.reduce(parts, axis=1)
