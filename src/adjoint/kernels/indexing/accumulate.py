"""Shared by writing kernels: bounds of indices, numbers made to fit, sums over repeats."""

from __future__ import annotations

from typing import Any

import numpy as np

from adjoint.c_kernels import indexing as native
from adjoint.c_kernels.copies import copied
from adjoint.checks.indexing import check_number
from adjoint.core import dtypes
from adjoint.core.errors import IndexOutOfRange
from adjoint.core.lazy import Lazy
from adjoint.core.promotion import fit_number

sparse = Lazy("scipy.sparse")

Array = np.ndarray[Any, Any]

_ROW_COST = 400  # of adding one row in Python, in elements of the target passed over
_SPARSE_DTYPES = frozenset(map(np.dtype, ("float32", "float64", "complex64", "complex128")))


def as_index(index: Array) -> Array:
    """Return `index` as int64."""
    return index if index.dtype == np.int64 else index.astype(np.int64)


def in_bounds(what: str, index: Array, size: int, dim: int | None) -> Array:
    """Return `index` as int64, every entry in 0 … size-1; negative ones are errors here."""
    index = as_index(index)
    # As unsigned numbers the negative ones are huge, so that one pass finds both kinds.
    if index.size and index.view(np.uint64).max() >= size:
        _refuse(what, index[(index < 0) | (index >= size)].flat[0], size, dim, 0)
    return index


def wrapped(what: str, index: Array, size: int, dim: int | None) -> Array:
    """Return `index` as int64 in 0 … size-1; negative entries count from the end."""
    index = as_index(index)
    if index.size == 0 or index.view(np.uint64).max() < size:
        return index
    low = index.min()
    if low < -size or index.max() >= size:
        _refuse(what, index[(index < -size) | (index >= size)].flat[0], size, dim, -size)
    return np.where(index < 0, index + size, index) if low < 0 else index


def _refuse(what: str, value: Any, size: int, dim: int | None, low: int) -> None:
    where = f"a tensor of {size} elements" if dim is None else f"dimension {dim} of size {size}"
    takes = f"it takes {low} to {size - 1}" if size else "it has no elements"
    raise IndexOutOfRange(f"{what}: index {int(value)} is out of range for {where}; {takes}.")


def fit(what: str, array: Array, value: Any) -> Any:
    """Return the number `value` as the dtype of `array` holds it."""
    check_number(what, array, value)
    return fit_number(value, dtypes.of(array.dtype))


def wide(array: Array) -> Array:
    """Return a fresh C-ordered copy to accumulate in: float32 in place of the 16-bit floats."""
    if array.dtype in dtypes.REDUCED:
        return array.astype(np.float32, order="C")
    return copied(array)


def narrowed(array: Array, dtype: np.dtype[Any]) -> Array:
    """Return `array` rounded to `dtype`, itself if it has it already."""
    return array if array.dtype == dtype else array.astype(dtype)


def add_rows(target: Array, rows: Array, values: Array) -> None:
    """target[rows[k]] += values[k] for every k, repeats included; both are matrices.

    Native code adds them if there is any. `np.add.at` is the plain way. Long rows are faster one by
    one if they are few, and by a sparse product if they are many, which costs about as much as two
    copies of the target.
    """
    count, width = values.shape
    if values.dtype != target.dtype:
        values = values.astype(target.dtype)
    if native.add_rows(target[None], rows, values[None]):
        return
    if width == 1:
        np.add.at(target.reshape(-1), rows, values.reshape(-1))
    elif count * width < 4096:
        np.add.at(target, rows, values)
    elif width > 64 and count * _ROW_COST < target.size:
        for row, value in zip(rows.tolist(), values, strict=True):
            target[row] += value
    elif target.dtype in _SPARSE_DTYPES and len(target) <= 8 * count:
        target += _selection(rows, len(target), target.dtype).T @ values
    else:
        places = (rows[:, None] * width + np.arange(width)).reshape(-1)
        np.add.at(target.reshape(-1), places, values.reshape(-1))


def _selection(rows: Array, count: int, dtype: Any) -> Any:
    """The sparse matrix S with (S x)[i] = x[rows[i]], of `count` columns."""
    ones = np.ones(rows.size, dtype)
    return sparse.csr_matrix((ones, rows, np.arange(rows.size + 1)), shape=(rows.size, count))


def last_of_each(places: Array) -> Array:
    """Return for every entry of the vector `places` whether no later entry equals it."""
    _, from_the_end = np.unique(places[::-1], return_index=True)
    last = np.zeros(places.size, np.bool_)
    last[places.size - 1 - from_the_end] = True
    return last
