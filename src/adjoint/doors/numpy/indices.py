"""Brackets on arrays, with NumPy's rules: `x[key]` and `x[key] = value`.

A key is brought to one that means the same to tensors (tensor/indexing.py): lists are arrays of
indices, and beside an array of indices a number is one, too, so that it takes part in where the
dimensions of the result stand. What names one element gives a number, slices give views, and arrays
of indices give copies.
"""

from __future__ import annotations

from operator import index
from typing import Any

import numpy as np

from adjoint import ops
from adjoint.calls.methods import tensor_of
from adjoint.checks.indexing import is_mask
from adjoint.core.dtypes import int64
from adjoint.doors.numpy.conversion import Array
from adjoint.homes.arrays import Operands, ndarray, number_of
from adjoint.homes.held_numbers import HeldNumber
from adjoint.tensor import indexing
from adjoint.tensor.tensor import Tensor


def getitem(self: Any, key: Any) -> Any:
    """Return `self[key]`: a number, a view, or a copy."""
    tensor = self.value
    if type(key) is int and tensor.ndim == 1:
        return _element(self, tensor.select(0, key))
    entries = _entries(key)
    view, indices, backwards = indexing.take_apart(tensor, entries)
    if indices:
        source = view.flip(backwards) if backwards else view
        operands = Operands()
        operands.arrays.append(self)
        return operands.arrays_of(ops.index.Tensor.function(source, indices))
    if len(entries) == tensor.ndim and all(type(e) is int for e in entries):
        return _element(self, view)
    part = self.viewed(tensor, ()) if view is tensor else self.viewed(view)
    return part.mirrored(backwards) if backwards else part


def _element(array: Any, view: Any) -> Any:
    """An element, which no later write to the array reaches: Note [Elements are numbers]."""
    memory = array.memory
    if memory is None or (memory.held and not memory.fixed):
        return number_of(view)  # the array goes on with other memory when it is written to
    return number_of(view.clone())


def setitem(self: Any, key: Any, value: Any) -> None:
    """Write to `self[key]`."""
    entries = _entries(key)
    if isinstance(value, ndarray):
        value = value.value.clone() if value.memory is self.memory else value.undressed()
    elif type(value) is not float:
        value = as_written(self.value, value)
    self.write(lambda tensor: indexing.setitem(tensor, entries, value))


def as_written(tensor: Any, value: Any) -> Any:
    """A value that is written to an array, converted to one that tensors take."""
    if type(value) in (bool, int, float, complex):
        return value
    return value.in_dtype(tensor.dtype) if type(value) is HeldNumber else Array(value)


def _entries(key: Any) -> tuple[Any, ...]:
    """A key as a tuple of what tensors take."""
    given = key if type(key) is tuple else (key,)
    entries = [_entry(e) for e in given]
    if any(isinstance(e, Tensor) and (e.ndim or is_mask(e)) for e in entries):
        entries = [tensor_of(np.array([e])) if type(e) is int else e for e in entries]
    return tuple(entries)


def _entry(entry: Any) -> Any:
    """One entry of a key: a Python number, a slice, None, Ellipsis, or a tensor of indices."""
    kind = type(entry)
    if kind is int or entry is None or entry is Ellipsis:
        return entry
    if kind is slice:
        bounds = (entry.start, entry.stop, entry.step)
        if any(isinstance(b, ndarray) for b in bounds):
            return slice(*(index(b) if isinstance(b, ndarray) else b for b in bounds))
        return entry
    if isinstance(entry, (bool, np.bool_)):
        return bool(entry)
    if isinstance(entry, (list, tuple, range)):
        entry = Array(entry if len(entry) else np.zeros(0, np.int64))
    elif isinstance(entry, (Tensor, np.ndarray)):
        entry = Array(entry)
    else:
        return index(entry) if isinstance(entry, np.integer) else entry
    if entry.dtype.kind == "u":  # to tensors, uint8 is a mask
        entry = entry.to(int64)
    return indexing.index_of(entry)
