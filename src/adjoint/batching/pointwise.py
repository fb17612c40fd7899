"""Pointwise operators under vmap: batches align in front, everything else broadcasts as always."""

from __future__ import annotations

from typing import Any

from adjoint import ops
from adjoint.batching.common import Batch
from adjoint.batching.common import padded
from adjoint.batching.common import same as same
from adjoint.core.promotion import result_type
from adjoint.core.shapes import Spec

Tensor = Any


def aligned(batch: Batch, *values: Any) -> Any:
    """The rule of pointwise archetypes.

    The dtype is that of the user's view of the call: a scalar per sample is a vector here, and must not decide it.
    """
    row = batch.op.row
    rank = max((n for n in batch.ndims if n is not None), default=0)
    promoted = {a.name for a in row.promoted}
    arguments = list(zip(row.schema.arguments, values, batch.has, batch.ndims, strict=True))
    operands = [
        v if n is None else Spec((1,) * n, v.dtype)
        for a, v, _, n in arguments
        if a.name in promoted and v is not None
    ]
    common = result_type(*operands) if operands else None
    found = []
    for argument, value, has, ndim in arguments:
        if ndim is not None:
            if argument.name in promoted and common is not None and value.dtype is not common:
                value = value.to(common)
            value = padded(value, has, ndim, rank)
        found.append(value)
    return batch.op.call(found)


def is_true_everywhere(batch: Batch, self: Tensor) -> Tensor:
    return ops.all.dims(_rows(self), (1,))


def is_true_anywhere(batch: Batch, self: Tensor) -> Tensor:
    return ops.any.dims(_rows(self), (1,))


def _rows(self: Tensor) -> Tensor:
    """One row per sample; a sample of one element has a row of one."""
    return self.unsqueeze(1) if self.ndim == 1 else self.flatten(1)
