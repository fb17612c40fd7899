"""Fourier transforms in C (fourier.c); compiled programs call these functions, too.

They return None if there is no native code, and for small arrays. `how` is 0 (no factor), 1 (1/√n)
or 2 (1/n).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from adjoint.c_kernels import loading
from adjoint.c_kernels.copies import contiguous
from adjoint.core.c_types import REAL_KINDS
from adjoint.core.shapes import Shape, around

Array = np.ndarray[Any, Any]
LARGE = 1 << 8  # elements from which a call of native code pays


def lines(shape: Shape, dims: Sequence[int]) -> list[int]:
    """The number of dimensions, then the sizes around each of them."""
    return [len(dims), *(size for d in dims for size in around(shape, d))]


def complex_to_complex(x: Array, dims: Sequence[int], how: int, *, forward: bool) -> Array | None:
    """The transform along some dimensions, or its conjugate."""
    run = _function("complex", x)
    if run is None:
        return None
    sizes = [x.size, int(not forward), how, _count(x.shape, dims), *lines(x.shape, dims)]
    return _made(run, sizes, x, np.empty(x.shape, x.dtype))


def real_to_complex(x: Array, dims: Sequence[int], how: int, shape: Shape) -> Array | None:
    """The transform of real numbers; `shape` says how much of the last dimension is wanted."""
    run = _function("forward", x)
    if run is None:
        return None
    result = np.empty(shape, np.result_type(x.dtype, np.complex64))
    sizes = [*around(x.shape, dims[-1]), shape[dims[-1]], how, _count(x.shape, dims)]
    return _made(run, [*sizes, *lines(shape, dims[:-1])], x, result)


def complex_to_real(x: Array, dims: Sequence[int], how: int, shape: Shape) -> Array | None:
    """The real numbers of some shape from half their spectrum."""
    run = _function("backward", x)
    if run is None:
        return None
    sizes = [*around(shape, dims[-1]), x.size, how, _count(shape, dims)]
    return _made(run, [*sizes, *lines(x.shape, dims[:-1])], x, np.empty(shape, x.real.dtype))


def _count(shape: Shape, dims: Sequence[int]) -> int:
    """How many numbers a transform adds up."""
    return math.prod([shape[d] for d in dims])


def _function(name: str, x: Array) -> Any:
    kind = REAL_KINDS.get(x.real.dtype) if x.size >= LARGE else None
    return None if kind is None else loading.ready_for("fourier", name, kind)


def _made(run: Any, sizes: Sequence[int], x: Array, result: Array) -> Array | None:
    """The result of a function of fourier.c; None if it had no memory."""
    return None if loading.call_on(run, sizes, (contiguous(x),), (result,)) else result
