"""Sums, means and maxima of embedded bags: rows of a matrix by index, joined bag by bag.

A bag starts at its offset and ends at the next one. Indices at `padding_idx` are left out.
"""

from __future__ import annotations

from typing import Any

from adjoint import ops
from adjoint.checks import embedding as rules
from adjoint.core import dtypes
from adjoint.core.errors import ArgumentError, ShapeError, ValueRangeError
from adjoint.core.shapes import show
from adjoint.decompositions.embedding.rows import checked

Tensor = Any
TOTAL, MEAN, MAXIMUM = range(3)  # PyTorch's numbers for `mode`


def _check(
    weight: Tensor,
    indices: Tensor,
    offsets: Tensor,
    mode: int,
    scale_grad_by_freq: bool,
    per_sample_weights: Tensor | None,
) -> None:
    rules.check("embedding_bag", weight, indices)
    rules.check("embedding_bag", weight, offsets)
    if indices.ndim != 1 or offsets.ndim != 1:
        raise ShapeError(
            "embedding_bag: indices and offsets must be vectors, got "
            f"{show(indices.shape)} and {show(offsets.shape)}."
        )
    if mode not in (TOTAL, MEAN, MAXIMUM):
        raise ValueRangeError(f"embedding_bag(mode={mode}): there are 0 sum, 1 mean and 2 max.")
    if mode == MAXIMUM and scale_grad_by_freq:
        raise ArgumentError("embedding_bag(scale_grad_by_freq=True): mode max does not take it.")
    if per_sample_weights is None:
        return
    if mode != TOTAL:
        raise ArgumentError("embedding_bag: only mode sum takes per_sample_weights.")
    if tuple(per_sample_weights.shape) != tuple(indices.shape):
        raise ShapeError(
            f"embedding_bag: per_sample_weights of {show(per_sample_weights.shape)} for indices "
            f"of {show(indices.shape)}; the shapes must agree."
        )


def _bag_of_each(indices: Tensor, offsets: Tensor) -> Tensor:
    """The bag that each index is in. Before the first offset there is none: it must be 0."""
    length, count = indices.shape[0], offsets.shape[0]
    starts = ops._index_backward(
        ops.ones(offsets.shape, dtype=dtypes.int64), (length + 1,), [offsets]
    )
    bags = starts.narrow(0, 0, length).cumsum(0) - 1
    return ops.where(bags < 0, count + 1, bags)  # which is out of range


def _in_bags(values: Tensor, bags: Tensor, offsets: Tensor) -> Tensor:
    """The sums of values over bags."""
    return ops._index_backward(values, (offsets.shape[0], *values.shape[1:]), [bags])


def embedding_bag(
    weight: Tensor,
    indices: Tensor,
    offsets: Tensor,
    scale_grad_by_freq: bool,
    mode: int,
    sparse: bool,
    per_sample_weights: Tensor | None,
    include_last_offset: bool,
    padding_idx: int,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The joined rows of each bag, the bag of each index, sizes of bags, and who is the largest."""
    _check(weight, indices, offsets, mode, scale_grad_by_freq, per_sample_weights)
    indices, offsets = checked(indices, weight.shape[0]), offsets.to(dtypes.int64)
    ops.embedding(weight.detach().narrow(1, 0, 0), indices)  # says which index is out of range
    count = offsets.shape[0] - int(include_last_offset)
    bags = _bag_of_each(indices, offsets)
    used = indices != padding_idx if padding_idx >= 0 else None  # None: all of them
    ones = ops.ones(indices.shape, dtype=dtypes.int64) if used is None else used.to(dtypes.int64)
    every = _in_bags(ones, bags, offsets)
    sizes = every.narrow(0, 0, count)  # one that starts at an included last offset is dropped
    if mode == MAXIMUM:
        used = ops.ones(indices.shape, dtype=dtypes.bool_) if used is None else used
        result, largest = _maxima(weight, indices, bags, used, offsets, count)
        return result, bags, sizes, largest
    scales = per_sample_weights
    if mode == MEAN and weight.dtype.is_differentiable:
        scales = every.to(weight.dtype).reciprocal().index_select(0, bags)
    if scale_grad_by_freq or sparse:  # the gradient of each row is not a plain sum
        rows = ops.embedding(weight, indices, padding_idx, scale_grad_by_freq, sparse)
        rows = rows if scales is None else rows * scales.unsqueeze(-1)
        rows = rows if used is None else rows.masked_fill(~used.unsqueeze(-1), 0)
        result = _in_bags(rows, bags, offsets)
    else:
        result = _totals(weight, indices, bags, used, offsets, scales)
    result = result.narrow(0, 0, count)
    if mode == MEAN and scales is None:  # of whole numbers
        result = result / sizes.clamp_min(1).unsqueeze(-1)
    return result, bags, sizes, sizes.clone()


def _totals(
    weight: Tensor, indices: Tensor, bags: Tensor, used: Tensor | None, offsets: Tensor,
    scales: Tensor | None,
) -> Tensor:  # fmt: skip
    """The sums over bags, as the product of a sparse matrix and the weight. Its last row is for
    ignored indices, whose rows may hold NaN.
    """
    size = offsets.shape[0]
    each = weight.new_ones(indices.shape) if scales is None else scales.to(weight.dtype)
    if used is None:
        return ops._sparse_product(bags, indices, each, weight, size)
    values, places = each.masked_fill(~used, 0), ops.where(used, bags, size)
    return ops._sparse_product(places, indices, values, weight, size + 1)


def _maxima(
    weight: Tensor, indices: Tensor, bags: Tensor, used: Tensor, offsets: Tensor, count: int
) -> tuple[Tensor, Tensor]:
    """The largest number of each column in each bag, from the first that has it; 0 if none."""
    length, width = indices.shape[0], weight.shape[1]
    if length == 0:  # zeros that depend on the weight, as others do
        zeros = _in_bags(weight.index([indices]), bags, offsets).narrow(0, 0, count)
        return zeros, zeros.detach().to(dtypes.int64)
    rows = weight.detach().index([indices])
    places = bags.unsqueeze(-1).expand(rows.shape)
    room = rows.new_full((offsets.shape[0], width), float("-inf"))
    hidden = rows.masked_fill(~used.unsqueeze(-1), float("-inf"))
    largest = ops.scatter_reduce(room, 0, places, hidden, "amax")
    found = (rows == largest.index([bags])) & used.unsqueeze(-1)
    order = ops.where(found, ops.arange(length).unsqueeze(-1), length)
    none = ops.full((offsets.shape[0], width), length, dtype=dtypes.int64)
    first = ops.scatter_reduce(none, 0, places, order, "amin").narrow(0, 0, count)
    empty = first == length
    winners = indices.index([first.masked_fill(empty, 0)]).masked_fill(empty, 0)
    return weight.gather(0, winners).masked_fill(empty, 0), winners


def embedding_bag_dense_backward(
    grad: Tensor,
    indices: Tensor,
    offset2bag: Tensor,
    bag_size: Tensor,
    maximum_indices: Tensor,
    num_weights: int,
    scale_grad_by_freq: bool,
    mode: int,
    per_sample_weights: Tensor | None,
    padding_idx: int,
) -> Tensor:
    """The gradient of each bag, added to the rows that it was made of."""
    if mode == MAXIMUM:
        kept = grad.masked_fill((bag_size == 0).unsqueeze(-1), 0)
        return ops._gather_backward(kept, (num_weights, grad.shape[1]), 0, maximum_indices)
    each = _of_each(grad, offset2bag, bag_size, mode, per_sample_weights)
    return ops.embedding_dense_backward(each, indices, num_weights, padding_idx, scale_grad_by_freq)


def _of_each(
    grad: Tensor, offset2bag: Tensor, bag_size: Tensor, mode: int, per_sample_weights: Tensor | None
) -> Tensor:
    """The gradient of the row of each index, from the gradients of bags."""
    if mode == MEAN:
        grad = grad / bag_size.clamp_min(1).unsqueeze(-1).to(grad.dtype)
    # an index after an included last offset is in no bag
    outside = offset2bag >= grad.shape[0]
    each = grad.index([offset2bag.masked_fill(outside, 0)])
    each = each.masked_fill(outside.unsqueeze(-1), 0)
    if per_sample_weights is not None:
        each = each * per_sample_weights.unsqueeze(-1)
    return each


def embedding_bag_sparse_backward(
    grad: Tensor,
    indices: Tensor,
    offsets: Tensor,
    offset2bag: Tensor,
    bag_size: Tensor,
    num_weights: int,
    scale_grad_by_freq: bool,
    mode: int,
    per_sample_weights: Tensor | None,
    padding_idx: int,
) -> Tensor:
    """The gradient of sums and means, as a COO tensor."""
    if mode == MAXIMUM:
        raise ArgumentError("embedding_bag(sparse=True): mode max has dense gradients alone.")
    if offset2bag.shape[0] != indices.shape[0]:
        offset2bag = _bag_of_each(indices, offsets)
    each = _of_each(grad, offset2bag, bag_size, mode, per_sample_weights)
    return ops.embedding_sparse_backward(
        each, indices, num_weights, padding_idx, scale_grad_by_freq
    )


def embedding_bag_backward(
    grad: Tensor,
    indices: Tensor,
    offsets: Tensor,
    offset2bag: Tensor,
    bag_size: Tensor,
    maximum_indices: Tensor,
    num_weights: int,
    scale_grad_by_freq: bool,
    mode: int,
    sparse: bool,
    per_sample_weights: Tensor | None,
    padding_idx: int,
) -> Tensor:
    """The gradient, dense or sparse; the bags are found from the offsets if they are not given."""
    if sparse:
        return ops._embedding_bag_sparse_backward(
            grad, indices, offsets, offset2bag, bag_size, num_weights, scale_grad_by_freq, mode,
            per_sample_weights, padding_idx,
        )  # fmt: skip
    if offset2bag.shape[0] != indices.shape[0]:
        offset2bag = _bag_of_each(indices, offsets)
    return ops._embedding_bag_dense_backward(
        grad, indices, offset2bag, bag_size, maximum_indices, num_weights, scale_grad_by_freq,
        mode, per_sample_weights, padding_idx,
    )  # fmt: skip


def embedding_bag_per_sample_weights_backward(
    grad: Tensor,
    weight: Tensor,
    indices: Tensor,
    offsets: Tensor,
    offset2bag: Tensor,
    mode: int,
    padding_idx: int,
) -> Tensor:
    """⟨ḡ of the bag, row⟩ for each index, 0 at the padding."""
    if mode != TOTAL:
        raise ArgumentError("embedding_bag: only mode sum takes per_sample_weights.")
    if offset2bag.shape[0] != indices.shape[0]:
        offset2bag = _bag_of_each(indices, offsets)
    products = (grad.index([offset2bag]) * weight.index([indices])).sum(-1)
    return products.masked_fill(indices == padding_idx, 0)
