"""Kernels of padding on arrays."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any

import numpy as np

from adjoint.c_kernels import copies
from adjoint.c_kernels.copies import copied, write
from adjoint.checks import padding
from adjoint.checks.indexing import check_number
from adjoint.core import dtypes
from adjoint.core.promotion import element
from adjoint.core.shapes import Shape
from adjoint.kernels import images

Array = np.ndarray[Any, np.dtype[Any]]


def constant_pad_nd(self: Array, pad: Shape, value: Any) -> Array:
    """The array within a frame of `value`; a negative width takes elements off."""
    shape = padding.padded_shape("constant_pad_nd", self.shape, pad)
    check_number("pad", self, value)
    result = images.room_like(self, shape)
    write(result, np.asarray(element(value, dtypes.of(self.dtype)), self.dtype))
    source, target = [slice(None)] * self.ndim, [slice(None)] * self.ndim
    for dim, before, after in padding.sides("constant_pad_nd", self.shape, pad):
        source[dim] = slice(max(-before, 0), max(self.shape[dim] + min(after, 0), 0))
        target[dim] = slice(max(before, 0), max(shape[dim] - max(after, 0), 0))
    write(result[(*target, ...)], self[(*source, ...)])
    return result


def _around(what: str, mode: str, dims: int, self: Array, pad: Shape) -> Array:
    """The array within a frame of its own elements; a negative width takes elements off."""
    padding.check_widths(what, pad, dims)
    padding.check_room(what, mode, self, pad)
    sides = padding.sides(what, self.shape, pad)
    if self.nbytes >= copies.LARGE:
        places: list[tuple[int, ...] | None] = [None] * self.ndim
        for dim, before, after in sides:
            places[dim] = _places(self.shape[dim], before, after, mode)
        result = images.room_like(self, padding.padded_shape(what, self.shape, pad))
        if copies.taken(self, tuple(places), result):
            return result
    return _by_frames(self, sides, mode)


@lru_cache(maxsize=256)
def _places(size: int, before: int, after: int, mode: str) -> tuple[int, ...]:
    """Which element of a dimension each one of the padded dimension is."""
    last, wanted = size - 1, range(-before, size + after)
    if mode == "replicate":
        return tuple(min(max(i, 0), last) for i in wanted)
    return tuple(last - abs(last - abs(i)) for i in wanted)


def _by_frames(self: Array, sides: padding.Sides, mode: str) -> Array:
    """Pad dimension by dimension; each frame surrounds the result of the dimensions before."""
    whole = list(self.shape)  # before elements are taken off
    for dim, before, after in sides:
        whole[dim] += max(before, 0) + max(after, 0)
    result = images.room_like(self, tuple(whole))
    inner, kept = [slice(None)] * self.ndim, [slice(None)] * self.ndim
    for dim, before, after in sides:
        inner[dim] = slice(max(before, 0), max(before, 0) + self.shape[dim])
        kept[dim] = slice(max(-before, 0), whole[dim] - max(-after, 0))
    write(result[(*inner, ...)], self)
    for dim, before, after in sides:
        _frame(np.moveaxis(result[(*inner[:dim], ...)], dim, 0), before, after, mode)
        inner[dim] = slice(None)
    cut = result[(*kept, ...)]
    return cut if cut.shape == result.shape else copied(cut, "K")


def _frame(rows: Array, before: int, after: int, mode: str) -> None:
    """Fill the first and the last rows from the rows next to them."""
    if before > 0:
        end = before + 1 if mode == "replicate" else 2 * before + 1
        rows[:before] = rows[before:end] if mode == "replicate" else rows[end - 1 : before : -1]
    if after > 0:
        last = len(rows) - after - 1
        near = rows[last : last + 1] if mode == "replicate" else rows[last - after : last][::-1]
        rows[last + 1 :] = near


def _for_each(name: str, mode: str) -> Iterator[Callable[[Array, Shape], Array]]:
    """The kernels for one, two and three dimensions."""
    for dims in (1, 2, 3):
        what = f"{name}_pad{dims}d"

        def pad_around(self: Array, pad: Shape, what: str = what, dims: int = dims) -> Array:
            return _around(what, mode, dims, self, pad)

        pad_around.__name__ = pad_around.__qualname__ = what
        yield pad_around


reflection_pad1d, reflection_pad2d, reflection_pad3d = _for_each("reflection", "reflect")
replication_pad1d, replication_pad2d, replication_pad3d = _for_each("replication", "replicate")
