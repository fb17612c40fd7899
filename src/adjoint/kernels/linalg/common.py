"""Shared by kernels of linear algebra: errors, batches, and LAPACK one matrix at a time.

Matrices are the last two dimensions. NumPy's batched routines are used where they exist; the others
run through SciPy's LAPACK, one matrix after the other.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from adjoint.checks.linalg import check_dtype, check_matrix, check_square
from adjoint.core import dtypes
from adjoint.core.errors import LinAlgError
from adjoint.core.lazy import Lazy

linalg = Lazy("scipy.linalg")

Array = np.ndarray[Any, Any]


def matrices(what: str, a: Array) -> None:
    """Raise unless `a` holds matrices of a dtype that LAPACK takes."""
    check_dtype(what, dtypes.of(a.dtype))
    check_matrix(what, a.shape)


def square(what: str, a: Array) -> None:
    """Raise unless `a` holds square matrices of a dtype that LAPACK takes."""
    check_dtype(what, dtypes.of(a.dtype))
    check_square(what, a.shape)


def mT(a: Array) -> Array:
    """Transpose the matrices."""
    return np.swapaxes(a, -1, -2)


def mH(a: Array) -> Array:
    """The conjugate transpose of the matrices."""
    return np.conj(np.swapaxes(a, -1, -2)) if a.dtype.kind == "c" else np.swapaxes(a, -1, -2)


def each(*arrays: Array) -> Iterator[tuple[Array, ...]]:
    """The matrices of several batches of one shape, together."""
    count = math.prod(arrays[0].shape[:-2])
    flat = [a.reshape((count, *a.shape[-2:])) for a in arrays]
    return zip(*flat, strict=True)


def lapack(name: str, *arrays: Array, reports: bool = False) -> Callable[..., Any]:
    """The routine of SciPy's LAPACK for the dtype of the arrays; its last result is `info`.

    An `info` below 0, an argument that LAPACK refuses, always raises. One above 0 is handed on if
    the routine `reports` something of the matrix with it, and raises otherwise.
    """
    found: Any = linalg.get_lapack_funcs(name, arrays)

    def routine(*args: Any, **keywords: Any) -> Any:
        results = found(*args, **keywords)
        info = int(results[-1])
        if info < 0 or (info and not reports):
            raise LinAlgError(
                f"LAPACK's {name} failed with info = {info} for arrays of shape "
                f"{', '.join(str(a.shape) for a in args)}; please report this."
            )
        return results

    return routine


def describe(info: Array) -> str:
    """Say which matrix of a batch failed first: ' in the batch element 3', or nothing."""
    if info.ndim == 0:
        return ""
    position = np.unravel_index(int(np.argmax(info != 0)), info.shape)
    return f" in batch element {', '.join(str(int(p)) for p in position)}"


def first(info: Array) -> int:
    """The first `info` that is not 0."""
    flat = info.reshape(-1)
    return int(flat[np.argmax(flat != 0)])


def gauge_limit(size: Array) -> float:
    """The largest rounding error of numbers of this size, or of size 1."""
    eps = float(np.finfo(size.dtype).eps)
    return math.sqrt(eps) * float(np.max(np.abs(size), initial=0.0)) + 1e4 * eps
