"""Places: each value that a program keeps in memory has a place in one arena.

A value has its place from the first step that writes it to the last step that reads it; then
another value may take the place. The plan of a loop over time or of a branch has an arena of its
own, which is a part of the outer arena while its step runs.
"""

from __future__ import annotations

import bisect
import heapq
import math
from collections.abc import Iterator
from dataclasses import field
from typing import Any

from adjoint.compiler import routine_calls
from adjoint.compiler.nests import Nest
from adjoint.compiler.plan import Plan, RoutineCall, Step, Strided
from adjoint.compiler.shaping import Version
from adjoint.compiler.sweeps import Sweep, reads, writes
from adjoint.compiler.target import Threads
from adjoint.core.records import structure
from adjoint.core.remembering import cached_property
from adjoint.core.symbolic_sizes import at
from adjoint.graph.ir import Value
from adjoint.loops.loop_programs import LoopProgram

Sizes = tuple[int, ...]  # values of the size symbols, in order; (): the sizes of the example


@structure
class ProgramLayout:
    """A plan with its nests, their loop programs, and the places of its values in the arena.

    The stages of `pipeline.py` fill it from the first field to the last.
    """

    plan: Plan
    steps: list[Nest | Step | Sweep]
    inner: dict[int, dict[str, ProgramLayout]] = field(default_factory=dict)  # of regions, by step
    programs: dict[int, LoopProgram] = field(default_factory=dict)  # of the nests, by step number
    versions: dict[int, list[Version]] = field(default_factory=dict)  # for some sizes only
    last: dict[Value, int] = field(default_factory=dict)  # the last step that uses a value
    offsets: dict[Value, int] = field(default_factory=dict)  # in the arena, in bytes
    starts: dict[int, int] = field(default_factory=dict)  # of the scratch memory of a step
    size: int = 0  # of the arena

    def all(self) -> Iterator[ProgramLayout]:
        """This layout, and those of the regions inside it, in order."""
        yield self
        for plans in self.inner.values():
            for each in plans.values():
                yield from each.all()

    def loop_programs(self) -> Iterator[LoopProgram]:
        """All loop programs, those of sweeps and regions too."""
        for layout in self.all():
            yield from layout.programs.values()
            yield from (v.program for found in layout.versions.values() for v in found)
            for step in layout.steps:
                if isinstance(step, Sweep):
                    yield from step.programs.values()

    @cached_property
    def largest(self) -> Any:
        """The work of the largest step."""
        nests = [k.work for k in self.programs.values() if k.divisible]
        calls = [routine_calls.flops(s) for s in self.steps if isinstance(s, RoutineCall)]
        sweeps = [s.work for s in self.steps if isinstance(s, Sweep)]
        return max([0, *nests, *calls, *sweeps], key=int)


def nbytes(value: Value, alignment: int, sizes: Sizes = ()) -> int:
    """The bytes of a value in the arena, for given sizes or for the sizes of the example."""
    return _rounded(max(elements(value.shape, sizes), 1) * value.dtype.itemsize, alignment)


def elements(shape: Any, sizes: Sizes = ()) -> int:
    """The number of elements of a shape, for given sizes or for the sizes of the example."""
    return int(math.prod(at(shape, sizes) if sizes else shape))


def _rounded(size: int, alignment: int) -> int:
    return -(-size // alignment) * alignment


def find_last_uses(layout: ProgramLayout) -> None:
    """Note the last step that uses each value."""
    for number, step in enumerate(layout.steps):
        for value in (*writes(step), *reads(step)):
            layout.last[value] = number
    for operand in layout.plan.outputs:
        if isinstance(operand, Strided):
            layout.last[operand.value] = len(layout.steps)


def arrange(layout: ProgramLayout, elsewhere: set[Value], sizes: Sizes = ()) -> ProgramLayout:
    """Give every value a place, for given sizes or for the sizes of the example. Values in
    `elsewhere` have memory outside the arena.
    """
    layout.offsets.clear()
    threads = layout.plan.target.threads
    arena = _Arena(threads.alignment)
    for number, step in enumerate(layout.steps):
        room = 0
        for inner in layout.inner.get(number, {}).values():
            room += arrange(inner, elsewhere, sizes).size
        if number in layout.programs:
            made = [layout.programs[number], *(v.program for v in layout.versions[number])]
            room = max(scratch(program, threads, sizes) for program in made)
        if isinstance(step, Sweep):
            room = threads.most * step.block_room + threads.parts * step.sum_room
        layout.starts[number] = arena.take(room, number, number)
        for value in writes(step):
            if value not in elsewhere and value not in layout.offsets:
                size = nbytes(value, threads.alignment, sizes)
                layout.offsets[value] = arena.take(size, number, layout.last[value])
    layout.size = arena.size
    return layout


def scratch(program: LoopProgram, threads: Threads, sizes: Sizes) -> int:
    """The bytes of scratch arrays of symbolic size that the threads of a loop program need."""
    if not program.scratch:
        return 0
    partial = int(at(program.partial, sizes) if sizes else program.partial)
    shared = program.divisible and partial <= threads.partial
    count = max(threads.most, threads.parts) if shared else 1
    return count * 8 * int(at(program.scratch, sizes) if sizes else program.scratch)


def verify(layout: ProgramLayout) -> ProgramLayout:
    """Return the layout if every step finds the values that it reads in place; raise otherwise.

    For tests: runs the plan on an imagined arena that holds values in place of bytes.
    """
    held: dict[int, tuple[int, Value | None]] = {}  # offset -> (end, the value stored there)
    alignment = layout.plan.target.threads.alignment
    for number, step in enumerate(layout.steps):
        made = [v for v in writes(step) if v in layout.offsets]
        asked = [v for v in reads(step) if v in layout.offsets]
        _require(layout, held, [v for v in asked if v not in made], number)
        if inner := layout.inner.get(number):
            _put(held, layout.starts[number], sum(each.size for each in inner.values()), None)
            for each in inner.values():
                verify(each)
        for value in made:
            _put(held, layout.offsets[value], nbytes(value, alignment), value)
        _require(layout, held, asked, number)
    outputs = [o.value for o in layout.plan.outputs if isinstance(o, Strided)]
    _require(layout, held, [v for v in outputs if v in layout.offsets], len(layout.steps))
    return layout


def _put(held: dict[int, tuple[int, Value | None]], start: int, size: int, value: Any) -> None:
    """Store a value at a place, and forget the values that it overlaps."""
    for offset, (end, _) in list(held.items()):
        if offset < start + size and start < end:
            del held[offset]
    if size:
        held[start] = (start + size, value)


def _require(
    layout: ProgramLayout,
    held: dict[int, tuple[int, Value | None]],
    values: list[Value],
    number: int,
) -> None:
    for value in values:
        _, found = held.get(layout.offsets[value], (0, None))
        if found is not value:
            raise AssertionError(
                f"memory: step {number} reads %{value.name} at {layout.offsets[value]}, "
                f"where {f'%{found.name}' if found else 'something else'} lies"
            )


class _Arena:
    """First-fit allocation. The block of a value is free again from the step after its last use."""

    def __init__(self, alignment: int) -> None:
        self.alignment, self.size = alignment, 0
        self.gaps: list[tuple[int, float]] = [(0, math.inf)]  # (start, end), disjoint, in order
        self.taken: list[tuple[int, int, int]] = []  # a heap of (last step, start, end)

    def take(self, size: int, now: int, last: int) -> int:
        """Allocate a block from step `now` to step `last`. Calls come in order of `now`."""
        while self.taken and self.taken[0][0] < now:
            _, start, end = heapq.heappop(self.taken)
            self._free(start, end)
        size = _rounded(size, self.alignment)
        if not size:
            return 0
        number = next(k for k, (start, end) in enumerate(self.gaps) if end - start >= size)
        start, end = self.gaps[number]
        behind = start + size
        self.gaps[number : number + 1] = [(behind, end)] if behind < end else []
        heapq.heappush(self.taken, (last, start, behind))
        self.size = max(self.size, behind)
        return start

    def _free(self, start: int, end: float) -> None:
        """Free a block, and merge the gap with its neighbours."""
        number = bisect.bisect(self.gaps, (start, end))
        if self.gaps[number][0] == end:
            end = self.gaps.pop(number)[1]
        if number and self.gaps[number - 1][1] == start:
            number -= 1
            start = self.gaps.pop(number)[0]
        self.gaps.insert(number, (start, end))
