"""Reductions under vmap: 'all dimensions' are all but the batch."""

from __future__ import annotations

from typing import Any

from adjoint import ops
from adjoint.batching.common import (
    Batch,
    again,
    at_least_vector,
    named,
    scalars,
    shift,
    shift_all,
    whole,
)
from adjoint.core.errors import ArgumentError
from adjoint.core.shapes import wrap_dim

Tensor = Any


def _dims(what: str, dim: Any, ndim: int) -> Any:
    """The dimensions of a reduction with the batch in front; none given means all."""
    if dim is None or (isinstance(dim, (tuple, list)) and not dim):
        return tuple(range(1, max(ndim, 1) + 1))
    if isinstance(dim, (tuple, list)):
        return shift_all(what, dim, ndim)
    return shift(what, dim, ndim)


def reduced(batch: Batch, self: Tensor, *rest: Any) -> Any:
    """The rule of the archetype: dim, and maybe keepdim. A scalar counts as a vector of one."""
    ndim = batch.ndims[0]
    arguments = named(batch, (self, *rest))
    if "dim" not in arguments:
        return _all_of_it(batch, self, arguments)
    arguments["dim"] = _dims(batch.op.name, arguments["dim"], ndim)
    if not ndim:
        arguments[batch.op.schema.names[0]] = self.unsqueeze(1)
    result = again(batch, arguments)
    return result if ndim else scalars(batch, result)


def with_dimension(name: str) -> Any:
    """The overload of an operator that has a dimension and one result; None if there is none."""
    for found in ops.packet(name).operators:
        if "dim" in found.schema.names and len(found.schema.returns) == 1:
            return found
    return None


def _all_of_it(batch: Batch, self: Tensor, arguments: dict[str, Any]) -> Tensor:
    """Without `dim`: the overload that has one."""
    with_dim = with_dimension(batch.op.schema.name)
    if with_dim is None:
        raise ArgumentError(
            f"vmap: {batch.op.full_name} reduces all dimensions, and no overload of it takes `dim`"
        )
    several = with_dim.schema.argument("dim").type.is_list
    keywords = {
        name: value for name, value in arguments.items() if name != batch.op.schema.names[0]
    }
    if several:
        return with_dim(at_least_vector(self, True), tuple(range(1, max(self.ndim, 2))), **keywords)
    return with_dim(_rows(self), 1, **keywords)


def truth(batch: Batch, self: Tensor, dim: Any, keepdim: bool) -> Tensor:
    """any and all; an empty list of dimensions is none of them."""
    if isinstance(dim, (tuple, list)) and not dim:
        return batch.op.call([self, dim, keepdim])
    return reduced(batch, self, dim, keepdim)


def _rows(self: Tensor) -> Tensor:
    return self.unsqueeze(1) if self.ndim == 1 else self.flatten(1)


def extremum(batch: Batch, self: Tensor) -> Tensor:
    """max and min of all elements."""
    chosen = ops.amax if batch.op.schema.name == "max" else ops.amin
    return chosen(at_least_vector(self, True), tuple(range(1, max(self.ndim, 2))))


def argument_of_extremum(batch: Batch, self: Tensor, dim: int | None, keepdim: bool) -> Tensor:
    """argmax and argmin; without a dimension, of the flattened tensor."""
    ndim = batch.ndims[0]
    if dim is not None and ndim:
        return batch.op.call([self, shift(batch.op.name, dim, ndim), keepdim])
    result = batch.op.call([_rows(self), 1, False])
    return result.reshape((batch.size, *(1,) * ndim)) if keepdim else result


def count_nonzero(batch: Batch, self: Tensor, dim: Any) -> Tensor:
    dims = _dims(batch.op.name, dim, batch.ndims[0])
    return ops.count_nonzero.dim_IntList(
        at_least_vector(self, True), dims if isinstance(dims, tuple) else (dims,)
    )


def unreduce(batch: Batch, self: Tensor, dim: Any, shape: tuple[int, ...], keepdim: bool) -> Tensor:
    """The transpose of a reduction; `shape` is the shape before it."""
    if not shape:
        return self.alias()
    return batch.op.call(
        [self, _dims(batch.op.name, dim, len(shape)), (batch.size, *shape), keepdim]
    )


def segment_reduce(
    batch: Batch,
    data: Tensor,
    reduce: str,
    lengths: Any,
    indices: Any,
    offsets: Any,
    axis: int,
    unsafe: bool,
    initial: Any,
) -> Tensor:
    """Lengths and offsets may have dimensions in front, and the batch is one of them."""
    has = dict(zip(batch.op.schema.names, batch.has, strict=True))
    given = [
        None if v is None else whole(batch, v, h)
        for v, h in ((lengths, has["lengths"]), (offsets, has["offsets"]))
    ]
    arguments = [whole(batch, data, has["data"]), reduce, given[0], indices, given[1]]
    return batch.op.call([*arguments, shift(batch.op.name, axis, batch.ndims[0]), unsafe, initial])


def segment_ids(
    batch: Batch, lengths: Any, offsets: Any, axis: int, shape: tuple[int, ...]
) -> Tensor:
    """Numbers count on from sample to sample; taken back to begin with 0 in each."""
    given = [
        None if v is None else whole(batch, v, h)
        for v, h in zip((lengths, offsets), batch.has, strict=False)
    ]
    axis = wrap_dim(batch.op.name, axis, len(shape)) + 1
    numbers = batch.op.call([*given, axis, (batch.size, *shape)])
    rows, segments = 1, 1
    for size in shape[:axis]:
        rows *= size
    for size in (lengths if lengths is not None else offsets).shape[
        batch.has[0 if lengths is not None else 1] :
    ]:
        segments *= size
    if lengths is None:  # one offset more than segments, in each row
        last = offsets.shape[-1]
        segments = segments // last * (last - 1) if last else 0
    numbers = numbers.reshape((batch.size, rows))
    before = (ops.arange(batch.size) * segments).unsqueeze(1)
    return ops.where(numbers < 0, numbers, numbers - before)
