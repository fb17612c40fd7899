"""Checks that the structure of a sparse tensor is valid."""

from __future__ import annotations

from typing import Any

import numpy as np

from adjoint.core.errors import (
    ArgumentError,
    DtypeError,
    IndexOutOfRange,
    ShapeError,
    ValueRangeError,
)
from adjoint.core.layouts import Layout, sparse_coo
from adjoint.core.shapes import Shape, show
from adjoint.structures.patterns import BLOCKED, BY_COLUMNS, COMPRESSED, Pattern

Array = np.ndarray[Any, np.dtype[Any]]


def check_layout(what: str, layout: Layout, wanted: tuple[Layout, ...]) -> None:
    """Raise unless a layout is among those wanted."""
    if layout not in wanted:
        known = ", ".join(map(repr, wanted))
        raise ArgumentError(f"{what}: takes a tensor of layout {known}, got {layout!r}")


def check_integers(what: str, name: str, indices: Array) -> None:
    """Raise unless indices are whole numbers."""
    if indices.dtype.kind not in "iu":
        raise DtypeError(f"{what}: {name} must be integers, got {indices.dtype}")


def coo(what: str, indices: Array, values: Shape, size: Shape) -> None:
    """Raise unless coordinates, values and the size of a COO tensor fit together."""
    check_integers(what, "indices", indices)
    if indices.ndim != 2:
        raise ShapeError(
            f"{what}: indices must be a matrix with one column for each element, got "
            f"{show(indices.shape)}"
        )
    sparse_dim, nnz = indices.shape
    if not values or values[0] != nnz:
        raise ShapeError(
            f"{what}: {nnz} columns of indices need as many values, got values of shape "
            f"{show(values)}"
        )
    if len(size) != sparse_dim + len(values) - 1:
        raise ShapeError(
            f"{what}: {sparse_dim} rows of indices and values of shape {show(values)} make "
            f"{sparse_dim + len(values) - 1} dimensions, the size {show(size)} has {len(size)}"
        )
    if tuple(values[1:]) != tuple(size[sparse_dim:]):
        raise ShapeError(
            f"{what}: values of shape {show(values)} do not have the dense sizes "
            f"{show(size[sparse_dim:])} of {show(size)}"
        )
    for dim, (row, length) in enumerate(zip(indices, size, strict=False)):
        check_range(what, "indices", row, length, f"dimension {dim} of size")


def check_range(what: str, name: str, indices: Array, length: int, where: str) -> None:
    """Raise unless all indices are from 0 to length - 1."""
    if indices.size and (indices.min() < 0 or indices.max() >= length):
        wrong = (indices < 0) | (indices >= length)
        raise IndexOutOfRange(
            f"{what}: {name} has {indices[wrong].flat[0]}, which is outside {where} {length}; "
            "indices start at 0"
        )


def sorted_once(what: str, linear: Array) -> None:
    """Raise unless the numbers increase strictly."""
    if (np.diff(linear) <= 0).any():
        raise ValueRangeError(
            f"{what}: is_coalesced=True, but the indices are not sorted or have repetitions; "
            "leave it out and call coalesce()"
        )


def names_of(layout: Layout) -> tuple[str, str]:
    """The names of the compressed and the plain indices of a layout."""
    columns = layout in BY_COLUMNS
    return ("ccol_indices", "row_indices") if columns else ("crow_indices", "col_indices")


def compressed_shapes(
    what: str, layout: Layout, compressed: Array, plain: Array, values: Shape, size: Shape
) -> None:
    """Raise unless the shapes of the parts of a compressed tensor fit together."""
    check_layout(what, layout, COMPRESSED)
    first, second = names_of(layout)
    for name, indices in ((first, compressed), (second, plain)):
        check_integers(what, name, indices)
        if str(indices.dtype) not in ("int32", "int64"):
            raise DtypeError(f"{what}: {name} must be int32 or int64, got {indices.dtype}")
    if compressed.dtype != plain.dtype:
        raise DtypeError(
            f"{what}: {first} and {second} must have one dtype, got {compressed.dtype} and "
            f"{plain.dtype}"
        )
    batch = compressed.ndim - 1
    blocks = 2 if layout in BLOCKED else 0
    dense = len(values) - batch - 1 - blocks
    if batch < 0 or plain.ndim != batch + 1 or dense < 0 or len(size) != batch + 2 + dense:
        raise ShapeError(
            f"{what}: {first} of {show(compressed.shape)}, {second} of {show(plain.shape)} and "
            f"values of {show(values)} do not make a tensor of shape {show(size)}"
        )
    if not (compressed.shape[:-1] == plain.shape[:-1] == tuple(values[:batch]) == size[:batch]):
        raise ShapeError(
            f"{what}: the batches of {first}, {second}, values and size differ: "
            f"{show(compressed.shape)}, {show(plain.shape)}, {show(values)}, {show(size)}"
        )
    if plain.shape[-1] != values[batch]:
        raise ShapeError(
            f"{what}: {plain.shape[-1]} {second} need as many values, got {values[batch]}"
        )
    if dense and tuple(values[len(values) - dense :]) != tuple(size[len(size) - dense :]):
        raise ShapeError(
            f"{what}: values of shape {show(values)} do not have the dense sizes of {show(size)}"
        )
    height, width = blocks_of(layout, values, batch)
    if height < 1 or width < 1 or size[batch] % height or size[batch + 1] % width:
        raise ShapeError(
            f"{what}: blocks of {height}×{width} do not fill matrices of "
            f"{size[batch]}×{size[batch + 1]}"
        )
    major = size[batch + 1] // width if layout in BY_COLUMNS else size[batch] // height
    if compressed.shape[-1] != major + 1:
        raise ShapeError(
            f"{what}: {first} must have {major + 1} entries for a size of {show(size)}, got "
            f"{compressed.shape[-1]}"
        )


def blocks_of(layout: Layout, values: Shape, batch: int) -> tuple[int, int]:
    """The size of the blocks, from the shape of the values."""
    return (values[batch + 1], values[batch + 2]) if layout in BLOCKED else (1, 1)


def compressed(what: str, pattern: Pattern) -> None:
    """Raise unless the indices of a compressed tensor are in range and in order."""
    first, second = names_of(pattern.layout)
    starts, plain = pattern.indices
    major = starts.shape[-1] - 1
    nnz = pattern.nnz
    if (starts[..., 0] != 0).any():
        raise ValueRangeError(f"{what}: {first} must start with 0, got {starts[..., 0].max()}")
    if (starts[..., -1] != nnz).any():
        raise ValueRangeError(
            f"{what}: {first} must end with {nnz}, the number of {second}, got "
            f"{starts[..., -1].flat[0]}"
        )
    counts = np.diff(starts, axis=-1)
    batch = len(pattern.batch)
    rows, columns = pattern.shape[batch : batch + 2]
    height, width = pattern.blocksize
    minor = rows // height if pattern.layout in BY_COLUMNS else columns // width
    if (counts < 0).any() or (counts > minor).any():
        raise ValueRangeError(
            f"{what}: {first} must grow by 0 to {minor} from one entry to the next"
        )
    check_range(what, second, plain, minor, "a size of")
    flat = plain.reshape(starts.size // (major + 1), nnz)
    falls = np.diff(flat, axis=-1) <= 0
    numbers = np.arange(1, nnz)
    for row, begin in zip(falls, starts.reshape(len(flat), major + 1), strict=True):
        if (row & ~np.isin(numbers, begin)).any():
            raise ValueRangeError(
                f"{what}: {second} must be sorted and appear once in each slice between {first}"
            )


def check_coo(what: str, pattern: Pattern) -> None:
    """Raise unless a tensor is of COO layout."""
    check_layout(what, pattern.layout, (sparse_coo,))
