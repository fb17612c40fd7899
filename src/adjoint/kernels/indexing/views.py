"""Views by select, slice, diagonal and strides; their transposes; and writing through them."""

from __future__ import annotations

from typing import Any

import numpy as np

from adjoint.c_kernels.copies import copied, write, zeros
from adjoint.checks.indexing import (
    check_has_dims,
    check_replacement,
    check_strided,
    diagonal_dims,
    slice_bounds,
    wrap_index,
)
from adjoint.core.promotion import parts_for
from adjoint.core.shapes import wrap_dim
from adjoint.core.storage import (
    offset_in_elements,
    storage_of,
    strided_view,
    strides_in_elements,
)

Array = np.ndarray[Any, Any]
Ints = tuple[int, ...]

_WHOLE = tuple((slice(None),) * n for n in range(65))  # NumPy has at most 64 dimensions


def select(self: Array, dim: int, index: int) -> Array:
    """Return the view at `index` of dimension `dim`."""
    try:
        # The ellipsis makes a 0-d array, and not a NumPy scalar, of an element.
        return self[(*_WHOLE[dim if dim >= 0 else dim + self.ndim], index, ...)]
    except IndexError:
        check_has_dims("select", self)
        dim = wrap_dim("select", dim, self.ndim)
        wrap_index("select", index, self.shape[dim], dim)
        raise


def slice_(self: Array, dim: int, start: int | None, end: int | None, step: int) -> Array:
    """Return the view of every `step`-th element from `start` to before `end` of `dim`."""
    check_has_dims("slice", self)
    dim = wrap_dim("slice", dim, self.ndim)
    if step < 1:
        slice_bounds("slice", self.shape[dim], start, end, step)  # says why
    return self[(*_WHOLE[dim], slice(start, end, step))]


def diagonal(self: Array, offset: int, dim1: int, dim2: int) -> Array:
    """Return the view of a diagonal of two dimensions, as the last dimension."""
    first, second = diagonal_dims("diagonal", self.ndim, dim1, dim2)
    view = self.diagonal(offset, first, second)
    if self.flags.writeable:
        view.flags.writeable = True  # NumPy's diagonals are read-only by default
    return view


def as_strided(self: Array, size: Ints, stride: Ints, storage_offset: int | None) -> Array:
    """Return the view of the memory behind `self` with that geometry."""
    flat, own = storage_of(self)
    offset = own if storage_offset is None else storage_offset
    check_strided("as_strided", size, stride, offset, flat.size)
    return strided_view(self, size, stride, offset)


def slice_inverse(
    self: Array, src: Array, dim: int, start: int | None, end: int | None, step: int
) -> Array:
    """Return the tensor of which `self` is a slice: its memory with the geometry of `src`."""
    offset, strides = offset_in_elements(src), strides_in_elements(src)
    check_strided("slice_inverse", src.shape, strides, offset, storage_of(self)[0].size)
    return strided_view(self, src.shape, strides, offset)


def select_backward(grad_output: Array, input_sizes: Ints, dim: int, index: int) -> Array:
    """Return zeros with `grad_output` at `index` of `dim`."""
    result = zeros(input_sizes, grad_output.dtype)
    _fill("select_backward", select(result, dim, index), grad_output)
    return result


def slice_backward(
    grad_output: Array, input_sizes: Ints, dim: int, start: int, end: int, step: int
) -> Array:
    """Return zeros with `grad_output` in the slice."""
    result = zeros(input_sizes, grad_output.dtype)
    _fill("slice_backward", slice_(result, dim, start, end, step), grad_output)
    return result


def diagonal_backward(
    grad_output: Array, input_sizes: Ints, offset: int, dim1: int, dim2: int
) -> Array:
    """Return zeros with `grad_output` in the diagonal."""
    result = zeros(input_sizes, grad_output.dtype)
    _fill("diagonal_backward", diagonal(result, offset, dim1, dim2), grad_output)
    return result


def _fill(what: str, part: Array, grad_output: Array) -> None:
    check_replacement(what, grad_output, part.shape)
    write(part, grad_output)


def _write(what: str, part: Array, src: Array) -> None:
    check_replacement(what, src, part.shape)
    write(part, parts_for(src, part.dtype))  # converted as `copy_` does


def select_scatter(self: Array, src: Array, dim: int, index: int) -> Array:
    """Return a copy of `self` with `src` at `index` of `dim`."""
    result = copied(self)
    _write("select_scatter", select(result, dim, index), src)
    return result


def slice_scatter(
    self: Array, src: Array, dim: int, start: int | None, end: int | None, step: int
) -> Array:
    """Return a copy of `self` with `src` in the slice."""
    result = copied(self)
    _write("slice_scatter", slice_(result, dim, start, end, step), src)
    return result


def diagonal_scatter(self: Array, src: Array, offset: int, dim1: int, dim2: int) -> Array:
    """Return a copy of `self` with `src` in the diagonal."""
    result = copied(self)
    _write("diagonal_scatter", diagonal(result, offset, dim1, dim2), src)
    return result


def as_strided_scatter(
    self: Array, src: Array, size: Ints, stride: Ints, storage_offset: int | None
) -> Array:
    """Return a copy of `self`, its memory included, with `src` written through the strides.

    Where the strides meet in one element the last write wins; NumPy does not promise an order for
    such views, so the elements are written one list of places at a time.
    """
    flat, own = storage_of(self)
    offset = own if storage_offset is None else storage_offset
    check_strided("as_strided_scatter", size, stride, offset, flat.size)
    check_replacement("as_strided_scatter", src, size)
    memory = copied(flat)
    numbers = parts_for(src, self.dtype).reshape(-1)
    memory[places(size, stride, offset).reshape(-1)] = numbers
    return strided_view(memory, self.shape, strides_in_elements(self), own)


def places(size: Ints, stride: Ints, offset: int) -> Array:
    """Return for every element of that geometry its place in the storage."""
    result = np.full(size, offset, np.int64)
    for dim, step in enumerate(stride):
        line = np.arange(size[dim]) * step
        result += line.reshape((-1,) + (1,) * (len(size) - dim - 1))
    return result
