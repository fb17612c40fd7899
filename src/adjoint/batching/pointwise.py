"""Pointwise operators under vmap: batches align in front, everything else broadcasts as always."""

from __future__ import annotations

from typing import Any

from adjoint.batching.common import Batch, padded
from adjoint.core.shapes import Spec

Tensor = Any


def aligned(batch: Batch, *values: Any) -> Any:
    """The rule of pointwise archetypes.

    The dtype is that of the user's call: a scalar in each sample is a vector here, and must not
    decide the dtype.
    """
    if _alike(batch, values):
        return batch.op.call(values)
    row = batch.op.row
    rank = max((n for n in batch.ndims if n is not None), default=0)
    promoted = {a.name for a in row.promoted}
    arguments = list(zip(row.schema.arguments, values, batch.has, batch.ndims, strict=True))
    seen = {a.name: v if n is None else Spec((1,) * n, v.dtype) for a, v, _, n in arguments}
    common = row.computes_in(seen)
    found = []
    for argument, value, has, ndim in arguments:
        if ndim is not None:
            if argument.name in promoted and common is not None and value.dtype is not common:
                value = value.to(common)
            value = padded(value, has, ndim, rank)
        found.append(value)
    return batch.op.call(found)


def _alike(batch: Batch, values: tuple[Any, ...]) -> bool:
    """Whether all tensors have one dtype and one rank, so that they broadcast as they are."""
    dtype = ndim = None
    for value, n in zip(values, batch.ndims, strict=True):
        if n is None:
            continue
        if ndim is None:
            dtype, ndim = value.dtype, n
        elif n != ndim or value.dtype is not dtype:
            return False
    return True
