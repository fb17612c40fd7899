"""Products with sparse matrices, by C code (sparse.c), which threads share.

Arrays are float32 or float64, indices are int64 and inside. None is returned where there is no
native code, or too little to do for it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from adjoint.c_kernels import loading

Array = np.ndarray[Any, Any]
_FEW = 1 << 14  # products below which NumPy and SciPy do


def by_rows(
    starts: Array, rows: Array, columns: Array, values: Array
) -> tuple[Array, Array] | None:
    """Columns and values in the order of rows, of which each starts at its place in `starts`."""
    if values.size < _FEW:
        return None
    run = loading.ready("sparse", "by_rows", values.dtype)
    if run is None:
        return None
    found = np.empty(columns.size, np.int64), np.empty(values.size, values.dtype)
    given = (np.ascontiguousarray(a) for a in (rows, columns, values))
    loading.call(run, loading.block((rows.size,)), starts.copy(), *given, *found)
    return found


def product(starts: Array, columns: Array, values: Array, dense: Array) -> Array | None:
    """out[r] = Σ values[k] dense[columns[k]], k from starts[r] to starts[r + 1]."""
    if values.size * dense.shape[1] < _FEW:
        return None
    run = loading.ready("sparse", "product", values.dtype)
    if run is None:
        return None
    out = np.empty((starts.size - 1, dense.shape[1]), values.dtype)
    given = (np.ascontiguousarray(a) for a in (starts, columns, values, dense))
    loading.call(run, loading.block(out.shape), *given, out)
    return out


def sample(rows: Array, columns: Array, left: Array, right: Array) -> Array | None:
    """out[k] = Σ left[rows[k]] right[columns[k]]."""
    if rows.size * left.shape[1] < _FEW:
        return None
    run = loading.ready("sparse", "sample", left.dtype)
    if run is None:
        return None
    out = np.empty(rows.size, left.dtype)
    given = (np.ascontiguousarray(a) for a in (rows, columns, left, right))
    loading.call(run, loading.block((rows.size, left.shape[1])), *given, out)
    return out
