"""log-sum-exp, vector norms, variances: without overflow or cancellation where it matters."""

from __future__ import annotations

import math

import numpy as np

from adjoint.core import dtypes
from adjoint.core.dtypes import FLOAT, DType
from adjoint.core.errors import DtypeError, ShapeError
from adjoint.core.infinitesimal import infinitesimal, kinks
from adjoint.core.promotion import cast
from adjoint.core.shapes import reduced, wrap_dims
from adjoint.core.state import current
from adjoint.kernels.reduction.common import Array, Dims, narrowed, widened
from adjoint.kernels.reduction.large import powers, reduce, total
from adjoint.kernels.reduction.sums import mean_dims
from adjoint.native.loops import LARGE, Loops

EXP_OF_DIFFERENCE = Loops("exp@({x} - {y})", "x", "y", function="exp")
_SQUARED_DIFFERENCE = Loops("({x} - {y}) * ({x} - {y})", "x", "y")


def logsumexp(self: Array, dim: Dims, keepdim: bool) -> Array:
    """log Σ exp(x) over `dim`, scaled by the largest real part: no overflow, ±inf right."""
    axes = wrap_dims("logsumexp", dim, self.ndim)
    x = widened(self)
    if math.prod(x.shape[a] for a in axes) == 0:
        return narrowed(np.full(reduced(x.shape, axes, keepdim), -np.inf, x.dtype), self)
    top = reduce(np.maximum, x.real, axes, True)
    finite = np.isfinite(top)
    if np.logical_and.reduce(finite, axis=None):
        terms = EXP_OF_DIFFERENCE(x, top) if x.size >= LARGE else None
        if terms is None:
            terms = np.exp(x - top)
        result = np.log(total(terms, axes, True)) + top
    else:
        top = np.where(finite, top, top.dtype.type(0))
        with np.errstate(all="ignore"):
            result = np.log(total(np.exp(x - top), axes, True)) + top
    return narrowed(result if keepdim else result.squeeze(axes), self)


def quotient(self: Array, other: Array) -> Array:
    """a / b, and 0 where b is 0."""
    return _divided(self, other, other == 0)


def finite_quotient(self: Array, other: Array) -> Array:
    """a / b, and 0 where b is 0; in a first derivative also where b is infinitely small and a not.

    A first backward pass has no end at which an infinite derivative could be told from a finite
    one, so it is told here. Later ones pass infinite numbers on the way to finite ones.
    """
    skip = other == 0
    if kinks.met and current().first_pass:
        limit = infinitesimal(other.real.dtype)
        skip = skip | ((other == limit) & (np.abs(self) >= math.sqrt(limit)))
    return _divided(self, other, skip)


def _divided(self: Array, other: Array, skip: Array) -> Array:
    if not np.logical_or.reduce(skip, axis=None):
        return self / other
    return np.where(skip, self.dtype.type(0), self / np.where(skip, other.dtype.type(1), other))


def exp_difference(self: Array, other: Array) -> Array:
    """exp(a - b), where two equal infinities give 0 if negative and 1 if positive (not NaN)."""
    with np.errstate(all="ignore"):
        result = np.exp(self - other)
    if np.isfinite(other).all():
        return result
    same = (self.real == other.real) & np.isinf(other.real)
    return np.where(same, (other.real > 0).astype(result.dtype), result)


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
        return narrowed(np.sqrt(np.vdot(flat, flat).real), source)
    axes = wrap_dims("linalg_vector_norm", dim, self.ndim)
    if ord < 0 or ord == math.inf:
        for axis in axes:
            if self.shape[axis] == 0:
                raise ShapeError(f"linalg_vector_norm: ord={ord} of no elements (dimension {axis})")
    with np.errstate(all="ignore"):
        result = _power_norm(x, ord, axes, keepdim)
    return narrowed(result, source)


def _power_norm(x: Array, p: float, axes: tuple[int, ...], keepdim: bool) -> Array:
    found = powers(p, x, axes, keepdim)
    if found is not None:
        return np.sqrt(found) if p == 2 else found
    if p == 2:
        squares = x * x if x.dtype.kind == "f" else x.real * x.real + x.imag * x.imag
        return np.sqrt(total(squares, axes, keepdim))
    size = np.abs(x)
    if p == math.inf:
        return reduce(np.maximum, size, axes, keepdim)
    if p == -math.inf:
        return reduce(np.minimum, size, axes, keepdim)
    if p == 0:
        return np.add.reduce(size != 0, axis=axes, dtype=size.dtype, keepdims=keepdim)
    if p == 1:
        return total(size, axes, keepdim)
    return total(size**p, axes, keepdim) ** (1.0 / p)


def var(self: Array, dim: Dims, correction: float | None, keepdim: bool) -> Array:
    """Σ |x - mean|² / (n - correction) over `dim`, in two passes; correction is 1 unless given."""
    return narrowed(_variance("var", self, dim, correction, keepdim), self)


def var_mean(
    self: Array, dim: Dims, correction: float | None, keepdim: bool
) -> tuple[Array, Array]:
    """The variance and the mean over `dim`."""
    return var(self, dim, correction, keepdim), mean_dims(self, dim, keepdim, None)


def std(self: Array, dim: Dims, correction: float | None, keepdim: bool) -> Array:
    """The square root of `var`."""
    return narrowed(np.sqrt(_variance("std", self, dim, correction, keepdim)), self)


def _variance(what: str, self: Array, dim: Dims, correction: float | None, keepdim: bool) -> Array:
    if self.dtype.kind in "biu":
        raise DtypeError(f"{what}: needs floating point or complex, got {dtypes.of(self.dtype)}")
    axes = wrap_dims(what, dim, self.ndim)
    x = widened(self)
    count = math.prod(x.shape[a] for a in axes)
    degrees = max(count - (1 if correction is None else correction), 0)
    mean = total(x, axes, True) / count if count else x.dtype.type(0)
    squares = _SQUARED_DIFFERENCE(x, mean) if x.size >= LARGE else None
    if squares is None:
        centred = x - mean
        squares = centred.real**2 + centred.imag**2 if x.dtype.kind == "c" else centred * centred
    sums = total(squares, axes, keepdim)
    if degrees:
        return sums / degrees
    with np.errstate(all="ignore"):
        return np.divide(sums, 0)
