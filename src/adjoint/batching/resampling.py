"""Resampling under vmap: the batch joins the operator's batch, its channels, or its places."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from adjoint.batching.common import Batch, whole
from adjoint.core.shapes import Shape

Tensor = Any


def _together(tensor: Tensor) -> Tensor:
    """The two leading dimensions as one."""
    return tensor.reshape((tensor.shape[0] * tensor.shape[1], *tensor.shape[2:]))


def _split_leading(batch: Batch, tensor: Tensor, count: int) -> Tensor:
    """The leading dimension split into two, the second with `count` elements."""
    return tensor.reshape((batch.size, count, *tensor.shape[1:]))


def resample(batch: Batch, self: Tensor, output_size: Shape, *options: Any) -> Tensor:
    if batch.ndims[0] != len(output_size) + 2:
        return batch.op.call([self.new_zeros(self.shape[1:]), output_size, *options])  # raises
    result = batch.op.call([_together(self), output_size, *options])
    return _split_leading(batch, result, self.shape[1])


def resample_backward(
    batch: Batch, grad_output: Tensor, output_size: Shape, input_size: Shape, *options: Any
) -> Tensor:
    if batch.ndims[0] != len(output_size) + 2:
        sample = grad_output.new_zeros(grad_output.shape[1:])
        return batch.op.call([sample, output_size, input_size, *options])  # raises
    size = (batch.size * input_size[0], *input_size[1:])
    result = batch.op.call([_together(grad_output), output_size, size, *options])
    return _split_leading(batch, result, input_size[0])


def grid_sample(batch: Batch, input: Tensor, grid: Tensor, *options: Any) -> Tensor:
    """One grid for all inputs samples more channels; one input for all grids at more places."""
    size = batch.size
    if all(batch.has[:2]):
        result = batch.op.call([_together(input), _together(grid), *options])
        return _split_leading(batch, result, input.shape[1])
    if batch.has[0]:
        count, channels = input.shape[1:3]
        wide = input.transpose(0, 1).reshape((count, size * channels, *input.shape[3:]))
        result = batch.op.call([wide, grid, *options])
        return result.reshape((count, size, channels, *result.shape[2:])).transpose(0, 1)
    count, first = grid.shape[1:3]
    long = grid.transpose(0, 1).reshape((count, size * first, *grid.shape[3:]))
    result = batch.op.call([input, long, *options])
    return result.reshape((*result.shape[:2], size, first, *result.shape[3:])).movedim(2, 0)


def grid_sample_input_backward(
    batch: Batch, grad_output: Tensor, grid: Tensor, input_size: Shape, *options: Any
) -> Tensor:
    tensors = _all(batch, (grad_output, grid))
    size = (batch.size * input_size[0], *input_size[1:])
    return _split_leading(batch, batch.op.call([*tensors, size, *options]), input_size[0])


def grid_sample_grid_backward(
    batch: Batch, grad_output: Tensor, input: Tensor, grid: Tensor, *options: Any
) -> Tensor:
    tensors = _all(batch, (grad_output, input, grid))
    count = grid.shape[1] if batch.has[2] else grid.shape[0]
    return _split_leading(batch, batch.op.call([*tensors, *options]), count)


def _all(batch: Batch, tensors: Sequence[Tensor]) -> list[Tensor]:
    return [
        _together(whole(batch, tensor, has))
        for tensor, has in zip(tensors, batch.has[: len(tensors)], strict=True)
    ]
