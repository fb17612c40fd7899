"""Nests: loops with the same outer dimensions are put into one outer loop.

A value that one of them writes and another reads then needs memory for one row only, which stays in
the cache. A loop joins a nest if all that it reads of the nest's values is in the same row, and if
no step in between has to run before it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import field

from adjoint.compiler.body import Body
from adjoint.compiler.definitions import Prefix, Put
from adjoint.compiler.plan import (
    Callback,
    FusedLoop,
    Nested,
    Plan,
    RoutineCall,
    Step,
    Strided,
    reduced_dims,
)
from adjoint.compiler.target import Target
from adjoint.core.records import structure
from adjoint.core.shapes import Shape
from adjoint.core.symbolic_sizes import surely
from adjoint.graph.ir import Value
from adjoint.loops.affine import Affine
from adjoint.loops.loop_programs import Load


@structure
class Member:
    """A loop of a nest, with the values that it reads and writes."""

    loop: FusedLoop
    position: int  # among the steps of the plan
    body: Body  # of one iteration
    reduced: tuple[int, ...]  # dimensions of the loop's space
    reads: dict[Value, list[Affine]]
    writes: dict[Value, Affine]
    statements: int  # an estimate
    sequential: bool  # a put, or a prefix along the first dimension
    limit: int  # the most dimensions that an outer loop may have
    flops: int
    functions: int  # calls of exp, sin, …


@structure
class Nest:
    """Loops inside one common loop over `outer`."""

    members: list[Member]
    outer: Shape
    local: list[Value] = field(default_factory=list)  # values that only this nest writes and reads


def nested(plan: Plan) -> list[Nest | Step]:
    """The steps of a plan, its loops put into nests.

    Small loops that read nothing (tables of constants) come first, where they separate no other
    loops. In a long program, nests of small values are kept short: then many of them are alike and
    share one function. Their values stay in the cache anyway.
    """
    limits = plan.target.limits
    found: list[Nest | Step] = []
    place: dict[int, int] = {-1: -1}  # step of the plan -> its step in `found`
    members = {
        position: _member(plan, step, position)
        for position, step in enumerate(plan.steps)
        if isinstance(step, FusedLoop)
    }
    is_long = len(plan.steps) > limits.steps
    most_near = limits.small_nest if is_long else limits.statements
    few = plan.target.cache.shared_reads
    first = [p for p, member in members.items() if _is_table(member, few)]
    for position in dict.fromkeys([*first, *range(len(plan.steps))]):
        if position not in members:
            place[position] = len(found)
            found.append(plan.steps[position])
            continue
        place[position] = _join(found, members[position], plan, place, most_near)
    _find_locals(plan, found)
    return found


def _is_table(member: Member, few: int) -> bool:
    """Whether a loop reads nothing and makes a few elements."""
    size = int(math.prod(member.loop.space))
    return not member.reads and not member.sequential and size < few


def _member(plan: Plan, loop: FusedLoop, position: int) -> Member:
    space = loop.space
    body = Body(plan, position, [(0, s) for s in space])
    writes = body.run(loop, space)
    reads: dict[Value, list[Affine]] = {}
    for statement in body.statements:
        if isinstance(statement, Load) and isinstance(statement.place.value, Value):
            found = reads.setdefault(statement.place.value, [])
            if statement.place.chosen:
                found.append(Affine(-1))  # an unknown address
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
    count = len(body.statements) + (plan.target.limits.function - 1) * body.functions()
    return Member(
        loop, position, body, reduced, reads, writes, count, sequential, limit, flops, functions
    )


def _limit(loop: FusedLoop, reduced: tuple[int, ...], scans: bool) -> int:
    """The number of leading dimensions all kept or all reduced; of a prefix, before its own."""
    if scans:
        return min(reduced, default=len(loop.space))
    for d in range(len(loop.space)):
        if (d in reduced) != (0 in reduced):
            return d
    return len(loop.space)


def _join(
    found: list[Nest | Step], member: Member, plan: Plan, place: dict[int, int], most_near: int
) -> int:
    """Put a loop into the last nest that can take it, or a new one; return that nest's number."""
    if not member.sequential and member.loop.space:
        ready = [place[plan.memory[v]] for v in member.reads]
        earliest = max(ready, default=-1)
        for number in reversed(range(max(earliest, 0), len(found))):
            nest = found[number]
            if isinstance(nest, Nest):
                outer = _common(nest, member, plan.target, most_near)
                if outer:
                    nest.members.append(member)
                    nest.outer = outer
                    return number
    found.append(Nest([member], member.loop.space[: member.limit]))
    return len(found) - 1


def _common(nest: Nest, member: Member, target: Target, most_near: int) -> Shape:
    """The outer dimensions of a nest once `member` joins it; () if it cannot, or should not, join.

    A nest that hands on small values only has at most `most_near` statements.
    """
    if any(m.sequential for m in nest.members):
        return ()
    written = {v: (m, a) for m in nest.members for v, a in m.writes.items()}
    linked = [v for v in member.reads if v in written]
    shared = any(
        int(math.prod(v.shape)) >= target.cache.shared_reads
        and any(v in m.reads for m in nest.members)
        for v in member.reads
    )
    if not linked and not shared:
        return ()
    near = linked and all(example_bytes(v) <= target.cache.near for v in linked)
    most = most_near if near else target.limits.statements
    if sum(m.statements for m in nest.members) + member.statements > most:
        return ()
    count = 0
    for a, b in zip(nest.outer, member.loop.space, strict=False):
        if a != b or count == member.limit:
            break
        count += 1
    while count and not _in_rows(nest, member, linked, written, count, target.cache.row):
        count -= 1
    return nest.outer[:count]


def _in_rows(
    nest: Nest,
    member: Member,
    linked: Sequence[Value],
    written: dict[Value, tuple[Member, Affine]],
    count: int,
    most: int,
) -> bool:
    """Whether a loop reads values of a nest in its own row only, and a row of all values has at
    most `most` bytes.

    The first `count` dimensions count the rows.
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
    room = sum(map(example_bytes, values & used))
    return room <= most * int(rows)


def _find_locals(plan: Plan, steps: Sequence[Nest | Step]) -> None:
    """Note the values that only their own nest reads: they get no place in the arena."""
    outside = {o.value for o in plan.outputs if isinstance(o, Strided)}
    for step in steps:
        if isinstance(step, (RoutineCall, Callback, Nested)):
            outside |= {o.value for o in step.operands if isinstance(o, Strided)}
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


def example_bytes(value: Value) -> int:
    """The bytes of a value, for the sizes of the example."""
    return int(math.prod(value.shape)) * value.dtype.itemsize


def row_elements(value: Value, outer: Shape) -> int:
    """The number of elements of a value in one row of a nest."""
    return math.prod(value.shape) // math.prod(outer)
