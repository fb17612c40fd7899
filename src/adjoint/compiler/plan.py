"""Plans: the steps of a program, in order, and what is where. Made by `fuse`."""

from __future__ import annotations

from dataclasses import field
from typing import Any

from adjoint.compiler.affine import row_major
from adjoint.compiler.definitions import Reshape
from adjoint.compiler.routines import Routine
from adjoint.core.records import record, structure
from adjoint.core.shapes import Shape
from adjoint.graph.control.staging import UNKNOWN
from adjoint.graph.ir import Graph, Node, Value


@structure
class FusedLoop:
    """One loop nest."""

    space: Shape  # without sizes of 1
    reduced: Intervals = ()  # what its reductions, or prefixes, run over
    combining: list[Node] = field(default_factory=list)  # reductions; or prefixes; or one put
    stored: list[Value] = field(default_factory=list)  # values that others need
    inside: list[Value] = field(default_factory=list)  # values in registers, in order
    rigid: bool = False  # whether its dimensions must stay: a prefix runs along one of them


@structure
class RoutineCall:
    """A routine of a library."""

    node: Node
    routine: str  # "product"
    operands: list[Operand]
    ours: Routine | None = None  # that takes arrays row by row

    @property
    def names(self) -> tuple[str, ...]:
        """What it calls: "sproduct", for the dtype; nothing for copies, which need no library."""
        if self.ours is not None:
            return self.ours.symbols
        letter = "s" if self.node.outputs[0].dtype.name == "float32" else "d"
        return () if self.routine == "join" else (letter + self.routine,)


@record
class Operand:
    """A value where it lies in memory."""

    value: Value  # in memory
    offset: int
    shape: Shape
    strides: tuple[int, ...]


@structure
class Callback:
    """One call of an eager kernel."""

    node: Node
    values: list[Value]  # its tensors
    operands: list[Operand]  # where they are, row by row


@structure
class Nested:
    """A loop over time, or a branch: plans of its own in native code."""

    node: Node
    plans: dict[str, Plan]  # by the names of the node's graphs
    operands: list[Operand | Any]  # what the node's tensors are, in order; or a number
    filled: dict[int, Value]  # memory for the operands that are a number
    carried: list[tuple[Value, Value]]  # for each carried value two buffers, used in turn
    thins: bool = False  # whether it may keep some of its carries only: Note [Thinned tapes]
    remakes: list[Remake] = field(default_factory=list)  # loops whose other carries it computes

    def body_operands(self) -> list[Operand | Value]:
        """Of a while_loop: where the constants of its body are."""
        first, constants = len(self.node.args[0]), len(self.node.args[1])
        places = range(first, first + constants)
        return [self.filled.get(k) or self.operands[k] for k in places]


@structure
class Remake:
    """A while_loop whose carries a scan reads: those that were not kept are computed again."""

    loop: Nested
    name: str  # of its body among the plans of the scan
    carried: list[tuple[Value, Value]]  # as those of the loop


Step = FusedLoop | RoutineCall | Callback | Nested
Intervals = tuple[tuple[int, int], ...]  # strides [low, high) of the positions that are reduced


@structure
class Plan:
    """The steps to run, in order, and the places of values."""

    graph: Graph
    definitions: dict[Node, Any]  # of its nodes, None where only the eager kernel knows
    steps: list[Step] = field(default_factory=list)
    numbers: dict[Value, Any] = field(default_factory=dict)  # one number everywhere
    constants: dict[Value, Any] = field(default_factory=dict)  # tensors known beforehand
    tables: dict[Value, Node] = field(default_factory=dict)  # known when open sizes are
    memory: dict[Value, int] = field(default_factory=dict)  # the step that puts it there; -1: given
    home: dict[Value, int] = field(default_factory=dict)  # the loop that has it in a register
    outputs: list[Operand | Any] = field(default_factory=list)  # where each output is; or a number

    def routines(self) -> frozenset[str]:
        """The routines that its steps call, those inside regions too: {"sproduct"}."""
        found = {
            name for step in self.steps if isinstance(step, RoutineCall) for name in step.names
        }
        regions = (step for step in self.steps if isinstance(step, Nested))
        inner = (plan.routines() for step in regions for plan in step.plans.values())
        return frozenset(found.union(*inner))

    def given(self) -> tuple[dict[Value, Any], dict[Value, Node]]:
        """Its constants and its tables, those of regions too."""
        constants, tables = dict(self.constants), dict(self.tables)
        for step in self.steps:
            if isinstance(step, Nested):
                for plan in step.plans.values():
                    inner = plan.given()
                    constants, tables = constants | inner[0], tables | inner[1]
        return constants, tables

    def tapes(self) -> list[Value]:
        """The values of loops that keep every turn, however many there are; of regions too."""
        found: list[Value] = []
        for step in self.steps:
            if isinstance(step, Nested):
                found += [v for v in step.node.outputs if UNKNOWN in v.shape]
                found += [v for plan in step.plans.values() for v in plan.tapes()]
        return found

    def is_read(self, value: Value, position: int) -> bool:
        """Whether a step finds a value in memory."""
        return self.memory.get(value, position) < position

    def origin(self, value: Value) -> Value:
        """The value in memory whose elements, in the same order, are those of another."""
        while value not in self.memory:
            definition = self.definitions[value.node] if value.node else None
            assert isinstance(definition, Reshape), f"{value} is not in memory"
            value = definition.source
        return value


def intervals(shape: Shape, dims: tuple[int, ...]) -> Intervals:
    """The positions that some dimensions span, whatever shape they are cut into."""
    found: list[tuple[int, int]] = []
    for d, stride in enumerate(row_major(shape)):
        if d not in dims or shape[d] == 1:
            continue
        low, high = stride, stride * shape[d]
        if found and found[-1][0] == high:
            found[-1] = (low, found[-1][1])
        else:
            found.append((low, high))
    return tuple(found)


def reduced_dims(loop: FusedLoop) -> tuple[int, ...]:
    """The dimensions of a loop that are reduced.

    Strides and ends of intervals are products of one row of sizes, so that their order is that of
    any sizes, the example's say; where open ones are 1 some are equal, and no dimension is missed.
    """
    reduced = [(int(low), int(high)) for low, high in loop.reduced]
    strides = map(int, row_major(loop.space))
    return tuple(d for d, s in enumerate(strides) if any(low <= s < high for low, high in reduced))
