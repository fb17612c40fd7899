"""Products with sparse matrices, given by the row, the column and the value of each element."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse
import scipy.sparse.linalg

from adjoint.c_kernels import sparse as native
from adjoint.checks.sparse import check_inexact
from adjoint.core.dtypes import of
from adjoint.core.errors import LinAlgError
from adjoint.kernels.halves import wide_dtype
from adjoint.structures.invariants import check_integers, check_range

Array = np.ndarray[Any, np.dtype[Any]]

_AT_ONCE = 1 << 16  # products that are made before they are added up: they stay in the cache


def _checked(what: str, rows: Array, columns: Array, shape: tuple[int, int]) -> tuple[Array, Array]:
    """Rows and columns as int64; raise unless they are in range, since products do not check."""
    found: list[Array] = []
    for name, given, size in (("rows", rows, shape[0]), ("columns", columns, shape[1])):
        check_integers(what, name, given)
        check_range(what, name, given, size, "a size of")
        found.append(given.astype(np.int64, copy=False))
    return found[0], found[1]


def _by_rows(rows: Array, columns: Array, values: Array, size: int) -> tuple[Array, Array, Array]:
    """Where each row starts, and the columns and values in the order of rows."""
    starts = np.zeros(size + 1, np.int64)
    np.cumsum(np.bincount(rows, minlength=size), out=starts[1:])
    if (rows[1:] >= rows[:-1]).all():
        return starts, columns, values
    found = native.by_rows(starts, rows, columns, values)
    if found is None:
        order = np.argsort(rows, kind="stable")
        found = columns[order], values[order]
    return starts, found[0], found[1]


def product(rows: Array, columns: Array, values: Array, dense: Array, size: int) -> Array:
    """out[r] = Σ values[k] dense[c] over the elements k = (r, c)."""
    wide, dtype = wide_dtype(values.dtype), values.dtype
    rows, columns = _checked("_sparse_product", rows, columns, (size, dense.shape[0]))
    values, dense = values.astype(wide, copy=False), np.ascontiguousarray(dense, wide)
    starts, columns, values = _by_rows(rows, columns, values, size)
    found = native.product(starts, columns, values, dense)
    if found is None:
        shape = (size, dense.shape[0])
        found = np.asarray(scipy.sparse.csr_array((values, columns, starts), shape=shape) @ dense)
    return found.astype(dtype, copy=False)


def sample(rows: Array, columns: Array, left: Array, right: Array) -> Array:
    """out[k] = Σ left[r] right[c] for the elements k = (r, c)."""
    check_inexact("_sparse_sample", of(left.dtype))
    wide, dtype = wide_dtype(left.dtype), left.dtype
    rows, columns = _checked("_sparse_sample", rows, columns, (left.shape[0], right.shape[0]))
    left, right = np.ascontiguousarray(left, wide), np.ascontiguousarray(right, wide)
    found = native.sample(rows, columns, left, right)
    found = _sampled(rows, columns, left, right) if found is None else found
    return found.astype(dtype, copy=False)


def _sampled(rows: Array, columns: Array, left: Array, right: Array) -> Array:
    found = np.empty(rows.size, left.dtype)
    step = max(1, min(rows.size, _AT_ONCE // max(1, left.shape[1])))
    room = np.empty((2, step, left.shape[1]), left.dtype)
    for start in range(0, rows.size, step):
        stop = min(start + step, rows.size)
        one, other = room[:, : stop - start]
        np.take(left, rows[start:stop], 0, out=one, mode="clip")  # "raise" would copy `one`
        np.take(right, columns[start:stop], 0, out=other, mode="clip")
        np.einsum("kj,kj->k", one, other, out=found[start:stop])
    return found


def solve(rows: Array, columns: Array, values: Array, right: Array) -> Array:
    """x with A x = right, of a square matrix."""
    size = right.shape[0]
    check_inexact("_sparse_solve", of(values.dtype))
    rows, columns = _checked("_sparse_solve", rows, columns, (size, size))
    if not size or not right.shape[1]:
        return np.zeros_like(right)
    starts, columns, values = _by_rows(rows, columns, values, size)
    matrix = scipy.sparse.csr_array((values, columns, starts), shape=(size, size)).tocsc()
    try:
        factors = scipy.sparse.linalg.splu(matrix)
    except RuntimeError as error:
        raise LinAlgError(f"spsolve: the matrix of {size}×{size} is singular: {error}") from None
    return np.asarray(factors.solve(np.ascontiguousarray(right)))
