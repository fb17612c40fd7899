"""Fusion: nodes that run over the same elements become one loop nest.

A `Loop` runs over a shape. Its nodes are pointwise expressions in registers and reductions that end
in accumulators;
several outputs and several reductions share it. Everything else is a `Callback` to an eager kernel.
Steps are in an
order in which each can run after those before it.

A node goes to the first loop of its shape that comes after everything it needs; a value that is
used in the loop that
makes it never reaches memory.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from adjoint.compiler import lower
from adjoint.compiler.lower import Access
from adjoint.core.shapes import Shape, wrap_dims
from adjoint.graph import interpret
from adjoint.graph.ir import Constant, Graph, Node, Region, Value
from adjoint.ops import operator as operators


@dataclass
class Loop:
    """One loop nest."""

    shape: Shape  # of the iteration
    reduced: tuple[int, ...] | None  # dimensions that its reductions run over; None: it has none
    nodes: list[Node] = field(default_factory=list)
    stored: list[Value] = field(default_factory=list)  # results that others need


@dataclass
class Callback:
    """One call of an eager kernel."""

    node: Node


@dataclass
class Write:
    """Inputs put into places of one output: cat, and writes to a part."""

    node: Node
    parts: list[tuple[Value, Access]]


@dataclass
class Scan:
    """A loop over time in native code, whose body is a plan of its own."""

    node: Node
    body: Plan
    depth: int  # how many loops over time it stands in
    carry: list[Value]  # inputs of the body that are carried, each in a buffer
    staged: dict[
        Value, Value
    ]  # a carried value that the body passes on as another: where it waits meanwhile


@dataclass
class Plan:
    """What to run, in order, and where each value is."""

    graph: Graph
    steps: list[Step]
    access: dict[Value, Access]  # of everything that is in memory
    constants: dict[Value, object]  # tensors known beforehand
    fills: dict[
        Value, Any
    ]  # values that are one number everywhere: written as a literal where they are read


Step = Loop | Callback | Scan | Write


class _Fuser:
    def __init__(
        self, graph: Graph, access: dict[Value, Access], fills: dict[Value, Any], depth: int
    ) -> None:
        self.graph = graph
        self.depth = depth
        self.steps: list[Step] = []
        self.open: dict[Shape, list[int]] = {}  # loops of a shape
        self.at: dict[Value, int] = {}  # the step after which a value is there
        self.inside: dict[Value, int] = {}  # the loop in whose registers it is
        self.access: dict[Value, Access] = {}
        self.constants: dict[Value, object] = {}
        self.fills = dict(fills)
        for value in graph.inputs:
            self.at[value] = -1
            self.access[value] = access.get(value) or lower.contiguous(value)

    def run(self) -> Plan:
        for node in self.graph.nodes:
            if isinstance(node.op, Constant):
                self._constant(node)
            elif self._fill(node):
                continue
            elif lower.is_pointwise(node):
                self._pointwise(node)
            elif lower.is_reduction(node):
                self._reduction(node)
            elif not (
                self._known(node) or self._view(node) or self._write(node) or self._scan(node)
            ):
                self._callback(node)
        self._store_what_is_needed()
        return Plan(self.graph, self.steps, self.access, self.constants, self.fills)

    def _constant(self, node: Node) -> None:
        self.constants[node.output] = node.op.tensor
        self.at[node.output] = -1
        self.access[node.output] = lower.contiguous(node.output)

    def _fill(self, node: Node) -> bool:
        """Whether a node is one number everywhere: made so, or a view of such a one."""
        number = lower.fill_value(node)
        if number is None and lower.may_be_view(node):
            number = self.fills.get(next(node.inputs()))
        if number is None:
            return False
        for value in node.outputs:
            self.fills[value] = number
            self.at[value] = -1
            self.access[value] = lower.contiguous(value)
        return True

    def _view(self, node: Node) -> bool:
        source = next(node.inputs(), None)
        if source is None:
            return False
        if source in self.fills:
            return False
        found = lower.view_accesses(node, self.access[source])
        if found is None:
            return False
        for value, access in zip(node.outputs, found, strict=True):
            self.access[value] = access
            self.at[value] = self.at[source]
        return True

    def _known(self, node: Node) -> bool:
        """Whether a node can run now, since it depends on nothing: arange, eye."""
        if (
            isinstance(node.op, Region)
            or any(True for _ in node.inputs())
            or node.op.row.family == "random"
        ):
            return False
        for value, result in zip(node.outputs, interpret.evaluate(node, {}), strict=True):
            self.constants[value] = result
            self.at[value] = -1
            self.access[value] = lower.contiguous(value)
        return True

    def _write(self, node: Node) -> bool:
        parts = lower.writes(node)
        if parts is None:
            return False
        self.steps.append(Write(node, parts))
        self.at[node.output] = len(self.steps) - 1
        self.access[node.output] = lower.contiguous(node.output)
        return True

    def _earliest(self, node: Node, shape: Shape) -> int:
        """The first step in which a node over `shape` can run."""
        earliest = 0
        for value in node.inputs():
            inside = self.inside.get(value)
            if inside is not None and value.shape == shape:
                earliest = max(earliest, inside)
            else:
                earliest = max(earliest, self.at[value] + 1)
        return earliest

    def _loop(self, shape: Shape, earliest: int, reduced: tuple[int, ...] | None) -> int:
        """The first loop of this shape that is not too early and agrees on what is reduced; or a
        new one.
        """
        for position in self.open.get(shape, []):
            loop = self.steps[position]
            assert isinstance(loop, Loop)
            if position >= earliest and (reduced is None or loop.reduced in (None, reduced)):
                loop.reduced = loop.reduced if reduced is None else reduced
                return position
        self.steps.append(Loop(shape, reduced))
        self.open.setdefault(shape, []).append(len(self.steps) - 1)
        return len(self.steps) - 1

    def _pointwise(self, node: Node) -> None:
        shape = node.output.shape
        position = self._loop(shape, self._earliest(node, shape), None)
        self._put(node, position)
        self.inside[node.output] = position

    def _reduction(self, node: Node) -> None:
        source = next(node.inputs())
        named = dict(zip(node.op.schema.names, node.args, strict=True))
        reduced = wrap_dims(node.name, named.get("dim"), len(source.shape))
        position = self._loop(source.shape, self._earliest(node, source.shape), reduced)
        self._put(node, position)

    def _put(self, node: Node, position: int) -> None:
        loop = self.steps[position]
        assert isinstance(loop, Loop)
        loop.nodes.append(node)
        self.at[node.output] = position
        self.access[node.output] = lower.contiguous(node.output)

    def _scan(self, node: Node) -> bool:
        """A scan whose body needs no callback becomes a native loop."""
        made = native_scan(node, self.access, self.fills, self.depth)
        if made is None:
            return False
        self.steps.append(made)
        for value in node.outputs:
            self.at[value] = len(self.steps) - 1
            self.access[value] = lower.contiguous(value)
        return True

    def _callback(self, node: Node) -> None:
        self.steps.append(Callback(node))
        for value in node.outputs:
            self.at[value] = len(self.steps) - 1
            self.access[value] = lower.contiguous(value)

    def _store_what_is_needed(self) -> None:
        """A value goes to memory if a step other than its own reads it, or it is an output, or it
        is reduced.
        """
        outputs = {
            self.access[o].root
            for o in self.graph.outputs
            if isinstance(o, Value) and o not in self.fills
        }
        outputs |= {
            o
            for o in self.graph.outputs
            if isinstance(o, Value) and o in self.fills and self.depth == 0
        }
        where = {
            n: p
            for p, s in enumerate(self.steps)
            for n in (s.nodes if isinstance(s, Loop) else [s.node])
        }
        read_elsewhere: set[Value] = set()
        for node in self.graph.nodes:
            for value in node.inputs():
                root = self.access[value].root
                if node not in where:
                    continue  # a view or a constant: its own readers count
                if (
                    root is not value
                    or self.inside.get(value) != where[node]
                    or value.shape != self._space(node)
                ):
                    read_elsewhere.add(root)
        called = {v for s in self.steps if isinstance(s, Callback) for v in s.node.inputs()}
        called |= {v for s in self.steps if isinstance(s, Scan) for v in s.node.inputs()}
        for value, number in self.fills.items():
            if value in outputs or value in called:
                self.constants[value] = operators.packet("full")(
                    value.shape, number, dtype=value.dtype
                )
        for step in self.steps:
            if isinstance(step, Loop):
                step.stored = [
                    n.output
                    for n in step.nodes
                    if lower.is_reduction(n) or n.output in outputs or n.output in read_elsewhere
                ]

    def _space(self, node: Node) -> Shape:
        return next(node.inputs()).shape if lower.is_reduction(node) else node.output.shape


def native_scan(
    node: Node, access: dict[Value, Access], fills: dict[Value, Any], depth: int
) -> Scan | None:
    """The plan of a scan as a native loop; None where its body has operators without native
    code.
    """
    if not isinstance(node.op, Region) or node.op.name != "scan":
        return None
    constants, start, xs, length, _ = node.args
    if not isinstance(length, int) or not all(
        map(lower.is_native_type, (*node.inputs(), *node.outputs))
    ):
        return None
    body = lower.expand_decompositions(node.graphs["body"])
    given = dict(zip(body.inputs, (*constants, *start, *xs), strict=True))
    inside: dict[Value, Access] = {}
    for value in body.inputs[: len(constants)]:
        inside[value] = access[given[value]]
    for value in body.inputs[len(constants) + len(start) :]:
        outer = access[given[value]]
        inside[value] = Access(
            outer.root, outer.offset, outer.strides[1:], (*outer.steps, (depth, outer.strides[0]))
        )
    carry = body.inputs[len(constants) : len(constants) + len(start)]
    plan = _Fuser(body, inside, {}, depth + 1).run()
    if any(isinstance(s, Callback) for s in plan.steps):
        return None
    staged = {}
    for value, output in zip(carry, body.outputs, strict=False):
        if (
            isinstance(output, Value)
            and plan.access[output].root in carry
            and plan.access[output].root is not value
        ):
            staged[value] = Value(f"{value.name}_next", value.type)
    return Scan(node, plan, depth, carry, staged)


def fuse(graph: Graph) -> Plan:
    """Group the nodes of a lowered graph into steps."""
    return _Fuser(graph, {}, {}, 0).run()


def buffers(plan: Plan) -> list[Value]:
    """Every value that the native code of a plan stores, those of its inner loops included."""
    found: list[Value] = []
    for step in plan.steps:
        if isinstance(step, Loop):
            found += step.stored
        elif isinstance(step, Write):
            found.append(step.node.output)
        elif isinstance(step, Scan):
            found += [*step.node.outputs, *step.carry, *step.staged.values(), *buffers(step.body)]
    return found


def all_constants(plan: Plan) -> dict[Value, Any]:
    """The constants of a plan and of its inner loops."""
    found = dict(plan.constants)
    for step in plan.steps:
        if isinstance(step, Scan):
            found |= all_constants(step.body)
    return found
