"""Conversions and copies of large arrays, on all cores.

float16 and bfloat16 to the wider types and back, which NumPy converts one by one, are among them.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from adjoint.c_kernels import copies
from adjoint.core import dtypes
from adjoint.core.c_types import C_TYPES
from adjoint.core.dtypes import OF, REDUCED
from adjoint.expressions.trees import Call, Convert, Operand
from adjoint.loops.element_loops import Element, ElementLoop, loop_of, of_tree
from adjoint.loops.gate import LARGE

Array = np.ndarray[Any, Any]

# A double as a float whose last bit tells that digits were cut off, so that a second rounding is
# exact. (S. Boldo, G. Melquiond, Emulation of FMA and correctly rounded sums, 2008.)
_TO_ODD = """
static inline float to_oddf(double x) {
  const float near = (float)x;
  unsigned u; __builtin_memcpy(&u, &near, 4);
  const double back = near, size = back < 0 ? -back : back, whole = x < 0 ? -x : x;
  const unsigned cut = size > whole ? u - 1 : u;
  const unsigned odd = back == x || x != x ? u : cut | 1;
  float y; __builtin_memcpy(&y, &odd, 4);
  return y;
}
"""
# The same by bit operations, for float16: numbers too small for a normal float are 0 in float16.
_TO_ODD_BITS = """
static inline float to_oddf(double x) {
  const union { double x; unsigned long long bits; } as = {.x = x};
  const unsigned long long low = (1ULL << 29) - 1, rest = (as.bits & low) + low;
  const union { unsigned long long bits; double x; } odd = {.bits = (as.bits | rest) & ~low};
  return (float)odd.x;
}
"""
# As NumPy does it: a number out of the integer's range loses bits.
_TO_WHOLE = "static inline {whole} to_whole({real} x) {{ return ({whole})x; }}\n"
_WIDE = ("float32", "float64")
_SMALL = ("bool", "uint8", "int8", "int16")  # exact in float32 and wider types
_WHOLE = (*_SMALL[1:], "int32", "int64")


def astype(array: Array, dtype: Any, order: Any = "K", *, copy: bool = True) -> Array:
    """`array.astype(dtype, order, copy=copy)`, with silent overflow.

    >>> astype(np.array([1.5, 1e6], np.float32), np.float16)
    array([1.5, inf], dtype=float16)
    """
    dtype = np.dtype(dtype)
    if array.dtype == dtype and copy:
        return copies.copied(array, order)
    loop = _loop(array.dtype, dtype) if array.size >= LARGE and array.dtype != dtype else None
    if loop is not None:
        out = None if order == "K" else np.empty(array.shape, dtype, order)
        found = loop([array], out=out)
        if found is not None:
            return found
    with np.errstate(all="ignore"):
        return array.astype(dtype, order, copy=copy)


@lru_cache(maxsize=64)
def _loop(source: np.dtype[Any], target: np.dtype[Any]) -> ElementLoop | None:
    """The loop that converts one type to another; None where NumPy is as good."""
    if source not in OF or target not in OF:
        return None
    one, two = OF[source].name, OF[target].name
    x = Operand("x", OF[source].wide)
    if one in _WIDE and two in _WHOLE:
        kind = dtypes.int64 if two == "int64" else dtypes.int32
        cut = Call("to_whole", (x,), kind)
        declared = _TO_WHOLE.format(whole=C_TYPES[kind.name], real=C_TYPES[one])
        return loop_of(Element((("x", one),), (), ((cut, two),), declared=declared))
    if one in (*_WIDE, *_WHOLE) and two in (*_WIDE, *_WHOLE, "bool"):
        return of_tree(Convert(x, OF[target]), {"x": one}, (), two)
    if one == "bool" and two in (*_WIDE, *_WHOLE):
        return of_tree(x, {"x": one}, (), two)
    if source in REDUCED:
        return of_tree(x, {"x": one}, (), two) if two in _WIDE else None
    if target not in REDUCED or one not in (*_WIDE, *_SMALL):
        return None
    if one != "float64":
        return of_tree(x, {"x": one}, (), two)
    odd = Call("to_odd", (x,), dtypes.float32)
    declared = _TO_ODD_BITS if two == "float16" else _TO_ODD
    return loop_of(Element((("x", one),), (), ((odd, two),), declared=declared))
