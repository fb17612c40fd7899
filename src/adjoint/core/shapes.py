"""Shapes without data: `Spec`, broadcasting, dimensions and sizes, with the errors users see."""

from __future__ import annotations

import math
from collections.abc import Container, Iterable, Sequence
from typing import Any

from adjoint.core.dtypes import DType
from adjoint.core.errors import DimensionError, ShapeError, ValueRangeError
from adjoint.core.records import record

Shape = tuple[int, ...]


class Size(tuple[int, ...]):
    """The shape of a tensor: a tuple that can count elements, also after slicing.

    >>> shape = Size((2, 3, 4))
    >>> shape.numel(), shape[1:].numel(), (shape + (5,)).numel()
    (24, 12, 120)
    """

    __slots__ = ()

    def numel(self) -> int:
        """Return the number of elements of a tensor of this shape."""
        return math.prod(self)

    def __getitem__(self, key: Any) -> Any:
        found = tuple.__getitem__(self, key)
        return Size(found) if type(key) is slice else found

    def __add__(self, other: Any) -> Size:
        return Size(tuple.__add__(self, other))

    def __radd__(self, other: Any) -> Size:
        return Size(tuple.__add__(other, self))

    def __mul__(self, count: Any) -> Size:
        return Size(tuple.__mul__(self, count))

    __rmul__ = __mul__


@record
class Spec:
    """Shape and dtype: stands for an array as argument and result of a shape rule."""

    shape: Shape  # (3, 4)
    dtype: DType  # ad.float32

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        return math.prod(self.shape)


def around(shape: Shape, dim: int, *more: int) -> tuple[int, int, int]:
    """The sizes before, along and after some adjacent dimensions."""
    if not shape:
        return 1, 1, 1
    dims = sorted(d % len(shape) for d in (dim, *more))
    along = math.prod(shape[d] for d in dims)
    return math.prod(shape[: dims[0]]), along, math.prod(shape[dims[-1] + 1 :])


def row_major(shape: Sequence[int]) -> Shape:
    """Return the strides, in elements, of an array whose rows lie one after another.

    >>> row_major((2, 3, 4)), row_major((3, 0))
    ((12, 4, 1), (1, 1))
    """
    strides, step = [], 1
    for size in reversed(shape):
        strides.append(step)
        step *= size or 1
    return tuple(reversed(strides))


def joined(
    shape: Sequence[int], steps: Iterable[Sequence[int]], starts: Container[int] = ()
) -> list[tuple[int, ...]]:
    """Return the groups of neighbouring dimensions that all operands, whose steps are given, walk
    as one. A dimension of `starts` does not join the one before it.

    >>> joined((2, 3, 4), [(12, 4, 1), (0, 4, 1)])
    [(0,), (1, 2)]
    """
    groups: list[tuple[int, ...]] = []
    every = [*steps]
    for d, size in enumerate(shape):
        if groups and d not in starts and all(s[d - 1] == s[d] * size for s in every):
            groups[-1] += (d,)
        else:
            groups.append((d,))
    return groups


def show(shape: Iterable[int]) -> str:
    """Write a shape as people say it: 3×4, or 'a scalar'.

    >>> show((3, 4)), show(())
    ('3×4', 'a scalar')
    """
    return "×".join(map(str, shape)) or "a scalar"


def broadcast(what: str, *shapes: Shape) -> Shape:
    """Return the common shape of `shapes` under broadcasting, or raise in the name of `what`."""
    ndim = max(map(len, shapes), default=0)
    result = [1] * ndim
    for shape in shapes:
        for position, size in enumerate(shape, ndim - len(shape)):
            if size != 1 and result[position] != size:
                if result[position] != 1:
                    raise ShapeError(
                        f"{what}: the shapes {' and '.join(map(show, shapes))} do not broadcast: "
                        f"sizes {result[position]} and {size} meet in dimension {position}, "
                        "and neither is 1."
                    )
                result[position] = size
    return tuple(result)


def wrap_dim(what: str, dim: int, ndim: int) -> int:
    """Return `dim` counted from the front; a scalar is treated as if it had one dimension."""
    limit = max(ndim, 1)
    if not -limit <= dim < limit:
        raise DimensionError(
            f"{what}: dimension {dim} is out of range; a tensor of {ndim} dimensions "
            f"takes {-limit} to {limit - 1}."
        )
    return dim + limit if dim < 0 else dim


def wrap_dims(what: str, dims: int | Sequence[int] | None, ndim: int) -> Shape:
    """Return `dims` counted from the front; None or empty means all. Repeats are an error."""
    if dims is None:
        return tuple(range(ndim))
    if isinstance(dims, int):
        dims = (dims,)
    if len(dims) == 0:
        return tuple(range(ndim))
    wrapped = tuple(wrap_dim(what, d, ndim) for d in dims)
    if len(set(wrapped)) != len(wrapped):
        raise ShapeError(f"{what}: dimension named twice in dim={tuple(dims)}.")
    return wrapped if ndim else ()


def reduced(shape: Shape, dims: Iterable[int], keepdim: bool) -> Shape:
    """Return the shape after reducing `shape` over `dims` (counted from the front)."""
    gone = set(dims)
    if keepdim:
        return tuple(1 if i in gone else s for i, s in enumerate(shape))
    return tuple(s for i, s in enumerate(shape) if i not in gone)


def infer_size(what: str, size: Sequence[int], count: int) -> Shape:
    """Fill in the one -1 of `size` so that it holds `count` elements, or raise."""
    if any(s < -1 for s in size):
        raise ShapeError(f"{what}: sizes must be -1 or at least 0, got {tuple(size)}.")
    unknown = [i for i, s in enumerate(size) if s == -1]
    known = math.prod(s for s in size if s != -1)
    if len(unknown) > 1:
        raise ShapeError(f"{what}: only one size can be -1, got {tuple(size)}.")
    if unknown:
        if known == 0 or count % known:
            raise ShapeError(f"{what}: {count} elements do not fit the shape {tuple(size)}.")
        return tuple(count // known if s == -1 else s for s in size)
    if known != count:
        raise ShapeError(
            f"{what}: the shape {show(size)} holds {known} elements, the tensor has {count}."
        )
    return tuple(size)


def combinations_of(count: int, r: int, with_replacement: bool) -> int:
    """The number of combinations of `r` elements; raise if no tensor could hold them.

    >>> combinations_of(4, 2, False), combinations_of(4, 2, True)
    (6, 10)
    """
    n = count + r - 1 if with_replacement and count else count
    found = 1 if r <= n else 0
    for k in range(1, min(r, n - r) + 1):
        found = found * (n - k + 1) // k
        if found > 2**62:
            raise ValueRangeError(f"combinations: {count} elements have too many of {r}.")
    return found


def merged(
    batch: Shape, operands: Sequence[tuple[Shape, Shape]], most: int
) -> tuple[Shape, list[Shape]] | None:
    """A batch with dimensions merged where all operands allow it, at most `most` of them, and each
    operand's steps along them; None if more remain.

    An operand is given by its leading shape, which broadcasts to the batch, and its steps.
    """
    dims = [d for d, size in enumerate(batch) if size != 1]
    sizes = [batch[d] for d in dims]
    spread = [_spread(shape, steps, len(batch)) for shape, steps in operands]
    spread = [tuple([steps[d] for d in dims]) for steps in spread]
    groups = joined(sizes, spread)
    if len(groups) > most:
        return None
    whole = tuple([math.prod([sizes[d] for d in group]) for group in groups])
    return whole, [tuple([steps[group[-1]] for group in groups]) for steps in spread]


def _spread(shape: Shape, steps: Shape, count: int) -> Shape:
    """The steps along all dimensions of a batch: 0 where the operand broadcasts."""
    own = tuple(0 if n == 1 else s for n, s in zip(shape, steps, strict=True))
    return (0,) * (count - len(own)) + own
