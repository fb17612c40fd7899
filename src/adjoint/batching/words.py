"""The rules that a row names by a word, `batch: shifted`: the batch in front, and nothing else."""

from __future__ import annotations

from typing import Any

from adjoint.batching import common
from adjoint.batching.common import Batch


def same(batch: Batch, *values: Any) -> Any:
    """The operator treats every element, or every leading dimension, alike."""
    return batch.op.call(values)


def shifted(batch: Batch, *values: Any) -> Any:
    """Tensors and dimensions. A scalar counts as a vector of one."""
    arguments = [
        value if rank is None else common.at_least_vector(value, True)
        for value, rank in zip(common.moved(batch, values), batch.ndims, strict=True)
    ]
    result = batch.op.call(arguments)
    first = next(n for n in batch.ndims if n is not None)
    return result if first else common.scalars(batch, result)


def cut(batch: Batch, *values: Any) -> Any:
    """As `shifted`, for operators that refuse a tensor without dimensions."""
    if batch.ndims[0] == 0:
        sample = values[0].new_zeros(())  # which the operator refuses
        batch.op.call([v if n is None else sample for v, n in zip(values, batch.ndims)])
    return batch.op.call(common.moved(batch, values))


def matrices(batch: Batch, *values: Any) -> Any:
    """One tensor of matrices, whatever is in front of them."""
    common.need(batch, (2,))
    return batch.op.call(values)


def vectors(batch: Batch, *values: Any) -> Any:
    """One tensor of vectors, whatever is in front of them."""
    common.need(batch, (1,))
    return batch.op.call(values)


def broadcast(batch: Batch, *values: Any) -> Any:
    """Several tensors of matrices whose batches broadcast."""
    common.need(batch, (2, 2, 2))
    rank = max(n for n in batch.ndims if n is not None)
    aligned = [
        value if n is None else common.padded(value, has, n, rank)
        for value, has, n in zip(values, batch.has, batch.ndims, strict=True)
    ]
    return batch.op.call(aligned)


def together(batch: Batch, *values: Any) -> Any:
    """Several tensors with one common batch; a tensor without it is repeated."""
    return batch.op.call(common.moved(batch, values))
