"""Sweeps: products and loops over the same rows that run together, one block of rows after another.

    z = x @ w                 a product, row by row
    r = f(z)                  loops over the rows
    x.T @ r, sum(r)           sums over all rows

Each thread takes a share of the rows in blocks, and keeps what one step hands on to another for one
block only: large arrays between the steps never leave the cache. Sums over rows are those of the
threads, added in their order.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import field
from typing import Any

from adjoint.compiler import libraries
from adjoint.compiler.affine import Affine
from adjoint.compiler.loops import Kernel
from adjoint.compiler.nests import Member, Nest
from adjoint.compiler.plan import Call, Callback, Loop, Nested, Operand, Plan, Step
from adjoint.core.records import structure
from adjoint.core.shapes import Shape
from adjoint.core.sizes import is_open, surely
from adjoint.graph.ir import Value

_LIGHT = 32  # the inner size of a product up to which reading takes longer than multiplying
WORTH = 1 << 20  # bytes between the steps from which memory, not arithmetic, takes the time
_CACHED = 1 << 19  # bytes of a block
ROWS = 12, 240  # of a block, at least and at most
_MOST_SUMS = 1 << 14  # elements of a product that every thread sums up for itself


@structure
class Sweep:
    """Steps that run together, block by block, over the same rows."""

    rows: Any
    steps: list[Nest | Call]
    kernels: dict[int, Kernel] = field(default_factory=dict)  # of its nests
    parts: dict[int, int] = field(default_factory=dict)  # rows of a kernel for each of the sweep
    local: dict[Value, int] = field(default_factory=dict)  # of which blocks are kept: row elements
    sums: list[Value] = field(default_factory=list)  # products over all rows

    @property
    def block(self) -> int:
        """How many rows a block has."""
        row = sum(count * v.dtype.itemsize for v, count in self.local.items())
        low, high = ROWS
        return max(low, min(high, _CACHED // max(row, 1) // low * low))

    def _sizes(self) -> dict[Any, int]:
        """What a thread keeps, in bytes: blocks and sums of values, and for each nest the
        accumulators of a block and of all its blocks.
        """
        found: dict[Any, int] = {}
        for value, count in self.local.items():
            found[value] = self.block * count * value.dtype.itemsize
        for value in self.sums:
            found[value] = math.prod(value.shape) * value.dtype.itemsize
        for number, kernel in self.kernels.items():
            found[number] = 2 * 8 * kernel.partial
        return {what: -(-size // 64) * 64 for what, size in found.items()}

    @property
    def places(self) -> dict[Any, int]:
        """Where values, and the accumulators of nests, lie in the memory of a thread, in bytes."""
        sizes = self._sizes()
        return dict(zip(sizes, itertools.accumulate(sizes.values(), initial=0), strict=False))

    @property
    def room(self) -> int:
        """The memory of a thread, in bytes."""
        return sum(self._sizes().values())

    @property
    def turned(self) -> dict[int, int]:
        """Products whose right matrix is written row by row before the sweep, so that no block has
        to copy it, and how many elements it has.
        """
        found = {}
        for number, step in enumerate(self.steps):
            if isinstance(step, Call) and step.node.output not in self.sums:
                _, b, _ = libraries.matrices(step)
                if b.strides[-1] != 1:
                    found[number] = math.prod(b.shape)
        return found

    @property
    def work(self) -> Any:
        """About as many additions."""
        calls = sum(libraries.flops(s) for s in self.steps if isinstance(s, Call))
        return calls + sum(k.work for k in self.kernels.values())


Steps = list[tuple["Nest | Step", Kernel | None]]


def swept(plan: Plan, steps: Steps) -> list[tuple[Nest | Step | Sweep, Kernel | None]]:
    """The steps of a plan, those that gain by it in sweeps."""
    found: list[tuple[Nest | Step | Sweep, Kernel | None]] = []
    while steps:
        (step, kernel), *steps = steps
        rows = _rows_of_product(step)
        drawn = None if rows is None else _Drawing(plan, step, rows).draw(steps)
        if drawn is None:
            found.append((step, kernel))
        else:
            before, sweep, steps = drawn
            found += [*before, (sweep, None)]
    return found


def _rows_of_product(step: Nest | Step) -> Any:
    """How many rows a product has that a sweep can begin with; None if it cannot."""
    if not isinstance(step, Call) or step.routine != "product":
        return None
    a, _, out = libraries.matrices(step)
    (*batch, rows, columns), inner = list(out), a.shape[-1]
    if batch or is_open(inner) or is_open(columns) or int(inner) > _LIGHT:
        return None
    large = int(rows * columns) * step.node.output.dtype.itemsize * 4 >= WORTH
    return rows if large else None


class _Drawing:
    """A sweep on its way: a first product, and what follows it."""

    def __init__(self, plan: Plan, first: Any, rows: Any) -> None:
        self.plan, self.rows = plan, rows
        self.sweep = Sweep(rows, [first])
        self.made = {first.node.output: _elements(first.node.output, rows)}  # row by row
        self.totals: set[Value] = set()
        self.later: set[Value] = set()  # made by steps that need the sweep to have ended

    def draw(self, steps: Steps) -> tuple[Steps, Sweep, Steps] | None:
        """The steps that come before the sweep, the sweep, and the steps after it; None if there
        is none, or none that is worth it.
        """
        before: Steps = []
        after: Steps = []
        for number, (step, kernel) in enumerate(steps):
            if isinstance(step, (Callback, Nested)):
                after += steps[number:]
                break
            asked = set(reads(step))
            if asked & (self.later | self.totals) or not self._joins(step, kernel, asked):
                waits = asked & (self.later | self.totals | self.made.keys())
                (after if waits else before).append((step, kernel))
                self.later |= set(writes(step)) if waits else set()
        self._find_local(after)
        return (before, self.sweep, after) if self._pays() else None

    def _joins(self, step: Nest | Step, kernel: Kernel | None, asked: set[Value]) -> bool:
        """Take a step into the sweep, if it can run block by block."""
        if not asked & self.made.keys():
            return False
        if isinstance(step, Nest) and kernel is not None:
            return self._joins_nest(step, kernel)
        return isinstance(step, Call) and step.routine == "product" and self._joins_call(step)

    def _joins_nest(self, nest: Nest, kernel: Kernel) -> bool:
        space = nest.members[0].loop.space[: kernel.leading]
        count = _leading(space, self.rows)
        if count < 1 or not kernel.divisible or kernel.scratch or is_open(kernel.partial):
            return False
        if is_open(math.prod(space[count:])):
            return False
        rows: dict[Value, int] = {}
        for member in nest.members:
            for value, address in member.writes.items():
                if value not in nest.local and _is_row(address, member, count):
                    rows[value] = _elements(value, self.rows)
        if any(row < 0 for row in rows.values()):
            return False
        for member in nest.members:
            for value, row in (self.made | rows).items():
                places = [*member.reads.get(value, ()), *_only(member.writes.get(value))]
                if any(not _stays(place, member, count, row) for place in places):
                    return False
        self.sweep.kernels[len(self.sweep.steps)] = kernel
        self.sweep.parts[len(self.sweep.steps)] = math.prod(space[count:])
        self.sweep.steps.append(nest)
        self.made |= rows
        self.totals |= {v for v in writes(nest) if v not in rows}
        return True

    def _joins_call(self, call: Call) -> bool:
        a, b, out = libraries.matrices(call)
        (*batch, rows, columns), inner = list(out), a.shape[-1]
        if batch:
            return False
        light = not is_open(inner) and int(inner) <= _LIGHT
        if rows == self.rows and light and b.value not in self.made:
            if not self._by_row(a, a.strides, inner):
                return False
            self.made[call.node.output] = _elements(call.node.output, self.rows)
        elif inner == self.rows and not is_open(rows * columns):
            across = a.strides[-1], a.strides[-2]
            if not self._by_row(a, across, rows) or not self._by_row(b, b.strides, columns):
                return False
            if int(rows * columns) > _MOST_SUMS or int(min(rows, columns)) > _LIGHT:
                return False
            self.totals.add(call.node.output)
            self.sweep.sums.append(call.node.output)
        else:
            return False
        self.sweep.steps.append(call)
        return True

    def _by_row(self, operand: Operand, steps: Sequence[int], count: int) -> bool:
        """Whether a matrix of so many columns has the rows of the sweep: `steps` are from row to
        row, and from column to column.
        """
        if operand.value not in self.made:
            return True  # it is there before the sweep
        wide, (row, column) = self.made[operand.value], steps
        return row == wide and operand.offset == 0 and surely(wide - 1 - (count - 1) * column)

    def _find_local(self, after: Steps) -> None:
        """Values that only the sweep reads."""
        needed = {o.value for o in self.plan.outputs if isinstance(o, Operand)}
        needed |= {v for step, _ in after for v in reads(step)}
        self.sweep.local = {v: row for v, row in self.made.items() if v not in needed}

    def _pays(self) -> bool:
        local = self.sweep.local
        if len(self.sweep.steps) < 2 or any(is_open(row) or row < 0 for row in self.made.values()):
            return False
        size = sum(int(self.rows) * row * v.dtype.itemsize for v, row in local.items())
        return size >= WORTH and int(self.rows) >= 4 * self.sweep.block


def _elements(value: Value, rows: Any) -> int:
    """How many elements of a value belong to each of so many rows; -1 if its first dimensions are
    not these rows.
    """
    count = _leading(value.shape, rows)
    return math.prod(value.shape[count:]) if count >= 0 else -1


def _leading(shape: Shape, rows: Any) -> int:
    """How many first dimensions have so many elements; -1: there are no such."""
    sizes = [math.prod(shape[:count]) for count in range(len(shape) + 1)]
    return next((count for count, size in enumerate(sizes) if size == rows), -1)


def _is_row(address: Affine, member: Member, count: int) -> bool:
    return all(address.coefficient(d) for d in range(count) if member.loop.space[d] != 1)


def _stays(address: Affine, member: Member, count: int, row: int) -> bool:
    """Whether an iteration touches a value in its own row alone."""
    space = member.loop.space
    for d in range(count):
        step = row * math.prod(space[d + 1 : count])
        if space[d] != 1 and address.coefficient(d) != step:
            return False
    rest = Affine(address.offset, tuple(t for t in address.terms if t[0] >= count))
    least, largest = rest.range([(0, s) for s in space])
    return surely(least) and surely(row - 1 - largest)


def _only(address: Affine | None) -> Iterator[Affine]:
    if address is not None:
        yield address


def writes(step: Nest | Step | Sweep) -> list[Value]:
    """The values that a step puts into memory."""
    if isinstance(step, Nest):
        return [v for m in step.members for v in m.writes if v not in step.local] + [
            n.output for m in step.members for n in m.loop.combining if n.output not in m.writes
        ]
    if isinstance(step, Sweep):
        return [v for each in step.steps for v in writes(each) if v not in step.local]
    assert not isinstance(step, Loop)
    if isinstance(step, Nested):
        again = [pair for remake in step.remakes for pair in remake.carried]
        buffers = [v for pair in (*step.carried, *again) for v in pair]
        return [*step.node.outputs, *buffers, *step.filled.values()]
    return list(step.node.outputs)


def reads(step: Nest | Step | Sweep) -> list[Value]:
    """The values that a step finds in memory."""
    if isinstance(step, Nest):
        return [v for m in step.members for v in m.reads]
    if isinstance(step, Sweep):
        made = {v for each in step.steps for v in writes(each)}
        return [v for each in step.steps for v in reads(each) if v not in made]
    assert isinstance(step, (Call, Callback, Nested))
    operands: list[Any] = list(step.operands)
    if isinstance(step, Nested):
        operands += [o for remake in step.remakes for o in remake.loop.body_operands()]
    found = [o.value if isinstance(o, Operand) else o for o in operands]
    return [v for v in found if isinstance(v, Value)]
