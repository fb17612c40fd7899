"""Sweeps: products and loops over the same rows run together, one block of rows after another.

    z = x @ w                 a product, row by row
    r = f(z)                  loops over the rows
    x.T @ r, sum(r)           sums over all rows

Each thread runs a share of the rows in blocks, and keeps the values that steps pass on for one
block only: large arrays between the steps never leave the cache. A block is stored transposed:
element k of all its rows, then element k+1. So vectors run along the rows, however short these are,
and a batch of products needs no other order of its operands. Each thread has sums of its own, which
are added in the order of the threads. Programs without reductions within rows gain nothing, since
whole products are as fast there.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Container
from dataclasses import field, replace
from typing import Any, TypeGuard

from adjoint.compiler import routine_calls, shaping
from adjoint.compiler.nests import Member, Nest
from adjoint.compiler.plan import (
    Callback,
    FusedLoop,
    Nested,
    Plan,
    RoutineCall,
    Step,
    Strided,
)
from adjoint.compiler.target import Sweeping
from adjoint.core.records import structure
from adjoint.core.shapes import Shape, row_major
from adjoint.core.symbolic_sizes import divided, is_open
from adjoint.graph.ir import Value
from adjoint.loops.affine import Affine, RowShape
from adjoint.loops.loop_programs import LoopProgram


@structure
class Sweep:
    """Steps that run together over the same rows, block by block."""

    rows: Any
    steps: list[Nest | RoutineCall]
    limits: Sweeping
    programs: dict[int, LoopProgram] = field(default_factory=dict)  # of its nests
    local: dict[Value, RowShape] = field(default_factory=dict)  # values stored for one block only
    sums: list[Value] = field(default_factory=list)  # products that sum over all rows

    @property
    def block(self) -> int:
        """The number of rows of a block."""
        row = sum(rows.elements * v.dtype.itemsize for v, rows in self.local.items())
        low, high = self.limits.rows
        fitting = min(high, self.limits.block // max(row, 1) // low * low)
        return max(self.limits.summed if self.sums else low, fitting)

    def operand(self, operand: Strided, dim: int) -> Strided:
        """The operand of a product during a block, relative to where row 0 would be; `dim` is its
        dimension of rows.
        """
        rows = self.local.get(operand.value)
        return operand if rows is None else in_transposed_block(operand, dim, rows, self.block)

    def _block_sizes(self) -> dict[Value, int]:
        """The bytes that a thread keeps of each value: one block."""
        width = self.block
        return {v: width * rows.elements * v.dtype.itemsize for v, rows in self.local.items()}

    def _sum_sizes(self) -> dict[Any, int]:
        """The bytes that a part keeps: of each product over its rows, and for each nest the
        accumulators of a block and of all its blocks.
        """
        found: dict[Any, int] = {v: math.prod(v.shape) * v.dtype.itemsize for v in self.sums}
        return found | {n: 2 * 8 * program.partial for n, program in self.programs.items()}

    @property
    def places(self) -> dict[Any, int]:
        """The places of blocks in a thread's memory, and of sums in a part's, in bytes."""
        found: dict[Any, int] = {}
        for sizes in (self._block_sizes(), self._sum_sizes()):
            whole = map(_lines, sizes.values())
            found |= zip(sizes, itertools.accumulate(whole, initial=0), strict=False)
        return found

    @property
    def block_room(self) -> int:
        """The memory of a thread, in bytes."""
        return sum(map(_lines, self._block_sizes().values()))

    @property
    def sum_room(self) -> int:
        """The memory of a part, in bytes."""
        return sum(map(_lines, self._sum_sizes().values()))

    @property
    def work(self) -> Any:
        """An estimate of the additions."""
        calls = sum(routine_calls.flops(s) for s in self.steps if isinstance(s, RoutineCall))
        return calls + sum(k.work for k in self.programs.values())


def _lines(size: int) -> int:
    """A size in bytes, rounded up to lines of the cache."""
    return -(-size // 64) * 64


def in_transposed_block(operand: Strided, dim: int, rows: RowShape, width: int) -> Strided:
    """An operand in a transposed block of `width` rows; `dim` is its dimension of rows."""
    element = _element(operand, dim, rows)
    assert element is not None, "the row has no such elements"
    strides = [step * width for step in element.coefficients(len(operand.shape))]
    strides[dim] = 1
    return Strided(operand.value, element.offset * width, operand.shape, tuple(strides))


def _element(operand: Strided, dim: int, rows: RowShape) -> Affine | None:
    """The elements of a row that an operand has; None if its dimension `dim` is not the rows."""
    dim %= len(operand.shape)
    if operand.strides[dim] != rows.behind:
        return None
    sizes = enumerate(zip(operand.strides, operand.shape, strict=True))
    steps = ((d, step) for d, (step, size) in sizes if step and size != 1 and d != dim)
    bounds = [(0, size) for size in operand.shape]
    return rows.element(Affine(operand.offset, tuple(steps)), bounds)


Steps = list[tuple["Nest | Step", LoopProgram | None]]


def swept(plan: Plan, steps: Steps) -> list[tuple[Nest | Step | Sweep, LoopProgram | None]]:
    """The steps of a plan, with the steps that gain by it joined in sweeps."""
    found: list[tuple[Nest | Step | Sweep, LoopProgram | None]] = []
    while steps:
        (step, program), *rest = steps
        rows = _rows_to_sweep(step, program, plan.target.sweeping)
        drawn = None if rows is None else _Drawing(plan, rows).draw(steps)
        if drawn is None:
            found.append((step, program))
            steps = rest
        else:
            before, sweep, steps = drawn
            found += [*before, (sweep, None)]
    return found


def _rows_to_sweep(step: Nest | Step, program: LoopProgram | None, limits: Sweeping) -> Any:
    """The rows of a sweep that would begin with this step; None if it cannot begin one."""
    if isinstance(step, Nest) and program is not None:
        rows = step.outer[0] if step.outer else 1
        made = [v for m in step.members for v in m.writes if v not in step.local]
        size = sum(int(math.prod(v.shape)) * v.dtype.itemsize for v in made)
    elif _is_product(step):
        a, _, out = routine_calls.matrices(step)
        if not _is_light(a.shape[-1], limits):
            return None
        rows, value = out[-2], step.node.output
        size = int(math.prod(out)) * value.dtype.itemsize
    else:
        return None
    return rows if size * 4 >= limits.worth else None


def _is_product(step: Nest | Step) -> TypeGuard[RoutineCall]:
    """Whether a step is a product without a summand."""
    return isinstance(step, RoutineCall) and step.routine == "product" and len(step.operands) == 2


def _is_light(inner: Any, limits: Sweeping) -> bool:
    return not is_open(inner) and int(inner) <= limits.inner


class _Drawing:
    """A sweep in the making: a first step, and the steps after it that can join."""

    def __init__(self, plan: Plan, rows: Any) -> None:
        self.plan, self.rows, self.limits = plan, rows, plan.target.sweeping
        self.sweep = Sweep(rows, [], self.limits)
        self.made: dict[Value, RowShape] = {}  # computed row by row
        self.totals: set[Value] = set()
        self.later: set[Value] = set()  # made by steps that run after the sweep

    def draw(self, steps: Steps) -> tuple[Steps, Sweep, Steps] | None:
        """The steps before the sweep, the sweep, and the steps after it; None if no sweep pays."""
        before: Steps = []
        after: Steps = []
        for number, (step, program) in enumerate(steps):
            if isinstance(step, (Callback, Nested)):
                after += steps[number:]
                break
            asked = set(reads(step))
            if asked & (self.later | self.totals) or not self._joins(step, program, asked):
                if not number:
                    return None
                waits = asked & (self.later | self.totals | self.made.keys())
                (after if waits else before).append((step, program))
                self.later |= set(writes(step)) if waits else set()
        self._find_local(after)
        return (before, self.sweep, after) if self._pays() and self._transposes() else None

    def _joins(self, step: Nest | Step, program: LoopProgram | None, asked: set[Value]) -> bool:
        """Add a step to the sweep if it can run block by block; return whether it does."""
        if self.sweep.steps and not asked & self.made.keys():
            return False
        if isinstance(step, Nest) and program is not None:
            return self._joins_nest(step, program)
        return _is_product(step) and self._joins_call(step)

    def _joins_nest(self, nest: Nest, program: LoopProgram) -> bool:
        depth = _leading(nest.outer, self.rows)
        if depth < 1 or any(m.sequential for m in nest.members):
            return False
        if program.scratch or is_open(program.partial):
            return False
        made: dict[Value, RowShape] = {}
        for member in nest.members:
            for value, address in member.writes.items():
                if value not in nest.local and address.coefficient(depth - 1):
                    made[value] = self._rows_of(value, address.coefficient(depth - 1))
        known = self.made | made
        inside = known.keys() | {*nest.local}
        if any(
            _reads_across(member, depth, inside, self.limits.gathered) for member in nest.members
        ):
            return False
        for member in nest.members:
            places = [(v, a) for v, found in member.reads.items() for a in found]
            places += member.writes.items()
            if any(not _stays(a, member, depth, known[v]) for v, a in places if v in known):
                return False
        self.sweep.programs[len(self.sweep.steps)] = program
        self.sweep.steps.append(replace(nest, outer=nest.outer[:depth]))
        self.made |= made
        self.totals |= {v for v in writes(nest) if v not in made}
        return True

    def _rows_of(self, value: Value, behind: int) -> RowShape:
        """A value with `behind` elements behind each row."""
        before = divided(math.prod(value.shape), self.rows * behind)
        return RowShape(1 if before is None else before, self.rows, behind)

    def _joins_call(self, call: RoutineCall) -> bool:
        a, b, out = routine_calls.matrices(call)
        (*batch, rows, columns), inner = list(out), a.shape[-1]
        if len(batch) > self.plan.target.limits.batch:
            return False
        if rows == self.rows and _is_light(inner, self.limits) and b.value not in self.made:
            if not self._by_row(a, -2):
                return False
            self.made[call.node.output] = RowShape(math.prod(batch), rows, columns)
        elif inner == self.rows and not is_open(out):
            if not self._by_row(a, -1) or not self._by_row(b, -2):
                return False
            if int(math.prod(out)) > self.limits.sums:
                return False
            if int(min(rows, columns)) > self.limits.inner:
                return False
            self.totals.add(call.node.output)
            self.sweep.sums.append(call.node.output)
        else:
            return False
        self.sweep.steps.append(call)
        return True

    def _by_row(self, operand: Strided, dim: int) -> bool:
        """Whether a dimension of an operand is the rows of the sweep."""
        rows = self.made.get(operand.value)
        return rows is None or _element(operand, dim, rows) is not None

    def _find_local(self, after: Steps) -> None:
        """Find the values that only the sweep reads."""
        needed = {o.value for o in self.plan.outputs if isinstance(o, Strided)}
        needed |= {v for step, _ in after for v in reads(step)}
        self.sweep.local = {v: rows for v, rows in self.made.items() if v not in needed}

    def _pays(self) -> bool:
        local, steps = self.sweep.local, self.sweep.steps
        if len(steps) < 2 or not any(isinstance(step, RoutineCall) for step in steps):
            return False
        if any(is_open(rows.elements) for rows in self.made.values()):
            return False
        size = sum(int(self.rows) * r.elements * v.dtype.itemsize for v, r in local.items())
        if size < self.limits.worth or int(self.rows) < 4 * self.sweep.block:
            return False
        reduced = sum(_reduced_inside(step) for step in steps if isinstance(step, Nest))
        return reduced * self.limits.reduced >= sum(rows.elements for rows in local.values())

    def _transposes(self) -> bool:
        """Make loop programs that run over transposed blocks; return whether all nests have one."""
        there = shaping.TransposedBlocks(self.sweep.local, self.sweep.block)
        for number, program in self.sweep.programs.items():
            nest = self.sweep.steps[number]
            assert isinstance(nest, Nest)
            try:
                made = shaping.loop_program(self.plan, nest, program.name, there)
            except shaping.NotTransposable:
                return False
            if not made.divisible or made.scratch:
                return False
            self.sweep.programs[number] = made
        return True


def _leading(shape: Shape, rows: Any) -> int:
    """How many leading dimensions have `rows` elements together; -1 if no number has."""
    sizes = [math.prod(shape[:count]) for count in range(len(shape) + 1)]
    return next((count for count, size in enumerate(sizes) if size == rows), -1)


def _reduced_inside(nest: Nest) -> int:
    """The elements of one row that loops reduce, where vectors along rows gain."""
    depth = len(nest.outer)
    inside = [m for m in nest.members if any(d >= depth for d in m.reduced)]
    return sum(int(math.prod(m.loop.space[depth:])) for m in inside)


def _reads_across(member: Member, depth: int, known: Container[Value], few: int) -> bool:
    """Whether a loop reads more than a few elements of each row from row-major arrays, where
    vectors along the rows would gather them one by one.
    """
    space = member.loop.space
    read = 0
    for value, places in member.reads.items():
        for place in dict.fromkeys(places) if value not in known else ():
            if place.coefficient(depth - 1) not in (0, 1):
                dims = (d for d in range(depth, len(space)) if place.coefficient(d))
                read += int(math.prod(space[d] for d in dims))
    return read > max(few, int(math.prod(space[depth:])) // 4)


def _stays(address: Affine, member: Member, depth: int, rows: RowShape) -> bool:
    """Whether an iteration accesses a value in its own row only."""
    space = member.loop.space
    steps = [step * rows.behind for step in row_major(space[:depth])]
    if address.coefficients(len(space))[:depth] != steps:
        return False
    return rows.element(address.without(range(depth)), [(0, s) for s in space]) is not None


def writes(step: Nest | Step | Sweep) -> list[Value]:
    """The values that a step writes to memory."""
    if isinstance(step, Nest):
        return [v for m in step.members for v in m.writes if v not in step.local] + [
            n.output for m in step.members for n in m.loop.combining if n.output not in m.writes
        ]
    if isinstance(step, Sweep):
        return [v for each in step.steps for v in writes(each) if v not in step.local]
    assert not isinstance(step, FusedLoop)
    if isinstance(step, Nested):
        again = [pair for remake in step.remakes for pair in remake.carried]
        buffers = [v for pair in (*step.carried, *again) for v in pair]
        return [*step.node.outputs, *buffers, *step.filled.values()]
    return list(step.node.outputs)


def reads(step: Nest | Step | Sweep) -> list[Value]:
    """The values that a step reads from memory."""
    if isinstance(step, Nest):
        return [v for m in step.members for v in m.reads]
    if isinstance(step, Sweep):
        made = {v for each in step.steps for v in writes(each)}
        return [v for each in step.steps for v in reads(each) if v not in made]
    assert isinstance(step, (RoutineCall, Callback, Nested))
    operands: list[Any] = list(step.operands)
    if isinstance(step, Nested):
        operands += [o for remake in step.remakes for o in remake.loop.body_operands()]
    found = [o.value if isinstance(o, Strided) else o for o in operands]
    return [v for v in found if isinstance(v, Value)]
