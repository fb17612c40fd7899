"""New arrays, of NumPy's dtypes: float64 unless another is asked for."""

from __future__ import annotations

from typing import Any

import numpy as np

from adjoint.core.dtypes import bool_
from adjoint.core.errors import ArgumentError, ValueRangeError
from adjoint.doors import ad
from adjoint.doors.numpy.conversion import Array, Dtype, Number, common_numbers, floating
from adjoint.doors.numpy.words import made
from adjoint.homes.arrays import array_of as array_of
from adjoint.tensor.tensor import Tensor


def array(object: Any, dtype: Any, *, copy: Any, ndmin: int, ndmax: int = 0) -> Tensor:
    """A new array of numbers, lists and tensors, with the history of those."""
    a = Array(object)
    a = a if dtype is None else a.to(dtype)
    a = a.clone() if copy and isinstance(object, Tensor) and a is object else a
    a = (
        a
        if isinstance(object, Tensor) or a.requires_grad or a.home is not None
        else made(a.numpy())
    )
    return a.reshape([*(1,) * (ndmin - a.ndim), *a.shape]) if a.ndim < ndmin else a


def asarray_chkfinite(a: Tensor, dtype: Any) -> Tensor:
    """The array, if all its elements are finite."""
    if a.dtype.is_differentiable and not bool(ad.isfinite(a).all()):
        raise ValueRangeError("asarray_chkfinite: the array holds infinities or NaN")
    return a if dtype is None else a.to(dtype)


def cast(a: Tensor, dtype: Any) -> Tensor:
    """The tensor in a dtype, if one is asked for."""
    return a if dtype is None else a.to(dtype)


def sizes(shape: Any) -> tuple[int, ...]:
    """A shape, of which a number is a vector's."""
    return shape if isinstance(shape, tuple) else (shape,)


def sizes_like(a: Tensor, shape: Any) -> tuple[int, ...]:
    """The requested shape, or the shape of an array."""
    return tuple(a.shape) if shape is None else sizes(shape)


def filled(value: Tensor, shape: tuple[int, ...], dtype: Any) -> Tensor:
    """A new array filled with one value, or with values that broadcast."""
    return value.to(dtype).expand(shape).clone()


def arange(start: Any = 0, stop: Any = None, step: Any = 1, dtype: Any = None) -> Tensor:
    """Numbers from a start to before a stop."""
    ends = [v.item() if isinstance(v, Tensor) else v for v in (start, stop, step)]
    wanted = None if dtype is None else Dtype(dtype).np  # type: ignore[union-attr]
    return made(np.arange(ends[0], ends[1], ends[2], dtype=wanted))


def indices(dimensions: Any, dtype: Any = int, sparse: bool = False) -> Any:
    """The indices of a grid."""
    found = np.indices(tuple(int(n) for n in dimensions), Dtype(dtype).np, sparse)  # type: ignore[union-attr]
    return tuple(made(f) for f in found) if sparse else made(found)


def ends(start: Any, stop: Any) -> tuple[Tensor, Tensor]:
    """Two ends of one dtype, with integers as float64; a Python number does not decide it."""
    first, last = (Array(v) for v in common_numbers(Number(start), Number(stop)))
    if first.dtype is not last.dtype:  # one was a number
        dtype = (last if isinstance(Number(stop), Tensor) else first).dtype
        first, last = first.to(dtype), last.to(dtype)
    return floating(first), floating(last)


def linspace(
    start: Any,
    stop: Any,
    num: int = 50,
    endpoint: bool = True,
    retstep: bool = False,
    dtype: Any = None,
    axis: int = 0,
) -> Any:
    """Numbers at equal distances between two, which are differentiated."""
    count = int(num)
    if count < 0:
        raise ArgumentError(f"linspace: num={count} must not be negative")
    start, stop = ends(start, stop)
    parts = count - 1 if endpoint else count
    step = (stop - start) / parts if parts > 0 else (stop - start) * np.nan
    whole = max(parts, 1)
    ramp = made(
        np.arange(count), (start.dtype.to_real() if start.dtype.is_complex else start.dtype)
    )
    ramp = ramp.reshape([-1, *(1,) * max(start.ndim, stop.ndim)])
    result = start + ramp * ((stop - start) / whole)
    if endpoint and count > 1:
        result = ad.where(ramp == count - 1, stop, result)
    result = result.movedim(0, axis) if result.ndim > 1 else result
    if dtype is not None:
        result = ad.floor(result) if not dtype.is_differentiable and dtype is not bool_ else result
        result = result.to(dtype)
    return (result, step) if retstep else result


def geometric(start: Tensor, stop: Tensor, num: int, endpoint: bool, axis: int) -> Tensor:
    """Numbers with equal ratios between two."""
    ramp = linspace(Array(0.0), Array(1.0), num, endpoint).to(
        start.dtype.to_real() if start.dtype.is_complex else start.dtype
    )
    ramp = ramp.reshape([-1, *(1,) * max(start.ndim, stop.ndim)])
    result = start * ad.pow(stop / start, ramp)
    if endpoint and num > 1:
        result = ad.where(ramp == 1, stop, result)
    return result.movedim(0, axis) if result.ndim > 1 else result


def ramp(M: int) -> Tensor:
    """The factor of a Kaiser window's argument at each of its points."""
    half = (M - 1) / 2
    inside = 1 - ((np.arange(M) - half) / half) ** 2 if M > 1 else np.zeros(max(M, 0))
    return made(np.sqrt(inside))
