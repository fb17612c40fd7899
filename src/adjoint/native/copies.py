"""Rows that are joined, and triangles of matrices, by C code (copies.c).

Elements are only moved, so any dtype of four or eight bytes will do. None is returned where there
is no native code, for small arrays, and for those that are not dense.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from adjoint.native import kernels
from adjoint.native.indexing import MOVED

Array = np.ndarray[Any, Any]
LARGE = 1 << 14  # elements from which a call of native code pays
_NARROW = 16  # elements of a row of a part below which NumPy's loop is better


def joined(arrays: Sequence[Array], dim: int) -> Array | None:
    """Arrays of one dtype joined along a dimension; the others are the same."""
    first = arrays[0]
    dim += first.ndim if dim < 0 else 0
    if not 0 < dim < first.ndim or sum(a.size for a in arrays) < LARGE:
        return None
    run = _function("join", *arrays)
    if run is None:
        return None
    before, after = first.shape[:dim], first.shape[dim + 1 :]
    if any(a.ndim != first.ndim or a.shape[:dim] != before for a in arrays) or any(
        a.shape[dim + 1 :] != after for a in arrays
    ):
        return None
    sizes = [a.shape[dim] for a in arrays]
    widths = [n * math.prod(after) for n in sizes]
    if min(widths) < _NARROW:
        return None
    result = np.empty((*before, sum(sizes), *after), first.dtype)
    fields = kernels.block([math.prod(before), sum(widths), len(arrays), *widths])
    parts = (ctypes.c_void_p * len(arrays))(*[a.ctypes.data for a in arrays])
    kernels.call(run, fields, parts, result.view(MOVED[first.itemsize]))
    return result


def triangle(x: Array, diagonal: int, *, right: bool) -> Array | None:
    """What is right of a diagonal, the diagonal with it, or left of it; 0 elsewhere."""
    run = _function("triangle", x)
    if run is None:
        return None
    rows, columns = x.shape[-2:]
    kind = MOVED[x.itemsize]
    result = np.empty(x.shape, x.dtype)
    place = max(-rows, min(diagonal, columns))  # beyond them nothing changes
    fields = kernels.block([x.size // (rows * columns), rows, columns, place, int(right)])
    kernels.call(run, fields, x.view(kind), result.view(kind))
    return result


def _function(name: str, *arrays: Array) -> Any:
    """The C function, if it fits the arrays: dense, and of one dtype."""
    dtype = arrays[0].dtype
    kind = MOVED.get(dtype.itemsize) if dtype.kind in "fiu" else None
    if kind is None or any(
        a.dtype != dtype or not (a.flags.c_contiguous and a.flags.aligned) for a in arrays
    ):
        return None
    return kernels.ready("copies", name, kind)
