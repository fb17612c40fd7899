"""Normalisation of the channels of a batch, by C code (normalization.c).

Arrays are float32 or float64; the elements of one image and one channel are contiguous. The
functions return None if there is no native code, or NumPy's way is faster.
"""

from __future__ import annotations

import ctypes
import math
from typing import Any

import numpy as np

from adjoint.c_kernels import loading

Array = np.ndarray[Any, Any]
_FEW = 8  # below so many elements of a channel in an image, NumPy's loop order is better


def _sizes(x: Array, other: Array) -> list[int] | None:
    """Sizes and steps for the C code; None if it does not apply."""
    places = math.prod(x.shape[2:])
    if places < _FEW or not x.size or not _is_packed(x) or not _is_packed(other):
        return None
    steps = (loading.steps(a)[:2] for a in (x, other))
    return [*x.shape[:2], places, *(s for pair in steps for s in pair)]


def _is_packed(array: Array) -> bool:
    """Whether the elements of one image and one channel are contiguous."""
    return array[0, 0].flags.c_contiguous and array.flags.aligned


def batch(
    x: Array, weight: Array | None, bias: Array | None, eps: float
) -> tuple[Array, Array, Array, Array] | None:
    """The result, the means, 1/σ and the variances."""
    run = loading.ready("normalization", "normalize", x.dtype)
    result = np.empty(x.shape, x.dtype)
    sizes = None if run is None else _sizes(x, result)
    if sizes is None:
        return None
    statistics = np.empty((3, x.shape[1]), x.dtype)
    affine = (None if a is None else np.ascontiguousarray(a) for a in (weight, bias))
    loading.call(run, loading.block(sizes), ctypes.c_double(eps), x, *affine, result, *statistics)
    return result, statistics[0], statistics[1], statistics[2]


def batch_back(
    grad: Array, x: Array, weight: Array | None, mean: Array, rstd: Array
) -> tuple[Array, Array, Array] | None:
    """The gradients of x, weight and bias."""
    run = loading.ready("normalization", "normalize_back", x.dtype)
    sizes = None if run is None else _sizes(x, grad)
    if sizes is None:
        return None
    result = np.empty(x.shape, x.dtype)
    of_weight, of_bias = np.empty((2, x.shape[1]), x.dtype)
    given = (None if a is None else np.ascontiguousarray(a) for a in (weight, mean, rstd))
    loading.call(run, loading.block(sizes), grad, x, *given, result, of_weight, of_bias)
    return result, of_weight, of_bias
