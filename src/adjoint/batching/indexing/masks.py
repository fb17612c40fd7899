"""Writing by a mask that differs from sample to sample: no index, but a choice by element."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from adjoint import ops
from adjoint.batching.common import Batch, padded
from adjoint.checks import indexing
from adjoint.checks.indexing import is_mask
from adjoint.core.dtypes import int64
from adjoint.core.errors import ShapeError
from adjoint.core.shapes import Spec, show

Tensor = Any
Indices = Sequence[Tensor | None]


def is_one_mask(indices: Indices, has: Sequence[bool]) -> bool:
    """Whether there is nothing but a mask that differs from sample to sample."""
    found = [(i, h) for i, h in zip(indices, has, strict=True) if i is not None]
    return len(found) == 1 and found[0][1] and is_mask(found[0][0])


def put_at_mask(
    batch: Batch, target: Tensor, indices: Indices, values: Tensor, accumulate: bool
) -> Tensor:
    """Bring the dimensions of the mask to the front, write, and bring them back."""
    place, mask = next((p, i) for p, i in enumerate(indices) if i is not None)
    if place == 0:
        return _put_by_mask(batch, target, mask, values, accumulate)
    here = tuple(range(1 + place, place + mask.ndim))
    front = tuple(range(1, mask.ndim))
    inner = target.ndim - mask.ndim  # dimensions of one sample that the mask leaves
    if batch.ndims[2] > inner - place:  # the values reach the chosen elements
        has = batch.has[2]
        full = padded(
            values if has else values.unsqueeze(0), True, batch.ndims[2], inner + 1
        ).movedim(1 + place, 1)
        values = full if has else full.squeeze(0)
    written = _put_by_mask(batch, target.movedim(here, front), mask, values, accumulate)
    return written.movedim(front, here)


def _put_by_mask(
    batch: Batch, target: Tensor, mask: Any, values: Tensor, accumulate: bool
) -> Tensor:
    """One mask for each sample, in front: its k-th True element takes the k-th value."""
    ndim, inner = target.ndim - 1, target.ndim - mask.ndim
    indexing.check_same_dtype("index_put", target, values, "values")
    indexing.check_mask_shape(
        "index_put", Spec(tuple(mask.shape[1:]), mask.dtype), tuple(target.shape[1:]), 0
    )
    truth = mask != 0
    has = batch.has[2]
    shape = tuple(values.shape[has:])
    if len(shape) > inner + 1:
        raise ShapeError(f"index_put: values ({show(shape)}) do not expand to the indexed part.")
    if len(shape) == inner + 1:
        order = truth.reshape((batch.size, math.prod(mask.shape[1:]))).to(int64).cumsum(1) - 1
        order = order.clamp(0, max(shape[0] - 1, 0)).reshape(mask.shape)
        filling = _taken(batch, values, order) if shape[0] else target
    else:
        filling = padded(values, has, len(shape), ndim)
    chosen = truth.reshape((*mask.shape, *(1,) * inner))
    return ops.where(chosen, target + filling if accumulate else filling, target)


def _taken(batch: Batch, values: Tensor, order: Tensor) -> Tensor:
    """values[order] of each sample."""
    number = ops.arange(batch.size).reshape((batch.size, *(1,) * (order.ndim - 1)))
    return ops.index.Tensor(values, [number, order] if batch.has[2] else [order])
