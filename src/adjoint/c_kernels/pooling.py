"""Max pooling in C: values, values with indices, and gradients put back at the indices.

Arrays are float32 or float64 with any strides, in one to three spatial dimensions; the functions
return None if there is no native code.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from adjoint.c_kernels import loading
from adjoint.checks.pooling import Window

Array = np.ndarray[Any, Any]
Spans = Sequence[tuple[int, int]]  # (begin, end) of each window
_LARGEST = 2**31  # elements of a plane or volume: indices are int32


def numbers(
    found: Sequence[Window], images: int, channels: int, large: Sequence[int], small: Sequence[int]
) -> list[int]:
    """The fields of the C structure; each channel is a group by itself."""
    each = [
        tuple(getattr(w, name) for w in found)
        for name in ("size", "out", "kernel", "stride", "padding", "dilation")
    ]
    return loading.geometry(
        images, channels, (1, 1), each[0], each[1], each[2], each[3], each[4], each[5], large,
        small,
    )  # fmt: skip


def maxima(array: Array, found: Sequence[Window], values: Array, indices: Array | None) -> bool:
    """Fill the values, and the indices if they are wanted; return whether there is native code.

    Indices have the strides of the values.
    """
    run = loading.ready("pooling", "maxima", array.dtype, len(found))
    return run is not None and _run(run, found, array, values, array, values, indices)


def uneven_maxima(array: Array, spans: Sequence[Spans], values: Array, indices: Array) -> bool:
    """Like `maxima`, for windows with the given spans."""
    run = loading.ready("pooling", "uneven", array.dtype, len(spans))
    if run is None:
        return False
    sizes = array.shape[-len(spans) :]
    found = [Window(n, len(own), 1, 1, 0, 1) for n, own in zip(sizes, spans, strict=True)]
    missing = [((0, 1),)] * (loading.MOST - len(spans))
    ends = np.array([end for own in (*missing, *spans) for span in own for end in span], np.int64)
    return _run(run, found, array, values, ends, array, values, indices)


def back(grad: Array, indices: Array, dims: int, result: Array) -> bool:
    """Fill the result with the gradients at their indices, 0 elsewhere; return whether that was
    done.

    It fails if an index is outside its plane.
    """
    run = loading.ready("pooling", "back", grad.dtype, dims)
    if run is None or loading.steps(grad) != loading.steps(indices) or indices.dtype != np.int64:
        return False
    sizes = zip(result.shape[-dims:], grad.shape[-dims:], strict=True)
    found = [Window(size, out, 1, 1, 0, 1) for size, out in sizes]  # only their numbers matter
    return _run(run, found, result, grad, grad, indices, result)


def _run(
    run: Any, found: Sequence[Window], large: Array, small: Array, *arrays: Array | None
) -> bool:
    """Call a function on images with or without a batch."""
    if math.prod(large.shape[-len(found) :]) >= _LARGEST:
        return False
    if not all(a is None or (a.flags.aligned and a.size) for a in arrays):
        return False
    images = large.shape[0] if large.ndim > len(found) + 1 else 1
    lead = [0] if large.ndim == len(found) + 1 else []
    steps = ([*lead, *loading.steps(a)] for a in (large, small))
    fields = numbers(found, images, large.shape[-len(found) - 1], *steps)
    return not loading.call(run, loading.block(fields), *arrays)
