"""The draft of a loop program: a nest, its bands, and the roles of their axes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from adjoint.compiler.definitions import Prefix, Reduction
from adjoint.compiler.nests import Member, Nest
from adjoint.compiler.plan import FusedLoop, Plan
from adjoint.compiler.target import Target
from adjoint.core.records import record, structure
from adjoint.core.remembering import cached_property
from adjoint.core.shapes import Shape, row_major
from adjoint.graph.ir import Value
from adjoint.loops.affine import Affine, RowShape, variable
from adjoint.loops.loop_programs import (
    LANE,
    Local,
    LoopProgram,
    Place,
    Statement,
    Total,
)


class NotTransposable(Exception):
    """The rows of a nest are not a single axis, so that vectors cannot run along them."""


@structure
class Axis:
    """One or more dimensions of a loop, run as one."""

    dims: tuple[int, ...]  # adjacent dimensions of the space; the last is the loop's variable
    size: int
    reduced: bool
    cuts: tuple[int, ...] = ()  # indices at which conditions change

    @property
    def variable(self) -> int:
        return self.dims[-1]


@structure
class Band:
    """A loop of a nest: its axes, and the statements of one iteration."""

    member: Member
    axes: list[Axis]
    kind: type | None  # Reduction, Prefix or Put; None: elementwise
    body: list[Statement]  # one iteration, with stores and takes
    totals: list[Total]
    writes: dict[Value, Affine]
    space: Shape = ()  # of the loop

    @property
    def loop(self) -> FusedLoop:
        return self.member.loop

    @property
    def combines(self) -> bool:
        return self.kind in (Reduction, Prefix)


@record
class TransposedBlocks:
    """Values stored transposed in a block: element k of all rows, then element k+1."""

    values: dict[Value, RowShape]
    width: int  # rows of a block

    def address(self, value: Value, address: Affine, space: Shape, depth: int) -> Affine:
        """The address in the block, from row 0; the first `depth` dimensions are the rows."""
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
    """A loop program in the making."""

    plan: Plan
    nest: Nest
    program: LoopProgram
    transposed: TransposedBlocks | None = None  # values in transposed blocks
    most: Mapping[int, int] = field(default_factory=dict)  # symbol -> the most its size may be
    assumes: bool = False  # whether it holds only for sizes in the example's order
    bands: list[Band] = field(default_factory=list)
    outer: int = 0  # number of leading axes that are the rows; or, with one band, …
    row: int = -1  # … the axis that is the rows
    vector: int = -1  # the axis of vectors, with one band
    lanes: bool = False  # whether vectors run along rows
    block: int = 0  # rows of a block; 0: no blocks
    rooms: dict[Value, Local] = field(default_factory=dict)  # of values that only the nest reads
    shared: list[Local] = field(default_factory=list)  # of values that several bands need

    @cached_property
    def target(self) -> Target:
        return self.plan.target

    def place(self, place: Place) -> Place:
        """The place of an element: in memory, or in the array of its row or block of rows."""
        room = self.rooms.get(place.value) if isinstance(place.value, Value) else None
        if room is None:
            return place
        inside = place.address.without(range(len(self.nest.outer)))
        address = inside * self.block + variable(LANE) if self.block else inside
        return Place(room, address)

    def outside(self) -> list[int]:
        """The axes of a band that are the rows."""
        return [self.row] if self.row >= 0 else list(range(self.outer))
