"""Kernels of embeddings on arrays."""

from __future__ import annotations

from typing import Any

import numpy as np

from adjoint.c_kernels import indexing as native
from adjoint.checks import embedding as rules
from adjoint.core.errors import IndexOutOfRange

Array = np.ndarray[Any, np.dtype[Any]]


def check_range(what: str, indices: Array, count: int) -> None:
    """Raise unless every index names one of `count` rows."""
    as_unsigned = indices.view(np.dtype(f"u{indices.itemsize}"))  # negative ones are huge
    if indices.size and as_unsigned.max() >= count:
        wrong = (indices < 0) | (indices >= count)
        raise IndexOutOfRange(
            f"{what}: index {indices[wrong].flat[0]} is out of range; the weight has {count} rows, "
            f"0 to {count - 1}."
        )


def embedding(
    weight: Array, indices: Array, padding_idx: int, scale_grad_by_freq: bool, sparse: bool
) -> Array:
    """The row of each index."""
    rules.check("embedding", weight, indices)
    check_range("embedding", indices, weight.shape[0])
    rows = indices.astype(np.int64, copy=False)
    found = None
    if rows.size * weight.shape[1] >= native.LARGE:
        found = native.select(weight, 0, np.ascontiguousarray(rows).reshape(-1))
    return weight[rows] if found is None else found.reshape(*indices.shape, *weight.shape[1:])
