"""Indices along one dimension under vmap: gather, scatter, index_select, index_add."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from adjoint import ops
from adjoint.batching.common import Batch, at_least_vector, scalars, shift, whole
from adjoint.checks import indexing
from adjoint.core.errors import DimensionError
from adjoint.core.shapes import wrap_dim

Tensor = Any
Shape = Sequence[int]


def _lifted(batch: Batch, tensor: Tensor, has: bool) -> Tensor:
    return at_least_vector(whole(batch, tensor, has), True)


def gather(batch: Batch, self: Tensor, dim: int, index: Tensor, sparse_grad: bool) -> Tensor:
    dim = shift("gather", dim, batch.ndims[0])
    result = batch.op.call(
        [_lifted(batch, self, batch.has[0]), dim, _lifted(batch, index, batch.has[2]), sparse_grad]
    )
    return result if batch.ndims[2] else scalars(batch, result)


def gather_backward(
    batch: Batch, grad_output: Tensor, sizes: Shape, dim: int, index: Tensor
) -> Tensor:
    board = (batch.size, *(tuple(sizes) or (1,)))
    grad, places = _lifted(batch, grad_output, batch.has[0]), _lifted(batch, index, batch.has[3])
    result = batch.op.call([grad, board, shift("gather", dim, len(sizes)), places])
    return result if sizes else scalars(batch, result)


# ---- one vector of indices: the operator itself where it is the same for all, else a scatter ----


def _line(batch: Batch, index: Tensor, dim: int, like: Tensor) -> Tensor:
    """The indices of each sample along dimension `dim`, repeated in all others of `like`."""
    if index.ndim > 2:
        raise DimensionError(
            f"{batch.op.name}: the index must be a vector, got {index.ndim - 1} dimensions."
        )
    indexing.check_integers(batch.op.name, index)
    places = at_least_vector(index, True)
    count, after = places.shape[1], like.ndim - dim - 2
    shape = list(like.shape)
    shape[dim + 1] = count
    return places.reshape((batch.size, *(1,) * dim, count, *(1,) * after)).expand(shape)


def index_select(batch: Batch, self: Tensor, dim: int, index: Tensor) -> Tensor:
    dim = wrap_dim("index_select", dim, batch.ndims[0])
    source = _lifted(batch, self, batch.has[0])
    if batch.has[2]:
        result = source.gather(dim + 1, _line(batch, index, dim, source))
    else:
        result = source.index_select(dim + 1, index)
    return result if batch.ndims[0] else scalars(batch, result)


def index_select_backward(
    batch: Batch, grad: Tensor, self_sizes: Shape, dim: int, index: Tensor
) -> Tensor:
    dim = wrap_dim("index_select", dim, len(self_sizes))
    values = _lifted(batch, grad, batch.has[0])
    sizes = (batch.size, *(tuple(self_sizes) or (1,)))
    if batch.has[3]:
        result = values.new_zeros(sizes).scatter_add(
            dim + 1, _line(batch, index, dim, values), values
        )
    else:
        result = batch.op.call([values, sizes, dim + 1, index])
    return result if self_sizes else scalars(batch, result)


def index_add(
    batch: Batch, self: Tensor, dim: int, index: Tensor, source: Tensor, alpha: Any
) -> Tensor:
    target, dim, values = _target(batch, self, dim, source)
    if batch.has[2]:
        scaled = values if alpha == 1 else (values * alpha).to(self.dtype)
        result = target.scatter_add(dim + 1, _line(batch, index, dim, values), scaled)
    else:
        result = ops.index_add(target, dim + 1, index, values, alpha=alpha)
    return result if batch.ndims[0] else scalars(batch, result)


def index_copy(batch: Batch, self: Tensor, dim: int, index: Tensor, source: Tensor) -> Tensor:
    target, dim, values = _target(batch, self, dim, source)
    if batch.has[2]:
        result = target.scatter(dim + 1, _line(batch, index, dim, values), values)
    else:
        result = target.index_copy(dim + 1, index, values)
    return result if batch.ndims[0] else scalars(batch, result)


def _target(batch: Batch, self: Tensor, dim: int, source: Tensor) -> tuple[Tensor, int, Tensor]:
    """(target, dimension, values), with the batch and as many dimensions."""
    indexing.check_same_dtype(batch.op.name, self, source, "source")
    target = _lifted(batch, self, batch.has[0])
    values = _lifted(batch, source, batch.has[3])
    if values.ndim < target.ndim:
        values = values.reshape((*values.shape, *(1,) * (target.ndim - values.ndim)))
    return target, wrap_dim(batch.op.name, dim, batch.ndims[0]), values
