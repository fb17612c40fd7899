"""Plans: the steps of a program in order, and where its values are. Made by `fuse`."""

from __future__ import annotations

from dataclasses import field
from typing import Any

from adjoint.compiler.definitions import Reshape, Routine, symbols
from adjoint.compiler.routines import STRIDED
from adjoint.compiler.target import Target
from adjoint.core.c_types import C_TYPES
from adjoint.core.records import record, structure
from adjoint.core.remembering import cached_property
from adjoint.core.shapes import Shape, row_major
from adjoint.graph.control.staging import UNKNOWN
from adjoint.graph.ir import Graph, Node, Value


@structure
class FusedLoop:
    """Nodes that run in one loop nest over the same elements."""

    space: Shape  # without sizes of 1
    reduced: Intervals = ()  # the positions that its reductions or prefixes combine
    combining: list[Node] = field(default_factory=list)  # reductions, or prefixes, or one put
    stored: list[Value] = field(default_factory=list)  # values written to memory
    inside: list[Value] = field(default_factory=list)  # values in registers, in order
    rigid: bool = False  # whether its dimensions must not be split: a prefix runs along one of them


@structure
class RoutineCall:
    """A call of a C routine on whole arrays."""

    node: Node
    routine: str  # "product"
    operands: list[Strided]
    ours: Routine | None = None  # the routine of our own, for row-major arrays

    @property
    def names(self) -> tuple[str, ...]:
        """The functions that it calls: ("product:product:float",), none for a `join`."""
        if self.ours is not None:
            return self.ours.symbols
        if self.routine == "join":
            return ()
        file, helpers = STRIDED[self.routine]
        return symbols(file, self.routine, C_TYPES[self.node.outputs[0].dtype.name], helpers)


@record
class Strided:
    """A strided view of a value in memory."""

    value: Value  # its memory
    offset: int
    shape: Shape
    strides: tuple[int, ...]


@structure
class Callback:
    """One call of an eager kernel."""

    node: Node
    values: list[Value]  # its tensors
    operands: list[Strided]  # its tensors, row by row


@structure
class Nested:
    """A loop over time, or a branch, as native code with plans of its own."""

    node: Node
    plans: dict[str, Plan]  # for each graph of the node, by its name
    operands: list[Strided | Any]  # of the node's tensors, in order; or a number
    filled: dict[int, Value]  # memory for the operands that are numbers
    carried: list[tuple[Value, Value]]  # two buffers for each carried value, used in turn
    thins: bool = False  # whether it may keep only some of its carries: Note [Thinned tapes]
    remakes: list[Remake] = field(default_factory=list)  # loops whose dropped carries it recomputes

    def body_operands(self) -> list[Strided | Value]:
        """Where the constants of a while_loop's body are."""
        first, constants = len(self.node.args[0]), len(self.node.args[1])
        places = range(first, first + constants)
        return [self.filled.get(k) or self.operands[k] for k in places]


@structure
class Remake:
    """A while_loop whose carries a scan reads, recomputing those that the loop dropped."""

    loop: Nested
    name: str  # of the loop's body among the scan's plans
    carried: list[tuple[Value, Value]]  # buffers, as in the loop


@record
class Roots:
    """The values of a program that are in no arena."""

    constants: dict[Value, Any]
    tables: dict[Value, Node]  # computed once sizes are known
    made: list[Value]  # results
    values: list[Value]  # all with arrays: inputs, constants, tables, callbacks' results, results
    tapes: list[Value]  # on the tapes of loops


Step = FusedLoop | RoutineCall | Callback | Nested
Intervals = tuple[tuple[int, int], ...]  # strides [low, high) of the positions that are reduced


@structure
class Plan:
    """The steps of a program in order, and where its values are."""

    graph: Graph
    target: Target
    definitions: dict[Node, Any]  # None: only the eager kernel computes it
    symbols: int = 0  # symbolic sizes
    steps: list[Step] = field(default_factory=list)
    numbers: dict[Value, Any] = field(default_factory=dict)  # values with one number everywhere
    constants: dict[Value, Any] = field(default_factory=dict)  # tensors known at compile time
    tables: dict[Value, Node] = field(default_factory=dict)  # computed once sizes are known
    memory: dict[Value, int] = field(default_factory=dict)  # the step that stores it; -1: given
    home: dict[Value, int] = field(default_factory=dict)  # the loop that computes it in a register
    outputs: list[Strided | Any] = field(default_factory=list)  # or a number

    def routines(self) -> frozenset[str]:
        """The symbols of the routines that its steps call, including steps of regions."""
        found = {
            name for step in self.steps if isinstance(step, RoutineCall) for name in step.names
        }
        regions = (step for step in self.steps if isinstance(step, Nested))
        inner = (plan.routines() for step in regions for plan in step.plans.values())
        return frozenset(found.union(*inner))

    def given(self) -> tuple[dict[Value, Any], dict[Value, Node]]:
        """Its constants and tables, including those of regions."""
        constants, tables = dict(self.constants), dict(self.tables)
        for step in self.steps:
            if isinstance(step, Nested):
                for plan in step.plans.values():
                    inner = plan.given()
                    constants, tables = constants | inner[0], tables | inner[1]
        return constants, tables

    def tapes(self) -> list[Value]:
        """The stacked carries of loops without a known length, including those of regions."""
        found: list[Value] = []
        for step in self.steps:
            if isinstance(step, Nested):
                found += [v for v in step.node.outputs if UNKNOWN in v.shape]
                found += [v for plan in step.plans.values() for v in plan.tapes()]
        return found

    @cached_property
    def roots(self) -> Roots:
        """The values with arrays of their own, if this is the plan of a whole program."""
        constants, tables = self.given()
        given = [*self.graph.inputs, *constants, *tables]
        returned = [o.value for o in self.outputs if isinstance(o, Strided)]
        called = [v for s in self.steps if isinstance(s, Callback) for v in s.node.outputs]
        made = [v for v in dict.fromkeys(returned) if v not in set(given) | set(called)]
        values = [*dict.fromkeys([*given, *called, *made])]
        return Roots(constants, tables, made, values, [*dict.fromkeys(self.tapes())])

    def is_read(self, value: Value, position: int) -> bool:
        """Whether the step at a position can read a value from memory."""
        return self.memory.get(value, position) < position

    def origin(self, value: Value) -> Value:
        """The value in memory of which this one is a reshape."""
        while value not in self.memory:
            definition = self.definitions[value.node] if value.node else None
            assert isinstance(definition, Reshape), f"{value} is not in memory"
            value = definition.source
        return value


def verify(plan: Plan) -> Plan:
    """Return a plan if loops store what is theirs, and other steps read what steps before them
    store; raise otherwise. For tests.
    """
    for position, step in enumerate(plan.steps):
        if isinstance(step, FusedLoop):
            lost = [v for v in step.stored if plan.memory.get(v) != position]
        else:
            asked = [o.value for o in step.operands if isinstance(o, Strided)]
            lost = [v for v in asked if plan.memory.get(v, position) >= position]
        if lost:
            raise AssertionError(f"plan: step {position} has {lost}, which others store")
        for inner in step.plans.values() if isinstance(step, Nested) else ():
            verify(inner)
    return plan


def intervals(shape: Shape, dims: tuple[int, ...]) -> Intervals:
    """The positions that some dimensions span, as stride intervals that survive a reshape."""
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

    Strides and interval ends are products of consecutive sizes, so their order is the same for all
    sizes, and the example's can be compared. Where symbolic sizes are 1 some of them are equal, and
    still no dimension is missed.
    """
    reduced = [(int(low), int(high)) for low, high in loop.reduced]
    strides = map(int, row_major(loop.space))
    return tuple(d for d, s in enumerate(strides) if any(low <= s < high for low, high in reduced))
