"""Convolutions under vmap: the batch joins the samples, the channels or the groups."""

from __future__ import annotations

from typing import Any

from adjoint.batching.common import Batch, padded
from adjoint.core.errors import ShapeError
from adjoint.core.shapes import Shape

Tensor = Any


def _split(x: Tensor, dim: int, groups: int) -> Tensor:
    """Dimension `dim` as (groups, channels of one)."""
    return x.reshape((*x.shape[:dim], groups, x.shape[dim] // groups, *x.shape[dim + 1 :]))


def _joined(x: Tensor, dim: int) -> Tensor:
    """Dimensions `dim` and the next as one."""
    size = x.shape[dim] * x.shape[dim + 1]
    return x.reshape((*x.shape[:dim], size, *x.shape[dim + 2 :]))


def into_groups(x: Tensor, dim: int) -> Tensor:
    """The batch in front within dimension `dim` of a sample: (batch, group, channel)."""
    return _joined(x.movedim(0, dim), dim)


def from_groups(x: Tensor, dim: int, size: int) -> Tensor:
    """What `into_groups` did, undone."""
    return _split(x, dim, size).movedim(dim, 0)


def into_channels(x: Tensor, dim: int, groups: int) -> Tensor:
    """The batch in front within dimension `dim` of a sample: (group, batch, channel)."""
    split = _split(x.movedim(0, dim), dim + 1, groups).transpose(dim, dim + 1)
    return _joined(_joined(split, dim), dim)


def from_channels(x: Tensor, dim: int, groups: int, size: int) -> Tensor:
    """What `into_channels` did, undone."""
    split = _split(_split(x, dim, groups), dim + 1, size).movedim(dim + 1, 0)
    return _joined(split, dim + 1)


def _need(batch: Batch, first: int, second: int) -> None:
    if first != second or first < 3:
        raise ShapeError(
            f"{batch.op.name}: needs tensors of batch, channels and spatial dimensions, the same "
            f"number on both sides; got {first} and {second} dimensions."
        )


def convolution(
    batch: Batch, input: Tensor, weight: Tensor, bias: Tensor | None, stride: Shape,
    padding: Shape, dilation: Shape, transposed: bool, output_padding: Shape, groups: int,
) -> Tensor:  # fmt: skip
    """One convolution for all; a bias that differs from sample to sample is added after."""
    _need(batch, batch.ndims[0], batch.ndims[1])
    on_input, on_weight, on_bias = batch.has[:3]
    size, count = batch.size, batch.ndims[0]
    term = None if on_bias or on_weight else bias
    how = (stride, padding, dilation, transposed, output_padding)
    if on_input and on_weight:
        x, w = into_groups(input, 1), weight.flatten(0, 1)
        result = from_groups(batch.op.call([x, w, None, *how, groups * size]), 1, size)
    elif on_input:
        result = batch.op.call([input.flatten(0, 1), weight, term, *how, groups])
        result = _split(result, 0, size)
    elif on_weight:
        w = into_groups(weight, 1) if transposed else into_channels(weight, 0, groups)
        result = from_channels(batch.op.call([input, w, None, *how, groups]), 1, groups, size)
    else:
        result = batch.op.call([input, weight, None, *how, groups])
    if bias is None or term is not None:
        return result
    bias = bias.reshape((*bias.shape, *(1,) * (count - 2)))
    return result + padded(bias, on_bias, count - 1, count)


def weight_backward(
    batch: Batch, grad_output: Tensor, input: Tensor, weight_size: Shape, stride: Shape,
    padding: Shape, dilation: Shape, transposed: bool, output_padding: Shape, groups: int,
) -> Tensor:  # fmt: skip
    """The batch is among the channels of the one tensor, or in the groups of both."""
    _need(batch, batch.ndims[0], batch.ndims[1])
    on_grad, on_input = batch.has[:2]
    size, (rows, columns, *kernel) = batch.size, weight_size
    if on_grad and on_input:
        grad, x = into_groups(grad_output, 1), into_groups(input, 1)
        shape, count = (rows * size, columns, *kernel), groups * size
    else:
        grad = into_channels(grad_output, 1, groups) if on_grad else grad_output
        x = into_channels(input, 1, groups) if on_input else input
        count, on_rows = groups, on_input if transposed else on_grad
        shape = (rows * size, columns, *kernel) if on_rows else (rows, columns * size, *kernel)
    result = batch.op.call(
        [grad, x, shape, stride, padding, dilation, transposed, output_padding, count]
    )
    if on_grad and on_input:
        return from_groups(result, 0, size)
    if shape[0] == rows * size and shape[1] == columns:
        return from_channels(result, 0, groups, size)
    return from_groups(result, 1, size)
