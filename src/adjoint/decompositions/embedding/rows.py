"""Embeddings in terms of indexing.

The row at `padding_idx` is a constant: it has no gradient and no tangent. `scale_grad_by_freq`
divides the derivative of each row by the number of times that it is used.
"""

from __future__ import annotations

from typing import Any

from adjoint import ops
from adjoint.checks import embedding as rules
from adjoint.checks import indexing
from adjoint.core import dtypes
from adjoint.core.errors import ShapeError
from adjoint.core.shapes import show

Tensor = Any
SMALLEST_NORM = 1e-7  # added to norms that divide, as in PyTorch


def checked(indices: Tensor, count: int) -> Tensor:
    """The indices, where negative ones are out of range and do not count from the end.

    They are int64: uint8 would be a mask.
    """
    return ops.where(indices < 0, count, indices.to(dtypes.int64))


def uses_of(indices: Tensor, count: int, dtype: Any) -> Tensor:
    """How often each of `count` rows is used."""
    ones = ops.ones(indices.shape, dtype=dtype)
    return ops._index_backward(ones, (count,), [indices])


def embedding(
    weight: Tensor, indices: Tensor, padding_idx: int, scale_grad_by_freq: bool, sparse: bool
) -> Tensor:
    """The row of each index."""
    rules.check("embedding", weight, indices)
    count = weight.shape[0]
    indices = checked(indices, count)
    rows = weight.index([indices])
    if scale_grad_by_freq:
        uses = uses_of(indices, count, weight.dtype).index([indices]).unsqueeze(-1)
        rows = rows.detach() + (rows - rows.detach()) / uses
    if padding_idx >= 0:
        rows = ops.where((indices == padding_idx).unsqueeze(-1), rows.detach(), rows)
    return rows


def embedding_dense_backward(
    grad_output: Tensor,
    indices: Tensor,
    num_weights: int,
    padding_idx: int,
    scale_grad_by_freq: bool,
) -> Tensor:
    """Each gradient is added to the row of its index."""
    _check_gradient("embedding_dense_backward", grad_output, indices)
    indices = checked(indices, num_weights)
    if scale_grad_by_freq:
        uses = uses_of(indices, num_weights, grad_output.dtype).index([indices])
        grad_output = grad_output / uses.unsqueeze(-1)
    if padding_idx >= 0:
        grad_output = grad_output.masked_fill((indices == padding_idx).unsqueeze(-1), 0)
    return ops._index_backward(grad_output, (num_weights, grad_output.shape[-1]), [indices])


def _check_gradient(what: str, grad: Tensor, indices: Tensor) -> None:
    indexing.check_integers(what, indices)
    if tuple(grad.shape[:-1]) != tuple(indices.shape):
        raise ShapeError(
            f"{what}: a gradient of {show(grad.shape)} for indices of {show(indices.shape)}; it "
            "has one row for each index."
        )


def embedding_backward(
    grad: Tensor,
    indices: Tensor,
    num_weights: int,
    padding_idx: int,
    scale_grad_by_freq: bool,
    sparse: bool,
) -> Tensor:
    """A dense gradient, or one of the rows that were used."""
    backward = ops.embedding_sparse_backward if sparse else ops.embedding_dense_backward
    return backward(grad, indices, num_weights, padding_idx, scale_grad_by_freq)


def embedding_sparse_backward(
    grad: Tensor, indices: Tensor, num_weights: int, padding_idx: int, scale_grad_by_freq: bool
) -> Tensor:
    """The gradient of each index, as a row of a COO tensor; rows of the padding are left out."""
    if grad.home is not None or indices.home is not None:
        given = grad, indices, num_weights, padding_idx, scale_grad_by_freq
        return ops.embedding_dense_backward(*given)
    _check_gradient("embedding_sparse_backward", grad, indices)
    places = checked(indices, num_weights).reshape(-1)
    rows = grad.reshape((places.shape[0], grad.shape[-1]))
    if scale_grad_by_freq:
        rows = rows / uses_of(places, num_weights, grad.dtype).index([places]).unsqueeze(-1)
    if padding_idx >= 0:
        kept = (places != padding_idx).nonzero().reshape(-1)
        places, rows = places.index_select(0, kept), rows.index_select(0, kept)
    size = (num_weights, grad.shape[-1])
    return ops._sparse_coo_tensor_unsafe(places.unsqueeze(0), rows, size)


def embedding_renorm(self: Tensor, indices: Tensor, max_norm: float, norm_type: float) -> Tensor:
    """Rows that are used and longer than max_norm, scaled down to it."""
    rules.check("embedding_renorm", self, indices)
    indices = checked(indices, self.shape[0])
    norms = ops.linalg_vector_norm(self, norm_type, (1,), True)
    long = (uses_of(indices, self.shape[0], self.dtype) > 0).unsqueeze(-1) & (norms > max_norm)
    return ops.where(long, self * (max_norm / (norms + SMALLEST_NORM)), self)
