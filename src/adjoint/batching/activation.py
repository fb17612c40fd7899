"""softmax under vmap: the dimension moves, the rest follows."""

from __future__ import annotations

from typing import Any

from adjoint.batching.common import Batch, at_least_vector, scalars, shift, whole
from adjoint.batching.common import shifted as shifted

Tensor = Any


def backward_data(
    batch: Batch, grad_output: Tensor, output: Tensor, dim: int, input_dtype: Any
) -> Tensor:
    """Two tensors of one shape and a dimension."""
    ndim = batch.ndims[1]
    pair = [
        at_least_vector(whole(batch, tensor, has), True)
        for tensor, has in zip((grad_output, output), batch.has, strict=False)
    ]
    result = batch.op.call([*pair, shift(batch.op.name, dim, ndim), input_dtype])
    return result if ndim else scalars(batch, result)
