"""Shared by rules of attention, without data: sizes, dropout's numbers, and the errors."""

from __future__ import annotations

import math
from typing import Any

from adjoint.core import dtypes
from adjoint.core.dtypes import INTEGER, DType
from adjoint.core.errors import DtypeError, ShapeError, ValueRangeError
from adjoint.core.records import record
from adjoint.core.shapes import Shape, broadcast, show

# Note [Coins]: whether dropout keeps a weight is decided by a number of 32 bits, of the query's
# coin and the key's place. So a block can be drawn again, alone and in any order, natively too. A
# number is mixed twice by x ← (x ⊕ x/2¹⁶) · MIXER. MIXER is below 2³¹: the product fits int64.
MIXER = 0x45D9F3B


@record
class AttentionSizes:
    """The sizes of one call of attention."""

    batch: Shape  # of all operands, broadcast
    queries: int
    keys: int
    features: int  # of a value


def sizes(
    query: Any, key: Any, value: Any, bias: Any, starts: Any, ends: Any, coins: Any
) -> AttentionSizes:
    """The sizes of a call; raise where operands do not fit together.

    Only `.shape` and `.dtype` are looked at, so arrays, Specs and tensors all do.
    """
    what = "scaled_dot_product_attention"
    check(what, query, key, value)
    queries, keys = query.shape[-2], key.shape[-2]
    batches = [x.shape[:-2] for x in (query, key, value)]
    if bias is not None:
        check_bias(what, bias, queries, keys)
        batches.append(bias.shape[:-2])
    for name, each in (("starts", starts), ("ends", ends), ("coins", coins)):
        if each is not None:
            if each.shape[-1:] not in ((queries,), (1,)):
                raise ShapeError(
                    f"{what}: {name} needs one number for each of {queries} queries, got "
                    f"{show(each.shape)}."
                )
            if _dtype(each).category != INTEGER:
                raise DtypeError(f"{what}: {name} must be of integers, got {_dtype(each)}.")
            batches.append(each.shape[:-1])
    return AttentionSizes(broadcast(what, *batches), queries, keys, value.shape[-1])


def check_results(grad: Any, output: Any, logsumexp: Any, found: AttentionSizes) -> None:
    """Raise unless the results given to a backward have the shapes of its operands."""
    rows, one = (found.queries, found.features), (found.queries,)
    given = (("grad", grad, rows), ("output", output, rows), ("logsumexp", logsumexp, one))
    for name, tensor, tail in given:
        lead = len(tensor.shape) - len(tail)
        fits = lead >= 0 and tuple(tensor.shape[lead:]) == tail
        if not fits or broadcast(name, tensor.shape[:lead], found.batch) != found.batch:
            raise ShapeError(
                f"scaled_dot_product_attention, backward: {name} must be "
                f"{show((*found.batch, *tail))}, got {show(tensor.shape)}."
            )
        if not _dtype(tensor).is_floating_point:
            raise DtypeError(
                f"scaled_dot_product_attention, backward: {name} must be of floating point "
                f"numbers, got {_dtype(tensor)}."
            )


def check(what: str, query: Any, key: Any, value: Any) -> None:
    """Raise unless queries and keys have the same features, and each key has a value."""
    for name, tensor in (("query", query), ("key", key), ("value", value)):
        if len(tensor.shape) < 2:
            raise ShapeError(
                f"{what}: {name} needs two dimensions or more, (…, sequence, features), got "
                f"{show(tensor.shape)}."
            )
        if tensor.dtype != query.dtype:
            raise DtypeError(
                f"{what}: query has {_dtype(query)} and {name} {_dtype(tensor)}; convert one."
            )
    if not _dtype(query).is_floating_point:
        raise DtypeError(f"{what}: needs real floating point tensors, got {_dtype(query)}.")
    if query.shape[-1] != key.shape[-1]:
        raise ShapeError(
            f"{what}: query and key must have as many features, got {query.shape[-1]} and "
            f"{key.shape[-1]} (the last dimensions of {show(query.shape)} and {show(key.shape)})."
        )
    if key.shape[-2] != value.shape[-2]:
        raise ShapeError(
            f"{what}: each key needs a value, got {key.shape[-2]} keys and {value.shape[-2]} "
            f"values (dimension -2 of {show(key.shape)} and {show(value.shape)})."
        )


def groups(what: str, query: Any, key: Any, value: Any) -> int:
    """How many heads of queries share one head of keys and values."""
    heads = [x.shape[-3] if len(x.shape) > 2 else 0 for x in (query, key, value)]
    if not all(heads) or heads[1] != heads[2] or heads[0] % heads[1]:
        raise ShapeError(
            f"{what}(enable_gqa=True): the heads of queries must be a multiple of those of keys "
            f"and values (dimension -3), got {show(query.shape)}, {show(key.shape)} and "
            f"{show(value.shape)}."
        )
    return heads[0] // heads[1]


def check_bias(what: str, bias: Any, queries: int, keys: int) -> None:
    """Raise unless a mask is of booleans or of numbers to add, for each query and key."""
    dtype = _dtype(bias)
    if dtype is not dtypes.bool_ and not dtype.is_floating_point:
        raise DtypeError(
            f"{what}: attn_mask must be of booleans (True: takes part) or of floating point "
            f"numbers that are added to the scores, got {dtype}."
        )
    tail = (1, 1, *bias.shape)[-2:]
    if any(got not in (1, wanted) for got, wanted in zip(tail, (queries, keys))):
        raise ShapeError(
            f"{what}: attn_mask must end in {queries}×{keys} (queries × keys), or sizes of 1, got "
            f"{show(bias.shape)}."
        )


def check_dropout(what: str, p: float) -> None:
    """Raise unless p is a probability."""
    if not 0 <= p <= 1:
        raise ValueRangeError(f"{what}(dropout_p={p}): a probability lies between 0 and 1.")


def threshold(p: float) -> int:
    """The least number of 32 bits that keeps a weight."""
    return min(int(p * 2**32), 2**32 - 1)


def scale_of(query: Any, scale: float | None) -> float:
    """The factor of scores: 1/√features unless it is given."""
    features = query.shape[-1]
    if scale is not None:
        return scale
    return 1 / math.sqrt(features) if features else 1.0


def _dtype(tensor: Any) -> DType:
    return tensor.dtype if isinstance(tensor.dtype, DType) else dtypes.of(tensor.dtype)
