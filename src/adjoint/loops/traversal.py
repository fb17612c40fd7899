"""How a loop over elements goes over arrays of any strides: the order of the dimensions, and steps.

Arrays that broadcast to one shape are visited in the order in which the result lies in memory, with
dimensions joined where all arrays allow it.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided

from adjoint.core.records import record
from adjoint.core.shapes import Shape, merged, row_major

Array = np.ndarray[Any, Any]
Lie = tuple[Shape, Shape, int]  # shape, strides, bytes of an element
_MOST = 4  # most dimensions left after merging


@record
class Traversal:
    """The order and the steps in which a loop visits arrays with certain strides."""

    shape: Shape  # of the result
    order: Shape  # its dimensions from the outermost in memory to the innermost: (1, 0)
    places: Shape  # where each dimension is in that order; empty if row-major
    fields: Any  # four sizes, then four steps for each operand and for the result

    @property
    def is_empty(self) -> bool:
        return 0 in self.shape

    def room(self, dtype: Any) -> Array:
        """Memory for the result."""
        if not self.places:
            return np.empty(self.shape, dtype)
        return np.empty([self.shape[d] for d in self.order], dtype).transpose(self.places)


@lru_cache(maxsize=4096)
def plan(lies: tuple[Lie, ...], dtype: Any, out: Lie | None) -> Traversal | None:
    """The traversal for arrays with these shapes and strides; None if NumPy must compute."""
    try:
        shape = np.broadcast_shapes(*(shape for shape, *_ in lies))
    except ValueError:
        return None  # the NumPy kernel raises the error
    if any(s % size for _, strides, size in lies for s in strides):
        return None
    if out is None:
        strides = _strides_of_result(shape, lies)
        out = shape, tuple(s * dtype.itemsize for s in strides), dtype.itemsize
    elif out[0] != shape or any(s % out[2] for s in out[1]):
        return None
    order = tuple(sorted(range(len(shape)), key=lambda d: -abs(out[1][d])))
    operands = [_reordered(lie, order) for lie in (*lies, out)]
    joined = merged(tuple(shape[d] for d in order), operands, _MOST)
    if joined is None:
        return None
    sizes, steps = joined
    missing = _MOST - len(sizes)
    fields = [1] * missing + list(sizes)
    for each in steps:
        fields += [0] * missing + list(each)
    places = tuple(int(place) for place in np.argsort(order))
    usual = places == tuple(range(len(shape)))
    return Traversal(shape, order, () if usual else places, (ctypes.c_long * len(fields))(*fields))


@lru_cache(maxsize=4096)
def plan_alike(lie: Lie, dtype: Any, count: int) -> Traversal | None:
    """The traversal for as many operands and a result that all lie alike."""
    return plan((lie,) * count, dtype, lie)


def _strides_of_result(shape: Shape, lies: Sequence[Lie]) -> Shape:
    """The strides that NumPy gives to a result of these operands."""
    nothing = np.empty(1, np.uint8)
    if 0 in shape or not shape:
        return row_major(shape)
    operands = [as_strided(nothing, own, strides) for own, strides, _ in lies]
    flags: Any = [["readonly"]] * len(lies) + [["writeonly", "allocate"]]
    return np.nditer([*operands, None], op_flags=flags).operands[-1].strides


def _reordered(lie: Lie, order: Shape) -> tuple[Shape, Shape]:
    """Shape and steps of an operand, with its dimensions in the result's memory order."""
    shape, strides, size = lie
    missing = len(order) - len(shape)
    full, steps = (1,) * missing + shape, (0,) * missing + tuple(s // size for s in strides)
    return tuple(full[d] for d in order), tuple(steps[d] for d in order)
