"""Operators that copy values into a new array and compute nothing (or add a few of them up)."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from adjoint.c_kernels import copies
from adjoint.c_kernels.conversions import astype
from adjoint.c_kernels.copies import copied, write
from adjoint.c_kernels.copies import zeros as zeros_of
from adjoint.checks import shape as layout
from adjoint.core import dtypes
from adjoint.core.dtypes import DType
from adjoint.core.errors import DimensionError, DtypeError, ShapeError, ValueRangeError
from adjoint.core.layouts import CONTIGUOUS, format_number
from adjoint.core.promotion import result_type
from adjoint.core.shapes import Shape, combinations_of, infer_size, show, wrap_dim
from adjoint.core.storage import order_of
from adjoint.kernels.halves import wide_dtype
from adjoint.kernels.shape.views import split, split_with_sizes
from adjoint.loops.element_loops import added

Array = np.ndarray[Any, Any]


def clone(self: Array, memory_format: Any) -> Array:
    """Copy; the order of dimensions in memory stays unless `memory_format` says otherwise."""
    if memory_format is None:
        return copied(self, order_of(self))
    return in_format("clone", self, memory_format, self.dtype)


def in_format(what: str, self: Array, memory_format: Any, dtype: np.dtype[Any]) -> Array:
    """Return a copy of `self` as `dtype` laid out in a memory format, PyTorch's name or number."""
    number = format_number(what, memory_format)
    order = layout.memory_order(what, number, self.shape)
    if order is not None:
        return astype(self.transpose(order), dtype, "C").transpose(layout.inverse(order))
    return astype(self, dtype, "C" if number == CONTIGUOUS else order_of(self))


def promoted(tensors: Sequence[Array]) -> np.dtype[Any]:
    """Return the common dtype of the tensors."""
    first = tensors[0].dtype
    if all(x.dtype == first for x in tensors):
        return first
    return result_type(*tensors).np


def cat(tensors: list[Array], dim: int) -> Array:
    """Join along an existing dimension."""
    dtype = tensors[0].dtype if tensors else None
    if all(x.dtype is dtype and x.shape != layout.LEGACY_EMPTY for x in tensors):
        try:
            found = copies.concatenated(tensors, dim) if tensors and tensors[0].ndim else None
            return np.concatenate(tensors, dim) if found is None else found
        except (ValueError, IndexError):
            pass  # `cat_shape` says why
    shape, dim = layout.cat_shape("cat", [x.shape for x in tensors], dim)
    if len(shape) > 1:
        kept = [x for x in tensors if x.shape != layout.LEGACY_EMPTY]
    else:
        kept = tensors
    return np.concatenate(kept, dim, dtype=promoted(tensors), casting="unsafe")


def stack(tensors: list[Array], dim: int) -> Array:
    """Join along a new dimension."""
    shape, dim = layout.stack_shape("stack", [x.shape for x in tensors], dim)
    if dim == 0 and len(shape) > 1 and all(x.dtype is tensors[0].dtype for x in tensors):
        return cat(tensors, 0).reshape(shape)  # one call for all of them
    before = (slice(None),) * dim
    result = np.empty(shape, promoted(tensors))
    for i, x in enumerate(tensors):
        write(result[(*before, i, ...)], x)
    return result


def repeat(self: Array, repeats: Shape) -> Array:
    """Lay copies of `self` side by side, `repeats[i]` of them along dimension `i`."""
    padded, shape = layout.repeated("repeat", self.shape, repeats)
    both = tuple(itertools.chain.from_iterable(zip(repeats, padded, strict=True)))
    single = tuple(itertools.chain.from_iterable((1, s) for s in padded))
    result = np.empty(both, self.dtype)
    write(result, self.reshape(single))
    return result.reshape(shape)


def flip(self: Array, dims: Shape) -> Array:
    """Reverse the order along each of `dims`; the order of dimensions in memory stays."""
    gone = layout.distinct("flip", dims, self.ndim)
    index = tuple(slice(None, None, -1) if d in gone else slice(None) for d in range(self.ndim))
    turned = self[(*index, ...)]
    result = np.empty_like(self, order=order_of(self))
    write(result, turned)
    return result


def roll(self: Array, shifts: Shape, dims: Shape) -> Array:
    """Shift along `dims`, the end coming in at the front; without `dims`, the flattened tensor."""
    if not dims and len(shifts) == 1:
        return _rolled(self.reshape(-1), shifts[0], 0).reshape(self.shape)
    if len(shifts) != len(dims) or not shifts:
        raise ShapeError(
            f"roll: shifts={shifts} and dims={dims} must have the same length "
            "(or one shift and no dims)."
        )
    if not self.ndim:
        raise DimensionError(f"roll: dims={dims} for a scalar, which has no dimensions.")
    places = [wrap_dim("roll", d, self.ndim) for d in dims]
    for shift, dim in zip(shifts, places, strict=True):
        self = _rolled(self, shift, dim)
    return self


def _rolled(self: Array, shift: int, dim: int) -> Array:
    """The end of one dimension comes in at the front."""
    before = (slice(None),) * dim
    place = shift % self.shape[dim] if self.size else 0
    if self.flags.c_contiguous:
        parts = [self[(*before, slice(-place, None))], self[(*before, slice(-place))]]
        found = copies.concatenated(parts, dim) if place else None
        if found is not None:
            return found
    result = np.empty_like(self)
    for to, source in ((place, 0), (0, self.shape[dim] - place)):
        count = self.shape[dim] - max(to, source)
        write(
            result[(*before, slice(to, to + count))], self[(*before, slice(source, source + count))]
        )
    return result


def rot90(self: Array, k: int, dims: Shape) -> Array:
    """Turn by `k` quarters in the plane of two dimensions, from the first towards the second."""
    if self.ndim < 2:
        raise ShapeError(f"rot90: needs at least 2 dimensions, got {self.ndim}.")
    if len(dims) != 2:
        raise ShapeError(f"rot90: needs two dims, got dims={dims}.")
    first, second = layout.distinct("rot90", dims, self.ndim)
    if k % 4 == 0:
        return copied(self)
    if k % 4 == 2:
        return flip(self, (first, second))
    return flip(self, (second if k % 4 == 1 else first,)).swapaxes(first, second)


def tril(self: Array, diagonal: int) -> Array:
    """Keep what is on and below a diagonal of the last two dimensions, 0 elsewhere."""
    return _triangle("tril", self, diagonal + 1, right=False)


def triu(self: Array, diagonal: int) -> Array:
    """Keep what is on and above a diagonal of the last two dimensions, 0 elsewhere."""
    return _triangle("triu", self, diagonal, right=True)


def _triangle(what: str, self: Array, diagonal: int, *, right: bool) -> Array:
    """What is right of a diagonal, the diagonal with it, or left of it; 0 elsewhere."""
    if self.ndim < 2:
        raise ShapeError(f"{what}: needs at least 2 dimensions, got {self.ndim}.")
    found = copies.triangle(self, diagonal, right=right)
    if found is not None:
        return found
    rows, columns = self.shape[-2:]
    left, zero = np.tri(rows, columns, diagonal - 1, dtype=np.bool_), np.zeros((), self.dtype)
    return np.where(left, *((zero, self) if right else (self, zero)))


def diag_embed(self: Array, offset: int, dim1: int, dim2: int) -> Array:
    """Put the last dimension of `self` on the diagonal of two new ones, 0 elsewhere."""
    shape, first, second = layout.diag_embed_shape("diag_embed", self.shape, offset, dim1, dim2)
    result = zeros_of(shape, self.dtype)
    diagonal = np.diagonal(result, offset, first, second)
    diagonal.flags.writeable = True  # NumPy gives a read-only view; `result` is ours
    diagonal[...] = self
    return result


def unfold_backward(grad_in: Array, input_sizes: Shape, dim: int, size: int, step: int) -> Array:
    """Add the windows back to where `unfold` took them from."""
    shape, dim = layout.unfold_shape("unfold_backward", tuple(input_sizes), dim, size, step)
    if grad_in.shape != shape:
        raise ShapeError(
            f"unfold_backward: grad_in is {show(grad_in.shape)}, but the windows of a "
            f"{show(input_sizes)} tensor are {show(shape)}."
        )
    if not input_sizes:
        return np.asarray(grad_in.sum(dtype=grad_in.dtype))
    exact = wide_dtype(grad_in.dtype)
    result = zeros_of(input_sizes, exact)
    count, before = shape[dim], (slice(None),) * dim
    if size <= count:  # few places in a window: all windows at once, place by place
        for k in range(size):
            target = result[(*before, slice(k, k + step * (count - 1) + 1, step))]
            added(target, grad_in[..., k], out=target)
    else:  # few windows
        windows = np.moveaxis(grad_in, -1, dim + 1)
        for i in range(count):
            target = result[(*before, slice(i * step, i * step + size))]
            added(target, windows[(*before, i)], out=target)
    return result.astype(grad_in.dtype, copy=False)


def block_diag(tensors: list[Array]) -> Array:
    """Put matrices along the diagonal of a larger one, 0 elsewhere."""
    if not tensors:
        return np.zeros((1, 0), dtypes.DEFAULT.dtype.np)  # PyTorch's answer to nothing
    shape, blocks = layout.block_diag_shape("block_diag", [x.shape for x in tensors])
    result = np.zeros(shape, promoted(tensors))
    row = column = 0
    for x, (rows, columns) in zip(tensors, blocks, strict=True):
        result[row : row + rows, column : column + columns] = x
        row, column = row + rows, column + columns
    return result


def reshape_copy(self: Array, size: Shape) -> Array:
    """Copy into another shape."""
    return copied(self).reshape(infer_size("reshape", size, self.size))


def unsafe_split(self: Array, split_size: int, dim: int) -> list[Array]:
    """Copy the pieces of `split`."""
    return [copied(x) for x in split(self, split_size, dim)]


def unsafe_split_with_sizes(self: Array, split_sizes: Shape, dim: int) -> list[Array]:
    """Copy the pieces of `split_with_sizes`."""
    return [copied(x) for x in split_with_sizes(self, split_sizes, dim)]


def repeat_interleave(repeats: Array, output_size: int | None) -> Array:
    """Return the index `i`, `repeats[i]` times, for each `i`."""
    if repeats.ndim != 1:
        raise ShapeError(f"repeat_interleave: repeats must be a vector, got {show(repeats.shape)}.")
    if repeats.dtype not in (np.int64, np.int32):
        raise DtypeError(
            f"repeat_interleave: repeats must be int64 or int32, got {dtypes.of(repeats.dtype)}."
        )
    if repeats.size and repeats.min() < 0:
        raise ValueRangeError("repeat_interleave: repeats must not be negative.")
    if output_size is not None and repeats.sum() != output_size:
        raise ShapeError(
            f"repeat_interleave: output_size={output_size}, but the repeats add up to "
            f"{repeats.sum()}."
        )
    return np.repeat(np.arange(repeats.size, dtype=repeats.dtype), repeats)


def combinations(self: Array, r: int, with_replacement: bool) -> Array:
    """Return the combinations of `r` elements, one a row, in the order of itertools."""
    if self.ndim != 1:
        raise ShapeError(f"combinations: needs a vector, got {show(self.shape)}.")
    if r < 0:
        raise ValueRangeError(f"combinations: r must be at least 0, got {r}.")
    if r == 0:
        return np.zeros(0, self.dtype)
    n = self.size
    choose = itertools.combinations_with_replacement if with_replacement else itertools.combinations
    rows = combinations_of(n, r, with_replacement)
    index = np.fromiter(itertools.chain.from_iterable(choose(range(n), r)), np.int64, rows * r)
    return self[index].reshape(rows, r)


def zeros(size: Shape, dtype: DType | None, *options: Any) -> Array:
    """Return zeros; the options of layout, device and pinning have no meaning here."""
    return np.zeros(size, (dtype or dtypes.DEFAULT.dtype).np)
