"""Sizes of the shaping operators: integers in, integers out.

Kernels, shape rules and decompositions of the `shape` family agree because they all ask here.
Every function takes `what`, the user's call, first, and raises in its name.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from adjoint.core.errors import DimensionError, ShapeError, ValueRangeError
from adjoint.core.layouts import ORDERS, PRESERVE, format_number
from adjoint.core.shapes import Shape, show, wrap_dim

LEGACY_EMPTY: Shape = (0,)  # `cat` accepts such a tensor beside tensors of any rank, and skips it


def memory_order(what: str, number: int, shape: Shape) -> Shape | None:
    """Return the order of dimensions that a memory format wants, None for the usual one."""
    order = ORDERS.get(number)
    if order is not None and len(order) != len(shape):
        raise ShapeError(
            f"{what}: this memory format needs {len(order)} dimensions, got {len(shape)} "
            f"({show(shape)})."
        )
    return order


def own_format(what: str, memory_format: Any) -> int:
    """Return the number of a memory format where there is no other tensor whose order is kept."""
    number = format_number(what, memory_format)
    if number == PRESERVE:
        raise ValueRangeError(
            f"{what}: ad.preserve_format keeps the order of another tensor, and there is none; use "
            "ad.contiguous_format, ad.channels_last or ad.channels_last_3d."
        )
    return number


def wrap_insert(what: str, dim: int, ndim: int) -> int:
    """Return where a new dimension goes: `dim` may point one past the end."""
    return wrap_dim(what, dim, ndim + 1)


def permutation(what: str, dims: Sequence[int], ndim: int) -> Shape:
    """Return `dims` counted from the front, checked to name each dimension once."""
    if len(dims) != ndim:
        raise ShapeError(
            f"{what}: {len(dims)} dimensions in dims={tuple(dims)}, but the tensor has {ndim}."
        )
    wrapped = tuple(wrap_dim(what, d, ndim) for d in dims)
    if len(set(wrapped)) != ndim:
        raise ShapeError(f"{what}: dimension named twice in dims={tuple(dims)}.")
    return wrapped


def distinct(what: str, dims: Sequence[int], ndim: int) -> Shape:
    """Return `dims` counted from the front, each named at most once; none means none."""
    wrapped = tuple(wrap_dim(what, d, ndim) for d in dims)
    if len(set(wrapped)) != len(wrapped):
        raise ShapeError(f"{what}: dimension named twice in dims={tuple(dims)}.")
    return wrapped


def moved(what: str, source: Sequence[int], destination: Sequence[int], ndim: int) -> Shape:
    """Return the permutation that puts each dimension of `source` at its `destination`."""
    if len(source) != len(destination):
        raise ShapeError(
            f"{what}: source={tuple(source)} and destination={tuple(destination)} "
            "must name equally many dimensions."
        )
    from_, to = distinct(what, source, ndim), distinct(what, destination, ndim)
    if ndim == 0:
        return ()
    target = dict(zip(to, from_, strict=True))
    rest = iter(d for d in range(ndim) if d not in from_)
    return tuple(target[d] if d in target else next(rest) for d in range(ndim))


def inverse(dims: Sequence[int]) -> Shape:
    """Return the permutation that undoes `dims`, whose entries may count from the back."""
    result = [0] * len(dims)
    for position, dim in enumerate(dims):
        result[dim] = position  # a negative dim indexes from the back, which is its meaning
    return tuple(result)


def squeezed(what: str, shape: Shape, dims: Sequence[int]) -> Shape:
    """Return `shape` without those of `dims` whose size is 1."""
    gone = distinct(what, dims, len(shape))
    return tuple(s for d, s in enumerate(shape) if s != 1 or d not in gone)


def expanded(what: str, shape: Shape, size: Sequence[int]) -> Shape:
    """Return `size` with each -1 replaced by the tensor's own size there."""
    lead = len(size) - len(shape)
    if lead == 0 and shape == size:
        return shape
    if lead < 0:
        raise ShapeError(
            f"{what}: the tensor {show(shape)} has more dimensions than the {len(size)} asked for, "
            f"{tuple(size)}."
        )
    result = tuple(size[:lead]) + tuple(
        old if new == -1 else new for old, new in zip(shape, size[lead:], strict=True)
    )
    for position, new in enumerate(result):
        if new < 0:
            raise ShapeError(
                f"{what}: size {new} in dimension {position} of {tuple(size)}; -1 keeps an "
                "existing size, and that dimension is new."
                if position < lead
                else f"{what}: sizes must be -1 or at least 0, got {tuple(size)}."
            )
        if position >= lead and shape[position - lead] not in (1, new):
            raise ShapeError(
                f"{what}: {show(shape)} does not expand to {tuple(size)}: dimension {position} has "
                f"size {shape[position - lead]}, and only size 1 can become {new}."
            )
    return result


def repeated(what: str, shape: Shape, repeats: Sequence[int]) -> tuple[Shape, Shape]:
    """Return the tensor's shape padded with ones to `len(repeats)`, and the shape of the result."""
    lead = len(repeats) - len(shape)
    if lead < 0:
        raise ShapeError(
            f"{what}: {len(repeats)} repeats for a tensor of {len(shape)} dimensions "
            f"({show(shape)}); give one for each dimension."
        )
    if any(r < 0 for r in repeats):
        raise ShapeError(f"{what}: repeats must be at least 0, got {tuple(repeats)}.")
    padded = (1,) * lead + tuple(shape)
    return padded, tuple(s * r for s, r in zip(padded, repeats, strict=True))


def split_sizes(what: str, size: int, split_size: int) -> Shape:
    """Return the sizes of the pieces of `split_size` that a dimension of `size` gives."""
    if split_size < 0 or (split_size == 0 and size):
        raise ShapeError(
            f"{what}: split_size must be positive, got {split_size} for a dimension of size {size}."
        )
    if size == 0:
        return (0,)
    count = -(-size // split_size)
    return (split_size,) * (count - 1) + (size - split_size * (count - 1),)


def checked_sizes(what: str, size: int, sizes: Sequence[int]) -> Shape:
    """Return `sizes`, checked to be non-negative and to add up to `size`."""
    if any(s < 0 for s in sizes) or sum(sizes) != size:
        raise ShapeError(
            f"{what}: the sizes {tuple(sizes)} must be at least 0 and add up to {size}, "
            f"the size of the dimension; their sum is {sum(sizes)}."
        )
    return tuple(sizes)


def chunk_sizes(what: str, size: int, chunks: int) -> Shape:
    """Return the sizes of at most `chunks` pieces, all equal but the last."""
    if chunks <= 0:
        raise ShapeError(f"{what}: chunks must be positive, got {chunks}.")
    _check_count(what, chunks)
    if size == 0:
        return (0,) * chunks
    return split_sizes(what, size, -(-size // chunks))


MOST_PIECES = 1 << 20  # tensors in a list: more take seconds to make


def _check_count(what: str, pieces: int) -> None:
    if pieces > MOST_PIECES:
        raise ShapeError(f"{what}: {pieces} pieces are more than {MOST_PIECES}.")


def section_sizes(what: str, size: int, sections: int) -> Shape:
    """Return the sizes of exactly `sections` pieces that differ by at most one."""
    if sections <= 0:
        raise ShapeError(f"{what}: sections must be positive, got {sections}.")
    _check_count(what, sections)
    each, larger = divmod(size, sections)
    return (each + 1,) * larger + (each,) * (sections - larger)


def cat_shape(what: str, shapes: Sequence[Shape], dim: int) -> tuple[Shape, int]:
    """Return the shape of the concatenation and `dim` counted from the front."""
    if not shapes:
        raise ShapeError(f"{what}: needs at least one tensor, got an empty list.")
    if () in shapes:
        raise ShapeError(
            f"{what}: tensor {shapes.index(())} is a scalar, which has no dimension to join along; "
            "use stack, or unsqueeze it first."
        )
    kept = [s for s in shapes if s != LEGACY_EMPTY]
    if not kept:
        return LEGACY_EMPTY, 0
    first = kept[0]
    dim = wrap_dim(what, dim, len(first))
    for shape in kept:
        if len(shape) != len(first) or any(
            a != b for d, (a, b) in enumerate(zip(shape, first, strict=True)) if d != dim
        ):
            raise ShapeError(
                f"{what}: sizes must agree outside dimension {dim}, got {show(first)} "
                f"and {show(shape)}."
            )
    return (*first[:dim], sum(s[dim] for s in kept), *first[dim + 1 :]), dim


def stack_shape(what: str, shapes: Sequence[Shape], dim: int) -> tuple[Shape, int]:
    """Return the shape of the stack and `dim` counted from the front."""
    if not shapes:
        raise ShapeError(f"{what}: needs at least one tensor, got an empty list.")
    first = shapes[0]
    for position, shape in enumerate(shapes):
        if shape != first:
            raise ShapeError(
                f"{what}: all tensors must have one shape, but tensor 0 is {show(first)} "
                f"and tensor {position} is {show(shape)}."
            )
    dim = wrap_insert(what, dim, len(first))
    return (*first[:dim], len(shapes), *first[dim:]), dim


def block_diag_shape(what: str, shapes: Sequence[Shape]) -> tuple[Shape, tuple[Shape, ...]]:
    """Return the shape of the result and the shapes of the blocks as matrices."""
    for position, shape in enumerate(shapes):
        if len(shape) > 2:
            raise ShapeError(
                f"{what}: tensor {position} has {len(shape)} dimensions ({show(shape)}); "
                "blocks have at most 2."
            )
    blocks = tuple((1,) * (2 - len(shape)) + tuple(shape) for shape in shapes)
    return (sum(b[0] for b in blocks), sum(b[1] for b in blocks)), blocks


def diag_embed_shape(
    what: str, shape: Shape, offset: int, dim1: int, dim2: int
) -> tuple[Shape, int, int]:
    """Return the shape of the result and its two dimensions that hold the diagonal."""
    if not shape:
        raise DimensionError(f"{what}: needs at least one dimension, got a scalar.")
    ndim = len(shape) + 1
    first, second = wrap_dim(what, dim1, ndim), wrap_dim(what, dim2, ndim)
    if first == second:
        raise ShapeError(f"{what}: dim1={dim1} and dim2={dim2} are the same dimension.")
    result = list(shape[:-1])
    for dim in sorted((first, second)):
        result.insert(dim, shape[-1] + abs(offset))
    return tuple(result), first, second


def unfold_shape(what: str, shape: Shape, dim: int, size: int, step: int) -> tuple[Shape, int]:
    """Return the shape of the windows and `dim` counted from the front."""
    ndim = len(shape)
    dim = wrap_dim(what, dim, ndim)
    length = shape[dim] if ndim else 1
    if size < 0 or size > length:
        raise ShapeError(
            f"{what}: size must be from 0 to {length}, the size of dimension {dim}, got {size}."
        )
    if step <= 0:
        raise ValueRangeError(f"{what}: step must be positive, got {step}.")
    if not ndim:
        return (size,), dim  # a scalar is one window
    return (*shape[:dim], (length - size) // step + 1, *shape[dim + 1 :], size), dim


def unflattened(what: str, size: int, sizes: Sequence[int]) -> Shape:
    """Return `sizes` with its -1 filled in, checked to hold `size` elements."""
    if not sizes:
        raise ShapeError(f"{what}: sizes must not be empty.")
    known = math.prod(s for s in sizes if s != -1)
    unknown = sum(s == -1 for s in sizes)
    fits = known and size % known == 0 if unknown else known == size
    if unknown > 1 or any(s < -1 for s in sizes) or not fits:
        raise ShapeError(
            f"{what}: the sizes {tuple(sizes)} do not multiply up to {size}, the size of the "
            "dimension; one of them may be -1."
        )
    return tuple(size // known if s == -1 else s for s in sizes)
