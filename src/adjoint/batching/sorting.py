"""Sorting under vmap: the dimension moves. Results whose size depends on values are refused."""

from __future__ import annotations

from typing import Any, NoReturn

from adjoint import ops
from adjoint.batching.common import Batch, padded, refuse, whole

Tensor = Any


def searchsorted(
    batch: Batch, sorted_sequence: Tensor, self: Tensor, out_int32: bool, right: bool,
    side: str | None, sorter: Any,
) -> Tensor:  # fmt: skip
    """One sequence for all samples takes values of any shape; else each sample has its own rows."""
    options = {"out_int32": out_int32, "right": right, "side": side}
    if (
        batch.has[1]
        and not batch.has[0]
        and batch.ndims[0] == 1
        and (sorter is None or not batch.has[5])
    ):
        return ops.searchsorted(sorted_sequence, self, sorter=sorter, **options)
    sequence, values = whole(batch, sorted_sequence, batch.has[0]), whole(batch, self, batch.has[1])
    if sorter is not None:
        sorter = whole(batch, sorter, batch.has[5]).contiguous()
    shape = values.shape
    if batch.ndims[0] == 1:  # values of any shape are one row per sample
        values = (
            values.reshape((batch.size, -1))
            if values.numel()
            else values.new_zeros((batch.size, 0))
        )
    return ops.searchsorted(sequence, values, sorter=sorter, **options).reshape(shape)


def isin(
    batch: Batch, elements: Tensor, test_elements: Tensor, assume_unique: bool, invert: bool
) -> Tensor:
    """A common set for all samples, or every pair of a sample compared."""
    if not batch.has[1]:
        return batch.op.call([elements, test_elements, assume_unique, invert])
    one = padded(elements.unsqueeze(-1), batch.has[0], batch.ndims[0] + 1, batch.ndims[0] + 1)
    ones = (1,) * batch.ndims[0]
    others = test_elements.reshape((batch.size, *ones, -1)) if test_elements.numel() else None
    if others is None:
        return ops.full((batch.size, *one.shape[batch.has[0] : -1]), invert)
    found = (one == others).any(-1)
    return ~found if invert else found


def unique(batch: Batch, *values: Any) -> NoReturn:
    refuse("unique", "how many values are distinct differs", "sort them, or compare neighbours.")


def bincount(batch: Batch, *values: Any) -> NoReturn:
    refuse(
        "bincount", "the greatest element differs",
        "use ad.zeros(size).scatter_add(0, x, weights) with a size for all.",
    )  # fmt: skip
