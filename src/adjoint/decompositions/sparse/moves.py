"""Sparse tensors with their dimensions in another order, parts of them, and several as one."""

from __future__ import annotations

from typing import Any

from adjoint import ops
from adjoint.core.errors import ArgumentError, IndexOutOfRange, ShapeError
from adjoint.core.shapes import show, wrap_dim
from adjoint.decompositions.sparse.common import (
    assemble,
    coalesced,
    converted,
    entries,
    index,
    is_sparse,
    known,
    pattern_of,
)
from adjoint.structures import patterns

Tensor = Any


def t(self: Tensor) -> Tensor:
    """The transposed matrix; a vector unchanged."""
    if self.ndim > 2:
        raise ShapeError(f"t: takes a matrix, got {show(self.shape)}; use transpose")
    return transpose(self, 0, 1) if self.ndim == 2 else self


def transpose(self: Tensor, dim0: int, dim1: int) -> Tensor:
    """Two dimensions exchanged: compressed rows become compressed columns."""
    one, other = (wrap_dim("transpose", d, self.ndim) for d in (dim0, dim1))
    order = list(range(self.ndim))
    order[one], order[other] = other, one
    return permute(self, tuple(order))


def permute(self: Tensor, dims: tuple[int, ...]) -> Tensor:
    """Dimensions in another order; sparse ones stay among themselves, and dense ones."""
    order = tuple(wrap_dim("permute", d, self.ndim) for d in dims)
    if sorted(order) != list(range(self.ndim)):
        raise ShapeError(f"permute: {show(dims)} are not the {self.ndim} dimensions, each once")
    if order == tuple(range(self.ndim)):
        return self
    pattern = self.companion
    count = len(pattern.sparse_shape)
    if sorted(order[:count]) != list(range(count)):
        raise ShapeError(
            f"permute: {show(order)} exchanges sparse and dense dimensions of a tensor with "
            f"{count} sparse ones; use to_dense()"
        )
    inner = (0, *(d - count + 1 for d in order[count:]))
    values = self.stored
    if pattern.is_coo:
        return assemble(patterns.permuted(pattern, order), values.permute(inner))
    return _permuted_matrices(self, order, count)


def _permuted_matrices(self: Tensor, order: tuple[int, ...], count: int) -> Tensor:
    pattern, values = self.companion, self.stored
    swapped = (*range(count - 2), count - 1, count - 2, *range(count, self.ndim))
    if order != swapped:
        raise ShapeError(
            f"permute: of a {self.layout} tensor the two dimensions of its matrices can be "
            f"exchanged, got {show(order)}; use to_sparse() or to_dense()"
        )
    if pattern.blocksize != (1, 1) or values.ndim - pattern.dense_dim > len(pattern.batch) + 1:
        first = len(pattern.batch) + 1
        values = values.transpose(first, first + 1)
    return assemble(patterns.transposed(pattern), values)


def unsqueeze(self: Tensor, dim: int) -> Tensor:
    """A new dimension of size 1."""
    _check_coo("unsqueeze", self)
    pattern = self.companion
    place = wrap_dim("unsqueeze", dim, self.ndim + 1)
    shape = (*pattern.shape[:place], 1, *pattern.shape[place:])
    if place > pattern.sparse_dim:
        values = self.stored.unsqueeze(place - pattern.sparse_dim + 1)
        found = patterns.coo(
            shape, pattern.coordinates, pattern.dense_dim + 1, is_coalesced=pattern.is_coalesced
        )
        return assemble(found, values)
    kept = tuple(d + (d >= place) for d in range(pattern.sparse_dim))
    coordinates = patterns.with_zeros(pattern.coordinates, kept, pattern.sparse_dim + 1)
    found = patterns.coo(shape, coordinates, pattern.dense_dim, is_coalesced=pattern.is_coalesced)
    return assemble(found, self.stored)


def _check_coo(what: str, self: Tensor) -> None:
    if not pattern_of(what, self).is_coo:
        raise ArgumentError(
            f"{what}: takes a sparse_coo tensor, got {self.layout!r}; use to_sparse()"
        )


def select(self: Tensor, dim: int, place: int) -> Tensor:
    """The slice at one place of a dimension; dense if that was the only sparse one."""
    where = wrap_dim("select", dim, self.ndim)
    size = self.shape[where]
    if not -size <= place < size:
        raise IndexOutOfRange(f"select: index {place} of dimension {dim}, which has size {size}")
    if not self.companion.is_coo:
        self = converted(self, "sparse_coo")
    found = _chosen(self, where, [place % size])
    pattern = found.companion
    if where >= pattern.sparse_dim:
        values = found.stored.squeeze(where - pattern.sparse_dim + 1)
        shape = (*pattern.shape[:where], *pattern.shape[where + 1 :])
        return assemble(
            patterns.coo(shape, pattern.coordinates, pattern.dense_dim - 1,
                         is_coalesced=pattern.is_coalesced), values,
        )  # fmt: skip
    if pattern.sparse_dim == 1:
        return found.stored.sum(0)
    kept = [d for d in range(pattern.sparse_dim) if d != where]
    shape = (*pattern.shape[:where], *pattern.shape[where + 1 :])
    smaller = patterns.coo(
        shape, pattern.coordinates[kept], pattern.dense_dim, is_coalesced=pattern.is_coalesced
    )
    return assemble(smaller, found.stored)


def index_select(self: Tensor, dim: int, index: Tensor) -> Tensor:
    """Slices at places of a dimension, in their order."""
    _check_coo("index_select", self)
    where = wrap_dim("index_select", dim, self.ndim)
    places = known("index_select", index).reshape(-1)
    size = self.shape[where]
    for place in places.tolist():
        if not 0 <= place < size:
            raise IndexOutOfRange(
                f"index_select: index {place} of dimension {dim}, which has size {size}"
            )
    return _chosen(self, where, places.tolist())


def _chosen(self: Tensor, dim: int, places: list[int]) -> Tensor:
    """A COO tensor of slices at places of a dimension."""
    pattern = self.companion
    shape = (*pattern.shape[:dim], len(places), *pattern.shape[dim + 1 :])
    if dim >= pattern.sparse_dim:
        values = self.stored.index_select(
            dim - pattern.sparse_dim + 1, index(patterns.int64_array(places))
        )
        found = patterns.coo(
            shape, pattern.coordinates, pattern.dense_dim, is_coalesced=pattern.is_coalesced
        )
        return assemble(found, values)
    coordinates, sources = patterns.chosen(pattern.coordinates, dim, places)
    found = patterns.coo(
        shape,
        coordinates,
        pattern.dense_dim,
        is_coalesced=pattern.is_coalesced and len(places) == 1,
    )
    return assemble(found, entries(self).index_select(0, index(sources)))


def cat(tensors: list[Tensor], dim: int) -> Tensor:
    """Several COO tensors one after the other along a dimension."""
    first = tensors[0]
    for tensor in tensors:
        if not is_sparse(tensor) or not tensor.companion.is_coo:
            raise ArgumentError(
                f"cat: all tensors must be sparse_coo, got {tensor.layout!r}; use to_sparse()"
            )
        if tensor.companion.sparse_dim != first.companion.sparse_dim:
            raise ShapeError("cat: the tensors have different numbers of sparse dimensions")
    where = wrap_dim("cat", dim, first.ndim)
    sizes = [(*t.shape[:where], *t.shape[where + 1 :]) for t in tensors]
    if any(size != sizes[0] for size in sizes):
        raise ShapeError(
            f"cat: shapes {', '.join(show(t.shape) for t in tensors)} differ elsewhere than in "
            f"dimension {where}"
        )
    lengths = [t.shape[where] for t in tensors]
    shape = (*first.shape[:where], sum(lengths), *first.shape[where + 1 :])
    pattern = first.companion
    if where < pattern.sparse_dim:
        coordinates = patterns.appended([t.companion.coordinates for t in tensors], where, lengths)
        sorted_already = where == 0 and all(t.companion.is_coalesced for t in tensors)
        found = patterns.coo(shape, coordinates, pattern.dense_dim, is_coalesced=sorted_already)
        return assemble(found, ops.cat([t.stored for t in tensors]))
    return _cat_dense(tensors, where, shape)


def _cat_dense(tensors: list[Tensor], where: int, shape: tuple[int, ...]) -> Tensor:
    """Along a dense dimension: each tensor has zeros where the others stand."""
    pattern = tensors[0].companion
    dim, before, rows = where - pattern.sparse_dim + 1, 0, []
    for tensor in tensors:
        values = entries(coalesced(tensor))
        ends = list(values.shape), list(values.shape)
        ends[0][dim], ends[1][dim] = before, shape[where] - before - values.shape[dim]
        before += values.shape[dim]
        rows.append(ops.cat([values.new_zeros(ends[0]), values, values.new_zeros(ends[1])], dim))
    coordinates = patterns.appended([coalesced(t).companion.coordinates for t in tensors], None, [])
    return assemble(patterns.coo(shape, coordinates, pattern.dense_dim), ops.cat(rows))
