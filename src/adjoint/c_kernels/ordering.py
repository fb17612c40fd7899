"""Sorted search, histograms, membership, and logarithms of running sums, in C (ordering.c).

Compiled programs call these functions, too. They return None if there is no native code, for small
arrays, and if the C code fails: the NumPy kernel then raises the error.
"""

from __future__ import annotations

import math
import struct
from typing import Any

import numpy as np

from adjoint.c_kernels import loading
from adjoint.c_kernels.copies import contiguous
from adjoint.core.c_types import KINDS
from adjoint.loops.gate import SEVERAL as LARGE

Array = np.ndarray[Any, Any]


def search(sequence: Array, values: Array, *, right: bool) -> Array | None:
    """The sorted positions of values in a sequence, or of rows of values in rows."""
    run = _function("search", values)
    if run is None or sequence.dtype != values.dtype or not sequence.size:
        return None
    *lead, length = sequence.shape
    rows, result = math.prod(lead), np.empty(values.shape, np.int64)
    sizes = [rows, length, values.size // rows, int(right), 0, 0]
    return _made(run, sizes, (sequence, values), result)


def counts(rows: Array, bins: int, low: float, high: float, *, own_range: bool) -> Array | None:
    """The number of each row's elements in each of `bins` equal parts of [low, high], or of the
    row's own range.
    """
    run = _function("count", rows) if rows.dtype.char in "fd" else None
    if run is None:
        return None
    *lead, length = rows.shape
    ends = struct.unpack("2q", struct.pack("2d", low, high))
    sizes = [math.prod(lead), length, bins, *ends, int(own_range)]
    return _made(run, sizes, (rows,), np.empty((*lead, bins), rows.dtype))


def running_logarithms(x: Array, axis: int) -> Array | None:
    """The running log Σ exp along an axis."""
    run = _function("logarithms", x) if x.dtype.char in "fd" else None
    if run is None:
        return None
    sizes = [math.prod(x.shape[:axis]), x.shape[axis], math.prod(x.shape[axis + 1 :])]
    return _made(run, sizes, (x,), np.empty(x.shape, x.dtype))


def members(elements: Array, numbers: Array, *, invert: bool) -> Array | None:
    """Whether each element is among some whole numbers of the same dtype."""
    whole = elements.dtype == numbers.dtype and elements.dtype.kind in "iu"
    run = _function("member", elements) if whole else None
    if run is None:
        return None
    sizes = [elements.size, numbers.size, int(invert)]
    return _made(run, sizes, (elements, numbers), np.empty(elements.shape, np.bool_))


def _function(name: str, array: Array) -> Any:
    kind = KINDS.get(array.dtype) if array.size >= LARGE else None
    return None if kind is None else loading.ready_for("ordering", name, kind)


def _made(run: Any, sizes: list[int], given: tuple[Array, ...], result: Array) -> Array | None:
    """The result of a function of ordering.c; None if it fails."""
    whole = [contiguous(a) for a in given]
    return None if loading.call_on(run, sizes, whole, (result,)) else result
