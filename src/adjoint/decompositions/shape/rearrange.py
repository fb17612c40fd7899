"""Rearrangements of one tensor (and broadcasting of several) out of views, `cat` and `where`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from adjoint import ops
from adjoint.checks import shape as layout
from adjoint.core.errors import DimensionError, DtypeError, ShapeError, ValueRangeError
from adjoint.core.shapes import Shape, broadcast, show, wrap_dim

Tensor = Any


def flatten(self: Tensor, start_dim: int, end_dim: int) -> Tensor:
    """Merge the dimensions from `start_dim` to `end_dim` into one."""
    start, end = wrap_dim("flatten", start_dim, self.ndim), wrap_dim("flatten", end_dim, self.ndim)
    if start > end:
        raise ShapeError(f"flatten: start_dim={start_dim} comes after end_dim={end_dim}.")
    if not self.ndim:
        return self.reshape((1,))
    if start == end:
        return self
    merged = 1
    for size in self.shape[start : end + 1]:
        merged *= size
    return self.reshape((*self.shape[:start], merged, *self.shape[end + 1 :]))


def unflatten(self: Tensor, dim: int, sizes: Shape) -> Tensor:
    """Split one dimension into several."""
    if not self.ndim:
        raise DimensionError("unflatten: a scalar has no dimension to split.")
    dim = wrap_dim("unflatten", dim, self.ndim)
    new = layout.unflattened("unflatten", self.shape[dim], sizes)
    return self.view((*self.shape[:dim], *new, *self.shape[dim + 1 :]))


def transpose(self: Tensor, dim0: int, dim1: int) -> Tensor:
    """Exchange two dimensions: a permutation."""
    first, second = wrap_dim("transpose", dim0, self.ndim), wrap_dim("transpose", dim1, self.ndim)
    dims = list(range(self.ndim))
    if dims:
        dims[first], dims[second] = second, first
    return self.permute(dims)


def t(self: Tensor) -> Tensor:
    """Transpose at most two dimensions."""
    if self.ndim > 2:
        raise ShapeError(f"t: needs at most 2 dimensions, got {show(self.shape)}; use .mT.")
    return self.permute(tuple(reversed(range(self.ndim))))


def _is_matrix(what: str, self: Tensor, exactly: bool = False) -> bool:
    """Return False for a scalar, True for matrices, and raise for a vector."""
    if self.ndim == 1 or (exactly and self.ndim > 2):
        kind = "a matrix" if exactly else "a matrix or a batch of them"
        raise ShapeError(f"{what}: needs {kind}, got {show(self.shape)}.")
    return self.ndim > 1


def mT(self: Tensor) -> Tensor:
    """Transpose the last two dimensions."""
    return self.transpose(-2, -1) if _is_matrix("mT", self) else self


def mH(self: Tensor) -> Tensor:
    """Transpose the last two dimensions, and conjugate."""
    return self.transpose(-2, -1).conj() if _is_matrix("mH", self) else self.conj()


def matrix_H(self: Tensor) -> Tensor:
    """Transpose a single matrix, and conjugate."""
    return self.transpose(0, 1).conj() if _is_matrix("H", self, exactly=True) else self.conj()


def movedim(self: Tensor, source: Shape, destination: Shape) -> Tensor:
    """Move dimensions; the others keep their order."""
    return self.permute(layout.moved("movedim", source, destination, self.ndim))


def broadcast_tensors(tensors: Sequence[Tensor]) -> list[Tensor]:
    """Expand all to the shape that they broadcast to."""
    shape = broadcast("broadcast_tensors", *(tuple(x.shape) for x in tensors))
    return [x.expand(shape) for x in tensors]


def sum_to_size(self: Tensor, size: Shape) -> Tensor:
    """Sum over the dimensions that broadcasting from `size` would have repeated."""
    shape = tuple(self.shape)
    if not size:
        return self.sum()  # also of a scalar: a bool becomes an integer, as in PyTorch
    if shape == tuple(size):
        return self
    lead = len(shape) - len(size)
    if lead < 0 or any(s not in (1, n) for s, n in zip(size, shape[lead:], strict=True)):
        raise ShapeError(f"sum_to_size: {show(size)} does not broadcast to {show(shape)}.")
    repeated = [d for d, n in enumerate(shape) if d < lead or (n != 1 and size[d - lead] == 1)]
    total = self.sum(tuple(repeated), True) if repeated else self
    return total.reshape(size)


def meshgrid(tensors: Sequence[Tensor], indexing: str = "ij") -> list[Tensor]:
    """Expand vectors to the grid that they span; with "xy" the second varies along dimension 0."""
    if indexing not in ("ij", "xy"):
        raise ValueRangeError(f'meshgrid: indexing must be "ij" or "xy", got {indexing!r}.')
    if not tensors:
        raise ValueRangeError("meshgrid: needs at least one tensor.")
    for x in tensors:
        if x.ndim > 1:
            raise ShapeError(f"meshgrid: needs scalars and vectors, got {show(x.shape)}.")
        if x.dtype is not tensors[0].dtype:
            raise DtypeError(
                f"meshgrid: all tensors must have one dtype, got {tensors[0].dtype} and {x.dtype}."
            )
    swaps = indexing == "xy" and len(tensors) > 1
    ordered = [tensors[1], tensors[0], *tensors[2:]] if swaps else tensors
    shape = [x.numel() for x in ordered]
    grids = [
        x.reshape([-1 if i == d else 1 for i in range(len(shape))]).expand(shape)
        for d, x in enumerate(ordered)
    ]
    return [grids[1], grids[0], *grids[2:]] if swaps else grids


def repeat(self: Tensor, repeats: Shape) -> Tensor:
    """Insert a dimension before each, expand it, and merge the two."""
    padded, shape = layout.repeated("repeat", tuple(self.shape), repeats)
    single = [n for s in padded for n in (1, s)]
    both = [n for r, s in zip(repeats, padded, strict=True) for n in (r, s)]
    return self.reshape(single).expand(both).clone(memory_format=0).reshape(shape)


def repeat_interleave_int(
    self: Tensor, repeats: int, dim: int | None, output_size: int | None
) -> Tensor:
    """Insert a dimension after `dim`, expand it, and merge the two."""
    if repeats < 0:
        raise ValueRangeError(f"repeat_interleave: repeats must be at least 0, got {repeats}.")
    if dim is None:
        self, dim = self.reshape((-1,)), 0
    dim = wrap_dim("repeat_interleave", dim, self.ndim)
    if not self.ndim:
        raise DimensionError("repeat_interleave: a scalar has no dimension; leave dim out.")
    before, size, after = self.shape[:dim], self.shape[dim], self.shape[dim + 1 :]
    if output_size not in (None, size * repeats):
        raise ShapeError(
            f"repeat_interleave: output_size={output_size}, but the result has {size * repeats}."
        )
    spread = self.unsqueeze(dim + 1).expand((*before, size, repeats, *after))
    return spread.clone(memory_format=0).reshape((*before, size * repeats, *after))


def repeat_interleave(
    self: Tensor, repeats: Tensor, dim: int | None, output_size: int | None
) -> Tensor:
    """Select each index as often as `repeats` says."""
    if dim is None:
        self, dim = self.reshape((-1,)), 0
    dim = wrap_dim("repeat_interleave", dim, self.ndim)
    if not self.ndim:
        raise DimensionError("repeat_interleave: a scalar has no dimension; leave dim out.")
    size = self.shape[dim]
    if repeats.ndim == 0 or (repeats.ndim == 1 and repeats.shape[0] == 1):
        repeats = repeats.reshape((1,)).expand((size,))
    if tuple(repeats.shape) != (size,):
        raise ShapeError(
            f"repeat_interleave: repeats is {show(repeats.shape)}, but dimension {dim} has "
            f"size {size}."
        )
    index = ops.repeat_interleave.Tensor(repeats, output_size=output_size)
    return self.index_select(dim, index)


def fliplr(self: Tensor) -> Tensor:
    """Reverse the second dimension."""
    if self.ndim < 2:
        raise ShapeError(f"fliplr: needs at least 2 dimensions, got {self.ndim}.")
    return self.flip((1,))


def flipud(self: Tensor) -> Tensor:
    """Reverse the first dimension."""
    if self.ndim < 1:
        raise ShapeError("flipud: needs at least 1 dimension, got a scalar.")
    return self.flip((0,))


def roll(self: Tensor, shifts: Shape, dims: Shape) -> Tensor:
    """Cut each dimension in two and join the parts the other way round."""
    if not dims and len(shifts) == 1:
        return roll(self.reshape((-1,)), shifts, (0,)).reshape(self.shape)
    if len(shifts) != len(dims) or not shifts:
        raise ShapeError(f"roll: shifts={shifts} and dims={dims} must have the same length.")
    if not self.ndim:
        raise DimensionError(f"roll: dims={dims} for a scalar, which has no dimensions.")
    result = self
    for shift, dim in zip(shifts, dims, strict=True):
        size = self.shape[wrap_dim("roll", dim, self.ndim)]
        first = -shift % size if size else 0
        if first:
            parts = [result.narrow(dim, first, size - first), result.narrow(dim, 0, first)]
            result = ops.cat(parts, dim)
    return result.clone() if result is self else result


def rot90(self: Tensor, k: int, dims: Shape) -> Tensor:
    """Flips and a transposition."""
    if self.ndim < 2 or len(dims) != 2:
        raise ShapeError(
            "rot90: needs at least 2 dimensions and two dims, "
            f"got {show(self.shape)} and dims={dims}."
        )
    first, second = layout.distinct("rot90", dims, self.ndim)
    quarter = k % 4
    if quarter == 0:
        return self.clone()
    if quarter == 2:
        return self.flip((first, second))
    if quarter == 1:
        return self.flip((second,)).transpose(first, second)
    return self.flip((first,)).transpose(first, second)


def _offsets(self: Tensor) -> Tensor:
    """Return column minus row, for each entry of the last two dimensions."""
    rows, columns = self.shape[-2:]
    return ops.arange(columns) - ops.arange(rows).unsqueeze(1)


def tril(self: Tensor, diagonal: int) -> Tensor:
    """Zero where column - row > diagonal."""
    if self.ndim < 2:
        raise ShapeError(f"tril: needs at least 2 dimensions, got {self.ndim}.")
    return ops.where(_offsets(self) <= diagonal, self, ops.zeros((), dtype=self.dtype))


def triu(self: Tensor, diagonal: int) -> Tensor:
    """Zero where column - row < diagonal."""
    if self.ndim < 2:
        raise ShapeError(f"triu: needs at least 2 dimensions, got {self.ndim}.")
    return ops.where(_offsets(self) >= diagonal, self, ops.zeros((), dtype=self.dtype))


def diag_embed(self: Tensor, offset: int, dim1: int, dim2: int) -> Tensor:
    """Pad the last dimension by the offset, spread it over a square, zero off the diagonal."""
    _, first, second = layout.diag_embed_shape("diag_embed", tuple(self.shape), offset, dim1, dim2)
    if first > second:  # the diagonal above, seen with rows and columns exchanged, is one below
        offset, first, second = -offset, second, first
    fill = ops.zeros((*self.shape[:-1], abs(offset)), dtype=self.dtype)
    columns = ops.cat([fill, self] if offset > 0 else [self, fill], -1)  # by column
    square = columns.unsqueeze(-2).expand((*columns.shape, columns.shape[-1]))
    on = _offsets(square) == offset
    spread = ops.where(on, square, ops.zeros((), dtype=self.dtype))
    return spread.movedim((-2, -1), (first, second))


def fill_diagonal(self: Tensor, fill_value: float, wrap: bool) -> Tensor:
    """Write a number where all indices are equal; `wrap` goes on below, after a row left out."""
    shape = tuple(self.shape)
    if len(shape) < 2:
        raise ShapeError(f"fill_diagonal_: needs at least 2 dimensions, got {show(shape)}.")
    if len(shape) > 2 and len(set(shape)) > 1:
        raise ShapeError(
            f"fill_diagonal_: beyond 2 dimensions all sizes must be equal, got {show(shape)}."
        )
    places = [
        ops.arange(size).reshape([size if i == d else 1 for i in range(len(shape))])
        for d, size in enumerate(shape)
    ]
    first = places[0] % (shape[1] + 1) if wrap and len(shape) == 2 else places[0]
    on = first == places[1]
    for place in places[2:]:
        on = on & (first == place)
    return self.masked_fill(on, fill_value)


def diag(self: Tensor, diagonal: int) -> Tensor:
    """A copy of the diagonal of a matrix, or the matrix with a vector on its diagonal."""
    if self.ndim == 1:
        return self.diag_embed(diagonal)
    if self.ndim == 2:
        return self.diagonal(diagonal).clone()
    raise ShapeError(f"diag: needs a vector or a matrix, got {show(self.shape)}.")
