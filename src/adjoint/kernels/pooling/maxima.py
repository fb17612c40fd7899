"""Kernels of max pooling: values alone, values with places, gradients back to places.

The largest element of a window is found dimension by dimension. Its place, an index into the plane
or volume, comes from comparing each element of the windows with it: the first that is equal, and of
NaN the last, as in PyTorch.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from adjoint.checks import pooling as rules
from adjoint.core import dtypes
from adjoint.kernels.indexing.accumulate import in_bounds, narrowed, wide_dtype
from adjoint.kernels.pointwise import widen
from adjoint.kernels.pooling.windows import Passes, combined, empty_like, regular
from adjoint.native import pooling as native

Array = np.ndarray[Any, Any]
Ints = tuple[int, ...]


def _lowest(dtype: np.dtype[Any]) -> Any:
    return -np.inf if dtype.kind == "f" else np.iinfo(dtype).min


def _maxima(array: Array, windows: Sequence[Passes]) -> Array:
    first = array.ndim - len(windows)
    for axis, along in enumerate(windows, first):
        array = combined(np.maximum, array, axis, along, _lowest(array.dtype))
    return array


def _elements(windows: Sequence[Passes]) -> Any:
    """(elements, windows, places) for each element of the windows, with one entry a dimension."""
    for combination in itertools.product(*(w.passes for w in windows)):
        numbers, chosen, places = zip(*combination, strict=True)
        yield numbers, (Ellipsis, *chosen), (Ellipsis, *places)


def _places(array: Array, values: Array, windows: Sequence[Passes]) -> Array:
    """The index of the largest element of each window in its plane or volume."""
    sizes = array.shape[array.ndim - len(windows) :]
    spans = [1 + max(entry[0] for entry in w.passes) for w in windows]
    ranks = _ranks(array, values, windows, spans)
    steps = [math.prod(sizes[d + 1 :]) for d in range(len(sizes))]
    grid = itertools.product(*map(range, spans))
    offsets = [
        sum(i * w.step * s for i, w, s in zip(numbers, windows, steps, strict=True))
        for numbers in grid
    ]
    table = np.array([0, *offsets[::-1]])
    result = empty_like(values, values.shape, np.int64)
    table.take(ranks, out=result, mode="clip")
    for d, (w, step) in enumerate(zip(windows, steps, strict=True)):
        result += (w.first * step).reshape((-1, *(1,) * (len(windows) - 1 - d)))
    return result


def _ranks(array: Array, values: Array, windows: Sequence[Passes], spans: Sequence[int]) -> Array:
    """Which element of its window is the largest, counted from the last one: 1, 2, …"""
    count = math.prod(spans)
    strides = [math.prod(spans[d + 1 :]) for d in range(len(spans))]
    dtype = np.dtype(np.uint8 if count < 256 else np.uint32)
    ranks = empty_like(values, values.shape, dtype)
    ranks.fill(0)
    last = empty_like(values, values.shape, dtype) if _has_nan(values) else None
    if last is not None:
        last.fill(0)
    for numbers, chosen, places in _elements(windows):
        number = sum(i * s for i, s in zip(numbers, strides, strict=True))
        element, target = array[places], ranks[chosen]
        equal = (element == values[chosen]).view(np.uint8)
        np.maximum(target, equal * dtype.type(count - number), out=target)
        if last is not None:
            target = last[chosen]
            np.maximum(target, (element != element) * dtype.type(number + 1), out=target)
    if last is not None:
        np.copyto(ranks, count + 1 - last, where=last != 0, casting="unsafe")
    return ranks


def _has_nan(values: Array) -> bool:
    return values.dtype.kind == "f" and bool(np.isnan(values.sum()))


def _with_indices(what: str, dims: int, array: Array, *geometry: Any) -> tuple[Array, Array]:
    found = rules.windows(what, array.shape, dims, *geometry)
    rules.check_numbers(what, dtypes.of(array.dtype), integers=True)
    numbers = widen(array)
    values = empty_like(numbers, rules.pooled(array.shape, found))
    places = empty_like(values, values.shape, np.int64)
    if not native.maxima(numbers, found, values, places):
        windows = [regular(w) for w in found]
        values = _maxima(numbers, windows)
        places = _places(numbers, values, windows)
    return narrowed(values, array.dtype), places


def max_pool2d(
    self: Array, kernel_size: Ints, stride: Ints, padding: Ints, dilation: Ints, ceil_mode: bool
) -> Array:
    """The largest element of each window of planes."""
    geometry = (kernel_size, stride, padding, dilation, ceil_mode)
    found = rules.windows("max_pool2d", self.shape, 2, *geometry)
    rules.check_numbers("max_pool2d", dtypes.of(self.dtype), integers=True)
    numbers = widen(self)
    values = empty_like(numbers, rules.pooled(self.shape, found))
    if not native.maxima(numbers, found, values, None):
        values = _maxima(numbers, [regular(w) for w in found])
    return narrowed(values, self.dtype)


def max_pool2d_with_indices(
    self: Array, kernel_size: Ints, stride: Ints, padding: Ints, dilation: Ints, ceil_mode: bool
) -> tuple[Array, Array]:
    """The largest element of each window of planes, and its index in the plane."""
    geometry = (kernel_size, stride, padding, dilation, ceil_mode)
    return _with_indices("max_pool2d", 2, self, *geometry)


def max_pool3d_with_indices(
    self: Array, kernel_size: Ints, stride: Ints, padding: Ints, dilation: Ints, ceil_mode: bool
) -> tuple[Array, Array]:
    """The largest element of each window of volumes, and its index in the volume."""
    geometry = (kernel_size, stride, padding, dilation, ceil_mode)
    return _with_indices("max_pool3d", 3, self, *geometry)


# --- back to places ------------------------------------------------------------------------------


def _flat(what: str, result: Array, indices: Array, dims: int) -> Array:
    """Where each index points to in the memory of `result`, which is dense in every plane."""
    indices = in_bounds(what, indices, rules.elements(result.shape, dims), None)
    steps = [s // result.itemsize for s in result.strides]
    places = indices * steps[-1] if steps[-1] != 1 else indices
    for d in range(result.ndim - dims):
        line = np.arange(result.shape[d]) * steps[d]
        places = places + line.reshape((-1, *(1,) * (result.ndim - 1 - d)))
    return places


def _memory(result: Array) -> Array:
    """The elements of an array made by `empty_like` as they lie in memory."""
    dense = result if result.flags.c_contiguous else np.moveaxis(result, 1, -1)
    return dense.reshape(-1)


def _added(what: str, grad: Array, like: Array, indices: Array, dims: int) -> Array:
    """Zeros like an array, to which each element of `grad` is added at its index."""
    result = empty_like(like, like.shape, wide_dtype(grad.dtype))
    if native.back(grad.astype(result.dtype, copy=False), indices, dims, result):
        return narrowed(result, grad.dtype)
    result.fill(0)
    if indices.size:
        places = _flat(what, result, indices, dims)
        numbers = grad.astype(result.dtype, copy=False)
        np.add.at(_memory(result), places.reshape(-1), numbers.reshape(-1))
    return narrowed(result, grad.dtype)


def max_pool2d_backward(
    grad_output: Array,
    self: Array,
    kernel_size: Ints,
    stride: Ints,
    padding: Ints,
    dilation: Ints,
    ceil_mode: bool,
) -> Array:
    """The gradient of each window at the place of its largest element, which is found again."""
    geometry = (kernel_size, stride, padding, dilation, ceil_mode)
    values, indices = _with_indices("max_pool2d_backward", 2, self, *geometry)
    rules.check_like("max_pool2d_backward", "grad_output", grad_output.shape, values.shape)
    return _added("max_pool2d_backward", grad_output, self, indices, 2)


def _backward(
    what: str, dims: int, grad: Array, self: Array, indices: Array, *geometry: Any
) -> Array:
    shape = rules.pooled(self.shape, rules.windows(what, self.shape, dims, *geometry))
    rules.check_like(what, "grad_output", grad.shape, shape)
    rules.check_like(what, "indices", indices.shape, shape)
    rules.check_index(what, dtypes.of(indices.dtype))
    return _added(what, grad, self, indices, dims)


def max_pool2d_with_indices_backward(
    grad_output: Array,
    self: Array,
    kernel_size: Ints,
    stride: Ints,
    padding: Ints,
    dilation: Ints,
    ceil_mode: bool,
    indices: Array,
) -> Array:
    """The gradient of each window at the index in its plane."""
    geometry = (kernel_size, stride, padding, dilation, ceil_mode)
    name = "max_pool2d_with_indices_backward"
    return _backward(name, 2, grad_output, self, indices, *geometry)


def max_pool3d_with_indices_backward(
    grad_output: Array,
    self: Array,
    kernel_size: Ints,
    stride: Ints,
    padding: Ints,
    dilation: Ints,
    ceil_mode: bool,
    indices: Array,
) -> Array:
    """The gradient of each window at the index in its volume."""
    geometry = (kernel_size, stride, padding, dilation, ceil_mode)
    name = "max_pool3d_with_indices_backward"
    return _backward(name, 3, grad_output, self, indices, *geometry)


def _unpooled(what: str, self: Array, indices: Array, dims: int, output_size: Ints) -> Array:
    shape = rules.unpooled(what, self.shape, dims, output_size)
    rules.check_index(what, dtypes.of(indices.dtype))
    rules.check_like(what, "indices", indices.shape, self.shape)
    result = empty_like(self, shape)
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
