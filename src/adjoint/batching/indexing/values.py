"""Operators under vmap whose result is as long as the values say: refused where samples differ."""

from __future__ import annotations

import math
from typing import Any

from adjoint import ops
from adjoint.batching.common import Batch, padded, refuse
from adjoint.core.dtypes import int64
from adjoint.core.shapes import broadcast

Tensor = Any


def masked_select(batch: Batch, self: Tensor, mask: Tensor) -> Tensor:
    if batch.has[1]:
        refuse("masked_select", "the mask differs", "use ad.where(mask, x, 0) and keep the shape.")
    common = broadcast("masked_select", tuple(self.shape[1:]), tuple(mask.shape)) or (1,)
    places = mask.expand(common).nonzero().unbind(1)
    expanded = padded(self, True, batch.ndims[0], len(common)).expand((batch.size, *common))
    return ops.index.Tensor(expanded, [None, *places])


def nonzero(batch: Batch, self: Tensor) -> Tensor:
    refuse(
        "nonzero", "how many elements are not zero differs",
        "use nonzero_static(x, size=n), or ad.where(condition, a, b) to choose by value.",
    )  # fmt: skip


def nonzero_static(batch: Batch, self: Tensor, size: int, fill_value: int) -> Tensor:
    """The k-th nonzero element writes its number to place k; excess ones to one extra place."""
    shape = self.shape[1:]
    truth = (self != 0).reshape((batch.size, math.prod(shape)))
    count = truth.shape[1]
    rank = truth.to(int64).cumsum(1) - 1
    place = ops.where(truth & (rank < size), rank, size)
    numbers = ops.arange(count).expand((batch.size, count))
    found = (
        ops.full((batch.size, size + 1), -1, dtype=int64)
        .scatter(1, place, numbers)
        .narrow(1, 0, size)
    )
    columns, below = [], 1
    for length in reversed(shape):
        columns.append(ops.where(found < 0, fill_value, (found // below) % max(length, 1)))
        below *= max(length, 1)
    return ops.stack(columns[::-1], 2) if columns else ops.zeros((batch.size, size, 0), dtype=int64)
