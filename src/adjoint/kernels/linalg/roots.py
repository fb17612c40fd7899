"""Square roots and logarithms of matrices, and Sylvester's equation, by SciPy."""

# Capitals are matrices here, not constants.
# pyright: reportConstantRedefinition=false

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from adjoint.checks.linalg import check_same_dtype
from adjoint.core import dtypes
from adjoint.core.lazy import Lazy
from adjoint.kernels.linalg.common import Array, each, square

linalg = Lazy("scipy.linalg")


def sqrtm(A: Array) -> Array:
    """The principal square root; NaN for a real matrix whose root is not real."""
    square("_linalg_sqrtm(A)", A)
    return _of_each(linalg.sqrtm, A)


def logm(A: Array) -> Array:
    """The principal logarithm; NaN for a real matrix whose logarithm is not real."""
    square("_linalg_logm(A)", A)
    return _of_each(linalg.logm, A)


def _of_each(function: Callable[[Array], Any], A: Array) -> Array:
    result = np.empty(A.shape, A.dtype)
    if not A.size:
        return result
    for out, a in each(result, A):
        if not np.isfinite(a).all():
            out[...] = np.nan
            continue
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of singular matrices, whose root may be infinite
            found = np.asarray(function(a))
        real = np.iscomplexobj(A) or not np.iscomplexobj(found)
        out[...] = found if real else np.nan
    return result


def sylvester(A: Array, B: Array, Q: Array) -> Array:
    """X with A X + X B = Q."""
    what = "solve_sylvester(a, b, q)"
    check_same_dtype(what, dtypes.of(A.dtype), dtypes.of(Q.dtype))
    check_same_dtype(what, dtypes.of(B.dtype), dtypes.of(Q.dtype))
    square(what, A)
    square(what, B)
    batch = np.broadcast_shapes(A.shape[:-2], B.shape[:-2], Q.shape[:-2])
    result = np.empty((*batch, *Q.shape[-2:]), Q.dtype)
    if not result.size:
        return result
    A, B, Q = (np.broadcast_to(M, (*batch, *M.shape[-2:])) for M in (A, B, Q))
    for out, a, b, q in each(result, A, B, Q):
        finite = all(np.isfinite(m).all() for m in (a, b, q))
        with np.errstate(all="ignore"):
            out[...] = linalg.solve_sylvester(a, b, q) if finite else np.nan
    return result
