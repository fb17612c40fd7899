"""The rules of indexing that need no data, with the errors users see.

Shape rules and kernels share them: everything here looks only at `.shape`, `.ndim` and `.dtype`,
so arrays, Specs and tensors all do. A tensor without dimensions counts as a vector of one element
where an operator takes `dim`, as in PyTorch.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from adjoint.core.dtypes import to_dtype
from adjoint.core.errors import (
    DimensionError,
    DtypeError,
    IndexOutOfRange,
    ShapeError,
    ValueRangeError,
)
from adjoint.core.promotion import check_integer
from adjoint.core.records import record
from adjoint.core.shapes import Shape, broadcast, show, wrap_dim

REDUCTIONS = ("sum", "prod", "mean", "amax", "amin")


def kind(x: Any) -> str:
    """Return NumPy's letter for the dtype of an array, a Spec or a tensor: 'i', 'f', 'b', …"""
    return str(getattr(x.dtype, "np", x.dtype).kind)


def is_mask(index: Any) -> bool:
    """Say whether an index selects by truth: bool, or uint8 as PyTorch has always taken it."""
    letter = kind(index)
    return letter == "b" or letter == "u"


def sized(x: Any) -> Shape:
    """Return the shape, (1,) for a scalar."""
    return tuple(x.shape) or (1,)


def check_integers(what: str, index: Any) -> None:
    """Raise unless `index` has an integer dtype."""
    if kind(index) not in "iu":
        raise DtypeError(f"{what}: the index must have an integer dtype, got {index.dtype}.")


def check_mask(what: str, mask: Any) -> None:
    """Raise unless `mask` is boolean."""
    if kind(mask) != "b":
        raise DtypeError(
            f"{what}: the mask must be boolean, got {mask.dtype}; compare it (mask != 0) first."
        )


def check_same_dtype(what: str, self: Any, other: Any, name: str) -> None:
    """Raise unless both have one dtype; writing never converts silently."""
    if self.dtype != other.dtype:
        raise DtypeError(
            f"{what}: {name} must have the dtype of self, got {other.dtype} for {self.dtype}; "
            f"convert it with .to(self.dtype) first."
        )


def check_number(what: str, self: Any, value: Any) -> None:
    """Raise if a complex number would be written to a real tensor, or a whole number to one of
    integers that are too small.
    """
    letter = kind(self)
    if isinstance(value, complex) and letter != "c":
        raise ValueRangeError(f"{what}: the complex value {value} does not fit dtype {self.dtype}.")
    if letter in "iu" and isinstance(value, (int, float)):
        check_integer(value, to_dtype(self.dtype))


def check_scalar_tensor(what: str, value: Any) -> None:
    """Raise unless `value` has no dimensions."""
    if value.ndim:
        raise ShapeError(f"{what}: value must have no dimensions, got {show(value.shape)}.")


def check_reduce(what: str, reduce: str, allowed: Sequence[str] = REDUCTIONS) -> None:
    """Raise unless `reduce` is one of the names that `what` knows."""
    if reduce not in allowed:
        raise ValueRangeError(
            f"{what}: reduce must be one of {', '.join(allowed)}, got {reduce!r}."
        )


# ---- gather and scatter -----------------------------------------------------------------------


def check_gather(what: str, self: Any, dim: int, index: Any) -> int:
    """Return `dim` counted from the front; `index` must fit into `self` in the other dimensions."""
    dim = wrap_dim(what, dim, self.ndim)
    check_integers(what, index)
    if 0 not in index.shape:
        _check_fits(what, index, self, "self", dim)
    return dim


def check_scatter(what: str, self: Any, dim: int, index: Any, src: Any | None) -> int:
    """Return `dim` from the front; `index` must fit into `src`, and into `self` but for `dim`."""
    dim = check_gather(what, self, dim, index)
    if src is not None:
        check_same_dtype(what, self, src, "src")
        if 0 not in index.shape:
            _check_fits(what, index, src, "src", None)
    return dim


def _check_fits(what: str, index: Any, other: Any, name: str, dim: int | None) -> None:
    inner, outer = sized(index), sized(other)
    if len(inner) != len(outer):
        raise ShapeError(
            f"{what}: index and {name} must have the same number of dimensions, "
            f"got {show(index.shape)} and {show(other.shape)}."
        )
    for d, (have, limit) in enumerate(zip(inner, outer, strict=True)):
        if have > limit and d != dim:
            raise ShapeError(
                f"{what}: the index ({show(index.shape)}) is larger than {name} "
                f"({show(other.shape)}) in dimension {d}."
            )


# ---- one index vector along a dimension -------------------------------------------------------


def check_vector(what: str, self: Any, dim: int, index: Any) -> int:
    """Return `dim` counted from the front; `index` must be a vector or a scalar of integers."""
    dim = wrap_dim(what, dim, self.ndim)
    check_integers(what, index)
    if index.ndim > 1:
        raise DimensionError(f"{what}: the index must be a vector, got {show(index.shape)}.")
    return dim


def check_alpha(what: str, self: Any, alpha: Any) -> None:
    """Raise for a fractional `alpha` with integers: the product would be truncated silently."""
    kind = getattr(self.dtype, "np", self.dtype).kind  # of a tensor, or of an array
    if kind in "biu" and isinstance(alpha, (float, complex)):
        raise DtypeError(f"{what}: alpha is {alpha}, and the tensors hold whole numbers.")


def check_source(what: str, self: Any, dim: int, index: Any, source: Any) -> int:
    """Check the source that goes to the places `index` of `dim`; return `dim` from the front."""
    dim = check_vector(what, self, dim, index)
    check_same_dtype(what, self, source, "source")
    count = sized(index)[0]
    want = list(sized(self))
    want[dim] = count
    if sized(source) != tuple(want):
        raise ShapeError(
            f"{what}: source must be {show(want)} to fill {count} places along dimension {dim} "
            f"of self ({show(self.shape)}), got {show(source.shape)}."
        )
    return dim


# ---- views ------------------------------------------------------------------------------------


def check_has_dims(what: str, self: Any) -> None:
    """Raise for a tensor without dimensions."""
    if self.ndim == 0:
        raise DimensionError(
            f"{what}: a tensor without dimensions has no parts; x.item() gives its value."
        )


def wrap_index(what: str, index: int, size: int, dim: int) -> int:
    """Return `index` counted from the front of a dimension of `size`."""
    if not -size <= index < size:
        raise IndexOutOfRange(
            f"{what}: index {index} is out of range for dimension {dim} of size {size}."
        )
    return index + size if index < 0 else index


def slice_bounds(
    what: str, size: int, start: int | None, end: int | None, step: int
) -> tuple[int, int]:
    """Return start and end clamped to 0 … size, as Python's slices."""
    if step < 1:
        raise ValueRangeError(
            f"{what}: the step of a slice must be positive, got {step}; use flip to reverse."
        )
    first, last, _ = slice(start, end, step).indices(size)
    return first, max(first, last)


def sliced(first: int, last: int, step: int) -> int:
    """Return how many elements a slice with clamped bounds takes."""
    return -(-(last - first) // step)


def diagonal_dims(what: str, ndim: int, dim1: int, dim2: int) -> tuple[int, int]:
    """Return both dimensions counted from the front; they must differ."""
    first, second = wrap_dim(what, dim1, ndim), wrap_dim(what, dim2, ndim)
    if first == second:
        raise ShapeError(f"{what}: dim1 and dim2 must differ, got {dim1} and {dim2}.")
    return first, second


def diagonal_shape(what: str, shape: Shape, offset: int, dim1: int, dim2: int) -> Shape:
    """Return the shape of a diagonal: the two dimensions give way to one at the end."""
    first, second = diagonal_dims(what, len(shape), dim1, dim2)
    rows, columns = shape[first], shape[second]
    length = min(rows, columns - offset) if offset >= 0 else min(rows + offset, columns)
    rest = tuple(s for d, s in enumerate(shape) if d not in (first, second))
    return (*rest, max(length, 0))


def check_replacement(what: str, src: Any, shape: Shape) -> None:
    """Raise unless `src` has exactly the shape of the part that it replaces."""
    if tuple(src.shape) != tuple(shape):
        raise ShapeError(
            f"{what}: src must have the shape of the part it replaces, {show(shape)}, "
            f"got {show(src.shape)}."
        )


def check_strided(
    what: str, size: Sequence[int], stride: Sequence[int], offset: int, count: int | None
) -> None:
    """Raise unless the geometry stays inside a storage of `count` elements (None: not known)."""
    if len(size) != len(stride):
        raise ShapeError(f"{what}: got {len(size)} sizes and {len(stride)} strides.")
    if any(s < 0 for s in size) or any(s < 0 for s in stride) or offset < 0:
        raise ShapeError(
            f"{what}: sizes, strides and offset must not be negative, got size={tuple(size)}, "
            f"stride={tuple(stride)}, storage_offset={offset}."
        )
    last = offset + sum((n - 1) * s for n, s in zip(size, stride, strict=True))
    if 0 not in size and count is not None and last >= count:
        raise IndexOutOfRange(
            f"{what}: size={tuple(size)}, stride={tuple(stride)}, storage_offset={offset} reach "
            f"element {last}, and the storage has {count}."
        )


# ---- index tensors ----------------------------------------------------------------------------


@record
class IndexedDims:
    """Where the dimensions of `self[indices]` come from."""

    dims: tuple[int, ...]  # the dimensions that have an index: (0, 2)
    common: Shape  # the broadcast shape of the indices: (5,)
    place: int  # where `common` goes in the result: 0, or the first of `dims` if they are adjacent
    rest: Shape  # sizes of the dimensions without an index: (3,)

    @property
    def shape(self) -> Shape:
        """The shape of the result."""
        return (*self.rest[: self.place], *self.common, *self.rest[self.place :])


def layout(what: str, shape: Shape, indices: Sequence[Any]) -> IndexedDims:
    """Lay out advanced indexing with integer indices (masks already turned into integers).

    None is a whole slice. If the indices are next to one another their broadcast shape takes
    their place, otherwise it comes first, as in NumPy.
    """
    if len(indices) > len(shape):
        raise DimensionError(
            f"{what}: {len(indices)} indices for a tensor of {len(shape)} dimensions "
            f"({show(shape)})."
        )
    dims = tuple(d for d, index in enumerate(indices) if index is not None)
    common = broadcast(what, *(tuple(indices[d].shape) for d in dims))
    adjacent = bool(dims) and dims[-1] - dims[0] == len(dims) - 1
    rest = tuple(s for d, s in enumerate(shape) if d not in dims)
    return IndexedDims(dims, common, dims[0] if adjacent else 0, rest)


def check_index_dtypes(what: str, indices: Sequence[Any]) -> None:
    """Raise unless every index has an integer or a boolean dtype."""
    for index in indices:
        if index is not None and kind(index) not in "iub":
            raise DtypeError(
                f"{what}: tensors used as indices must have an integer or boolean dtype, "
                f"got {index.dtype}."
            )


def check_mask_shape(what: str, mask: Any, shape: Shape, dim: int) -> None:
    """Raise unless `mask` has the sizes of the dimensions that it selects from, the first `dim`.

    A mask without elements selects nothing, whatever the other sizes are, as in NumPy.
    """
    if mask.ndim == 0:
        raise DimensionError(
            f"{what}: a mask without dimensions selects nothing; write x[mask] or unsqueeze x."
        )
    if dim + mask.ndim > len(shape):
        raise DimensionError(
            f"{what}: too many indices for a tensor of {len(shape)} dimensions ({show(shape)})."
        )
    if any(n not in (size, 0) for n, size in zip(mask.shape, shape[dim:])):
        raise DimensionError(
            f"{what}: the mask ({show(mask.shape)}) does not have the shape of what it selects "
            f"from, dimensions {dim} to {dim + mask.ndim - 1} of {show(shape)}."
        )


def check_values(what: str, values: Any, shape: Shape) -> None:
    """Raise unless `values` expands to the indexed `shape`."""
    have = tuple(values.shape)
    tail = shape[len(shape) - len(have) :]
    fits = len(have) <= len(shape) and all(h in (1, w) for h, w in zip(have, tail, strict=True))
    if not fits:
        raise ShapeError(
            f"{what}: values ({show(have)}) do not expand to the indexed part ({show(shape)})."
        )
