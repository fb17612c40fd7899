"""Nests: loops that share their outer dimensions become one loop around them.

What one of them writes and the next reads then needs room for one row only, and stays in the cache.
A loop joins a nest if everything that it reads of the nest's values lies in the same row, and if
nothing between them keeps it from running that early.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import field

from adjoint.compiler.affine import Affine
from adjoint.compiler.body import Body
from adjoint.compiler.definitions import Prefix, Put
from adjoint.compiler.loop_programs import Load
from adjoint.compiler.plan import (
    Callback,
    FusedLoop,
    Nested,
    Operand,
    Plan,
    RoutineCall,
    Step,
    reduced_dims,
)
from adjoint.core.records import structure
from adjoint.core.shapes import Shape
from adjoint.core.symbolic_sizes import surely
from adjoint.graph.ir import Value

_LOCAL = 1 << 16  # bytes of one row that a nest may keep
_LARGE = 1 << 12  # elements from which reading a value once for two loops pays
_MOST = 250  # statements in one nest: compilers take more than linear time for long functions
_FUNCTION = 10  # statements that a function counts for: its text may stand in the nest
# Of a long program, the nests of small values are short: many of them are alike, and share one
# function. What they hand on stays in the cache anyway.
_LONG = 100  # steps
_NEAR = 1 << 14  # bytes
_MOST_NEAR = 40  # statements


@structure
class Member:
    """A loop of a nest, and what it touches."""

    loop: FusedLoop
    position: int  # among the steps of the plan
    body: Body  # of one iteration
    reduced: tuple[int, ...]  # dimensions
    reads: dict[Value, list[Affine]]
    writes: dict[Value, Affine]
    statements: int  # about as many
    sequential: bool  # a put, or a prefix along the first dimension
    limit: int  # how many dimensions a loop around it may have
    flops: int
    functions: int  # calls of exp, sin, …


@structure
class Nest:
    """Loops around which one loop over `outer` runs."""

    members: list[Member]
    outer: Shape
    local: list[Value] = field(default_factory=list)  # written and read here alone


def nested(plan: Plan) -> list[Nest | Step]:
    """The steps of a plan with its loops in nests.

    Short loops that read nothing (tables of constants) come first: they keep no others apart there.
    """
    found: list[Nest | Step] = []
    place: dict[int, int] = {-1: -1}  # of each step of the plan, among those found
    members = {
        position: _member(plan, step, position)
        for position, step in enumerate(plan.steps)
        if isinstance(step, FusedLoop)
    }
    most_near = _MOST_NEAR if len(plan.steps) > _LONG else _MOST
    first = [p for p, member in members.items() if _is_table(member)]
    for position in dict.fromkeys([*first, *range(len(plan.steps))]):
        if position not in members:
            place[position] = len(found)
            found.append(plan.steps[position])
            continue
        place[position] = _join(found, members[position], plan, place, most_near)
    _find_locals(plan, found)
    return found


def _is_table(member: Member) -> bool:
    size = int(math.prod(member.loop.space))
    return not member.reads and not member.sequential and size < _LARGE


def _member(plan: Plan, loop: FusedLoop, position: int) -> Member:
    space = loop.space
    body = Body(plan, position, [(0, s) for s in space])
    writes = body.run(loop, space)
    reads: dict[Value, list[Affine]] = {}
    for statement in body.statements:
        if isinstance(statement, Load) and isinstance(statement.place.value, Value):
            found = reads.setdefault(statement.place.value, [])
            if statement.place.chosen:
                found.append(Affine(-1))  # anywhere
            else:
                found.append(statement.place.address)
    first = plan.definitions[loop.combining[0]] if loop.combining else None
    reduced = reduced_dims(loop)
    sequential = isinstance(first, Put) or (isinstance(first, Prefix) and 0 in reduced)
    if isinstance(first, Put) and first.base not in plan.numbers:
        reads.setdefault(plan.origin(first.base), []).append(Affine(-1))
    limit = _limit(loop, reduced, isinstance(first, Prefix))
    size = math.prod(space)
    flops = size * (body.operations() + len(loop.combining))
    functions = size * body.functions()
    count = len(body.statements) + (_FUNCTION - 1) * body.functions()
    return Member(
        loop, position, body, reduced, reads, writes, count, sequential, limit, flops, functions
    )


def _limit(loop: FusedLoop, reduced: tuple[int, ...], scans: bool) -> int:
    """The first dimensions that are all kept or all reduced; a prefix needs its own inside."""
    if scans:
        return min(reduced, default=len(loop.space))
    for d in range(len(loop.space)):
        if (d in reduced) != (0 in reduced):
            return d
    return len(loop.space)


def _join(
    found: list[Nest | Step], member: Member, plan: Plan, place: dict[int, int], most_near: int
) -> int:
    """Put a loop into the last nest that can take it, or a new one; where that is."""
    if not member.sequential and member.loop.space:
        ready = [place[plan.memory[v]] for v in member.reads]
        earliest = max(ready, default=-1)
        for number in reversed(range(max(earliest, 0), len(found))):
            nest = found[number]
            if isinstance(nest, Nest):
                outer = _common(nest, member, most_near)
                if outer:
                    nest.members.append(member)
                    nest.outer = outer
                    return number
    found.append(Nest([member], member.loop.space[: member.limit]))
    return len(found) - 1


def _common(nest: Nest, member: Member, most_near: int) -> Shape:
    """The outer dimensions of a nest with one more loop; none if it cannot, or should not, join.

    Where all that it is handed is small, a nest has at most so many statements.
    """
    if any(m.sequential for m in nest.members):
        return ()
    written = {v: (m, a) for m in nest.members for v, a in m.writes.items()}
    linked = [v for v in member.reads if v in written]
    shared = any(
        int(math.prod(v.shape)) >= _LARGE and any(v in m.reads for m in nest.members)
        for v in member.reads
    )
    if not linked and not shared:
        return ()
    near = linked and all(nbytes(v) <= _NEAR for v in linked)
    most = most_near if near else _MOST
    if sum(m.statements for m in nest.members) + member.statements > most:
        return ()
    count = 0
    for a, b in zip(nest.outer, member.loop.space, strict=False):
        if a != b or count == member.limit:
            break
        count += 1
    while count and not _in_rows(nest, member, linked, written, count):
        count -= 1
    return nest.outer[:count]


def _in_rows(
    nest: Nest,
    member: Member,
    linked: Sequence[Value],
    written: dict[Value, tuple[Member, Affine]],
    count: int,
) -> bool:
    """Whether a loop reads values of a nest in its own row only, and whether a row is small.

    Rows are counted by the first dimensions.
    """
    space = member.loop.space
    bounds = [(0, s) for s in space]
    for value in linked:
        address = written[value][1]
        steps = [address.coefficient(d) for d in range(count)]
        if not all(steps):
            return False
        for read in member.reads[value]:
            if [read.coefficient(d) for d in range(count)] != steps:
                return False
            rest = Affine(read.offset, tuple(t for t in read.terms if t[0] >= count))
            least, largest = rest.range(bounds)
            if not (surely(least) and surely(steps[-1] - 1 - largest)):
                return False
    rows = math.prod(space[:count])
    values = {v for m in (*nest.members, member) for v in m.writes}
    used = {v for m in (*nest.members, member) for v in m.reads}
    room = sum(map(nbytes, values & used))
    return room <= _LOCAL * int(rows)


def _find_locals(plan: Plan, steps: Sequence[Nest | Step]) -> None:
    """Values that only their own nest reads need no memory of their own."""
    outside = {o.value for o in plan.outputs if isinstance(o, Operand)}
    for step in steps:
        if isinstance(step, (RoutineCall, Callback, Nested)):
            outside |= {o.value for o in step.operands if isinstance(o, Operand)}
    readers: dict[Value, set[int]] = {}
    for number, step in enumerate(steps):
        if isinstance(step, Nest):
            for member in step.members:
                for value in member.reads:
                    readers.setdefault(value, set()).add(number)
    for number, step in enumerate(steps):
        if isinstance(step, Nest) and len(step.members) > 1:
            count = len(step.outer)
            step.local = [
                v
                for m in step.members
                for v, a in m.writes.items()
                if v not in outside
                and readers.get(v) == {number}
                and all(a.coefficient(d) for d in range(count))
            ]


def nbytes(value: Value) -> int:
    """The memory of a value, for the sizes of the example."""
    return int(math.prod(value.shape)) * value.dtype.itemsize


def row_elements(value: Value, outer: Shape) -> int:
    """How many elements of a value belong to one row of a nest."""
    return math.prod(value.shape) // math.prod(outer)
