"""Raggedness: the sizes of the components of a nested tensor, and their places in its values.

A nested tensor is one packed tensor of values and a `Ragged`. Usually the components follow one
another along one dimension of the values, in which their sizes differ, and have all other sizes in
common; components that differ in more dimensions are flattened into one vector. A `Ragged` holds
numbers and no tensors, so everything derived from it is known while a function is traced.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Sequence
from typing import Any, NoReturn

import numpy as np

from adjoint.core.errors import ShapeError
from adjoint.core.layouts import Layout, jagged
from adjoint.core.records import record
from adjoint.core.remembering import cached_property
from adjoint.core.shapes import Shape, show

Array = np.ndarray[Any, Any]
_numbers = itertools.count(1)


class RaggedSize:
    """The size of a dimension in which components differ: j1, as in the shape (2, j1, 3)."""

    __slots__ = ("lengths", "number")

    def __init__(self, lengths: Shape) -> None:
        self.lengths = lengths  # size of each component: (2, 3)
        self.number = next(_numbers)

    def __repr__(self) -> str:
        return f"j{self.number}"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, RaggedSize) and (self is other or self.lengths == other.lengths)

    def __hash__(self) -> int:
        return hash(self.lengths)

    def _refuse(self, *_: Any) -> NoReturn:
        lengths = ", ".join(map(str, self.lengths[:8])) + (", …" if len(self.lengths) > 8 else "")
        raise ShapeError(
            f"{self!r} is no number: it is the size of a dimension in which the components of a "
            f"nested tensor differ ({lengths}). Use unbind() for each component, or "
            "to_padded_tensor() for a dense tensor"
        )

    __index__ = __int__ = __float__ = __lt__ = __le__ = __gt__ = __ge__ = _refuse
    __add__ = __sub__ = __mul__ = __floordiv__ = __truediv__ = __mod__ = __neg__ = _refuse
    __radd__ = __rsub__ = __rmul__ = __rfloordiv__ = __rtruediv__ = __rmod__ = _refuse


@record
class Ragged:
    """The places of components in packed values."""

    layout: Layout  # of the nested tensor: strided or jagged
    dim: int | None  # of the values, along which components follow each other; None: flat
    starts: Shape  # where each component begins along that dimension: (0, 2)
    size: RaggedSize  # their sizes along that dimension: (2, 3); flat: their numbers of elements
    extent: int  # size of the values along that dimension: 5
    shapes: tuple[Shape, ...] = ()  # of flat components: ((2, 3), (1, 5))

    @property
    def lengths(self) -> Shape:
        return self.size.lengths

    @property
    def count(self) -> int:
        """The number of components."""
        return len(self.starts)

    @cached_property
    def is_packed(self) -> bool:
        """Whether the components fill the values, in order and without gaps."""
        ends = tuple(itertools.accumulate(self.lengths))
        return self.starts == (0, *ends)[:-1] and self.extent == (ends[-1] if ends else 0)

    def packed(self) -> Ragged:
        """The raggedness of the same components without gaps."""
        ends = (0, *itertools.accumulate(self.lengths))
        return dataclasses.replace(self, starts=ends[:-1], extent=ends[-1])

    def along(self, dim: int) -> Ragged:
        """The raggedness with components along another dimension of the values."""
        return self if dim == self.dim else dataclasses.replace(self, dim=dim)

    # as arrays: the vectors of integers that operators take

    @cached_property
    def start_array(self) -> Array:
        return vector(self.starts)

    @cached_property
    def length_array(self) -> Array:
        return vector(self.lengths)

    @cached_property
    def offset_array(self) -> Array:
        """The starts of the components, and the end of the last one: (0, 2, 5)."""
        return vector((*self.starts, self.starts[-1] + self.lengths[-1] if self.starts else 0))

    @cached_property
    def owner_array(self) -> Array:
        """The component to which each place of packed values belongs: (0, 0, 1, 1, 1)."""
        return np.repeat(np.arange(self.count), self.length_array)

    @cached_property
    def place_array(self) -> Array:
        """The places in the values of the components' elements, in order."""
        before = np.cumsum(self.length_array) - self.length_array
        return np.arange(sum(self.lengths)) + (self.start_array - before)[self.owner_array]

    def shape_of(self, values: Shape, number: int) -> Shape:
        """The shape of one component."""
        if self.dim is None:
            return self.shapes[number]
        return (*values[: self.dim], self.lengths[number], *values[self.dim + 1 :])

    def shape(self, values: Shape) -> tuple[Any, ...]:
        """The shape of the nested tensor: (2, j1, 3)."""
        if self.dim is not None:
            return (self.count, *values[: self.dim], self.size, *values[self.dim + 1 :])
        columns = [tuple(column) for column in zip(*self.shapes, strict=True)]
        return (self.count, *(c[0] if len(set(c)) == 1 else RaggedSize(c) for c in columns))

    def ndim(self, values: Shape) -> int:
        """The number of dimensions of the nested tensor."""
        if self.dim is not None:
            return len(values) + 1
        return 1 + (len(self.shapes[0]) if self.shapes else 0)

    def fits(self, values: Shape) -> bool:
        """Whether packed values of this shape hold the components."""
        if self.dim is None:
            return values == (self.extent,)
        return len(values) > self.dim and values[self.dim] == self.extent

    def same_components(self, other: Ragged) -> bool:
        """Whether components of two nested tensors correspond: the same sizes, in the same dim."""
        return self is other or (
            self.dim == other.dim and self.size == other.size and self.shapes == other.shapes
        )

    def same_places(self, other: Ragged) -> bool:
        """Whether their values correspond element by element."""
        return self is other or (
            self.same_components(other)
            and self.starts == other.starts
            and self.extent == other.extent
        )


def lined_up(layout: Layout, lengths: Sequence[int], dim: int = 0) -> Ragged:
    """Components of these lengths, one after another along a dimension of the values."""
    ends = (0, *itertools.accumulate(lengths))
    return Ragged(layout, dim, ends[:-1], RaggedSize(tuple(lengths)), ends[-1])


def flat(
    layout: Layout,
    shapes: Sequence[Shape],
    starts: Sequence[int] | None = None,
    extent: int | None = None,
) -> Ragged:
    """Flat components of these shapes in a vector, one after another unless `starts` are given."""
    lengths = tuple(math.prod(shape) for shape in shapes)
    ends = (0, *itertools.accumulate(lengths))
    begins = ends[:-1] if starts is None else tuple(starts)
    size = ends[-1] if extent is None else extent
    return Ragged(layout, None, begins, RaggedSize(lengths), size, tuple(map(tuple, shapes)))


def vector(numbers: Sequence[int]) -> Array:
    """Whole numbers as an array."""
    return np.array(numbers, np.int64)


def bounds(rows: Ragged, others: Ragged, *, lower: bool) -> tuple[Array, Array]:
    """For each row of packed components, where the rows of the same component of others begin and
    end; with `lower`, only those up to its own place in the component.
    """
    starts = others.start_array[rows.owner_array]
    ends = starts + others.length_array[rows.owner_array]
    if lower:
        places = np.arange(len(starts)) - rows.start_array[rows.owner_array]
        ends = np.minimum(ends, starts + places + 1)
    return starts, ends


def strided_places(
    shapes: Sequence[Shape], strides: Sequence[Shape], starts: Sequence[int]
) -> Array:
    """The places in a vector of the elements of components stored with strides."""
    found = [np.zeros(0, np.int64)]
    for shape, steps, start in zip(shapes, strides, starts, strict=True):
        places = np.full(shape, start, np.int64)
        for dim, step in enumerate(steps):
            along = np.arange(shape[dim]) * step
            places += along.reshape((-1, *(1,) * (len(shape) - dim - 1)))
        found.append(places.reshape(-1))
    return np.concatenate(found)


def of_shapes(what: str, layout: Layout, shapes: Sequence[Shape]) -> Ragged:
    """The raggedness of components of these shapes: along one dimension if they allow it."""
    if len({len(shape) for shape in shapes}) > 1:
        found = ", ".join(show(shape) for shape in shapes[:6])
        raise ShapeError(f"{what}: the components must have equally many dimensions, got {found}")
    if not shapes:
        return lined_up(layout, ())
    if not shapes[0]:  # numbers
        return flat(layout, shapes)
    unequal = [d for d in range(len(shapes[0])) if len({s[d] for s in shapes}) > 1]
    if not unequal or unequal == [0]:
        return lined_up(layout, [shape[0] for shape in shapes])
    if layout is jagged and len(unequal) > 1:
        found = ", ".join(show(shape) for shape in shapes[:6])
        raise ShapeError(
            f"{what}: components of a jagged tensor may differ in one dimension, and these differ "
            f"in {len(unequal)} ({found}); use layout=ad.strided"
        )
    if layout is jagged:
        return lined_up(layout, [shape[unequal[0]] for shape in shapes], unequal[0])
    return flat(layout, shapes)
