"""Products with sparse matrices, in C (sparse.c), on all cores.

Arrays are float32 or float64, indices int64 and valid. The functions return None if there is no
native code, or too little work.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from adjoint.c_kernels import loading

Array = np.ndarray[Any, Any]
_FEW = 1 << 14  # products below which NumPy and SciPy suffice


def by_rows(
    starts: Array, rows: Array, columns: Array, values: Array
) -> tuple[Array, Array] | None:
    """Columns and values sorted by row; row r begins at starts[r]."""
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
