"""Products with sparse matrices, given by the row, the column and the value of each element."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse
import scipy.sparse.linalg

from adjoint.checks.sparse import check_inexact
from adjoint.core.dtypes import of
from adjoint.core.errors import LinAlgError
from adjoint.core.invariants import check_integers, check_range

Array = np.ndarray[Any, np.dtype[Any]]

_AT_ONCE = 1 << 16  # products that are made before they are added up: they stay in the cache


def _wide(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """A dtype that SciPy's sparse matrices take, to compute in."""
    return np.dtype(np.float32) if dtype.itemsize == 2 and dtype.kind not in "iu" else dtype


def _check(what: str, rows: Array, columns: Array, shape: tuple[int, int]) -> None:
    """Raise unless elements stand inside a matrix: SciPy's products do not look."""
    check_integers(what, "rows", rows)
    check_integers(what, "columns", columns)
    check_range(what, "rows", rows, shape[0], "a size of")
    check_range(what, "columns", columns, shape[1], "a size of")


def _by_rows(rows: Array, columns: Array, values: Array, shape: tuple[int, int]) -> Any:
    """A matrix of compressed rows; elements at one place may appear several times."""
    starts = np.zeros(shape[0] + 1, np.int64)
    np.cumsum(np.bincount(rows, minlength=shape[0]), out=starts[1:])
    if rows.size > 1 and (rows[1:] < rows[:-1]).any():
        order = np.argsort(rows, kind="stable")
        columns, values = columns[order], values[order]
    return scipy.sparse.csr_array((values, columns, starts), shape=shape)


def product(rows: Array, columns: Array, values: Array, dense: Array, size: int) -> Array:
    """out[r] = Σ values[k] dense[c] over the elements k = (r, c)."""
    _check("_sparse_product", rows, columns, (size, dense.shape[0]))
    wide = _wide(values.dtype)
    matrix = _by_rows(rows, columns, values.astype(wide, copy=False), (size, dense.shape[0]))
    found = np.asarray(matrix @ np.ascontiguousarray(dense, wide))
    return found.astype(values.dtype, copy=False)


def sample(rows: Array, columns: Array, left: Array, right: Array) -> Array:
    """out[k] = Σ left[r] right[c] for the elements k = (r, c)."""
    check_inexact("_sparse_sample", of(left.dtype))
    _check("_sparse_sample", rows, columns, (left.shape[0], right.shape[0]))
    wide, dtype = _wide(left.dtype), left.dtype
    left, right = np.ascontiguousarray(left, wide), np.ascontiguousarray(right, wide)
    found = np.empty(rows.size, wide)
    step = max(1, min(rows.size, _AT_ONCE // max(1, left.shape[1])))
    room = np.empty((2, step, left.shape[1]), wide)
    for start in range(0, rows.size, step):
        stop = min(start + step, rows.size)
        one, other = room[:, : stop - start]
        np.take(left, rows[start:stop], 0, out=one, mode="clip")  # "raise" would copy `one`
        np.take(right, columns[start:stop], 0, out=other, mode="clip")
        np.einsum("kj,kj->k", one, other, out=found[start:stop])
    return found.astype(dtype, copy=False)


def solve(rows: Array, columns: Array, values: Array, right: Array) -> Array:
    """x with A x = right, of a square matrix."""
    size = right.shape[0]
    check_inexact("_sparse_solve", of(values.dtype))
    _check("_sparse_solve", rows, columns, (size, size))
    if not size or not right.shape[1]:
        return np.zeros_like(right)
    matrix = _by_rows(rows, columns, values, (size, size)).tocsc()
    try:
        factors = scipy.sparse.linalg.splu(matrix)
    except RuntimeError as error:
        raise LinAlgError(f"spsolve: the matrix of {size}×{size} is singular: {error}") from None
    return np.asarray(factors.solve(np.ascontiguousarray(right)))
