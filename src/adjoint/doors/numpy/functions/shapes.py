"""Rearranging arrays: padding, blocks, insertions, deletions."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from adjoint.core.dtypes import float64, int64
from adjoint.core.errors import ArgumentError, ShapeError, ValueRangeError
from adjoint.doors import ad
from adjoint.doors.numpy.conversion import Array, common
from adjoint.doors.numpy.dressing import VIEW, on_arrays, outermost
from adjoint.doors.numpy.functions.reductions import quantiles
from adjoint.doors.numpy.words import dims_of, in_order, lined, made, reduced
from adjoint.homes.arrays import ndarray
from adjoint.tensor.tensor import Tensor


def paired(shift: Any, axis: Any) -> tuple[list[int], list[int]]:
    """Shifts and dimensions, one shift for all dimensions if there is one."""
    shifts, dims = (list(v) if isinstance(v, tuple) else [v] for v in (shift, axis))
    count = max(len(shifts), len(dims))
    return shifts * (count // len(shifts)), dims * (count // len(dims))


def rolled(axis: int, start: int, ndim: int) -> int:
    """The new position of a dimension that is rolled before another."""
    start = start + ndim if start < 0 else start
    return start - 1 if axis < start else start


def squeezed(a: Tensor, axis: Any) -> Tensor:
    """The tensor without dimensions of size 1, which must be so."""
    dims = dims_of(axis, a.ndim)
    if any(a.shape[d] != 1 for d in dims):
        raise ShapeError(f"squeeze: axis {axis} of shape {tuple(a.shape)} has not size 1")
    return a.squeeze(dims)


def raveled(a: Any, order: Any) -> Any:
    """The elements in a row: a view if they are stored in that order, else a copy."""
    if not isinstance(a, ndarray):
        return in_a_row(outermost(a), order)
    layout = a.stored_as()
    if layout is None or layout.flags.c_contiguous:
        return in_a_row(a, order)
    return in_a_row(a.copy(), order)


in_a_row = on_arrays(lambda a, order: ad.contiguous(in_order(a, order)).reshape(-1), VIEW)


def reversed_along(m: Any, axis: Any) -> Any:
    """The elements in reverse order along dimensions; of an array a view, as NumPy's is."""
    a = m if isinstance(m, ndarray) else outermost(m)
    dims = list(dims_of(axis, a.ndim))
    return a.mirrored(dims) if isinstance(a, ndarray) else ad.flip(a, dims)


def rot90(m: Any, k: int, axes: Any) -> Any:
    """The array turned in a plane, k times by 90 degrees; a view as above."""
    a = m if isinstance(m, ndarray) else outermost(m)
    first, second = dims_of(tuple(axes), a.ndim)
    turns = k % 4
    if turns == 0:
        return a.viewed(a.value, ()) if isinstance(a, ndarray) else a
    if turns == 2:
        return reversed_along(a, (first, second))
    if turns == 1:
        return reversed_along(a, second).swapaxes(first, second)
    return reversed_along(a.swapaxes(first, second), second)


def triangle(shape: Any) -> tuple[int, ...]:
    """The shape of a triangle of a matrix; a vector is each of its rows."""
    return (*shape, *shape) if len(shape) == 1 else tuple(shape)


def block(arrays: Any) -> Tensor:
    """An array of nested lists of blocks: the innermost lists are joined along the last axis."""
    depth = _depth(arrays)
    ndim = max([depth, *(Array(b).ndim for b in _leaves(arrays))])
    return _block(arrays, depth, ndim)


def _depth(arrays: Any) -> int:
    return 1 + max(map(_depth, arrays)) if isinstance(arrays, list) and arrays else 0


def _leaves(arrays: Any) -> list[Any]:
    return [b for a in arrays for b in _leaves(a)] if isinstance(arrays, list) else [arrays]


def _block(arrays: Any, depth: int, ndim: int) -> Tensor:
    if not isinstance(arrays, list):
        a = Array(arrays)
        return a.reshape([*(1,) * (ndim - a.ndim), *a.shape])
    parts = [_block(a, depth - 1, ndim) for a in arrays]
    return ad.cat(list(common(*parts)), -depth)


def meshgrid(*arrays: Any, copy: bool, sparse: bool, indexing: str) -> tuple[Tensor, ...]:
    """Coordinates of a grid; `sparse` leaves the dimensions that repeat at size 1."""
    vectors = [Array(a).reshape(-1) for a in arrays]
    count = len(vectors)
    places = list(range(count))
    if indexing == "xy" and count > 1:
        places[:2] = [1, 0]
    elif indexing not in ("xy", "ij"):
        raise ValueRangeError(f"meshgrid: indexing={indexing!r} is 'xy' or 'ij'")
    sizes = [0] * count
    for place, vector in zip(places, vectors, strict=True):
        sizes[place] = vector.shape[0]
    grids = [
        v.reshape([-1 if d == place else 1 for d in range(count)])
        for place, v in zip(places, vectors, strict=True)
    ]
    return tuple(grids if sparse else [g.expand(sizes) for g in grids])


def resize(a: Tensor, new_shape: Any) -> Tensor:
    """The elements in another shape, repeated or cut off as needed."""
    sizes = (
        [int(n) for n in new_shape] if isinstance(new_shape, (tuple, list)) else [int(new_shape)]
    )
    wanted, flat = math.prod(sizes), a.reshape(-1)
    if not flat.shape[0] or not wanted:
        return ad.zeros(sizes, dtype=a.dtype)
    times = -(-wanted // flat.shape[0])
    return ad.tile(flat, (times,)).narrow(0, 0, wanted).reshape(sizes)


# ---- padding ------------------------------------------------------------------------------------

_BY_INDEX = ("edge", "reflect", "symmetric", "wrap")
_STATISTICS = {"maximum": "amax", "minimum": "amin", "mean": "mean"}


def pad(array: Tensor, pad_width: Any, mode: Any = "constant", **keywords: Any) -> Tensor:
    """More elements before and after each dimension, by NumPy's modes."""
    widths = _pairs(pad_width, array.ndim)
    if callable(mode):
        raise ArgumentError("pad: a function as mode writes to memory; use ad.cat with its values")
    if mode in _BY_INDEX:
        kind = {"reflect_type": keywords.pop("reflect_type", "even")}
        _no_more(mode, keywords)
        for d, width in enumerate(widths):
            if any(width):
                array = _mirrored(array, d, width, mode, **kind)
        return array
    if mode in ("constant", "empty"):
        values = _pairs(keywords.pop("constant_values", 0), array.ndim)
        ends = lambda a, d: [Array(v).to(a.dtype) for v in values[d]]
    elif mode == "linear_ramp":
        return _ramp(array, widths, _pairs(keywords.pop("end_values", 0), array.ndim))
    elif mode in (*_STATISTICS, "median"):
        lengths = _pairs(keywords.pop("stat_length", None), array.ndim)
        ends = lambda a, d: _statistics(a, d, mode, lengths[d])
    else:
        raise ValueRangeError(f"pad: there is no mode {mode!r}")
    _no_more(mode, keywords)
    for d, (before, after) in enumerate(widths):
        first, last = ends(array, d)
        array = ad.cat([_wide(first, array, d, before), array, _wide(last, array, d, after)], d)
    return array


def _mirrored(array: Tensor, d: int, width: Any, mode: Any, reflect_type: Any) -> Tensor:
    """More elements of a dimension, which are combinations of its elements: NumPy says which."""
    count = array.shape[d]
    if reflect_type == "even" or mode not in ("reflect", "symmetric"):
        return ad.index_select(array, d, Array(np.pad(np.arange(count), width, mode)))
    odd = [np.pad(row, width, mode, reflect_type=reflect_type) for row in np.eye(count)]
    return ad.tensordot(array, made(odd).to(array.dtype), [d], [0]).movedim(-1, d)


def _no_more(mode: str, keywords: Any) -> None:
    if keywords:
        raise ArgumentError(f"pad(mode={mode!r}) has no argument {next(iter(keywords))!r}")


def _pairs(value: Any, ndim: int) -> list[tuple[Any, Any]]:
    """A value for both ends of all dimensions, a pair for all, or a pair for each."""
    if isinstance(value, dict):
        given = {d % ndim: v for d, v in value.items()}
        return [_pair(given.get(d, 0)) for d in range(ndim)]
    if isinstance(value, np.ndarray):
        value = value.tolist()
    if not isinstance(value, (tuple, list)):
        return [(value, value)] * ndim
    if len(value) == 1:
        return _pairs(value[0], ndim)
    if not isinstance(value[0], (tuple, list)):
        return [(value[0], value[1])] * ndim
    return [_pair(v) for v in value]


def _pair(value: Any) -> tuple[Any, Any]:
    if isinstance(value, (tuple, list)):
        return (value[0], value[-1])
    return (value, value)


def _wide(value: Tensor, a: Tensor, d: int, width: int) -> Tensor:
    sizes = [width if i == d else n for i, n in enumerate(a.shape)]
    return value.expand(sizes)


def _statistics(a: Tensor, d: int, mode: str, lengths: Any) -> list[Tensor]:
    size = a.shape[d]
    found = []
    for first, length in zip((True, False), lengths, strict=True):
        count = size if length is None else min(int(length), size)
        part = a.narrow(d, 0 if first else size - count, count)
        floats = part if part.dtype.is_differentiable else part.to(Array(0.0).dtype)
        if mode == "median":
            value = quantiles(floats, 0.5, d, "linear", True)
        else:
            value = reduced(_STATISTICS[mode], floats, d, True)
        found.append((value if a.dtype.is_differentiable else value.round()).to(a.dtype))
    return found


def _ramp(array: Tensor, widths: Any, ends: Any) -> Tensor:
    for d, ((before, after), (low, high)) in enumerate(zip(widths, ends, strict=True)):
        size = array.shape[d]
        first, last = array.narrow(d, 0, 1), array.narrow(d, size - 1, 1)
        shape = [-1 if i == d else 1 for i in range(array.ndim)]
        dtype = array.dtype if array.dtype.is_differentiable else float64
        rise = made(np.arange(before) / max(before, 1), dtype).reshape(shape)
        fall = made(np.arange(after)[::-1] / max(after, 1), dtype).reshape(shape)
        ends = [low + (first - low) * rise, high + (last - high) * fall]
        if not array.dtype.is_differentiable:
            ends = [ad.floor(end).to(array.dtype) for end in ends]
        array = ad.cat([ends[0], array, ends[1]], d)
    return array


# ---- insertions and deletions -------------------------------------------------------------------


def _positions(obj: Any, size: int) -> Any:
    if isinstance(obj, slice):
        return np.arange(size)[obj]
    found = np.asarray(obj.numpy() if isinstance(obj, Tensor) else obj)
    return np.nonzero(found)[0] if found.dtype == bool else found.astype(np.int64)


def delete(arr: Tensor, obj: Any, axis: Any) -> Tensor:
    """The array without some of its slices."""
    a, d = lined(arr, axis)
    left = np.delete(np.arange(a.shape[d]), _positions(obj, a.shape[d]))
    return ad.index_select(a, d, Array(left))


def insert(arr: Tensor, obj: Any, values: Any, axis: Any) -> Tensor:
    """The array with slices put in before others."""
    a, d = lined(arr, axis)
    size = a.shape[d]
    before = _positions(obj, size)
    v = Array(values).to(a.dtype)
    count = before.size
    if before.ndim == 0:
        v = v.movedim(0, d) if v.ndim == a.ndim and v.ndim > 1 and v.shape[0] != 1 else v
        rest = math.prod(n for i, n in enumerate(a.shape) if i != d)
        count = v.numel() // rest if v.ndim == a.ndim and v.numel() > rest else 1
        count = v.numel() if a.ndim == 1 else count
        if v.ndim and v.ndim == a.ndim - 1:
            v = v.unsqueeze(d)
        before = np.full(count, int(before))
    v = v.expand([count if i == d else n for i, n in enumerate(a.shape)])
    marks = np.insert(np.arange(size), before, -1 - np.arange(count))
    index = np.where(marks < 0, size - 1 - marks, marks)
    return ad.index_select(ad.cat([a, v], d), d, Array(index).to(int64))


def trim_zeros(filt: Tensor, trim: str, axis: Any) -> Tensor:
    """The array without zeros at its front and its back."""
    found = ad.nonzero_numpy(filt.detach())
    for d in dims_of(axis, filt.ndim):
        places, size = found[d], filt.shape[d]
        low = int(places.min()) if places.numel() else size
        high = int(places.max()) + 1 if places.numel() else size
        low, high = low if "f" in trim.lower() else 0, high if "b" in trim.lower() else size
        filt = filt.narrow(d, low, max(high - low, 0))
    return filt
