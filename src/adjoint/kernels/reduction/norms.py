"""log-sum-exp, vector norms, variances: without overflow or cancellation where it matters."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from adjoint.core import dtypes
from adjoint.core.dtypes import FLOAT, DType
from adjoint.core.errors import DtypeError, ShapeError
from adjoint.core.promotion import cast
from adjoint.core.shapes import reduced, wrap_dims
from adjoint.kernels.halves import in_float32
from adjoint.kernels.reduction import scaling
from adjoint.kernels.reduction.common import (
    Array,
    Dims,
    narrowed,
    require_inexact,
    widened,
)
from adjoint.kernels.reduction.large import powers, reduce, total
from adjoint.kernels.reduction.sums import mean_dims, unreduce
from adjoint.loops.element_loops import Loops
from adjoint.loops.gate import LARGE

_AWAY = "(x - y)"
_LEFT_OUT = f"((x - ({_AWAY} - ({_AWAY} - x))) - (y + ({_AWAY} - x)))"
EXP_OF_DIFFERENCE = Loops(  # as _exp_difference below
    f"exp@({_AWAY}) * (1 + ({_LEFT_OUT} - {_LEFT_OUT} == 0 ? {_LEFT_OUT} : 0))",
    "x", "y",
)  # fmt: skip
_SQUARED_DIFFERENCE = Loops("(x - y) * (x - y)", "x", "y")


def logsumexp(self: Array, dim: Dims, keepdim: bool) -> Array:
    """log Σ exp(x) over `dim`, scaled by the largest real part: no overflow, ±inf right."""
    axes = wrap_dims("logsumexp", dim, self.ndim)
    x = widened(self)
    if math.prod(x.shape[a] for a in axes) == 0:
        return np.full(reduced(x.shape, axes, keepdim), -np.inf, x.dtype)
    top = reduce(np.maximum, x.real, axes, True)
    finite = np.isfinite(top)
    if np.logical_and.reduce(finite, axis=None):
        terms = EXP_OF_DIFFERENCE(x, top) if x.size >= LARGE else None
        if terms is None:
            terms = _exp_difference(x, top)
        result = _logarithm(total(terms, axes, True), terms, x, top, axes) + top
    else:
        top = np.where(finite, top, top.dtype.type(0))
        with np.errstate(all="ignore"):
            result = np.log(total(np.exp(x - top), axes, True)) + top
    return result if keepdim else result.squeeze(axes)


_ALONE = 1.5  # a sum of terms up to 1 below which the largest is more than the others together


def _logarithm(sums: Array, terms: Array, x: Array, top: Array, axes: tuple[int, ...]) -> Array:
    """log Σ of terms whose largest is 1, without losing small terms."""
    if terms.dtype.kind == "c" or not np.minimum.reduce(sums, None, initial=_ALONE) < _ALONE:
        return np.log(sums)
    largest = x == top
    others = total(np.where(largest, terms.dtype.type(0), terms), axes, True)
    others += np.add.reduce(largest, axis=axes, keepdims=True, dtype=terms.dtype) - 1
    return np.where(sums < _ALONE, np.log1p(others), np.log(sums))


def exp_shares(self: Array, top: Array, dim: Dims, keepdim: bool) -> Array:
    """exp(x - t) / Σ exp(x - t); 0 if all x are -inf, equal shares among x of +inf."""
    axes = wrap_dims("logsumexp", dim, self.ndim)
    x, near = widened(self), unreduce(widened(top), dim, self.shape, keepdim)
    powers = EXP_OF_DIFFERENCE(x, near) if x.size >= LARGE and np.isfinite(top).all() else None
    if powers is None:
        powers = exp_difference(x, near)
    sums = total(powers, axes, True)
    with np.errstate(all="ignore"):
        powers = np.divide(powers, np.where(sums == 0, powers.dtype.type(1), sums))
    return powers


def quotient(self: Array, other: Array) -> Array:
    """a / b, and 0 where b is 0."""
    return _divided(self, other, other == 0)


def directed(self: Array, other: Array, norm: Array) -> Array:
    """a · (b / c), and 0 where c is 0."""
    return self * quotient(other, norm)


def length_backward(grad: Array, self: Array, result: Array, dim: Dims, keepdim: bool) -> Array:
    """x · (ȳ / y), or ȳ · (x / y) where the quotients of ȳ leave their range; 0 where y is 0."""
    require_inexact("the gradient of a length", self)
    ratio = _ratio(grad, result)
    if ratio is not None:
        return self * unreduce(ratio, dim, self.shape, keepdim)
    spread, norm = (unreduce(a, dim, self.shape, keepdim) for a in (grad, result))
    return directed(spread, self, norm)


def direction(self: Array, dim: Dims, eps: float) -> Array:
    """x / ‖x‖, or x / eps where x is shorter."""
    x = widened(self)
    length = vector_norm(x, 2, dim, True, None)
    with np.errstate(all="ignore"):
        return np.asarray(x / np.maximum(length, x.dtype.type(eps)))


def std_backward(grad: Array, self: Array, result: Array, dim: Dims, keepdim: bool) -> Array:
    """ḡ (x - mean)/σ: the gradient of a norm of x - mean; the caller divides by the degrees."""
    mean = mean_dims(self, dim, True, None)
    ratio = _ratio(grad, result) if self.size >= LARGE and self.dtype.char in "fd" else None
    if ratio is not None:
        scale = unreduce(ratio, dim, self.shape, keepdim)
        found = _SCALED_DIFFERENCE(self, mean, scale)
        if found is not None:
            return found
    return length_backward(grad, _differences(self, mean), result, dim, keepdim)


_SCALED_DIFFERENCE = Loops("(x - m) * r", "x", "m", "r")


def _ratio(grad: Array, result: Array) -> Array | None:
    """ȳ / y, where that is as good as numbers that are divided first."""
    with np.errstate(all="ignore"):
        ratio = np.asarray(grad / result)
    return ratio if scaling.is_safe(np.abs(ratio), _RATIOS[ratio.real.dtype]) else None


_FLOATS = (dtypes.float16, dtypes.bfloat16, dtypes.float32, dtypes.float64)
_RATIOS = {t.np: (float(dtypes.finfo(t).tiny), float(dtypes.finfo(t).max)) for t in _FLOATS}


def _divided(self: Array, other: Array, skip: Array) -> Array:
    if not np.logical_or.reduce(skip, axis=None):
        return self / other
    return np.where(skip, self.dtype.type(0), self / np.where(skip, other.dtype.type(1), other))


def exp_difference(self: Array, other: Array) -> Array:
    """exp(a - b), where two equal infinities give 0 if negative and 1 if positive (not NaN)."""
    with np.errstate(all="ignore"):
        result = _exp_difference(self, other)
    if np.isfinite(other).all():
        return result
    same = (self.real == other.real) & np.isinf(other.real)
    return np.where(same, (other.real > 0).astype(result.dtype), result)


def _exp_difference(a: Array, b: Array) -> Array:
    """The difference to twice the precision, since exp turns its digits into magnitude."""
    if a.dtype.kind == "c":
        return np.exp(a - b)
    if a.dtype != np.float64:
        return np.exp(np.subtract(a, b, dtype=np.float64)).astype(a.dtype)
    difference = a - b
    moved = difference - a
    lost = (a - (difference - moved)) - (b + moved)
    # a rest beyond 1 is of a difference whose exponential is 0 or infinite
    return np.exp(difference) * (1 + np.where(np.abs(lost) < 1, lost, 0))


def _checked_norm_dtype(self: Array, dtype: DType | None) -> Array:
    have = dtypes.of(self.dtype)
    if not have.is_differentiable:
        raise DtypeError(
            f"linalg_vector_norm: needs a floating point or complex tensor, got {have}; "
            "convert it first, x.float()"
        )
    if dtype is None:
        return self
    if dtype.is_complex != have.is_complex or dtype.category < FLOAT:
        kind = "complex" if have.is_complex else "real floating point"
        raise DtypeError(f"linalg_vector_norm: dtype must be {kind} for {have}, got {dtype}")
    if dtype.itemsize < have.itemsize:
        raise DtypeError(f"linalg_vector_norm: dtype={dtype} would narrow the {have} input")
    return cast(self, dtype)


def vector_norm(self: Array, ord: float, dim: Dims, keepdim: bool, dtype: DType | None) -> Array:
    """(Σ |x|^p)^(1/p) over `dim`; p = 0 counts, p = ±inf is the largest or smallest |x|."""
    source = _checked_norm_dtype(self, dtype)
    x = widened(source)
    if ord == 2 and not dim and not keepdim:
        flat = x.ravel()
        square: Any = np.vdot(flat, flat).real
        if scaling.is_safe(square):
            return narrowed(np.sqrt(square), source)
    axes = wrap_dims("linalg_vector_norm", dim, self.ndim)
    if ord < 0 or ord == math.inf:
        for axis in axes:
            if self.shape[axis] == 0:
                raise ShapeError(f"linalg_vector_norm: ord={ord} of no elements (dimension {axis})")
    with np.errstate(all="ignore"):
        result = _power_norm(x, ord, axes, keepdim)
    return narrowed(result, source)


def _power_norm(x: Array, p: float, axes: tuple[int, ...], keepdim: bool) -> Array:
    if p == 2:
        return _length(x, axes, keepdim)
    if p == 1:
        found = powers(p, x, axes, keepdim)
        return total(np.abs(x), axes, keepdim) if found is None else found
    size = np.abs(x)
    if p == math.inf:
        return reduce(np.maximum, size, axes, keepdim)
    if p == -math.inf:
        return reduce(np.minimum, size, axes, keepdim)
    if p == 0:
        return np.add.reduce(size != 0, axis=axes, dtype=size.dtype, keepdims=keepdim)
    sums = total(size**p, axes, keepdim)
    if not scaling.is_safe(sums, _IN_THE_MIDDLE):
        exponent = scaling.exponents(size, axes)
        if exponent is not None:
            sums = total(scaling.scaled(size, -exponent) ** p, axes, keepdim)
            return np.ldexp(sums ** (1.0 / p), scaling.without(exponent, axes, keepdim))
    return sums ** (1.0 / p)


# Beyond, the rounding error of 1/p is multiplied by the logarithm of the sum.
_IN_THE_MIDDLE = (2.0**-32, 2.0**32)


def _length(x: Array, axes: tuple[int, ...], keepdim: bool, degrees: float = 1) -> Array:
    """√(Σ |x|² / degrees), in two passes where squares leave their range."""
    sums = _squares(x, axes, keepdim)
    if not scaling.is_safe(sums):
        exponent = scaling.exponents(x, axes)
        if exponent is not None:
            sums = _squares(scaling.scaled(x, -exponent), axes, keepdim)
            length = np.sqrt(sums if degrees == 1 else sums / degrees)
            return np.ldexp(length, scaling.without(exponent, axes, keepdim))
    return np.sqrt(sums if degrees == 1 else sums / degrees)


def _squares(x: Array, axes: tuple[int, ...], keepdim: bool) -> Array:
    """Σ |x|²."""
    found = powers(2, x, axes, keepdim)
    if found is not None:
        return found
    squares = x * x if x.dtype.kind == "f" else x.real * x.real + x.imag * x.imag
    return total(squares, axes, keepdim)


def var(self: Array, dim: Dims, correction: float | None, keepdim: bool) -> Array:
    """Σ |x - mean|² / (n - correction) over `dim`, in two passes; correction is 1 unless given."""
    return _variance("var", self, dim, correction, keepdim)


def var_mean(
    self: Array, dim: Dims, correction: float | None, keepdim: bool
) -> tuple[Array, Array]:
    """The variance and the mean over `dim`."""
    variance = in_float32(var, self, dim, correction, keepdim)
    return variance, mean_dims(self, dim, keepdim, None)


def std(self: Array, dim: Dims, correction: float | None, keepdim: bool) -> Array:
    """The square root of the variance, which may be beyond all numbers itself."""
    centred, axes, degrees = _centred("std", self, dim, correction)
    sums = _squared(centred, axes, keepdim)
    if degrees and not scaling.is_safe(sums):
        return _length(_differences(*centred), axes, keepdim, degrees)
    return np.sqrt(_shared(sums, degrees))


def _variance(what: str, self: Array, dim: Dims, correction: float | None, keepdim: bool) -> Array:
    centred, axes, degrees = _centred(what, self, dim, correction)
    sums = _squared(centred, axes, keepdim)
    if degrees and not scaling.is_safe(sums):
        exponent = scaling.exponents(_differences(*centred), axes)
        if exponent is not None:
            away = scaling.scaled(_differences(*centred), -exponent)
            twice = 2 * scaling.without(exponent, axes, keepdim)
            return np.ldexp(_squares(away, axes, keepdim) / degrees, twice)
    return _shared(sums, degrees)


def _centred(
    what: str, self: Array, dim: Dims, correction: float | None
) -> tuple[tuple[Array, Array], tuple[int, ...], float]:
    """Numbers and their mean over `dim`, the axes, and the degrees of freedom."""
    if self.dtype.kind in "biu":
        raise DtypeError(f"{what}: needs floating point or complex, got {dtypes.of(self.dtype)}")
    axes = wrap_dims(what, dim, self.ndim)
    x = widened(self)
    count = math.prod(x.shape[a] for a in axes)
    degrees = max(count - (1 if correction is None else correction), 0)
    mean = total(x, axes, True) / count if count else x.dtype.type(0)
    return (x, mean), axes, degrees


def _differences(x: Array, mean: Array) -> Array:
    with np.errstate(all="ignore"):
        return x - mean


def _squared(centred: tuple[Array, Array], axes: tuple[int, ...], keepdim: bool) -> Array:
    """Σ |x - mean|²."""
    x, mean = centred
    squares = _SQUARED_DIFFERENCE(x, mean) if x.size >= LARGE else None
    if squares is None:
        away: Array = x - mean
        squares = away.real**2 + away.imag**2 if x.dtype.kind == "c" else away * away
    return total(squares, axes, keepdim)


def _shared(sums: Array, degrees: float) -> Array:
    if degrees:
        return sums / degrees
    with np.errstate(all="ignore"):
        return np.divide(sums, 0)
