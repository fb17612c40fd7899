"""Views: the result shares memory with `self` and has the strides that PyTorch would give.

Strides are never negative. A view in which one element stands for several (`expand`, overlapping
`unfold`) is read-only, so that a write through it fails instead of changing elements unasked.
`reshape` alone may copy; then the result owns its memory, which tells the engine it is no view.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided

from adjoint.checks import shape as layout
from adjoint.core.errors import ShapeError
from adjoint.core.shapes import Shape, infer_size, show, wrap_dim
from adjoint.core.storage import strides_in_elements

Array = np.ndarray[Any, Any]


def strided(self: Array, shape: Shape, strides: Shape, *, writeable: bool = True) -> Array:
    """Return a view of `self` from its first element on, strides in bytes."""
    if self.flags.c_contiguous and self.size:  # as as_strided, in a tenth of the time
        result: Array = np.ndarray(shape, self.dtype, self, 0, strides)
        if not writeable:
            result.flags.writeable = False
        return result
    return as_strided(self, shape, strides, writeable=writeable)


def alias(self: Array) -> Array:
    """Return all of `self`."""
    return self.view()


def view(self: Array, size: Shape) -> Array:
    """Return `self` with another shape, or raise where that would take a copy."""
    if self.flags.c_contiguous and min(size, default=0) >= -1:
        try:
            return self.reshape(size)
        except ValueError:
            pass  # `infer_size` says why
    wanted = infer_size("view", size, self.size)
    try:
        return self.reshape(wanted, copy=False)
    except ValueError:
        raise ShapeError(
            f"view: a {show(self.shape)} tensor with strides {strides_in_elements(self)} cannot be "
            f"seen as {show(wanted)} without a copy, because a dimension would span two that are "
            "not adjacent in memory. Use reshape(...), which copies when it must."
        ) from None


def reshape(self: Array, shape: Shape) -> Array:
    """Return `self` with another shape: a view where strides allow it, else a copy."""
    if self.flags.c_contiguous and min(shape, default=0) >= -1:
        try:
            return self.reshape(shape)
        except ValueError:
            pass  # `infer_size` says why
    wanted = infer_size("reshape", shape, self.size)
    try:
        return self.reshape(wanted, copy=False)
    except ValueError:
        result: Array = np.empty(wanted, self.dtype)  # owns its memory: see the top of the file
        result.reshape(self.shape)[...] = self
        return result


def reshape_alias(self: Array, size: Shape, stride: Shape) -> Array:
    """Return `self` with another shape; `stride` follows from it, and is never trusted."""
    return view(self, size)


def squeeze(self: Array) -> Array:
    """Drop every dimension of size 1."""
    return self.squeeze()


def squeeze_dim(self: Array, dim: int) -> Array:
    """Drop dimension `dim` if its size is 1."""
    dim = wrap_dim("squeeze", dim, self.ndim)
    return self.squeeze(dim) if self.ndim and self.shape[dim] == 1 else self.view()


def squeeze_dims(self: Array, dim: Shape) -> Array:
    """Drop those of the dimensions `dim` whose size is 1."""
    return self.reshape(layout.squeezed("squeeze", self.shape, dim))


def unsqueeze(self: Array, dim: int) -> Array:
    """Insert a dimension of size 1 at `dim`."""
    at = layout.wrap_insert("unsqueeze", dim, self.ndim)
    shape = self.shape
    return self.reshape((*shape[:at], 1, *shape[at:]))


def transpose(self: Array, dim0: int, dim1: int) -> Array:
    """Exchange two dimensions."""
    ndim = self.ndim
    if -ndim <= dim0 < ndim and -ndim <= dim1 < ndim:
        return self.swapaxes(dim0, dim1)
    wrap_dim("transpose", dim0, ndim)
    wrap_dim("transpose", dim1, ndim)
    return self.view()  # a scalar


def t(self: Array) -> Array:
    """Transpose a matrix; leave a vector or a scalar."""
    if self.ndim > 2:
        raise ShapeError(
            f"t: needs at most 2 dimensions, got {self.ndim} ({show(self.shape)}); "
            "use .mT for matrices in a batch, or transpose(dim0, dim1)."
        )
    return self.transpose()


def permute(self: Array, dims: Shape) -> Array:
    """Put dimension `dims[i]` at place `i`."""
    return self.transpose(layout.permutation("permute", dims, self.ndim))


def expand(self: Array, size: Shape, implicit: bool) -> Array:
    """Repeat dimensions of size 1 without copying: their stride becomes 0."""
    old = self.shape
    shape = layout.expanded("expand", old, size)
    lead = len(shape) - len(old)
    strides = [0] * lead
    repeats = shape[:lead].count(1) != lead
    for before, now, stride in zip(old, shape[lead:], self.strides, strict=True):
        repeats = repeats or before != now
        strides.append(stride if before == now else 0)
    if not repeats:
        return self.reshape(shape)
    return strided(self, shape, tuple(strides))


def _pieces(self: Array, sizes: Sequence[int], dim: int) -> list[Array]:
    before = (slice(None),) * dim
    result, start = [], 0
    for size in sizes:
        result.append(self[(*before, slice(start, start + size))])
        start += size
    return result


def _size(what: str, self: Array, dim: int) -> tuple[int, int]:
    """Return the size of dimension `dim` and `dim` counted from the front."""
    if not self.ndim:
        raise ShapeError(f"{what}: needs at least one dimension, got a scalar.")
    dim = wrap_dim(what, dim, self.ndim)
    return self.shape[dim], dim


def split(self: Array, split_size: int, dim: int) -> list[Array]:
    """Cut into pieces of `split_size`; the last may be smaller."""
    size, dim = _size("split", self, dim)
    return _pieces(self, layout.split_sizes("split", size, split_size), dim)


def split_with_sizes(self: Array, split_sizes: Shape, dim: int) -> list[Array]:
    """Cut into pieces of the given sizes."""
    size, dim = _size("split_with_sizes", self, dim)
    return _pieces(self, layout.checked_sizes("split_with_sizes", size, split_sizes), dim)


def unbind(self: Array, dim: int) -> list[Array]:
    """Return the slices along `dim`, without that dimension."""
    size, dim = _size("unbind", self, dim)
    before = (slice(None),) * dim
    return [self[(*before, i, ...)] for i in range(size)]


def unfold(self: Array, dimension: int, size: int, step: int) -> Array:
    """Return the windows of `size` along `dimension`, `step` apart, in a new last dimension."""
    shape, dim = layout.unfold_shape("unfold", self.shape, dimension, size, step)
    if not self.ndim:
        return self.reshape(1)[:size]
    stride = self.strides[dim]
    strides = (*self.strides[:dim], stride * step, *self.strides[dim + 1 :], stride)
    return strided(self, shape, strides)
