"""Reductions of large arrays, several times faster than NumPy's own where that is slow.

NumPy's inner loop runs over the dimensions after the reduced axis; if they are short, overhead
dominates. Ways around it, for neighbouring axes, with the array seen as `x[before, count, after]`:

- native code, where there is some;
- a sum is a product with ones, in blocks: as accurate as a pairwise sum;
- few elements, many times over: combine whole slices `x[:, k]`;
- many short rows: fold them into fewer and longer ones first.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided

from adjoint.c_kernels import reduction as native
from adjoint.c_kernels.copies import copied
from adjoint.core.records import record
from adjoint.core.shapes import Shape
from adjoint.kernels.reduction.common import Array, Dims

LARGE = 2048  # smaller arrays are not worth the choice
BLOCK = 1024  # summed in one go; longer sums are sums of sums
FEW = 32
_ONES = {char: np.ones(2 * BLOCK, char) for char in "fd"}


def total(x: Array, axis: Dims, keepdims: bool) -> Array:
    """Σ x over `axis`, None for all."""
    return reduce(np.add, x, axis, keepdims)


def reduce(ufunc: np.ufunc, x: Array, axis: Dims, keepdims: bool) -> Array:
    """`ufunc.reduce(x, axis=axis, keepdims=keepdims)`, by the fastest way."""
    if x.size >= LARGE:
        if ufunc is np.add and x.dtype.char in "FD" and x.flags.c_contiguous:
            found = _sum_of_parts(x, axis, keepdims)
            if found is not None:
                return found
        kind = native.OF_UFUNC.get(ufunc)
        found = None if kind is None else at_once(kind, x, axis, keepdims)
        if found is not None:
            return found
        reduces = partial(_reduce, ufunc)
        if x.flags.c_contiguous:
            result = reduces(x, axis, keepdims)
        else:
            result = _turned(reduces, x, axis, keepdims)
        if result is not None:
            return result
    return ufunc.reduce(x, axis=axis, keepdims=keepdims)


def at_once(kind: int, x: Array, axis: Dims, keepdims: bool) -> Array | None:
    """The totals of a kind by one call of native code; None where that is not enough."""
    if x.dtype.char not in "fd" or x.size < LARGE:
        return None
    how = _plan(kind, x.shape, x.strides, x.dtype, axis, keepdims)
    found = None if how is None else native.run(x, how.fields, how.shape)
    if found is None or how is None:
        return None
    return found.transpose(how.back) if how.back else found


def _sum_of_parts(x: Array, axis: Dims, keepdims: bool) -> Array | None:
    """Σ x of complex numbers, with real and imaginary parts as a last dimension; None for rows, for
    which NumPy is as quick.
    """
    axes = tuple(range(x.ndim) if axis is None else [a % x.ndim for a in axis if -x.ndim <= a])
    if len({*axes}) != len(axis or axes) or (x.ndim - 1 in axes and len(axes) < x.ndim):
        return None
    parts = x.view(x.real.dtype).reshape(*x.shape, 2)
    if len(axes) == x.ndim and (found := native.sum_of_complex(x)) is not None:
        return found.reshape((1,) * x.ndim if keepdims else ())
    return reduce(np.add, parts, axes, keepdims).view(x.dtype)[..., 0]


@record
class _NativeReduction:
    """A reduction that is one call of native code, for arrays with certain strides."""

    fields: Any  # sizes and steps for the C code
    shape: Shape  # of the result, its dimensions in the order of memory
    back: Shape  # the order that undoes this; empty where it is the usual one


@lru_cache(maxsize=4096)
def _plan(
    kind: int, shape: Shape, strides: Shape, dtype: Any, axis: Dims, keepdims: bool
) -> _NativeReduction | None:
    """The reduction of arrays with these strides by one native call; None if it takes more."""
    found = _order(strides, axis, keepdims)
    if found is None:
        return None
    order, axes, back = found
    parted = _parted(tuple([shape[d] for d in order]), axes, keepdims)
    if parted is None or parted[2]:
        return None
    lying = as_strided(np.empty(1, dtype), shape, strides).transpose(order)  # is not looked into
    matrices, _, _, final = parted
    parts = _matrices(lying, matrices)
    if parts is None or native.is_short(parts) or not _is_native(kind, matrices):
        return None
    fields = native.fields(kind, parts)
    usual = back == tuple(range(len(back)))
    return None if fields is None else _NativeReduction(fields, final, () if usual else back)


def _turned(
    reduces: Callable[[Array, Dims, bool], Array | None], x: Array, axis: Dims, keepdims: bool
) -> Array | None:
    """A reduction of an array whose dimensions are in another order in memory, or have gaps."""
    found = _order(x.strides, axis, keepdims)
    if found is None:
        return None
    order, mirrored, back = found
    result = reduces(x.transpose(order), mirrored, keepdims)
    return None if result is None else result.transpose(back)


@lru_cache(maxsize=1024)
def _order(strides: Shape, axis: Dims, keepdims: bool) -> tuple[Shape, Shape, Shape] | None:
    """Dimensions in the order of memory, the axes among these, and the order that undoes it in the
    result; None where an axis is wrong.
    """
    ndim = len(strides)
    order = sorted(range(ndim), key=lambda d: -abs(strides[d]))
    axes = range(ndim) if axis is None else [a % ndim for a in axis if -ndim <= a < ndim]
    if axis is not None and len({*axes}) != len(axis):
        return None
    kept = order if keepdims else [d for d in order if d not in axes]
    mirrored = tuple([order.index(a) for a in axes])
    return tuple(order), mirrored, tuple([int(place) for place in np.argsort(kept)])


def _reduce(ufunc: np.ufunc, x: Array, axis: Dims, keepdims: bool) -> Array | None:
    """`reduce` of an array in the order of memory; None where NumPy's way is as good."""
    parted = _parted(x.shape, axis, keepdims)
    if parted is None:
        return None
    matrices, kept, rest, final = parted
    parts = _matrices(x, matrices)
    if parts is None:
        if x.dtype.char not in "fd" or not _is_native(native.OF_UFUNC.get(ufunc), matrices):
            return None
        parts = copied(x).reshape(matrices)
    result = _fastest(ufunc, parts)
    if result is None:
        return None
    if rest:
        result = reduce(ufunc, result.reshape(kept), rest, True)
    return result.reshape(final)


def _matrices(x: Array, shape: Shape) -> Array | None:
    """The array in three dimensions, if elements that are side by side in memory are so in the last
    one, or in rows; None where it has other gaps.
    """
    try:
        parts = x.reshape(shape, copy=False)
    except ValueError:
        return None
    return parts if parts.strides[1 if shape[2] == 1 else 2] == x.itemsize else None


def whole_total(x: Array, axis: Dims, keepdims: bool) -> Array | None:
    """Σ x of whole numbers in 64 bits; None where NumPy's way is as good."""
    if x.size < LARGE:
        return None
    if not x.flags.c_contiguous:
        return _turned(_whole_total, x, axis, keepdims)
    return _whole_total(x, axis, keepdims)


def _whole_total(x: Array, axis: Dims, keepdims: bool) -> Array | None:
    """`whole_total` of an array in the order of memory."""
    parted = _parted(x.shape, axis, keepdims)
    if parted is None:
        return None
    matrices, kept, rest, final = parted
    parts = _matrices(x, matrices)
    result = native.add_up(copied(x).reshape(matrices) if parts is None else parts)
    if result is None:
        return None
    if rest:
        result = np.add.reduce(result.reshape(kept), axis=rest, keepdims=True)
    return result.reshape(final)


@lru_cache(maxsize=1024)
def _parted(
    shape: Shape, axis: Dims, keepdims: bool
) -> tuple[tuple[int, int, int], Shape, tuple[int, ...], Shape] | None:
    """The shape (before, count, after) around the last adjacent axes, the array's shape once these
    are 1, the other axes, and the shape of the result; None if there is nothing to reduce, or an
    axis is wrong. Dimensions of size 1 do not separate adjacent axes.
    """
    ndim = len(shape)
    axes = (
        list(range(ndim)) if axis is None else sorted({a % ndim for a in axis if -ndim <= a < ndim})
    )
    if not axes or (axis is not None and len(axes) != len(axis)):
        return None
    long = [a for a in axes if shape[a] != 1] or axes[-1:]
    last = first = long[-1]
    for a in reversed(long):
        if all(d in axes or shape[d] == 1 for d in range(a, first)):
            first = a
    before, after = shape[:first], shape[last + 1 :]
    matrices = math.prod(before), math.prod(shape[first : last + 1]), math.prod(after)
    kept = before + (1,) * (last + 1 - first) + after
    final = tuple([1 if d in axes else n for d, n in enumerate(shape) if keepdims or d not in axes])
    return matrices, kept, tuple(a for a in long if a < first), final


def _fastest(ufunc: np.ufunc, x: Array) -> Array | None:
    before, count, after = x.shape
    found = _native(ufunc, x)
    if found is not None:
        return found
    if (
        ufunc is np.add
        and x.dtype.char in "fd"
        and (after == 1 or before == 1 or count * after >= 64)
    ):
        return _by_products(x)
    if 2 <= count <= FEW and before >= 8 * count:
        return _by_slices(ufunc, x)
    if before == 1 and 1 < after < 256 and count >= 256:
        return _folded(ufunc, x[0])
    return None


def _native(ufunc: np.ufunc, x: Array) -> Array | None:
    kind = native.OF_UFUNC.get(ufunc)
    return native.reduce(kind, x) if _is_native(kind, x.shape) and kind is not None else None


def _is_native(kind: int | None, matrices: Shape) -> bool:
    """Whether native code is better: of few elements NumPy's slices are as good."""
    before, count, after = matrices
    many = before * count * after >= native.LARGE
    return kind is not None and many and count * after >= FEW and count > 1


_POWERS: dict[float, int] = {1: native.SIZES, 2: native.SQUARES}


def powers(p: float, x: Array, axes: tuple[int, ...], keepdims: bool) -> Array | None:
    """Σ |x|ᵖ over adjacent axes for p = 1 or 2, in one pass; None if there is no native code."""
    kind = _POWERS.get(p)
    if kind is None or x.size < LARGE or not axes or x.dtype.char not in "fd":
        return None
    first, last = min(axes), max(axes) + 1
    if last - first != len(axes) or not x.flags.c_contiguous:
        return None
    shape = x.shape
    matrices = x.reshape(math.prod(shape[:first]), math.prod(shape[first:last]), -1)
    found = native.reduce(kind, matrices)
    kept = (1,) * len(axes) if keepdims else ()
    return None if found is None else found.reshape(shape[:first] + kept + shape[last:])


def _by_products(x: Array) -> Array:
    """Σ_n x[a, n, c], over at most 2 * BLOCK elements at a time."""
    before, count, after = x.shape
    ones = _ONES[x.dtype.char]
    if count <= 2 * BLOCK:
        return x[..., 0] @ ones[:count] if after == 1 else np.matmul(ones[:count], x)
    blocks, rest = divmod(count, BLOCK)
    even = x[:, : blocks * BLOCK] if rest else x
    if after == 1:
        sums = even.reshape(before, blocks, BLOCK) @ ones[:BLOCK]
    else:
        sums = np.matmul(ones[:BLOCK], even.reshape(before, blocks, BLOCK, after))
    result = _by_products(sums.reshape(before, blocks, after))
    if rest:
        result = result + _by_products(x[:, blocks * BLOCK :])
    return result.reshape(before, after) if after > 1 else result.reshape(before)


def _by_slices(ufunc: np.ufunc, x: Array) -> Array:
    result = ufunc(x[:, 0], x[:, 1])
    for k in range(2, x.shape[1]):
        ufunc(result, x[:, k], out=result)
    return result


def _folded(ufunc: np.ufunc, x: Array) -> Array:
    """Reduce the rows of x[count, after] as if `width` of them were one."""
    count, after = x.shape
    width = math.isqrt(count)
    rows, rest = divmod(count, width)
    wide = ufunc.reduce(x[: rows * width].reshape(rows, width * after), axis=0)
    result = ufunc.reduce(wide.reshape(width, after), axis=0)
    return ufunc(result, ufunc.reduce(x[rows * width :], axis=0)) if rest else result
