"""Views, joins, repeats and copies under vmap: the same operator, one dimension further right.

A view of a batched tensor is a view of the tensor below, so that writing through it reaches the
base.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from adjoint import ops
from adjoint.batching.common import Batch, again, named, padded, refuse, shift, shift_all, whole
from adjoint.checks import shape as layout
from adjoint.checks.creation import check_fill
from adjoint.core.errors import DimensionError, ShapeError
from adjoint.core.layouts import ORDERS
from adjoint.core.shapes import Shape, infer_size, show

Tensor = Any


# ---- sizes and order of dimensions ------------------------------------------------------------


def reshaped(batch: Batch, self: Tensor, size: Shape) -> Tensor:
    """view and reshape; a size of -1 is worked out here, since an empty batch would hide it."""
    sizes = infer_size(batch.op.name, size, math.prod(self.shape[1:]))
    return batch.op.call([self, (batch.size, *sizes)])


def squeeze(batch: Batch, self: Tensor) -> Tensor:
    """The batch stays, whatever its size."""
    return self.reshape((batch.size, *[s for s in self.shape[1:] if s != 1]))


def squeeze_dims(batch: Batch, self: Tensor, dim: Any) -> Tensor:
    dims = dim if isinstance(dim, (tuple, list)) else (dim,)
    return self.reshape((batch.size, *layout.squeezed("squeeze", tuple(self.shape[1:]), dims)))


def unsqueeze(batch: Batch, self: Tensor, dim: int) -> Tensor:
    return self.unsqueeze(layout.wrap_insert("unsqueeze", dim, batch.ndims[0]) + 1)


def permute(batch: Batch, self: Tensor, dims: Shape) -> Tensor:
    """The batch stays in front."""
    order = layout.permutation("permute", dims, batch.ndims[0])
    return self.permute((0, *(d + 1 for d in order)))


def transpose(batch: Batch, self: Tensor, dim0: int, dim1: int) -> Tensor:
    first, second = shift_all("transpose", (dim0, dim1), batch.ndims[0])
    return self.transpose(first, second) if batch.ndims[0] else self.alias()


def t(batch: Batch, self: Tensor) -> Tensor:
    if batch.ndims[0] > 2:
        raise ShapeError(
            f"t: a matrix, a vector or a scalar is needed, got {show(self.shape[1:])}; use mT."
        )
    return self.transpose(1, 2) if batch.ndims[0] == 2 else self.alias()


def expand(batch: Batch, self: Tensor, size: Shape, implicit: bool) -> Tensor:
    """New dimensions come after the batch."""
    wanted = layout.expanded("expand", tuple(self.shape[1:]), size)
    return padded(self, True, batch.ndims[0], len(wanted)).expand(
        (batch.size, *wanted), implicit=implicit
    )


# ---- other ways to see the elements -----------------------------------------------------------


def view_dtype(batch: Batch, self: Tensor, dtype: Any) -> Tensor:
    if batch.ndims[0] == 0 and dtype.itemsize != self.dtype.itemsize:
        raise DimensionError(
            f"view: a tensor without dimensions cannot be seen as {dtype.name}, of another size."
        )
    return batch.op.call([self.contiguous(), dtype])


def view_as_complex(batch: Batch, self: Tensor) -> Tensor:
    if batch.ndims[0] == 0:
        raise DimensionError(
            "view_as_complex: the last dimension must have size 2, and there is none."
        )
    return batch.op.call([self.contiguous()])


# ---- splits, windows, triangles ---------------------------------------------------------------


def unfold(batch: Batch, self: Tensor, dimension: int, size: int, step: int) -> Tensor:
    """A scalar is one window."""
    _, dim = layout.unfold_shape("unfold", tuple(self.shape[1:]), dimension, size, step)
    return (
        self.unfold(dim + 1, size, step) if batch.ndims[0] else self.unsqueeze(1).narrow(1, 0, size)
    )


def unfold_backward(
    batch: Batch, grad_in: Tensor, input_sizes: Shape, dim: int, size: int, step: int
) -> Tensor:
    if not input_sizes:
        return grad_in.sum((1,))
    dim = shift("unfold_backward", dim, len(input_sizes))
    return ops.unfold_backward(grad_in, (batch.size, *input_sizes), dim, size, step)


def roll(batch: Batch, self: Tensor, shifts: Shape, dims: Shape) -> Tensor:
    """Without dimensions, of the flattened tensor."""
    if dims and batch.ndims[0]:
        return self.roll(shifts, shift_all("roll", dims, batch.ndims[0]))
    if dims or len(shifts) != 1:
        return whole(
            batch, self.new_zeros(self.shape[1:]).roll(shifts, dims), False
        )  # raises, or there is nothing to roll
    return (
        self.reshape((batch.size, math.prod(self.shape[1:]))).roll(shifts, (1,)).reshape(self.shape)
    )


def diag_embed(batch: Batch, self: Tensor, offset: int, dim1: int, dim2: int) -> Tensor:
    ndim = batch.ndims[0]
    if ndim == 0:
        return batch.op.call([self.new_zeros(()), offset, dim1, dim2])  # which raises
    return self.diag_embed(
        offset, shift("diag_embed", dim1, ndim + 1), shift("diag_embed", dim2, ndim + 1)
    )


# ---- joins and repeats ------------------------------------------------------------------------


def cat(batch: Batch, tensors: Sequence[Tensor], dim: int) -> Tensor:
    """Tensors without a batch are repeated; vectors of no elements, which `cat` skips, left out."""
    samples = [tuple(x.shape[has:]) for x, has in zip(tensors, batch.has[0], strict=True)]
    shape, dim = layout.cat_shape("cat", samples, dim)
    parts = [
        whole(batch, x, has)
        for x, has, sample in zip(tensors, batch.has[0], samples, strict=True)
        if len(sample) == len(shape)
    ]
    return ops.cat(parts, dim + 1)


def stack(batch: Batch, tensors: Sequence[Tensor], dim: int) -> Tensor:
    samples = [tuple(x.shape[has:]) for x, has in zip(tensors, batch.has[0], strict=True)]
    _, dim = layout.stack_shape("stack", samples, dim)
    return ops.stack(
        [whole(batch, x, has) for x, has in zip(tensors, batch.has[0], strict=True)], dim + 1
    )


def repeat(batch: Batch, self: Tensor, repeats: Shape) -> Tensor:
    layout.repeated("repeat", tuple(self.shape[1:]), repeats)
    return padded(self, True, batch.ndims[0], len(repeats)).repeat((1, *repeats))


def combinations(batch: Batch, self: Tensor, r: int, with_replacement: bool) -> Tensor:
    """Take the same places in every sample."""
    if batch.ndims[0] != 1:
        return batch.op.call([self.new_zeros(self.shape[1:]), r, with_replacement])  # which raises
    places = ops.combinations(ops.arange(self.shape[1]), r, with_replacement)
    return ops.index.Tensor(self, [None, places])


def repeat_interleave(batch: Batch, repeats: Tensor, output_size: int | None) -> Tensor:
    """Place k belongs to as many elements as have ended before it."""
    if output_size is None:
        refuse(
            "repeat_interleave",
            "how long the result is depends on the repeats",
            "give output_size=.",
        )
    ends = repeats.cumsum(1).unsqueeze(1)
    return (ends <= ops.arange(output_size).unsqueeze(1)).sum((2,))


# ---- copies -----------------------------------------------------------------------------------


def copied(batch: Batch, self: Tensor, *rest: Any) -> Tensor:
    """clone and casts; a memory format that counts dimensions is one of each sample."""
    arguments = named(batch, (self, *rest))
    if arguments.get("memory_format") not in ORDERS or batch.ndims[0] < 1:
        return batch.op.call([self, *rest])
    arguments["self"] = self.flatten(0, 1)
    return again(batch, arguments).reshape(self.shape)


def copy(batch: Batch, self: Tensor, src: Tensor, non_blocking: bool) -> Tensor:
    """`src` broadcasts to `self`."""
    if batch.ndims[1] > batch.ndims[0]:
        raise ShapeError(
            f"copy_: {batch.ndims[1]} dimensions do not fit a tensor of {batch.ndims[0]}."
        )
    target = whole(batch, self, batch.has[0])
    return batch.op.call(
        [target, padded(src, batch.has[1], batch.ndims[1], batch.ndims[0]), non_blocking]
    )


def fill(batch: Batch, self: Tensor, value: Tensor) -> Tensor:
    """One value for each sample, or one for all."""
    if batch.ndims[1]:
        raise ShapeError(f"fill_: the value must have no dimensions, got {batch.ndims[1]}.")
    if not batch.has[1]:
        return batch.op.call([self, value])
    check_fill(self.dtype, value)
    column = padded(value.to(self.dtype), True, 0, batch.ndims[0])
    return column.expand(self.shape if batch.has[0] else (batch.size, *self.shape)).clone()


def zeros_of_features(
    batch: Batch, self: Tensor, other: Tensor, self_num_batch_dims: int
) -> Tensor:
    """Zeros like `other`, with the first dimensions of `self` in front."""
    own = tuple(self.shape[batch.has[0] :])[:self_num_batch_dims]
    return other.new_zeros((batch.size, *own, *other.shape[batch.has[1] :]))
