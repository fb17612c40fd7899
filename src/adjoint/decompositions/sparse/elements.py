"""Arithmetic of sparse tensors, element by element."""

from __future__ import annotations

from typing import Any

from adjoint import ops
from adjoint.core.errors import ArgumentError, ShapeError, ValueRangeError
from adjoint.core.shapes import broadcast, show
from adjoint.decompositions.sparse.common import (
    assemble,
    at,
    check_same_shape,
    coalesced,
    converted,
    densely,
    entries,
    index,
    is_sparse,
    rebuilt,
)
from adjoint.structures import patterns

Tensor = Any


def add(self: Tensor, other: Tensor, alpha: Any) -> Tensor:
    """The sum: sparse for two sparse tensors, dense for a sparse and a dense one."""
    if not (is_sparse(self) and is_sparse(other)):
        return ops.add(densely(self), densely(other), alpha=alpha)
    check_same_shape("add", self, other)
    if self.companion == other.companion:
        return assemble(self.companion, ops.add(self.stored, other.stored, alpha=alpha))
    if self.companion.is_coo and not other.companion.is_coo:
        other = converted(other, self.companion.layout)
    pattern, places = patterns.united(self.companion, other.companion)
    dtype = ops.add(self.stored.new_zeros(()), other.stored.new_zeros(()), alpha=alpha).dtype
    rows = entries(self).to(dtype), entries(other).to(dtype) * alpha
    return rebuilt(pattern, ops.cat(list(rows)), places)


def sub(self: Tensor, other: Tensor, alpha: Any) -> Tensor:
    """add with the opposite sign of alpha."""
    return add(self, other, -alpha)


def mul(self: Tensor, other: Tensor) -> Tensor:
    """The elements that both have; a dense tensor has all."""
    if is_sparse(self) and is_sparse(other):
        return _product(self, other)
    if not is_sparse(self):
        return _scaled("mul", other, self, lambda values, factor: factor * values)
    return _scaled("mul", self, other, lambda values, factor: values * factor)


def div(self: Tensor, other: Tensor) -> Tensor:
    """Stored elements divided by a number, or by the elements of a dense tensor."""
    _check_dividend("div", self, other)
    return _scaled("div", self, other, ops.div)


def div_mode(self: Tensor, other: Tensor, rounding_mode: str | None) -> Tensor:
    """div, rounded."""
    _check_dividend("div", self, other)
    whole = self if rounding_mode is None else coalesced(self)
    return _scaled("div", whole, other, lambda a, b: ops.div(a, b, rounding_mode=rounding_mode))


def _check_dividend(what: str, self: Tensor, other: Tensor) -> None:
    if is_sparse(other):
        raise ArgumentError(
            f"{what}: a sparse tensor cannot divide, most of its elements are 0; use to_dense()"
        )


def _scaled(what: str, sparse: Tensor, dense: Tensor, scale: Any) -> Tensor:
    """Stored elements combined by `scale` with a dense tensor's elements at the same places."""
    pattern = sparse.companion
    if dense.ndim == 0:
        return assemble(pattern, scale(sparse.stored, dense))
    shape = broadcast(what, pattern.shape, tuple(dense.shape))
    if shape != pattern.shape:
        raise ShapeError(
            f"{what}: the sparse tensor of {show(pattern.shape)} would be expanded to "
            f"{show(shape)}; use to_dense()"
        )
    found = scale(entries(sparse), at(dense, pattern))
    return assemble(pattern, found.reshape(pattern.values_shape))


def _product(self: Tensor, other: Tensor) -> Tensor:
    check_same_shape("mul", self, other)
    self, other = coalesced(self), coalesced(other)
    one, two = self.companion, other.companion
    if one == two:
        return assemble(one, self.stored * other.stored)
    places, there = patterns.positions_of(one.linear, two.linear)
    mine = index(patterns.indices_where(there))
    found = entries(self).index_select(0, mine) * entries(other).index_select(
        0, index(places[there])
    )
    pattern, order = patterns.arranged(
        one.layout, one.shape, one.coordinates[:, there], one.dense_dim, one.blocksize
    )
    return rebuilt(pattern, found, order)


def power(self: Tensor, exponent: Any) -> Tensor:
    """Stored elements to a power that leaves zeros zero."""
    if isinstance(exponent, complex) or exponent <= 0:
        raise ValueRangeError(
            f"pow: a sparse tensor to the power of {exponent} has no zeros; use to_dense()"
        )
    self = coalesced(self)
    return assemble(self.companion, ops.pow(self.stored, exponent))


def copy(self: Tensor, src: Tensor, non_blocking: bool) -> Tensor:
    """The elements of `src`, in the layout of `self`."""
    if not is_sparse(self):
        return ops.copy(self, densely(src))
    if not is_sparse(src):
        raise ArgumentError("copy_: a dense tensor to a sparse one; use to_sparse()")
    check_same_shape("copy_", self, src)
    src = src.to(self.dtype)
    if src.companion.layout is self.companion.layout:
        return src
    return converted(src, self.companion.layout, self.companion.blocksize)


def norm(self: Tensor, p: Any = 2) -> Tensor:
    """The norm of the stored elements."""
    return ops.norm(coalesced(self).stored.reshape(-1), 2 if p is None else p)
