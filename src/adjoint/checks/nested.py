"""What nested tensors ask of offsets, lengths and sizes."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

from adjoint.core.errors import DtypeError, IndexOutOfRange, ShapeError, ValueRangeError
from adjoint.core.shapes import Shape, show


def numbers(what: str, name: str, tensor: Any) -> tuple[int, ...]:
    """The elements of a vector of whole numbers; their values must be known."""
    if tensor.dtype.is_differentiable or tensor.dtype.name == "bool" or tensor.ndim != 1:
        raise DtypeError(
            f"{what}: {name} must be a vector of whole numbers, got {tensor.dtype.name} of shape "
            f"{show(tensor.shape)}"
        )
    return tuple(tensor.tolist())


def table_of_sizes(what: str, tensor: Any) -> tuple[Shape, ...]:
    """The rows of a matrix of sizes."""
    if tensor.dtype.is_differentiable or tensor.dtype.name == "bool" or tensor.ndim != 2:
        raise DtypeError(
            f"{what}: sizes must be a matrix of whole numbers, one row for each component, got "
            f"{tensor.dtype.name} of shape {show(tensor.shape)}"
        )
    rows = tuple(tuple(row) for row in tensor.tolist())
    if any(n < 0 for row in rows for n in row):
        raise ValueRangeError(f"{what}: sizes start at 0, got {min(map(min, rows))}")
    return rows


def check_offsets(what: str, offsets: Sequence[int], extent: int) -> None:
    """Raise unless offsets begin with 0, never fall and end inside the values."""
    if not offsets:
        raise ShapeError(f"{what}: offsets need one number more than there are components, got 0")
    if offsets[0] != 0:
        raise ValueRangeError(f"{what}: offsets must begin with 0, got {offsets[0]}")
    for number, (a, b) in enumerate(itertools.pairwise(offsets)):
        if b < a:
            raise ValueRangeError(
                f"{what}: offsets must not fall, and number {number + 1} is {b} after {a}; sort "
                "them, or make them with lengths.cumsum(0)"
            )
    if offsets[-1] > extent:
        raise IndexOutOfRange(
            f"{what}: the last offset is {offsets[-1]}, and the values have only {extent} rows"
        )


def check_lengths(what: str, starts: Sequence[int], lengths: Sequence[int], extent: int) -> None:
    """Raise unless there is a length for each start, and each component lies inside the values."""
    if len(starts) != len(lengths):
        raise ShapeError(f"{what}: {len(lengths)} lengths for {len(starts)} components")
    for number, (start, length) in enumerate(zip(starts, lengths, strict=True)):
        if length < 0 or start < 0:
            raise ValueRangeError(
                f"{what}: component {number} begins at {start} and has length {length}; both "
                "start at 0"
            )
        if start + length > extent:
            raise IndexOutOfRange(
                f"{what}: component {number} begins at {start} and has length {length}, and the "
                f"values have only {extent} rows"
            )
