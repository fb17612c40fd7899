"""Kernels of nested tensors: rows of different lengths spread out to one size, and packed again."""

from __future__ import annotations

from typing import Any

import numpy as np

from adjoint.checks.nested import check_lengths

Array = np.ndarray[Any, Any]


def padded_rows(self: Array, starts: Array, lengths: Array, size: int, padding: Any) -> Array:
    """result[i, j] = self[starts[i] + j] for j < lengths[i], and padding beyond."""
    check_lengths("_padded_rows", starts.tolist(), lengths.tolist(), self.shape[0])
    result = np.full((len(starts), size, *self.shape[1:]), padding, self.dtype)
    inside, places = _places(starts, lengths, size)
    result[inside] = self[places]
    return result


def packed_rows(self: Array, starts: Array, lengths: Array, total: int) -> Array:
    """result[starts[i] + j] = self[i, j] for j < lengths[i], and 0 elsewhere; common rows add."""
    check_lengths("_packed_rows", starts.tolist(), lengths.tolist(), total)
    result = np.zeros((total, *self.shape[2:]), self.dtype)
    inside, places = _places(starts, lengths, self.shape[1])
    if _overlap(starts, lengths):
        np.add.at(result, places, self[inside])
    else:
        result[places] = self[inside]
    return result


def _places(starts: Array, lengths: Array, size: int) -> tuple[Array, Array]:
    """Which elements of the padded rows are inside, and the place of each among the packed rows."""
    columns = np.arange(size)
    inside = columns < lengths[:, None]
    return inside, (starts[:, None] + columns)[inside]


def _overlap(starts: Array, lengths: Array) -> bool:
    order = np.argsort(starts, kind="stable")
    ends = np.maximum.accumulate((starts + lengths)[order])
    return bool((ends[:-1] > starts[order][1:]).any())
