"""Slices, diagonals and strides under vmap."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from adjoint.batching.common import Batch, shift, whole
from adjoint.core.errors import ShapeError
from adjoint.core.shapes import show

Tensor = Any
Shape = Sequence[int]


def placed(batch: Batch, grad_output: Tensor, input_sizes: Shape, *rest: Any) -> Tensor:
    """select_backward, slice_backward, diagonal_backward: zeros of these sizes for each sample."""
    ndim = len(input_sizes)
    moved = [
        shift(batch.op.name, v, ndim) if a.name in ("dim", "dim1", "dim2") else v
        for a, v in zip(batch.op.schema.arguments[2:], rest, strict=True)
    ]
    return batch.op.call([grad_output, (batch.size, *input_sizes), *moved])


def slice_inverse(
    batch: Batch, self: Tensor, src: Tensor, dim: int, start: Any, end: Any, step: int
) -> Tensor:
    """The geometry of one sample of `src`, in the memory of each sample of `self`."""
    if not (batch.has[0] and batch.has[1]):
        raise ShapeError(
            "slice_inverse inside vmap: self must be a slice of src, and only one of them differs "
            "from sample to sample; use slice_scatter(src, self, dim, start, end, step)."
        )
    return batch.op.call([self, src, shift("slice_inverse", dim, batch.ndims[0]), start, end, step])


def as_strided(
    batch: Batch, self: Tensor, size: Shape, stride: Shape, storage_offset: int | None
) -> Tensor:
    """The view of each sample; samples are one batch stride apart in memory."""
    return self.as_strided((batch.size, *size), (self.stride()[0], *stride), storage_offset)


def as_strided_scatter(
    batch: Batch, self: Tensor, src: Tensor, size: Shape, stride: Shape, storage_offset: int | None
) -> Tensor:
    """Like `as_strided`; a `self` that all samples share is copied for each."""
    if not batch.has[0]:
        if not self.is_contiguous() or self.storage_offset():
            raise ShapeError(
                f"as_strided_scatter inside vmap: self ({show(self.shape)}) is the same for all "
                "samples and does not lie in memory in the order of its elements; pass "
                "self.contiguous().clone()."
            )
        self = whole(batch, self, False).clone()
    geometry = ((batch.size, *size), (self.stride()[0], *stride), storage_offset)
    return batch.op.call([self, whole(batch, src, batch.has[1]), *geometry])
