"""Sums and softmax of sparse tensors. Elements that are not stored are 0 in a sum; in a softmax
they count for nothing.
"""

from __future__ import annotations

from typing import Any

from adjoint import ops
from adjoint.core import dtypes
from adjoint.core.dtypes import DType
from adjoint.core.shapes import wrap_dims
from adjoint.decompositions.sparse.common import (
    assemble,
    coalesced,
    entries,
    index,
    moved,
    pattern_of,
    rebuilt,
)
from adjoint.decompositions.sparse.making import mask
from adjoint.structures import patterns

Tensor = Any


def total(self: Tensor, dtype: DType | None) -> Tensor:
    """The sum of all elements."""
    return self.stored.sum(dtype=dtype)


def sum_dims(
    self: Tensor, dim: tuple[int, ...] | None, keepdim: bool, dtype: DType | None
) -> Tensor:
    """The sum over dimensions: sparse, unless all sparse dimensions are summed over."""
    pattern = self.companion
    count = len(pattern.sparse_shape)
    dims = wrap_dims("sum", dim or None, self.ndim)
    values = entries(self)
    inner = tuple(d - count + 1 for d in dims if d >= count)
    values = values.sum(inner, keepdim=keepdim, dtype=dtype) if inner else values
    values = values.to(dtype) if dtype is not None else _summable(values)
    kept = tuple(d for d in range(count) if d not in dims)
    if not kept:
        found = values.sum(0)
        return found.reshape((*(1,) * count, *found.shape)) if keepdim else found
    if len(kept) == count:
        return _in_layout(pattern, (*pattern.sparse_shape, *values.shape[1:]), None, values)
    coordinates, groups = patterns.grouped(pattern, kept)
    sums = moved(values, groups, coordinates.shape[1])
    if keepdim:
        coordinates = patterns.with_zeros(coordinates, kept, count)
        sizes = tuple(1 if d in dims else pattern.shape[d] for d in range(count))
    else:
        sizes = tuple(pattern.shape[d] for d in kept)
    shape = (*sizes, *values.shape[1:])
    return _in_layout(pattern, shape, coordinates, sums)


def _in_layout(pattern: Any, shape: tuple[int, ...], coordinates: Any, values: Tensor) -> Tensor:
    """A tensor of the layout of a pattern, or COO if it is no matrix any more."""
    found, places = patterns.arranged_as(pattern, shape, values.ndim - 1, coordinates)
    return rebuilt(found, values, places)


def _summable(values: Tensor) -> Tensor:
    """Whole numbers are added as int64."""
    return values if values.dtype.is_differentiable else values.to(dtypes.int64)


def sparse_sum(self: Tensor) -> Tensor:
    """The sum of all elements."""
    pattern_of("sparse.sum", self)
    return total(self, None)


def sparse_sum_dtype(self: Tensor, dtype: DType) -> Tensor:
    """sparse_sum in a dtype."""
    pattern_of("sparse.sum", self)
    return total(self, dtype)


def sparse_sum_dim(self: Tensor, dim: tuple[int, ...]) -> Tensor:
    """The sum over dimensions."""
    pattern_of("sparse.sum", self)
    return sum_dims(self, dim, False, None)


def sparse_sum_dim_dtype(self: Tensor, dim: tuple[int, ...], dtype: DType) -> Tensor:
    """sparse_sum along dimensions in a dtype."""
    pattern_of("sparse.sum", self)
    return sum_dims(self, dim, False, dtype)


# ---- softmax ------------------------------------------------------------------------------------


def softmax(self: Tensor, dim: int, half_to_float: bool) -> Tensor:
    """e^x / Σ e^x over the stored elements along a dimension."""
    return _softmax("softmax", self, dim, dtypes.float32 if half_to_float else None, log=False)


def log_softmax(self: Tensor, dim: int, half_to_float: bool) -> Tensor:
    """x - log Σ e^x over the stored elements along a dimension."""
    return _softmax("log_softmax", self, dim, dtypes.float32 if half_to_float else None, log=True)


def softmax_int(self: Tensor, dim: int, dtype: DType | None) -> Tensor:
    """softmax in a dtype."""
    return _softmax("softmax", self, dim, dtype, log=False)


def log_softmax_int(self: Tensor, dim: int, dtype: DType | None) -> Tensor:
    """log_softmax in a dtype."""
    return _softmax("log_softmax", self, dim, dtype, log=True)


def _softmax(what: str, self: Tensor, dim: int, dtype: DType | None, *, log: bool) -> Tensor:
    pattern_of(what, self)
    self = coalesced(self if dtype is None else self.to(dtype))
    pattern, values = self.companion, entries(self)
    (place,) = wrap_dims(what, (dim,), self.ndim)
    count = len(pattern.sparse_shape)
    if place >= count:
        function = ops.log_softmax if log else ops.softmax
        found = function(values, place - count + 1)
        return assemble(pattern, found.reshape(pattern.values_shape))
    groups, number = _groups(pattern, place)
    shifted = values - _largest(values.detach(), groups, number)
    sums = _spread(shifted.exp(), groups, number)
    found = shifted - sums.log() if log else shifted.exp() / sums
    return assemble(pattern, found.reshape(pattern.values_shape))


def _groups(pattern: Any, dim: int) -> tuple[Any, int]:
    """The number of the slice along `dim` that each entry is in, and how many there are."""
    others = tuple(d for d in range(len(pattern.sparse_shape)) if d != dim)
    coordinates, groups = patterns.grouped(pattern, others)
    return groups, coordinates.shape[1]


def _largest(values: Tensor, groups: Any, number: int) -> Tensor:
    """For each entry the largest value of its slice."""
    places = index(groups)
    room = values.new_full((number, *values.shape[1:]), float("-inf"))
    wide = places.reshape((-1, *(1,) * (values.ndim - 1))).expand(values.shape)
    largest = ops.scatter_reduce(room, 0, wide, values, "amax")
    finite = ops.where(largest == float("-inf"), largest.new_zeros(()), largest)
    return finite.index_select(0, places)


def _spread(values: Tensor, groups: Any, number: int) -> Tensor:
    """For each entry the sum of its slice."""
    places = index(groups)
    room = values.new_zeros((number, *values.shape[1:]))
    return room.index_add(0, places, values).index_select(0, places)


def softmax_backward(grad_output: Tensor, output: Tensor, dim: int, self: Tensor) -> Tensor:
    """y (ȳ - Σ y ȳ)."""
    return _softmax_backward("softmax", grad_output, output, dim, log=False)


def log_softmax_backward(grad_output: Tensor, output: Tensor, dim: int, self: Tensor) -> Tensor:
    """ȳ - e^y Σ ȳ."""
    return _softmax_backward("log_softmax", grad_output, output, dim, log=True)


def _softmax_backward(
    what: str, grad_output: Tensor, output: Tensor, dim: int, *, log: bool
) -> Tensor:
    pattern = pattern_of(f"_sparse_{what}_backward_data", output)
    output = coalesced(output)
    pattern = output.companion
    grad, y = entries(mask(grad_output, output)), entries(output)
    (place,) = wrap_dims(what, (dim,), output.ndim)
    count = len(pattern.sparse_shape)
    weighted = grad if log else y * grad
    if place >= count:
        sums = weighted.sum((place - count + 1,), keepdim=True)
    else:
        sums = _spread(weighted, *_groups(pattern, place))
    found = grad - y.exp() * sums if log else weighted - y * sums
    return assemble(pattern, found.reshape(pattern.values_shape))
