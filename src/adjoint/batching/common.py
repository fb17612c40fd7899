"""Shared by all batching rules: the facts of a call, and making room for the batch in front."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn

from adjoint.core.errors import DependsOnValues, ShapeError
from adjoint.core.records import record
from adjoint.core.shapes import wrap_dim
from adjoint.ops.arguments import DIMS

Tensor = Any


@record
class Batch:
    """The facts of a call that a batching rule gets."""

    op: Any  # the Operator
    size: int  # of the batch dimension
    has: tuple[Any, ...]  # which arguments are batched: (True, False); a list for a list of tensors
    ndims: tuple[Any, ...]  # how many dimensions the user's code sees of each tensor argument
    randomness: str = "error"  # of this vmap: "error", "same", "different"


def whole(batch: Batch, tensor: Tensor, has: bool) -> Tensor:
    """The tensor with the batch in front, without a copy if it has none."""
    return tensor if has else tensor.expand((batch.size, *tensor.shape))


def padded(tensor: Tensor, has: bool, ndim: int, rank: int) -> Tensor:
    """The tensor with ones after the batch, so that it broadcasts as one of `rank` dimensions."""
    if not has or ndim >= rank:
        return tensor
    return tensor.reshape((tensor.shape[0], *(1,) * (rank - ndim), *tensor.shape[1:]))


def at_least_vector(tensor: Tensor, has: bool) -> Tensor:
    """A scalar as a vector of one element; batched or not."""
    return tensor.unsqueeze(-1) if tensor.ndim == has else tensor


def shift(what: str, dim: int, ndim: int) -> int:
    """A dimension counted with the batch in front."""
    return wrap_dim(what, dim, ndim) + 1


def shift_all(what: str, dims: Sequence[int], ndim: int) -> tuple[int, ...]:
    """Dimensions counted with the batch in front."""
    return tuple(wrap_dim(what, d, ndim) + 1 for d in dims)


def named(batch: Batch, values: Sequence[Any]) -> dict[str, Any]:
    """The arguments by name."""
    return dict(zip(batch.op.schema.names, values, strict=True))


def again(batch: Batch, arguments: dict[str, Any]) -> Any:
    """Call the operator itself with other arguments."""
    return batch.op.call([arguments[name] for name in batch.op.schema.names])


def scalars(batch: Batch, result: Any) -> Any:
    """Vectors of one element per sample as scalars again; tuples and lists entry by entry."""
    if isinstance(result, (tuple, list)):
        return type(result)(scalars(batch, r) for r in result)
    return result.reshape((batch.size,))


def moved(batch: Batch, values: Sequence[Any]) -> list[Any]:
    """The arguments with the batch in front of every tensor.

    Dimensions, which are counted in the first tensor, move one to the right.
    """
    ndim = next(n for n in batch.ndims if n is not None)
    found: list[Any] = []
    for argument, value, has, rank in zip(
        batch.op.schema.arguments, values, batch.has, batch.ndims, strict=True
    ):
        if rank is not None:
            value = whole(batch, value, has)
        elif argument.name in DIMS and value is not None:
            several = isinstance(value, (tuple, list))
            value = (shift_all if several else shift)(batch.op.name, value, ndim)
        found.append(value)
    return found


def need(batch: Batch, ranks: tuple[int, ...]) -> None:
    """Raise for tensors with fewer dimensions than the operator's matrices or vectors have."""
    tensors = [n for n in batch.ndims if n is not None]
    for have, least in zip(tensors, ranks, strict=False):
        if have < least:
            kind = {1: "a vector", 2: "a matrix"}[least]
            raise ShapeError(f"{batch.op.name}: needs {kind} or a batch, got {have} dimensions.")


def refuse(what: str, why: str, instead: str) -> NoReturn:
    """Raise: the size of the result would differ from sample to sample."""
    raise DependsOnValues(
        f"{what} inside vmap: {why}, so the samples have results of different sizes; {instead}"
    )
