"""gather, scatter and scatter_reduce: one index per element, along one dimension.

Everything works on flat places: element `j` of the index stands for the place in a C-ordered
`self` with coordinate `index[j]` along `dim` and `j`'s own coordinates elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from adjoint.c_kernels import indexing as native
from adjoint.c_kernels.copies import copied, zeros
from adjoint.checks.indexing import check_gather, check_reduce, check_scatter, sized
from adjoint.core import dtypes
from adjoint.core.errors import DtypeError
from adjoint.core.shapes import row_major, wrap_dim
from adjoint.kernels.halves import wide_dtype
from adjoint.kernels.indexing.accumulate import (
    fit,
    in_bounds,
    last_of_each,
    narrowed,
    wide,
)

Array = np.ndarray[Any, Any]
Ints = tuple[int, ...]

_BLOCK = 16384  # elements
_UFUNC: dict[str, np.ufunc] = {
    "sum": np.add, "mean": np.add, "prod": np.multiply, "amax": np.maximum, "amin": np.minimum,
}  # fmt: skip


def _blocks(what: str, shape: Ints, dim: int, index: Array) -> Iterator[tuple[slice, Array]]:
    """Yield the flat places of `index` in an array of `shape`, some rows of the index at a time.

    Both have at least one dimension. All bounds are checked before the first block, and a block of
    places fits the cache, which is twice as fast as all of them at once.
    """
    index = in_bounds(what, index, shape[dim], dim)
    strides = row_major(shape)
    rows = max(1, _BLOCK * len(index) // max(index.size, 1))
    for start in range(0, len(index), rows):
        part = index[start : start + rows]
        places = part * strides[dim] if strides[dim] != 1 else part
        for d, count in enumerate(part.shape):
            first = start if d == 0 else 0
            if d != dim and (count > 1 or first):
                line = np.arange(first, first + count) * strides[d]
                places = places + line.reshape((-1,) + (1,) * (len(shape) - d - 1))
        yield slice(start, start + rows), places


def _flat_places(what: str, shape: Ints, dim: int, index: Array) -> Array:
    """Return all places as one vector."""
    blocks = [p.reshape(-1) for _, p in _blocks(what, shape, dim, index.reshape(sized(index)))]
    return blocks[0] if len(blocks) == 1 else np.concatenate(blocks)


def _leading(src: Array, index: Array) -> Array:
    """Return the corner of `src` that the index covers."""
    shape = sized(index)
    if sized(src) == shape:
        return src.reshape(shape)
    return src.reshape(sized(src))[tuple(map(slice, shape))]


def gather(self: Array, dim: int, index: Array, sparse_grad: bool) -> Array:
    """Return self[.., index[j], ..] for every element j of the index."""
    dim = check_gather("gather", self, dim, index)
    if index.size == 0:
        return np.empty(index.shape, self.dtype)
    found = native.gather(self, dim, index)
    if found is not None:
        return found
    shape = sized(self)
    coordinates = index.reshape(sized(index))
    if self.flags.c_contiguous:
        flat = self.reshape(-1)
        result = np.empty(coordinates.shape, self.dtype)
        for rows, places in _blocks("gather", shape, dim, coordinates):
            flat.take(places, out=result[rows], mode="clip")  # in bounds: "raise" would buffer
        return result.reshape(index.shape)
    coordinates = in_bounds("gather", coordinates, shape[dim], dim)
    grid: list[Array] = list(np.ix_(*map(np.arange, coordinates.shape)))
    grid[dim] = coordinates
    return self.reshape(shape)[tuple(grid)].reshape(index.shape)


def gather_backward(grad: Array, sizes: Ints, dim: int, index: Array) -> Array:
    """Return zeros of `sizes` to which every element of `grad` is added where it came from."""
    result = zeros(sizes, wide_dtype(grad.dtype))
    dim = check_gather("gather", result, dim, index)
    if index.size:
        numbers = grad.reshape(sized(index)).astype(result.dtype, copy=False)
        if native.scatter(result, dim, index, numbers, adds=True):
            return narrowed(result, grad.dtype)
        if index.size >= native.LARGE:
            result[...] = 0  # native code may have added some
        coordinates = index.reshape(sized(index))
        if coordinates.shape[dim] == 1:  # no two of them meet
            places = in_bounds("gather", coordinates, sized(result)[dim], dim)
            reached = [slice(n) for n in coordinates.shape]
            reached[dim] = slice(None)
            np.put_along_axis(result.reshape(sized(result))[tuple(reached)], places, numbers, dim)
            return narrowed(result, grad.dtype)
        flat = result.reshape(-1)
        for rows, places in _blocks("gather", sized(result), dim, coordinates):
            np.add.at(flat, places.reshape(-1), numbers[rows].reshape(-1))
    return narrowed(result, grad.dtype)


def scatter_src(self: Array, dim: int, index: Array, src: Array) -> Array:
    """Return a copy of `self` with src[j] written at index[j]; the last write wins."""
    dim = check_scatter("scatter", self, dim, index, src)
    result = copied(self)
    if native.scatter(result, dim, index, src, adds=False):
        return result
    if index.size:
        flat, numbers = result.reshape(-1), _leading(src, index)
        for rows, places in _blocks("scatter", sized(self), dim, index.reshape(sized(index))):
            flat[places.reshape(-1)] = numbers[rows].reshape(-1)
    return result


def scatter_value(self: Array, dim: int, index: Array, value: Any) -> Array:
    """Return a copy of `self` with the number `value` at every index."""
    dim = check_scatter("scatter", self, dim, index, None)
    result = copied(self)
    number = fit("scatter", self, value)
    if index.size:
        flat = result.reshape(-1)
        for _, places in _blocks("scatter", sized(self), dim, index.reshape(sized(index))):
            flat[places.reshape(-1)] = number
    return result


def scatter_add(self: Array, dim: int, index: Array, src: Array) -> Array:
    """Return a copy of `self` to which src[j] is added at index[j]."""
    return _accumulate("scatter_add", self, dim, index, src, "sum", True)


def scatter_reduce(
    self: Array, dim: int, index: Array, src: Array, reduce: str, include_self: bool
) -> Array:
    """Reduce the src[j] that have one index, and `self` there if `include_self`, to one element."""
    check_reduce("scatter_reduce", reduce)
    return _accumulate("scatter_reduce", self, dim, index, src, reduce, include_self)


def _accumulate(
    what: str, self: Array, dim: int, index: Array, src: Array, reduce: str, include_self: bool
) -> Array:
    dim = check_scatter(what, self, dim, index, src)
    if reduce in ("amax", "amin") and self.dtype.kind == "c":
        raise DtypeError(f"{what}: reduce={reduce!r} needs an order; complex numbers have none.")
    result = wide(self)
    if index.size == 0:
        return narrowed(result, self.dtype)
    numbers = _leading(src, index).astype(result.dtype, copy=False)
    flat = result.reshape(-1)
    if reduce == "sum" and include_self:
        if native.scatter(result, dim, index, numbers, adds=True):
            return narrowed(result, self.dtype)
        flat = wide(self).reshape(-1)
        result = flat.reshape(self.shape)
        for rows, places in _blocks(what, sized(self), dim, index.reshape(sized(index))):
            np.add.at(flat, places.reshape(-1), numbers[rows].reshape(-1))
        return narrowed(result, self.dtype)
    _reduce(
        flat, _flat_places(what, sized(self), dim, index), numbers.reshape(-1), reduce, include_self
    )
    return narrowed(result, self.dtype)


def _reduce(flat: Array, places: Array, numbers: Array, reduce: str, include_self: bool) -> None:
    """Reduce `numbers` into the `places` of `flat`."""
    if not include_self:
        # For amax and amin any of the candidates is a start; no infinity is needed.
        flat[places] = {"sum": 0, "mean": 0, "prod": 1}.get(reduce, numbers)
    with np.errstate(all="ignore"):
        _UFUNC[reduce].at(flat, places, numbers)
        if reduce == "mean":
            _divide(flat, places, include_self)


def _divide(flat: Array, places: Array, include_self: bool) -> None:
    """Divide the sums by how many they are; integers round down."""
    count = np.bincount(places, minlength=flat.size)
    count = count + 1 if include_self else np.maximum(count, 1)
    if flat.dtype.kind in "iu":
        flat //= count.astype(flat.dtype)
    elif flat.dtype.kind != "b":
        flat /= count.astype(_real(flat.dtype))


def _real(dtype: np.dtype[Any]) -> np.dtype[Any]:
    return dtypes.of(dtype).to_real().np


def scatter_winners(index: Array, dim: int, size: int) -> Array:
    """Return for every element of `index` whether its write into a dimension of `size` remains."""
    dim = wrap_dim("scatter", dim, index.ndim)
    shape = list(sized(index))
    shape[dim] = size
    if index.size == 0:
        return np.ones(index.shape, np.bool_)
    places = _flat_places("scatter", tuple(shape), dim, index)
    return last_of_each(places).reshape(index.shape)
