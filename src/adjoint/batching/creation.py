"""Operators that create, under vmap.

Those `_like` a batched tensor follow it; those with a size get the batch as one more.
"""

from __future__ import annotations

from typing import Any

from adjoint.batching.common import Batch, again, named


def created(batch: Batch, *values: Any) -> Any:
    """The rule of the archetype: every sample has memory of its own, and can be written to."""
    arguments = named(batch, values)
    if "size" not in arguments:
        return batch.op.call(values)
    size = tuple(arguments["size"])
    if "stride" in arguments:
        stride = tuple(arguments["stride"])
        reach = (
            1 + sum((n - 1) * s for n, s in zip(size, stride, strict=True)) if 0 not in size else 0
        )
        arguments["stride"] = (reach, *stride)
    arguments["size"] = (batch.size, *size)
    return again(batch, arguments)
