"""The order of elements along a dimension, as PyTorch has it.

NaN counts as greater than every number: last in ascending order, first in descending. Equal
elements keep their order, stable sort or not. Complex numbers have no order.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from adjoint.checks.sorting import check_ordered
from adjoint.core import dtypes
from adjoint.core.shapes import wrap_dim
from adjoint.kernels.halves import widen

Array = np.ndarray[Any, Any]

_DIGIT = 2  # bytes: elements of up to this size NumPy sorts by digits, in linear time
_SHORT = 16  # along rows of up to so many elements any sort does
_LONG = 4096  # from here on sorting digit by digit is fastest


def sort(self: Array, dim: int, descending: bool) -> tuple[Array, Array]:
    """The elements in order along `dim`, and where each of them was."""
    check_ordered("sort", dtypes.of(self.dtype))
    axis = wrap_dim("sort", dim, self.ndim)
    if self.ndim == 0:
        return self.copy(), np.zeros((), np.int64)
    indices = order(self, axis, descending)
    return take(self, indices, axis), indices


def argsort(self: Array, dim: int, descending: bool) -> Array:
    """Where the elements in order along `dim` were."""
    check_ordered("argsort", dtypes.of(self.dtype))
    axis = wrap_dim("argsort", dim, self.ndim)
    return order(self, axis, descending) if self.ndim else np.zeros((), np.int64)


def comparable(self: Array) -> Array:
    """The numbers in a dtype that NumPy compares fast, and with NaN last."""
    return widen(self)


def take(self: Array, indices: Array, axis: int) -> Array:
    """The elements at `indices` along `axis`."""
    if self.ndim == 1:
        return self[indices]
    if axis in (-1, self.ndim - 1) and indices.size and self.flags.c_contiguous:
        starts = np.arange(0, self.size, self.shape[-1]).reshape((*self.shape[:-1], 1))
        return self.reshape(-1).take(indices + starts)
    return np.take_along_axis(self, indices, axis)


def last_axis(self: Array, axis: int) -> Array:
    """The array with `axis` as the last one; a view."""
    return self if axis == self.ndim - 1 else np.moveaxis(self, axis, -1)


def order(self: Array, axis: int, descending: bool) -> Array:
    """The stable order of the elements along `axis` of an array that has dimensions."""
    rows = comparable(self)
    if axis == rows.ndim - 1:
        return _order(rows, descending)
    found = _order(np.ascontiguousarray(np.moveaxis(rows, axis, -1)), descending)
    return np.ascontiguousarray(np.moveaxis(found, -1, axis))


def _order(rows: Array, descending: bool) -> Array:
    """The stable order along the last axis."""
    length = rows.shape[-1]
    if length >= _LONG and rows.dtype.itemsize > _DIGIT:
        return _by_digits(rows, descending)
    if not descending:
        return _by_comparison(rows)
    # the ascending order of the reverse, reversed: equal elements keep their order
    return length - 1 - _by_comparison(rows[..., ::-1])[..., ::-1]


def _by_comparison(rows: Array) -> Array:
    """The ascending stable order.

    NumPy's other sort is several times faster, and differs in the order of equal elements alone.
    """
    if rows.dtype.kind in "iu" and rows.dtype.itemsize > _DIGIT and rows.size > _LONG:
        rows = _narrowed(rows)
    if rows.shape[-1] <= _SHORT or rows.dtype.itemsize <= _DIGIT or rows.size == 0:
        return rows.argsort(axis=-1, kind="stable")
    rows = np.ascontiguousarray(rows)
    found = rows.argsort(axis=-1)
    values = take(rows, found, -1)
    equal = values[..., 1:] == values[..., :-1]
    if rows.dtype.kind == "f":
        equal |= np.isnan(values[..., :-1])  # after a NaN there are only NaN
    if equal.any():
        _settle_ties(found, equal)
    return found


def _narrowed(rows: Array) -> Array:
    """Integers as one digit each if their range allows: equal ones abound there."""
    low = rows.min()
    if int(rows.max()) - int(low) >= 1 << 8 * _DIGIT:
        return rows
    return (rows - low).astype(np.uint16)


def _settle_ties(found: Array, equal: Array) -> None:
    """Put the positions of equal elements in order, in place; `equal`: which equal their left."""
    length = found.shape[-1]
    new = np.ones(found.shape, np.bool_)
    np.logical_not(equal, out=new[..., 1:])
    tied = ~new
    tied[..., :-1] |= equal
    run = np.cumsum(new.reshape(-1)).reshape(found.shape)[tied]  # one number for each run of equals
    found[tied] = np.sort(run * length + found[tied]) % length


def _by_digits(rows: Array, descending: bool) -> Array:
    """The stable order of long rows, by radix: the last 16 bits first, then the ones before."""
    keys = _keys(rows)
    if descending:
        keys = ~keys
    found = np.empty(rows.shape, np.int64)
    for place in np.ndindex(rows.shape[:-1]):
        found[place] = _order_of_keys(keys[place])
    return found


def _order_of_keys(keys: Array) -> Array:
    found = None
    for shift in range(0, 8 * keys.dtype.itemsize, 16):
        digits = (keys >> shift).astype(np.uint16)
        if digits.min() == digits.max():  # as the upper digits of small integers
            continue
        if found is None:
            found = digits.argsort(kind="stable")
        else:
            found = found[digits[found].argsort(kind="stable")]
    return np.arange(keys.size) if found is None else found


def _keys(rows: Array) -> Array:
    """Unsigned integers in the order of the elements: -0.0 as 0.0, NaN last."""
    bits = 8 * rows.dtype.itemsize
    unsigned, top = np.dtype(f"u{bits // 8}"), 1 << (bits - 1)
    if rows.dtype.kind in "iu":  # from the least on, so that a small range has few digits
        return np.ascontiguousarray(rows).view(unsigned) - rows.min().astype(unsigned)
    pattern = (rows + rows.dtype.type(0)).view(f"i{bits // 8}")
    sign = (pattern >> (bits - 1)).view(
        unsigned
    )  # all ones for negative numbers: their order turns
    keys = pattern.view(unsigned) ^ (sign | unsigned.type(top))
    nan = np.isnan(rows)
    if nan.any():
        keys[nan] = np.iinfo(unsigned).max
    return keys
