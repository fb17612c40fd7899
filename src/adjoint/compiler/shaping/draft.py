"""The draft of a kernel: a nest, its bands, and which axes run where."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from adjoint.compiler.affine import Affine, RowShape, row_major, variable
from adjoint.compiler.definitions import Prefix, Reduction
from adjoint.compiler.loop_programs import (
    LANE,
    Local,
    LoopProgram,
    Place,
    Statement,
    Total,
)
from adjoint.compiler.nests import Member, Nest
from adjoint.compiler.plan import FusedLoop, Plan
from adjoint.core.records import record, structure
from adjoint.core.shapes import Shape
from adjoint.graph.ir import Value

WHOLE = 8  # elements in a vector


class NotTurned(Exception):
    """The rows of a nest are not one axis, along which vectors could run."""


@structure
class Axis:
    """One or more dimensions of a loop that are run as one."""

    dims: tuple[int, ...]  # of the loop's space, neighbours; the last is its variable
    size: int
    reduced: bool
    cuts: tuple[int, ...] = ()  # where conditions change

    @property
    def variable(self) -> int:
        return self.dims[-1]


@structure
class Band:
    """A loop of a nest: its axes, and what one iteration does."""

    member: Member
    axes: list[Axis]
    kind: type | None  # Reduction, Prefix or Put; None: every element is made by itself
    body: list[Statement]  # of one iteration, ends included
    totals: list[Total]
    writes: dict[Value, Affine]
    space: Shape = ()  # of its loop

    @property
    def loop(self) -> FusedLoop:
        return self.member.loop

    @property
    def combines(self) -> bool:
        return self.kind in (Reduction, Prefix)


@record
class Turned:
    """Values of which a block of rows lies turned: an element of one row, that of the next row."""

    values: dict[Value, RowShape]
    width: int  # rows of a block

    def address(self, value: Value, address: Affine, space: Shape, depth: int) -> Affine:
        """Where an element is, from where row 0 would be; the first dimensions are the rows."""
        rows = address.without(range(depth, len(space)))
        bounds = [(0, size) for size in space]
        element = self.values[value].element(address.without(range(depth)), bounds)
        steps = [step * self.values[value].behind for step in row_major(space[:depth])]
        assert element is not None, "the row has no such element"
        assert rows.coefficients(depth) == steps, "another row"
        row = Affine(0, tuple(enumerate(row_major(space[:depth]))))
        return element * self.width + row


@structure
class Draft:
    """A kernel on its way: a nest, its bands, and which axes run where."""

    plan: Plan
    nest: Nest
    kernel: LoopProgram
    turned: Turned | None = None  # what it finds turned: then vectors run along rows
    most: Mapping[int, int] = field(default_factory=dict)  # what open sizes are at most
    assumes: bool = False  # whether it is only for sizes in the order that they have in the example
    bands: list[Band] = field(default_factory=list)
    outer: int = 0  # how many axes of each band the rows are, or, of a single one, …
    row: int = -1  # … which axis
    vector: int = -1  # the axis of vectors, where the nest has one band
    lanes: bool = False  # whether vectors run along rows
    block: int = 0  # rows of which values are kept; 0: none
    rooms: dict[Value, Local] = field(default_factory=dict)  # of values that stay in the nest
    shared: list[Local] = field(default_factory=list)  # of what several bands want

    def place(self, place: Place) -> Place:
        """Where an element is: in memory, or in that of its row or its block of rows."""
        room = self.rooms.get(place.value) if isinstance(place.value, Value) else None
        if room is None:
            return place
        inside = place.address.without(range(len(self.nest.outer)))
        address = inside * self.block + variable(LANE) if self.block else inside
        return Place(room, address)

    def outside(self) -> list[int]:
        """The axes of a band that are rows."""
        return [self.row] if self.row >= 0 else list(range(self.outer))
