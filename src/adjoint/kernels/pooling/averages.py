"""Kernels of average pooling and its transpose, dimension by dimension.

Sums are taken in the dtype of the elements, float32 for 16-bit floats, and divided once.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np

from adjoint.checks import pooling as rules
from adjoint.checks.pooling import Window
from adjoint.core import dtypes
from adjoint.kernels.indexing.accumulate import narrowed
from adjoint.kernels.pointwise import widen
from adjoint.kernels.pooling.windows import (
    Passes,
    adaptive,
    combined,
    covering,
    empty_like,
    regular,
)

Array = np.ndarray[Any, Any]
Ints = tuple[int, ...]

LONG = 32  # elements from which NumPy sums rows faster than passes over columns do


def _sums(array: Array, windows: Sequence[Passes]) -> Array:
    for axis, along in enumerate(windows, array.ndim - len(windows)):
        array = combined(np.add, array, axis, along, 0)
    return array


def _spread(array: Array, axis: int, size: int, windows: Passes) -> Array:
    """The transpose of sums along an axis: each place gets the sum of the windows that hold it."""
    shape = (*array.shape[:axis], size, *array.shape[axis + 1 :])
    result = empty_like(array, shape)
    result.fill(0)
    before = (slice(None),) * axis
    for _, chosen, places in windows.passes:
        target, source = result[(*before, places)], array[(*before, chosen)]
        if windows.apart:
            target[...] = source
        else:
            np.add(target, source, out=target)
    return result


@functools.lru_cache(256)
def _divisor(windows: tuple[Window, ...], with_padding: bool, override: int | None) -> Any:
    """How many places each window counts: a number, or an array that broadcasts."""
    if override is not None:
        return override
    total: Any = 1
    for d, window in enumerate(windows):
        counts = rules.counts(window, with_padding=with_padding)
        one = len(set(counts)) == 1
        shape = (-1, *(1,) * (len(windows) - 1 - d))
        total = total * (counts[0] if one else np.array(counts).reshape(shape))
    return total


def _divided(array: Array, divisor: Any) -> Array:
    """The quotient in the dtype of the array; of integers it is cut towards zero, as in C."""
    if array.dtype.kind == "f":
        return array / np.asarray(divisor, array.dtype)
    return np.sign(array) * np.sign(divisor) * (np.abs(array) // np.abs(divisor))


def _average(
    what: str,
    dims: int,
    self: Array,
    kernel_size: Ints,
    stride: Ints,
    padding: Ints,
    ceil_mode: bool,
    count_include_pad: bool,
    divisor_override: int | None,
) -> Array:
    rules.check_divisor(what, divisor_override)
    geometry = (kernel_size, stride, padding, (1,), ceil_mode)
    found = rules.windows(what, self.shape, dims, *geometry)
    rules.check_averaged(what, dtypes.of(self.dtype))
    sums = _sums(widen(self), [regular(w) for w in found])
    divisor = _divisor(found, count_include_pad, divisor_override)
    return narrowed(_divided(sums, divisor), self.dtype)


def _average_backward(
    what: str,
    dims: int,
    grad: Array,
    self: Array,
    kernel_size: Ints,
    stride: Ints,
    padding: Ints,
    ceil_mode: bool,
    count_include_pad: bool,
    divisor_override: int | None,
) -> Array:
    rules.check_divisor(what, divisor_override)
    geometry = (kernel_size, stride, padding, (1,), ceil_mode)
    found = rules.windows(what, self.shape, dims, *geometry)
    rules.check_like(what, "grad_output", grad.shape, rules.pooled(self.shape, found))
    rules.check_averaged(what, dtypes.of(grad.dtype))
    result = _divided(widen(grad), _divisor(found, count_include_pad, divisor_override))
    for axis in reversed(range(self.ndim - dims, self.ndim)):  # long rows are written last
        window = found[axis - self.ndim]
        result = _spread(result, axis, window.size, regular(window))
    return narrowed(result, grad.dtype)


def avg_pool2d(self: Array, *options: Any) -> Array:
    """The average of each window of planes."""
    return _average("avg_pool2d", 2, self, *options)


def avg_pool3d(self: Array, *options: Any) -> Array:
    """The average of each window of volumes."""
    return _average("avg_pool3d", 3, self, *options)


def avg_pool2d_backward(grad_output: Array, self: Array, *options: Any) -> Array:
    """The transpose of avg_pool2d."""
    return _average_backward("avg_pool2d_backward", 2, grad_output, self, *options)


def avg_pool3d_backward(grad_output: Array, self: Array, *options: Any) -> Array:
    """The transpose of avg_pool3d."""
    return _average_backward("avg_pool3d_backward", 3, grad_output, self, *options)


# --- windows that share a dimension out ----------------------------------------------------------


def _along(array: Array, axis: int, out: int) -> Array:
    """Average along one axis."""
    size, is_last = array.shape[axis], axis == array.ndim - 1
    if out and size % out == 0 and (not is_last or size // out >= LONG):
        tiles = (*array.shape[:axis], out, size // out, *array.shape[axis + 1 :])
        return np.add.reduce(array.reshape(tiles), axis + 1) / array.dtype.type(size // out)
    sums = combined(np.add, array, axis, adaptive(size, out), 0)
    return np.divide(sums, _lengths(array, axis, size, out), out=sums)


def _lengths(array: Array, axis: int, size: int, out: int) -> Array:
    """The sizes of the windows along an axis, to divide by."""
    lengths = np.array([end - start for start, end in rules.starts(size, out)], array.dtype)
    return lengths.reshape((-1, *(1,) * (array.ndim - 1 - axis)))


def _adaptive(what: str, dims: int, self: Array, output_size: Ints) -> Array:
    shape = rules.adapted(what, self.shape, dims, output_size)
    rules.check_places(what, self.shape, dims, channels=False)
    rules.check_numbers(what, dtypes.of(self.dtype), integers=False)
    result = widen(self)
    for axis in range(self.ndim - dims, self.ndim):
        result = _along(result, axis, shape[axis])
    return narrowed(result, self.dtype)


def _adaptive_backward(what: str, dims: int, grad: Array, self: Array) -> Array:
    rules.check_adapted(what, grad.shape, self.shape, dims)
    result = widen(grad)
    for axis in range(self.ndim - dims, self.ndim):
        size, out = self.shape[axis], grad.shape[axis]
        result = result / _lengths(result, axis, size, out)
        result = combined(np.add, result, axis, covering(size, out), 0)
    return narrowed(result, grad.dtype)


def adaptive_avg_pool2d(self: Array, output_size: Ints) -> Array:
    """The average of each of output_size windows that share the plane out."""
    return _adaptive("adaptive_avg_pool2d", 2, self, output_size)


def adaptive_avg_pool3d(self: Array, output_size: Ints) -> Array:
    """The average of each of output_size windows that share the volume out."""
    return _adaptive("adaptive_avg_pool3d", 3, self, output_size)


def adaptive_avg_pool2d_backward(grad_output: Array, self: Array) -> Array:
    """The transpose of adaptive_avg_pool2d."""
    return _adaptive_backward("adaptive_avg_pool2d_backward", 2, grad_output, self)


def adaptive_avg_pool3d_backward(grad_output: Array, self: Array) -> Array:
    """The transpose of adaptive_avg_pool3d."""
    return _adaptive_backward("adaptive_avg_pool3d_backward", 3, grad_output, self)
