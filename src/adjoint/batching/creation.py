"""Operators that create tensors, under vmap.

An operator `_like` a batched tensor gives a batched one; an operator with a size gets the batch as
one more dimension.
"""

from __future__ import annotations

from typing import Any

from adjoint.batching.common import Batch, again, named
from adjoint.batching.shape import copied
from adjoint.core.layouts import ORDERS


def created(batch: Batch, *values: Any) -> Any:
    """The rule of the archetype: every sample has memory of its own, and can be written to."""
    arguments = named(batch, values)
    counts_dimensions = arguments.get("memory_format") in ORDERS
    if "size" not in arguments:
        return copied(batch, *values) if counts_dimensions else batch.op.call(values)
    size = tuple(arguments["size"])
    if counts_dimensions and size:  # a format is one of each sample
        arguments["size"] = (batch.size * size[0], *size[1:])
        return again(batch, arguments).reshape((batch.size, *size))
    if "stride" in arguments:
        stride = tuple(arguments["stride"])
        reach = (
            1 + sum((n - 1) * s for n, s in zip(size, stride, strict=True)) if 0 not in size else 0
        )
        arguments["stride"] = (reach, *stride)
    arguments["size"] = (batch.size, *size)
    return again(batch, arguments)
