"""Picking elements, and writing to some of them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from adjoint import functions as functions
from adjoint.core.dtypes import bool_, float64, int64
from adjoint.core.errors import ArgumentError, ValueRangeError
from adjoint.doors import ad
from adjoint.doors.numpy.conversion import Array, Float, written
from adjoint.doors.numpy.words import lined
from adjoint.tensor.tensor import Tensor


def _target(what: str, a: Any) -> Tensor:
    """The tensor that a function writes to."""
    if isinstance(a, Tensor):
        return a
    raise ArgumentError(
        f"{what} writes to its first argument, which must be a tensor, got "
        f"{type(a).__name__}: make it with ad.tensor(array)"
    )


def take(
    a: Tensor, indices: Tensor, axis: Any, mode: str = "raise", *, fill_value: Any = None
) -> Tensor:
    """Elements, or slices, by their numbers; with mode="fill" others where there are none."""
    line, d = lined(a, axis)
    d = d + line.ndim if d < 0 else d
    size = line.shape[d]
    index = _bounded(indices.to(int64), size, mode)
    there = (index >= 0) & (index < size)
    if mode == "fill":
        index = ad.where(there, index, 0)
    found = ad.index_select(line, d, index.reshape(-1))
    if mode == "fill":
        empty = math.nan if a.dtype.is_differentiable else 0
        outside = empty if fill_value is None else fill_value
        sizes = [1] * d + [-1] + [1] * (line.ndim - d - 1)
        found = ad.where(there.reshape(sizes), found, outside)
    return found.reshape([*line.shape[:d], *index.shape, *line.shape[d + 1 :]])


def _bounded(index: Tensor, size: int, mode: str) -> Tensor:
    if mode == "wrap":
        return index % size
    if mode == "clip":
        return index.clamp(0, size - 1)
    if mode in ("fill", "raise"):
        return ad.where(index < 0, index + size, index)
    raise ValueRangeError(f"mode={mode!r} is one of 'raise', 'wrap', 'clip'")


def bincount(x: Tensor, weights: Any, minlength: int, *, length: int | None = None) -> Tensor:
    """How often each whole number occurs, or the sum of the weights at its places."""
    weight = None if weights is None else Float(weights).to(float64)
    if length is not None:  # larger numbers are left out
        weight = ad.ones_like(x, dtype=int64) if weight is None else weight
        weight = ad.where(x < length, weight, 0)
        counts = ad.zeros((length,), dtype=weight.dtype)
        return counts.index_add(0, x.to(int64).clamp(0, length - 1), weight)
    if x.home is not None or not x.numel():  # its values are not known, or there are none
        return ad.bincount(x, weight, minlength)
    weight = ad.ones_like(x, dtype=int64) if weight is None else weight
    size = max(int(ad.amax(x)) + 1, int(minlength))
    return ad.zeros((size,), dtype=weight.dtype).index_add(0, x.to(int64), weight)


def choose(a: Tensor, choices: list[Tensor], mode: str = "raise") -> Tensor:
    """For each element, the element of choices[n], where n is the element of `a`."""
    index = _bounded(a.to(int64), len(choices), mode)
    shape = np.broadcast_shapes(tuple(index.shape), *(tuple(c.shape) for c in choices))
    stacked = ad.stack([c.expand(shape) for c in choices])
    return ad.take_along_dim(stacked, index.expand(shape).unsqueeze(0), 0).squeeze(0)


def copyto(dst: Any, src: Any, where: Any = True) -> None:
    """Write an array to another, where a condition holds."""
    if not isinstance(dst, Tensor):
        kept = (
            Array(src)
            if where is True
            else ad.where(Array(where).to(bool_), Array(src), Array(dst))
        )
        written("copyto", kept.expand(np.shape(dst)), dst)
        return
    a, values = dst, Array(src)
    a.copy_(values if where is True else ad.where(Array(where).to(bool_), values.to(a.dtype), a))


def fill_diagonal(a: Any, val: Any, wrap: bool) -> None:
    """Write values to the diagonal."""
    tensor = _target("fill_diagonal", a)
    step = np.zeros(tuple(tensor.shape), bool)
    np.fill_diagonal(step, True, wrap)
    place = Array(np.nonzero(step.reshape(-1))[0])
    values = Array(val).to(tensor.dtype).reshape(-1)
    values = ad.tile(values, (-(-place.shape[0] // values.shape[0]),))[: place.shape[0]]
    _write(tensor, place, values)


def _write(a: Tensor, place: Tensor, values: Tensor) -> None:
    """Write values to elements by their numbers in the flattened tensor."""
    flat = ad.index_put(a.reshape(-1), [place.reshape(-1)], values.to(a.dtype).reshape(-1))
    a.copy_(flat.reshape(a.shape))


def place(arr: Any, mask: Any, vals: Any) -> None:
    """Write values one after the other to where a mask holds, from the start again if needed."""
    a = _target("place", arr)
    index = ad.nonzero(Array(mask).reshape(-1)).reshape(-1)
    _write(a, index, _repeated(Array(vals), index.shape[0]))


def _repeated(values: Tensor, count: int) -> Tensor:
    flat = values.reshape(-1)
    return flat[ad.arange(count) % max(flat.shape[0], 1)]


def put(a: Any, ind: Any, v: Any, mode: str) -> None:
    """Write values to elements by their numbers."""
    tensor, index = _target("put", a), Array(ind).to(int64).reshape(-1)
    index = _bounded(index, tensor.numel(), mode)
    _write(tensor, index, _repeated(Array(v), index.shape[0]))


def put_along_axis(arr: Any, indices: Any, values: Any, axis: Any) -> None:
    """Write values along a dimension."""
    a = _target("put_along_axis", arr)
    line, d = lined(a, axis)
    index = Array(indices).to(int64)
    shape = list(
        np.broadcast_shapes(
            tuple(1 if i == d % line.ndim else n for i, n in enumerate(line.shape)),
            tuple(index.shape),
        )
    )
    shape[d] = index.shape[d]
    index = _bounded(index, line.shape[d], "raise").expand(shape)
    source = Array(values).to(a.dtype).expand(shape)
    a.copy_(ad.scatter(line, d, index, source).reshape(a.shape))


def putmask(a: Any, mask: Any, values: Any) -> None:
    """Write to where a mask holds the values at the same places, repeated if they are fewer."""
    tensor = _target("putmask", a)
    index = ad.nonzero(Array(mask).reshape(-1)).reshape(-1)
    flat = Array(values).reshape(-1)
    _write(tensor, index, flat[index % max(flat.shape[0], 1)])


def ix_(*args: Any) -> tuple[Tensor, ...]:
    """Vectors as indices of a grid."""
    found = []
    for d, given in enumerate(args):
        vector = Array(given)
        if vector.dtype is bool_:
            vector = ad.nonzero(vector).reshape(-1)
        vector = vector if vector.shape[0] else vector.to(int64)
        found.append(vector.reshape([-1 if i == d else 1 for i in range(len(args))]))
    return tuple(found)


def ravel_multi_index(multi_index: Any, dims: Any, mode: str = "raise") -> Tensor:
    """Numbers of elements in the flattened array, of their indices."""
    sizes = [int(n) for n in dims] if np.ndim(dims) else [int(dims)]
    total: Any = 0
    for index, size in zip(multi_index, sizes, strict=True):
        total = total * size + _bounded(Array(index).to(int64), size, mode)
    return total
