"""Attention under vmap: its leading dimensions broadcast, so the batch is one more of them."""

from __future__ import annotations

from typing import Any

from adjoint.batching.common import Batch, again, named, padded, whole

Tensor = Any

MATRICES = ("grad", "query", "key", "value", "bias", "output")
VECTORS = ("starts", "ends", "coins", "logsumexp")  # one number for each query


def attention(batch: Batch, *values: Any) -> Any:
    """The operator with ones after the batch of tensors that have fewer dimensions than others."""
    return again(batch, _aligned(batch, values, ()))


def attention_backward(batch: Batch, *values: Any) -> Any:
    """Each sample has gradients of its own, also of an operand that all share."""
    wanted = dict(zip(("query", "key", "value", "bias"), values[-1], strict=True))
    arguments = _aligned(batch, values, [name for name, needed in wanted.items() if needed])
    results = again(batch, arguments)
    ranks = dict(zip(batch.op.schema.names, batch.ndims, strict=True))
    return tuple(
        _own(result, ranks[name]) if needed else whole(batch, result, False)
        for (name, needed), result in zip(wanted.items(), results, strict=True)
    )


def _own(result: Tensor, ndim: int) -> Tensor:
    """The gradient with as many dimensions as the user sees of the tensor, and the batch."""
    return result.reshape((result.shape[0], *result.shape[result.ndim - ndim :]))


def _aligned(batch: Batch, values: Any, repeated: Any) -> dict[str, Any]:
    """The arguments with the batch in front of all others, for `repeated` ones in any case."""
    found = named(batch, values)
    facts = dict(zip(batch.op.schema.names, zip(batch.has, batch.ndims, strict=True), strict=True))
    given = {name for name in found if found[name] is not None}
    rank = max(
        *(facts[name][1] for name in MATRICES if name in given),
        *(facts[name][1] + 1 for name in VECTORS if name in given),
        0,
    )
    for name in (*MATRICES, *VECTORS):
        if name in given:
            has, ndim = facts[name]
            tensor = whole(batch, found[name], has) if name in repeated else found[name]
            places = rank if name in MATRICES else rank - 1
            found[name] = padded(tensor, has or name in repeated, ndim, places)
    return found
