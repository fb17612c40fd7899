"""Kernels of the family `scan`: running sums, products, extrema, and the linear recurrence.

Arrays in, arrays out; the result has the shape of the input. float16 and bfloat16 run in float32,
float32 sums in float64 (as PyTorch on the CPU), and are rounded once, at the end.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from adjoint.c_kernels import ordering, rows
from adjoint.c_kernels.conversions import astype
from adjoint.c_kernels.copies import copied
from adjoint.checks.sorting import check_ordered
from adjoint.core import dtypes
from adjoint.core.dtypes import DEFAULT, REDUCED, DType
from adjoint.core.lazy import Lazy
from adjoint.core.promotion import cast
from adjoint.core.shapes import wrap_dim
from adjoint.kernels.halves import wide_dtype
from adjoint.kernels.reduction import products
from adjoint.kernels.reduction.common import NATIVE

linalg = Lazy("scipy.linalg")

Array = np.ndarray[Any, Any]

FEW = 32


def accumulate(
    ufunc: np.ufunc, x: Array, axis: int, dtype: Any = None, *, reverse: bool = False
) -> Array:
    """`ufunc.accumulate` along `axis` (from the end if `reverse`), computed in `dtype`.

    Few elements along the axis, many times over, are combined slice by slice: NumPy's own loop
    would start anew for each of the many.
    """
    result = np.empty(x.shape, x.dtype)
    source, target = x.swapaxes(axis, 0), result.swapaxes(axis, 0)
    if reverse:
        source, target = source[::-1], target[::-1]
    length = len(source)
    if length <= FEW and x.size >= 64 * length:
        target[:1] = source[:1]
        for k in range(1, length):
            ufunc(target[k - 1], source[k], out=target[k])
    elif x.size:
        ufunc.accumulate(source, axis=0, dtype=dtype or x.dtype, out=target)
    return result


def _accumulate(
    what: str, ufunc: np.ufunc, self: Array, dim: int, dtype: DType | None, *, wide: bool
) -> Array:
    axis = wrap_dim(what, dim, self.ndim)
    target = dtype
    if target is None:
        target = dtypes.int64 if self.dtype.kind in "biu" else dtypes.of(self.dtype)
    if self.dtype != target.np:
        self = cast(self, target)
    if self.ndim == 0:
        return copied(self)
    if target.np in REDUCED:
        return astype(_running(ufunc, astype(self, np.float32), axis), target.np)
    return _running(ufunc, self, axis, np.float64 if wide and target is dtypes.float32 else None)


def _running(
    ufunc: np.ufunc, x: Array, axis: int, dtype: Any = None, *, reverse: bool = False
) -> Array:
    """Sums or products: by native code where arrays are large."""
    found = rows.running(x, axis, product=ufunc is np.multiply, reverse=reverse)
    return accumulate(ufunc, x, axis, dtype, reverse=reverse) if found is None else found


def cumsum(self: Array, dim: int, dtype: DType | None) -> Array:
    """Running sums along `dim`."""
    return _accumulate("cumsum", np.add, self, dim, dtype, wide=True)


def reverse_cumsum(self: Array, dim: int) -> Array:
    """Running sums along `dim`, from the end."""
    axis = wrap_dim("_reverse_cumsum", dim, self.ndim)
    if self.ndim == 0:
        return copied(self)
    if self.dtype in REDUCED:
        wide = _running(np.add, astype(self, np.float32), axis, reverse=True)
        return astype(wide, self.dtype)
    dtype = np.float64 if self.dtype == np.float32 else None
    return _running(np.add, self, axis, dtype, reverse=True)


def cumprod(self: Array, dim: int, dtype: DType | None) -> Array:
    """Running products along `dim`."""
    found = _accumulate("cumprod", np.multiply, self, dim, dtype, wide=False)
    native = found.dtype.char in NATIVE and found.dtype == self.dtype and self.ndim
    if native and products.may_be_lost(found, self, (dim % self.ndim,)):
        return products.running_product(self, dim)
    return found


def logcumsumexp(self: Array, dim: int) -> Array:
    """log of the running sums of exp, never leaving the log scale: no overflow, ±inf right."""
    axis = wrap_dim("logcumsumexp", dim, self.ndim)
    x = self
    if self.dtype.char not in "dfDF":
        x = self.astype(DEFAULT.dtype.np)
    if x.ndim == 0:
        result = copied(x)
    elif x.dtype.kind == "c":
        result = _complex_logcumsumexp(x, axis)
    else:
        result = ordering.running_logarithms(x, axis)
        if result is None:
            with np.errstate(all="ignore"):
                result = np.logaddexp.accumulate(x, axis=axis)
    return result


def _complex_logcumsumexp(x: Array, axis: int) -> Array:
    """logcumsumexp of complex numbers, step by step: top + log(1 + exp(low - top)).

    `top` is the term with the larger real part. The imaginary part is continuous along the sum, and
    not brought back to (-π, π], as in PyTorch.
    """
    result = np.empty(x.shape, x.dtype)
    steps, out = np.moveaxis(x, axis, 0), np.moveaxis(result, axis, 0)
    with np.errstate(all="ignore"):
        for k, term in enumerate(steps):
            if k == 0:
                out[0] = term
                continue
            larger = out[k - 1].real > term.real
            top, low = np.where(larger, out[k - 1], term), np.where(larger, term, out[k - 1])
            grown = top + np.log1p(np.exp(low - top))
            infinite = np.isinf(top.real) & (top.real == low.real)
            out[k] = np.where(infinite, top, grown)
    return result


def cummax(self: Array, dim: int) -> tuple[Array, Array]:
    """Running maxima along `dim`, and where the latest one stands."""
    return _running_extremum("cummax", np.maximum, self, dim)


def cummin(self: Array, dim: int) -> tuple[Array, Array]:
    """Running minima along `dim`, and where the latest one stands."""
    return _running_extremum("cummin", np.minimum, self, dim)


def _running_extremum(what: str, ufunc: np.ufunc, self: Array, dim: int) -> tuple[Array, Array]:
    check_ordered(what, dtypes.of(self.dtype))
    axis = wrap_dim(what, dim, self.ndim)
    if self.ndim == 0:
        return copied(self), np.zeros((), np.int64)
    found = rows.extremes(self, axis, least=ufunc is np.minimum)
    if found is not None:
        return found
    values = accumulate(ufunc, self, axis)
    # an element that equals the running extremum (or is NaN, which wins) is the latest one
    latest = self == values
    if self.dtype.kind not in "biu":
        latest |= np.isnan(self)
    positions = np.arange(self.shape[axis]).reshape((-1,) + (1,) * (self.ndim - 1 - axis))
    return values, accumulate(np.maximum, np.where(latest, positions, 0), axis)


def shift(self: Array, dim: int, by: int, fill: complex) -> Array:
    """self[k - by] along `dim`, with `fill` where there is no such element."""
    result = np.empty(self.shape, self.dtype)
    if self.ndim == 0:
        result[...] = fill if by else self
        return result
    axis = wrap_dim("_shift", dim, self.ndim)
    source, target = self.swapaxes(axis, 0), result.swapaxes(axis, 0)
    if by >= 0:
        target[:by] = fill
        target[by:] = source[: max(len(source) - by, 0)]
    else:
        target[by:] = fill
        target[:by] = source[-by:]
    return result


def linear_recurrence(a: Array, b: Array, dim: int, reverse: bool) -> Array:
    """y[k] = a[k] y[k-1] + b[k] along `dim` (y[k] = a[k] y[k+1] + b[k] if `reverse`).

    Takes as many Python steps as there are rows or columns, whichever are fewer: across rows by
    whole-array steps, along one row as a triangular solve with two bands.
    """
    dtype = b.dtype
    kind = wide_dtype(dtype)
    a, b = np.broadcast_arrays(a, b)
    if b.ndim == 0 or b.size == 0:
        return b.copy()
    axis = wrap_dim("_linear_recurrence", dim, b.ndim)
    steps, weights = np.moveaxis(b, axis, -1), np.moveaxis(a, axis, -1)
    if reverse:
        steps, weights = steps[..., ::-1], weights[..., ::-1]
    length = steps.shape[-1]
    flat_b = steps.reshape(-1, length).astype(kind, copy=False)
    flat_a = weights.reshape(-1, length).astype(kind, copy=False)
    solve = _along_rows if len(flat_b) < length and kind.char in "fdFD" else _across_rows
    result = solve(flat_a, flat_b).reshape(steps.shape)
    if reverse:
        result = result[..., ::-1]
    result = np.moveaxis(result, -1, axis)
    return cast(result, dtypes.of(dtype)) if dtype in REDUCED else np.ascontiguousarray(result)


def _across_rows(a: Array, b: Array) -> Array:
    a, b = np.ascontiguousarray(a.T), np.ascontiguousarray(b.T)  # a step is a row of memory
    result = np.empty(b.shape, b.dtype)
    result[:1] = b[:1]
    with np.errstate(all="ignore"):
        for k in range(1, len(b)):
            np.multiply(a[k], result[k - 1], out=result[k])
            result[k] += b[k]
    return result.T


def _along_rows(a: Array, b: Array) -> Array:
    (solve,) = linalg.get_blas_funcs(("tbsv",), dtype=b.dtype)
    bands = np.ones((2, b.shape[1]), b.dtype, order="F")
    result = np.empty(b.shape, b.dtype)
    for row, (weights, right) in enumerate(zip(a, b, strict=True)):
        bands[1, :-1] = -weights[1:]
        result[row] = solve(1, bands, right, lower=1, diag=1)
    return result
