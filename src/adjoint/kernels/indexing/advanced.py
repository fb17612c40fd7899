"""A list of index arrays, one per dimension or None: index, index_put, take, put.

Masks become integer indices first. Indices of neighbouring dimensions are one index into these
dimensions flattened, which NumPy handles fastest and in a fixed order.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from adjoint.c_kernels.copies import copied, zeros
from adjoint.checks.indexing import (
    IndexedDims,
    check_index_dtypes,
    check_integers,
    check_mask_shape,
    check_same_dtype,
    check_values,
    is_mask,
    layout,
)
from adjoint.core.choosing import choose
from adjoint.core.errors import DimensionError, ShapeError
from adjoint.kernels.halves import wide_dtype
from adjoint.kernels.indexing.accumulate import (
    add_rows,
    last_of_each,
    narrowed,
    wide,
    wrapped,
)
from adjoint.kernels.indexing.masked import chosen

Array = np.ndarray[Any, Any]
Ints = tuple[int, ...]
Indices = Sequence[Array | None]


def _integers(what: str, shape: Ints, indices: Indices) -> list[Array | None]:
    """Return the indices as int64 arrays within bounds, masks as the places where they are True."""
    if all(index is None for index in indices):
        raise DimensionError(f"{what}: at least one index must be given.")
    check_index_dtypes(what, indices)
    result: list[Array | None] = []
    for index in indices:
        dim = len(result)
        if index is None:
            result.append(None)
        elif index.dtype == np.int64 and dim < len(shape):
            result.append(wrapped(what, index, shape[dim], dim))
        elif is_mask(index):
            check_mask_shape(what, index, shape, dim)
            result.extend(index.nonzero())
        elif dim < len(shape):
            result.append(wrapped(what, index, shape[dim], dim))
        else:
            result.append(index)  # one too many: `layout` says so
    return result


def _plan(what: str, shape: Ints, indices: Indices) -> tuple[IndexedDims, Array]:
    """Return the layout of the result, and one index into the indexed dimensions flattened."""
    integers = _integers(what, shape, indices)
    lay = layout(what, shape, integers)
    flat: Any = integers[lay.dims[0]]
    for dim in lay.dims[1:]:
        flat = flat * shape[dim] + integers[dim]
    if flat.shape != lay.common:
        flat = np.broadcast_to(flat, lay.common)
    return lay, flat


def _only(indices: Indices) -> Array | None:
    """Return the last index if the others are None."""
    if len(indices) == 1 or (indices and all(i is None for i in indices[:-1])):
        return indices[-1]
    return None


def _adjacent(lay: IndexedDims) -> bool:
    return lay.dims[-1] - lay.dims[0] == len(lay.dims) - 1


def _split(shape: Ints, lay: IndexedDims) -> Ints:
    """Return the sizes before, of, and after the indexed dimensions, which are neighbours."""
    first, last = lay.dims[0], lay.dims[-1] + 1
    return math.prod(shape[:first]), math.prod(shape[first:last]), math.prod(shape[last:])


def index(self: Array, indices: Indices) -> Array:
    """Return self[indices] as NumPy and PyTorch mean it; None is a whole slice."""
    only = _only(indices)
    if only is not None:
        if only.dtype == np.int64 and self.ndim:
            try:
                return np.asarray(self.take(only, axis=len(indices) - 1))  # NumPy checks the bounds
            except (IndexError, ValueError):
                pass  # the general way raises the error
        elif only.dtype == np.bool_ and only.shape == self.shape and self.ndim:
            return chosen(self, only)
    elif all(i is not None and i.dtype == np.int64 for i in indices):
        try:
            result = self[tuple(indices)]
            return result if result.flags.owndata else np.array(result)
        except IndexError:
            pass
    lay, flat = _plan("index", self.shape, indices)
    if len(lay.dims) == 1:
        return np.asarray(self.take(flat, axis=lay.dims[0]))
    if not _adjacent(lay):
        front = (*lay.dims, *(d for d in range(self.ndim) if d not in lay.dims))
        count = math.prod([self.shape[d] for d in lay.dims])
        rows = self.transpose(front).reshape(count, *lay.rest)
        return np.asarray(rows.take(flat, axis=0))
    return self.reshape(_split(self.shape, lay)).take(flat, axis=1).reshape(lay.shape)


def index_put(self: Array, indices: Indices, values: Array, accumulate: bool) -> Array:
    """Return a copy of `self` with `values` written or added at `indices`; the last write wins."""
    check_same_dtype("index_put", self, values, "values")
    if not accumulate:
        only = indices[0] if len(indices) == 1 else None
        if only is not None and only.dtype == np.bool_ and only.shape == self.shape and self.ndim:
            return _put_mask(self, only, values)
        result = copied(self)
        _put(result, indices, values, False)
        return result
    total = wide(self)
    _put(total, indices, values, True)
    return narrowed(total, self.dtype)


def _put_mask(self: Array, mask: Array, values: Array) -> Array:
    if values.ndim == 0:
        return choose(mask, values, self)
    places = np.flatnonzero(mask)
    check_values("index_put", values, places.shape)
    result = copied(self)
    result.reshape(-1)[places] = values
    return result


def _put(result: Array, indices: Indices, values: Array, accumulate: bool) -> None:
    """Write into `result`, which is C-ordered and ours."""
    lay, flat = _plan("index_put", result.shape, indices)
    check_values("index_put", values, lay.shape)
    if 0 in lay.shape:
        return
    rows, width = _rows(result.shape, lay, flat)
    numbers = np.broadcast_to(values, lay.shape).reshape(rows.size, width)
    matrix = result.reshape(-1, width)
    if accumulate:
        with np.errstate(all="ignore"):
            add_rows(matrix, rows, numbers)
    else:
        matrix[rows] = numbers


def _rows(shape: Ints, lay: IndexedDims, flat: Array) -> tuple[Array, int]:
    """See the array as a matrix: return the rows that the result comes from, and their width."""
    if _adjacent(lay):
        outer, size, inner = _split(shape, lay)
        if outer == 1:
            return flat.reshape(-1), inner
        return (np.arange(outer)[:, None] * size + flat.reshape(-1)).reshape(-1), inner
    # The places of the elements one by one: of the indexed part, then of the rest.
    every = np.arange(math.prod(shape)).reshape(shape)
    front = (*lay.dims, *(d for d in range(len(shape)) if d not in lay.dims))
    rows = every.transpose(front).reshape(-1, math.prod(lay.rest))
    return rows[flat.reshape(-1)].reshape(-1), 1


def index_backward(grad: Array, sizes: Ints, indices: Indices) -> Array:
    """Return zeros of `sizes` to which `grad` is added at `indices`."""
    only = indices[0] if len(indices) == 1 else None
    if only is not None and only.dtype == np.bool_ and only.shape == sizes and sizes:
        result = zeros(sizes, grad.dtype)  # a mask takes nothing twice
        result.reshape(-1)[np.flatnonzero(only)] = grad
        return result
    if not grad.size:  # nothing was taken, whatever the indices are
        return zeros(sizes, grad.dtype)
    total = zeros(sizes, wide_dtype(grad.dtype))
    if only is not None and only.dtype == np.int64 and only.ndim == 1 and len(sizes) == 1:
        numbers = grad.astype(total.dtype, copy=False)
        np.add.at(total, wrapped("index", only, total.size, 0), numbers)
    else:
        _put(total, indices, grad, True)
    return narrowed(total, grad.dtype)


def index_winners(indices: Indices, sizes: Ints) -> Array:
    """Return which writes at `indices` remain: bool, of the indexed shape with slices of size 1.

    Whole slices never meet, so one answer per element of the broadcast indices is enough.
    """
    lay, flat = _plan("index_put", sizes, indices)
    shape = (*(1 for _ in lay.rest[: lay.place]), *lay.common, *(1 for _ in lay.rest[lay.place :]))
    return last_of_each(flat.reshape(-1)).reshape(shape)


def take(self: Array, index: Array) -> Array:
    """Return the elements of the flattened `self` at `index`."""
    check_integers("take", index)
    places = wrapped("take", index, self.size, None)
    if self.flags.c_contiguous:
        return np.asarray(self.reshape(-1).take(places))
    return np.array(self[np.unravel_index(places, self.shape)])


def put(self: Array, index: Array, source: Array, accumulate: bool) -> Array:
    """Return a copy of `self`, flattened meanwhile, with `source` written (or added) at `index`."""
    check_integers("put", index)
    check_same_dtype("put", self, source, "source")
    if index.size != source.size:
        raise ShapeError(
            f"put: index and source must have the same number of elements, "
            f"got {index.size} and {source.size}."
        )
    places = wrapped("put", index, self.size, None).reshape(-1)
    if not accumulate:
        result = copied(self)
        result.reshape(-1)[places] = source.reshape(-1)
        return result
    total = wide(self)
    with np.errstate(all="ignore"):
        add_rows(total.reshape(-1, 1), places, source.reshape(-1, 1))
    return narrowed(total, self.dtype)
