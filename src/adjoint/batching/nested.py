"""Nested tensors under vmap: the rows of all samples are rows of one tensor."""

from __future__ import annotations

from typing import Any

from adjoint import ops
from adjoint.batching.common import Batch, whole

Tensor = Any


def padded_rows(
    batch: Batch, self: Tensor, starts: Tensor, lengths: Tensor, size: int, padding: Any
) -> Tensor:
    rows = whole(batch, self, batch.has[0])
    starts, lengths = _in_one(batch, starts, lengths, rows.shape[1])
    result = batch.op.call([rows.flatten(0, 1), starts, lengths, size, padding])
    count = result.shape[0] // max(batch.size, 1)
    return result.reshape((batch.size, count, *result.shape[1:]))


def packed_rows(batch: Batch, self: Tensor, starts: Tensor, lengths: Tensor, total: int) -> Tensor:
    rows = whole(batch, self, batch.has[0])
    starts, lengths = _in_one(batch, starts, lengths, total)
    result = batch.op.call([rows.flatten(0, 1), starts, lengths, total * batch.size])
    return result.reshape((batch.size, total, *result.shape[1:]))


def _in_one(batch: Batch, starts: Tensor, lengths: Tensor, rows: int) -> tuple[Tensor, Tensor]:
    """Starts and lengths of all samples, counted in the rows of all."""
    before = (ops.arange(batch.size) * rows).unsqueeze(1)
    starts = whole(batch, starts, batch.has[1]) + before
    return starts.flatten(), whole(batch, lengths, batch.has[2]).flatten()
