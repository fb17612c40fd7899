"""Sorting, and elements chosen by rank, in C (sorting.c); compiled programs call these, too.

The functions return None if there is no native code, and for small arrays.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from adjoint.c_kernels import loading
from adjoint.c_kernels.copies import contiguous
from adjoint.core.c_types import KINDS
from adjoint.core.shapes import around

Array = np.ndarray[Any, Any]
LARGE = 1 << 10  # elements from which a call of native code pays
MEDIAN, MEDIAN_OF_NUMBERS, MODE = -1, -2, -3  # in place of a rank
BETWEEN = {"linear": 0, "lower": 1, "higher": 2, "midpoint": 3, "nearest": 4}


def ordered(x: Array, axis: int, *, descending: bool) -> tuple[Array, Array] | None:
    """The elements in stable order along an axis, and where they were."""
    run = _function("sort", x)
    if run is None:
        return None
    return _made(run, [*around(x.shape, axis), int(descending)], x, x.shape)


def top(x: Array, axis: int, k: int, *, largest: bool) -> tuple[Array, Array] | None:
    """The k best elements along an axis in order, and where they are."""
    run = _function("top", x)
    if run is None:
        return None
    shape = (*x.shape[:axis], k, *x.shape[axis + 1 :])
    return _made(run, [*around(x.shape, axis), k, int(largest)], x, shape)


def choose(x: Array, axis: int, rank: int) -> tuple[Array, Array] | None:
    """The element of a rank along an axis, which goes, and where it is; or the MEDIAN, …."""
    run = _function("choose", x)
    if run is None:
        return None
    return _made(run, [*around(x.shape, axis), rank, 1], x, (*x.shape[:axis], *x.shape[axis + 1 :]))


def quantiles(rows: Array, q: Array, how: str, *, ignore_nan: bool) -> Array | None:
    """Some quantiles of each row; the first dimension of the result tells them apart. None for q
    outside [0, 1], too.
    """
    run = _function("quantiles", rows) if rows.dtype.kind == "f" else None
    if run is None or q.dtype != rows.dtype:
        return None
    *lead, n = rows.shape
    sizes = [math.prod(lead), n, 1, q.size, BETWEEN[how], int(ignore_nan)]
    result = np.empty((q.size, *lead), rows.dtype)
    failed = loading.call_on(run, sizes, (contiguous(rows), contiguous(q)), (result,))
    return None if failed else result


def _function(name: str, x: Array) -> Any:
    kind = KINDS.get(x.dtype) if x.size >= LARGE else None
    return None if kind is None else loading.ready_for("sorting", name, kind)


def _made(
    run: Any, sizes: list[int], x: Array, shape: tuple[int, ...]
) -> tuple[Array, Array] | None:
    """Values and places; None if there was no memory."""
    values, places = np.empty(shape, x.dtype), np.empty(shape, np.int64)
    failed = loading.call_on(run, sizes, (contiguous(x),), (values, places))
    return None if failed else (values, places)
