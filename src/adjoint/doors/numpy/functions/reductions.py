"""Means, deviations and quantiles with NumPy's keywords."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from adjoint.core.dtypes import bool_, float64, int64
from adjoint.core.errors import ArgumentError, ValueRangeError
from adjoint.doors import ad
from adjoint.doors.numpy.conversion import Array, Float, common, floating
from adjoint.doors.numpy.words import as_floating, count_of, dims_of, joined, kept, reduced
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
        w = _weights_like(a, w, axis)
        weight = reduced("sum", w, axis, keepdims)
        result = reduced("sum", a * w, axis, keepdims) / weight
    return (result, weight) if returned else result


def _weights_like(a: Tensor, weights: Tensor, axis: Any) -> Tensor:
    """Weights broadcast to the shape of a; they may be given for the dimensions of `axis` alone."""
    if weights.shape == a.shape:
        return weights
    dims = dims_of(axis, a.ndim)
    if axis is None or tuple(weights.shape) != tuple(a.shape[d] for d in dims):
        raise ArgumentError(
            f"weights have the shape of a, {tuple(a.shape)}, or of its axis, "
            f"got {tuple(weights.shape)}"
        )
    order = sorted(range(len(dims)), key=lambda i: dims[i])
    sizes = [n if d in dims else 1 for d, n in enumerate(a.shape)]
    return weights.permute(order).reshape(sizes).expand(a.shape)


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
_METHODS = {
    "linear": (1.0, 1.0),
    "hazen": (0.5, 0.5),
    "weibull": (0.0, 0.0),
    "median_unbiased": (1 / 3, 1 / 3),
    "normal_unbiased": (3 / 8, 3 / 8),
    "interpolated_inverted_cdf": (0.0, 1.0),
    "inverted_cdf": (0.0, 1.0),
    "averaged_inverted_cdf": (0.0, 1.0),
    "closest_observation": (-0.5, 1.5),
}
# Of the last three: the part of the upper element, by the place and whether it is an element's.
_JUMPS = {
    "inverted_cdf": lambda place, whole: ad.where(whole, 0.0, 1.0),
    "averaged_inverted_cdf": lambda place, whole: ad.where(whole, 0.5, 1.0),
    "closest_observation": lambda place, whole: ad.where(whole & (place % 2 == 1), 0.0, 1.0),
}
# Methods that give elements as they are.
_ELEMENTS = frozenset(("lower", "higher", "nearest", "inverted_cdf", "closest_observation"))
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
    """Quantiles along dimensions; the dimensions of q come first."""
    given, a = a, floating(a)
    if isinstance(q, Tensor) and not a.dtype.is_complex:
        a, q = common(a, floating(q))
    q = Array(q)
    line, shape = joined(a, axis, keepdims)
    probabilities = q.to(a.dtype.to_real() if a.dtype.is_complex else a.dtype).reshape(-1)
    if weights is not None:
        if method != "inverted_cdf":
            raise ArgumentError("quantile: weights= is for method='inverted_cdf', as in NumPy")
        weight = joined(_weights_like(a, Float(weights), axis), axis, keepdims)[0]
        found = _weighted(line, probabilities, weight)
    elif method in _OURS:
        name = "nanquantile" if nan else "quantile"
        found = getattr(ad, name)(line, probabilities, -1, interpolation=method)
    elif method in _METHODS:
        found = _interpolated(line, probabilities, method, nan=nan)
    else:
        known = ", ".join(sorted({*_OURS, *_METHODS}))
        raise ValueRangeError(f"quantile: there is no method {method!r}; use one of {known}")
    found = found.reshape([*q.shape, *shape])
    return found.to(given.dtype) if method in _ELEMENTS else found


def _interpolated(line: Tensor, q: Tensor, method: str, *, nan: bool) -> Tensor:
    """Elements of the sorted line between which quantiles lie, weighted; NaN is sorted last."""
    alpha, beta = _METHODS[method]
    count = (
        ad.sum(~ad.isnan(line), -1, keepdim=True, dtype=q.dtype)
        if nan
        else ad.full_like(q[:1], line.shape[-1])
    )
    place = q * count + (alpha + q * (1 - alpha - beta)) - 1
    if method not in _JUMPS:
        place = _between(place, count)
    low = place.detach().floor()
    part = place - low if method not in _JUMPS else _JUMPS[method](low, place == low).to(q.dtype)
    ordered = line.sort(-1)[0]
    left, right = (
        ad.gather(ordered, -1, _between(i, count).to(int64).expand([*line.shape[:-1], -1]))
        for i in (low, low + 1)
    )
    found = ad.where(part == 0, left, left + (right - left) * part)
    if not nan:  # one NaN makes the quantiles of its line NaN, as in NumPy
        found = ad.where(ad.isnan(ordered[..., -1:]), ordered[..., -1:], found)
    return found.movedim(-1, 0)


def _between(place: Tensor, count: Tensor) -> Tensor:
    """A place among the elements of a line that are not NaN."""
    return ad.minimum(place, count - 1).clamp(min=0)


def _weighted(line: Tensor, q: Tensor, weight: Tensor) -> Tensor:
    """The first elements of the sorted line up to which there is a share q of the weights."""
    ordered, order = line.sort(-1)
    running = ad.cumsum(ad.gather(weight, -1, order), -1)
    share = (running / running[..., -1:]).unsqueeze(-2)
    before = (share < q.unsqueeze(-1)) | (share == 0)
    index = ad.sum(before, -1).clamp(max=line.shape[-1] - 1)
    return ad.gather(ordered, -1, index).movedim(-1, 0)
