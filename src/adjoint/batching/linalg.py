"""Linear algebra under vmap: the batch is one more dimension in front of the matrices."""

from __future__ import annotations

from typing import Any

from adjoint.batching.common import Batch, padded, whole
from adjoint.core.errors import ShapeError

Tensor = Any


def _need(batch: Batch, ranks: tuple[int, ...]) -> None:
    """Raise for tensors with fewer dimensions than the operator's matrices or vectors have."""
    tensors = [n for n in batch.ndims if n is not None]
    for have, least in zip(tensors, ranks, strict=False):
        if have < least:
            kind = {1: "a vector", 2: "a matrix"}[least]
            raise ShapeError(f"{batch.op.name}: needs {kind} or a batch, got {have} dimensions.")


def leading(batch: Batch, *values: Any) -> Any:
    """One tensor of matrices."""
    _need(batch, (2,))
    return batch.op.call(values)


def vectors(batch: Batch, *values: Any) -> Any:
    """One tensor of vectors."""
    _need(batch, (1,))
    return batch.op.call(values)


def broadcast(batch: Batch, *values: Any) -> Any:
    """Several tensors of matrices whose batches broadcast."""
    _need(batch, (2, 2, 2))
    rank = max(n for n in batch.ndims if n is not None)
    aligned = [
        value if n is None else padded(value, has, n, rank)
        for value, has, n in zip(values, batch.has, batch.ndims, strict=True)
    ]
    return batch.op.call(aligned)


def together(batch: Batch, *values: Any) -> Any:
    """Several tensors with one common batch: those that have none are repeated."""
    aligned = [
        value if n is None else whole(batch, value, has)
        for value, has, n in zip(values, batch.has, batch.ndims, strict=True)
    ]
    return batch.op.call(aligned)


def solve(batch: Batch, A: Tensor, B: Tensor, check_errors: bool) -> tuple[Tensor, Tensor]:
    """As `broadcast`; LAPACK's info belongs to A alone."""
    result, info = broadcast(batch, A, B, check_errors)
    return result, whole(batch, info, batch.has[0])


def qr(batch: Batch, A: Tensor, mode: str) -> Any:
    """As `leading`; mode r has no Q, an empty tensor for every sample."""
    Q, R = leading(batch, A, mode)
    return (whole(batch, Q, False) if mode == "r" else Q), R
