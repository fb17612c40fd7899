"""Means, deviations and quantiles with NumPy's keywords."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from adjoint.core.dtypes import bool_, float64, int64
from adjoint.core.errors import ArgumentError, ValueRangeError
from adjoint.numpy.conversion import Array, Float, common, floating
from adjoint.numpy.words import ad, as_floating, count_of, dims_of, joined, kept, reduced
from adjoint.tensor.tensor import Tensor


def mean(a: Tensor, axis: Any, dtype: Any, keepdims: Any = False, *, where: Any = True) -> Tensor:
    """The mean of the elements for which a condition holds."""
    a = as_floating(a, dtype)
    if where is True:
        return reduced("mean", a, axis, keepdims)
    total = reduced("sum", kept(a, where, 0), axis, keepdims)
    return total / count_of(a, where, axis, keepdims)


def average(a: Tensor, axis: Any, weights: Any, returned: bool, *, keepdims: Any) -> Any:
    """The mean, weighted; with `returned` also the sum of the weights."""
    if weights is None:
        result = mean(a, axis, None, keepdims)
        weight = Array(np.full((), count_of(a, True, axis, keepdims), float)).expand(result.shape)
    else:
        a, w = common(a, Float(weights))
        if w.shape != a.shape:
            dims = dims_of(axis, a.ndim)
            if axis is None or tuple(w.shape) != tuple(a.shape[d] for d in dims):
                raise ArgumentError("average: weights have the shape of a, or of its axis")
            order = sorted(range(len(dims)), key=lambda i: dims[i])
            sizes = [n if d in dims else 1 for d, n in enumerate(a.shape)]
            w = w.permute(order).reshape(sizes).expand(a.shape)
        weight = reduced("sum", w, axis, keepdims)
        result = reduced("sum", a * w, axis, keepdims) / weight
    return (result, weight) if returned else result


def deviation(
    name: str, a: Tensor, axis: Any, ddof: Any, keepdims: Any, where: Any, mean_of: Any
) -> Tensor:
    """The variance or the standard deviation, around a given mean if there is one."""
    if where is True and mean_of is None:
        return reduced(name, a, axis, keepdims, correction=ddof)
    middle = mean(a, axis, None, True, where=where) if mean_of is None else Array(mean_of)
    apart = a - middle
    square = apart * apart if not a.dtype.is_complex else ad.real(apart * apart.conj())
    total = reduced("sum", kept(square, where, 0), axis, keepdims)
    variance = total / (count_of(a, where, axis, keepdims) - ddof)
    return ad.sqrt(variance) if name == "std" else variance


def only(a: Tensor, axis: Any) -> tuple[Tensor, int]:
    """A tensor and its dimension; without an axis it must have one alone."""
    if axis is None and a.ndim != 1:
        raise ArgumentError(f"axis must be given for an array of {a.ndim} dimensions")
    return a, 0 if axis is None else axis


def preceded(a: Tensor, axis: int, value: Any, wanted: bool) -> Tensor:
    """Running totals, after the value of no elements if that is wanted."""
    if not wanted:
        return a
    first = ad.full_like(a.narrow(axis, 0, 1), value)
    return ad.cat([first, a], axis)


def without_nan(a: Tensor, value: Any) -> Tensor:
    """The tensor with a number in place of NaN."""
    return ad.where(ad.isnan(a), value, a) if a.dtype.is_differentiable else a


def extreme(name: str, a: Tensor, axis: Any, keepdims: Any) -> Tensor:
    """The extreme along dimensions; of complex numbers by real, then by imaginary parts."""
    if not a.dtype.is_complex:
        return reduced(name, a, axis, keepdims)
    line, shape = joined(a, axis, keepdims)
    parts = ad.real(line).detach(), ad.imag(line).detach()
    first = getattr(ad, name)(parts[0], (-1,), keepdim=True)
    bound = -math.inf if name == "amax" else math.inf
    second = ad.where(parts[0] == first, parts[1], bound)
    found = second == getattr(ad, name)(second, (-1,), keepdim=True)
    found = found & (parts[0] == first)
    return (ad.sum(ad.where(found, line, 0), -1) / ad.sum(found, -1)).reshape(shape)


def nan_extreme(name: str, a: Tensor, axis: Any, keepdims: Any) -> Tensor:
    """The extreme of what is not NaN; NaN where nothing else is there."""
    if not a.dtype.is_differentiable:
        return reduced(name, a, axis, keepdims)
    missing = ad.isnan(a)
    found = reduced(name, without_nan(a, -math.inf if name == "amax" else math.inf), axis, keepdims)
    return ad.where(reduced("all", missing, axis, keepdims), math.nan, found)


def among(where: Any, condition: Tensor) -> Tensor:
    """Both conditions."""
    return condition if where is True else condition & Array(where).to(bool_)


# Of each method: where the quantile q of n elements lies, as (alpha, beta) of Hyndman and Fan.
_CONTINUOUS = {
    "linear": (1.0, 1.0),
    "hazen": (0.5, 0.5),
    "weibull": (0.0, 0.0),
    "median_unbiased": (1 / 3, 1 / 3),
    "normal_unbiased": (3 / 8, 3 / 8),
    "interpolated_inverted_cdf": (0.0, 1.0),
}
_ELEMENTS = frozenset(("lower", "higher", "nearest"))  # which give elements as they are
_OURS = frozenset(("linear", "lower", "higher", "midpoint", "nearest"))


def hundredth(q: Any) -> Any:
    """A percentage as a probability."""
    return q.to(float64) / 100 if isinstance(q, Tensor) else q / 100


def quantiles(
    a: Tensor,
    q: Any,
    axis: Any,
    method: str,
    keepdims: Any,
    weights: Any = None,
    *,
    nan: bool = False,
) -> Tensor:
    """Quantiles along dimensions; those of several q come first."""
    if weights is not None:
        raise ArgumentError("quantile: weights= has no derivative here; sort and add up instead")
    given, a = a, floating(a)
    if isinstance(q, Tensor) and not a.dtype.is_complex:
        a, q = common(a, floating(q))
    q = Array(q)
    line, shape = joined(a, axis, keepdims)
    probabilities = q.to(a.dtype.to_real() if a.dtype.is_complex else a.dtype)
    if method in _OURS:
        name = "nanquantile" if nan else "quantile"
        found = getattr(ad, name)(line, probabilities.reshape(-1), -1, interpolation=method)
    elif method in _CONTINUOUS and not nan:
        found = _interpolated(line, probabilities.reshape(-1), *_CONTINUOUS[method])
    else:
        known = ", ".join(sorted({*_OURS, *_CONTINUOUS}))
        raise ValueRangeError(f"quantile: there is no method {method!r} here; use one of {known}")
    found = found.reshape([*q.shape, *shape])
    return found.to(given.dtype) if method in _ELEMENTS else found


def _interpolated(line: Tensor, q: Tensor, alpha: float, beta: float) -> Tensor:
    """Elements of the sorted line between which quantiles lie, weighted."""
    count = line.shape[-1]
    place = (q * count + (alpha + q * (1 - alpha - beta)) - 1).clamp(0, count - 1)
    low = place.detach().floor()
    part = place - low
    ordered = line.sort(-1)[0]
    index = low.to(int64).clamp(0, count - 1)
    above = (index + 1).clamp(0, count - 1)
    left, right = ordered.index_select(-1, index), ordered.index_select(-1, above)
    return (left + (right - left) * part).movedim(-1, 0)
