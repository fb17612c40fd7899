"""Copies of large arrays on all cores, without conversion (copies.c).

They take any dtype of one, two, four or eight bytes. NumPy copies small arrays, and all arrays if
there is no native code.
"""

from __future__ import annotations

import ctypes
import math
import struct
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from adjoint.c_kernels import loading
from adjoint.core.dtypes import OF
from adjoint.core.shapes import Shape
from adjoint.loops import traversal

Array = np.ndarray[Any, Any]
LARGE = 1 << 16  # bytes from which a call of native code pays
_ALIKE = 1 << 18  # the same for arrays with equal strides
_PAIR = struct.Struct("2P").pack
_MAPPED = 1 << 26  # bytes from which NumPy's memory is fresh, and zero (core/allocation.py)
_MOST = 5  # most dimensions that `taken` handles
Places = tuple[int, ...] | None  # indices along a dimension; None: all
_KINDS = {1: "uchar", 2: "short", 4: "float", 8: "double"}  # C types by bytes


def write(to: Array, source: Array) -> None:
    """Copy an array into one of the same dtype that it broadcasts to; they must not overlap.

    >>> made = np.zeros((2, 2))
    >>> write(made, np.array([1.0, 2.0]))
    >>> made
    array([[1., 2.],
           [1., 2.]])
    """
    if to.nbytes < LARGE or to.dtype is not source.dtype or not _moved(to, source):
        np.copyto(to, source, casting="unsafe")


def _moved(to: Array, source: Array) -> bool:
    """Copy by native code, if there is any for these arrays; return whether that was done."""
    if to.nbytes < _ALIKE and (to.strides == source.strides or not source.ndim):
        return False
    run = _function("move", to.dtype)
    if run is None:
        return False
    size = to.itemsize
    out = to.shape, to.strides, size
    plan = traversal.plan(((source.shape, source.strides, size), out), to.dtype, out)
    return plan is not None and not run(plan.fields, _PAIR(id(source), id(to)))


def copied(array: Array, order: Any = "C") -> Array:
    """`array.copy(order)`.

    >>> copied(np.ones((2, 3)).T).strides
    (16, 8)
    """
    if array.nbytes < LARGE:
        return array.copy(order)
    result = np.empty_like(array, order=order, subok=False)
    write(result, array)
    return result


def is_contiguous(array: Array) -> bool:
    """Whether native code can read an array: row by row, at addresses that fit its dtype."""
    return array.flags.c_contiguous and array.flags.aligned


def contiguous(array: Array) -> Array:
    """The array as native code reads it, which is a copy if it lies otherwise.

    >>> odd = np.zeros(9, np.uint8)[1:].view(np.float64)
    >>> contiguous(odd) is odd, contiguous(odd).flags.aligned, contiguous(odd).shape
    (False, True, (1,))
    """
    return array if is_contiguous(array) else copied(array)


def contiguous_if_large(array: Array) -> Array:
    """As `contiguous`, of an array that is large: a small one is NumPy's."""
    return array if array.nbytes < LARGE or array.flags.c_contiguous else copied(array)


def zeros(shape: Shape, dtype: Any) -> Array:
    """`np.zeros(shape, dtype)`.

    >>> zeros((2,), np.float32)
    array([0., 0.], dtype=float32)
    """
    if LARGE <= math.prod(shape) * np.dtype(dtype).itemsize < _MAPPED:
        return _filled(np.empty(shape, dtype), 0)
    return np.zeros(shape, dtype)


def ones(shape: Shape, dtype: Any) -> Array:
    """`np.ones(shape, dtype)`."""
    return _filled(np.empty(shape, dtype), 1)


def zeros_like(array: Array, dtype: Any, order: Any, *, subok: bool = False) -> Array:
    """`np.zeros_like(array, dtype, order, subok)`."""
    if LARGE <= array.nbytes < _MAPPED:
        return _filled(np.empty_like(array, dtype, order, subok), 0)
    return np.zeros_like(array, dtype, order, subok)


def ones_like(array: Array, dtype: Any, order: Any, *, subok: bool = False) -> Array:
    """`np.ones_like(array, dtype, order, subok)`."""
    return _filled(np.empty_like(array, dtype, order, subok), 1)


def _filled(array: Array, value: int) -> Array:
    write(array, np.asarray(value, array.dtype))
    return array


def concatenated(arrays: Sequence[Array], dim: int) -> Array | None:
    """Concatenate arrays of one dtype along a dimension; None if NumPy must do it, or raise."""
    first = arrays[0]
    dim += first.ndim if dim < 0 else 0
    run = _function("join", first.dtype)
    if run is None or not 0 <= dim < first.ndim or sum([a.nbytes for a in arrays]) < LARGE:
        return None
    before, after = first.shape[:dim], first.shape[dim + 1 :]
    size, widths, steps = first.itemsize, [], []
    for a in arrays:
        if a.dtype != first.dtype or a.shape[:dim] != before or a.shape[dim + 1 :] != after:
            return None
        step = _step(a, dim)
        if step is None:
            return None
        steps.append(step)
        widths.append(math.prod(a.shape[dim:]) * size)
    count = sum([a.shape[dim] for a in arrays])
    result = np.empty((*before, count, *after), first.dtype)
    fields = loading.block([math.prod(before), sum(widths), len(arrays), *widths, *steps])
    parts = (ctypes.c_void_p * len(arrays))(*[a.ctypes.data for a in arrays])
    loading.call(run, fields, parts, result)
    return result


def _step(array: Array, dim: int) -> int | None:
    """The distance in bytes between neighbouring rows, a row being all dimensions from `dim` on;
    None if elements of a row are not contiguous or rows are not evenly spaced.
    """
    if array.flags.c_contiguous:
        return math.prod(array.shape[dim:]) * array.itemsize
    if dim != 1 or not array[0].flags.c_contiguous:
        return None
    return array.strides[0]


def taken(x: Array, places: tuple[Places, ...], result: Array) -> bool:
    """Write x[places[0][i], places[1][j], …] at each index (i, j, …) of a row-major result; None
    means all of a dimension in order. Return whether it was done.
    """
    run = _function("take", x.dtype) if x.ndim <= _MOST else None
    if run is None or not (x.size and x.flags.aligned):
        return False
    order = tuple(sorted(range(x.ndim), key=lambda d: -result.strides[d]))
    fields, offsets = _grid(tuple(loading.steps(x)), result.shape, places, order)
    return not loading.call(run, fields, offsets, x, result)


@lru_cache(maxsize=64)
def _grid(
    steps: Shape, shape: Shape, places: tuple[Places, ...], order: Shape
) -> tuple[Any, Array]:
    """The sizes of a result in its memory order, and the offsets of its elements in the source."""
    each = [
        steps[d] * np.asarray(range(shape[d]) if (own := places[d]) is None else own, np.int64)
        for d in order
    ]
    each = [np.zeros(1, np.int64)] * (_MOST - len(each)) + each
    ones = np.flatnonzero(np.diff(each[-1], prepend=each[-1][0] - 2) != 1)  # where runs begin
    ends = np.append(ones[1:], len(each[-1]))
    longest = int(np.argmax(ends - ones))
    start, end = int(ones[longest]), int(ends[longest])
    return loading.block([*map(len, each), start, end - start]), np.concatenate(each)


def triangle(x: Array, diagonal: int, *, right: bool) -> Array | None:
    """The part right of a diagonal, with the diagonal, or else left of it; 0 elsewhere."""
    run = _function("triangle", x.dtype) if x.nbytes >= LARGE else None
    if run is None or not is_contiguous(x):
        return None
    rows, columns = x.shape[-2:]
    result = np.empty(x.shape, x.dtype)
    place = max(-rows, min(diagonal, columns))  # diagonals further out change nothing
    fields = loading.block([x.size // (rows * columns), rows, columns, place, int(right)])
    loading.call(run, fields, x, result)
    return result


def _function(name: str, dtype: np.dtype[Any]) -> Any:
    """The C function for elements of this size."""
    kind = _KINDS.get(dtype.itemsize) if dtype in OF else None
    return None if kind is None else loading.ready_for("copies", name, kind)
