"""Pooling under vmap: planes and volumes are pooled alike, so samples join the batch."""

from __future__ import annotations

from typing import Any

from adjoint.batching.common import Batch, whole
from adjoint.checks import pooling as rules

Tensor = Any


def _joined(batch: Batch, dims: int, values: tuple[Any, ...]) -> Any:
    """The samples as one batch for the operator; a batch of their own is merged with it."""
    pairs = list(zip(values, batch.has, batch.ndims, strict=True))
    tensors = [v if n is None else whole(batch, v, has) for v, has, n in pairs]
    rules.check_rank(batch.op.name, tuple(tensors[0].shape[1:]), dims)
    if batch.ndims[0] == dims + 1:
        return batch.op.call(tensors)
    merged = [v if n is None else v.flatten(0, 1) for v, n in zip(tensors, batch.ndims)]
    result = batch.op.call(merged)
    count = tensors[0].shape[1]
    if isinstance(result, tuple):
        return tuple(r.reshape((batch.size, count, *r.shape[1:])) for r in result)
    return result.reshape((batch.size, count, *result.shape[1:]))


def planes(batch: Batch, *values: Any) -> Any:
    """Two dimensions are pooled."""
    return _joined(batch, 2, values)


def volumes(batch: Batch, *values: Any) -> Any:
    """Three dimensions are pooled."""
    return _joined(batch, 3, values)
