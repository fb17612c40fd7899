"""Padding in terms of views and cat, and its transposes in terms of sums of views."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from adjoint import ops
from adjoint.checks import padding
from adjoint.checks.padding import check_widths
from adjoint.core.errors import ShapeError, ValueRangeError
from adjoint.core.shapes import Shape, show
from adjoint.core.symbolic_sizes import is_for_many
from adjoint.decompositions.images import laid_out_as

Tensor = Any
MODES = ("reflect", "replicate", "circular", "constant")  # in the order of PyTorch's numbers


def _cut(x: Tensor, dim: int, before: int, after: int) -> Tensor:
    """Without the elements that negative widths take off."""
    before, after = max(-before, 0), max(-after, 0)
    if not before and not after and not is_for_many():
        return x
    return x.narrow(dim, before, x.shape[dim] - before - after)


def constant_pad_nd(self: Tensor, pad: Shape, value: Any) -> Tensor:
    """The tensor within a frame of `value`; a negative width takes elements off."""
    for dim, before, after in padding.sides("constant_pad_nd", tuple(self.shape), pad):
        size = self.shape[dim] + before + after
        if self.shape[dim] + min(before, 0) + min(after, 0) <= 0:  # nothing is left of it
            self = self.new_full(_sized(self, dim, size), value)
            continue
        self = _cut(self, dim, before, after)
        frame = [
            self.new_full(_sized(self, dim, n), value) for n in (max(before, 0), max(after, 0))
        ]
        if before > 0 or after > 0 or is_for_many():
            self = ops.cat([frame[0], self, frame[1]], dim)
    return self


def _sized(x: Tensor, dim: int, size: int) -> Shape:
    return (*x.shape[:dim], size, *x.shape[dim + 1 :])


# --- a tensor around itself ----------------------------------------------------------------------


def _before(x: Tensor, dim: int, count: int, mode: str) -> Tensor:
    if mode == "reflect":
        return x.narrow(dim, 1, count).flip((dim,))
    if mode == "replicate":
        return x.narrow(dim, 0, 1).expand(_sized(x, dim, count))
    return x.narrow(dim, x.shape[dim] - count, count)


def _after(x: Tensor, dim: int, count: int, mode: str) -> Tensor:
    size = x.shape[dim]
    if mode == "reflect":
        return x.narrow(dim, size - 1 - count, count).flip((dim,))
    if mode == "replicate":
        return x.narrow(dim, size - 1, 1).expand(_sized(x, dim, count))
    return x.narrow(dim, 0, count)


def _around(what: str, self: Tensor, pad: Sequence[int], mode: str) -> Tensor:
    """Each dimension between pieces of itself; negative widths are cut off (PyTorch's order)."""
    padding.check_room(what, mode, self, pad)
    input = self
    for dim, before, after in padding.sides(what, tuple(self.shape), pad):
        if mode == "circular":
            self = _cut(self, dim, before, after)
        pieces = [self]
        if before > 0:
            pieces.insert(0, _before(self, dim, before, mode))
        if after > 0:
            pieces.append(_after(self, dim, after, mode))
        self = ops.cat(pieces, dim) if len(pieces) > 1 else self
        if mode != "circular":
            self = _cut(self, dim, before, after)
    if not any(n > 0 for n in pad):
        return self.clone()  # never a view of the input
    return self if mode == "circular" else laid_out_as(input, self)


def _placed(x: Tensor, dim: int, before: int, after: int) -> Tensor:
    """Zeros before and after, in one dimension."""
    if not before and not after:
        return x
    return ops.constant_pad_nd(x, (*(0, 0) * (x.ndim - 1 - dim), before, after), 0)


def _folded(what: str, grad_output: Tensor, self: Tensor, pad: Sequence[int], mode: str) -> Tensor:
    """The transpose: each padded element's gradient is added to that of its source."""
    padding.check_room(what, mode, self, pad)
    wanted = padding.padded_shape(what, tuple(self.shape), pad)
    if tuple(grad_output.shape) != wanted:
        raise ShapeError(
            f"{what}: grad_output must have {show(wanted)}, the padded shape, got "
            f"{show(grad_output.shape)}."
        )
    total = grad_output
    for dim, before, after in padding.sides(what, tuple(self.shape), pad):
        grad = _placed(total, dim, max(-before, 0), max(-after, 0))
        size, before, after = self.shape[dim], max(before, 0), max(after, 0)
        total = grad.narrow(dim, before, size)
        if before:
            total = total + _returned(grad.narrow(dim, 0, before), dim, size, mode, start=True)
        if after:
            end = grad.narrow(dim, before + size, after)
            total = total + _returned(end, dim, size, mode, start=False)
    return total


def _returned(piece: Tensor, dim: int, size: int, mode: str, *, start: bool) -> Tensor:
    """The gradient of a piece of the frame, at the place that it was taken from."""
    count, gap = piece.shape[dim], 1
    if mode == "replicate":
        piece, count, gap = piece.sum((dim,), True), 1, 0
    else:
        piece = piece.flip((dim,))
    rest = size - gap - count
    return _placed(piece, dim, gap, rest) if start else _placed(piece, dim, rest, gap)


def reflection_pad1d(self: Tensor, padding: Shape) -> Tensor:
    check_widths("reflection_pad1d", padding, 1)
    return _around("reflection_pad1d", self, padding, "reflect")


def reflection_pad2d(self: Tensor, padding: Shape) -> Tensor:
    check_widths("reflection_pad2d", padding, 2)
    return _around("reflection_pad2d", self, padding, "reflect")


def reflection_pad3d(self: Tensor, padding: Shape) -> Tensor:
    check_widths("reflection_pad3d", padding, 3)
    return _around("reflection_pad3d", self, padding, "reflect")


def replication_pad1d(self: Tensor, padding: Shape) -> Tensor:
    check_widths("replication_pad1d", padding, 1)
    return _around("replication_pad1d", self, padding, "replicate")


def replication_pad2d(self: Tensor, padding: Shape) -> Tensor:
    check_widths("replication_pad2d", padding, 2)
    return _around("replication_pad2d", self, padding, "replicate")


def replication_pad3d(self: Tensor, padding: Shape) -> Tensor:
    check_widths("replication_pad3d", padding, 3)
    return _around("replication_pad3d", self, padding, "replicate")


def reflection_backward(grad_output: Tensor, self: Tensor, padding: Shape) -> Tensor:
    """The transpose of reflection padding, for any number of dimensions."""
    return _folded("reflection_pad_backward", grad_output, self, padding, "reflect")


def replication_backward(grad_output: Tensor, self: Tensor, padding: Shape) -> Tensor:
    """The transpose of replication padding, for any number of dimensions."""
    return _folded("replication_pad_backward", grad_output, self, padding, "replicate")


def circular(self: Tensor, pad: Shape) -> Tensor:
    """Each dimension as a ring."""
    return _around("pad", self, pad, "circular")


def pad(self: Tensor, pad: Shape, mode: str, value: float | None) -> Tensor:
    """A frame of one value, or of the tensor's own elements."""
    if mode not in MODES:
        raise ValueRangeError(f"pad(mode={mode!r}): there are {', '.join(map(repr, MODES))}.")
    if mode == "constant":
        return ops.constant_pad_nd(self, pad, 0 if value is None else value)
    if value:
        raise ValueRangeError(f"pad(mode={mode!r}, value={value}): only 'constant' takes a value.")
    if not pad or len(pad) > 6:
        raise ShapeError(f"pad(mode={mode!r}): takes 1 to 3 pairs of widths, got {tuple(pad)}.")
    if mode == "circular":
        return ops._pad_circular(self, pad)
    name = "reflection" if mode == "reflect" else "replication"
    padding.sides("pad", tuple(self.shape), pad)
    return getattr(ops, f"{name}_pad{len(pad) // 2}d")(self, pad)


def pad_enum(self: Tensor, pad: Shape, mode: int, value: float | None) -> Tensor:
    """`pad` with PyTorch's number for the mode."""
    names = ("constant", "reflect", "replicate", "circular")
    if mode not in range(len(names)):
        raise ValueRangeError(f"_pad_enum(mode={mode}): there are 0 to 3: {', '.join(names)}.")
    return ops.pad(self, pad, names[mode], value)
