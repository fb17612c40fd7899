"""Padding without data: what each dimension gets on its two sides, and the errors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from adjoint.core.errors import ShapeError
from adjoint.core.shapes import Shape, show

Sides = tuple[tuple[int, int, int], ...]


def sides(what: str, shape: Shape, pad: Sequence[int]) -> Sides:
    """(dimension, before, after) for each pair of `pad`, which starts at the last dimension."""
    if len(pad) % 2:
        raise ShapeError(f"{what}: pad holds pairs, before and after; got {len(pad)} numbers.")
    if len(pad) > 2 * len(shape):
        raise ShapeError(
            f"{what}: pad={tuple(pad)} is for {len(pad) // 2} dimensions, and the input has "
            f"{len(shape)} ({show(shape)})."
        )
    found = tuple(
        (len(shape) - 1 - i, int(pad[2 * i]), int(pad[2 * i + 1])) for i in range(len(pad) // 2)
    )
    for dim, before, after in found:
        if shape[dim] + before + after < 0:
            raise ShapeError(
                f"{what}: pad={tuple(pad)} takes {-before - after} elements off dimension {dim}, "
                f"which has {shape[dim]}."
            )
    return found


def padded_shape(what: str, shape: Shape, pad: Sequence[int]) -> Shape:
    """The shape of the result."""
    sizes = list(shape)
    for dim, before, after in sides(what, shape, pad):
        sizes[dim] += before + after
    return tuple(sizes)


def check_widths(what: str, pad: Sequence[int], dims: int) -> None:
    """Raise unless there are two numbers for each dimension."""
    if len(pad) != 2 * dims:
        raise ShapeError(
            f"{what}: padding needs {2 * dims} numbers, two for each dimension; got {len(pad)}."
        )


def check_room(what: str, mode: str, self: Any, pad: Sequence[int]) -> None:
    """Raise unless a tensor has enough elements to pad it with its own.

    The padded dimensions come after that of channels, with or without a batch before it.
    """
    count = len(pad) // 2
    if self.ndim not in (count + 1, count + 2):
        raise ShapeError(
            f"{what}: pad={tuple(pad)} is for {count} dimensions, so the input needs "
            f"{count + 2}, or {count + 1} without a batch; got {show(self.shape)}."
        )
    if mode != "circular" and 0 in self.shape[self.ndim - count - 1 :]:
        raise ShapeError(
            f"{what}: only the batch may be empty, got {show(self.shape)}: there are no elements "
            "to pad with."
        )
    for dim, before, after in sides(what, tuple(self.shape), pad):
        if self.shape[dim] + before + after < 1 and mode != "circular":
            raise ShapeError(
                f"{what}: pad={tuple(pad)} leaves nothing of dimension {dim}, which has "
                f"{self.shape[dim]}."
            )
        size, most = int(self.shape[dim]), max(before, after)
        room = {"reflect": size - 1, "circular": size, "replicate": most if size else 0}[mode]
        if most > room:
            raise ShapeError(
                f"{what}: {most} elements more on a side of dimension {dim}, which has {size}; "
                f"mode {mode!r} gives at most {max(room, 0)} there."
            )
