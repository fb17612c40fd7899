"""Sums, means and products over dimensions, and the transpose of a sum.

A kernel first tries the one NumPy call that does the work on float32, float64 and complex arrays,
and goes the long way only when that call refuses or the dtype needs care: integers accumulate
in int64, float16 and bfloat16 in float32 (rounded once, at the end).
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np

from adjoint.c_kernels import reduction as native
from adjoint.c_kernels import rows
from adjoint.c_kernels.conversions import astype
from adjoint.core import dtypes
from adjoint.core.dtypes import REDUCED, DType
from adjoint.core.errors import DtypeError
from adjoint.core.promotion import cast, parts_for
from adjoint.core.shapes import Shape, wrap_dims
from adjoint.kernels.reduction import products
from adjoint.kernels.reduction.common import NATIVE, Array, Dims, narrowed, widened
from adjoint.kernels.reduction.large import LARGE, at_once, reduce, total, whole_total
from adjoint.loops.element_loops import Loops


def _accumulate(
    what: str, ufunc: np.ufunc, self: Array, dim: Dims, keepdim: bool, dtype: DType | None
) -> Array:
    """Reduce with `ufunc`, in the dtype that PyTorch accumulates in."""
    axes = wrap_dims(what, dim, self.ndim)
    if dtype is not None and self.dtype != dtype.np:
        self = cast(self, dtype)
    if dtype is None and self.dtype.kind == "b" and ufunc is np.add and len(axes) == self.ndim:
        return np.asarray(np.count_nonzero(self)).reshape((1,) * self.ndim * keepdim)
    if dtype is None and self.dtype.kind in "biu":
        found = whole_total(self, axes, keepdim) if ufunc is np.add else None
        if found is not None:
            return found
        return ufunc.reduce(self, axis=axes, dtype=np.int64, keepdims=keepdim)
    if self.dtype in REDUCED:
        return narrowed(reduce(ufunc, widened(self), axes, keepdim), self)
    return ufunc.reduce(self, axis=axes, dtype=self.dtype, keepdims=keepdim)


def sum_all(self: Array, dtype: DType | None) -> Array:
    """The sum of all elements."""
    if (dtype is None or dtype.np == self.dtype) and self.dtype.char in NATIVE:
        return np.add.reduce(self, axis=None) if self.size < LARGE else total(self, None, False)
    return _accumulate("sum", np.add, self, None, False, dtype)


def sum_dims(self: Array, dim: Dims, keepdim: bool, dtype: DType | None) -> Array:
    """The sum over `dim`."""
    if (dtype is None or dtype.np == self.dtype) and self.dtype.char in NATIVE:
        try:
            if self.size < LARGE:
                return np.add.reduce(self, axis=dim or None, keepdims=keepdim)
            return total(self, dim or None, keepdim)
        except ValueError:  # a scalar with a dimension, or a bad one
            pass
    return _accumulate("sum", np.add, self, dim, keepdim, dtype)


_WITHOUT_NAN = Loops("x == x ? x : 0", "x")


def nansum(self: Array, dim: Dims, keepdim: bool, dtype: DType | None) -> Array:
    """The sum over `dim`, NaN counting as zero."""
    if self.dtype.kind not in "biu":
        found = at_once(native.PRESENT, self, dim or None, keepdim) if dtype is None else None
        if found is not None:
            return found
        found = _WITHOUT_NAN(self)
        self = np.where(np.isnan(self), self.dtype.type(0), self) if found is None else found
    return sum_dims(self, dim, keepdim, dtype)


def mean_all(self: Array, dtype: DType | None) -> Array:
    """The mean of all elements."""
    if dtype is None and self.dtype.char in NATIVE and self.size:
        return total(self, None, False) / self.size
    return _mean(self, None, False, dtype)


def mean_dims(self: Array, dim: Dims, keepdim: bool, dtype: DType | None) -> Array:
    """The mean over `dim`."""
    if dtype is None and self.dtype.char in NATIVE and self.size:
        try:
            sums = total(self, dim or None, keepdim)
        except ValueError:
            return _mean(self, dim, keepdim, dtype)
        return sums / (self.size // sums.size)
    return _mean(self, dim, keepdim, dtype)


def _mean(self: Array, dim: Dims, keepdim: bool, dtype: DType | None) -> Array:
    axes = wrap_dims("mean", dim, self.ndim)
    wanted = dtypes.of(self.dtype) if dtype is None else dtype
    if not wanted.is_differentiable:
        raise DtypeError(
            f"mean: needs a floating point or complex dtype, got {wanted}; say x.float().mean() "
            "or mean(x, dtype=ad.float32)"
        )
    wide = wanted.wide
    if self.dtype != wide.np:
        self = astype(parts_for(self, wide.np), wide.np)
    sums = total(self, axes, keepdim)
    count = math.prod(self.shape[a] for a in axes)
    result = sums / count if count else np.full_like(sums, np.nan)
    return cast(result, wanted) if wide is not wanted else result


def prod_all(self: Array, dtype: DType | None) -> Array:
    """The product of all elements."""
    if dtype is None and self.dtype.char in NATIVE:
        found = np.asarray(reduce(np.multiply, self, None, False))
        axes = tuple(range(self.ndim))
        if products.may_be_lost(found, self, axes):
            return products.product(self, axes, False)
        return found
    return _accumulate("prod", np.multiply, self, None, False, dtype)


def other_factors(self: Array, dim: int | None) -> Array:
    """The product of all other elements along `dim` (None: of all), exact with zeros."""
    if self.size >= LARGE and self.dtype.char in NATIVE:
        product = reduce(np.multiply, self, None if dim is None else (dim,), True)
        size = np.abs(product)
        limits = np.finfo(size.dtype)
        if ((size > limits.tiny / limits.eps) & (size <= limits.max)).all():  # so no factor is 0
            return product / self
    if self.size >= LARGE and self.dtype.char in NATIVE:
        found = (
            _other_factors(self.reshape(-1), 0)
            if dim is None
            else _other_factors(self, dim % self.ndim)
        )
        if found is not None:
            return found.reshape(self.shape)
    x = self.reshape(-1, 1) if dim is None or self.ndim == 0 else self.swapaxes(dim, 0)
    before = np.ones(x.shape, x.dtype)
    after = np.ones(x.shape, x.dtype)
    if len(x) > 1:
        np.multiply.accumulate(x[:-1], axis=0, out=before[1:])
        np.multiply.accumulate(x[:0:-1], axis=0, out=after[-2::-1])
    before *= after
    if x.dtype.char in NATIVE and len(x) > 2 and products.may_be_lost(before, x, (0,)):
        before = products.products_of_others(x)
    result = (
        before.reshape(self.shape) if dim is None or self.ndim == 0 else before.swapaxes(dim, 0)
    )
    return result.astype(self.dtype, copy=False)


def _other_factors(x: Array, axis: int) -> Array | None:
    """The product of the elements before each element times that of those after it, by native code
    if there is any.
    """
    before = rows.running(x, axis, product=True, reverse=False)
    after = rows.running(x, axis, product=True, reverse=True)
    if before is None or after is None:
        return None
    result = np.ones(x.shape, x.dtype)
    first, last = ((*[slice(None)] * axis, part) for part in (slice(None, -1), slice(1, None)))
    result[last] = before[first]
    result[first] *= after[last]
    if products.may_be_lost(result, x, (axis,)):
        return np.moveaxis(products.products_of_others(np.moveaxis(x, axis, 0)), 0, axis)
    return result


def prod_dim(self: Array, dim: int, keepdim: bool, dtype: DType | None) -> Array:
    """The product over one dimension."""
    if dtype is None and self.dtype.char in NATIVE and -self.ndim <= dim < self.ndim:
        found = np.asarray(reduce(np.multiply, self, (dim,), keepdim))
        axes = (dim % self.ndim,)
        if products.may_be_lost(found, self, axes):
            return products.product(self, axes, keepdim)
        return found
    return _accumulate("prod", np.multiply, self, (dim,), keepdim, dtype)


def unreduce(grad: Array, dim: Dims, shape: tuple[int, ...], keepdim: bool) -> Array:
    """View what is left after reducing `shape` over `dim` as an array of that shape again.

    The transpose of a sum: reduced dimensions are put back and repeated. The view is made from
    strides directly where the memory allows it: `np.broadcast_to` costs ten times as much.
    """
    if not grad.flags.c_contiguous or not grad.size:
        return _unreduce_strided(grad, dim, shape, keepdim)
    strides = _spread(grad.shape, grad.strides, dim, shape, keepdim)
    view: Array = np.ndarray(shape, grad.dtype, grad, 0, strides)
    view.flags.writeable = False  # several elements share one place
    return view


@lru_cache(maxsize=1024)
def _spread(kept: Shape, steps: Shape, dim: Dims, shape: Shape, keepdim: bool) -> Shape:
    """The steps of an array, 0 along the dimensions that it is repeated along."""
    if len(kept) == len(shape) or keepdim:
        return tuple(0 if n == 1 else step for n, step in zip(kept, steps, strict=True))
    if not dim or not kept:
        return (0,) * len(shape)
    gone = {d % len(shape) for d in dim}
    left = iter(steps)
    return tuple(0 if i in gone else next(left) for i in range(len(shape)))


def _unreduce_strided(grad: Array, dim: Dims, shape: tuple[int, ...], keepdim: bool) -> Array:
    """`unreduce` of an array with gaps, or without elements; NumPy checks that the sizes fit."""
    if grad.ndim < len(shape) and not keepdim:
        gone = {d % len(shape) for d in dim or range(len(shape))}
        grad = grad.reshape(tuple(1 if i in gone else n for i, n in enumerate(shape)))
    return np.broadcast_to(grad, shape)
