"""Patterns: the places of the stored elements of a sparse tensor.

A pattern consists of integers that are known when it is made, so it holds NumPy arrays and no
tensor; the values of the elements are a separate tensor (`homes/sparse.py`). Every question about
the structure of sparse tensors is answered here: a function of patterns returns a pattern and, for
each *entry* of the old one, its place among the entries of the new one. Entries are the stored
elements in the order of memory: of blocks, each element; each has the dense dimensions of the
tensor.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from adjoint.core.errors import ShapeError, ValueRangeError
from adjoint.core.layouts import (
    Layout,
    sparse_bsc,
    sparse_bsr,
    sparse_coo,
    sparse_csc,
    sparse_csr,
)
from adjoint.core.records import record
from adjoint.core.remembering import cached_property
from adjoint.core.shapes import Shape, show

Array = np.ndarray[Any, np.dtype[Any]]

COMPRESSED = (sparse_csr, sparse_csc, sparse_bsr, sparse_bsc)
BLOCKED = (sparse_bsr, sparse_bsc)
BY_COLUMNS = (sparse_csc, sparse_bsc)
TRANSPOSED: dict[Layout, Layout] = {
    sparse_csr: sparse_csc, sparse_csc: sparse_csr, sparse_bsr: sparse_bsc, sparse_bsc: sparse_bsr,
}  # fmt: skip


@record
class Pattern:
    """The structure of a sparse tensor."""

    layout: Layout
    shape: Shape  # of the tensor, dense dimensions last
    indices: tuple[Array, ...]  # (coordinates,), one column for each; or (compressed, plain)
    dense_dim: int = 0
    is_coalesced: bool = False  # COO alone: coordinates are sorted and appear once
    blocksize: tuple[int, int] = (1, 1)

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        return (
            isinstance(other, Pattern)
            and self.layout is other.layout
            and self.shape == other.shape
            and self.blocksize == other.blocksize
            and self.is_coalesced == other.is_coalesced
            and all(
                a is b or np.array_equal(a, b)
                for a, b in zip(self.indices, other.indices, strict=True)
            )
        )

    def __hash__(self) -> int:
        return hash((self.layout, self.shape, self.nnz))

    @property
    def is_coo(self) -> bool:
        return self.layout is sparse_coo

    @property
    def batch(self) -> Shape:
        return () if self.is_coo else self.indices[1].shape[:-1]

    @property
    def nnz(self) -> int:
        """The number of stored elements, or of blocks; of one matrix of a batch."""
        return int(self.indices[-1].shape[-1])

    @property
    def sparse_dim(self) -> int:
        return self.indices[0].shape[0] if self.is_coo else 2

    @property
    def sparse_shape(self) -> Shape:
        """The sizes of all dimensions that are not dense, batch dimensions included."""
        return self.shape[: len(self.shape) - self.dense_dim]

    @property
    def dense_shape(self) -> Shape:
        return self.shape[len(self.shape) - self.dense_dim :]

    @property
    def values_shape(self) -> Shape:
        blocks = self.blocksize if self.layout in BLOCKED else ()
        return (*self.batch, self.nnz, *blocks, *self.dense_shape)

    @cached_property
    def coordinates(self) -> Array:
        """The coordinates of each entry: one row for each dimension that is not dense."""
        if self.is_coo:
            return self.indices[0]
        batch, major, minor = self._of_blocks()
        (height, width), columns = self.blocksize, self.layout in BY_COLUMNS
        rows, cols = (minor, major) if columns else (major, minor)
        grid = np.indices((height, width)).reshape(2, -1)
        rows = (rows[:, None] * height + grid[0]).reshape(-1)
        cols = (cols[:, None] * width + grid[1]).reshape(-1)
        batch = np.repeat(batch, height * width, axis=1)
        return np.concatenate([batch, rows[None], cols[None]]).astype(np.int64, copy=False)

    def _of_blocks(self) -> tuple[Array, Array, Array]:
        """The batch index, the major and the minor index of each block."""
        compressed, plain = (i.astype(np.int64, copy=False) for i in self.indices)
        counts = np.diff(compressed, axis=-1)
        batches = int(np.prod(self.batch, dtype=np.int64))
        major = np.repeat(np.tile(np.arange(counts.shape[-1]), batches), counts.reshape(-1))
        which = np.repeat(np.arange(batches), self.nnz)
        batch = np.array(np.unravel_index(which, self.batch)) if self.batch else which[:0]
        return batch.reshape(len(self.batch), which.size), major, plain.reshape(-1)

    @cached_property
    def linear(self) -> Array:
        """The coordinates of each entry as one number."""
        return raveled(self.coordinates, self.sparse_shape)


def raveled(coordinates: Array, shape: Shape) -> Array:
    """Coordinates as one number each, in the order of the dimensions."""
    number = np.zeros(coordinates.shape[1], np.int64)
    for row, size in zip(coordinates, shape, strict=True):
        number = number * size + row
    return number


def unraveled(linear: Array, shape: Shape) -> Array:
    """The inverse of `raveled`."""
    rows: list[Array] = []
    for size in reversed(shape):
        linear, row = np.divmod(linear, max(size, 1))
        rows.append(row)
    return np.array(rows[::-1], np.int64).reshape(len(shape), len(linear))


def coo(
    shape: Shape, coordinates: Array, dense_dim: int = 0, *, is_coalesced: bool = False
) -> Pattern:
    """The pattern of these coordinates; `is_coalesced`: sorted, and each appears once."""
    return Pattern(sparse_coo, tuple(shape), (frozen(coordinates),), dense_dim, is_coalesced)


def frozen(indices: Array) -> Array:
    """The array, made read-only, so that checks of it stay true."""
    indices.flags.writeable = False
    return indices


def coalesced(pattern: Pattern) -> tuple[Pattern, Array]:
    """The pattern with sorted coordinates, each once, and the new place of each entry."""
    if pattern.is_coalesced or not pattern.is_coo:
        return pattern, np.arange(pattern.linear.size)
    linear, places = np.unique(pattern.linear, return_inverse=True)
    coordinates = unraveled(linear, pattern.sparse_shape)
    return coo(pattern.shape, coordinates, pattern.dense_dim, is_coalesced=True), places.reshape(-1)


def arranged(
    layout: Layout,
    shape: Shape,
    coordinates: Array,
    dense_dim: int = 0,
    blocksize: tuple[int, int] = (1, 1),
) -> tuple[Pattern, Array]:
    """The pattern of a layout that holds these coordinates, in any order and with repetitions."""
    if layout is sparse_coo:
        return coalesced(coo(shape, coordinates, dense_dim))
    sizes = shape[: len(shape) - dense_dim]
    *batch, rows, columns = sizes
    height, width = blocksize
    if height < 1 or width < 1 or rows % height or columns % width:
        raise ValueRangeError(
            f"{layout}: blocks of {height}×{width} do not fill matrices of {rows}×{columns}; "
            "choose a blocksize that divides both sizes"
        )
    grid = [rows // height, columns // width]
    block = [coordinates[-2] // height, coordinates[-1] // width]
    if layout in BY_COLUMNS:
        block, grid = block[::-1], grid[::-1]
    linear = raveled(np.array([*coordinates[:-2], *block]), (*batch, *grid))
    blocks, numbers = np.unique(linear, return_inverse=True)
    indices = _compressed(layout, tuple(batch), grid, blocks)
    inner = (coordinates[-2] % height) * width + coordinates[-1] % width
    places = numbers.reshape(-1) * (height * width) + inner
    return Pattern(layout, tuple(shape), indices, dense_dim, False, blocksize), places


def _compressed(
    layout: Layout, batch: Shape, grid: list[int], blocks: Array
) -> tuple[Array, Array]:
    """The compressed and the plain indices of sorted blocks of matrices of `grid` blocks."""
    batches = int(np.prod(batch, dtype=np.int64))
    majors, minors = np.divmod(blocks, max(grid[1], 1))
    counts = np.bincount(majors, minlength=batches * grid[0]).reshape(batches, grid[0])
    each = counts.sum(axis=1)
    if batches and (each != each[0]).any():
        raise ValueRangeError(
            f"{layout}: the matrices of a batch must have equally many elements or blocks that "
            f"are not zero, got {each.min()} to {each.max()}; use sparse_coo"
        )
    nnz = int(each[0]) if batches else 0
    compressed = np.zeros((batches, grid[0] + 1), np.int64)
    np.cumsum(counts, axis=1, out=compressed[:, 1:])
    return (
        frozen(compressed.reshape(*batch, grid[0] + 1)),
        frozen(minors.reshape(*batch, nnz)),
    )


def converted(
    pattern: Pattern, layout: Layout, blocksize: tuple[int, int] = (1, 1)
) -> tuple[Pattern, Array]:
    """The same elements in another layout, and the new place of each entry."""
    if pattern.layout is layout and pattern.blocksize == blocksize:
        return coalesced(pattern)
    if layout is not sparse_coo and len(pattern.sparse_shape) < 2:
        raise ShapeError(
            f"{layout} is a layout of matrices; the tensor has the shape {show(pattern.shape)}"
            f" with {pattern.dense_dim} dense dimensions"
        )
    return arranged(layout, pattern.shape, pattern.coordinates, pattern.dense_dim, blocksize)


def united(one: Pattern, other: Pattern) -> tuple[Pattern, Array]:
    """The elements of both patterns, in the layout of the first; the new places of the first's
    entries, then of the other's.

    COO coordinates are concatenated unless both are coalesced.
    """
    if one.is_coalesced and other.is_coalesced:
        return _merged(one, other)
    both = np.concatenate([one.coordinates, other.coordinates], axis=1)
    if one.is_coo and other.is_coo:
        return coo(one.shape, both, one.dense_dim), np.arange(both.shape[1])
    return arranged(one.layout, one.shape, both, one.dense_dim, one.blocksize)


def _merged(one: Pattern, other: Pattern) -> tuple[Pattern, Array]:
    """Like `united`, for two coalesced patterns, whose coordinates are sorted."""
    before, there = positions_of(other.linear, one.linear)
    new = other.linear[~there]
    mine = np.arange(one.nnz) + np.searchsorted(new, one.linear)
    theirs = np.empty(other.nnz, np.int64)
    theirs[there] = mine[before[there]]
    theirs[~there] = np.arange(new.size) + np.searchsorted(one.linear, new)
    coordinates = np.empty((one.sparse_dim, one.nnz + new.size), np.int64)
    coordinates[:, mine] = one.coordinates
    coordinates[:, theirs[~there]] = other.coordinates[:, ~there]
    pattern = coo(one.shape, coordinates, one.dense_dim, is_coalesced=True)
    return pattern, np.concatenate([mine, theirs])


def positions_of(wanted: Array, linear: Array) -> tuple[Array, Array]:
    """The index of each wanted number in `linear` (0 if absent), and whether it is there.

    `linear` holds each number once.
    """
    increasing = bool((linear[1:] > linear[:-1]).all())
    order = np.arange(linear.size) if increasing else np.argsort(linear, kind="stable")
    places = np.searchsorted(linear, wanted, sorter=None if increasing else order)
    inside = places < linear.size
    places = order[np.where(inside, places, 0)] if linear.size else np.zeros_like(wanted)
    there = inside & (linear[places] == wanted) if linear.size else np.zeros(wanted.shape, bool)
    return np.where(there, places, 0), there


def grouped(pattern: Pattern, dims: Shape) -> tuple[Array, Array]:
    """The sorted distinct coordinates of the entries in `dims`, and the index of each entry's."""
    sizes = tuple(pattern.sparse_shape[d] for d in dims)
    linear, groups = np.unique(raveled(pattern.coordinates[list(dims)], sizes), return_inverse=True)
    return unraveled(linear, sizes), groups.reshape(-1)


# ---- patterns of results ------------------------------------------------------------------------


def sources(places: Array, count: int) -> Array | None:
    """The entry that goes to each of `count` places, if exactly one goes to each; else None."""
    if places.size != count or (count and np.bincount(places, minlength=count).max() != 1):
        return None
    order = np.empty(count, np.int64)
    order[places] = np.arange(count)
    return order


def representatives(places: Array, count: int) -> Array:
    """One of the entries that go to each of `count` places; each has one at least."""
    found = np.empty(count, np.int64)
    found[places] = np.arange(places.size)
    return found


def is_identity(places: Array, count: int) -> bool:
    """Whether entries stay where they are."""
    return places.size == count and bool((places == np.arange(count)).all())


def of_array(array: Array, layout: Layout, dense_dim: int, blocksize: tuple[int, int]) -> Pattern:
    """The pattern of the nonzero elements of an array, or of its blocks that hold one."""
    kept = array != 0
    if dense_dim:
        kept = kept.reshape(*array.shape[: array.ndim - dense_dim], -1).any(axis=-1)
    stored = np.array(np.nonzero(kept)) if kept.ndim else np.zeros((0, int(kept)), np.int64)
    return arranged(layout, array.shape, stored, dense_dim, blocksize)[0]


def permuted(pattern: Pattern, dims: Shape) -> Pattern:
    """The pattern of a COO tensor with its sparse dimensions in another order."""
    count = pattern.sparse_dim
    order = list(dims[:count])
    return coo(
        tuple(pattern.shape[d] for d in dims),
        pattern.coordinates[order],
        pattern.dense_dim,
        is_coalesced=pattern.is_coalesced and order == sorted(order),
    )


def transposed(pattern: Pattern) -> Pattern:
    """The pattern of transposed matrices in a compressed layout: rows for columns."""
    batch = len(pattern.batch)
    shape = list(pattern.shape)
    height, width = pattern.blocksize
    shape[batch], shape[batch + 1] = shape[batch + 1], shape[batch]
    return Pattern(
        TRANSPOSED[pattern.layout], tuple(shape), pattern.indices, pattern.dense_dim, False,
        (width, height),
    )  # fmt: skip


def rows_and_columns(pattern: Pattern) -> tuple[Array, Array]:
    """The row and the column of each entry, counted on through the matrices of a batch."""
    *batch, rows, columns = pattern.sparse_shape
    *outer, row, column = pattern.coordinates
    if not batch:
        return row, column
    number = raveled(np.array(outer), tuple(batch))
    return number * rows + row, number * columns + column


def pairs(one: Pattern, other: Pattern) -> tuple[Array, Array, Array]:
    """The products of entries in a product of two matrices.

    For each the index of its left entry, of its right entry, and the coordinates of the sum to
    which it belongs.
    """
    left, right = one.coordinates, other.coordinates
    order = np.argsort(right[0], kind="stable")
    starts = np.searchsorted(right[0], np.arange(other.shape[0] + 1), sorter=order)
    counts = np.diff(starts)[left[1]]
    first = np.repeat(np.arange(left.shape[1]), counts)
    within = np.arange(first.size) - np.repeat(np.cumsum(counts) - counts, counts)
    second = order[np.repeat(starts[left[1]], counts) + within]
    return first, second, np.array([left[0][first], right[1][second]])


def diagonals(offsets: Array, width: int, shape: Shape) -> tuple[Array, Array]:
    """The coordinates of diagonals of a matrix, and each element's position on its diagonal."""
    columns = np.broadcast_to(np.arange(width), (offsets.size, width))
    rows = columns - offsets[:, None]
    inside = (rows >= 0) & (rows < shape[0]) & (columns < shape[1])
    return np.array([rows[inside], columns[inside]]), np.flatnonzero(inside)


def no_coordinates(dims: int) -> Array:
    """The coordinates of no entries."""
    return np.zeros((dims, 0), np.int64)


def int64_array(places: list[int]) -> Array:
    """Integers as an int64 array."""
    return np.array(places, np.int64)


def indices_where(there: Array) -> Array:
    """The indices where a mask is True."""
    return np.flatnonzero(there)


def count(sizes: Shape | list[int]) -> int:
    """The number of elements of a shape."""
    return int(np.prod(sizes, dtype=np.int64))


def elements_of_rows(pattern: Pattern) -> Array:
    """The number of entries in each row of a matrix."""
    return np.bincount(pattern.coordinates[0], minlength=pattern.shape[0])


def with_zeros(coordinates: Array, kept: Shape, dims: int) -> Array:
    """Coordinates with rows of zeros among them: the given ones are the rows `kept`."""
    found = np.zeros((dims, coordinates.shape[1]), np.int64)
    found[list(kept)] = coordinates
    return found


def arranged_as(
    pattern: Pattern, shape: Shape, dense_dim: int, coordinates: Array | None = None
) -> tuple[Pattern, Array]:
    """The pattern with another shape and other coordinates, in the same layout.

    In COO if the shape is no matrix any more or does not consist of whole blocks.
    """
    given = pattern.coordinates if coordinates is None else coordinates
    if coordinates is None and pattern.is_coo and not pattern.is_coalesced:
        return coo(shape, given, dense_dim), np.arange(given.shape[1])
    sizes = shape[: len(shape) - dense_dim]
    height, width = pattern.blocksize
    fits = len(sizes) >= 2 and not (sizes[-2] % height or sizes[-1] % width)
    layout = pattern.layout if fits else sparse_coo
    blocksize = pattern.blocksize if fits else (1, 1)
    return arranged(layout, shape, given, dense_dim, blocksize)


def chosen(coordinates: Array, dim: int, places: list[int]) -> tuple[Array, Array]:
    """The coordinates of the slices at some places of a dimension, and their source entries."""
    rows = coordinates[dim]
    order = np.argsort(rows, kind="stable")
    starts = np.searchsorted(rows, places, side="left", sorter=order)
    ends = np.searchsorted(rows, places, side="right", sorter=order)
    pieces = [order[a:b] for a, b in zip(starts, ends, strict=True)]
    sources = np.concatenate([*pieces, np.zeros(0, np.int64)]).astype(np.int64)
    found = coordinates[:, sources].copy()
    found[dim] = np.repeat(np.arange(len(places)), ends - starts)
    return found, sources


def appended(all_of: list[Array], dim: int | None, lengths: list[int]) -> Array:
    """The coordinates of several tensors, concatenated along `dim`; None: in the same places."""
    if dim is None:
        return np.concatenate(all_of, axis=1)
    shifts = np.cumsum([0, *lengths[:-1]])
    moved = [c.copy() for c in all_of]
    for coordinates, shift in zip(moved, shifts, strict=True):
        coordinates[dim] += shift
    return np.concatenate(moved, axis=1)
