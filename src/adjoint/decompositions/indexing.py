"""Indexing operators in terms of smaller ones, all of fixed shape, so that they batch and compile.

Indices along one dimension become an index list with None before it; masks become where; flat
indices become indices of the flattened tensor.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from adjoint import ops
from adjoint.checks import indexing
from adjoint.core import dtypes
from adjoint.core.errors import DtypeError, ShapeError, ValueRangeError
from adjoint.core.promotion import fit_number, result_type
from adjoint.core.shapes import Shape, broadcast, wrap_dim

Tensor = Any
Indices = Sequence[Tensor | None]


def at(dim: int, index: Tensor) -> list[Tensor | None]:
    """The index list with `index` at dimension `dim`."""
    return [*[None] * dim, index]


# ---- masks ------------------------------------------------------------------------------------


def where_numbers(condition: Tensor, self: Any, other: Any) -> Tensor:
    """A choice with numbers, as tensors of the dtype of the result."""
    dtype = result_type(self, other)
    numbers = [fit_number(v, dtype) if _is_number(v) else None for v in (self, other)]
    chosen = [
        v if number is None else ops.full((), number, dtype=dtype)
        for v, number in zip((self, other), numbers, strict=True)
    ]
    return ops.where(condition, *chosen)


def _is_number(value: Any) -> bool:
    return isinstance(value, (bool, int, float, complex))


def masked_fill(self: Tensor, mask: Tensor, value: Any) -> Tensor:
    return ops.where(mask, _as(value, self), self)


def _as(value: Any, self: Tensor) -> Tensor:
    """`value`, a number or a 0-d tensor, as a tensor of the dtype of `self`."""
    if _is_number(value):
        indexing.check_number("masked_fill", self, value)
        return self.new_full((), fit_number(value, self.dtype))
    indexing.check_scalar_tensor("masked_fill", value)
    if value.is_complex() and not self.is_complex():
        raise DtypeError(f"masked_fill: the {value.dtype} value does not fit dtype {self.dtype}.")
    return value.to(self.dtype)


def masked_scatter(self: Tensor, mask: Tensor, source: Tensor) -> Tensor:
    """The k-th True element takes the k-th element of the source."""
    shape = broadcast("masked_scatter", tuple(self.shape), tuple(mask.shape))
    if math.prod(source.shape) == 0:
        return self.expand(shape).clone()
    taken = source.reshape(-1).index([_order(mask.expand(shape), source.numel() - 1)])
    return ops.where(mask, taken, self)


def _order(mask: Tensor, limit: int) -> Tensor:
    """How many True elements come before each element, at most `limit`."""
    counted = mask.reshape(-1).to(dtypes.int64).cumsum(0) - 1
    return counted.clamp(0, limit).reshape(mask.shape)


def masked_scatter_backward(grad_output: Tensor, mask: Tensor, sizes: Shape) -> Tensor:
    """The k-th True element goes to place k; the others to one place more, which is cut off."""
    count = math.prod(sizes)
    full = mask.expand(grad_output.shape)
    places = ops.where(full, _order(full, count), count).reshape(-1)
    chosen = ops.where(full, grad_output, 0).reshape(-1)
    room = grad_output.new_zeros((count + 1,)).index_put([places], chosen, True)
    return room.slice(0, 0, count).reshape(sizes)


def where_condition(condition: Tensor) -> list[Tensor]:
    shaped = condition if condition.ndim else condition.unsqueeze(0)
    return list(shaped.nonzero().unbind(1))


def one_hot(self: Tensor, num_classes: int) -> Tensor:
    if num_classes < 0:
        raise ValueRangeError("one_hot: num_classes must be given where values are not known.")
    places = self.unsqueeze(-1)
    zeros = ops.zeros((*self.shape, num_classes), dtype=dtypes.int64)
    return zeros.scatter(-1, places, ops.ones_like(places))


# ---- one vector of indices --------------------------------------------------------------------


def index_select(self: Tensor, dim: int, index: Tensor) -> Tensor:
    dim = indexing.check_vector("index_select", self, dim, index)
    if self.ndim == 0:
        return self.gather(0, index.reshape(()))
    shape = (*self.shape[:dim], index.numel(), *self.shape[dim + 1 :])
    return self.gather(dim, _line(index, dim, self.ndim).expand(shape))


def _line(index: Tensor, dim: int, ndim: int) -> Tensor:
    """A vector of indices along one of several dimensions."""
    return index.reshape((-1,) + (1,) * (ndim - dim - 1))


def _put_along(self: Tensor, dim: int, index: Tensor, values: Tensor, accumulate: bool) -> Tensor:
    """Writes along one dimension; scatters, unlike index_put, refuse negative indices."""
    if self.ndim == 0:
        vector = _put_along(self.reshape(1), 0, index.reshape(-1), values.reshape(-1), accumulate)
        return vector.reshape(())
    shape = (*self.shape[:dim], index.numel(), *self.shape[dim + 1 :])
    places = _line(index, dim, self.ndim).expand(shape)
    source = values.expand(shape)
    return (
        self.scatter_add(dim, places, source) if accumulate else self.scatter(dim, places, source)
    )


def index_add(self: Tensor, dim: int, index: Tensor, source: Tensor, alpha: Any) -> Tensor:
    dim = indexing.check_source("index_add", self, dim, index, source)
    indexing.check_alpha("index_add", self, alpha)
    values = source if alpha == 1 else (source * alpha).to(self.dtype)
    return _put_along(self, dim, index, values, True)


def index_copy(self: Tensor, dim: int, index: Tensor, source: Tensor) -> Tensor:
    dim = indexing.check_source("index_copy", self, dim, index, source)
    if self.ndim and source.ndim == 0:
        source = source.reshape(1)
    return _put_along(self, dim, index, source, False)


def index_fill(self: Tensor, dim: int, index: Tensor, value: Any) -> Tensor:
    dim = indexing.check_vector("index_fill", self, dim, index)
    if self.ndim == 0:
        return self.reshape(1).index_fill(0, index, value).reshape(())
    return self.index_put(at(dim, index.reshape(-1)), _as(value, self), False)


def index_reduce(
    self: Tensor, dim: int, index: Tensor, source: Tensor, reduce: str, include_self: bool
) -> Tensor:
    """scatter_reduce, with the index expanded along the other dimensions of the source."""
    indexing.check_reduce("index_reduce", reduce, ("prod", "mean", "amax", "amin"))
    dim = indexing.check_source("index_reduce", self, dim, index, source)
    line = index.reshape((-1,) + (1,) * max(source.ndim - dim - 1, 0))
    places = line.expand(source.shape) if source.ndim else index.reshape(())
    return self.scatter_reduce(dim, places, source, reduce, include_self=include_self)


# ---- gather and scatter -----------------------------------------------------------------------


def scatter_with_reduce(self: Tensor, dim: int, index: Tensor, src: Tensor, reduce: str) -> Tensor:
    indexing.check_reduce("scatter", reduce, ("add", "multiply"))
    if reduce == "add":
        return self.scatter_add(dim, index, src)
    return self.scatter_reduce(dim, index, src, "prod")


def scatter_value(self: Tensor, dim: int, index: Tensor, value: Any) -> Tensor:
    indexing.check_number("scatter", self, value)
    return self.scatter(dim, index, self.new_full(index.shape, value))


def scatter_value_with_reduce(
    self: Tensor, dim: int, index: Tensor, value: Any, reduce: str
) -> Tensor:
    indexing.check_number("scatter", self, value)
    return scatter_with_reduce(self, dim, index, self.new_full(index.shape, value), reduce)


def scatter_winners(index: Tensor, dim: int, size: int) -> Tensor:
    """Each element writes its number; it has won where its number is still there."""
    dim = wrap_dim("scatter", dim, index.ndim)
    numbers = ops.arange(index.numel()).reshape(index.shape)
    board = list(index.shape) or [1]
    board[dim] = size
    written = ops.full(board, -1, dtype=dtypes.int64).scatter(dim, index, numbers)
    return written.gather(dim, index) == numbers


def take_along_dim(self: Tensor, indices: Tensor, dim: int | None) -> Tensor:
    """gather, with the other dimensions broadcast and negative indices counted from the end."""
    indexing.check_integers("take_along_dim", indices)
    if dim is None:
        return self.reshape(-1).gather(0, _wrapped(indices.reshape(-1), self.numel()))
    if self.ndim != indices.ndim:
        raise ShapeError(
            "take_along_dim: self and indices must have the same number of dimensions, "
            f"got {self.ndim} and {indices.ndim}."
        )
    dim = wrap_dim("take_along_dim", dim, self.ndim)
    if self.ndim == 0:
        return self.gather(dim, _wrapped(indices, 1))
    mine, theirs = list(self.shape), list(indices.shape)
    mine[dim] = theirs[dim] = 1
    shape = list(broadcast("take_along_dim", tuple(mine), tuple(theirs)))
    mine, theirs = list(shape), list(shape)
    mine[dim], theirs[dim] = self.shape[dim], indices.shape[dim]
    places = _wrapped(indices, self.shape[dim])
    return self.expand(mine).gather(dim, places.expand(theirs))


def _wrapped(index: Tensor, size: int) -> Tensor:
    return ops.where(index < 0, index + size, index)


# ---- lists of indices -------------------------------------------------------------------------


def index_winners(indices: Indices, sizes: Shape) -> Tensor:
    """Each element writes its number; it has won where its number is still there."""
    lay = indexing.layout("index_put", tuple(sizes), indices)
    # Whole slices never meet: one element of each stands for all.
    board = [size if d in lay.dims else 1 for d, size in enumerate(sizes)]
    before = (1,) * len(lay.rest[: lay.place])
    shape = (*before, *lay.common, *(1,) * len(lay.rest[lay.place :]))
    numbers = ops.arange(math.prod(lay.common)).reshape(shape)
    written = ops.full(board, -1, dtype=dtypes.int64).index_put(indices, numbers)
    return written.index(indices) == numbers


def unsafe_masked_index(self: Tensor, mask: Tensor, indices: Indices, fill: Any) -> Tensor:
    if self.numel() == 0:
        return self.new_full(mask.shape, fill)
    return self.index(_clamped(self, indices)).masked_fill(~mask, fill)


def unsafe_masked_index_put_accumulate(
    self: Tensor, mask: Tensor, indices: Indices, values: Tensor
) -> Tensor:
    if self.numel() == 0:
        return self.clone()
    return self.index_put(_clamped(self, indices), values.masked_fill(~mask, 0), True)


def _clamped(self: Tensor, indices: Indices) -> list[Tensor | None]:
    """Indices behind the mask may be anything; the nearest valid one stands for them."""
    return [
        index if index is None else index.clamp(-size, size - 1)
        for index, size in zip(indices, self.shape, strict=False)
    ]


def put(self: Tensor, index: Tensor, source: Tensor, accumulate: bool) -> Tensor:
    flat = self.reshape(-1).index_put([index.reshape(-1)], source.reshape(-1), accumulate)
    return flat.reshape(self.shape)


# ---- writing through views --------------------------------------------------------------------


def select_scatter(self: Tensor, src: Tensor, dim: int, index: int) -> Tensor:
    """One True along `dim`, where the source replaces."""
    dim = wrap_dim("select_scatter", dim, self.ndim)
    place = indexing.wrap_index("select_scatter", index, self.shape[dim], dim)
    here = _along(dim, self.ndim, ops.arange(self.shape[dim]) == place)
    return ops.where(here, src.unsqueeze(dim).to(self.dtype), self)


def _along(dim: int, ndim: int, line: Tensor) -> Tensor:
    return line.reshape((-1,) + (1,) * (ndim - dim - 1))
