"""Making sparse tensors, reading their parts, and converting them to other layouts and back."""

from __future__ import annotations

from typing import Any

from adjoint import ops
from adjoint.core import dtypes
from adjoint.core.dtypes import DType
from adjoint.core.errors import ArgumentError, ShapeError, ValueRangeError
from adjoint.core.layouts import Layout, sparse_bsc, sparse_bsr, sparse_coo, sparse_csc, sparse_csr
from adjoint.core.layouts import strided as dense_layout
from adjoint.core.shapes import show
from adjoint.decompositions.sparse.common import (
    assemble,
    at,
    coalesced,
    converted,
    entries,
    index,
    is_sparse,
    known,
    pattern_of,
    rebuilt,
)
from adjoint.structures import invariants, patterns
from adjoint.structures.patterns import BLOCKED, BY_COLUMNS, COMPRESSED, Pattern

Tensor = Any

# ---- from parts ---------------------------------------------------------------------------------


def coo_with_dims(
    sparse_dim: int,
    dense_dim: int,
    size: tuple[int, ...],
    indices: Tensor,
    values: Tensor,
    dtype: DType | None,
    layout: Layout | None,
    device: Any,
    pin_memory: bool | None,
    is_coalesced: bool | None,
) -> Tensor:
    """A COO tensor of these coordinates and values."""
    what = "sparse_coo_tensor"
    if (sparse_dim, dense_dim) != (indices.shape[0], values.ndim - 1):
        raise ShapeError(
            f"{what}: {sparse_dim} sparse and {dense_dim} dense dimensions, but indices of "
            f"{show(indices.shape)} and values of {show(values.shape)}"
        )
    return coo_tensor(what, indices, values, size, dtype, is_coalesced)


def coo_unsafe(
    indices: Tensor,
    values: Tensor,
    size: tuple[int, ...],
    dtype: DType | None,
    layout: Layout | None,
    device: Any,
    pin_memory: bool | None,
    is_coalesced: bool | None,
) -> Tensor:
    """A COO tensor whose numbers of dimensions follow from indices and values."""
    return coo_tensor("sparse_coo_tensor", indices, values, size, dtype, is_coalesced)


def coo_tensor(
    what: str,
    indices: Tensor,
    values: Tensor,
    size: tuple[int, ...],
    dtype: DType | None,
    is_coalesced: bool | None,
) -> Tensor:
    """A COO tensor; raise if its parts do not belong together."""
    array = known(what, indices)
    invariants.coo(what, array, tuple(values.shape), tuple(size))
    array = array.astype("int64")
    pattern = patterns.coo(tuple(size), array, values.ndim - 1, is_coalesced=bool(is_coalesced))
    if is_coalesced:
        invariants.sorted_once(what, pattern.linear)
    return assemble(pattern, _own(values, dtype))


def compressed(
    compressed_indices: Tensor,
    plain_indices: Tensor,
    values: Tensor,
    size: tuple[int, ...],
    dtype: DType | None,
    layout: Layout | None,
    device: Any,
    pin_memory: bool | None,
) -> Tensor:
    """A tensor of a compressed layout; raise if its parts do not belong together."""
    if layout is None or layout not in COMPRESSED:
        names = ", ".join(map(repr, COMPRESSED))
        raise ArgumentError(f"sparse_compressed_tensor: takes layout={names}, got {layout!r}")
    what = f"{layout}_tensor"
    first, second = (
        patterns.frozen(known(what, i).copy()) for i in (compressed_indices, plain_indices)
    )
    shape, size = tuple(values.shape), tuple(size)
    invariants.compressed_shapes(what, layout, first, second, shape, size)
    batch = first.ndim - 1
    blocksize = invariants.blocks_of(layout, shape, batch)
    dense_dim = len(size) - batch - 2
    pattern = Pattern(layout, size, (first, second), dense_dim, False, blocksize)
    invariants.compressed(what, pattern)
    return assemble(pattern, _own(values, dtype))


def _own(values: Tensor, dtype: DType | None) -> Tensor:
    """The values on the same memory, no leaf, since the sparse tensor is none."""
    values = values if dtype is None else values.to(dtype)
    return values.view_as(values) if values.requires_grad else values


# ---- parts --------------------------------------------------------------------------------------


def coordinates(self: Tensor) -> Tensor:
    """The coordinates of a COO tensor that is coalesced."""
    pattern = pattern_of("indices", self)
    invariants.check_coo("indices", pattern)
    _check_coalesced("indices", pattern)
    return index(pattern.indices[0])


def raw_coordinates(self: Tensor) -> Tensor:
    """The coordinates of a COO tensor."""
    pattern = pattern_of("_indices", self)
    invariants.check_coo("_indices", pattern)
    return index(pattern.indices[0])


def _check_coalesced(what: str, pattern: Pattern) -> None:
    if pattern.is_coo and not pattern.is_coalesced:
        raise ValueRangeError(
            f"{what}() of a tensor that is not coalesced: call coalesce() first, or _{what}() for "
            "all elements as they are stored"
        )


def crow_indices(self: Tensor) -> Tensor:
    """Where each row starts."""
    return _compressed_part("crow_indices", self, 0, columns=False)


def col_indices(self: Tensor) -> Tensor:
    """The column of each element or block."""
    return _compressed_part("col_indices", self, 1, columns=False)


def ccol_indices(self: Tensor) -> Tensor:
    """Where each column starts."""
    return _compressed_part("ccol_indices", self, 0, columns=True)


def row_indices(self: Tensor) -> Tensor:
    """The row of each element or block."""
    return _compressed_part("row_indices", self, 1, columns=True)


def _compressed_part(what: str, self: Tensor, number: int, *, columns: bool) -> Tensor:
    pattern = pattern_of(what, self)
    wanted = tuple(x for x in COMPRESSED if (x in BY_COLUMNS) == columns)
    invariants.check_layout(what, pattern.layout, wanted)
    return index(pattern.indices[number])


def values(self: Tensor) -> Tensor:
    """The values, of a COO tensor if it is coalesced."""
    _check_coalesced("values", pattern_of("values", self))
    return self.stored


def raw_values(self: Tensor) -> Tensor:
    """The values of a COO tensor, without history."""
    invariants.check_coo("_values", pattern_of("_values", self))
    return self.stored.detach()


# ---- the same elements otherwise ----------------------------------------------------------------


def coalesce(self: Tensor) -> Tensor:
    """Sorted coordinates, each once; values of equal coordinates are added up."""
    invariants.check_coo("coalesce", pattern_of("coalesce", self))
    return coalesced(self)


def to_dense(self: Tensor, dtype: DType | None, masked_grad: bool | None) -> Tensor:
    """The dense tensor of all elements; its gradient reaches the stored ones."""
    self = self if dtype is None else self.to(dtype)
    if not is_sparse(self):
        return self
    pattern, found = self.companion, entries(self)
    if not len(pattern.sparse_shape):
        return found.sum(0)
    if found.dtype is dtypes.bool_:
        return to_dense(self.to(dtypes.uint8), None, None) != 0
    flat = (patterns.count(pattern.sparse_shape), *pattern.dense_shape)
    return ops._index_backward(found, flat, [index(pattern.linear)]).reshape(pattern.shape)


def to_sparse_dim(self: Tensor, sparse_dim: int) -> Tensor:
    """A COO tensor with the last dimensions dense."""
    count = sparse_dim if sparse_dim >= 0 else sparse_dim + self.ndim
    if not (0 < count <= self.ndim or self.ndim == count == 0):
        raise ValueRangeError(
            f"to_sparse(sparse_dim={sparse_dim}): a tensor of shape {show(self.shape)} has 1 to "
            f"{self.ndim} sparse dimensions"
        )
    if is_sparse(self):
        if self.companion.is_coo and self.companion.sparse_dim == count:
            return self
        self = to_dense(self, None, None)
    return _stored(self, sparse_coo, self.ndim - count, (1, 1))


def to_sparse(
    self: Tensor, layout: Layout | None, blocksize: tuple[int, int] | None, dense_dim: int | None
) -> Tensor:
    """A tensor of a sparse layout, COO if none is said."""
    what = f"to_sparse(layout={layout!r})"
    layout = sparse_coo if layout is None else layout
    if layout is dense_layout:
        raise ArgumentError(f"{what}: use to_dense()")
    if layout in BLOCKED and blocksize is None:
        raise ArgumentError(f"{what}: blocks need blocksize=(height, width)")
    if layout not in BLOCKED and blocksize is not None:
        raise ArgumentError(f"{what}: only layouts of blocks take blocksize={blocksize}")
    blocks = (1, 1) if blocksize is None else (blocksize[0], blocksize[1])
    if is_sparse(self):
        if dense_dim is not None and dense_dim != self.companion.dense_dim:
            raise ArgumentError(
                f"{what}: the sparse tensor has {self.companion.dense_dim} dense dimensions, not "
                f"dense_dim={dense_dim}; use to_dense() first"
            )
        same = self.companion.layout is layout and self.companion.blocksize == blocks
        return self if same else converted(self, layout, blocks)
    count = 0 if dense_dim is None else dense_dim
    least = 0 if layout is sparse_coo else 2
    if not 0 <= count <= self.ndim - least:
        raise ShapeError(
            f"{what}: a tensor of shape {show(self.shape)} with dense_dim={count} leaves "
            f"{self.ndim - count} dimensions, and at least {least} are needed"
        )
    return _stored(self, layout, count, blocks)


def _stored(dense: Tensor, layout: Layout, dense_dim: int, blocksize: tuple[int, int]) -> Tensor:
    """The elements of a dense tensor that are not zero."""
    pattern = patterns.of_array(known("to_sparse", dense), layout, dense_dim, blocksize)
    return assemble(pattern, at(dense, pattern).reshape(pattern.values_shape))


def to_sparse_csr(self: Tensor, dense_dim: int | None) -> Tensor:
    """Compressed rows."""
    return to_sparse(self, sparse_csr, None, dense_dim)


def to_sparse_csc(self: Tensor, dense_dim: int | None) -> Tensor:
    """Compressed columns."""
    return to_sparse(self, sparse_csc, None, dense_dim)


def to_sparse_bsr(self: Tensor, blocksize: tuple[int, int], dense_dim: int | None) -> Tensor:
    """Compressed rows of blocks."""
    return to_sparse(self, sparse_bsr, blocksize, dense_dim)


def to_sparse_bsc(self: Tensor, blocksize: tuple[int, int], dense_dim: int | None) -> Tensor:
    """Compressed columns of blocks."""
    return to_sparse(self, sparse_bsc, blocksize, dense_dim)


def mask(self: Tensor, mask: Tensor) -> Tensor:
    """The elements of `self` where `mask` has stored ones; 0 where `self` has none."""
    pattern = pattern_of("sparse_mask", mask)
    if tuple(self.shape) != pattern.shape:
        raise ShapeError(
            f"sparse_mask: a tensor of {show(self.shape)} and a mask of {show(mask.shape)}; the "
            "shapes must agree"
        )
    if not is_sparse(self):
        return assemble(pattern, at(self, pattern).reshape(pattern.values_shape))
    if self.companion == pattern:
        return self
    self = coalesced(self)
    if self.companion.dense_dim != pattern.dense_dim:
        raise ShapeError(
            f"sparse_mask: {self.companion.dense_dim} and {pattern.dense_dim} dense dimensions; "
            "the numbers must agree"
        )
    places, there = patterns.positions_of(pattern.linear, self.companion.linear)
    if not there.any():
        return assemble(pattern, self.stored.new_zeros(pattern.values_shape))
    found = entries(self).index_select(0, index(places))
    shown = index(there).reshape((-1, *(1,) * pattern.dense_dim))
    found = ops.where(shown, found, found.new_zeros(()))
    return assemble(pattern, found.reshape(pattern.values_shape))


def diagonals(
    diagonals: Tensor, offsets: Tensor, shape: tuple[int, ...], layout: Layout | None
) -> Tensor:
    """A matrix with these diagonals: column j holds the elements j of all."""
    what = "spdiags"
    layout = sparse_coo if layout is None else layout
    invariants.check_layout(what, layout, (sparse_coo, sparse_csr, sparse_csc))
    rows = diagonals.unsqueeze(0) if diagonals.ndim == 1 else diagonals
    numbers = known(what, offsets).reshape(-1)
    invariants.check_integers(what, "offsets", numbers)
    if len(shape) != 2 or rows.ndim != 2 or rows.shape[0] != numbers.size:
        raise ShapeError(
            f"{what}: {numbers.size} offsets and diagonals of {show(diagonals.shape)} for a shape "
            f"of {show(shape)}; a matrix has one row of diagonals for each offset"
        )
    if len(set(numbers.tolist())) != numbers.size:
        raise ValueRangeError(f"{what}: the offsets {numbers.tolist()} have repetitions")
    places, inside = patterns.diagonals(numbers, rows.shape[1], tuple(shape))
    found = rows.reshape(-1).index_select(0, index(inside))
    pattern, order = patterns.arranged(layout, tuple(shape), places)
    return rebuilt(pattern, found, order)


def empty_like(self: Tensor, *rest: Any) -> Tensor:
    """A sparse tensor of the same shape and layout that stores nothing."""
    given = self.companion
    pattern, _ = patterns.arranged(
        given.layout,
        given.shape,
        patterns.no_coordinates(len(given.sparse_shape)),
        given.dense_dim,
        given.blocksize,
    )
    return assemble(pattern, self.stored.new_zeros(pattern.values_shape))
