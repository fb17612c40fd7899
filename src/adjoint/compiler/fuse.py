"""Fusion: which nodes run together, which values are kept in memory, and the order of the steps.

A `FusedLoop` runs over a space. It computes values in registers, and writes to memory the values
that other steps read; its reductions, of which it may have several, end in accumulators. A node
goes to the first loop over its space after all steps that it needs. A value that only its own loop
reads never reaches memory, and a cheap value is recomputed where it is read instead of kept.

Routines, loops over time, branches and eager kernels are steps of their own.
"""

from __future__ import annotations

import heapq
import itertools
import math
from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Container, Iterable, Iterator, Sequence
from typing import Any

from adjoint.compiler import routine_calls
from adjoint.compiler.definitions import (
    Arange,
    Combination,
    Definition,
    Definitions,
    Fill,
    Gather,
    Look,
    Pieces,
    Pointwise,
    Prefix,
    Put,
    Reshape,
    RoutineDefinition,
    ViewDefinition,
)
from adjoint.compiler.plan import (
    Callback,
    FusedLoop,
    Intervals,
    Nested,
    Plan,
    Remake,
    RoutineCall,
    Step,
    Strided,
    intervals,
)
from adjoint.compiler.routine_calls import OperandTest
from adjoint.core.shapes import Shape, row_major
from adjoint.core.symbolic_sizes import is_open
from adjoint.expressions.trees import FUNCTION
from adjoint.graph import interpret
from adjoint.graph.control.staging import UNKNOWN
from adjoint.graph.facts import is_random
from adjoint.graph.ir import Constant, Graph, Node, Region, Type, Value
from adjoint.loops.affine import Affine, Index, flat, identity, refinement
from adjoint.ops import operator as operators

Combines = tuple[type, Intervals] | None  # the kind of combination, and the reduced intervals


class _Planner:
    def __init__(self, graph: Graph, found: Definitions, definitions: dict[Node, Any]) -> None:
        self.plan = Plan(graph, found.target, definitions)
        self.found, self.limits, self.cheap = found, found.target.limits, found.target.costs.cheap
        self.steps = self.plan.steps
        self.ready: dict[Value, int] = {}  # the first step that can read a value
        self.cost: dict[Value, int] = {}
        self.depth: dict[Value, int] = {}
        # size of the space -> what loops over such a space combine -> their positions, sorted
        self.spaces: dict[int, dict[Combines, list[int]]] = {}
        self.filed: dict[int, Combines] = {}  # the key of a loop in that index
        self.sizes: Counter[int] = Counter()  # how much each loop computes, by position
        self.reads: dict[int, set[Value]] = {}  # the values in memory that each loop reads
        self.touched: dict[Value, set[Value]] = {}  # register value -> values in memory behind it
        self.kept: set[Value] = set()  # values in registers that must be stored, too
        self.outputs = {o for o in graph.outputs if isinstance(o, Value)}
        for value in graph.inputs:
            self._given(value)

    def run(self) -> Plan:
        for node in self.plan.graph.nodes:
            self._node(node)
        self.plan.outputs = [
            self._output(o) if isinstance(o, Value) else o for o in self.plan.graph.outputs
        ]
        self._keep_what_is_needed()
        self._thin_tapes()
        return self.plan

    # -- one node ---------------------------------------------------------------------------------

    def _given(self, value: Value) -> None:
        self.plan.memory[value] = -1
        self.ready[value] = 0
        self.cost[value] = 1

    def _node(self, node: Node) -> None:
        if isinstance(node.op, Constant) and node not in self.plan.definitions:
            self._constant(node.output, node.op.tensor)
            return
        definition = self._definition(node)
        if definition is None:
            if not self._known(node) and not self._nested(node):
                self._callback(node)
            return
        if isinstance(definition, Fill):
            self._number(node, definition.number)
        elif isinstance(definition, Arange):
            self._virtual(node.output, 1, 0)
        elif isinstance(definition, Look):
            self._look(node.output, definition)
        elif isinstance(definition, (Pointwise, Pieces, Gather)):
            self._homed(node, definition)
        elif isinstance(definition, Combination):
            self._combine(node, definition)
        elif isinstance(definition, Put):
            self._put(node, definition)
        elif isinstance(definition, RoutineDefinition):
            self._routine(node, definition)

    def _definition(self, node: Node) -> Definition | None:
        if node not in self.plan.definitions:
            self.plan.definitions[node] = self.found.of(node)
        return self.plan.definitions[node]

    def _constant(self, value: Value, tensor: Any) -> None:
        self.plan.constants[value] = tensor
        self._given(value)

    def _number(self, node: Node, number: Any) -> None:
        for value in node.outputs:
            self.plan.numbers[value] = number
            self._virtual(value, 0, 0)

    def _virtual(self, value: Value, cost: int, ready: int, depth: int = 0) -> None:
        self.cost[value], self.ready[value], self.depth[value] = cost, ready, depth

    def _known(self, node: Node) -> bool:
        """Run a node that has no inputs (eye, a table of constants) now, or once symbolic sizes are
        known; return False for any other node.
        """
        if isinstance(node.op, Region) or any(True for _ in node.inputs()) or is_random(node):
            return False
        if is_open(node.args) or any(is_open(v.shape) for v in node.outputs):
            for value in node.outputs:
                self.plan.tables[value] = node
                self._given(value)
            return True
        for value, result in zip(node.outputs, interpret.evaluate(node, {}), strict=True):
            self._constant(value, result)
        return True

    def _look(self, value: Value, definition: Look) -> None:
        source = definition.source
        if source in self.plan.numbers:
            assert value.node is not None
            self._number(value.node, self.plan.numbers[source])
            return
        depth = self.depth.get(source, 0) + 1
        cost = self.cost[source] if self._is_inline(source) else 1
        if definition.joins:
            self._home(value, refinement(source.shape, value.shape) or source.shape, [source])
            after = 0 if source in self.plan.memory else self.plan.home[value] + 1
            self._virtual(value, cost, max(after, self.ready[source]), depth)
        else:
            self._virtual(value, cost, self.ready[source], depth)

    def _homed(self, node: Node, definition: Definition) -> None:
        """Put a value that is computed in a register into a loop."""
        value = node.output
        inputs = [v for v in dict.fromkeys(node.inputs()) if v not in self.plan.numbers]
        if isinstance(definition, Pieces) and not inputs:
            numbers = {self.plan.numbers[v] for v in node.inputs()}
            if len(numbers) == 1:
                self._number(node, numbers.pop())
                return
        earliest = 0
        if isinstance(definition, Gather):
            source = definition.source
            self._keep(source)  # or the value that it is a reshape of
            earliest = max(self.ready[source], self.ready[self._plain(source)])
            inputs = [v for v in inputs if v is not source]
        self._home(value, value.shape, inputs, earliest)
        costs = [self.cost[v] if self._is_inline(v) else 1 for v in inputs]
        depth = 1 + max((self.depth.get(v, 0) for v in inputs), default=0)
        own = definition.cost(len(inputs))
        if own >= FUNCTION:
            self.sizes[self.plan.home[value]] += self.limits.function - 1
        self.cost[value], self.depth[value] = own + sum(costs), depth
        ready = max((self.ready[v] for v in inputs), default=earliest)
        ready = max(ready, earliest)
        self.ready[value] = ready if self._is_inline(value) else self.plan.home[value] + 1

    def _combine(self, node: Node, definition: Combination) -> None:
        source = definition.source
        if source in self.plan.numbers:
            self._keep_number(source)
        reduced = intervals(source.shape, definition.dims)
        kind = type(definition)
        position = self._loop(source.shape, [source], reduced, kind)
        self.steps[position].combining.append(node)  # type: ignore[union-attr]
        self._made(node, position)

    def _put(self, node: Node, definition: Put) -> None:
        """Give a put a loop of its own, since its writes have an order."""
        if definition.base not in self.plan.numbers:
            self._keep(definition.base)
        position = len(self.steps)
        space = tuple(s for s in definition.space if s != 1)
        self.steps.append(FusedLoop(space, combining=[node]))
        self._made(node, position)

    def _made(self, node: Node, position: int) -> None:
        for value in node.outputs:
            self.plan.memory[value] = position
            self.ready[value] = position + 1
            self.cost[value] = 1

    def _routine(self, node: Node, definition: RoutineDefinition) -> None:
        inputs = list(node.inputs())
        layouts = routine_calls.layouts(definition.routine, len(inputs), definition.ours)
        operands = [self._operand(v, layout) for v, layout in zip(inputs, layouts)]
        self.steps.append(RoutineCall(node, definition.routine, operands, definition.ours))
        self._made(node, len(self.steps) - 1)

    def _callback(self, node: Node) -> None:
        values = list(dict.fromkeys(node.inputs()))
        for value in values:
            if value in self.plan.numbers:
                self._keep_number(value)
        self.steps.append(Callback(node, values, [self._operand(v) for v in values]))
        self._made(node, len(self.steps) - 1)

    def _nested(self, node: Node) -> bool:
        """Plan a region without eager kernels as native code; return False for any other."""
        if not isinstance(node.op, Region) or node.op.name not in ("scan", "while_loop", "cond"):
            return False
        if not all(map(self.plan.target.has, (*node.inputs(), *node.outputs))) or not node.outputs:
            return False
        plans = {}
        for name, graph in node.graphs.items():
            plans[name] = _Planner(graph, self.found, self.plan.definitions).run()
            if any(isinstance(s, Callback) for s in plans[name].steps):
                return False
        operands = [
            self.plan.numbers[v] if v in self.plan.numbers else self._operand(v)
            for v in node.inputs()
        ]
        inputs = list(node.inputs())
        filled = {
            k: Value("filled", inputs[k].type)
            for k, operand in enumerate(operands)
            if not isinstance(operand, Strided)
        }
        count = {"scan": 1, "while_loop": 2}.get(node.op.name)
        turning = node.outputs[: len(node.args[count])] if count else []
        self.steps.append(Nested(node, plans, operands, filled, _buffers(turning)))
        self._made(node, len(self.steps) - 1)
        return True

    def _thin_tapes(self) -> None:
        """Let a loop keep only some of its carries, if all readers are native scans over them."""
        regions = {s.node: s for s in self.steps if isinstance(s, Nested)}
        for node, loop in regions.items():
            turns = [v for v in node.outputs if UNKNOWN in v.shape]
            if node.op.name != "while_loop" or not turns or self.outputs & set(turns):
                continue
            readers = dict.fromkeys(user for v in turns for user in v.uses)
            if not all(n in regions and _reads_rows(n, turns) for n in readers):
                continue
            loop.thins = True
            for reader in readers:
                scan = regions[reader]
                name = f"again{len(scan.remakes)}"
                scan.plans[name] = loop.plans["body"]
                scan.remakes.append(Remake(loop, name, _buffers(v for v, _ in loop.carried)))

    # -- loops ------------------------------------------------------------------------------------

    def _home(self, value: Value, space: Shape, inputs: list[Value], earliest: int = 0) -> None:
        self.plan.home[value] = self._loop(space, inputs, (), Pointwise, earliest)
        read = self._read(inputs)
        self.touched[value] = read if len(read) <= self.limits.reads else {value}

    def _loop(
        self, space: Shape, inputs: list[Value], reduced: Intervals, kind: type, earliest: int = 0
    ) -> int:
        """The position of the first loop that can take a node over `space` in, or of a new one."""
        space = tuple(s for s in space if s != 1)
        size = math.prod(space)
        homes = [self._readable_from(v, size) for v in inputs]
        combines = None if kind is Pointwise else (kind, reduced)
        read = self._read(inputs)
        candidates = self._loops_with_room(size, combines, max([earliest, *homes]), read)
        for position in itertools.islice(candidates, self.limits.tried):
            loop = self.steps[position]
            assert isinstance(loop, FusedLoop)
            if not all(self._readable(v, position, size) for v in inputs):
                continue
            if loop.space != space and (loop.rigid or kind is Prefix):
                continue
            finer = refinement(loop.space, space)
            linked = any(self.plan.home.get(self._plain(v)) == position for v in inputs)
            if loop.space == space or (finer is not None and linked):
                loop.space = space if loop.space == space else finer or space
                loop.reduced = loop.reduced or reduced
                loop.rigid = loop.rigid or kind is Prefix
                self.sizes[position] += 1
                self.reads[position] |= read
                self._file(position, size, combines)
                return position
        position = len(self.steps)
        self.steps.append(FusedLoop(space, reduced, rigid=kind is Prefix))
        self.sizes[position], self.reads[position] = 1, read
        self._file(position, size, combines)
        return position

    def _file(self, position: int, size: int, combines: Combines) -> None:
        """Move a loop to the index of its reduction, once it takes its first one in."""
        if position in self.filed:
            if combines is None or self.filed[position] is not None:
                return
            self._forget(position, size)
        self.filed[position] = combines
        insort(self.spaces.setdefault(size, {}).setdefault(combines, []), position)

    def _forget(self, position: int, size: int) -> None:
        same = self.spaces[size][self.filed[position]]
        del same[bisect_left(same, position)]

    def _read(self, values: Iterable[Value]) -> set[Value]:
        """The values in memory that some values are computed from; few by `Limits.reads`."""
        found: set[Value] = set()
        for value in map(self._plain, values):
            found |= {value} if value in self.plan.memory else self.touched.get(value, {value})
        return found

    def _loops_with_room(
        self, size: int, combines: Combines, first: int, read: set[Value]
    ) -> Iterator[int]:
        """The loops from position `first` on with room for a node that reads `read`.

        Loops with room for no node at all are removed from the index.
        """
        known = self.spaces.get(size, {})
        wanted = known if combines is None else [k for k in (None, combines) if k in known]
        lists = [known[k][bisect_left(known[k], first) :] for k in wanted]
        limits = self.limits
        for position in heapq.merge(*lists):
            loop = self.steps[position]
            assert isinstance(loop, FusedLoop)
            if self.sizes[position] >= limits.nodes or len(loop.combining) >= limits.combining:
                self._forget(position, size)
            elif len(self.reads[position]) < limits.reads or read <= self.reads[position]:
                yield position

    def _readable_from(self, value: Value, size: int) -> int:
        """The first loop over `size` elements that can read a value."""
        home = self.plan.home.get(self._plain(value)) if math.prod(value.shape) == size else None
        return self.ready[value] if home is None else min(home, self.ready[value])

    def _readable(self, value: Value, position: int, size: int) -> bool:
        if self.ready[value] <= position:
            return True
        base = self._plain(value)
        return math.prod(value.shape) == size and self.plan.home.get(base) == position

    def _plain(self, value: Value, kept: Container[Value] = ()) -> Value:
        """The value of which this one is a reshape, or the nearest one before it in `kept`."""
        while value.node is not None and value not in kept:
            definition = self.plan.definitions.get(value.node)
            if not isinstance(definition, Reshape):
                break
            value = definition.source
        return value

    # -- memory -----------------------------------------------------------------------------------

    def _is_inline(self, value: Value) -> bool:
        """Whether a value is recomputed where it is read, instead of kept."""
        if value in self.plan.memory or value in self.kept:
            return False
        definition = self._made_by(value)
        if definition is not None and definition.joins:
            return False
        if isinstance(definition, Gather):
            return self._is_read_once(value)
        if self.cost[value] <= self.cheap:
            return True
        return self.depth[value] <= self.limits.deep and self._is_read_once(value)

    def _is_read_once(self, value: Value) -> bool:
        """Whether each element is read once, by one reader."""
        while len(value.uses) == 1 and value not in self.outputs:
            user = next(iter(value.uses))
            definition = self._definition(user)
            if not isinstance(definition, Look):
                return definition is not None and definition.takes_once(value, user.outputs[0])
            # this matters for speed only: the example's sizes decide
            if int(math.prod(user.output.shape)) > int(math.prod(value.shape)):
                return False
            value = user.output
        return False

    def _keep(self, value: Value) -> None:
        """Ensure that a value is stored in memory, row by row."""
        if value in self.plan.numbers:
            self._keep_number(value)
        if value in self.plan.memory:
            return
        if value not in self.plan.home:
            if isinstance(self._made_by(value), Reshape):
                self._keep(self._plain(value))
                return
            self._home(value, value.shape, [value])
        self.kept.add(value)
        self.ready[value] = self.plan.home[value] + 1

    def _keep_number(self, value: Value) -> None:
        """Make a number readable from memory: as a constant, or, if it depends on symbolic sizes,
        as a view of the number that a loop writes out.
        """
        number = self.plan.numbers.pop(value)
        if not is_open((value.shape, number)):
            self._constant(value, operators.packet("full")(value.shape, number, dtype=value.dtype))
            return
        assert value.node is not None, "an argument is no number"
        single = Value("number", Type((), value.dtype))
        self._virtual(single, 0, 0)
        self.plan.numbers[single] = number
        self.plan.definitions[value.node] = ViewDefinition(single, ())
        self._virtual(value, 1, 0)

    def _operand(self, value: Value, fits: OperandTest = routine_calls.is_whole) -> Strided:
        """Where a routine or a region reads a value. A view of memory needs no copy if its strides
        pass the test `fits`.
        """
        found = self._strided(value)
        if found is not None and fits(found):
            self._keep(found.value)
            return found
        self._keep(value)
        base = value if value in self.plan.memory or value in self.plan.home else self._plain(value)
        return Strided(base, 0, value.shape, row_major(value.shape))

    def _strided(self, value: Value) -> Strided | None:
        """A value as a strided view of a value in memory, now or later; None if it is none."""
        index: Index | None = identity(len(value.shape))
        bounds = [(0, s) for s in value.shape]
        shape, base = value.shape, value
        while base not in self.plan.memory and index is not None:
            definition = self._made_by(base)
            if not isinstance(definition, Look):
                break
            if isinstance(definition, Reshape):
                origin = self._plain(base, self.kept)
                if origin in self.kept or not isinstance(self._made_by(origin), ViewDefinition):
                    return _operand_at(origin, flat(index, row_major(base.shape)), shape)
            index = definition.into(index, bounds)
            base = definition.source
        if index is None or base in self.plan.numbers:
            return None
        return _operand_at(base, flat(index, row_major(base.shape)), shape)

    def _made_by(self, value: Value) -> Any:
        return self.plan.definitions.get(value.node) if value.node else None

    def _output(self, value: Value) -> Any:
        if value in self.plan.numbers:
            return self.plan.numbers[value]
        return self._operand(value)

    def _keep_what_is_needed(self) -> None:
        """From the last loop to the first: find the values a loop stores, then those it reads."""
        for value in self.kept:
            self.plan.memory[value] = self.plan.home[value]
        at: dict[int, list[Value]] = {}
        for value in self.kept:
            at.setdefault(self.plan.home[value], []).append(value)
        order = {v: i for i, v in enumerate(self.plan.home)}
        for position in reversed(range(len(self.steps))):
            loop = self.steps[position]
            if not isinstance(loop, FusedLoop):
                continue
            loop.stored = sorted(at.get(position, []), key=order.__getitem__)
            for found in self._visit(loop, position, order):
                at.setdefault(self.plan.home[found], []).append(found)
        self._drop_empty()

    def _visit(self, loop: FusedLoop, position: int, order: dict[Value, int]) -> list[Value]:
        """The values that this loop reads from memory and that earlier loops do not store yet."""
        asked = [(v, True) for v in loop.stored]
        size = math.prod(loop.space)
        for node in loop.combining:
            asked += self.plan.definitions[node].made_of(size)
        seen: set[tuple[Value, bool]] = set()
        found, inside = [], []
        while asked:
            value, aligned = asked.pop()
            if (value, aligned) in seen or value in self.plan.numbers:
                continue
            seen.add((value, aligned))
            if self.plan.memory.get(value, position) < position:
                continue
            here = aligned and self.plan.home.get(value) == position
            if here:
                inside.append(value)
            elif not self._is_made_again(value, aligned, position):
                self.plan.memory[value] = self.plan.home[value]
                found.append(value)
                continue
            made_of = self._made_by(value).made_of(size)
            asked += [(v, aligned and same) for v, same in made_of]
        loop.inside = sorted(inside, key=order.__getitem__)
        return found

    def _is_made_again(self, value: Value, aligned: bool, position: int) -> bool:
        """Whether a loop recomputes another loop's value from its inputs, instead of loading it."""
        definition = self._made_by(value)
        if isinstance(definition, ViewDefinition):
            return value not in self.kept
        if isinstance(definition, Reshape):
            source = definition.source
            if not definition.joins or self.plan.memory.get(source, position) < position:
                return True
            return aligned and self.plan.home.get(source) == position
        return self._is_inline(value)

    def _drop_empty(self) -> None:
        """Remove loops without results, and renumber the steps."""
        moved: dict[int, int] = {-1: -1}
        kept: list[Step] = []
        for position, step in enumerate(self.steps):
            moved[position] = len(kept)
            if not isinstance(step, FusedLoop) or step.stored or step.combining:
                kept.append(step)
        self.steps[:] = kept
        self.plan.memory = {v: moved[p] for v, p in self.plan.memory.items()}
        self.plan.home = {v: moved[p] for v, p in self.plan.home.items()}


def _buffers(values: Iterable[Value]) -> list[tuple[Value, Value]]:
    """Two buffers for each value that a loop over time carries, used in turn."""
    return [(Value("even", v.type), Value("odd", v.type)) for v in values]


def _reads_rows(node: Node, stacks: Sequence[Value]) -> bool:
    """Whether a region is a scan that reads stacked values as its rows and in no other way."""
    if node.op.name != "scan":
        return False
    constants, start, *_ = node.args
    return not {*constants, *start} & set(stacks)


def _operand_at(value: Value, address: Affine, shape: Shape) -> Strided:
    strides = tuple(address.coefficient(d) for d in range(len(shape)))
    return Strided(value, address.offset, shape, strides)


def fuse(graph: Graph, found: Definitions, merged: dict[Node, Any] | None = None) -> Plan:
    """Group the nodes of a lowered graph into steps; `merged` are definitions for all sizes."""
    return _Planner(graph, found, dict(merged or {})).run()
