"""Looking up and counting: searchsorted, isin, histc, bincount."""

from __future__ import annotations

import numpy as np

from adjoint.c_kernels import ordering
from adjoint.checks.sorting import (
    FEW_NUMBERS,
    check_bincount,
    check_bins,
    check_ordered,
    check_search,
    from_right,
)
from adjoint.core import dtypes
from adjoint.core.errors import IndexOutOfRange, ValueRangeError
from adjoint.kernels.halves import wide_dtype
from adjoint.kernels.sorting.order import Array, comparable

_LONG = 64  # values per row from which one call for each row is faster than all rows in step


def searchsorted(
    sorted_sequence: Array, self: Array, out_int32: bool, right: bool, side: str | None,
    sorter: Array | None,
) -> Array:  # fmt: skip
    """Where in the sorted sequence each value belongs: before equal elements, or after if right."""
    right = from_right("searchsorted", right, side)
    for operand in (sorted_sequence, self):
        check_ordered("searchsorted", dtypes.of(operand.dtype))
    order = None if sorter is None else (sorter.shape, dtypes.of(sorter.dtype))
    check_search(sorted_sequence.shape, self.shape, order)
    sequence, values = comparable(sorted_sequence), comparable(self)
    if sorter is not None:
        _check_sorter(sorter, sequence.shape[-1])
        sequence = np.take_along_axis(sequence, sorter, -1)
    wide = np.result_type(sequence, values)
    sequence, values = sequence.astype(wide, copy=False), values.astype(wide, copy=False)
    found = _search(sequence, values, right)
    return np.asarray(found, np.int32 if out_int32 else np.int64)


def _check_sorter(sorter: Array, length: int) -> None:
    if sorter.size and not (sorter.min() >= 0 and sorter.max() < length):
        raise IndexOutOfRange(f"searchsorted: sorter must hold indices from 0 to {length - 1}")


def _search(sequence: Array, values: Array, right: bool) -> Array:
    found = ordering.search(sequence, values, right=right)
    if found is not None:
        return found
    # NumPy takes NaN for the greatest number; PyTorch puts it, and all after a NaN, at the end
    plain = sequence.dtype.kind != "f" or not (np.isnan(sequence).any() or np.isnan(values).any())
    side = "right" if right else "left"
    if sequence.ndim == 1:
        if plain:
            return np.searchsorted(sequence, values, side)  # type: ignore[return-value,call-overload]
        return _bisect(sequence, values.reshape(-1), right).reshape(values.shape)
    rows = sequence.reshape((-1, sequence.shape[-1])) if sequence.size else sequence
    if plain and values.size and sequence.size and values.shape[-1] >= _LONG:
        wanted = values.reshape((len(rows), -1))
        found = [np.searchsorted(s, v, side) for s, v in zip(rows, wanted, strict=True)]
        return np.stack(found).reshape(values.shape)
    return _bisect(sequence, values, right)


def _bisect(sequence: Array, values: Array, right: bool) -> Array:
    """Halve the range of every value at once."""
    length = sequence.shape[-1]
    low, high = np.zeros(values.shape, np.int64), np.full(values.shape, length)
    for _ in range(length.bit_length()):
        middle = (low + high) // 2
        here = np.take_along_axis(sequence, np.minimum(middle, length - 1), -1)
        after = ~(here > values) if right else ~(here >= values)
        searching = low < high
        low = np.where(searching & after, middle + 1, low)
        high = np.where(searching & ~after, middle, high)
    return low


def isin(elements: Array, test_elements: Array, assume_unique: bool, invert: bool) -> Array:
    """Whether each element is among the others; NaN never is."""
    if test_elements.size > FEW_NUMBERS:
        found = ordering.members(elements, test_elements, invert=invert)
        if found is not None:
            return found
    return np.isin(comparable(elements), comparable(test_elements), invert=invert)


def histc(self: Array, bins: int, min: float, max: float) -> Array:
    """How many elements of each row fall in each of `bins` equal parts of [min, max].

    min = max stands for the range of the row. What is outside is not counted.
    """
    check_bins(dtypes.of(self.dtype), bins, min, max)
    wide = wide_dtype(self.dtype)
    rows = self.astype(wide, copy=False)
    found = ordering.counts(rows, bins, min, max, own_range=min == max)
    if found is not None:
        return found.astype(self.dtype, copy=False)
    lead = rows.shape[:-1]
    low, high = (np.full((*lead, 1), bound, wide) for bound in (min, max))
    if min == max and rows.size:
        low, high = rows.min(axis=-1, keepdims=True), rows.max(axis=-1, keepdims=True)
    flat = low == high
    low, high = low - flat, high + flat
    if not (np.isfinite(low).all() and np.isfinite(high).all()):
        raise ValueRangeError("histc: the range of the elements is not finite; give min and max")
    with np.errstate(invalid="ignore"):
        inside = (rows >= low) & (rows <= high)
        places = np.where(inside, (rows - low) * (bins / (high - low)), 0).astype(np.int64)
    places = np.minimum(places, bins - 1) + bins * np.arange(low.size).reshape(low.shape)
    counts = np.bincount(places[inside], minlength=bins * low.size)
    return counts.reshape((*lead, bins)).astype(self.dtype)


def bincount(self: Array, weights: Array | None, minlength: int) -> Array:
    """How often each of 0, 1, 2, … occurs, or the sum of its weights."""
    shape = None if weights is None else weights.shape
    check_bincount(self.shape, dtypes.of(self.dtype), shape, minlength)
    if self.size and self.min() < 0:
        raise ValueRangeError("bincount: counts 0, 1, 2, …; the input has negative elements")
    if weights is None:
        return np.bincount(self, minlength=minlength).astype(np.int64, copy=False)
    if weights.dtype.kind == "c":
        parts = [np.bincount(self, w, minlength) for w in (weights.real, weights.imag)]
        return (parts[0] + 1j * parts[1]).astype(weights.dtype)
    counts = np.bincount(self, weights.astype(np.float64), minlength)
    return counts.astype(np.float32) if weights.dtype == np.float32 else counts
