"""Windows along one dimension as a few passes over slices.

Pass `i` of windows takes element `i` of every window that has one. Regular windows give slices with
a step; windows of adaptive pooling, whose sizes differ by one, give index arrays. So pooling is a
short loop over passes, each of which is one NumPy call over all planes.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from adjoint.checks import pooling as rules
from adjoint.checks.pooling import Window
from adjoint.core.records import record

Array = np.ndarray[Any, Any]
Selector = Any  # a slice, or an index array

CHANNELS = 1  # the dimension that comes last in memory in the formats channels_last


@record
class Passes:
    """All windows along one dimension."""

    out: int  # how many windows there are
    first: Array  # the place of element 0 of each window, before 0 in padding
    step: int  # from one element to the next
    passes: tuple[tuple[int, Selector, Selector], ...]  # (element, windows, places)
    covers: bool  # whether the first pass takes an element of every window
    apart: bool  # whether no place lies in two windows


@lru_cache(256)
def regular(window: Window) -> Passes:
    """The windows of a kernel that moves by a stride; the passes with most windows come first."""
    first = np.arange(window.out) * window.stride - window.padding
    return _passes(first, np.full(window.out, window.kernel), window.dilation, window.size)


@lru_cache(256)
def adaptive(size: int, out: int) -> Passes:
    """The windows that share a dimension out among `out` results."""
    spans = np.array(rules.starts(size, out), np.int64).reshape(out, 2)
    return _passes(spans[:, 0], spans[:, 1] - spans[:, 0], 1, size)


@lru_cache(256)
def covering(size: int, out: int) -> Passes:
    """The transpose of `adaptive`: for each place, the windows that hold it."""
    spans = np.array(rules.starts(size, out), np.int64).reshape(out, 2)
    places = np.arange(size)
    first = np.searchsorted(spans[:, 1], places, "right")
    return _passes(first, np.searchsorted(spans[:, 0], places, "right") - first, 1, out)


def _passes(first: Array, counts: Array, step: int, size: int) -> Passes:
    found = []
    for i in range(int(counts.max(initial=0))):
        places = first + i * step
        chosen = np.flatnonzero((places >= 0) & (places < size) & (i < counts))
        if chosen.size:
            found.append((i, selector(chosen), selector(places[chosen]), chosen.size))
    found.sort(key=lambda entry: -entry[3])
    covers = bool(found) and found[0][3] == len(first)
    held = np.zeros(size, np.int64)
    for _, _, places, _ in found:
        np.add.at(held, places, 1)
    apart = bool(held.max(initial=0) <= 1)
    return Passes(len(first), first, step, tuple(entry[:3] for entry in found), covers, apart)


def selector(places: Array) -> Selector:
    """A slice if the places are evenly spaced, else themselves."""
    if places.size == 1:
        return slice(int(places[0]), int(places[0]) + 1)
    steps = np.diff(places)
    step = int(steps[0])
    if step < 1 or (steps != step).any():
        return places
    return slice(int(places[0]), int(places[-1]) + 1, step)


def empty_like(array: Array, shape: tuple[int, ...], dtype: Any = None) -> Array:
    """An array for results: in channels_last where `array` is, else in C order."""
    dtype = array.dtype if dtype is None else dtype
    if not is_channels_last(array):
        return np.empty(shape, dtype)
    batch, channels, *sizes = shape
    return np.moveaxis(np.empty((batch, *sizes, channels), dtype), -1, CHANNELS)


def is_channels_last(array: Array) -> bool:
    """Whether the channels of a batch lie next to each other in memory."""
    if array.ndim not in (4, 5) or array.flags.c_contiguous:
        return False
    return np.moveaxis(array, CHANNELS, -1).flags.c_contiguous


def combined(ufunc: np.ufunc, array: Array, axis: int, windows: Passes, nothing: Any) -> Array:
    """The elements of each window along an axis, joined by `ufunc`; `nothing` for none at all."""
    shape = (*array.shape[:axis], windows.out, *array.shape[axis + 1 :])
    result = empty_like(array, shape)
    before = (slice(None),) * axis
    if not windows.covers:
        result.fill(nothing)
    for number, (_, chosen, places) in enumerate(windows.passes):
        target, source = (*before, chosen), array[(*before, places)]
        if number == 0 and windows.covers:
            result[target] = source
        elif isinstance(chosen, slice):
            ufunc(result[target], source, out=result[target])
        else:
            result[target] = ufunc(result[target], source)
    return result
