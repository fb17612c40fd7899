"""Reading and writing parts of tensors under vmap.

gather and scatter get the batch as one more dimension of all their tensors. With index tensors, a batched `self`
whose indices are the same for all samples keeps the batch as a whole slice; where the indices differ, the number of
the sample is one more index. Results whose size depends on values are refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from adjoint import ops
from adjoint.batching.common import Batch, at_least_vector, padded, refuse, scalars, shift, whole
from adjoint.batching.common import cut as cut
from adjoint.batching.common import same as same
from adjoint.batching.common import shifted as shifted
from adjoint.core import indexing
from adjoint.core.dtypes import int64
from adjoint.core.errors import DimensionError, ShapeError
from adjoint.core.indexing import is_mask
from adjoint.core.shapes import broadcast, show, wrap_dim

Tensor = Any
Indices = Sequence[Tensor | None]
Shape = Sequence[int]


# ---- sizes that depend on values --------------------------------------------------------------


def masked_select(batch: Batch, self: Tensor, mask: Tensor) -> Tensor:
    if batch.has[1]:
        refuse("masked_select", "the mask differs", "use ad.where(mask, x, 0) and keep the shape.")
    shape = self.shape[1:]
    common = broadcast("masked_select", tuple(shape), tuple(mask.shape))
    places = list(mask.expand(common).nonzero().unbind(1)) if common else []
    if not common:
        return self.unsqueeze(1).index([None, mask.reshape(1).nonzero().select(1, 0)])
    expanded = padded(self, True, batch.ndims[0], len(common)).expand((batch.size, *common))
    return ops.index.Tensor(expanded, [None, *places])


def nonzero(batch: Batch, self: Tensor) -> Tensor:
    refuse(
        "nonzero", "how many elements are not zero differs",
        "use nonzero_static(x, size=n), or ad.where(condition, a, b) to choose by value.",
    )  # fmt: skip


def nonzero_static(batch: Batch, self: Tensor, size: int, fill_value: int) -> Tensor:
    """The k-th element that is not zero writes its number to place k; those without a place, to one more."""
    shape = self.shape[1:]
    truth = (self != 0).reshape((batch.size, _count(shape)))
    count = truth.shape[1]
    rank = truth.to(int64).cumsum(1) - 1
    place = ops.where(truth & (rank < size), rank, size)
    numbers = ops.arange(count).expand((batch.size, count))
    found = ops.full((batch.size, size + 1), -1, dtype=int64).scatter(1, place, numbers).narrow(1, 0, size)
    columns, below = [], 1
    for length in reversed(shape):
        columns.append(ops.where(found < 0, fill_value, (found // below) % max(length, 1)))
        below *= max(length, 1)
    return ops.stack(columns[::-1], 2) if columns else ops.zeros((batch.size, size, 0), dtype=int64)


def _count(shape: Shape) -> int:
    result = 1
    for size in shape:
        result *= size
    return result


# ---- gather and scatter -----------------------------------------------------------------------


def _lifted(batch: Batch, tensor: Tensor, has: bool) -> Tensor:
    return at_least_vector(whole(batch, tensor, has), True)


def gather(batch: Batch, self: Tensor, dim: int, index: Tensor, sparse_grad: bool) -> Tensor:
    dim = shift("gather", dim, batch.ndims[0])
    result = batch.op.call([_lifted(batch, self, batch.has[0]), dim, _lifted(batch, index, batch.has[2]), sparse_grad])
    return result if batch.ndims[2] else scalars(batch, result)


def gather_backward(batch: Batch, grad_output: Tensor, sizes: Shape, dim: int, index: Tensor) -> Tensor:
    board = (batch.size, *(tuple(sizes) or (1,)))
    grad, places = _lifted(batch, grad_output, batch.has[0]), _lifted(batch, index, batch.has[3])
    result = batch.op.call([grad, board, shift("gather", dim, len(sizes)), places])
    return result if sizes else scalars(batch, result)


def scatter(batch: Batch, self: Tensor, dim: int, index: Tensor, *rest: Any) -> Tensor:
    """All scatters: self, dim, index, and a source or a number."""
    dim = shift(batch.op.name, dim, batch.ndims[0])
    target, places = _lifted(batch, self, batch.has[0]), _lifted(batch, index, batch.has[2])
    if batch.ndims[3] is not None:
        rest = (_lifted(batch, rest[0], batch.has[3]), *rest[1:])
    result = batch.op.call([target, dim, places, *rest])
    return result if batch.ndims[0] else scalars(batch, result)


def scatter_winners(batch: Batch, index: Tensor, dim: int, size: int) -> Tensor:
    result = batch.op.call([at_least_vector(index, True), shift("scatter", dim, batch.ndims[0]), size])
    return result if batch.ndims[0] else scalars(batch, result)


# ---- one vector of indices along a dimension --------------------------------------------------


def index_select(batch: Batch, self: Tensor, dim: int, index: Tensor) -> Tensor:
    ndim = batch.ndims[0]
    if batch.has[2] or not ndim:
        return _select_by_sample(batch, self, dim, index)
    return self.index_select(shift("index_select", dim, ndim), index)


def _select_by_sample(batch: Batch, self: Tensor, dim: int, index: Tensor) -> Tensor:
    """With an index for each sample: the places are gathered."""
    ndim = batch.ndims[0]
    if batch.ndims[2] > 1:
        raise DimensionError(f"index_select: the index must be a vector, got {batch.ndims[2]} dimensions.")
    indexing.check_integers("index_select", index)
    source = _lifted(batch, self, batch.has[0])
    places = _lifted(batch, index, batch.has[2])
    dim = wrap_dim("index_select", dim, ndim)
    if not ndim:
        return source.gather(1, places).reshape((batch.size,))
    line = places.reshape((batch.size, *(1,) * dim, places.shape[1], *(1,) * (ndim - dim - 1)))
    shape = list(source.shape)
    shape[dim + 1] = places.shape[1]
    return source.gather(dim + 1, line.expand(shape))


def index_select_backward(batch: Batch, grad: Tensor, self_sizes: Shape, dim: int, index: Tensor) -> Tensor:
    if batch.has[3] or not self_sizes:
        zeros = grad.new_zeros((batch.size, *self_sizes))
        return _add_along(batch, zeros, wrap_dim("index_select", dim, len(self_sizes)), index, batch.has[3], grad, batch.has[0])
    return batch.op.call([grad, (batch.size, *self_sizes), shift("index_select", dim, len(self_sizes)), index])


def _add_along(batch: Batch, zeros: Tensor, dim: int, index: Tensor, has: bool, grad: Tensor, has_grad: bool) -> Tensor:
    values, places = _lifted(batch, grad, has_grad), _lifted(batch, index, has)
    board = at_least_vector(zeros, True)
    ndim = board.ndim - 1
    line = places.reshape((batch.size, *(1,) * dim, places.shape[1], *(1,) * (ndim - dim - 1)))
    result = board.scatter_add(dim + 1, line.expand(values.shape), values)
    return result.reshape(zeros.shape)


def index_add(batch: Batch, self: Tensor, dim: int, index: Tensor, source: Tensor, alpha: Any) -> Tensor:
    return _along(batch, self, dim, index, source, lambda *v: ops.index_add(*v, alpha=alpha), True, alpha)


def index_copy(batch: Batch, self: Tensor, dim: int, index: Tensor, source: Tensor) -> Tensor:
    return _along(batch, self, dim, index, source, ops.index_copy, False, 1)


def _along(batch: Batch, self: Tensor, dim: int, index: Tensor, source: Tensor, one: Any, add: bool, alpha: Any) -> Tensor:
    """The operator itself where the index is the same for all samples, else a scatter."""
    ndim = batch.ndims[0]
    target, values = _lifted(batch, self, batch.has[0]), _lifted(batch, source, batch.has[3])
    dim = wrap_dim(batch.op.name, dim, ndim)
    if values.ndim < target.ndim:
        values = values.reshape((*values.shape, *(1,) * (target.ndim - values.ndim)))
    if not batch.has[2]:
        result = one(target, dim + 1, index, values)
    else:
        indexing.check_same_dtype(batch.op.name, self, source, "source")
        places = _lifted(batch, index, True)
        line = places.reshape((batch.size, *(1,) * dim, places.shape[1], *(1,) * (target.ndim - dim - 2)))
        line = line.expand(values.shape)
        if add:
            result = target.scatter_add(dim + 1, line, values if alpha == 1 else (values * alpha).to(self.dtype))
        else:
            result = target.scatter(dim + 1, line, values)
    return result if ndim else scalars(batch, result)


# ---- lists of index tensors -------------------------------------------------------------------


@dataclass(frozen=True)
class Plan:
    """How indexing of one sample becomes indexing of all of them.

    `indices` index a tensor with the batch in front. The indexed part then has its dimensions in another order than
    the batch followed by those of the sample: `order` is the permutation from the latter to the former.
    """

    indices: list[Tensor | None]
    ndim: int  # of the indexed part of one sample
    order: tuple[int, ...]

    def to_sample(self, result: Tensor) -> Tensor:
        """The indexed part with the batch in front."""
        inverse = [0] * len(self.order)
        for place, dim in enumerate(self.order):
            inverse[dim] = place
        return result if self._is_plain else result.permute(inverse)

    def from_sample(self, values: Tensor, has: bool) -> Tensor:
        """Values for the indexed part of each sample (or of all), as the indices want them."""
        ndim = values.ndim - has
        if self._is_plain:
            return padded(values, has, ndim, self.ndim)
        full = values if has else values.unsqueeze(0)
        return padded(full, True, ndim, self.ndim).permute(self.order)

    @property
    def _is_plain(self) -> bool:
        return self.order == tuple(range(len(self.order)))


def plan(what: str, batch: Batch, shape: Shape, indices: Indices, has: Sequence[bool]) -> Plan:
    """Plan `self[indices]` of each sample; `shape` is that of one sample."""
    indexing.check_index_dtypes(what, indices)
    found, batched = _integers(what, shape, indices, has)
    samples = [_one(i, h) for i, h in zip(found, batched, strict=True)]
    lay = indexing.layout(what, tuple(shape), samples)
    width, place = len(lay.common), lay.place
    total = len(lay.shape)
    if not any(batched):
        adjacent = not lay.dims or lay.dims[-1] - lay.dims[0] == len(lay.dims) - 1
        # indices apart from one another come first, before the batch
        order = range(total + 1) if adjacent else (*range(1, width + 1), 0, *range(width + 1, total + 1))
        return Plan([None, *found], total, tuple(order))
    number = ops.arange(batch.size).reshape((batch.size, *(1,) * width))
    aligned = [
        None if i is None else padded(i, h, i.ndim - h, width) for i, h in zip(found, batched, strict=True)
    ]
    common = range(1 + place, 1 + place + width)
    rest = [d for d in range(1, total + 1) if d not in common]
    # the number of the sample comes first: if another index does not follow at once, all go to the front
    follows = lay.dims == tuple(range(len(lay.dims)))
    order = tuple(range(total + 1)) if follows else (0, *common, *rest)
    return Plan([number, *aligned], total, order)


@dataclass(frozen=True)
class _Facts:
    """An index of one sample, for its shape and dtype."""

    shape: tuple[int, ...]
    dtype: Any

    @property
    def ndim(self) -> int:
        return len(self.shape)


def _one(index: Tensor | None, has: bool) -> Any:
    return None if index is None else _Facts(tuple(index.shape[has:]), index.dtype)


def _integers(what: str, shape: Shape, indices: Indices, has: Sequence[bool]) -> tuple[list[Any], list[bool]]:
    """The indices with masks as integers; a mask that differs from sample to sample is refused."""
    found: list[Any] = []
    batched: list[bool] = []
    for index, differs in zip(indices, has, strict=True):
        if index is None or not is_mask(index):
            found.append(index)
            batched.append(differs)
            continue
        if differs:
            refuse(
                f"{what} with a mask", "the mask differs",
                "use ad.where(mask, a, b) to read or to write by a condition.",
            )  # fmt: skip
        indexing.check_mask_shape(what, index, tuple(shape), len(found))
        numbers = (index != 0).nonzero().unbind(1)
        found.extend(numbers)
        batched.extend([False] * len(numbers))
    return found, batched


def index(batch: Batch, self: Tensor, indices: Indices) -> Tensor:
    has = batch.has[1]
    if batch.has[0]:
        chosen = plan("index", batch, self.shape[1:], indices, has)
        return chosen.to_sample(ops.index.Tensor(self, chosen.indices))
    return _index_shared(batch, self, indices, has)


def _index_shared(batch: Batch, self: Tensor, indices: Indices, has: Sequence[bool]) -> Tensor:
    """Many indices into one tensor: the batch is one more dimension of the indices."""
    found, batched = _integers("index", self.shape, indices, has)
    lay = indexing.layout("index", tuple(self.shape), [_one(i, h) for i, h in zip(found, batched, strict=True)])
    width = len(lay.common)
    aligned = [None if i is None else padded(i, h, i.ndim - h, width) for i, h in zip(found, batched, strict=True)]
    result = ops.index.Tensor(self, aligned)
    return result if lay.place == 0 else result.movedim(lay.place, 0)


def index_put(batch: Batch, self: Tensor, indices: Indices, values: Tensor, accumulate: bool) -> Tensor:
    target = whole(batch, self, batch.has[0])
    if _is_one_mask(indices, batch.has[1]):
        return _put_at_mask(batch, target, indices, values, accumulate)
    indexing.check_same_dtype("index_put", self, values, "values")
    chosen = plan("index_put", batch, target.shape[1:], indices, batch.has[1])
    if batch.ndims[2] > chosen.ndim:
        raise ShapeError(f"index_put: values of {batch.ndims[2]} dimensions do not expand to an indexed part of {chosen.ndim}.")
    return batch.op.call([target, chosen.indices, chosen.from_sample(values, batch.has[2]), accumulate])


def _is_one_mask(indices: Indices, has: Sequence[bool]) -> bool:
    """Whether there is nothing but a mask that differs from sample to sample."""
    found = [(i, h) for i, h in zip(indices, has, strict=True) if i is not None]
    return len(found) == 1 and found[0][1] and is_mask(found[0][0])


def _put_at_mask(batch: Batch, target: Tensor, indices: Indices, values: Tensor, accumulate: bool) -> Tensor:
    """Bring the dimensions of the mask to the front, write, and bring them back."""
    place, mask = next((p, i) for p, i in enumerate(indices) if i is not None)
    if place == 0:
        return _put_by_mask(batch, target, mask, values, accumulate)
    here = tuple(range(1 + place, place + mask.ndim))
    front = tuple(range(1, mask.ndim))
    inner = target.ndim - mask.ndim  # dimensions of one sample that the mask leaves
    if batch.ndims[2] > inner - place:  # the values reach the chosen elements
        has = batch.has[2]
        full = padded(values if has else values.unsqueeze(0), True, batch.ndims[2], inner + 1).movedim(1 + place, 1)
        values = full if has else full.squeeze(0)
    written = _put_by_mask(batch, target.movedim(here, front), mask, values, accumulate)
    return written.movedim(front, here)


def _put_by_mask(batch: Batch, target: Tensor, mask: Any, values: Tensor, accumulate: bool) -> Tensor:
    """One mask for each sample, in front: its k-th True element takes the k-th value."""
    ndim, inner = target.ndim - 1, target.ndim - mask.ndim
    indexing.check_same_dtype("index_put", target, values, "values")
    indexing.check_mask_shape("index_put", _Facts(tuple(mask.shape[1:]), mask.dtype), tuple(target.shape[1:]), 0)
    truth = mask != 0
    has = batch.has[2]
    shape = tuple(values.shape[has:])
    if len(shape) > inner + 1:
        raise ShapeError(f"index_put: values ({show(shape)}) do not expand to the indexed part.")
    if len(shape) == inner + 1:
        order = truth.reshape((batch.size, _count(mask.shape[1:]))).to(int64).cumsum(1) - 1
        order = order.clamp(0, max(shape[0] - 1, 0)).reshape(mask.shape)
        filling = _taken(batch, values, order) if shape[0] else target
    else:
        filling = padded(values, has, len(shape), ndim)
    chosen = truth.reshape((*mask.shape, *(1,) * inner))
    return ops.where(chosen, target + filling if accumulate else filling, target)


def _taken(batch: Batch, values: Tensor, order: Tensor) -> Tensor:
    """values[order] of each sample."""
    number = ops.arange(batch.size).reshape((batch.size, *(1,) * (order.ndim - 1)))
    return ops.index.Tensor(values, [number, order] if batch.has[2] else [order])


def index_backward(batch: Batch, grad_output: Tensor, sizes: Shape, indices: Indices) -> Tensor:
    chosen = plan("index", batch, sizes, indices, batch.has[2])
    grad = chosen.from_sample(whole(batch, grad_output, batch.has[0]), True)
    return batch.op.call([grad, (batch.size, *sizes), chosen.indices])


def index_winners(batch: Batch, indices: Indices, sizes: Shape) -> Tensor:
    chosen = plan("index_put", batch, sizes, indices, batch.has[0])
    return chosen.to_sample(batch.op.call([chosen.indices, (batch.size, *sizes)]))


# ---- views ------------------------------------------------------------------------------------


def replaced(batch: Batch, self: Tensor, src: Tensor, *rest: Any) -> Tensor:
    """slice_scatter, select_scatter, diagonal_scatter: both with the batch, the dimensions moved."""
    ndim = batch.ndims[0]
    indexing.check_has_dims(batch.op.name, _Facts(tuple(self.shape[batch.has[0] :]), self.dtype))
    moved = [
        shift(batch.op.name, v, ndim) if a.name in ("dim", "dim1", "dim2") else v
        for a, v in zip(batch.op.schema.arguments[2:], rest, strict=True)
    ]
    return batch.op.call([whole(batch, self, batch.has[0]), whole(batch, src, batch.has[1]), *moved])


def placed(batch: Batch, grad_output: Tensor, input_sizes: Shape, *rest: Any) -> Tensor:
    """select_backward, slice_backward, diagonal_backward: zeros of those sizes for each sample."""
    ndim = len(input_sizes)
    moved = [
        shift(batch.op.name, v, ndim) if a.name in ("dim", "dim1", "dim2") else v
        for a, v in zip(batch.op.schema.arguments[2:], rest, strict=True)
    ]
    return batch.op.call([grad_output, (batch.size, *input_sizes), *moved])


def slice_inverse(batch: Batch, self: Tensor, src: Tensor, dim: int, start: Any, end: Any, step: int) -> Tensor:
    """The geometry of one sample of `src`, in the memory of each sample of `self`."""
    if not (batch.has[0] and batch.has[1]):
        raise ShapeError(
            "slice_inverse inside vmap: self must be a slice of src, and only one of them differs from sample to sample; "
            "use slice_scatter(src, self, dim, start, end, step)."
        )
    return batch.op.call([self, src, shift("slice_inverse", dim, batch.ndims[0]), start, end, step])


def as_strided(batch: Batch, self: Tensor, size: Shape, stride: Shape, storage_offset: int | None) -> Tensor:
    """The samples lie one batch stride apart."""
    return self.as_strided((batch.size, *size), (self.stride()[0], *stride), storage_offset)


def as_strided_scatter(
    batch: Batch, self: Tensor, src: Tensor, size: Shape, stride: Shape, storage_offset: int | None
) -> Tensor:
    """As `as_strided`; a `self` that is the same for all samples is copied for each, in the order of its elements."""
    if not batch.has[0]:
        if not self.is_contiguous() or self.storage_offset():
            raise ShapeError(
                f"as_strided_scatter inside vmap: self ({show(self.shape)}) is the same for all samples and does not lie in "
                "memory in the order of its elements; pass self.contiguous().clone()."
            )
        self = whole(batch, self, False).clone()
    geometry = ((batch.size, *size), (self.stride()[0], *stride), storage_offset)
    return batch.op.call([self, whole(batch, src, batch.has[1]), *geometry])
