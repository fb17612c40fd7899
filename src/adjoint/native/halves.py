"""float16 and bfloat16 to the wider types and back: NumPy converts them one by one."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from adjoint.core.dtypes import OF, REDUCED
from adjoint.native.loops import LARGE, Loop

Array = np.ndarray[Any, Any]

# A double as a float whose last bit says that digits were cut off: rounding it again is rounding
# once. (S. Boldo, G. Melquiond, Emulation of FMA and correctly rounded sums, 2008.)
_TO_ODD = """
static inline float to_odd(double x) {
  const float near = (float)x;
  unsigned u; __builtin_memcpy(&u, &near, 4);
  const double back = near, size = back < 0 ? -back : back, whole = x < 0 ? -x : x;
  const unsigned cut = size > whole ? u - 1 : u;
  const unsigned odd = back == x || x != x ? u : cut | 1;
  float y; __builtin_memcpy(&y, &odd, 4);
  return y;
}
"""
_WIDE = ("float32", "float64")


def astype(array: Array, dtype: Any, order: Any = "K", *, copy: bool = True) -> Array:
    """`array.astype(dtype, order, copy=copy)`, overflow being silent.

    >>> astype(np.array([1.5, 1e6], np.float32), np.float16)
    array([1.5, inf], dtype=float16)
    """
    dtype = np.dtype(dtype)
    if array.size >= LARGE and (array.dtype in REDUCED) != (dtype in REDUCED):
        loop = _loop(array.dtype, dtype)
        out = None if order == "K" else np.empty(array.shape, dtype, order)
        found = None if loop is None else loop([array], out=out)
        if found is not None:
            return found
    with np.errstate(all="ignore"):
        return array.astype(dtype, order, copy=copy)


@lru_cache(maxsize=16)
def _loop(source: np.dtype[Any], target: np.dtype[Any]) -> Loop | None:
    names = [OF[source].name, OF[target].name] if source in OF and target in OF else []
    if len({*names} & {*_WIDE}) != 1 or source == target:
        return None
    if names[0] == "float64":
        return Loop("to_odd({x})", {"x": names[0]}, (), names[1], _TO_ODD)
    return Loop("{x}", {"x": names[0]}, (), names[1])
