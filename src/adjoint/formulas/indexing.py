"""Derivatives of indexing that do not fit a line of the table.

Reading is linear, its transpose adds back where it read from. Writing replaces: the old value's
derivative is 0 where something was written, and of several writes to one place only the last has a
derivative ('winners'), because only the last is there.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from adjoint import ops
from adjoint.checks import indexing
from adjoint.core import dtypes
from adjoint.core.shapes import Shape, wrap_dim

Tensor = Any
Indices = Sequence[Tensor | None]
Ints = Sequence[int]


def padded(tensor: Tensor, shape: Shape) -> Tensor:
    """Zeros of `shape` with `tensor` in the leading corner."""
    if math.prod(tensor.shape) == 0:
        return tensor.new_zeros(shape)
    if len(tensor.shape) != len(shape):  # a scalar and a vector of one element
        tensor = tensor.reshape((1,) * len(shape))
    for dim, size in enumerate(shape):
        have = tensor.shape[dim]
        if have != size:
            sizes = (*tensor.shape[:dim], size, *tensor.shape[dim + 1 :])
            tensor = ops.slice_backward(tensor, sizes, dim, 0, have, 1)
    return tensor


def corner(tensor: Tensor, shape: Shape) -> Tensor:
    """The leading corner with this shape; `padded` is its transpose."""
    if tuple(tensor.shape) == tuple(shape):
        return tensor
    if math.prod(shape) == 0:
        return tensor.new_zeros(shape)
    if len(tensor.shape) != len(shape):
        tensor = tensor.reshape((-1,)) if shape else tensor.select(0, 0)
    for dim, size in enumerate(shape):
        if tensor.shape[dim] != size:
            tensor = tensor.slice(dim, 0, size)
    return tensor


# ---- replacing writes -------------------------------------------------------------------------


def scatter_src_vjp(grad: Tensor, dim: int, index: Tensor, shape: Shape) -> Tensor:
    """s̄[j] = ȳ[index[j]] for the last write to each place, 0 for the others."""
    dim = wrap_dim("scatter", dim, grad.ndim)
    won = ops._scatter_winners(index, dim, (tuple(grad.shape) or (1,))[dim])
    return padded(ops.where(won, grad.gather(dim, index), 0), shape)


def scatter_add_src_vjp(grad: Tensor, dim: int, index: Tensor, shape: Shape) -> Tensor:
    """s̄[j] = ȳ[index[j]]."""
    return padded(grad.gather(dim, index), shape)


def index_put_values_vjp(grad: Tensor, indices: Indices, accumulate: bool) -> Tensor:
    """v̄ = ȳ[indices], where a write that was overwritten gets 0."""
    taken = grad.index(indices)
    if accumulate or all(i is None or indexing.is_mask(i) for i in indices):
        return taken  # a mask writes to no place twice
    return ops.where(ops._index_winners(_integers(indices), grad.shape), taken, 0)


def _integers(indices: Indices) -> list[Tensor | None]:
    """The indices with masks as lists of places; only where values are known."""
    result: list[Tensor | None] = []
    for index in indices:
        if index is not None and indexing.is_mask(index):
            result.extend(index.nonzero().unbind(1))
        else:
            result.append(index)
    return result


def index_copy_source_vjp(grad: Tensor, dim: int, index: Tensor, shape: Shape) -> Tensor:
    """s̄ = ȳ[.., index, ..], where an entry that was overwritten gets 0."""
    dim = wrap_dim("index_copy", dim, grad.ndim)
    won = ops._index_winners([index.reshape(-1)], [(tuple(grad.shape) or (1,))[dim]])
    if grad.ndim == 0:
        # Any number of entries may go to the one place of a scalar.
        return ops.where(won, grad, 0).reshape(shape)
    line = won.reshape((-1,) + (1,) * (grad.ndim - dim - 1))
    return ops.where(line, grad.index_select(dim, index), 0).reshape(shape)


def index_add_source_vjp(grad: Tensor, dim: int, index: Tensor, shape: Shape, alpha: Any) -> Tensor:
    """s̄ = ᾱ ȳ[.., index, ..]."""
    vector = grad if grad.ndim else grad.reshape(1)
    taken = vector.index_select(dim, index).reshape(shape)
    if alpha == 1:
        return taken
    return taken * (alpha.conjugate() if isinstance(alpha, complex) else alpha)


def index_fill_value_vjp(grad: Tensor, dim: int, index: Tensor) -> Tensor:
    """v̄ = Σ ȳ over the filled places, each once however often it is named."""
    filled = ops.zeros(grad.shape, dtype=dtypes.bool_).index_fill(dim, index, True)
    return ops.where(filled, grad, 0).sum()


def put_source_vjp(grad: Tensor, index: Tensor, shape: Shape, accumulate: bool) -> Tensor:
    """s̄ = ȳ.flat[index], where a write that was overwritten gets 0."""
    taken = grad.take(index)
    if not accumulate:
        won = ops._index_winners([index.reshape(-1)], [grad.numel()]).reshape(index.shape)
        taken = ops.where(won, taken, 0)
    return taken.reshape(shape)


# ---- scatter_reduce ---------------------------------------------------------------------------


def scatter_reduce_vjp(
    grad: Tensor, self: Tensor, dim: int, index: Tensor, src: Tensor, reduce: str,
    include_self: bool, result: Tensor, grad_input_mask: Sequence[bool],
) -> tuple[Tensor | None, Tensor | None]:  # fmt: skip
    """y[i] = reduce over {s[j]: index[j] = i}, and x[i] if `include_self`.

    sum: x̄ = ȳ, s̄[j] = ȳ[i].  mean: the same of ȳ / n[i].  amax, amin: the same of ȳ / (number of
    ties), where the value is the extremum.  prod: x̄ = ȳ Π s̄, s̄[j] = ȳ[i] x[i] Π of the others.
    """
    wants_self, wants_src = grad_input_mask
    if math.prod(index.shape) == 0:
        return grad if wants_self else None, src.new_zeros(src.shape) if wants_src else None
    if reduce == "prod":
        of_self = _prod_self(grad, dim, index, src, include_self) if wants_self else None
        of_src = _prod_src(grad, self, dim, index, src, include_self) if wants_src else None
        return of_self, of_src
    if reduce in ("amax", "amin"):
        mine, theirs, count = _ties(self, dim, index, src, include_self, result)
        share = grad / count
        of_self = ops.where(mine, share, 0) if wants_self else None
        of_src = ops.where(theirs, share.gather(dim, index), 0) if wants_src else None
    else:
        share = grad / _count(grad, dim, index, include_self) if reduce == "mean" else grad
        of_self = _kept(share, dim, index, include_self) if wants_self else None
        of_src = share.gather(dim, index) if wants_src else None
    return of_self, None if of_src is None else padded(of_src, src.shape)


def scatter_reduce_jvp(
    self: Tensor, self_t: Tensor, dim: int, index: Tensor, src: Tensor, src_t: Tensor, reduce: str,
    include_self: bool, result: Tensor,
) -> Tensor:  # fmt: skip
    """The transpose of `scatter_reduce_vjp`, line by line."""
    if math.prod(index.shape) == 0:
        return self_t
    src_t = corner(src_t, index.shape)
    if reduce == "prod":
        tangents = src_t * _others(dim, index, corner(src, index.shape))
        if include_self:
            tangents = tangents * self.gather(dim, index)
        kept = _prod_self(self_t, dim, index, src, include_self, conj=False)
        return kept.scatter_add(dim, index, tangents)
    if reduce in ("amax", "amin"):
        mine, theirs, count = _ties(self, dim, index, src, include_self, result)
        chosen = ops.where(mine, self_t, 0)
        return chosen.scatter_add(dim, index, ops.where(theirs, src_t, 0)) / count
    total = _kept(self_t, dim, index, include_self).scatter_add(dim, index, src_t)
    return total / _count(total, dim, index, include_self) if reduce == "mean" else total


def _kept(tensor: Tensor, dim: int, index: Tensor, include_self: bool) -> Tensor:
    """`tensor` where the old value takes part, 0 elsewhere."""
    return tensor if include_self else tensor.scatter(dim, index, 0)


def _real(like: Tensor) -> Any:
    return like.dtype.to_real()


def _count(like: Tensor, dim: int, index: Tensor, include_self: bool) -> Tensor:
    """How many values meet in each place; 1 where nothing was written."""
    start = _kept(ops.ones(like.shape, dtype=_real(like)), dim, index, include_self)
    return start.scatter_add(dim, index, ops.ones(index.shape, dtype=_real(like)))


def _ties(
    self: Tensor, dim: int, index: Tensor, src: Tensor, include_self: bool, result: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Which old values and which sources are the extremum, and how many they are in each place."""
    mine = _same(self, result)
    if not include_self:
        mine = mine.scatter(dim, index, False)
    theirs = _same(corner(src, index.shape), result.gather(dim, index))
    count = mine.to(result.dtype).scatter_add(dim, index, theirs.to(result.dtype))
    return mine, theirs, count


def _same(a: Tensor, b: Tensor) -> Tensor:
    """Equal, or both not a number: amax passes NaN on, and its derivative follows it."""
    return (a == b) | ((a != a) & (b != b))


def _prod_self(
    grad: Tensor, dim: int, index: Tensor, src: Tensor, include_self: bool, *, conj: bool = True
) -> Tensor:
    """ȳ Π s̄ in each place."""
    if not include_self:
        return grad.scatter(dim, index, 0)
    return grad.scatter_reduce(dim, index, src.conj() if conj else src, "prod")


def _prod_src(
    grad: Tensor, self: Tensor, dim: int, index: Tensor, src: Tensor, include_self: bool
) -> Tensor:
    """ȳ[i] times all the other factors of y[i]."""
    factor = _others(dim, index, corner(src, index.shape))
    if include_self:
        factor = factor * self.gather(dim, index)
    return padded(grad.gather(dim, index) * factor.conj(), src.shape)


def _others(dim: int, index: Tensor, src: Tensor) -> Tensor:
    """For every s[j] the product of the other s[k] with the same index, without dividing.

    Sorted by index, equal indices are adjacent, so the result is the product before times the
    product after. It uses only multiplications, so it is right for zeros and for derivatives of
    every order.
    """
    dim = wrap_dim("scatter_reduce", dim, index.ndim)
    if index.ndim == 0:
        return _others(0, index.reshape((1,)), src.reshape((1,))).reshape(())
    keys, order = index.sort(dim=dim, stable=True)
    values = src.gather(dim, order)
    before = _product_before(values, keys, dim)
    after = _product_before(values.flip((dim,)), keys.flip((dim,)), dim).flip((dim,))
    return (before * after).gather(dim, order.argsort(dim))


def _product_before(values: Tensor, keys: Tensor, dim: int) -> Tensor:
    """The product of the earlier values with the same key, in log2(n) steps of doubling length."""
    size = keys.shape[dim]
    step = 1
    while step < size:
        earlier = values.roll((step,), (dim,))
        values = values * ops.where(_same_run(keys, dim, step), earlier, 1)
        step *= 2
    return ops.where(_same_run(keys, dim, 1), values.roll((1,), (dim,)), 1)


def _same_run(keys: Tensor, dim: int, step: int) -> Tensor:
    """Whether there is a key `step` places before, and it is equal."""
    places = ops.arange(keys.shape[dim]).reshape((-1,) + (1,) * (keys.ndim - dim - 1))
    return (keys == keys.roll((step,), (dim,))) & (places >= step)


# ---- strided views ----------------------------------------------------------------------------


def _places(size: Ints, stride: Ints, offset: int) -> Tensor:
    """The place in the storage of every element of a geometry, as a vector."""
    places = ops.full(tuple(size), offset, dtype=dtypes.int64)
    for dim, (count, step) in enumerate(zip(size, stride, strict=True)):
        if count > 1 and step:
            line = ops.arange(count) * step
            places = places + line.reshape((-1,) + (1,) * (len(size) - dim - 1))
    return places.reshape(-1)


def _reach(size: Ints, stride: Ints, offset: int) -> tuple[int, int]:
    """The first and the last place that a geometry touches."""
    ends = [(n - 1) * s for n, s in zip(size, stride, strict=True)]
    return offset + sum(min(e, 0) for e in ends), offset + sum(max(e, 0) for e in ends)


def _overlaps(size: Ints, stride: Ints) -> bool:
    """Whether a geometry may touch a place twice: a stride within reach of the smaller ones."""
    below = 0
    for step, count in sorted((abs(s), n) for n, s in zip(size, stride, strict=True) if n > 1):
        if step <= below:
            return True
        below += step * (count - 1)
    return False


def _window(
    shape: Ints, strides: Ints, place: int, size: Ints, stride: Ints, offset: int
) -> tuple[int, int]:
    """The first place, and how many, of the part of the storage that both geometries touch."""
    first, last = _reach(shape, strides, place)
    other_first, other_last = _reach(size, stride, offset)
    low = min(first, other_first)
    return low, max(last, other_last) + 1 - low


def as_strided_vjp(
    grad: Tensor, shape: Ints, strides: Ints, place: int, size: Ints, stride: Ints,
    storage_offset: int | None,
) -> Tensor:  # fmt: skip
    """x̄ = Gᵀ diag(1/n) Sᵀ ȳ: add ȳ into the storage through its strides, read x̄ through x's own.

    n counts the elements of x that are one place of the storage: they share its gradient evenly.
    """
    offset = place if storage_offset is None else storage_offset
    if 0 in grad.shape or 0 in shape:
        return grad.new_zeros(tuple(shape))
    low, count = _window(shape, strides, place, size, stride, offset)
    storage = grad.new_zeros((count,))
    storage = storage.index_add(0, _places(size, stride, offset - low), grad.reshape(-1))
    mine = _places(shape, strides, place - low)
    result = storage.index_select(0, mine)
    if _overlaps(shape, strides):
        result = result / _meeting(mine, count, _real(grad)).index_select(0, mine)
    return result.reshape(tuple(shape))


def as_strided_jvp(
    self_t: Tensor, strides: Ints, place: int, size: Ints, stride: Ints, storage_offset: int | None
) -> Tensor:
    """ẏ = S diag(1/n) G ẋ, the transpose of `as_strided_vjp`; memory outside x has no tangent."""
    offset = place if storage_offset is None else storage_offset
    shape = tuple(self_t.shape)
    if 0 in size or 0 in shape:
        return self_t.new_zeros(tuple(size))
    low, count = _window(shape, strides, place, size, stride, offset)
    mine = _places(shape, strides, place - low)
    storage = self_t.new_zeros((count,)).index_add(0, mine, self_t.reshape(-1))
    if _overlaps(shape, strides):
        storage = storage / _meeting(mine, count, _real(self_t)).clamp(1)
    return storage.index_select(0, _places(size, stride, offset - low)).reshape(tuple(size))


def _meeting(places: Tensor, count: int, dtype: Any) -> Tensor:
    """How often each of `count` places is named."""
    ones = ops.ones(places.shape, dtype=dtype)
    return ops.zeros((count,), dtype=dtype).index_add(0, places, ones)


def as_strided_scatter_self_vjp(
    grad: Tensor, strides: Ints, place: int, size: Ints, stride: Ints, storage_offset: int | None
) -> Tensor:
    """x̄ = ȳ but 0 where the source was written."""
    offset = place if storage_offset is None else storage_offset
    shape = tuple(grad.shape)
    if 0 in size or 0 in shape:
        return grad
    low, count = _window(shape, strides, place, size, stride, offset)
    written = ops.zeros((count,), dtype=dtypes.bool_)
    written = written.index_fill(0, _places(size, stride, offset - low), True)
    mine = written.index_select(0, _places(shape, strides, place - low)).reshape(shape)
    return grad.masked_fill(mine, 0)


def as_strided_scatter_src_vjp(
    grad: Tensor, strides: Ints, place: int, size: Ints, stride: Ints, storage_offset: int | None
) -> Tensor:
    """s̄ = the sum of ȳ over the elements of y in whose place s was written last."""
    offset = place if storage_offset is None else storage_offset
    shape = tuple(grad.shape)
    if 0 in size or 0 in shape:
        return grad.new_zeros(tuple(size))
    low, count = _window(shape, strides, place, size, stride, offset)
    storage = grad.new_zeros((count,))
    storage = storage.index_add(0, _places(shape, strides, place - low), grad.reshape(-1))
    theirs = _places(size, stride, offset - low)
    taken = storage.index_select(0, theirs)
    if _overlaps(size, stride):
        taken = ops.where(ops._index_winners([theirs], [count]), taken, 0)
    return taken.reshape(tuple(size))
