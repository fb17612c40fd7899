"""Adding a gradient to `.grad` of a tensor."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from adjoint.core import threads
from adjoint.core.storage import fills_memory, is_expanded
from adjoint.tensor.nodes import wrote
from adjoint.tensor.tensor import Tensor, is_plain, make

ndarray = np.ndarray
_adding = threads.lock()  # passes in several threads may add to one leaf


def add_to_grad(tensor: Tensor, grad: Any, create_graph: bool) -> None:
    """Set or add to `.grad`; the array is taken over only if nobody else can see it."""
    with _adding:
        extra = tensor.more()
        known = extra.grad
        if known is None:
            if type(grad) is ndarray:
                # variables of two frames and this call hold the array; any further reference shares
                # it
                shared = grad.base is not None or sys.getrefcount(grad) > 3
                grad = make(_laid_like(tensor, grad) if shared or _lies_otherwise(tensor) else grad)
            else:  # copy: the next pass may add to it in place, and another leaf may hold it too
                grad = grad.clone() if create_graph else grad.detach().clone()
            extra.grad = grad
        elif not create_graph and _sums_in_place(known) and _sums_in_place(grad):
            known.add_(grad.detach())
        elif create_graph or not is_plain(known) or not _is_plain(grad):
            extra.grad = known + (make(grad) if type(grad) is ndarray else grad)
        else:
            value = grad if type(grad) is ndarray else grad.value
            if known.value.flags.writeable and not is_expanded(known.value):
                np.add(known.value, value, out=known.value, casting="unsafe")
                wrote(known, "backward")
            else:
                extra.grad = make(known.value + value)


def lying_as(tensor: Tensor | None, grad: Any) -> Any:
    """The gradient, or a copy of it in its leaf's memory order (channels last)."""
    if type(grad) is not ndarray or tensor is None or type(tensor.value) is not ndarray:
        return grad
    if grad.strides == tensor.value.strides or not _lies_otherwise(tensor):
        return grad
    return _laid_like(tensor, grad)


def _lies_otherwise(tensor: Tensor) -> bool:
    """Whether a leaf is not in row-major order: it is transposed, or has its channels last."""
    return is_plain(tensor) and not tensor.value.flags.c_contiguous


def _laid_like(tensor: Tensor, grad: ndarray) -> ndarray:
    """A copy of a gradient with the strides of its leaf if the leaf fills its memory; else
    row-major.
    """
    value = tensor.value
    known = _lies_otherwise(tensor) and value.itemsize == grad.itemsize and value.size
    if not known or not fills_memory(value.shape, value.strides, value.itemsize):
        return grad.copy()
    memory = np.empty(value.size, grad.dtype)
    room = np.ndarray(value.shape, grad.dtype, memory, strides=value.strides)
    room[...] = grad
    return room


def _sums_in_place(grad: Any) -> bool:
    return type(grad) is not ndarray and grad.home is not None and grad.home.sums_in_place


def _is_plain(grad: Any) -> bool:
    return type(grad) is ndarray or is_plain(grad)
