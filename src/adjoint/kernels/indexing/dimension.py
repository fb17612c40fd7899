"""One vector of indices along one dimension: index_select, index_add, index_copy, index_fill.

Arrays are seen as (outer, size, inner): the dimensions before `dim`, `dim` itself, those after it.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from adjoint.c_kernels import indexing as native
from adjoint.c_kernels.copies import contiguous_if_large, copied, zeros
from adjoint.checks.indexing import (
    check_alpha,
    check_scalar_tensor,
    check_source,
    check_vector,
    sized,
)
from adjoint.core import dtypes
from adjoint.core.errors import ShapeError
from adjoint.kernels.halves import wide_dtype
from adjoint.kernels.indexing.accumulate import (
    add_rows,
    fit,
    in_bounds,
    narrowed,
    wide,
    wrapped,
)

Array = np.ndarray[Any, Any]
Ints = tuple[int, ...]


def _split(shape: Ints, dim: int) -> tuple[int, int, int]:
    return math.prod(shape[:dim]), shape[dim], math.prod(shape[dim + 1 :])


def index_select(self: Array, dim: int, index: Array) -> Array:
    """Return the entries `index` of dimension `dim`, in that order."""
    dim = check_vector("index_select", self, dim, index)
    numbers = in_bounds("index_select", index.reshape(-1), sized(self)[dim], dim)
    if self.ndim == 0:
        if numbers.size != 1:
            raise ShapeError(
                f"index_select: a scalar takes an index of one element, got {numbers.size}."
            )
        return copied(self)
    found = native.select(self, dim, numbers)
    return self.take(numbers, axis=dim) if found is None else found


def index_select_backward(grad: Array, self_sizes: Ints, dim: int, index: Array) -> Array:
    """Return zeros of `self_sizes` to which the entries of `grad` are added at `index` of `dim`."""
    result = zeros(self_sizes, wide_dtype(grad.dtype))
    dim = check_vector("index_select", result, dim, index)
    _add(result, dim, in_bounds("index_select", index.reshape(-1), sized(result)[dim], dim), grad)
    return narrowed(result, grad.dtype)


def index_add(self: Array, dim: int, index: Array, source: Array, alpha: Any) -> Array:
    """Return a copy of `self` to which alpha * source is added at `index` of `dim`."""
    dim = check_source("index_add", self, dim, index, source)
    check_alpha("index_add", self, alpha)
    factor = fit("index_add", self, alpha)
    numbers = in_bounds("index_add", index.reshape(-1), sized(self)[dim], dim)
    result = wide(self)
    addend = source.astype(result.dtype, copy=False)
    with np.errstate(all="ignore"):
        _add(result, dim, numbers, addend if alpha == 1 else addend * factor)
    return narrowed(result, self.dtype)


def _add(result: Array, dim: int, index: Array, source: Array) -> None:
    outer, size, inner = _split(sized(result), dim)
    target, values = result.reshape(outer, size, inner), source.reshape(outer, index.size, inner)
    if outer > 1 and native.add_rows(target, index, contiguous_if_large(values)):
        return
    rows = index
    if outer != 1:
        rows = (np.arange(outer)[:, None] * size + index).reshape(-1)
    if rows.size and inner:
        add_rows(result.reshape(outer * size, inner), rows, source.reshape(rows.size, inner))


def index_copy(self: Array, dim: int, index: Array, source: Array) -> Array:
    """Return a copy of `self` with `source` at `index` of `dim`; the last write wins."""
    dim = check_source("index_copy", self, dim, index, source)
    numbers = in_bounds("index_copy", index.reshape(-1), sized(self)[dim], dim)
    result = copied(self)
    outer, size, inner = _split(sized(self), dim)
    result.reshape(outer, size, inner)[:, numbers] = source.reshape(outer, numbers.size, inner)
    return result


def index_fill(self: Array, dim: int, index: Array, value: Any) -> Array:
    """Return a copy of `self` with the number `value` at `index` of `dim`."""
    return _fill(self, dim, index, fit("index_fill", self, value))


def index_fill_tensor(self: Array, dim: int, index: Array, value: Array) -> Array:
    """Return a copy of `self` with the 0-d `value` at `index` of `dim`."""
    check_scalar_tensor("index_fill", value)
    number = value.astype(self.dtype) if value.dtype in dtypes.REDUCED else value.item()
    if not isinstance(number, np.ndarray):
        number = fit("index_fill", self, number)
    return _fill(self, dim, index, number)


def _fill(self: Array, dim: int, index: Array, value: Any) -> Array:
    dim = check_vector("index_fill", self, dim, index)
    numbers = wrapped("index_fill", index.reshape(-1), sized(self)[dim], dim)
    result = copied(self)
    result.reshape(_split(sized(self), dim))[:, numbers] = value
    return result
