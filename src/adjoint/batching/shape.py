"""Batching rules of the shape family: the same operator, one dimension further to the right.

A rule gets its tensors with the batch in front (those that are batched), `batch.size`, `batch.has`
and `batch.ndims`, the number of dimensions that the user's code sees.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from adjoint import ops
from adjoint.batching.common import Batch, Tensor, whole
from adjoint.core import layout
from adjoint.core.dtypes import DType
from adjoint.core.errors import ShapeError
from adjoint.core.shapes import Shape, infer_size, wrap_dim


def unchanged(batch: Batch, self: Tensor, *rest: Any) -> Tensor:
    """Operators that act on each element alone."""
    return batch.op.call([self, *rest])


def view(batch: Batch, self: Tensor, size: Shape, *stride: Any) -> Tensor:
    """A reshape, because the batch need not be in front in memory."""
    count = 1
    for s in self.shape[1:]:
        count *= s
    return self.reshape((batch.size, *infer_size(batch.op.name, size, count)))


def squeeze_dims(batch: Batch, self: Tensor, dim: Shape) -> Tensor:
    """The batch stays, whatever its size."""
    return self.reshape((batch.size, *layout.squeezed("squeeze", tuple(self.shape[1:]), dim)))


def unsqueeze(batch: Batch, self: Tensor, dim: int) -> Tensor:
    """One place further."""
    return self.unsqueeze(layout.wrap_insert("unsqueeze", dim, self.ndim - 1) + 1)


def permute(batch: Batch, self: Tensor, dims: Shape) -> Tensor:
    """The batch stays in front."""
    order = layout.permutation("permute", dims, self.ndim - 1)
    return self.permute((0, *(d + 1 for d in order)))


def expand(batch: Batch, self: Tensor, size: Shape, implicit: bool) -> Tensor:
    """New dimensions come after the batch."""
    shape = tuple(self.shape[1:])
    wanted = layout.expanded("expand", shape, size)
    aligned = self.reshape((batch.size, *(1,) * (len(wanted) - len(shape)), *shape))
    return aligned.expand((batch.size, *wanted))


def cat(batch: Batch, tensors: Sequence[Tensor], dim: int) -> Tensor:
    """Tensors without a batch are repeated; those that `cat` skips are left out."""
    samples = [tuple(x.shape[has:]) for x, has in zip(tensors, batch.has[0], strict=True)]
    shape, dim = layout.cat_shape("cat", samples, dim)
    parts = [
        whole(batch, x, has)
        for x, has, sample in zip(tensors, batch.has[0], samples, strict=True)
        if len(sample) == len(shape)
    ]
    return ops.cat(parts, dim + 1)


def unfold(batch: Batch, self: Tensor, dimension: int, size: int, step: int) -> Tensor:
    """One dimension further; a scalar is one window."""
    _, dim = layout.unfold_shape("unfold", tuple(self.shape[1:]), dimension, size, step)
    if self.ndim == 1:
        return self.unsqueeze(1).narrow(1, 0, size)
    return self.unfold(dim + 1, size, step)


def unfold_backward(
    batch: Batch, grad_in: Tensor, input_sizes: Shape, dim: int, size: int, step: int
) -> Tensor:
    """One dimension further."""
    if not input_sizes:
        return grad_in.sum((1,))
    dim = wrap_dim("unfold_backward", dim, len(input_sizes))
    return ops.unfold_backward(grad_in, (batch.size, *input_sizes), dim + 1, size, step)

