"""Selecting by truth: where, masked_fill, masked_select, masked_scatter, nonzero, one_hot."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from adjoint.c_kernels.copies import zeros
from adjoint.checks.indexing import (
    check_integers,
    check_mask,
    check_same_dtype,
    check_scalar_tensor,
)
from adjoint.core import dtypes
from adjoint.core.choosing import choose
from adjoint.core.errors import DtypeError, IndexOutOfRange, ShapeError, ValueRangeError
from adjoint.core.promotion import cast, result_type
from adjoint.core.shapes import broadcast, show
from adjoint.kernels.indexing.accumulate import fit

Array = np.ndarray[Any, Any]
_MANY = 4096  # elements from which NumPy is slower by a mask than by places
Ints = tuple[int, ...]


def _truth(what: str, condition: Array) -> Array:
    if condition.dtype == np.uint8:  # the masks of old, as PyTorch still takes them here
        return condition.astype(np.bool_)
    if condition.dtype != np.bool_:
        raise DtypeError(
            f"{what}: the condition must be boolean, got {condition.dtype}; "
            "compare it (condition != 0) first."
        )
    return condition


def where(condition: Array, self: Any, other: Any) -> Array:
    """Return `self` where the condition holds, else `other`: arrays of one dtype, or a number."""
    condition = _truth("where", condition)
    dtype = (self if isinstance(self, np.ndarray) else other).dtype
    return choose(condition, np.asarray(self, dtype), np.asarray(other, dtype))


def trusted(condition: Array, self: Array) -> Array:
    """A copy of `self`; eager code has looked at the condition."""
    return np.broadcast_to(self, np.broadcast_shapes(condition.shape, self.shape)).copy()


def where_scalars(condition: Array, self: Any, other: Any) -> Array:
    """Return one of two numbers per element of the condition."""
    dtype = result_type(self, other).np
    return np.where(_truth("where", condition), np.asarray(self, dtype), np.asarray(other, dtype))


def _fill(self: Array, mask: Array, value: Any) -> Array:
    check_mask("masked_fill", mask)
    if mask.shape != self.shape:
        broadcast("masked_fill", self.shape, mask.shape)
    return choose(mask, np.asarray(value, self.dtype), self)


def masked_fill(self: Array, mask: Array, value: Any) -> Array:
    """Return `self` with the number `value` where the mask is True."""
    return _fill(self, mask, np.asarray(fit("masked_fill", self, value), self.dtype))


def masked_fill_tensor(self: Array, mask: Array, value: Array) -> Array:
    """Return `self` with the 0-d `value` where the mask is True."""
    check_scalar_tensor("masked_fill", value)
    if value.dtype.kind == "c" and self.dtype.kind != "c":
        raise DtypeError(f"masked_fill: the {value.dtype} value does not fit dtype {self.dtype}.")
    return _fill(self, mask, cast(value, dtypes.of(self.dtype)))


def masked_select(self: Array, mask: Array) -> Array:
    """Return the elements where the mask is True, as a vector."""
    check_mask("masked_select", mask)
    if self.shape == mask.shape and self.ndim:
        return chosen(self, mask)
    shape = broadcast("masked_select", self.shape, mask.shape)
    if not shape:
        return self.reshape(1)[mask.reshape(1)]
    return np.broadcast_to(self, shape)[np.broadcast_to(mask, shape)]


def chosen(self: Array, mask: Array) -> Array:
    """`self[mask]` for a mask of the same shape, several times faster where there are many."""
    if self.size < _MANY or not (self.flags.c_contiguous and mask.flags.c_contiguous):
        return self[mask]
    return self.reshape(-1).compress(mask.reshape(-1))


def masked_scatter(self: Array, mask: Array, source: Array) -> Array:
    """Return `self` with the elements of `source`, in order, where the mask is True."""
    check_mask("masked_scatter", mask)
    check_same_dtype("masked_scatter", self, source, "source")
    shape = broadcast("masked_scatter", self.shape, mask.shape)
    result = np.array(np.broadcast_to(self, shape), order="C")
    full = np.broadcast_to(mask, shape)
    count = int(np.count_nonzero(full))
    if count > source.size:
        raise ShapeError(
            f"masked_scatter: the mask has {count} True elements, source only {source.size}."
        )
    result.reshape(-1)[np.flatnonzero(full)] = source.reshape(-1)[:count]
    return result


def masked_scatter_backward(grad_output: Array, mask: Array, sizes: Ints) -> Array:
    """Return the elements of `grad_output` where the mask is True, then zeros, in `sizes`."""
    full = np.broadcast_to(mask, broadcast("masked_scatter", grad_output.shape, mask.shape))
    taken = chosen(np.broadcast_to(grad_output, full.shape), full)
    if taken.size > math.prod(sizes):
        raise ShapeError(
            f"masked_scatter_backward: {taken.size} chosen elements do not fit into {show(sizes)}."
        )
    result = np.zeros(math.prod(sizes), grad_output.dtype)
    result[: taken.size] = taken
    return result.reshape(sizes)


def nonzero(self: Array) -> Array:
    """Return the indices of the nonzero elements, one row each."""
    truth = self if self.dtype == np.bool_ else self != 0
    if self.ndim == 0:
        return np.empty((int(bool(truth)), 0), np.int64)
    return np.stack(truth.nonzero(), axis=1)


def nonzero_static(self: Array, size: int, fill_value: int) -> Array:
    """Return `size` rows of `nonzero`: cut short, or filled up with `fill_value`."""
    if size < 0:
        raise ValueRangeError(f"nonzero_static: size must not be negative, got {size}.")
    found = nonzero(self)[:size]
    result = np.full((size, self.ndim), fill_value, np.int64)
    result[: len(found)] = found
    return result


def one_hot(self: Array, num_classes: int) -> Array:
    """Return the rows of the identity matrix numbered by `self`."""
    check_integers("one_hot", self)
    if self.size == 0 and num_classes <= 0:
        raise ValueRangeError("one_hot: an empty tensor does not tell num_classes; give it.")
    if self.size and self.min() < 0:
        raise IndexOutOfRange(f"one_hot: classes must not be negative, got {int(self.min())}.")
    if num_classes < -1:
        raise ValueRangeError(f"one_hot: num_classes must be positive or -1, got {num_classes}.")
    largest = int(self.max()) if self.size else -1
    count = largest + 1 if num_classes == -1 else num_classes
    if largest >= count:
        raise IndexOutOfRange(f"one_hot: class {largest} is out of range for {count} classes.")
    result = zeros((self.size, count), np.int64)
    result[np.arange(self.size), self.reshape(-1)] = 1
    return result.reshape((*self.shape, count))
