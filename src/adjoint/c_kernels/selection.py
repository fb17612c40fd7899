"""Extreme elements with their indices, and runs of equal elements, in C (selection.c)."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from adjoint.c_kernels import loading
from adjoint.c_kernels.copies import contiguous_if_large, is_contiguous
from adjoint.core.c_types import KINDS
from adjoint.loops.gate import SEVERAL as LARGE

Array = np.ndarray[Any, Any]


def extreme(x: Array, axis: int, *, largest: bool) -> tuple[Array, Array] | None:
    """The extreme elements along an axis, which keeps size 1, and their first indices; NaN wins.

    None without native code, and for small arrays.
    """
    kind = KINDS.get(x.dtype) if x.size >= LARGE and x.shape[axis] < 1 << 31 else None
    run = None if kind is None else loading.ready_for("selection", "extreme", kind)
    whole = x if run is None else contiguous_if_large(x)
    if run is None or not is_contiguous(whole):
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
    kind = KINDS.get(x.dtype) if x.size >= LARGE else None
    run = None if kind is None else loading.ready_for("selection", "runs", kind)
    if run is None or not is_contiguous(x):
        return None
    found, count = np.empty(x.shape, x.dtype), np.empty(1, np.int64)
    loading.call(run, loading.block([x.size]), x, found, count)
    found.resize(int(count[0]), refcheck=False)
    return found
