"""Scans under vmap: the dimension moves, the rest follows."""

from __future__ import annotations

from typing import Any

from adjoint.batching.common import Batch, at_least_vector, padded, scalars, shift, whole

Tensor = Any


def linear_recurrence(batch: Batch, a: Tensor, b: Tensor, dim: int, reverse: bool) -> Tensor:
    rank = max(batch.ndims[0], batch.ndims[1])
    a = padded(whole(batch, a, batch.has[0]), True, batch.ndims[0], rank)
    b = padded(whole(batch, b, batch.has[1]), True, batch.ndims[1], rank)
    result = batch.op.call(
        [
            at_least_vector(a, True),
            at_least_vector(b, True),
            shift(batch.op.name, dim, rank),
            reverse,
        ]
    )
    return result if rank else scalars(batch, result)
