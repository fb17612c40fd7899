"""Splitting and joining tensors, in terms of `slice`, `split_with_sizes` and `cat`."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

from adjoint import ops
from adjoint.checks import shape as layout
from adjoint.core.dtypes import INTEGER
from adjoint.core.errors import DtypeError, IndexOutOfRange, ShapeError, ValueRangeError
from adjoint.core.shapes import Shape, show, wrap_dim

Tensor = Any


def _size(what: str, self: Tensor, dim: int) -> int:
    if not self.ndim:
        raise ShapeError(f"{what}: needs at least one dimension, got a scalar.")
    return self.shape[wrap_dim(what, dim, self.ndim)]


def narrow(self: Tensor, dim: int, start: int, length: int) -> Tensor:
    """Take `length` elements from `start` on."""
    size = _size("narrow", self, dim)
    if length < 0:
        raise ShapeError(f"narrow: length must be at least 0, got {length}.")
    if not -size <= start <= size:
        raise IndexOutOfRange(f"narrow: start must be from {-size} to {size}, got {start}.")
    first = start + size if start < 0 else start
    if first + length > size:
        raise ShapeError(
            f"narrow: start={start} and length={length} reach past {size}, "
            f"the size of dimension {dim}."
        )
    return self.slice(dim, first, first + length)


def narrow_tensor(self: Tensor, dim: int, start: Tensor, length: int) -> Tensor:
    """As `narrow`, from a start that a scalar tensor holds."""
    if start.ndim or start.dtype.category != INTEGER:
        raise DtypeError(
            f"narrow: start must be an integer or a scalar tensor of one, got {show(start.shape)} "
            f"of {start.dtype}."
        )
    return narrow(self, dim, start.item(), length)


def split(self: Tensor, split_size: int, dim: int) -> list[Tensor]:
    """Cut into pieces of `split_size`; the last may be smaller."""
    sizes = layout.split_sizes("split", _size("split", self, dim), split_size)
    return self.split_with_sizes(sizes, dim)


def chunk(self: Tensor, chunks: int, dim: int) -> list[Tensor]:
    """Cut into at most `chunks` pieces, all equal but the last."""
    sizes = layout.chunk_sizes("chunk", _size("chunk", self, dim), chunks)
    return self.split_with_sizes(sizes, dim)


def tensor_split_sections(self: Tensor, sections: int, dim: int) -> list[Tensor]:
    """Cut into exactly `sections` pieces, whose sizes differ by at most one."""
    size = _size("tensor_split", self, dim)
    return self.split_with_sizes(layout.section_sizes("tensor_split", size, sections), dim)


def tensor_split_indices(self: Tensor, indices: Shape, dim: int) -> list[Tensor]:
    """Cut before each index, counted as in a Python slice."""
    _size("tensor_split", self, dim)
    bounds = [0, *indices, None]
    return [self.slice(dim, a, b) for a, b in itertools.pairwise(bounds)]


def tensor_split_tensor(self: Tensor, indices_or_sections: Tensor, dim: int) -> list[Tensor]:
    """As the overloads with numbers: a scalar counts sections, a vector holds indices."""
    if indices_or_sections.ndim > 1:
        raise ShapeError(
            f"tensor_split: needs a scalar or a vector, got {show(indices_or_sections.shape)}."
        )
    values = indices_or_sections.tolist()
    if isinstance(values, list):
        return tensor_split_indices(self, tuple(values), dim)
    if not isinstance(values, int):
        raise DtypeError(f"tensor_split: sections must be an integer, got {values}.")
    return tensor_split_sections(self, values, dim)


def _equal_parts(what: str, self: Tensor, sections: int, dim: int) -> list[Tensor]:
    size = self.shape[dim]
    if sections <= 0 or size % sections:
        raise ShapeError(
            f"{what}: dimension {dim} of size {size} does not divide into {sections} equal parts; "
            "tensor_split allows unequal ones."
        )
    return tensor_split_sections(self, sections, dim)


def _needs(what: str, self: Tensor, ndim: int) -> None:
    if self.ndim < ndim:
        raise ShapeError(f"{what}: needs at least {ndim} dimensions, got {show(self.shape)}.")


def hsplit_int(self: Tensor, sections: int) -> list[Tensor]:
    """Cut columns (of a vector, elements) into equal parts."""
    _needs("hsplit", self, 1)
    return _equal_parts("hsplit", self, sections, 0 if self.ndim == 1 else 1)


def hsplit(self: Tensor, indices: Shape) -> list[Tensor]:
    """Cut columns (of a vector, elements) before each index."""
    _needs("hsplit", self, 1)
    return tensor_split_indices(self, indices, 0 if self.ndim == 1 else 1)


def vsplit_int(self: Tensor, sections: int) -> list[Tensor]:
    """Cut rows into equal parts."""
    _needs("vsplit", self, 2)
    return _equal_parts("vsplit", self, sections, 0)


def vsplit(self: Tensor, indices: Shape) -> list[Tensor]:
    """Cut rows before each index."""
    _needs("vsplit", self, 2)
    return tensor_split_indices(self, indices, 0)


def dsplit_int(self: Tensor, sections: int) -> list[Tensor]:
    """Cut the third dimension into equal parts."""
    _needs("dsplit", self, 3)
    return _equal_parts("dsplit", self, sections, 2)


def dsplit(self: Tensor, indices: Shape) -> list[Tensor]:
    """Cut the third dimension before each index."""
    _needs("dsplit", self, 3)
    return tensor_split_indices(self, indices, 2)


def stack(tensors: Sequence[Tensor], dim: int) -> Tensor:
    """Insert the dimension into each, and join along it."""
    _, dim = layout.stack_shape("stack", [tuple(x.shape) for x in tensors], dim)
    return ops.cat([x.unsqueeze(dim) for x in tensors], dim)


def hstack(tensors: Sequence[Tensor]) -> Tensor:
    """Join side by side: vectors end to end, others along the second dimension."""
    _some("hstack", tensors)
    raised = [ops.atleast_1d(x) for x in tensors]
    return ops.cat(raised, 0 if raised[0].ndim == 1 else 1)


def vstack(tensors: Sequence[Tensor]) -> Tensor:
    """Join as rows."""
    _some("vstack", tensors)
    return ops.cat([ops.atleast_2d(x) for x in tensors], 0)


def dstack(tensors: Sequence[Tensor]) -> Tensor:
    """Join along the third dimension."""
    _some("dstack", tensors)
    return ops.cat([ops.atleast_3d(x) for x in tensors], 2)


def column_stack(tensors: Sequence[Tensor]) -> Tensor:
    """Join side by side, vectors as columns."""
    _some("column_stack", tensors)
    return ops.cat([x if x.ndim > 1 else x.reshape((x.numel(), 1)) for x in tensors], 1)


def _some(what: str, tensors: Sequence[Tensor]) -> None:
    if not tensors:
        raise ShapeError(f"{what}: needs at least one tensor, got an empty list.")


def block_diag(tensors: Sequence[Tensor]) -> Tensor:
    """Pad each block with zeros to the full width, and join as rows."""
    if not tensors:
        return ops.zeros((1, 0))
    (_, width), blocks = layout.block_diag_shape("block_diag", [tuple(x.shape) for x in tensors])
    rows, column = [], 0
    for x, (height, columns) in zip(tensors, blocks, strict=True):
        left = ops.zeros((height, column), dtype=x.dtype)
        right = ops.zeros((height, width - column - columns), dtype=x.dtype)
        rows.append(ops.cat([left, x.reshape((height, columns)), right], 1))
        column += columns
    return ops.cat(rows, 0)


def chunk_cat(tensors: Sequence[Tensor], dim: int, num_chunks: int) -> Tensor:
    """Cut each tensor into `num_chunks` chunks (padded), flatten them, join chunk by chunk."""
    _some("_chunk_cat", tensors)
    if num_chunks < 1:
        raise ValueRangeError(f"_chunk_cat: num_chunks must be positive, got {num_chunks}.")
    if dim < 0 and len({x.ndim for x in tensors}) > 1:
        raise ShapeError("_chunk_cat: dim must count from the front for tensors of several ranks.")
    dim = wrap_dim("_chunk_cat", dim, min(x.ndim for x in tensors))
    parts = []
    for x in tensors:
        size = x.shape[dim]
        each = -(-size // num_chunks)
        missing = each * num_chunks - size
        if missing:
            fill = ops.zeros((*x.shape[:dim], missing, *x.shape[dim + 1 :]), dtype=x.dtype)
            x = ops.cat([x, fill], dim)
        parts.append(x.reshape((*x.shape[:dim], num_chunks, -1)))
    return ops.cat(parts, dim + 1)


def pad_sequence(
    sequences: Sequence[Tensor], batch_first: bool, padding_value: float, padding_side: str
) -> Tensor:
    """Pad along the first dimension to the longest sequence, and stack."""
    _some("pad_sequence", sequences)
    if padding_side not in ("left", "right"):
        raise ValueRangeError(
            f'pad_sequence: padding_side must be "left" or "right", got {padding_side!r}.'
        )
    longest = max(_size("pad_sequence", x, 0) for x in sequences)
    padded = []
    for x in sequences:
        missing = (longest - x.shape[0], *x.shape[1:])
        fill = ops.full(missing, padding_value, dtype=x.dtype)
        padded.append(ops.cat([fill, x] if padding_side == "left" else [x, fill], 0))
    return ops.stack(padded, 0 if batch_first else 1)


def cartesian_prod(tensors: Sequence[Tensor]) -> Tensor:
    """Return all combinations of one element from each vector, one a row."""
    _some("cartesian_prod", tensors)
    for x in tensors:
        if x.ndim != 1:
            raise ShapeError(f"cartesian_prod: needs vectors, got {show(x.shape)}.")
    if len(tensors) == 1:
        return tensors[0]
    grids = ops.meshgrid(tensors, indexing="ij")
    return ops.stack([g.reshape((-1,)) for g in grids], 1)
