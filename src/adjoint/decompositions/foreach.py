"""Operators on lists of tensors, as the operator on each: `foreach.sin` is `sin` of every entry.

The functions here are made on first use, one for each operator: an argument that is a list is taken
entry by entry, any other argument is shared by all entries. `foreach.sin_` is `sin_` of every
entry. Derivatives, vmap and traces follow from the operator.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from adjoint import ops
from adjoint.core.errors import ArgumentError, ShapeError
from adjoint.core.promotion import fit_number
from adjoint.core.shapes import show
from adjoint.ops.operator import exists

Tensor = Any


def over_lists(name: str, operator: Callable[..., Any]) -> Callable[..., Any]:
    """Return `operator` as a function of lists, which must be of one length."""

    def mapped(*arguments: Any) -> list[Any]:
        lists = [a for a in arguments if isinstance(a, (list, tuple))]
        count = len(lists[0])
        if count == 0:
            raise ArgumentError(f"_foreach_{name}: the list of tensors is empty.")
        if any(len(entries) != count for entries in lists):
            lengths = ", ".join(str(len(entries)) for entries in lists)
            raise ShapeError(f"_foreach_{name}: the lists have different lengths: {lengths}.")
        columns = [a if isinstance(a, (list, tuple)) else [a] * count for a in arguments]
        return [operator(*entries) for entries in zip(*columns, strict=True)]

    mapped.__name__ = mapped.__qualname__ = name
    return mapped


def _scaled(name: str, self: Tensor, other: Any, alpha: Any = 1) -> Tensor:
    """add and sub, with their factor."""
    return getattr(ops, name)(self, other, alpha=alpha)


def _with_value(name: str, self: Tensor, tensor1: Tensor, tensor2: Tensor, value: Any) -> Tensor:
    """addcmul and addcdiv, with their factor: a number, or one entry of a tensor."""
    if isinstance(value, (bool, int, float, complex)):
        return getattr(ops, name)(self, tensor1, tensor2, value=value)
    product = (ops.mul if name.startswith("addcmul") else ops.div)(tensor1, tensor2)
    add = ops.add_ if name.endswith("_") else ops.add
    return add(self, product * value.to(product.dtype))  # a number, as far as dtypes go


def _extremum(name: str, self: Tensor, other: Any) -> Tensor:
    """maximum and minimum of a tensor and a number, too; a tie gives the tensor half."""
    if isinstance(other, (bool, int, float, complex)):
        fits = self.dtype.is_differentiable or isinstance(other, int)
        other = self.new_full((), fit_number(other, self.dtype)) if fits else ops.full((), other)
    return getattr(ops, name)(self, other)


def _norm(name: str, self: Tensor, order: Any, dtype: Any) -> Tensor:
    return ops.linalg_vector_norm(self, order, None, False, dtype=dtype)


def _power_sum(name: str, self: Tensor, order: Any, dtype: Any) -> Tensor:
    """Σ |x| to the power `order`."""
    size = (self if dtype is None else self.to(dtype)).abs()
    return (size * size if order == 2 else size**order).sum()


# Operators whose arguments for an entry differ from their row's for lists; by name, without the
# underscore of in-place ones.
OWN: dict[str, Callable[..., Any]] = {
    "add": _scaled,
    "sub": _scaled,
    "addcmul": _with_value,
    "addcdiv": _with_value,
    "maximum": _extremum,
    "minimum": _extremum,
    "norm": _norm,
    "powsum": _power_sum,
    "clone": lambda name, self, memory_format: self.clone(),
    "copy": lambda name, self, src, non_blocking: getattr(ops, name)(self, src),
    "zero": lambda name, self: self.zero_() if name == "zero_" else ops.zeros_like(self),
}


def _factors(name: str, mapped: Callable[..., list[Any]]) -> Callable[..., list[Any]]:
    """addcmul and addcdiv, also with a tensor that holds one factor for each entry."""

    def call(self: Any, tensor1: Any, tensor2: Any, value: Any) -> list[Any]:
        if not isinstance(value, (bool, int, float, complex, list, tuple)):
            if value.ndim != 1 or value.shape[0] != len(self):
                raise ShapeError(
                    f"_foreach_{name}: needs a vector of {len(self)} factors, got "
                    f"{show(value.shape)}."
                )
            value = list(value.unbind(0))
        return mapped(self, tensor1, tensor2, value)

    return call


def __getattr__(name: str) -> Callable[..., Any]:
    own = OWN.get(name.removesuffix("_"))
    if name.startswith("_") or (own is None and not exists(name)):
        raise AttributeError(name)
    function = over_lists(name, ops.packet(name) if own is None else partial(own, name))
    if own is _with_value:
        function = _factors(name, function)
    globals()[name] = function
    return function
