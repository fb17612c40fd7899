"""Imagined memory: the strides that the tensors of a trace would have in eager mode.

To the traced function a tensor that is no view is contiguous, and a view has the strides of a view
of a contiguous base. Whether reshape() copies depends on the strides in eager mode: there the clone
or the double of a transposed tensor is transposed.

The arrays used here have addresses and no memory (`core.storage.imagined`), so only views of them
are taken. Layers of a network ask the same questions again and again, so answers are remembered by
layout.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from adjoint.checks import shape as shapes
from adjoint.core import dtypes
from adjoint.core.errors import AdjointError
from adjoint.core.layouts import PRESERVE, format_number
from adjoint.core.shapes import row_major
from adjoint.core.storage import imagined, offset_in_elements, order_of
from adjoint.homes.meta import infer, meta_tensor
from adjoint.ops.operator import Operator
from adjoint.tensor import views
from adjoint.tensor.tensor import Tensor, make

_REMEMBERED = 4096  # answers of each function
_COPIES = frozenset(("clone.default", "_to_copy.default"))  # the last argument is a memory format
_LIKE = _COPIES | {f"{name}_like.default" for name in ("empty", "zeros", "ones", "full")}


class StridedLayout(NamedTuple):
    """The strides and offset of a tensor in imagined memory."""

    shape: tuple[int, ...]
    dtype: Any  # NumPy's
    strides: tuple[int, ...]  # in bytes
    offset: int  # of the first element, in elements from the base's first

    def array(self) -> Any:
        """An array with this layout, which is never read or written."""
        return imagined(self.shape, self.dtype, self.strides)


def view_of(tensor: Any) -> Any:
    """The path by which a tensor is a view of its base; None if it is no view."""
    return None if tensor.extra is None else tensor.extra.view


def seen(tensor: Any) -> StridedLayout:
    """The layout that the traced function sees: that of a view of a contiguous base."""
    view = view_of(tensor)
    if view is None:
        return _ordered(tuple(tensor.shape), tensor.dtype.np, None)
    return _viewed(_ordered(tuple(view.base.shape), view.base.dtype.np, None), _path(view))


def _eager(tensor: Any) -> StridedLayout:
    """The layout in eager mode."""
    if type(tensor.value) is np.ndarray:
        return StridedLayout(tensor.value.shape, tensor.value.dtype, tensor.value.strides, 0)
    view = view_of(tensor)
    if view is not None and view.function:  # made by a user's function, so that the path is unknown
        return _ordered(tuple(tensor.shape), tensor.dtype.np, None)
    base = tensor if view is None else view.base
    order = None if base.extra is None else base.extra.order
    found = _ordered(tuple(base.shape), base.dtype.np, order)
    # if the trace assumed a contiguous base and took a view, eager mode may copy
    return found if view is None else _viewed(found, _path(view))


@lru_cache(_REMEMBERED)
def _ordered(shape: tuple[int, ...], dtype: Any, order: tuple[int, ...] | None) -> StridedLayout:
    """The layout of a tensor that is no view, with its outermost dimension first in `order`."""
    order = tuple(range(len(shape))) if order is None else order
    size, steps = np.dtype(dtype).itemsize, row_major([shape[d] for d in order])
    return StridedLayout(shape, dtype, tuple([size * steps[d] for d in shapes.inverse(order)]), 0)


@lru_cache(_REMEMBERED)
def _viewed(base: StridedLayout, path: tuple[views.Step, ...]) -> StridedLayout:
    """The layout of a view of a base."""
    array = base.array()
    for op, rest, number in path:
        array = _step(array, op, [_argument(r) for r in rest], number)
    return StridedLayout(array.shape, array.dtype, array.strides, offset_in_elements(array))


def _step(array: Any, op: Operator, rest: list[Any], number: int | None) -> Any:
    """A view of an array; an array of its own if the operator computes in eager mode."""
    example = meta_tensor(array.shape, dtypes.of(array.dtype))
    found = infer(op, [example, *rest])
    spec = found if number is None else found[number]
    if op.row.moves == "shape":
        viewed = _reshaped(array, spec.shape)
        return imagined(spec.shape, array.dtype) if viewed is None else viewed
    if not op.row.reads_memory and not _is_view(op, example, rest):
        order = _order(True, StridedLayout(array.shape, array.dtype, array.strides, 0))
        return _ordered(spec.shape, spec.dtype.np, order).array()
    result = op.parts.compute(make(array), *rest)
    return result if number is None else result[number]


def _is_view(op: Operator, example: Any, rest: list[Any]) -> bool:
    """Whether the operator really returns a view for these arguments.

    Tried on a stride-0 array, which is safe to read.
    """
    if op.row.archetype.shape != "view":
        return False
    try:
        found = op.parts.compute(example, *rest)
    except (AdjointError, ValueError):  # it requires other strides
        return True
    first = found[0] if isinstance(found, list) and found else found
    return isinstance(first, np.ndarray) and np.may_share_memory(first, example.value)


def _reshaped(array: Any, shape: tuple[int, ...]) -> Any:
    """A view of an array in another shape; None if the reshape needs a copy."""
    try:
        return array.reshape(shape, copy=False)
    except ValueError:
        return None


def _path(view: Any) -> tuple[views.Step, ...]:
    """The path of a view with layouts in place of tensors, so that it can be a key."""
    return tuple([(op, tuple(map(_remembered, rest)), n) for op, rest, n in view.path])


def _remembered(argument: Any) -> Any:
    if isinstance(argument, Tensor):
        return _ordered(tuple(argument.shape), argument.dtype.np, None)
    return tuple(argument) if type(argument) is list else argument


def _argument(remembered: Any) -> Any:
    return make(remembered.array()) if isinstance(remembered, StridedLayout) else remembered


# --- questions ------------------------------------------------------------------------------------


def copies(op: Operator, source: Any, values: list[Any]) -> bool:
    """Whether reshape would copy, since the strides do not allow the new shape."""
    if _lies_in_order(source):
        return False
    return _copies(op, _eager(source), tuple(map(_remembered, values[1:])))


@lru_cache(_REMEMBERED)
def _copies(op: Operator, source: StridedLayout, rest: tuple[Any, ...]) -> bool:
    found = infer(op, [meta_tensor(source.shape, dtypes.of(source.dtype)), *rest])
    return _reshaped(source.array(), found.shape) is None


def note_order(op: Operator, values: list[Any], out: Any) -> None:
    """Note the order of dimensions in memory that eager mode gives the result of an operator."""
    like = op.full_name in _LIKE
    if (not like and op.row.archetype.shape != "broadcast") or len(out.shape) < 2:
        return
    tensors = [v for v in values if isinstance(v, Tensor)]
    if all(map(_lies_in_order, tensors)):
        return
    if op.full_name in _COPIES and format_number(op.name, values[-1]) != PRESERVE:
        return
    order = _order(like, *map(_eager, tensors))
    if order is not None:
        out.more().order = order


@lru_cache(_REMEMBERED)
def _order(like: bool, *layouts: StridedLayout) -> tuple[int, ...] | None:
    """The order of the result's dimensions in memory, outermost first; None if it is contiguous."""
    whole = [each.array() for each in layouts]
    # two elements along each dimension suffice to find the order, and need little memory
    arrays = [a[(slice(2),) * a.ndim] for a in whole]
    array = np.empty_like(arrays[0], order=order_of(whole[0])) if like else _broadcast(arrays)
    if array.flags.c_contiguous:
        return None
    return tuple(sorted(range(array.ndim), key=lambda d: -array.strides[d]))


def _broadcast(arrays: list[Any]) -> Any:
    """An array of bytes, in the memory order of NumPy's result for these operands."""
    flags: Any = [["readonly"]] * len(arrays) + [["writeonly", "allocate"]]
    # bytes, since NumPy has no common dtype of bfloat16 and whole numbers
    dtypes = [*(a.dtype for a in arrays), np.uint8]
    with np.nditer([*arrays, None], ["zerosize_ok"], flags, dtypes, order="K") as loop:
        return loop.operands[-1]


def _lies_in_order(tensor: Any) -> bool:
    """Whether a tensor is known to be contiguous, without a look at the base of a view."""
    if type(tensor.value) is np.ndarray:
        return bool(tensor.value.flags.c_contiguous)
    return tensor.extra is None or (tensor.extra.view is None and tensor.extra.order is None)
