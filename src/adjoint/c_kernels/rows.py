"""Softmax, layer normalisation and running totals of rows, by C code (rows.c).

Arrays are float32 or float64; large arrays that are not contiguous are copied. The functions return
None if there is no native code, and for small arrays.
"""

from __future__ import annotations

import ctypes
import math
from typing import Any

import numpy as np

from adjoint.c_kernels import loading
from adjoint.c_kernels.copies import contiguous_if_large, is_contiguous
from adjoint.loops.gate import SEVERAL as LARGE

Array = np.ndarray[Any, Any]


def _function(name: str, columns: int, *arrays: Array | None) -> Any:
    """The C function, if the arrays are contiguous, of one dtype, and large; else None."""
    given = [a for a in arrays if a is not None]
    if given[0].size < LARGE or not columns:
        return None
    dtype = given[0].dtype
    if any(a.dtype != dtype or not is_contiguous(a) for a in given):
        return None
    return loading.ready("rows", name, dtype)


def softmax(x: Array, axis: int, *, logarithm: bool) -> Array | None:
    """exp(xᵢ) / Σ exp(xⱼ) along an axis, or its logarithm."""
    x = contiguous_if_large(x)
    run = _function("softmax", x.shape[axis], x) if x.ndim else None
    if run is None:
        return None
    result = np.empty(x.shape, x.dtype)
    loading.call(run, _around(x, axis, int(logarithm)), x, result)
    return result


def softmax_back(grad: Array, result: Array, axis: int, x: Array | None = None) -> Array | None:
    """The gradient of softmax in x; given x, the gradient of log_softmax."""
    grad, result = contiguous_if_large(grad), contiguous_if_large(result)
    x = None if x is None else contiguous_if_large(x)
    fits = result.ndim and grad.shape == result.shape and (x is None or x.shape == result.shape)
    run = _function("softmax_back", result.shape[axis], result, grad, x) if fits else None
    if run is None:
        return None
    of_x = np.empty(result.shape, result.dtype)
    loading.call(run, _around(result, axis, int(x is not None)), grad, result, x, of_x)
    return of_x


def layer_norm(
    x: Array, weight: Array | None, bias: Array | None, eps: float, *, centred: bool = True
) -> tuple[Array, Array, Array] | None:
    """The normalised rows of a matrix, their means, which are 0 unless `centred`, and 1/σ."""
    x = contiguous_if_large(x)
    run = _function("layer", x.shape[1], x, weight, bias)
    if run is None:
        return None
    result = np.empty(x.shape, x.dtype)
    mean, rstd = np.empty((2, len(x), 1), x.dtype)
    sizes = loading.block([*x.shape, int(centred)])
    loading.call(run, sizes, ctypes.c_double(eps), x, weight, bias, result, mean, rstd)
    return result, mean, rstd


def layer_norm_back(
    grad: Array, x: Array, weight: Array | None, mean: Array | None, rstd: Array, *, affine: bool
) -> tuple[Array, Array, Array] | None:
    """The gradients of a matrix whose rows were normalised, of weight and of bias; the last two are
    empty unless `affine`. Without `mean`, means are 0.
    """
    grad, x = contiguous_if_large(grad), contiguous_if_large(x)
    fits = grad.shape == x.shape and rstd.size == len(x) and (mean is None or mean.size == len(x))
    run = _function("layer_back", x.shape[1], x, grad, weight, mean, rstd) if fits else None
    if run is None:
        return None
    of_x = np.empty(x.shape, x.dtype)
    sums = np.empty((2, x.shape[1] if affine else 0), x.dtype)
    given = (grad, x, weight, mean, rstd, of_x, *(sums if affine else (None, None)))
    if loading.call(run, _sizes(x, x.shape[1]), *given):
        raise MemoryError("there is no memory for the gradients of weight and bias")
    return of_x, sums[0], sums[1]


def running(x: Array, axis: int, *, product: bool, reverse: bool) -> Array | None:
    """Running sums or products along an axis; sums are in double."""
    turned = x.ndim == 2 and axis in (1, -1) and x.T.flags.c_contiguous and x.size >= LARGE
    x = x if turned else contiguous_if_large(x)
    run = _function("running", x.shape[axis], x.T if turned else x) if x.size else None
    if run is None:
        return None
    result = np.empty(x.shape, x.dtype)
    step = len(x) if turned else 1
    loading.call(run, _around(result, axis, int(product), int(reverse), step), x, result)
    return result


def extremes(x: Array, axis: int, *, least: bool) -> tuple[Array, Array] | None:
    """Running maxima or minima along an axis, and the index of the latest one."""
    x = contiguous_if_large(x)
    run = _function("extremes", x.shape[axis], x) if x.size else None
    if run is None:
        return None
    result, places = np.empty(x.shape, x.dtype), np.empty(x.shape, np.int64)
    loading.call(run, _around(x, axis, int(least)), x, result, places)
    return result, places


def _sizes(array: Array, columns: int, *more: int) -> Any:
    return loading.block([array.size // columns, columns, *more])


def _around(array: Array, axis: int, *more: int) -> Any:
    """The sizes before an axis, along it and after it, then `more`, for the C code."""
    shape = array.shape
    before, after = math.prod(shape[:axis]), math.prod(shape[axis + 1 :])
    return loading.block([before, shape[axis], after, *more])
