"""Gathering and scattering of elements and rows, in C (indexing.c).

Arrays are contiguous and seen as [outer, size, inner], around the dimension that is indexed.
Elements are only moved, but for sums, so any dtype of four or eight bytes will do. None (or False)
is returned where there is no native code, for small arrays, and where an index is out of range:
the NumPy kernel then says which.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from adjoint.c_kernels import loading
from adjoint.c_kernels.copies import is_contiguous
from adjoint.core.shapes import Shape
from adjoint.loops.gate import SEVERAL as LARGE

Array = np.ndarray[Any, Any]
MOVED = {4: np.dtype(np.float32), 8: np.dtype(np.float64)}  # by bytes: a dtype with C code


def gather(x: Array, dim: int, index: Array) -> Array | None:
    """x[.., index[j], ..] for every element j of the index; other dimensions are the same."""
    kind = MOVED.get(x.itemsize)
    if kind is None or not _fit(x, dim, index):
        return None
    name = "gather_last" if dim == x.ndim - 1 else "gather"
    run = loading.ready("indexing", name, kind)
    if run is None:
        return None
    result = np.empty(index.shape, x.dtype)
    wrong = loading.call(
        run, _sizes(x.shape, dim, index.shape[dim]), x.view(kind), index, result.view(kind)
    )
    return None if wrong else result


def scatter(target: Array, dim: int, index: Array, values: Array, *, adds: bool) -> bool:
    """Write (or add) each value at its index in `target`, in order; return whether it was done.

    If not, `target` may hold some of the values, so pass a copy.
    """
    kind = MOVED.get(target.itemsize)
    if kind is None or target.dtype != values.dtype or (adds and target.dtype != kind):
        return False
    if values.shape != index.shape or not (values.flags.c_contiguous and _fit(target, dim, index)):
        return False
    run = loading.ready("indexing", "scatter", kind)
    if run is None:
        return False
    sizes = _sizes(target.shape, dim, index.shape[dim], int(adds))
    return not loading.call(run, sizes, values.view(kind), index, target.view(kind))


def select(x: Array, dim: int, index: Array) -> Array | None:
    """x with the entries `index` of a dimension."""
    kind = MOVED.get(x.itemsize)
    if kind is None or x.size < LARGE or not (is_contiguous(x) and is_contiguous(index)):
        return None
    run = loading.ready("indexing", "select", kind)
    if run is None:
        return None
    result = np.empty((*x.shape[:dim], index.size, *x.shape[dim + 1 :]), x.dtype)
    sizes = _sizes(x.shape, dim, index.size)
    return None if loading.call(run, sizes, x.view(kind), index, result.view(kind)) else result


def add_rows(target: Array, index: Array, values: Array) -> bool:
    """target[o, index[j]] += values[o, j] for every o and j, in order; return whether it was done.

    Both have three dimensions.
    """
    if target.dtype != values.dtype or values.size < LARGE or target.dtype not in MOVED.values():
        return False
    if not (is_contiguous(target) and is_contiguous(values) and is_contiguous(index)):
        return False
    run = loading.ready("indexing", "add_rows", target.dtype)
    if run is None:
        return False
    sizes = loading.block([*target.shape, index.size])
    return not loading.call(run, sizes, values, index, target)


def _fit(x: Array, dim: int, index: Array) -> bool:
    """Whether the arrays are large enough, and of equal size except along `dim`."""
    return (
        index.size >= LARGE
        and x.ndim == index.ndim
        and index.dtype == np.int64
        and x.shape[:dim] == index.shape[:dim]
        and x.shape[dim + 1 :] == index.shape[dim + 1 :]
        and is_contiguous(x)
        and is_contiguous(index)
    )


def _sizes(shape: Shape, dim: int, count: int, *more: int) -> Any:
    outer, inner = math.prod(shape[:dim]), math.prod(shape[dim + 1 :])
    return loading.block([outer, shape[dim], inner, count, *more])
