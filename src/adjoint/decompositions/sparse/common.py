"""The parts of sparse tensors: a pattern, which is known, and values, which are a tensor."""

from __future__ import annotations

from typing import Any

from adjoint import ops
from adjoint.core.errors import AdjointError, ArgumentError, DependsOnValues, ShapeError
from adjoint.core.shapes import show
from adjoint.ops import runtime
from adjoint.structures import patterns
from adjoint.structures.patterns import Array, Pattern

Tensor = Any


def is_sparse(tensor: Any) -> bool:
    """Whether this is a sparse tensor, of any layout."""
    return isinstance(getattr(tensor, "companion", None), Pattern)


def pattern_of(what: str, tensor: Tensor) -> Pattern:
    """The pattern of a sparse tensor; raise for any other."""
    if not is_sparse(tensor):
        raise ArgumentError(
            f"{what}: takes a sparse tensor, got a {tensor.layout} one of shape "
            f"{show(tensor.shape)}; convert it with to_sparse()"
        )
    return tensor.companion


def assemble(pattern: Pattern, values: Tensor) -> Tensor:
    """The sparse tensor of a pattern and values of its shape."""
    return runtime.assemble(pattern, values)


def index(array: Array) -> Tensor:
    """Places as a tensor."""
    return runtime.tensor_of(array)


def known(what: str, tensor: Tensor) -> Array:
    """The numbers of a tensor that decide on a structure."""
    if tensor.is_meta:
        raise DependsOnValues(
            f"{what}: the structure depends on values, and a meta tensor has none"
        )
    try:
        return tensor.detach().array
    except AdjointError as error:
        raise type(error)(
            f"{what}: where a sparse tensor has elements must be known, and here that depends on "
            "numbers that only a run will tell (inside vmap, trace or compile). Make the indices "
            "outside, and the values inside."
        ) from error


def entries(tensor: Tensor) -> Tensor:
    """The values with one row for each entry of the pattern."""
    pattern = tensor.companion
    return tensor.stored.reshape((pattern.linear.size, *pattern.dense_shape))


def moved(values: Tensor, places: Array, count: int) -> Tensor:
    """The sum of the rows that go to each of `count` places."""
    if patterns.is_identity(places, count):
        return values
    order = patterns.sources(places, count)
    if order is not None:
        return values.index_select(0, index(order))
    room = values.new_zeros((count, *values.shape[1:]))
    return room.index_add(0, index(places), values)


def rebuilt(pattern: Pattern, values: Tensor, places: Array) -> Tensor:
    """The sparse tensor whose entries are the sums of the rows that go to each place."""
    found = moved(values, places, pattern.linear.size)
    return assemble(pattern, found.reshape(pattern.values_shape))


def at(dense: Tensor, pattern: Pattern) -> Tensor:
    """The elements of a dense tensor where a pattern has entries, one row for each."""
    dense = dense.expand(pattern.shape)
    if not len(pattern.sparse_shape):
        return dense.unsqueeze(0).expand((pattern.linear.size, *pattern.shape))
    return dense.index([index(row) for row in pattern.coordinates])


def coalesced(tensor: Tensor) -> Tensor:
    """The tensor with each element stored once."""
    if tensor.companion.is_coalesced or not tensor.companion.is_coo:
        return tensor
    pattern, places = patterns.coalesced(tensor.companion)
    return rebuilt(pattern, entries(tensor), places)


def converted(tensor: Tensor, layout: Any, blocksize: tuple[int, int] = (1, 1)) -> Tensor:
    """The tensor in another layout."""
    pattern, places = patterns.converted(tensor.companion, layout, blocksize)
    return rebuilt(pattern, entries(tensor), places)


def check_same_shape(what: str, one: Tensor, other: Tensor) -> None:
    """Raise unless two sparse tensors have one shape."""
    if tuple(one.shape) != tuple(other.shape):
        raise ShapeError(
            f"{what}: sparse tensors of {show(one.shape)} and {show(other.shape)}; the shapes "
            "must agree"
        )
    if one.companion.dense_dim != other.companion.dense_dim:
        raise ShapeError(
            f"{what}: sparse tensors with {one.companion.dense_dim} and "
            f"{other.companion.dense_dim} dense dimensions; the numbers must agree"
        )


def densely(tensor: Any) -> Any:
    """A sparse tensor as a dense one, other values unchanged."""
    return ops._to_dense(tensor) if is_sparse(tensor) else tensor
