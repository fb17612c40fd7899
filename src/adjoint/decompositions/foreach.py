"""Operators on lists of tensors, as the operator on each: `foreach.sin` is `sin` of every entry.

The functions here are made on first use, one for each operator: an argument that is a list is
taken entry by entry, another one is the same for all. `foreach.sin_` is `sin_` of every entry.
Derivatives, vmap and traces follow from the operator.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from adjoint import ops
from adjoint.core.errors import ArgumentError, ShapeError
from adjoint.core.promotion import fit_number
from adjoint.core.shapes import show

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


def _scaled(name: str) -> Callable[..., Any]:
    """add and sub, with their factor."""

    def call(self: Tensor, other: Any, alpha: Any = 1) -> Tensor:
        return getattr(ops, name)(self, other, alpha=alpha)

    return call


def _with_value(name: str) -> Callable[..., Any]:
    """addcmul and addcdiv, with their factor."""

    def call(self: Tensor, tensor1: Tensor, tensor2: Tensor, value: Any) -> Tensor:
        return getattr(ops, name)(self, tensor1, tensor2, value=value)

    return call


def _extremum(name: str) -> Callable[..., Any]:
    """maximum and minimum of a tensor and a number, too; a tie gives the tensor half."""

    def call(self: Tensor, other: Any) -> Tensor:
        if isinstance(other, (bool, int, float, complex)):
            fits = self.dtype.is_differentiable or isinstance(other, int)
            other = (
                self.new_full((), fit_number(other, self.dtype)) if fits else ops.full((), other)
            )
        return getattr(ops, name)(self, other)

    return call


def _norm(self: Tensor, order: Any, dtype: Any) -> Tensor:
    return ops.linalg_vector_norm(self, order, None, False, dtype=dtype)


def _power_sum(self: Tensor, order: Any, dtype: Any) -> Tensor:
    """Σ |x| to the power `order`."""
    size = (self if dtype is None else self.to(dtype)).abs()
    return (size * size if order == 2 else size**order).sum()


def with_factors(name: str, add: Callable[..., Any]) -> Callable[..., list[Any]]:
    """addcmul and addcdiv with a tensor that holds one factor for each entry."""
    combine = ops.mul if name.startswith("addcmul") else ops.div

    def combined(self: Tensor, a: Tensor, b: Tensor, factor: Tensor) -> Tensor:
        product = combine(a, b)
        return add(self, product * factor.to(product.dtype))  # a number, as far as dtypes go

    mapped = over_lists(name, combined)

    def call(self: Any, tensor1: Any, tensor2: Any, scalars: Tensor) -> list[Any]:
        if scalars.ndim != 1 or scalars.shape[0] != len(self):
            raise ShapeError(
                f"_foreach_{name}: needs a vector of {len(self)} factors, got "
                f"{show(scalars.shape)}."
            )
        return mapped(self, tensor1, tensor2, list(scalars.unbind(0)))

    return call


OWN: dict[str, Callable[..., Any]] = {
    **{name: _scaled(name) for name in ("add", "sub", "add_", "sub_")},
    **{name: _with_value(name) for name in ("addcmul", "addcdiv", "addcmul_", "addcdiv_")},
    **{name: _extremum(name) for name in ("maximum", "minimum", "maximum_", "minimum_")},
    "norm": _norm,
    "powsum": _power_sum,
    "clone": lambda self, memory_format: self.clone(),
    "copy": lambda self, src, non_blocking: ops.copy(self, src),
    "copy_": lambda self, src, non_blocking: ops.copy_(self, src),
    "zero": lambda self: ops.zeros_like(self),
}
addcmul_tensor = with_factors("addcmul", ops.add)
addcdiv_tensor = with_factors("addcdiv", ops.add)
addcmul_tensor_ = with_factors("addcmul_", ops.add_)
addcdiv_tensor_ = with_factors("addcdiv_", ops.add_)


def __getattr__(name: str) -> Callable[..., Any]:
    if name.startswith("_"):
        raise AttributeError(name)
    own = OWN.get(name)
    function = over_lists(name, ops.packet(name) if own is None else own)
    globals()[name] = function
    return function
