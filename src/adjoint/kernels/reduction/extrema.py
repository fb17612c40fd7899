"""Extrema, where they are, truth values, counts.

NaN wins over every number, and the first of equal elements is the one that counts, as in PyTorch.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from adjoint.c_kernels import selection
from adjoint.c_kernels.conversions import astype
from adjoint.checks.sorting import check_ordered
from adjoint.core.dtypes import REDUCED, of
from adjoint.core.errors import DimensionError, DtypeError, ShapeError, ValueRangeError
from adjoint.core.shapes import Shape, wrap_dims
from adjoint.kernels.halves import wide_dtype
from adjoint.kernels.indexing.scatter import gather_backward
from adjoint.kernels.reduction.common import Array, Dims, narrowed, widened
from adjoint.kernels.reduction.large import LARGE, reduce
from adjoint.kernels.reduction.sums import sum_dims, unreduce
from adjoint.loops import element_loops


def _extremum(what: str, ufunc: np.ufunc, self: Array, dim: Dims, keepdim: bool) -> Array:
    if self.dtype.kind != "c":
        try:
            if self.size < LARGE:
                return ufunc.reduce(self, axis=dim or None, keepdims=keepdim)
            return narrowed(reduce(ufunc, _comparable(self), dim or None, keepdim), self)
        except ValueError:  # a scalar with a dimension, a bad one, or nothing to reduce
            pass
    axes = _ordered_axes(what, self, dim)
    return ufunc.reduce(self, axis=axes, keepdims=keepdim)


def _comparable(self: Array) -> Array:
    """Halves as float32, which has all of them, and which NumPy compares faster."""
    return widened(self) if self.dtype in REDUCED else self


def _ordered_axes(what: str, self: Array, dim: Dims) -> tuple[int, ...]:
    """Return the axes to reduce, or say why an extremum over them does not exist."""
    check_ordered(what, of(self.dtype))
    axes = wrap_dims(what, dim, self.ndim)
    if dim is None or not dim:
        if self.size == 0:
            raise ShapeError(f"{what}: an empty tensor has no extremum; give a non-empty dim")
        return axes
    for axis in axes:
        if self.shape[axis] == 0:
            raise DimensionError(f"{what}: dimension {axis} has size 0, so it has no extremum")
    return axes


def _only_axis(what: str, self: Array, dim: int | None) -> Any:
    """The axis to search along; None for the flattened array, and for a scalar."""
    axes = _ordered_axes(what, self, None if dim is None else (dim,))
    return None if dim is None or not axes else axes[0]


def amax(self: Array, dim: Dims, keepdim: bool) -> Array:
    """The largest element over `dim`; NaN wins."""
    return _extremum("amax", np.maximum, self, dim, keepdim)


def amin(self: Array, dim: Dims, keepdim: bool) -> Array:
    """The smallest element over `dim`; NaN wins."""
    return _extremum("amin", np.minimum, self, dim, keepdim)


def max_all(self: Array) -> Array:
    """The largest element."""
    return _extremum("max", np.maximum, self, None, False)


def min_all(self: Array) -> Array:
    """The smallest element."""
    return _extremum("min", np.minimum, self, None, False)


def max_dim(self: Any, dim: int, keepdim: bool) -> tuple[Array, Array]:
    """The largest elements along `dim` and where they first occur."""
    axis = _only_axis("max", self, dim)
    found = _extremes(self, axis, keepdim, largest=True)
    if found is not None:
        return found
    values = reduce(np.maximum, self, None if axis is None else (axis,), keepdim)
    return values, self.argmax(axis=axis, keepdims=keepdim)


def min_dim(self: Any, dim: int, keepdim: bool) -> tuple[Array, Array]:
    """The smallest elements along `dim` and where they first occur."""
    axis = _only_axis("min", self, dim)
    found = _extremes(self, axis, keepdim, largest=False)
    if found is not None:
        return found
    values = reduce(np.minimum, self, None if axis is None else (axis,), keepdim)
    return values, self.argmin(axis=axis, keepdims=keepdim)


def argmax(self: Array, dim: int | None, keepdim: bool) -> Array:
    """Where the largest element first occurs; in the flattened array if `dim` is None."""
    axis = _only_axis("argmax", self, dim)
    found = _extremes(self, axis, keepdim, largest=True)
    return self.argmax(axis=axis, keepdims=keepdim) if found is None else found[1]


def argmin(self: Array, dim: int | None, keepdim: bool) -> Array:
    """Where the smallest element first occurs; in the flattened array if `dim` is None."""
    axis = _only_axis("argmin", self, dim)
    found = _extremes(self, axis, keepdim, largest=False)
    return self.argmin(axis=axis, keepdims=keepdim) if found is None else found[1]


def unselect(grad: Array, dim: int, indices: Array, sizes: Shape, keepdim: bool) -> Array:
    """Zeros of shape `sizes` with `grad` at `indices` along `dim`."""
    if not sizes:
        return grad.copy()
    if not keepdim:
        place = dim % len(sizes)
        shape = (*sizes[:place], 1, *sizes[place + 1 :])
        grad, indices = grad.reshape(shape), indices.reshape(shape)
    return gather_backward(grad, sizes, dim, indices)


def _extremes(
    self: Array, axis: int | None, keepdim: bool, *, largest: bool
) -> tuple[Array, Array] | None:
    """Extreme elements along an axis and where they first are, by native code if there is some."""
    if axis is None or self.size < selection.LARGE:
        return None
    found = selection.extreme(self, axis, largest=largest)
    if found is None or keepdim:
        return found
    return found[0].squeeze(axis), found[1].squeeze(axis)


def tie_weights(self: Array, result: Array, dim: Dims, keepdim: bool) -> Array:
    """1/k at the k elements that attain the extremum `result`, 0 elsewhere.

    Where the extremum is NaN, the elements that are NaN share it.
    """
    whole = unreduce(np.asarray(result), dim, self.shape, keepdim)
    axes = wrap_dims("amax", dim, self.ndim)
    found = _shares(self, whole, axes)
    if found is not None:
        return found
    mask = self == whole
    count = np.add.reduce(mask, axis=axes, keepdims=True)
    if not np.logical_and.reduce(count, axis=None):
        mask |= np.isnan(self) & np.isnan(whole)
        count = np.add.reduce(mask, axis=axes, keepdims=True)
    wide = wide_dtype(self.dtype)
    return np.divide(mask, count, dtype=wide, casting="unsafe").astype(self.dtype, copy=False)


_EQUAL = element_loops.Loops("(x == most ? 1 : 0)", "x", "most")
_SHARED = element_loops.Loops("x * part", "x", "part")


def _shares(self: Array, whole: Array, axes: Shape) -> Array | None:
    """`tie_weights` of a large array, written twice; None where an extremum is NaN."""
    mask = _EQUAL(self, whole)
    if mask is None:
        return None
    count = reduce(np.add, mask, axes, True)
    return _SHARED(mask, 1 / count, out=mask) if count.all() else None


def _truth(what: str, ufunc: np.ufunc, self: Array, axes: Any, keepdim: bool) -> Array:
    result = ufunc.reduce(self, axis=axes, keepdims=keepdim, dtype=np.bool_)
    return result.astype(np.uint8) if self.dtype == np.uint8 else result  # as PyTorch


def any_all(self: Array) -> Array:
    """Whether any element is true."""
    return _truth("any", np.logical_or, self, None, False)


def any_dim(self: Array, dim: int, keepdim: bool) -> Array:
    """Whether any element along `dim` is true."""
    return _truth("any", np.logical_or, self, wrap_dims("any", dim, self.ndim), keepdim)


def any_dims(self: Array, dim: Dims, keepdim: bool) -> Array:
    """Whether any element over `dim` is true; an empty `dim` reduces nothing, as PyTorch."""
    axes = () if dim == () else wrap_dims("any", dim, self.ndim)
    return _truth("any", np.logical_or, self, axes, keepdim)


def all_all(self: Array) -> Array:
    """Whether all elements are true."""
    return _truth("all", np.logical_and, self, None, False)


def all_dim(self: Array, dim: int, keepdim: bool) -> Array:
    """Whether all elements along `dim` are true."""
    return _truth("all", np.logical_and, self, wrap_dims("all", dim, self.ndim), keepdim)


def all_dims(self: Array, dim: Dims, keepdim: bool) -> Array:
    """Whether all elements over `dim` are true; an empty `dim` reduces nothing, as PyTorch."""
    axes = () if dim == () else wrap_dims("all", dim, self.ndim)
    return _truth("all", np.logical_and, self, axes, keepdim)


def count_nonzero(self: Array, dim: int | Dims) -> Array:
    """The number of elements that are not zero, over `dim`."""
    axes = wrap_dims("count_nonzero", dim, self.ndim)
    if self.size < LARGE:
        return np.add.reduce(self != 0, axis=axes, dtype=np.int64)
    return sum_dims(astype(self, np.bool_, copy=False), axes, False, None)


def hash_tensor(self: Array, dim: Dims, keepdim: bool, mode: int) -> Array:
    """The exclusive or of the bits of all elements, integers as int64 and floats as float64."""
    if mode != 0:
        raise ValueRangeError(f"hash_tensor: mode 0 (exclusive or) is the only one, got {mode}")
    if self.dtype.kind == "c":
        raise DtypeError("hash_tensor: complex tensors have no hash; use view_as_real(x)")
    axes = _ordered_axes("hash_tensor", self, dim)
    wide = np.int64 if self.dtype.kind in "biu" else np.float64
    return np.bitwise_xor.reduce(self.astype(wide).view(np.uint64), axis=axes, keepdims=keepdim)
