"""Kernels of max pooling: values alone, values with places, gradients back to places.

The largest element of a window is found dimension by dimension. Its place is the first at which an
element equals it, and of NaN the last, as in PyTorch. It is found dimension by dimension, too: an
element of a window along one dimension has a number, and the numbers along all of them are the
digits of a rank, the first dimension's first. Ranks of small windows are bytes, so that comparing
costs most; the largest rank among equal elements tells the place.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from adjoint.c_kernels import pooling as native
from adjoint.checks import pooling as rules
from adjoint.core import dtypes
from adjoint.core.shapes import row_major
from adjoint.kernels.halves import wide_dtype, widen
from adjoint.kernels.images import room_like
from adjoint.kernels.indexing.accumulate import in_bounds, narrowed
from adjoint.kernels.pooling.windows import PoolingWindows, adaptive, combined, regular

Array = np.ndarray[Any, Any]
Ints = tuple[int, ...]

RANKS = (np.uint8, np.uint16, np.uint32)  # the smallest that holds all ranks is used


def _lowest(dtype: np.dtype[Any]) -> Any:
    return -np.inf if dtype.kind == "f" else np.iinfo(dtype).min


def _maxima(array: Array, windows: Sequence[PoolingWindows]) -> list[Array]:
    """The largest elements after pooling no dimension, one, …, all."""
    found, first = [array], array.ndim - len(windows)
    for axis, along in enumerate(windows, first):
        found.append(combined(np.maximum, found[-1], axis, along, _lowest(array.dtype)))
    return found


def _ranked(
    ranks: Any, chooses: Array, values: Array, axis: int, windows: PoolingWindows, *, first: bool
) -> Array:
    """Ranks with one more digit: the number of the largest element along an axis.

    `chooses` holds the elements and `values` the largest of each window. The digit is larger
    the earlier the element is, or, of NaN, the later.
    """
    kind = ranks.dtype.type
    higher = ranks * kind(windows.elements)
    result = room_like(values, values.shape, ranks.dtype)
    result.fill(0)
    before = (slice(None),) * axis
    for each in windows.passes:
        source, target = chooses[(*before, each.places)], result[(*before, each.chosen)]
        taken = source == values[(*before, each.chosen)] if first else source != source
        digit = windows.elements - 1 - each.element if first else each.element
        known = higher[(*before, each.places)] if ranks.ndim else higher
        np.maximum(target, taken.view(np.uint8) * (known + kind(digit)), out=target)
    return result


def _offsets(maxima: Sequence[Array], windows: Sequence[PoolingWindows], *, first: bool) -> Array:
    """The offset of the largest element from element 0 of its window; 0 if there is none."""
    spans = [w.elements for w in windows]
    count = math.prod(spans)
    ranks: Any = np.ones((), next(d for d in RANKS if 2 * count <= np.iinfo(d).max))
    axis = maxima[0].ndim - len(windows)
    for d, along in enumerate(windows):
        ranks = _ranked(ranks, maxima[d], maxima[d + 1], axis + d, along, first=first)
    steps = [w.step * s for w, s in zip(windows, row_major(maxima[0].shape[axis:]), strict=True)]
    digits = itertools.product(*map(range, spans))
    offsets = [sum(i * s for i, s in zip(d, steps, strict=True)) for d in digits]
    table = np.array([0] * count + (offsets[::-1] if first else offsets))
    result = room_like(ranks, ranks.shape, np.int64)
    return table.take(ranks, out=result, mode="clip")


def _places(maxima: Sequence[Array], windows: Sequence[PoolingWindows]) -> Array:
    """The index of the largest element of each window in its plane or volume."""
    values = maxima[-1]
    result = _offsets(maxima, windows, first=True)
    if values.dtype.kind == "f" and np.isnan(values.sum()):
        np.copyto(result, _offsets(maxima, windows, first=False), where=np.isnan(values))
    starts: Any = 0
    sizes = maxima[0].shape[values.ndim - len(windows) :]
    for w, step in zip(windows, row_major(sizes), strict=True):
        starts = np.add.outer(starts, w.first * step)
    result += starts
    return result


def _with_indices(what: str, dims: int, array: Array, *geometry: Any) -> tuple[Array, Array]:
    found = rules.windows(what, array.shape, dims, *geometry)
    rules.check_numbers(what, dtypes.of(array.dtype), integers=True)
    if array.ndim == dims + 1 and not array.flags.c_contiguous:  # its channels may be last
        values, places = _with_indices(what, dims, array[None], *geometry)
        return values[0], places[0]
    numbers = widen(array)
    values = room_like(numbers, rules.pooled(array.shape, found))
    places = room_like(values, values.shape, np.int64)
    if not native.maxima(numbers, found, values, places):
        windows = [regular(w) for w in found]
        maxima = _maxima(numbers, windows)
        values, places = maxima[-1], _places(maxima, windows)
    return narrowed(values, array.dtype), places


def max_pool2d(self: Array, *geometry: Any) -> Array:
    """The largest element of each window of planes."""
    found = rules.windows("max_pool2d", self.shape, 2, *geometry)
    rules.check_numbers("max_pool2d", dtypes.of(self.dtype), integers=True)
    return narrowed(_maxima(widen(self), [regular(w) for w in found])[-1], self.dtype)


def max_pool2d_with_indices(self: Array, *geometry: Any) -> tuple[Array, Array]:
    """The largest element of each window of planes, and its index in the plane."""
    return _with_indices("max_pool2d", 2, self, *geometry)


def max_pool3d_with_indices(self: Array, *geometry: Any) -> tuple[Array, Array]:
    """The largest element of each window of volumes, and its index in the volume."""
    return _with_indices("max_pool3d", 3, self, *geometry)


def _adaptive(what: str, dims: int, array: Array, output_size: Ints) -> tuple[Array, Array]:
    shape = rules.adapted(what, array.shape, dims, output_size)
    rules.check_places(what, array.shape, dims, channels=True)
    rules.check_numbers(what, dtypes.of(array.dtype), integers=False)
    if 0 in shape:
        return np.empty(shape, array.dtype), np.empty(shape, np.int64)
    sizes = array.shape[-dims:]
    if all(n % o == 0 for n, o in zip(sizes, output_size, strict=True)):
        kernel = tuple(n // o for n, o in zip(sizes, output_size, strict=True))
        return _with_indices(what, dims, array, kernel, kernel, (0,), (1,), False)
    numbers = widen(array)
    values = room_like(numbers, shape)
    places = room_like(values, shape, np.int64)
    spans = [rules.starts(n, o) for n, o in zip(sizes, output_size, strict=True)]
    if not native.uneven_maxima(numbers, spans, values, places):
        windows = [adaptive(n, o) for n, o in zip(sizes, output_size, strict=True)]
        maxima = _maxima(numbers, windows)
        values, places = maxima[-1], _places(maxima, windows)
    return narrowed(values, array.dtype), places


def adaptive_max_pool2d(self: Array, output_size: Ints) -> tuple[Array, Array]:
    """The largest element of windows that share the plane out, and its index in the plane."""
    return _adaptive("adaptive_max_pool2d", 2, self, output_size)


def adaptive_max_pool3d(self: Array, output_size: Ints) -> tuple[Array, Array]:
    """The largest element of windows that share the volume out, and its index in the volume."""
    return _adaptive("adaptive_max_pool3d", 3, self, output_size)


# --- back to places ------------------------------------------------------------------------------


def _flat(what: str, result: Array, indices: Array, dims: int) -> Array:
    """The position of each index in the memory of `result`, whose planes are contiguous."""
    indices = in_bounds(what, indices, rules.elements(result.shape, dims), None)
    steps = [s // result.itemsize for s in result.strides]
    planes: Any = 0
    for size, step in zip(result.shape[:-dims], steps, strict=False):
        planes = np.add.outer(planes, np.arange(size) * step)
    places = indices * steps[-1] if steps[-1] != 1 else indices
    return places + planes.reshape((*planes.shape, *(1,) * dims))


def _memory(result: Array) -> Array:
    """The elements of an array made by `room_like`, in memory order."""
    whole = result if result.flags.c_contiguous else np.moveaxis(result, 1, -1)
    return whole.reshape(-1)


def _added(what: str, grad: Array, like: Array, indices: Array, dims: int) -> Array:
    """Zeros like an array, with each element of `grad` added at its index."""
    result = room_like(like, like.shape, wide_dtype(grad.dtype))
    if native.back(grad.astype(result.dtype, copy=False), indices, dims, result):
        return narrowed(result, grad.dtype)
    result.fill(0)
    if indices.size:
        places = _flat(what, result, indices, dims)
        numbers = grad.astype(result.dtype, copy=False)
        np.add.at(_memory(result), places.reshape(-1), numbers.reshape(-1))
    return narrowed(result, grad.dtype)


def max_pool2d_backward(grad_output: Array, self: Array, *geometry: Any) -> Array:
    """The gradient of each window at the place of its largest element, which is found again."""
    values, indices = _with_indices("max_pool2d_backward", 2, self, *geometry)
    rules.check_like("max_pool2d_backward", "grad_output", grad_output.shape, values.shape)
    return _added("max_pool2d_backward", grad_output, self, indices, 2)


def _backward(what: str, dims: int, grad: Array, self: Array, *rest: Any) -> Array:
    *geometry, indices = rest
    shape = rules.pooled(self.shape, rules.windows(what, self.shape, dims, *geometry))
    rules.check_like(what, "grad_output", grad.shape, shape)
    rules.check_like(what, "indices", indices.shape, shape)
    rules.check_index(what, dtypes.of(indices.dtype))
    return _added(what, grad, self, indices, dims)


def max_pool2d_with_indices_backward(grad_output: Array, self: Array, *rest: Any) -> Array:
    """The gradient of each window at the index in its plane."""
    return _backward("max_pool2d_with_indices_backward", 2, grad_output, self, *rest)


def max_pool3d_with_indices_backward(grad_output: Array, self: Array, *rest: Any) -> Array:
    """The gradient of each window at the index in its volume."""
    return _backward("max_pool3d_with_indices_backward", 3, grad_output, self, *rest)


def _adaptive_backward(what: str, dims: int, grad: Array, self: Array, indices: Array) -> Array:
    rules.check_adapted(what, grad.shape, self.shape, dims)
    rules.check_like(what, "indices", indices.shape, grad.shape)
    rules.check_index(what, dtypes.of(indices.dtype))
    return _added(what, grad, self, indices, dims)


def adaptive_max_pool2d_backward(grad_output: Array, self: Array, indices: Array) -> Array:
    """The gradient of each window at the index in its plane."""
    return _adaptive_backward("adaptive_max_pool2d_backward", 2, grad_output, self, indices)


def adaptive_max_pool3d_backward(grad_output: Array, self: Array, indices: Array) -> Array:
    """The gradient of each window at the index in its volume."""
    return _adaptive_backward("adaptive_max_pool3d_backward", 3, grad_output, self, indices)


def _unpooled(what: str, self: Array, indices: Array, dims: int, output_size: Ints) -> Array:
    shape = rules.unpooled(what, self.shape, dims, output_size)
    rules.check_index(what, dtypes.of(indices.dtype))
    rules.check_like(what, "indices", indices.shape, self.shape)
    result = room_like(self, shape)
    result.fill(0)
    if indices.size:
        _memory(result)[_flat(what, result, indices, dims).reshape(-1)] = self.reshape(-1)
    return result


def max_unpool2d(self: Array, indices: Array, output_size: Ints) -> Array:
    """Zeros with each element at its index in the plane; the last write to a place wins."""
    return _unpooled("max_unpool2d", self, indices, 2, output_size)


def max_unpool3d(
    self: Array, indices: Array, output_size: Ints, stride: Ints, padding: Ints
) -> Array:
    """Zeros with each element at its index in the volume; the last write to a place wins."""
    rules.check_unpooling("max_unpool3d", stride, padding, 3)
    return _unpooled("max_unpool3d", self, indices, 3, output_size)
