"""Kernels of normalizations on arrays; float16 and bfloat16 are computed in float32."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from adjoint.c_kernels import normalization as native
from adjoint.c_kernels import rows
from adjoint.c_kernels.conversions import astype
from adjoint.checks import normalization
from adjoint.core import dtypes
from adjoint.core.shapes import Shape
from adjoint.kernels.halves import widen
from adjoint.kernels.reduction.norms import vector_norm
from adjoint.kernels.reduction.scaling import is_safe
from adjoint.loops.element_loops import Loops

Array = np.ndarray[Any, np.dtype[Any]]
_STANDARDIZED = Loops("(x - m) * r", "x", "m", "r")
BLOCK = 1 << 15  # elements worked on at once, so that intermediate values stay in the cache


def _mean(array: Array, axes: Shape, count: int) -> Array:
    with np.errstate(invalid="ignore"):  # the mean of no elements is NaN
        return array.sum(axis=axes, keepdims=True) / array.dtype.type(count)


def _rows(array: Array, count: int) -> Array:
    """One row for each sample, at least in float32."""
    return widen(array).reshape((array.size // count if count else 0, count))


def _blocks(rows: int, count: int) -> tuple[int, list[slice]]:
    """How many rows at once stay in the cache, and the parts that this makes."""
    step = max(BLOCK // max(count, 1), 1)
    return min(step, rows), [slice(i, i + step) for i in range(0, rows, step)]


def native_layer_norm(
    input: Array, normalized_shape: Shape, weight: Array | None, bias: Array | None, eps: float
) -> tuple[Array, Array, Array]:
    """(x - mean) / √(variance + eps) · weight + bias, the mean, and 1/√(variance + eps)."""
    normalization.check("layer_norm", input, normalized_shape, weight=weight, bias=bias)
    affine = (None if t is None else dtypes.of(t.dtype) for t in (weight, bias))
    kind = normalization.statistics_dtype("layer_norm", dtypes.of(input.dtype), *affine).np
    count = normalization.count(normalized_shape)
    x = _rows(input, count)
    statistics = (*input.shape[: input.ndim - len(normalized_shape)], *(1,) * len(normalized_shape))
    if not count:
        nothing = np.full(statistics, np.nan, kind)
        return np.empty(input.shape, input.dtype), nothing, nothing.copy()
    w, b = (None if t is None else widen(t).reshape(-1) for t in (weight, bias))
    found = rows.layer_norm(x, w, b, eps)
    result, mean, rstd = _layer_norm(x, w, b, eps) if found is None else found
    return (
        astype(result.reshape(input.shape), input.dtype, copy=False),
        mean.reshape(statistics).astype(kind, copy=False),
        rstd.reshape(statistics).astype(kind, copy=False),
    )


def _layer_norm(
    x: Array, weight: Array | None, bias: Array | None, eps: float
) -> tuple[Array, Array, Array]:
    result = np.empty(x.shape, x.dtype)
    mean, rstd = np.empty((2, len(x), 1), x.dtype)
    room, parts = _blocks(len(x), x.shape[1])
    squares = np.empty((room, x.shape[1]), x.dtype)
    with np.errstate(divide="ignore", invalid="ignore"):  # eps may be 0
        for part in parts:
            _normalize(x[part], mean[part], rstd[part], result[part], squares, eps)
            if weight is not None:
                result[part] *= weight
            if bias is not None:
                result[part] += bias
    return result, mean, rstd


def _normalize(
    x: Array, mean: Array, rstd: Array, result: Array, squares: Array, eps: float
) -> None:
    """Write mean, 1/σ and x̂ of some rows."""
    count = x.dtype.type(x.shape[1])
    np.divide(x.sum(axis=1, keepdims=True), count, out=mean)
    np.subtract(x, mean, out=result)
    squares = np.multiply(result, result, out=squares[: len(x)])
    variance = squares.sum(axis=1, keepdims=True) / count
    np.divide(1, np.sqrt(variance + x.dtype.type(eps)), out=rstd)
    if _is_lost(rstd):
        mean[...] = (x / count).sum(axis=1, keepdims=True)
        np.subtract(x, mean, out=result)
        rstd[...] = _inverse_deviation(result, (1,), eps)
    result *= rstd


# 1/σ in between has lost nothing: see SAFE in kernels/reduction/scaling.py.
_SAFE = {"f": (2.0**-63, 2.0**45), "d": (2.0**-511, 2.0**480)}


def _is_lost(rstd: Array) -> bool:
    """Whether a variance may have left its range on the way to 1/σ."""
    return not is_safe(rstd, _SAFE[rstd.dtype.char])


def _inverse_deviation(centered: Array, axes: Shape, eps: float) -> Array:
    """1/√(mean(c²) + eps), where mean(c²) may be beyond all numbers."""
    count = math.prod(centered.shape[a] for a in axes)
    deviation = vector_norm(centered, 2, axes, True, None) / centered.dtype.type(math.sqrt(count))
    with np.errstate(invalid="ignore"):  # a negative eps of the size of the variance
        return 1 / np.hypot(deviation, np.sqrt(centered.dtype.type(eps)))


def fused_rms_norm(
    input: Array, normalized_shape: Shape, weight: Array | None, eps: float | None
) -> tuple[Array, Array]:
    """x / √(mean(x²) + eps) · weight, and 1/√(mean(x²) + eps); complex: mean(x²), not |x|²."""
    normalization.check_rms(input, normalized_shape, weight)
    count = normalization.count(normalized_shape)
    x, w = _rows(input, count), None if weight is None else widen(weight).reshape(-1)
    floor = float(np.finfo(x.dtype).eps) if eps is None else eps
    found = rows.layer_norm(x, w, None, floor, centred=False) if count else None
    if found is None:
        result, rstd = _rms_norm(x, w, floor)
    else:
        result, _, rstd = found
    statistics = (*input.shape[: input.ndim - len(normalized_shape)], *(1,) * len(normalized_shape))
    return astype(result.reshape(input.shape), input.dtype, copy=False), rstd.reshape(statistics)


def _rms_norm(x: Array, weight: Array | None, eps: float) -> tuple[Array, Array]:
    count, axes = x.dtype.type(x.shape[1]), (1,)
    with np.errstate(all="ignore"):  # eps may be 0
        rstd = 1 / np.sqrt((x * x).sum(axis=1, keepdims=True) / count + x.dtype.type(eps))
        if x.dtype.kind == "f" and _is_lost(rstd):
            rstd = _inverse_deviation(x, axes, eps)
        result = x * rstd
    if weight is not None:
        result *= weight
    return result, rstd


def rms_norm_input_backward(
    grad_out: Array, input: Array, normalized_shape: Shape, rstd: Array, weight: Array | None
) -> Array:
    """rstd (h - x̂ mean(h x̂)) with h = ḡ · weight and x̂ = x · rstd."""
    return _rms_norm_gradients(grad_out, input, normalized_shape, rstd, weight, affine=False)[0]


def rms_norm_backward(
    grad_out: Array, input: Array, normalized_shape: Shape, rstd: Array, weight: Array | None
) -> tuple[Array, Array]:
    """The gradient of the input, and Σ ḡ x̂."""
    found = _rms_norm_gradients(grad_out, input, normalized_shape, rstd, weight, affine=True)
    kind = (input if weight is None else weight).dtype
    return found[0], astype(found[1].reshape(normalized_shape), kind, copy=False)


def _rms_norm_gradients(
    grad_out: Array,
    input: Array,
    normalized_shape: Shape,
    rstd: Array,
    weight: Array | None,
    *,
    affine: bool,
) -> tuple[Array, Array]:
    """The gradients of input and weight, the second as a row; empty if not `affine`."""
    normalization.check_rms(input, normalized_shape, weight)
    count = normalization.count(normalized_shape)
    x, grad = _rows(input, count), _rows(grad_out, count)
    r, w = widen(rstd).reshape((-1, 1)), None if weight is None else widen(weight).reshape(-1)
    found = rows.layer_norm_back(grad, x, w, None, r, affine=affine)
    of_input, of_weight = (
        _rms_norm_back(grad, x, w, r, affine=affine) if found is None else found[:2]
    )
    return astype(of_input.reshape(input.shape), input.dtype, copy=False), of_weight


def _rms_norm_back(
    grad: Array, x: Array, weight: Array | None, rstd: Array, *, affine: bool
) -> tuple[Array, Array]:
    normal = (x * rstd).conj()
    of_weight = (grad * normal).sum(0) if affine else np.zeros(0, x.dtype)
    h = grad if weight is None else grad * weight.conj()
    result = h - normal * _mean(h * normal, (1,), x.shape[1])
    result *= rstd.conj()
    return result, of_weight


def standardized(input: Array, normalized_shape: Shape, mean: Array, rstd: Array) -> Array:
    """x̂ = (x - mean) · rstd, at least in float32; a mean that was rounded is computed again."""
    normalization.check("layer_norm", input, normalized_shape)
    x = widen(input)
    if mean.dtype in dtypes.REDUCED:
        axes = normalization.last_dims(normalized_shape)
        mean = _mean(x, axes, normalization.count(normalized_shape))
    scale = widen(rstd)
    found = _STANDARDIZED(x, mean, scale)
    return (x - mean) * scale if found is None else found


def layer_norm_input_backward(
    grad_out: Array,
    input: Array,
    normalized_shape: Shape,
    mean: Array,
    rstd: Array,
    weight: Array | None,
) -> Array:
    """rstd (h - mean(h) - x̂ mean(h x̂)) with h = ḡ · weight."""
    given = (grad_out, input, normalized_shape, mean, rstd, weight)
    return _layer_norm_gradients(*given, affine=False)[0]


def layer_norm_backward(
    grad_out: Array,
    input: Array,
    normalized_shape: Shape,
    mean: Array,
    rstd: Array,
    weight: Array | None,
) -> tuple[Array, Array, Array]:
    """The gradient of the input, Σ ḡ x̂ and Σ ḡ."""
    given = (grad_out, input, normalized_shape, mean, rstd, weight)
    of_input, of_weight, of_bias = _layer_norm_gradients(*given, affine=True)
    kind = (input if weight is None else weight).dtype
    of_weight, of_bias = (
        astype(a.reshape(normalized_shape), kind, copy=False) for a in (of_weight, of_bias)
    )
    return of_input, of_weight, of_bias


def _layer_norm_gradients(
    grad_out: Array,
    input: Array,
    normalized_shape: Shape,
    mean: Array,
    rstd: Array,
    weight: Array | None,
    *,
    affine: bool,
) -> tuple[Array, Array, Array]:
    """The gradients of input, weight and bias, the last two as rows; empty if not `affine`."""
    normalization.check("layer_norm_backward", input, normalized_shape, weight=weight)
    count = normalization.count(normalized_shape)
    x, grad = _rows(input, count), _rows(grad_out, count)
    m, r = (widen(t).reshape((-1, 1)) for t in (mean, rstd))
    if mean.dtype in dtypes.REDUCED and count:
        m = _mean(x, (1,), count)  # one that was rounded is computed again
    w = None if weight is None else widen(weight).reshape(-1)
    found = rows.layer_norm_back(grad, x, w, m, r, affine=affine)
    if found is None:
        found = _layer_norm_back(grad, x, w, m, r, affine=affine)
    return astype(found[0].reshape(input.shape), input.dtype, copy=False), found[1], found[2]


def _layer_norm_back(
    grad: Array, x: Array, weight: Array | None, mean: Array, rstd: Array, *, affine: bool
) -> tuple[Array, Array, Array]:
    count, result = x.shape[1], np.empty(x.shape, x.dtype)
    of_weight = np.zeros(count if affine else 0, x.dtype)
    room, parts = _blocks(len(x), count)
    normal, product = np.empty((2, room, count), x.dtype)
    for part in parts:
        h = result[part]
        if weight is None:
            np.copyto(h, grad[part])
        else:
            np.multiply(grad[part], weight, out=h)
        n = np.subtract(x[part], mean[part], out=normal[: len(h)])
        n *= rstd[part]
        if affine:
            of_weight += np.multiply(grad[part], n, out=product[: len(h)]).sum(0)
        along = _mean(np.multiply(h, n, out=product[: len(h)]), (1,), count)
        h -= _mean(h, (1,), count)
        n *= along
        h -= n
        h *= rstd[part]
    return result, of_weight, grad.sum(0) if affine else of_weight


# --- batches -------------------------------------------------------------------------------------


def batch_normalized(
    input: Array, weight: Array | None, bias: Array | None, eps: float
) -> tuple[Array, Array, Array, Array]:
    """(x - mean) / √(variance + eps) · weight + bias by channels, the mean, 1/σ, the variance."""
    kinds = (None if t is None else dtypes.of(t.dtype) for t in (weight, bias))
    normalization.check_batch(
        "batch_norm", input, dtypes.of(input.dtype), kinds, weight=weight, bias=bias
    )
    x, w, b = widen(input), *(None if t is None else widen(t) for t in (weight, bias))
    found = native.batch(x, w, b, eps)
    if found is None:
        found = _batch_normalized(x, w, b, eps)
    return astype(found[0], input.dtype, copy=False), found[1], found[2], found[3]


def _batch_normalized(
    x: Array, weight: Array | None, bias: Array | None, eps: float
) -> tuple[Array, Array, Array, Array]:
    axes, count = (0, *range(2, x.ndim)), x.size // max(x.shape[1], 1)
    with np.errstate(divide="ignore", invalid="ignore"):  # eps may be 0
        mean = _mean(x, axes, count)
        result = x - mean
        variance = _mean(result * result, axes, count)
        rstd = 1 / np.sqrt(variance + x.dtype.type(eps))
        if _is_lost(rstd):
            mean = (x / x.dtype.type(max(count, 1))).sum(axis=axes, keepdims=True)
            result = x - mean
            rstd = _inverse_deviation(result, axes, eps)
        result *= rstd if weight is None else rstd * _across(weight, x.ndim)
    if bias is not None:
        result += _across(bias, x.ndim)
    return result, mean.reshape(-1), rstd.reshape(-1), variance.reshape(-1)


def _across(array: Array, ndim: int) -> Array:
    """A number for each channel, so that it broadcasts."""
    return array.reshape((-1, *(1,) * (ndim - 2)))


def batch_normalized_backward(
    grad: Array, input: Array, weight: Array | None, mean: Array, rstd: Array
) -> tuple[Array, Array, Array]:
    """rstd (h - mean(h) - x̂ mean(h x̂)) with h = ḡ · weight; Σ ḡ x̂ and Σ ḡ."""
    kind = None if weight is None else dtypes.of(weight.dtype)
    normalization.check_batch_backward(
        "batch_norm_backward", grad, input, dtypes.of(input.dtype), kind, weight=weight, mean=mean,
        rstd=rstd,
    )  # fmt: skip
    x = widen(input)
    g, m, r = (astype(a, x.dtype, copy=False) for a in (grad, mean, rstd))
    w = None if weight is None else widen(weight)
    found = native.batch_back(g, x, w, m, r)
    if found is None:
        found = _batch_normalized_backward(g, x, w, m, r)
    affine = (input if weight is None else weight).dtype
    kinds = (input.dtype, affine, affine)
    results = [astype(a, k, copy=False) for a, k in zip(found, kinds, strict=True)]
    return results[0], results[1], results[2]


def _batch_normalized_backward(
    grad: Array, x: Array, weight: Array | None, mean: Array, rstd: Array
) -> tuple[Array, Array, Array]:
    axes, count = (0, *range(2, x.ndim)), x.size // max(x.shape[1], 1)
    m, scale = _across(mean, x.ndim), _across(rstd, x.ndim)
    normal = (x - m) * scale
    of_bias, of_weight = grad.sum(axes), (grad * normal).sum(axes)
    slope, middle = (_across(a / x.dtype.type(max(count, 1)), x.ndim) for a in (of_weight, of_bias))
    normal *= slope
    result = grad - middle
    result -= normal
    result *= scale if weight is None else scale * _across(weight, x.ndim)
    return result, of_weight, of_bias
