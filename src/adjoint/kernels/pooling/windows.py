"""Windows along one dimension as passes over slices.

A pass (`WindowElement`) takes one element of some windows: element `i` of the windows `chosen`,
found at `places`; both are slices. Regular windows need as many passes as they have elements.
Windows of adaptive pooling, whose sizes and distances differ, are more passes of fewer windows. So
pooling is a short loop, each round of which is one NumPy call over all planes.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import numpy as np

from adjoint.c_kernels import resampling
from adjoint.checks import pooling as rules
from adjoint.checks.pooling import Window
from adjoint.core.records import record
from adjoint.kernels.images import room_like

Array = np.ndarray[Any, Any]
Entries = tuple[Array, Array]  # rows of whole numbers: where they begin and end, and the numbers

LONG = 4  # elements from which NumPy reduces tiles faster than passes do
LONG_ROW = 32  # LONG along the last dimension


@record
class WindowElement:
    """One element of each of some windows."""

    element: int  # its number in the window
    chosen: slice  # the windows
    places: slice  # where the element is
    fresh: bool  # whether this is the first pass over these windows


@record
class PoolingWindows:
    """All windows along one dimension."""

    out: int  # how many there are
    elements: int  # of the longest
    first: Array  # the place of element 0 of each, before 0 in padding
    step: int  # from one element to the next
    passes: tuple[WindowElement, ...]
    full: bool  # whether every window has an element
    apart: bool  # whether no two windows overlap
    tiles: bool  # whether they are equal and have every place once, one window after the other
    places_of: Entries  # of each window
    windows_of: Entries  # of each place


@lru_cache(256)
def regular(window: Window) -> PoolingWindows:
    """The windows of a kernel that moves by a stride."""
    first = np.arange(window.out) * window.stride - window.padding
    return _windows(first, np.full(window.out, window.kernel), window.dilation, window.size)


@lru_cache(256)
def adaptive(size: int, out: int) -> PoolingWindows:
    """The windows that share a dimension out among `out` results."""
    spans = np.array(rules.starts(size, out), np.int64).reshape(out, 2)
    return _windows(spans[:, 0], spans[:, 1] - spans[:, 0], 1, size)


def _windows(first: Array, counts: Array, step: int, size: int) -> PoolingWindows:
    """Elements that most windows have come first, so that few windows are visited afresh later."""
    entries = []
    for i in range(int(counts.max(initial=0))):
        places = first + i * step
        chosen = np.flatnonzero((places >= 0) & (places < size) & (i < counts))
        entries.append((i, chosen, places[chosen]))
    entries.sort(key=lambda entry: -entry[1].size)
    passes, seen, held = [], np.zeros(len(first), bool), np.zeros(size, np.int64)
    for i, chosen, places in entries:
        np.add.at(held, places, 1)
        for run in _runs(chosen, places, seen):
            fresh = not seen[chosen[run.start]]
            passes.append(WindowElement(i, _slice(chosen[run]), _slice(places[run]), fresh))
        seen[chosen] = True
    full, apart = bool(seen.all()), bool(held.max(initial=0) <= 1)
    equal = bool((counts == len(entries)).all()) and step == 1
    tiles = equal and apart and len(first) * len(entries) == size == held.sum()
    held_by = np.concatenate([chosen for _, chosen, _ in entries] or [first[:0]])
    lying_at = np.concatenate([places for *_, places in entries] or [first[:0]])
    return PoolingWindows(
        len(first), len(entries), first, step, tuple(passes), full, apart, bool(tiles),
        _rows(held_by, lying_at, len(first)), _rows(lying_at, held_by, size),
    )  # fmt: skip


def _rows(numbers: Array, others: Array, count: int) -> Entries:
    """For each number from 0 to `count`, the `others` paired with it, in order."""
    order = np.lexsort((others, numbers))
    ends = np.concatenate(([0], np.cumsum(np.bincount(numbers, minlength=count))))
    return ends.astype(np.int32), others[order].astype(np.int32)


def added_up(array: Array, axis: int, rows: Entries) -> Array | None:
    """Sums over some elements along an axis, by native code; None if there is none."""
    if not array.flags.c_contiguous or array.dtype.char not in "fd":
        return None
    before, after = array.shape[:axis], array.shape[axis + 1 :]
    planes = array.reshape(math.prod(before), array.shape[axis], math.prod(after))
    found = resampling.along(*rows, np.ones(rows[1].size, array.dtype), planes)
    return None if found is None else found.reshape(*before, len(rows[0]) - 1, *after)


def _runs(chosen: Array, places: Array, seen: Array) -> Iterator[slice]:
    """Windows that are evenly spaced, like their places, and all of them visited or none."""
    steps, known = np.stack([np.diff(chosen), np.diff(places)]), seen[chosen]
    apart = np.flatnonzero((known[1:] != known[:-1]) | (steps[1] <= 0)) + 1
    bent = np.flatnonzero((steps[:, 1:] != steps[:, :-1]).any(0)) + 2
    start = 0
    while start < chosen.size:  # to the next break, or bend behind two that make a step
        ends = (breaks[np.searchsorted(breaks, n) :][:1] for breaks, n in
                ((apart, start + 1), (bent, start + 2)))  # fmt: skip
        stop = min((int(end[0]) for end in ends if end.size), default=chosen.size)
        yield slice(start, stop)
        start = stop


def _slice(numbers: Array) -> slice:
    step = int(numbers[1] - numbers[0]) if numbers.size > 1 else 1
    return slice(int(numbers[0]), int(numbers[-1]) + 1, step)


def combined(
    ufunc: np.ufunc, array: Array, axis: int, windows: PoolingWindows, nothing: Any
) -> Array:
    """The elements of each window along an axis, joined by `ufunc`; `nothing` for none at all."""
    if windows.tiles and windows.elements >= (LONG_ROW if axis == array.ndim - 1 else LONG):
        tiles = (*array.shape[:axis], windows.out, windows.elements, *array.shape[axis + 1 :])
        return ufunc.reduce(array.reshape(tiles), axis + 1)
    result = room_like(array, (*array.shape[:axis], windows.out, *array.shape[axis + 1 :]))
    before = (slice(None),) * axis
    if not windows.full:
        result.fill(nothing)
    for each in windows.passes:
        target, source = result[(*before, each.chosen)], array[(*before, each.places)]
        if each.fresh:
            target[...] = source
        else:
            ufunc(target, source, out=target)
    return result
