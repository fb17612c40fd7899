"""Makes the host program of a layout: its steps in order, with the place of each operand.

Values of a plan are in its arena, in arrays of their own, or on tapes. A region (a loop over time,
a branch) has an arena inside that of its plan, and gets the addresses of the values that it reads.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import field, replace
from typing import Any

from adjoint.compiler import routine_calls, shaping
from adjoint.compiler.arena import ProgramLayout
from adjoint.compiler.definitions import Put
from adjoint.compiler.host import (
    Address,
    Array,
    Blocks,
    Branch,
    CallRoutine,
    Close,
    CopyArray,
    Enclosed,
    FillArray,
    Grow,
    Held,
    Hold,
    HostOperand,
    HostProgram,
    InArena,
    InTurns,
    Joined,
    Launch,
    Loop,
    Move,
    Offset,
    OfPart,
    OfThread,
    Open,
    Pop,
    Push,
    Rewind,
    RowOf,
    Run,
    Size,
    Statement,
    SumOfParts,
    Tape,
    TapeLength,
    TurnCounter,
    WhileLoop,
)
from adjoint.compiler.nests import Nest
from adjoint.compiler.plan import Callback, Nested, Remake, RoutineCall, Strided
from adjoint.compiler.routine_calls import whole
from adjoint.compiler.sweeps import Sweep
from adjoint.core.records import structure
from adjoint.core.shapes import Shape, row_major
from adjoint.graph.control.staging import UNKNOWN
from adjoint.graph.ir import Value
from adjoint.loops.loop_programs import LoopProgram


class SizeTable:
    """The numbers that a program with symbolic sizes is given: the sizes, and places in the arena,
    which only the memory plan can compute from sizes.
    """

    def __init__(self, symbols: int) -> None:
        self.symbols = symbols
        self.offsets: dict[
            tuple[int, Any], tuple[int, ProgramLayout]
        ] = {}  # by layout and value or step

    def number(self, layout: ProgramLayout, what: Any, known: int) -> Size:
        """A place in an arena; `known` is the place for known sizes."""
        if not self.symbols:
            return known
        place = self.symbols + len(self.offsets)
        place, _ = self.offsets.setdefault((id(layout), what), (place, layout))
        return Offset(place)

    def values(self, sizes: Sequence[int]) -> list[int]:
        """The numbers for given sizes, after the layouts have been arranged for these sizes."""
        found = list(sizes)
        for (_, what), (_, layout) in self.offsets.items():
            if isinstance(what, Value):
                found.append(layout.offsets[what])
            elif isinstance(what, tuple):
                number, name = what
                found.append(_inner_start(layout, number, name))
            else:
                found.append(layout.starts[what])
        return found


@structure
class Ordered:
    """A program whose values have places, and what it does in order."""

    layout: ProgramLayout
    table: SizeTable  # the numbers that it is given
    host: HostProgram


def ordered(layout: ProgramLayout) -> Ordered:
    """Make the host program of a layout."""
    roots, table = layout.plan.roots, SizeTable(layout.plan.symbols)
    arrays: dict[Value, Address] = {v: Array(k) for k, v in enumerate(roots.values)}
    numbers = enumerate(roots.tapes, len(arrays))
    tapes = {v: Tape(k, _row_bytes(v.shape[1:], v)) for k, v in numbers}
    scope = _Scope(layout, InArena(()), table, tapes, arrays)
    called = tuple(sorted(layout.plan.routines()))
    made = HostProgram(_parts(scope), called, table.symbols, bool(roots.tapes))
    return Ordered(layout, table, made)


def _parts(scope: _Scope) -> tuple[Callback | tuple[Statement, ...], ...]:
    """The statements of a program, in runs between callbacks."""
    parts: list[Callback | tuple[Statement, ...]] = []
    run: list[Statement] = []
    for number, step in enumerate(scope.layout.steps):
        if not isinstance(step, Callback):
            run += _step(scope, number)
            continue
        parts += [tuple(run), step] if run else [step]
        run = []
    if run:
        parts.append(tuple(run))
    return tuple(parts)


def _inner_start(layout: ProgramLayout, number: int, name: str) -> int:
    """The start of the arena of a region's graph, which follows those of the graphs before it."""
    start = layout.starts[number]
    for before, each in layout.inner[number].items():
        if before == name:
            break
        start += each.size
    return start


def _row_bytes(shape: Shape, value: Value) -> Size:
    """The bytes of one row of a loop's value: `shape` is the shape of the row."""
    return math.prod(shape) * value.dtype.itemsize


@structure
class _Scope:
    """Where the values of a plan are."""

    layout: ProgramLayout
    base: InArena  # of the plan's arena
    table: SizeTable
    tapes: dict[Value, Tape]
    places: dict[Value, Address] = field(default_factory=dict)  # of values outside the arena
    prefix: str = ""  # of names in nested plans

    def address(self, value: Value) -> Address:
        found = self.places.get(value) or self.tapes.get(value)
        if found is not None:
            return found
        known = self.layout.offsets[value]
        return self.base.plus(self.table.number(self.layout, value, known))

    def start(self, number: int) -> InArena:
        """The scratch memory of a step."""
        known = self.layout.starts[number]
        return self.base.plus(self.table.number(self.layout, number, known))

    def operand(self, view: Strided) -> HostOperand:
        return HostOperand(self.address(view.value), view)

    def result(self, value: Value) -> HostOperand:
        """All of a value."""
        return HostOperand(self.address(value), whole(value))


def _steps(scope: _Scope) -> tuple[Statement, ...]:
    """The statements of all steps of a plan."""
    return tuple([s for n in range(len(scope.layout.steps)) for s in _step(scope, n)])


def _step(scope: _Scope, number: int) -> list[Statement]:
    step = scope.layout.steps[number]
    if isinstance(step, Nest):
        return [*_bases(scope, step), _launch(scope, number)]
    if isinstance(step, Sweep):
        return [_blocks(scope, step, number)]
    if isinstance(step, RoutineCall):
        operands = [scope.operand(view) for view in step.operands]
        results = [scope.result(value) for value in step.node.outputs]
        read = [scope.layout.last[value] > number for value in step.node.outputs]
        return routine_calls.statements(step, operands, results, read)
    assert isinstance(step, Nested)
    make = {"scan": _scan, "while_loop": _while, "cond": _branch}[step.node.op.name]
    return [Enclosed(tuple(make(scope, step, number)))]


def _copy(target: HostOperand, source: HostOperand | Any) -> Statement:
    """A copy of an array, or of a number."""
    return (
        CopyArray(target, source) if isinstance(source, HostOperand) else FillArray(target, source)
    )


# -- nests ----------------------------------------------------------------------------------------


def _bases(scope: _Scope, nest: Nest) -> Iterator[Statement]:
    """The base of each put is copied to its result, before the put writes to it."""
    plan = scope.layout.plan
    for member in nest.members:
        for node in member.loop.combining:
            definition = plan.definitions[node]
            if isinstance(definition, Put):
                source: Any = plan.numbers.get(definition.base)
                if source is None:
                    source = scope.result(plan.origin(definition.base))
                yield _copy(scope.result(node.output), source)


def _launch(scope: _Scope, number: int) -> Launch:
    """The versions of a nest, of which the general one comes last."""
    layout = scope.layout
    runs = [
        replace(_run(scope, number, version.program), where=version.where)
        for version in layout.versions[number]
    ]
    return Launch((*runs, _run(scope, number, layout.programs[number])), layout.largest)


def _run(scope: _Scope, number: int, program: LoopProgram) -> Run:
    scratch = scope.start(number) if program.scratch else None
    return Run(program, _operands(scope, program), _joined(scope, program), scratch)


def _operands(scope: _Scope, program: LoopProgram) -> tuple[HostOperand, ...]:
    pairs = program.pointers.items()
    return tuple([scope.operand(Strided(v, first, v.shape, ())) for v, first in pairs])


def _joined(scope: _Scope, program: LoopProgram) -> tuple[Joined, ...]:
    plan = scope.layout.plan
    return tuple([
        Joined(
            total, count, scope.result(total.node.output),
            shaping.divisor(plan, total.node) if total.kind == "mean" else None,
        )
        for total, count in program.partials
    ])  # fmt: skip


# -- sweeps ---------------------------------------------------------------------------------------


def _blocks(scope: _Scope, sweep: Sweep, number: int) -> Blocks:
    places = sweep.places
    inner = replace(scope, places=dict(scope.places))
    for value in sweep.local:
        inner.places[value] = OfThread(places[value], value.dtype.itemsize)
    steps: list[Run | CallRoutine] = []
    for place, step in enumerate(sweep.steps):
        if isinstance(step, RoutineCall):
            steps.append(_swept_call(inner, sweep, step))
            continue
        program = sweep.programs[place]
        run = Run(program, _operands(inner, program), _joined(scope, program))
        steps.append(replace(run, accumulators=places[place]) if program.partials else run)
    sums = tuple(SumOfParts(scope.result(v), places[v]) for v in sweep.sums)
    memory, each = scope.start(number), sweep.block_room
    kept = memory.plus(scope.layout.plan.target.threads.most * each)
    return Blocks(
        sweep.rows, sweep.block, sweep.work, memory, each, kept, sweep.sum_room, tuple(steps), sums
    )


def _swept_call(scope: _Scope, sweep: Sweep, call: RoutineCall) -> CallRoutine:
    """A product for the rows of one block."""
    a, b, out = routine_calls.matrices(call)
    value = call.node.output
    if value in sweep.sums:
        a, b = sweep.operand(a, -1), sweep.operand(b, -2)
        own = HostOperand(OfPart(sweep.places[value]), whole(value))
        return routine_calls.sum_of_products(call, scope.operand(a), scope.operand(b), own)
    a = sweep.operand(a, -2)
    result = sweep.operand(Strided(value, 0, out, row_major(out)), -2)
    given = scope.operand(a), scope.operand(b), scope.operand(result)
    return routine_calls.rows_of_product(call, *given)


# -- regions --------------------------------------------------------------------------------------


def _inner(scope: _Scope, number: int, name: str) -> _Scope:
    """The scope of a region's graph."""
    layout = scope.layout
    start = scope.table.number(layout, (number, name), _inner_start(layout, number, name))
    base, prefix = scope.base.plus(start), f"{scope.prefix}{number}{name}_"
    inner = layout.inner[number][name]
    return _Scope(inner, base, scope.table, scope.tapes, dict(scope.places), prefix)


def _place(scope: _Scope, operand: Strided | Value) -> Address:
    """The place of an operand of a region."""
    if isinstance(operand, Value):
        return scope.address(operand)
    found = scope.operand(operand)
    return found if operand.offset else found.address


def _given(scope: _Scope, step: Nested) -> tuple[list[Statement], list[Address]]:
    """(statements, places) of a region's operands; the statements write numbers to memory."""
    made: list[Statement] = []
    found = []
    for number, operand in enumerate(step.operands):
        value = step.filled.get(number)
        if value is not None:
            made.append(FillArray(scope.result(value), operand))
        found.append(_place(scope, operand if value is None else value))
    return made, found


def _bind(inner: _Scope, values: Sequence[Value], places: Sequence[Address]) -> None:
    inner.places.update(zip(values, places, strict=True))


def _share_tapes(scope: _Scope, values: Sequence[Value], operands: Sequence[Any]) -> None:
    """Let a region's inputs use the tapes of its operands."""
    for value, operand in zip(values, operands, strict=True):
        if isinstance(operand, Strided) and operand.value in scope.tapes:
            scope.tapes[value] = scope.tapes[operand.value]


def _own_tapes(scope: _Scope, step: Nested) -> tuple[Tape, ...]:
    """The tapes that a loop fills."""
    return tuple([scope.tapes[v] for v in step.node.outputs if UNKNOWN in v.shape])


def _scan(scope: _Scope, step: Nested, number: int) -> list[Statement]:
    constants, start, xs, length, backwards = step.node.args
    first, ends = len(constants), len(constants) + len(start)
    inner = _inner(scope, number, "body")
    inputs = inner.layout.plan.graph.inputs
    made, given = _given(scope, step)
    turn = TurnCounter(f"t{inner.prefix}")
    _bind(inner, inputs[:first], given[:first])
    _share_tapes(scope, inputs[:first], step.operands[:first])
    for value, place in zip(inputs[ends:], given[ends:], strict=True):
        inner.places[value] = RowOf(place, turn, _row_bytes(value.shape, value))
    again = [_Recomputed(scope, r, _inner(scope, number, r.name)) for r in step.remakes]
    for carries in again:
        rows = carries.rows
        inner.places |= {v: rows[x] for v, x in zip(inputs[ends:], xs) if x in rows}
    count: Size | TapeLength = length
    if length == UNKNOWN:
        count = TapeLength(scope.tapes[xs[0]])
        made += [Grow(tape, count) for tape in _own_tapes(scope, step)]
        made += [s for carries in again for s in carries.start()]
    ys = step.node.outputs[len(start) :]
    rows_of = [RowOf(scope.address(v), turn, _row_bytes(v.shape[1:], v)) for v in ys]
    loop = _Carries(scope, inner, step, inputs[first:ends], rows_of)
    made += loop.hold(given[first:ends])
    found = [s for carries in again for s in carries.find(turn, bool(backwards))]
    body = (*found, *loop.body())
    return [*made, Loop(loop.step, turn, count, bool(backwards), body), *loop.finish()]


def _while(scope: _Scope, step: Nested, number: int) -> list[Statement]:
    first, constants, _, _ = step.node.args
    asked, known = len(first), len(first) + len(constants)
    condition = _inner(scope, number, "condition")
    inner = _inner(scope, number, "body")
    made, given = _given(scope, step)
    test, graph = condition.layout.plan, inner.layout.plan.graph
    _bind(condition, test.graph.inputs[:asked], given[:asked])
    _bind(inner, graph.inputs[: len(constants)], given[asked:known])
    _share_tapes(scope, graph.inputs[: len(constants)], step.operands[asked:known])
    carry = graph.inputs[len(constants) :]
    loop = _Carries(scope, inner, step, carry, [])
    made += loop.hold(given[known:])
    _bind(condition, test.graph.inputs[asked:], [inner.places[v] for v in carry])
    tapes, name = _own_tapes(scope, step), inner.prefix
    kept = (Push(tapes, name, step.thins, loop.step, tuple(loop.held)),) if tapes else ()
    (answer,) = test.outputs
    holds = condition.operand(answer) if isinstance(answer, Strided) else bool(answer)
    whiles = WhileLoop(loop.step, _steps(condition), holds, (*kept, *loop.body()))
    if tapes:
        return [
            *made, Open(tapes, name, step.thins), whiles, Close(tapes, name, loop.step),
            *loop.finish(),
        ]  # fmt: skip
    return [*made, whiles, *loop.finish()]


def _branch(scope: _Scope, step: Nested, number: int) -> list[Statement]:
    made, given = _given(scope, step)
    asked = step.operands[0].value if isinstance(step.operands[0], Strided) else step.filled[0]
    parts = []
    for name in ("true", "false"):
        inner = _inner(scope, number, name)
        _bind(inner, inner.layout.plan.graph.inputs, given[1:])
        _share_tapes(scope, inner.layout.plan.graph.inputs, step.operands[1:])
        body = [*_steps(inner)]
        for output, target in zip(inner.layout.plan.outputs, step.node.outputs, strict=True):
            source = inner.operand(output) if isinstance(output, Strided) else output
            body.append(_copy(scope.result(target), source))
        parts.append(tuple(body))
    return [*made, Branch(HostOperand(given[0], Strided(asked, 0, (), ())), *parts)]


class _Carries:
    """The carried values of a loop over time.

    A turn reads its carry at held addresses. It writes the next one to one of two buffers, or to
    the row of an output that is the same value, and moves the address there. A value computed in
    the turn is written in place, without a copy.
    """

    def __init__(
        self, scope: _Scope, inner: _Scope, step: Nested, carry: Sequence[Value],
        rows: Sequence[RowOf],
    ) -> None:  # fmt: skip
        self.scope, self.inner, self.nested = scope, inner, step
        self.carry, self.rows = list(carry), rows
        self.step = TurnCounter(f"s{inner.prefix}")
        self.held = [Held(f"c{inner.prefix}{k}") for k in range(len(carry))]

    def hold(self, given: Sequence[Address | None]) -> list[Statement]:
        _bind(self.inner, self.carry, self.held)
        return [Hold(held, place) for held, place in zip(self.held, given, strict=True)]

    def _next(self, k: int) -> InTurns:
        even, odd = self.nested.carried[k]
        return InTurns(self.step, self.scope.address(even), self.scope.address(odd))

    def body(self) -> list[Statement]:
        """The steps of a turn, and the moves of the carry."""
        outputs = self.inner.layout.plan.outputs
        bound: dict[Value, Address] = {}
        others: list[tuple[Any, HostOperand]] = []
        places: list[Address] = [*(self._next(k) for k in range(len(self.carry))), *self.rows]
        order = [*range(len(self.carry), len(outputs)), *range(len(self.carry))]
        for k in order:
            value = self._own(outputs[k])
            if value is not None and value not in bound:
                bound[value] = places[k]
            elif value is None or k >= len(self.carry):
                others.append((outputs[k], HostOperand(places[k], self._of_turn(k))))
        self.inner.places.update(bound)
        made = [*_steps(self.inner)]
        for output, target in others:
            source = self.inner.operand(output) if isinstance(output, Strided) else output
            made.append(_copy(target, source))
        moves = []
        for k, held in enumerate(self.held):
            value = self._own(outputs[k])
            moves.append((held, bound[value] if value is not None else places[k]))
        return [*made, Move(tuple(moves))]

    def _of_turn(self, k: int) -> Strided:
        """The part of an output that one turn computes."""
        if k < len(self.carry):
            return whole(self.carry[k])
        target = self.nested.node.outputs[k]
        return Strided(target, 0, target.shape[1:], row_major(target.shape[1:]))

    def _own(self, operand: Any) -> Value | None:
        """The value of an operand if it is all of a value computed in the turn, else None."""
        layout = self.inner.layout
        if not isinstance(operand, Strided) or operand.value not in layout.offsets:
            return None
        is_all = math.prod(operand.shape) == math.prod(operand.value.shape)
        return operand.value if is_all and not operand.offset else None

    def finish(self) -> list[Statement]:
        """The last carry is copied to the outputs."""
        pairs = zip(self.held, self.nested.node.outputs, strict=False)
        return [CopyArray(self.scope.result(v), HostOperand(held, whole(v))) for held, v in pairs]


class _Recomputed:
    """The carries of a while_loop for a scan over them, which recomputes dropped ones."""

    def __init__(self, scope: _Scope, remake: Remake, inner: _Scope) -> None:
        loop = remake.loop
        inputs = inner.layout.plan.graph.inputs
        given = loop.body_operands()
        _bind(inner, inputs[: len(given)], [_place(scope, operand) for operand in given])
        step = replace(loop, carried=remake.carried)
        values = [v for v in loop.node.outputs if UNKNOWN in v.shape]
        self.tapes = tuple([scope.tapes[v] for v in values])
        self.turns = _Carries(scope, inner, step, inputs[len(given) :], [])
        self.rows = dict(zip(values, self.turns.held, strict=True))  # tape -> its address
        self.name = inner.prefix

    def start(self) -> list[Statement]:
        held = self.turns.hold([None] * len(self.tapes))
        return [Rewind(self.tapes, self.name), *held]

    def find(self, turn: TurnCounter, backwards: bool) -> list[Statement]:
        """The carry of a turn is found."""
        held, body = tuple(self.turns.held), tuple(self.turns.body())
        return [Pop(self.tapes, self.name, held, turn, self.turns.step, backwards, body)]
