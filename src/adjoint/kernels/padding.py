"""Kernels of padding on arrays."""

from __future__ import annotations

from typing import Any

import numpy as np

from adjoint.checks import padding
from adjoint.core.shapes import Shape
from adjoint.kernels import images
from adjoint.native.copies import copied, write

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


def _around(what: str, self: Array, pad: Shape, mode: str, dims: int) -> Array:
    """The array within a frame of its own elements; a negative width takes elements off."""
    padding.check_widths(what, pad, dims)
    padding.check_room(what, mode, self, pad)
    sides = padding.sides(what, self.shape, pad)
    whole = list(self.shape)  # before elements are taken off
    for dim, before, after in sides:
        whole[dim] += max(before, 0) + max(after, 0)
    result = images.room_like(self, tuple(whole))
    inner, kept = [slice(None)] * self.ndim, [slice(None)] * self.ndim
    for dim, before, after in sides:
        inner[dim] = slice(max(before, 0), max(before, 0) + self.shape[dim])
        kept[dim] = slice(max(-before, 0), whole[dim] - max(-after, 0))
    write(result[(*inner, ...)], self)
    for dim, before, after in sides:  # each frame lies around those of the dimensions before
        _frame(np.moveaxis(result[(*inner[:dim], ...)], dim, 0), before, after, mode)
        inner[dim] = slice(None)
    cut = result[(*kept, ...)]
    return cut if cut.shape == result.shape else copied(cut, "K")


def _frame(rows: Array, before: int, after: int, mode: str) -> None:
    """Fill the first and the last rows with those that are next to them."""
    if before > 0:
        end = before + 1 if mode == "replicate" else 2 * before + 1
        rows[:before] = rows[before:end] if mode == "replicate" else rows[end - 1 : before : -1]
    if after > 0:
        last = len(rows) - after - 1
        near = rows[last : last + 1] if mode == "replicate" else rows[last - after : last][::-1]
        rows[last + 1 :] = near


def reflection_pad1d(self: Array, padding: Shape) -> Array:
    return _around("reflection_pad1d", self, padding, "reflect", 1)


def reflection_pad2d(self: Array, padding: Shape) -> Array:
    return _around("reflection_pad2d", self, padding, "reflect", 2)


def reflection_pad3d(self: Array, padding: Shape) -> Array:
    return _around("reflection_pad3d", self, padding, "reflect", 3)


def replication_pad1d(self: Array, padding: Shape) -> Array:
    return _around("replication_pad1d", self, padding, "replicate", 1)


def replication_pad2d(self: Array, padding: Shape) -> Array:
    return _around("replication_pad2d", self, padding, "replicate", 2)


def replication_pad3d(self: Array, padding: Shape) -> Array:
    return _around("replication_pad3d", self, padding, "replicate", 3)
