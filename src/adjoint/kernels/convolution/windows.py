"""Convolutions as products of matrices, whose columns are the windows.

Windows are copied into columns for as many samples at once as stay in the cache. `convolve`,
`spread` and `correlate` take arrays of any dtype that NumPy multiplies.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided

from adjoint.checks.convolution import Geometry
from adjoint.core.shapes import Shape

Array = np.ndarray[Any, Any]
BLOCK = 1 << 18  # elements of columns that are made at once


def convolve(
    large: Array, weight: Array, bias: Array | None, sizes: Geometry, small: Array
) -> None:
    """Write `small`: the weight times the windows, plus the bias of each channel."""
    whole = small if small.flags.c_contiguous else np.empty(small.shape, small.dtype)
    matrix = weight.reshape(_matrix_shape(sizes))
    target = _matrices(whole, sizes)
    if not large.size:
        whole[...] = 0
    for part, columns in _columns(large, sizes):
        np.matmul(matrix, columns, out=target[part])
    if bias is not None:
        whole += bias.reshape((-1, *(1,) * len(sizes.kernel)))
    if whole is not small:
        small[...] = whole


def spread(small: Array, weight: Array, bias: Array | None, sizes: Geometry, large: Array) -> None:
    """Write `large`: each element of `small` times the weight, added up where windows overlap."""
    if _slides(sizes):
        convolve(small, _transposed(weight, sizes), bias, _turned_sizes(sizes), large)
        return
    inner = (slice(p, p + b) for b, p in zip(sizes.large[2:], sizes.padding))
    large[...] = _added(small, weight, sizes)[:, :, *inner]
    if bias is not None:
        large += bias.reshape((-1, *(1,) * len(sizes.kernel)))


def _added(small: Array, weight: Array, sizes: Geometry) -> Array:
    """`large` with its padding."""
    matrix = weight.reshape(_matrix_shape(sizes)).swapaxes(1, 2)
    source = _matrices(np.ascontiguousarray(small), sizes)
    if sizes.pointwise:
        return np.matmul(matrix, source).reshape(sizes.large)
    shape = tuple(b + 2 * p for b, p in zip(sizes.large[2:], sizes.padding))
    padded = np.zeros((*sizes.large[:2], *shape), small.dtype)
    steps = _per_block(sizes)
    for start in range(0, len(small), steps):
        part = slice(start, start + steps)
        columns = np.matmul(matrix, source[part])
        columns = columns.reshape((len(columns), sizes.large[1], *sizes.kernel, *sizes.small[2:]))
        for place in itertools.product(*map(range, sizes.kernel)):
            padded[(part, slice(None), *_seen(place, sizes))] += columns[:, :, *place]
    return padded


def correlate(large: Array, small: Array, sizes: Geometry, weight: Array) -> None:
    """Write `weight`: `small` times the windows, added up over samples and places."""
    weight[...] = 0
    total = weight.reshape(_matrix_shape(sizes))
    source = _matrices(np.ascontiguousarray(small), sizes)
    for part, columns in _columns(large, sizes):
        total += np.matmul(source[part], columns.swapaxes(-1, -2)).sum(0)


# -- windows ---------------------------------------------------------------------------------------


def _matrix_shape(sizes: Geometry) -> Shape:
    """(groups, channels of `small`, elements of a window)."""
    rows, inner = sizes.weight[0] // sizes.groups, math.prod(sizes.weight[1:])
    return (sizes.groups, rows, inner)


def _matrices(small: Array, sizes: Geometry) -> Array:
    """`small` as matrices (sample, group, channel, place)."""
    rows = sizes.small[1] // sizes.groups
    return small.reshape((sizes.small[0], sizes.groups, rows, math.prod(sizes.small[2:])))


def _per_block(sizes: Geometry) -> int:
    """How many samples have their columns made at once."""
    inner = sizes.large[1] * math.prod(sizes.kernel)
    return max(BLOCK // max(inner * math.prod(sizes.small[2:]), 1), 1)


def _columns(large: Array, sizes: Geometry) -> Iterator[tuple[slice, Array]]:
    """Parts of the batch with their windows as matrices (sample, group, element, place)."""
    _, _, inner = _matrix_shape(sizes)
    shape = (-1, sizes.groups, inner, math.prod(sizes.small[2:]))
    if not large.size:
        return
    if sizes.pointwise:
        yield slice(None), np.ascontiguousarray(large).reshape(shape)
        return
    windows = _windows(_padded(large, sizes), sizes)
    steps = _per_block(sizes)
    room = np.empty((min(steps, len(large)), *windows.shape[1:]), large.dtype)
    for start in range(0, len(large), steps):
        part = slice(start, start + steps)
        columns = room[: len(windows[part])]
        np.copyto(columns, windows[part])
        yield part, columns.reshape(shape)


def _padded(large: Array, sizes: Geometry) -> Array:
    """The array within a frame of zeros."""
    if not any(sizes.padding):
        return large
    shape = (b + 2 * p for b, p in zip(sizes.large[2:], sizes.padding))
    padded = np.zeros((*large.shape[:2], *shape), large.dtype)
    inner = (slice(p, p + b) for b, p in zip(sizes.large[2:], sizes.padding))
    padded[:, :, *inner] = large
    return padded


def _windows(padded: Array, sizes: Geometry) -> Array:
    """A view (sample, channel, *element of the window, *place)."""
    outer, inner = padded.strides[:2], padded.strides[2:]
    elements = (t * d for t, d in zip(inner, sizes.dilation))
    places = (t * s for t, s in zip(inner, sizes.stride))
    shape = (*padded.shape[:2], *sizes.kernel, *sizes.small[2:])
    return as_strided(padded, shape, (*outer, *elements, *places), writeable=False)


def _seen(place: Shape, sizes: Geometry) -> tuple[slice, ...]:
    """What one element of the window sees of each spatial dimension of the padded array."""
    return tuple(
        slice(k * d, k * d + (n - 1) * s + 1, s)
        for k, d, s, n in zip(place, sizes.dilation, sizes.stride, sizes.small[2:])
    )


# -- a transposed convolution of stride 1 is a convolution with the weight turned around -----------


def _slides(sizes: Geometry) -> bool:
    """Whether `spread` is a `convolve`: stride 1, and no more padding than the window reaches."""
    return not sizes.pointwise and all(
        s == 1 and p <= r and b == n + r - 2 * p
        for s, p, r, b, n in zip(
            sizes.stride, sizes.padding, sizes.reach, sizes.large[2:], sizes.small[2:]
        )
    )


def _transposed(weight: Array, sizes: Geometry) -> Array:
    """The weight with input and output channels exchanged, and its windows reversed."""
    rows = sizes.weight[0] // sizes.groups
    split = weight.reshape((sizes.groups, rows, *sizes.weight[1:])).swapaxes(1, 2)
    turned = split[(..., *(slice(None, None, -1) for _ in sizes.kernel))]
    return np.ascontiguousarray(turned).reshape(_turned_sizes(sizes).weight)


def _turned_sizes(sizes: Geometry) -> Geometry:
    rows, columns = sizes.weight[0] // sizes.groups, sizes.weight[1]
    return replace(
        sizes,
        large=sizes.small,
        small=sizes.large,
        weight=(columns * sizes.groups, rows, *sizes.kernel),
        padding=tuple(r - p for r, p in zip(sizes.reach, sizes.padding)),
    )
