"""Kernels of padding on arrays."""

from __future__ import annotations

from typing import Any

import numpy as np

from adjoint.checks import padding
from adjoint.core.shapes import Shape
from adjoint.kernels import images
from adjoint.native.copies import write

Array = np.ndarray[Any, np.dtype[Any]]


def constant_pad_nd(self: Array, pad: Shape, value: Any) -> Array:
    """The array within a frame of `value`; a negative width takes elements off."""
    shape = padding.padded_shape("constant_pad_nd", self.shape, pad)
    result = images.room_like(self, shape)
    write(result, np.asarray(value, self.dtype))
    source, target = [slice(None)] * self.ndim, [slice(None)] * self.ndim
    for dim, before, after in padding.sides("constant_pad_nd", self.shape, pad):
        source[dim] = slice(max(-before, 0), max(self.shape[dim] + min(after, 0), 0))
        target[dim] = slice(max(before, 0), max(shape[dim] - max(after, 0), 0))
    write(result[(*target, ...)], self[(*source, ...)])
    return result
