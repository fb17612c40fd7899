"""Packed sequences: a batch of sequences step by step, without padding.

Row `offsets[t] + b` of packed data is step t of sequence b, for b < batch_sizes[t].
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from adjoint import ops
from adjoint.checks import recurrent
from adjoint.core.errors import ShapeError, ValueRangeError
from adjoint.core.shapes import show

Tensor = Any


def padded(data: Tensor, batch_sizes: Tensor, count: int) -> Tensor:
    """(steps, count, ...), with rows of `data` that mean nothing after the end of a sequence."""
    ends = batch_sizes.cumsum(0)
    numbers = ops.arange(count)
    rows = (ends - batch_sizes).unsqueeze(-1) + numbers
    rows = ops.where(numbers < batch_sizes.unsqueeze(-1), rows, 0)
    found = data.index_select(0, rows.reshape((-1,)))
    return found.reshape((batch_sizes.shape[0], count, *data.shape[1:]))


def packed(steps: Tensor, batch_sizes: Tensor, size: int) -> Tensor:
    """The `size` rows of (steps, count, ...) that are not padding."""
    ends = batch_sizes.cumsum(0)
    numbers = ops.arange(size)
    turns = ends.narrow(0, 0, ends.shape[0] - 1)  # the first row of each step after the first
    step = ops.zeros_like(numbers).index_add(0, turns, ops.ones_like(turns)).cumsum(0)
    rows = step * steps.shape[1] + numbers - (ends - batch_sizes).index_select(0, step)
    return steps.flatten(0, 1).index_select(0, rows)


def _counted(numbers: Tensor, limit: int) -> Tensor:
    """How many of the numbers exceed 0, 1, ..., limit - 1: of lengths the batch sizes, and back."""
    return (numbers > ops.arange(limit).unsqueeze(-1)).sum((1,))


def pack_padded_sequence(
    input: Tensor, lengths: Tensor, batch_first: bool
) -> tuple[Tensor, Tensor]:
    """The packed data, and how many sequences each step has."""
    what = "pack_padded_sequence"
    if input.ndim < 2:
        raise ShapeError(f"{what}: needs steps of sequences, got {show(input.shape)}.")
    steps = input.transpose(0, 1) if batch_first else input
    if lengths.ndim != 1 or lengths.shape[0] != steps.shape[1]:
        raise ShapeError(
            f"{what}: needs one length for each of {steps.shape[1]} sequences, got lengths of "
            f"shape {show(lengths.shape)}."
        )
    known = [int(n) for n in lengths.tolist()]
    recurrent.decreasing(what, known, steps.shape[0], "lengths")
    batch_sizes = _counted(lengths, known[0])
    return packed(steps, batch_sizes, sum(known)), batch_sizes


def sequences(what: str, data: Tensor, batch_sizes: Tensor) -> list[int]:
    """The batch sizes as numbers, which fit the data."""
    sizes = [int(n) for n in batch_sizes.tolist()] if batch_sizes.ndim == 1 else []
    recurrent.decreasing(what, sizes, data.shape[0])
    if sum(sizes) != data.shape[0]:
        raise ValueRangeError(
            f"{what}: batch_sizes {sizes} make {sum(sizes)} rows, and the data has {data.shape[0]}."
        )
    return sizes


def pack_padded_sequence_backward(
    grad: Tensor, input_size: Sequence[int], batch_sizes: Tensor, batch_first: bool
) -> Tensor:
    """Zeros of `input_size` with the gradients of packed rows in their places."""
    shape = list(input_size)
    if batch_first:
        shape[:2] = shape[1], shape[0]
    sizes = sequences("pack_padded_sequence_backward", grad, batch_sizes)
    found = _filled(grad, batch_sizes, sizes, 0.0)
    found = _longer(found, shape[0], 0.0)
    return found.transpose(0, 1) if batch_first else found


def _filled(data: Tensor, batch_sizes: Tensor, sizes: list[int], value: Any) -> Tensor:
    """Padded data with a value after the end of each sequence."""
    count = sizes[0]
    takes_part = ops.arange(count) < batch_sizes.unsqueeze(-1)
    takes_part = takes_part.reshape((len(sizes), count, *(1,) * (data.ndim - 1)))
    return padded(data, batch_sizes, count).masked_fill(takes_part.logical_not(), value)


def _longer(steps: Tensor, total: int, value: Any) -> Tensor:
    """A tensor extended to `total` steps with one value."""
    if total == steps.shape[0]:
        return steps
    more = steps.new_full((total - steps.shape[0], *steps.shape[1:]), value)
    return ops.cat([steps, more])


def pad_packed_sequence(
    data: Tensor, batch_sizes: Tensor, batch_first: bool, padding_value: Any, total_length: int
) -> tuple[Tensor, Tensor]:
    """The sequences with padding after their end, and their lengths."""
    what = "pad_packed_sequence"
    sizes = sequences(what, data, batch_sizes)
    if 0 < total_length < len(sizes):
        raise ValueRangeError(
            f"{what}: total_length={total_length} is less than the {len(sizes)} steps of the "
            "longest sequence."
        )
    found = _filled(data, batch_sizes, sizes, padding_value)
    found = _longer(found, max(total_length, len(sizes)), padding_value)
    return found.transpose(0, 1) if batch_first else found, _counted(batch_sizes, sizes[0])
