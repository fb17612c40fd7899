"""Forward mode for users, with PyTorch's names: `dual_level`, `make_dual`, `unpack_dual`.

>>> import adjoint as ad
>>> from adjoint.autograd import forward_ad
>>> with forward_ad.dual_level():
...     x = forward_ad.make_dual(ad.tensor(2.0), ad.tensor(1.0))
...     forward_ad.unpack_dual(x**3).tangent
tensor(12.)
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from adjoint.core.errors import DtypeError, GradError, ShapeError, ValueRangeError
from adjoint.core.shapes import show
from adjoint.core.state import current
from adjoint.core.storage import storage_of, strided_view, strides_in_elements
from adjoint.homes import fans
from adjoint.homes.forward import DUALS, dual, duals, is_dual
from adjoint.homes.limits import ordinary
from adjoint.homes.sparse import with_coalesced
from adjoint.homes.structures import StructuredTensor
from adjoint.tensor import views
from adjoint.tensor.nodes import KEEPS, Node, Rule
from adjoint.tensor.tensor import Tensor, alias, is_plain, make

__all__ = [
    "UnpackedDualTensor",
    "dual_level",
    "enter_dual_level",
    "exit_dual_level",
    "make_dual",
    "unpack_dual",
]


class UnpackedDualTensor(NamedTuple):
    """A tensor without its tangent, and the tangent (None if it has none)."""

    primal: Tensor
    tangent: Tensor | None


def _alias(node: Node, grad: Any, needs: Any, graph: bool) -> tuple[Any]:
    return (grad,)


_ALIAS = Rule("AliasBackward0", _alias, holds=False, zeros=KEEPS)


def enter_dual_level() -> int:
    """Open the level in which dual tensors live; there is one at a time."""
    if duals.get() is not None:
        raise GradError("dual_level: a level is open already; nest ad.jvp for forward over forward")
    duals.set([])
    return 0


def exit_dual_level(*, level: int | None = None) -> None:
    """Close the level: its dual tensors become ordinary ones."""
    living = duals.get()
    if living is None:
        raise GradError("exit_dual_level: no level is open")
    duals.set(None)
    for reference in living:
        tensor = reference()
        if tensor is not None and is_dual(tensor):
            tensor.home = tensor.companion = None


class dual_level:  # noqa: N801 - PyTorch's name
    """The block in which forward mode is computed; tangents end with it."""

    def __enter__(self) -> int:
        return enter_dual_level()

    def __exit__(self, *_: Any) -> None:
        exit_dual_level()


def make_dual(tensor: Tensor, tangent: Tensor, *, level: int | None = None) -> Tensor:
    """Return `tensor` with a tangent. Operators on the result carry the tangent along.

    >>> import adjoint as ad
    >>> with ad.autograd.forward_ad.dual_level():
    ...     dual = ad.autograd.forward_ad.make_dual(ad.tensor(3.0), ad.tensor(1.0))
    ...     ad.autograd.forward_ad.unpack_dual(dual**2).tangent
    tensor(6.)
    """
    if duals.get() is None:
        raise GradError("make_dual needs an open level: with forward_ad.dual_level(): …")
    if not isinstance(tensor, Tensor) or not isinstance(tangent, Tensor):
        raise TypeError(
            f"make_dual needs two tensors, got {type(tensor).__name__} and {type(tangent).__name__}"
        )
    for name, given in (("tensor", tensor), ("tangent", tangent)):
        if not given.is_differentiable_dtype():
            raise ValueRangeError(
                f"make_dual: the {name} is {given.dtype.name}; only floating point and complex "
                "tensors have tangents and are ones"
            )
    if tensor.shape != tangent.shape:
        raise ShapeError(
            f"make_dual: the tangent has shape {show(tangent.shape)}, the tensor "
            f"{show(tensor.shape)}; they must be equal"
        )
    if tensor.dtype is not tangent.dtype:
        raise DtypeError(
            f"make_dual: the tangent is {tangent.dtype.name}, the tensor {tensor.dtype.name}"
        )
    if isinstance(tensor, StructuredTensor):
        once: Any = with_coalesced(tensor)
        return once.holding(make_dual(once.stored, once.fitted(tangent)))
    if is_dual(tensor):
        raise GradError("make_dual: the tensor has a tangent already; unpack_dual it first")
    if is_dual(tangent):
        raise GradError(
            "make_dual: the tangent has a tangent of its own at the same level; nest ad.jvp for "
            "forward over forward"
        )
    if not _is_laid_out_like(tangent, tensor):
        tangent = _laid_out_like(tangent, tensor)
    made = alias(tensor)
    if tensor.edge is not None and current().recording:
        made.edge = Node(_ALIAS, (tensor.edge,), (), tensor.value.shape, tensor.value.dtype)
        made.edge.home = DUALS
    return dual(made, tangent)


def _is_laid_out_like(tangent: Tensor, tensor: Tensor) -> bool:
    """Whether the tangent can be viewed wherever the tensor can."""
    pairs = zip(tensor.shape, tangent.stride(), tensor.stride(), strict=True)
    same = tensor.numel() == 0 or all(size == 1 or a == b for size, a, b in pairs)
    if not same or not is_plain(tangent):
        return same
    return storage_of(tangent.value)[0].size == storage_of(tensor.value)[0].size


def _laid_out_like(tangent: Tensor, tensor: Tensor) -> Tensor:
    """A copy of the tangent in memory of the size and order of the tensor's."""
    if not is_plain(tangent) or tangent.edge is not None:
        return views.in_memory_order_of(tangent, tensor)
    flat, offset = storage_of(tensor.value)
    whole = np.zeros(flat.size, tangent.value.dtype)
    strides = strides_in_elements(tensor.value)
    made = strided_view(whole, tensor.shape, strides, offset)
    made[...] = tangent.value
    return make(made)


def unpack_dual(tensor: Tensor, *, level: int | None = None) -> UnpackedDualTensor:
    """Return the tensor without its tangent, and the tangent or None.

    >>> import adjoint as ad
    >>> with ad.autograd.forward_ad.dual_level():
    ...     ad.autograd.forward_ad.unpack_dual(ad.tensor(3.0)).tangent is None
    True
    """
    if isinstance(tensor, StructuredTensor):
        primal, tangent = unpack_dual(tensor.stored)
        found = None if tangent is None else tensor.holding(tangent)
        return UnpackedDualTensor(tensor.holding(primal), found)
    tensor = ordinary(fans.ordinary(tensor))
    if is_dual(tensor):
        return UnpackedDualTensor(DUALS.primal(tensor), DUALS.tangent(tensor))
    return UnpackedDualTensor(tensor, None)


def __dir__() -> list[str]:
    return sorted(__all__)
