"""Sums, products and extremes over adjacent dimensions, in C (reduction.c).

Arrays are float32 or float64, viewed as `x[before, count, after]`, where the elements of the last
dimension, or of rows, are contiguous. The functions return None if there is no native code, for
small arrays and other strides, and if memory has run out.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from adjoint.c_kernels import loading
from adjoint.c_kernels.conversions import astype
from adjoint.c_kernels.copies import is_contiguous
from adjoint.core.c_types import KINDS
from adjoint.core.dtypes import REDUCED
from adjoint.core.shapes import Shape
from adjoint.loops.gate import SEVERAL as LARGE

Array = np.ndarray[Any, Any]
LARGE_DOT = 1 << 17  # elements from which all cores are quicker than BLAS
SUM, PRODUCT, LARGEST, SMALLEST, SQUARES, SIZES, PRESENT = range(7)
OF_UFUNC: dict[Any, int] = {
    np.add: SUM,
    np.multiply: PRODUCT,
    np.maximum: LARGEST,
    np.minimum: SMALLEST,
}
_NARROW = 16  # below so many elements after the reduced dimension, rows are joined


def summed(x: Array, axes: Shape, shape: Shape) -> Array:
    """Σ x over axes in ascending order, as an array of a shape that lacks them or has 1 there;
    float16 and bfloat16 are added in float32.

    >>> summed(np.ones((2, 3)), (0,), (3,))
    array([2., 2., 2.])
    """
    if x.dtype in REDUCED:
        return astype(summed(astype(x, np.float32), axes, shape), x.dtype)
    if x.size >= LARGE and axes and axes[-1] - axes[0] == len(axes) - 1:
        first, last = axes[0], axes[-1] + 1
        middle = math.prod(x.shape[first:last])
        if x.flags.c_contiguous and middle > 1 and x.dtype.char in "fd":
            before = math.prod(x.shape[:first])
            found = reduce(SUM, x.reshape(before, middle, -1), shape)
            if found is not None:
                return found if found.shape == shape else found.reshape(shape)
    keepdims = len(axes) > x.ndim - len(shape)
    result = np.asarray(np.add.reduce(x, axis=axes, keepdims=keepdims))
    return result if result.shape == shape else result.reshape(shape)


def reduce(kind: int, x: Array, shape: Shape | None = None) -> Array | None:
    """The totals of a kind over the middle one of three dimensions, without it; where they come
    from one call, as an array of `shape`.
    """
    before, _, after = x.shape
    if x.size < LARGE:
        return None
    if is_short(x):
        return _short(kind, x, 64 // after)
    known = fields(kind, x)
    return None if known is None else run(x, known, (before, after) if shape is None else shape)


def is_short(x: Array) -> bool:
    """Whether the last dimension is so short that several rows are joined to one."""
    _, count, after = x.shape
    return 1 < after < _NARROW and count > 2 * (64 // after) and x.strides[1] == after * x.itemsize


def fields(kind: int, x: Array) -> Any:
    """Sizes and steps of a three-dimensional array for the C code; None for unsuitable strides."""
    before, count, after = x.shape
    size = x.itemsize
    if x.strides[1 if after == 1 else 2] != size or x.strides[0] % size or x.strides[1] % size:
        return None
    return loading.block([before, count, after, kind, x.strides[0] // size, x.strides[1] // size])


def run(x: Array, fields: Any, shape: Shape) -> Array | None:
    """Run the reduction that `fields` describe into a new array."""
    call = loading.ready("reduction", "reduce", x.dtype) if x.flags.aligned else None
    if call is None:
        return None
    result = np.empty(shape, x.dtype)
    return None if loading.call(call, fields, x, result) else result


def dot(x: Array, y: Array) -> Array | None:
    """The sum of the products of two vectors; None where BLAS is as good."""
    if x.size < LARGE_DOT or x.dtype != y.dtype or x.shape != y.shape:
        return None
    if not (is_contiguous(x) and is_contiguous(y)):
        return None
    run = loading.ready("reduction", "dot", x.dtype)
    result = np.empty((), x.dtype)
    if run is None or loading.call(run, loading.block([x.size]), x, y, result):
        return None
    return result


def sum_of_complex(x: Array) -> Array | None:
    """The sum of all elements of a contiguous array of complex numbers."""
    kind = x.real.dtype
    run = loading.ready("reduction", "pairs", kind) if x.flags.aligned else None
    parts = np.empty(2, kind)
    if run is None or loading.call(run, loading.block([x.size]), x.reshape(-1).view(kind), parts):
        return None
    return parts.view(x.dtype)[0:1].reshape(())


def add_up(x: Array) -> Array | None:
    """Sum integers over the middle one of three dimensions, which is dropped, in 64 bits."""
    before, count, after = x.shape
    size = x.itemsize
    fits = x.dtype.kind in "biu" and x.size >= LARGE and x.flags.aligned
    kind = KINDS.get(x.dtype) if fits else None
    run = None if kind is None else loading.ready_for("whole", "add_up", kind)
    if run is None or x.strides[1 if after == 1 else 2] != size or x.strides[0] % size:
        return None
    many = 64 // after
    if 1 < after < _NARROW and count > 2 * many and x.strides[1] == after * size:
        even = count // many * many  # join several short rows
        wide = add_up(x[:, :even].reshape(before, count // many, many * after, copy=False))
        if wide is None:
            return None
        rest = np.add.reduce(x[:, even:], axis=1, dtype=np.int64)
        return wide.reshape(before, many, after).sum(axis=1) + rest
    result = np.empty((before, after), np.int64)
    fields = [before, count, after, x.strides[0] // size, x.strides[1] // size]
    if x.strides[1] % size or loading.call(run, loading.block(fields), x, result):
        return None
    return result


def _short(kind: int, x: Array, many: int) -> Array | None:
    """The totals of short rows, `many` of which are joined to one."""
    before, count, after = x.shape
    even = count // many * many
    wide = reduce(kind, x[:, :even].reshape(before, count // many, many * after, copy=False))
    if wide is None:
        return None
    parts = wide.reshape(before, many, after)
    if even == count:
        return _join(kind, parts)
    rest = x[:, even:]
    rest = rest * rest if kind == SQUARES else abs(rest) if kind == SIZES else rest
    return _join(kind, np.concatenate([parts, rest], axis=1))


def _join(kind: int, parts: Array) -> Array:
    """Reduce partial totals: for squares and absolute values they are added."""
    ufunc = next((u for u, k in OF_UFUNC.items() if k == kind), np.add)
    return ufunc.reduce(parts, axis=1)
