"""gather, scatter and scatter_reduce: one index per element, along one dimension.

Everything works on flat places: element `j` of the index stands for the place in a C-ordered
`self` with coordinate `index[j]` along `dim` and `j`'s own coordinates elsewhere.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from adjoint.core import dtypes
from adjoint.core.errors import DtypeError
from adjoint.core.indexing import check_gather, check_reduce, check_scatter, sized
from adjoint.core.shapes import wrap_dim
from adjoint.kernels.indexing.accumulate import (
    fit,
    in_bounds,
    last_of_each,
    narrowed,
    wide,
    wide_dtype,
)

Array = np.ndarray[Any, np.dtype[Any]]
Ints = tuple[int, ...]

_UFUNC: dict[str, np.ufunc] = {
    "sum": np.add, "mean": np.add, "prod": np.multiply, "amax": np.maximum, "amin": np.minimum,
}  # fmt: skip


def _places(what: str, shape: Ints, dim: int, index: Array) -> Array:
    """Return the flat places of `index` in an array of `shape` (at least one dimension)."""
    coordinates = index.reshape(sized(index))
    result = in_bounds(what, coordinates, shape[dim], dim)
    stride = math.prod(shape[dim + 1 :])
    result = result * stride if stride != 1 else result
    step = 1
    for d in range(len(shape) - 1, -1, -1):
        count = coordinates.shape[d]
        if d != dim and count > 1:
            line = np.arange(count) * step
            result = result + line.reshape((-1,) + (1,) * (len(shape) - d - 1))
        step *= shape[d]
    return result


def _leading(src: Array, index: Array) -> Array:
    """Return the corner of `src` that the index covers, as a vector."""
    shape = sized(index)
    if sized(src) == shape:
        return src.reshape(-1)
    return src.reshape(sized(src))[tuple(map(slice, shape))].reshape(-1)


def gather(self: Array, dim: int, index: Array, sparse_grad: bool) -> Array:
    """Return self[.., index[j], ..] for every element j of the index."""
    dim = check_gather("gather", self, dim, index)
    if index.size == 0:
        return np.empty(index.shape, self.dtype)
    shape = sized(self)
    if self.flags.c_contiguous:
        places = _places("gather", shape, dim, index)
        return self.reshape(-1).take(places).reshape(index.shape)
    coordinates = in_bounds("gather", index.reshape(sized(index)), shape[dim], dim)
    grid: list[Array] = list(np.ix_(*map(np.arange, coordinates.shape)))
    grid[dim] = coordinates
    return self.reshape(shape)[tuple(grid)].reshape(index.shape)


def gather_backward(grad: Array, sizes: Ints, dim: int, index: Array) -> Array:
    """Return zeros of `sizes` to which every element of `grad` is added where it came from."""
    result = np.zeros(sizes, wide_dtype(grad.dtype))
    dim = check_gather("gather", result, dim, index)
    if index.size:
        places = _places("gather", sized(result), dim, index)
        numbers = grad.reshape(-1).astype(result.dtype, copy=False)
        np.add.at(result.reshape(-1), places.reshape(-1), numbers)
    return narrowed(result, grad.dtype)


def scatter_src(self: Array, dim: int, index: Array, src: Array) -> Array:
    """Return a copy of `self` with src[j] written at index[j]; the last write wins."""
    dim = check_scatter("scatter", self, dim, index, src)
    result = self.copy()
    if index.size:
        places = _places("scatter", sized(self), dim, index)
        result.reshape(-1)[places.reshape(-1)] = _leading(src, index)
    return result


def scatter_value(self: Array, dim: int, index: Array, value: Any) -> Array:
    """Return a copy of `self` with the number `value` at every index."""
    dim = check_scatter("scatter", self, dim, index, None)
    result = self.copy()
    number = fit("scatter", self, value)
    if index.size:
        places = _places("scatter", sized(self), dim, index)
        result.reshape(-1)[places.reshape(-1)] = number
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
    places = _places(what, sized(self), dim, index).reshape(-1)
    numbers = _leading(src, index).astype(result.dtype, copy=False)
    flat = result.reshape(-1)
    if not include_self:
        # For amax and amin any of the candidates is a start; no infinity is needed.
        flat[places] = {"sum": 0, "mean": 0, "prod": 1}.get(reduce, numbers)
    with np.errstate(all="ignore"):
        _UFUNC[reduce].at(flat, places, numbers)
        if reduce == "mean":
            _divide(flat, places, include_self)
    return narrowed(result, self.dtype)


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
    places = _places("scatter", tuple(shape), dim, index)
    return last_of_each(places.reshape(-1)).reshape(index.shape)
