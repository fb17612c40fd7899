"""Lists of index tensors under vmap: x[i, :, j] and writing to it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from adjoint import ops
from adjoint.batching.common import Batch, padded, refuse, whole
from adjoint.batching.indexing.masks import is_one_mask, put_at_mask
from adjoint.checks import indexing
from adjoint.checks.indexing import is_mask
from adjoint.core.errors import ShapeError
from adjoint.core.records import record
from adjoint.core.shapes import Spec

Tensor = Any
Indices = Sequence[Tensor | None]
Shape = Sequence[int]


@record
class BatchedIndexing:
    """The indexing of a batched tensor that indexes each of its samples.

    `indices` index a tensor with the batch in front. The indexed part may have another order of
    dimensions than the batch followed by the sample's dimensions: `order` is the permutation from
    the latter to the former.
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


def plan(
    what: str, batch: Batch, shape: Shape, indices: Indices, has: Sequence[bool]
) -> BatchedIndexing:
    """Plan `self[indices]` for each sample; `shape` is the shape of one sample."""
    indexing.check_index_dtypes(what, indices)
    found, batched = _integers(what, shape, indices, has)
    samples = [_one(i, h) for i, h in zip(found, batched, strict=True)]
    lay = indexing.layout(what, tuple(shape), samples)
    width, place = len(lay.common), lay.place
    total = len(lay.shape)
    if not any(batched):
        adjacent = not lay.dims or lay.dims[-1] - lay.dims[0] == len(lay.dims) - 1
        # indices that are not adjacent come first, before the batch
        order = (
            range(total + 1)
            if adjacent
            else (*range(1, width + 1), 0, *range(width + 1, total + 1))
        )
        return BatchedIndexing([None, *found], total, tuple(order))
    number = ops.arange(batch.size).reshape((batch.size, *(1,) * width))
    aligned = [
        None if i is None else padded(i, h, i.ndim - h, width)
        for i, h in zip(found, batched, strict=True)
    ]
    common = range(1 + place, 1 + place + width)
    rest = [d for d in range(1, total + 1) if d not in common]
    # the number of the sample comes first: unless the others follow at once, all go to the front
    follows = lay.dims == tuple(range(len(lay.dims)))
    order = tuple(range(total + 1)) if follows else (0, *common, *rest)
    return BatchedIndexing([number, *aligned], total, order)


def _one(index: Tensor | None, has: bool) -> Any:
    return None if index is None else Spec(tuple(index.shape[has:]), index.dtype)


def _integers(
    what: str, shape: Shape, indices: Indices, has: Sequence[bool]
) -> tuple[list[Any], list[bool]]:
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
    lay = indexing.layout(
        "index", tuple(self.shape), [_one(i, h) for i, h in zip(found, batched, strict=True)]
    )
    width = len(lay.common)
    aligned = [
        None if i is None else padded(i, h, i.ndim - h, width)
        for i, h in zip(found, batched, strict=True)
    ]
    result = ops.index.Tensor(self, aligned)
    return result if lay.place == 0 else result.movedim(lay.place, 0)


def index_put(
    batch: Batch, self: Tensor, indices: Indices, values: Tensor, accumulate: bool
) -> Tensor:
    target = whole(batch, self, batch.has[0])
    if is_one_mask(indices, batch.has[1]):
        return put_at_mask(batch, target, indices, values, accumulate)
    indexing.check_same_dtype("index_put", self, values, "values")
    chosen = plan("index_put", batch, target.shape[1:], indices, batch.has[1])
    if batch.ndims[2] > chosen.ndim:
        raise ShapeError(
            f"index_put: values of {batch.ndims[2]} dimensions do not expand to an indexed part of "
            f"{chosen.ndim}."
        )
    return batch.op.call(
        [target, chosen.indices, chosen.from_sample(values, batch.has[2]), accumulate]
    )


def index_backward(batch: Batch, grad_output: Tensor, sizes: Shape, indices: Indices) -> Tensor:
    chosen = plan("index", batch, sizes, indices, batch.has[2])
    grad = chosen.from_sample(whole(batch, grad_output, batch.has[0]), True)
    return batch.op.call([grad, (batch.size, *sizes), chosen.indices])


def index_winners(batch: Batch, indices: Indices, sizes: Shape) -> Tensor:
    chosen = plan("index_put", batch, sizes, indices, batch.has[0])
    return chosen.to_sample(batch.op.call([chosen.indices, (batch.size, *sizes)]))
