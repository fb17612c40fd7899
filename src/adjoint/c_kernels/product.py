"""Products of matrices, in C.

BLAS has its own threads, which spin after each product and so take the cores from all other
kernels. Large products of float32 and float64 therefore run here, in the threads of the other
native kernels; NumPy keeps small ones, which BLAS computes in one thread.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from adjoint.c_kernels import loading
from adjoint.core.shapes import Shape, merged, row_major

Array = np.ndarray[Any, Any]

LARGE = 1 << 18  # multiplications from which BLAS wakes its threads
THIN = 8  # up to so many rows or columns memory limits a product, and BLAS is as fast


def dot(a: Array, b: Array) -> Array:
    """`a.dot(b)` for at most two dimensions.

    >>> dot(np.eye(2), np.array([[1.0, 2.0], [3.0, 4.0]]))
    array([[1., 2.],
           [3., 4.]])
    """
    if a.size * b.shape[-1] < LARGE or a.ndim != 2 or b.ndim != 2:
        return a.dot(b)
    found = _native(a, b)
    return a.dot(b) if found is None else found


def matmul(a: Array, b: Array) -> Array:
    """`np.matmul(a, b)`, quiet about NaN and overflow."""
    if a.ndim > 1 and b.ndim > 1 and max(a.size * b.shape[-1], b.size * a.shape[-2]) >= LARGE:
        found = _native(a, b)
        if found is not None:
            return found
    with np.errstate(all="ignore"):
        return np.matmul(a, b)


def _native(a: Array, b: Array) -> Array | None:
    """The product by native code; None if there is none for these operands."""
    if a.dtype != b.dtype or not (a.flags.aligned and b.flags.aligned):
        return None
    run = loading.ready("product", "product", a.dtype)
    if run is None:
        return None
    plan = _plan(a.shape, a.strides, b.shape, b.strides, a.itemsize)
    if plan is None:
        return None
    fields, shape = plan
    result = np.empty(shape, a.dtype)
    if loading.call(run, fields, a, b, None, result):
        raise MemoryError("there is no memory for the panels of a product")
    return result


@lru_cache(maxsize=1024)
def _plan(
    a: Shape, a_strides: Shape, b: Shape, b_strides: Shape, size: int
) -> tuple[Any, Shape] | None:
    """The C structure `Product` and the shape of the result; None if NumPy must compute it."""
    (m, k), (inner, n) = a[-2:], b[-2:]
    if k != inner or min(m, n) <= THIN or not k:
        return None
    try:
        batch = np.broadcast_shapes(a[:-2], b[:-2])
    except ValueError:
        return None  # NumPy raises the error
    if not math.prod(batch):
        return None
    c_steps = row_major((*batch, m * n))[:-1]
    a_steps, b_steps = (tuple(s // size for s in strides) for strides in (a_strides, b_strides))
    lead = [(a[:-2], a_steps[:-2]), (b[:-2], b_steps[:-2]), (batch, c_steps)]
    joined = merged(batch, lead, loading.MOST)
    if joined is None:
        return None
    sizes, (a_lead, b_lead, c_lead) = joined
    fields = numbers(
        (m, n, k), sizes, (*a_lead, *a_steps[-2:]), (*b_lead, *b_steps[-2:]), (*c_lead, n, 1)
    )
    return loading.block(fields), (*batch, m, n)


def numbers(sizes: Sequence[Any], batch: Shape, a: Shape, b: Shape, c: Shape) -> list[Any]:
    """The fields of the C structure: m, n and k, at most three dimensions of the batch, and the
    steps along all dimensions of each operand.
    """
    missing = loading.MOST - len(batch)
    lead = [step for each in (a, b, c) for step in ((0,) * missing + tuple(each[:-2]))]
    return [*sizes, *(1,) * missing, *batch, *a[-2:], *b[-2:], c[-2], *lead]
