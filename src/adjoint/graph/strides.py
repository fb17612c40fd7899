"""Imagined memory: the strides that the tensors of a trace would have in eager mode.

To the traced function a tensor that is not a view is contiguous, and a view has the strides that it
would have there. Whether reshape() copies is asked of the order in which eager mode would lay the
tensor out: that of a transposed tensor's clone or double is transposed.

The arrays that tell have addresses and no memory (`core.storage.imagined`), so views are taken of
them and nothing else. Layers of a network ask the same again and again, so that answers are
remembered by layout.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from adjoint.checks import shape as shapes
from adjoint.core import dtypes
from adjoint.core.errors import AdjointError
from adjoint.core.layouts import PRESERVE, format_number
from adjoint.core.storage import imagined, offset_in_elements, order_of, row_major
from adjoint.homes.meta import infer, meta_tensor
from adjoint.ops.operator import Operator
from adjoint.tensor import views
from adjoint.tensor.tensor import Tensor, make

_REMEMBERED = 4096  # answers
_COPIES = frozenset(("clone.default", "_to_copy.default"))  # in a memory format, the last argument
_LIKE = _COPIES | {f"{name}_like.default" for name in ("empty", "zeros", "ones", "full")}


class StridedLayout(NamedTuple):
    """A place in imagined memory."""

    shape: tuple[int, ...]
    dtype: Any  # NumPy's
    strides: tuple[int, ...]  # in bytes
    offset: int  # of the first element, counted in elements from the base's

    def array(self) -> Any:
        """An array, never read or written, that lies in memory like this."""
        return imagined(self.shape, self.dtype, self.strides)


def view_of(tensor: Any) -> Any:
    """How a tensor comes from its base; None if it is no view."""
    return None if tensor.extra is None else tensor.extra.view


def seen(tensor: Any) -> StridedLayout:
    """The layout that a traced function sees: of a view of a contiguous base."""
    view = view_of(tensor)
    if view is None:
        return _ordered(tuple(tensor.shape), tensor.dtype.np, None)
    return _viewed(_ordered(tuple(view.base.shape), view.base.dtype.np, None), _path(view))


def _eager(tensor: Any) -> StridedLayout:
    """The layout in eager mode."""
    if type(tensor.value) is np.ndarray:
        return StridedLayout(tensor.value.shape, tensor.value.dtype, tensor.value.strides, 0)
    view = view_of(tensor)
    if view is not None and view.function:  # of a user's function, which tells no path
        return _ordered(tuple(tensor.shape), tensor.dtype.np, None)
    base = tensor if view is None else view.base
    order = None if base.extra is None else base.extra.order
    found = _ordered(tuple(base.shape), base.dtype.np, order)
    # where the trace took the base to lie in order, and viewed it, eager mode may copy
    return found if view is None else _viewed(found, _path(view))


@lru_cache(_REMEMBERED)
def _ordered(shape: tuple[int, ...], dtype: Any, order: tuple[int, ...] | None) -> StridedLayout:
    """Of a tensor that is no view, its dimensions in this order, the outermost first."""
    if order is None:
        return StridedLayout(shape, dtype, row_major(shape, dtype), 0)
    strides = row_major([shape[d] for d in order], dtype)
    return StridedLayout(shape, dtype, tuple([strides[d] for d in shapes.inverse(order)]), 0)


@lru_cache(_REMEMBERED)
def _viewed(base: StridedLayout, path: tuple[views.Step, ...]) -> StridedLayout:
    """Of a view of a base."""
    array = base.array()
    for op, rest, number in path:
        array = _step(array, op, [_argument(r) for r in rest], number)
    return StridedLayout(array.shape, array.dtype, array.strides, offset_in_elements(array))


def _step(array: Any, op: Operator, rest: list[Any], number: int | None) -> Any:
    """A view of an array; where eager mode computes, an array of its own."""
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
    """Whether a row's result looks at its argument, as it says: of a number that is repeated, which
    may be read.
    """
    if op.row.archetype.shape != "view":
        return False
    try:
        found = op.parts.compute(example, *rest)
    except (AdjointError, ValueError):  # it looks at strides, and wants others
        return True
    first = found[0] if isinstance(found, list) and found else found
    return isinstance(first, np.ndarray) and np.may_share_memory(first, example.value)


def _reshaped(array: Any, shape: tuple[int, ...]) -> Any:
    """An array with another shape; None where that takes a copy."""
    try:
        return array.reshape(shape, copy=False)
    except ValueError:
        return None


def _path(view: Any) -> tuple[views.Step, ...]:
    """The path of a view that can be remembered: layouts in the place of tensors."""
    return tuple([(op, tuple(map(_remembered, rest)), n) for op, rest, n in view.path])


def _remembered(argument: Any) -> Any:
    if isinstance(argument, Tensor):
        return _ordered(tuple(argument.shape), argument.dtype.np, None)
    return tuple(argument) if type(argument) is list else argument


def _argument(remembered: Any) -> Any:
    return make(remembered.array()) if isinstance(remembered, StridedLayout) else remembered


# --- questions ------------------------------------------------------------------------------------


def copies(op: Operator, source: Any, values: list[Any]) -> bool:
    """Whether reshape would copy: the strides do not allow the new shape."""
    if _lies_in_order(source):
        return False
    return _copies(op, _eager(source), tuple(map(_remembered, values[1:])))


@lru_cache(_REMEMBERED)
def _copies(op: Operator, source: StridedLayout, rest: tuple[Any, ...]) -> bool:
    found = infer(op, [meta_tensor(source.shape, dtypes.of(source.dtype)), *rest])
    return _reshaped(source.array(), found.shape) is None


def note_order(op: Operator, values: list[Any], out: Any) -> None:
    """Note in which order eager mode lays out the result of an operator that keeps the order."""
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
    """The dimensions of a result, outermost in memory first; None if it lies in order."""
    whole = [each.array() for each in layouts]
    # the order follows from strides: two elements along each dimension tell, and need no memory
    arrays = [a[(slice(2),) * a.ndim] for a in whole]
    array = np.empty_like(arrays[0], order=order_of(whole[0])) if like else _broadcast(arrays)
    if array.flags.c_contiguous:
        return None
    return tuple(sorted(range(array.ndim), key=lambda d: -array.strides[d]))


def _broadcast(arrays: list[Any]) -> Any:
    """An array of bytes, in the order that NumPy gives the result of a function of these."""
    flags: Any = [["readonly"]] * len(arrays) + [["writeonly", "allocate"]]
    # of bytes: NumPy knows no dtype that holds both bfloat16 and whole numbers
    dtypes = [*(a.dtype for a in arrays), np.uint8]
    with np.nditer([*arrays, None], ["zerosize_ok"], flags, dtypes, order="K") as loop:
        return loop.operands[-1]


def _lies_in_order(tensor: Any) -> bool:
    """Whether a tensor is known to be contiguous, without looking at what it views."""
    if type(tensor.value) is np.ndarray:
        return bool(tensor.value.flags.c_contiguous)
    return tensor.extra is None or (tensor.extra.view is None and tensor.extra.order is None)
