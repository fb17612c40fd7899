"""Kernels of average pooling and its transpose, dimension by dimension.

Sums are taken in the dtype of the elements, float32 for 16-bit floats, and divided once.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache, reduce
from typing import Any

import numpy as np

from adjoint.c_kernels.copies import write
from adjoint.checks import pooling as rules
from adjoint.checks.pooling import Window
from adjoint.core import dtypes
from adjoint.kernels.halves import widen
from adjoint.kernels.images import room_like
from adjoint.kernels.indexing.accumulate import narrowed
from adjoint.kernels.pooling.windows import PoolingWindows, adaptive, added_up, combined, regular
from adjoint.loops.element_loops import added

Array = np.ndarray[Any, Any]
Ints = tuple[int, ...]


def _averaged(array: Array, windows: Sequence[PoolingWindows], divisor: Any) -> Array:
    """Sums along the last axes, divided."""
    sums = widen(array)
    for axis, along in enumerate(windows, array.ndim - len(windows)):
        found = added_up(sums, axis, along.places_of)
        sums = combined(np.add, sums, axis, along, 0) if found is None else found
    return narrowed(_divided(sums, divisor), array.dtype)


def _spread(grad: Array, sizes: Ints, windows: Sequence[PoolingWindows], divisor: Any) -> Array:
    """The transpose: each place gets the sum over the windows that hold it."""
    result = _divided(widen(grad), divisor)
    for d in reversed(range(len(windows))):  # long rows are written last
        result = _spread_along(result, grad.ndim - len(windows) + d, sizes[d], windows[d])
    return narrowed(result, grad.dtype)


def _spread_along(array: Array, axis: int, size: int, windows: PoolingWindows) -> Array:
    found = added_up(array, axis, windows.windows_of)
    if found is not None:
        return found
    result = room_like(array, (*array.shape[:axis], size, *array.shape[axis + 1 :]))
    if not windows.tiles:
        result.fill(0)
    before = (slice(None),) * axis
    for each in windows.passes:
        target, source = result[(*before, each.places)], array[(*before, each.chosen)]
        if windows.apart:
            write(target, source)
        else:
            added(target, source, out=target)
    return result


def _divided(array: Array, divisor: Any) -> Array:
    """The quotient in the dtype of the array; of integers it is cut towards zero, as in C."""
    if array.dtype.kind == "f":
        return array / np.asarray(divisor, array.dtype)
    return np.sign(array) * np.sign(divisor) * (np.abs(array) // np.abs(divisor))


def _places(counts: Sequence[Sequence[int]]) -> Array:
    """The number of places of each window in several dimensions; size 1 where all windows agree."""
    lines = [line if len(set(line)) > 1 else line[:1] for line in counts]
    return reduce(np.multiply.outer, map(np.array, lines))


# --- windows that move by a stride ---------------------------------------------------------------


@lru_cache(256)
def _divisor(windows: tuple[Window, ...], with_padding: bool, override: int | None) -> Any:
    if override is not None:
        return override
    return _places([rules.counts(window, with_padding=with_padding) for window in windows])


def _geometry(
    what: str, dims: int, self: Array, *options: Any
) -> tuple[Ints, list[PoolingWindows], Any]:
    """The shape of the result, the windows, and the divisors of their sums."""
    found = rules.averaged(what, self.shape, dtypes.of(self.dtype), dims, *options)
    *_, count_include_pad, divisor_override = options
    divisor = _divisor(found, count_include_pad, divisor_override)
    return rules.pooled(self.shape, found), [regular(w) for w in found], divisor


def _average(what: str, dims: int, self: Array, *options: Any) -> Array:
    _, windows, divisor = _geometry(what, dims, self, *options)
    return _averaged(self, windows, divisor)


def _average_backward(what: str, dims: int, grad: Array, self: Array, *options: Any) -> Array:
    shape, windows, divisor = _geometry(what, dims, self, *options)
    rules.check_like(what, "grad_output", grad.shape, shape)
    return _spread(grad, self.shape[-dims:], windows, divisor)


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


@lru_cache(256)
def _shared_out(sizes: Ints, out: Ints) -> tuple[list[PoolingWindows], Any]:
    """The windows, and how many places they have."""
    pairs = list(zip(sizes, out, strict=True))
    counts = [[end - start for start, end in rules.starts(n, o)] for n, o in pairs]
    return [adaptive(n, o) for n, o in pairs], _places(counts)


def _adaptive(what: str, dims: int, self: Array, output_size: Ints) -> Array:
    shape = rules.adapted(what, self.shape, dims, output_size)
    rules.check_places(what, self.shape, dims, channels=False)
    rules.check_numbers(what, dtypes.of(self.dtype), integers=False)
    return _averaged(self, *_shared_out(self.shape[-dims:], shape[-dims:]))


def _adaptive_backward(what: str, dims: int, grad: Array, self: Array) -> Array:
    rules.check_adapted(what, grad.shape, self.shape, dims)
    rules.check_numbers(what, dtypes.of(grad.dtype), integers=False)
    sizes = self.shape[-dims:]
    return _spread(grad, sizes, *_shared_out(sizes, grad.shape[-dims:]))


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
