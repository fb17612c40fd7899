"""Memory for batches of images: channels before their places, or after them where they were so."""

from __future__ import annotations

from typing import Any

import numpy as np

from adjoint.core.shapes import Shape

Array = np.ndarray[Any, Any]


def room(shape: Shape, dtype: Any, *, channels_last: bool) -> Array:
    """Memory for images of a shape (batch, channels, *places)."""
    if not channels_last:
        return np.empty(shape, dtype)
    return np.moveaxis(np.empty((shape[0], *shape[2:], shape[1]), dtype), -1, 1)


def room_like(array: Array, shape: Shape, dtype: Any = None) -> Array:
    """Memory for results: channels last where the array has them so, else in C order."""
    return room(shape, dtype or array.dtype, channels_last=is_channels_last(array))


def is_channels_last(array: Array) -> bool:
    """Whether images have their channels last in memory, as PyTorch decides by strides.

    Dimensions of size 1 count, and a tie between samples and channels is the usual order. A batch
    of one that was added to an image (its step is 0) does not count.
    """
    if array.ndim not in (4, 5) or not array.size or array.flags.c_contiguous:
        return False
    steps = array.strides
    least = steps[1] * array.shape[1]
    added = array.shape[0] == 1 and steps[0] == 0
    for dim in (*range(array.ndim - 1, 1, -1), *(() if added else (0,))):
        if steps[dim] < least or (dim == 0 and least == steps[1]):
            return False
        least = steps[dim] * array.shape[dim]
    return steps[1] > 0
