"""Extreme elements with their indices, and indices of the k best of rows, in C (selection.c)."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from adjoint.c_kernels import loading
from adjoint.c_kernels.copies import dense

Array = np.ndarray[Any, Any]
LARGE = 1 << 12  # elements from which a call of native code pays
_MOST = 128  # largest k
KINDS = {
    "f": "float", "d": "double", "l": "long", "i": "int", "h": "short", "b": "schar", "B": "uchar",
}  # fmt: skip


def top(rows: Array, k: int, *, largest: bool) -> Array | None:
    """The indices of the k largest (smallest) elements along the last dimension, in order, equal
    elements by index. None without native code, for small arrays, large k, and NaN.
    """
    kind = KINDS.get(rows.dtype.char) if rows.size >= LARGE and 0 < k <= _MOST else None
    run = None if kind is None else loading.ready_for("selection", "top", kind)
    length = rows.shape[-1]
    if run is None or k > length:
        return None
    matrix = dense(rows)
    if not (matrix.flags.c_contiguous and matrix.flags.aligned):
        return None
    places = np.empty((*rows.shape[:-1], k), np.int64)
    fields = loading.block([rows.size // length, length, k, int(largest)])
    return None if loading.call(run, fields, matrix, places) else places


def extreme(x: Array, axis: int, *, largest: bool) -> tuple[Array, Array] | None:
    """The extreme elements along an axis, which keeps size 1, and their first indices; NaN wins.

    None without native code, and for small arrays.
    """
    kind = KINDS.get(x.dtype.char) if x.size >= LARGE and x.shape[axis] < 1 << 31 else None
    run = None if kind is None else loading.ready_for("selection", "extreme", kind)
    whole = x if run is None else dense(x)
    if run is None or not (whole.flags.c_contiguous and whole.flags.aligned):
        return None
    before, after = x.shape[:axis], x.shape[axis + 1 :]
    shape = (*before, 1, *after)
    values, places = np.empty(shape, x.dtype), np.empty(shape, np.int64)
    fields = [math.prod(before), x.shape[axis], math.prod(after), int(largest)]
    loading.call(run, loading.block(fields), whole, values, places)
    return values, places


def runs(x: Array) -> Array | None:
    """The first element of each run of equal elements of a vector; NaN equals nothing.

    None without native code, and for small arrays.
    """
    kind = KINDS.get(x.dtype.char) if x.size >= LARGE else None
    run = None if kind is None else loading.ready_for("selection", "runs", kind)
    if run is None or not (x.flags.c_contiguous and x.flags.aligned):
        return None
    found, count = np.empty(x.shape, x.dtype), np.empty(1, np.int64)
    loading.call(run, loading.block([x.size]), x, found, count)
    found.resize(int(count[0]), refcheck=False)
    return found
