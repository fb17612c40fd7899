"""How a nest runs: the axes of its loops, which of them the function runs over, and vectors."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import field

from adjoint.compiler.affine import Affine
from adjoint.compiler.c.body import Body, Let, Load
from adjoint.compiler.definitions import Prefix, Put, Reduction
from adjoint.compiler.nests import Member, Nest
from adjoint.compiler.plan import Loop, Plan, reduced_dims
from adjoint.core.records import structure
from adjoint.core.shapes import Shape
from adjoint.graph.ir import Value

WHOLE = 8  # elements in a vector
_LONG_ROW = 1024  # accumulators beside one another
_SHORT = 16  # elements below which a dimension is too short for vectors of its own
_MOST_PARTS = 32  # that the axes of a loop are cut into


@structure
class Axis:
    """One or more dimensions of a loop that are run as one."""

    dims: tuple[int, ...]  # of the loop's space, neighbours
    size: int
    reduced: bool

    def within(self, low: int, high: int) -> dict[int, tuple[int, int]]:
        """The bounds of its dimension; joined ones are never cut."""
        return {self.dims[0]: (low, high)} if len(self.dims) == 1 else {}


@structure
class Shaped:
    """A loop of a nest with its axes."""

    member: Member
    body: Body  # over the whole space
    writes: dict[Value, Affine]
    axes: list[Axis]
    reduced: tuple[int, ...]
    kind: type | None = None
    cuts: dict[int, list[int]] = field(default_factory=dict)  # where an axis is cut

    @property
    def loop(self) -> Loop:
        return self.member.loop


class Schedule:
    """The loops of a nest with their axes, and the order of these."""

    def __init__(self, plan: Plan, nest: Nest) -> None:
        self.plan, self.nest = plan, nest
        self.vector = -1  # the axis of vectors, where the nest has one loop
        self.loops = [self._shape(m) for m in nest.members]
        if len(self.loops) == 1:
            self.outer, self.lanes = self._schedule_one(self.loops[0])
        else:
            self.outer, self.lanes = self._schedule_many(self.loops)
        self.rows = math.prod(self.loops[0].axes[k].size for k in self.outer[0])

    def _shape(self, member: Member) -> Shaped:
        loop = member.loop
        body = Body(self.plan, member.position, [(0, s) for s in loop.space])
        writes = body.run(loop, loop.space)
        reduced = reduced_dims(loop)
        kind = type(self.plan.definitions[loop.combining[0]]) if loop.combining else None
        fixed = len(self.nest.outer) if len(self.nest.members) > 1 else 0
        shaped = Shaped(member, body, writes, [], reduced, kind)
        shaped.axes = _merged(loop.space, _positions(body, writes), reduced, fixed)
        shaped.cuts = self._cuts(shaped)
        return shaped

    def _schedule_one(self, shaped: Shaped) -> tuple[list[list[int]], bool]:
        """Which axes the function runs over, and whether vectors do too."""
        axes = shaped.axes
        if not axes:
            return [[]], False
        if shaped.kind is Put:
            return [[0]], False
        vector = self.best_axis(shaped, range(len(axes)))
        scanned = shaped.kind is Prefix
        kept = [k for k, a in enumerate(axes) if not a.reduced]
        if shaped.kind is Reduction and len(kept) == len(axes) == 1:
            return [[vector]], False  # over sizes of 1 alone: a conversion
        if len(axes) == 1 or (scanned and kept == [vector]):
            return [[vector]], not (scanned and axes[vector].reduced)
        long_row = shaped.loop.reduced and axes[vector].size > _LONG_ROW
        if not axes[vector].reduced and (kept == [vector] or long_row):
            return [[vector]], True
        self.vector = vector
        others = [k for k in (*kept, *range(len(axes))) if k != vector]
        return [[others[0]]], False

    def _schedule_many(self, shaped: list[Shaped]) -> tuple[list[list[int]], bool]:
        depth = len(self.nest.outer)
        apart = depth > 1 and not self._merge_outer(shaped, depth)
        if apart and any(len(s.axes) == depth for s in shaped):  # no axis is left for vectors
            self.nest.outer = self.nest.outer[:-1]
            shaped[:] = [self._shape(m) for m in self.nest.members]
            return self._schedule_many(shaped)
        count = 1 if len(shaped[0].axes[0].dims) > 1 else len(self.nest.outer)
        outer = [list(range(count)) for _ in shaped]
        lengths, weights = [], []
        for s in shaped:
            inner = range(count, len(s.axes))
            if inner:
                best = self.best_axis(s, inner)
                lengths.append(s.axes[best].size)
                weights.append(len(s.body.statements))
        rows = math.prod(self.nest.outer)
        short = sum(w for w, n in zip(weights, lengths, strict=True) if n < _SHORT)
        lanes = count == 1 and rows >= WHOLE and (short * 2 >= sum(weights) or not weights)
        return outer, lanes

    def _merge_outer(self, shaped: list[Shaped], count: int) -> bool:
        """Join the outer axes of all loops into one, if every position allows it."""
        for s in shaped:
            merged = _merged(s.loop.space[:count], _positions(s.body, s.writes), (), 0)
            if len(merged) != 1 or len({d in s.reduced for d in range(count)}) != 1:
                return False
        for s in shaped:
            size = math.prod(s.loop.space[:count])
            first = Axis(tuple(range(count)), size, 0 in s.reduced)
            s.axes = [first, *s.axes[count:]]
            s.cuts = self._cuts(s)
        return True

    def best_axis(self, shaped: Shaped, candidates: Sequence[int]) -> int:
        """The axis along which memory is read and written in order, and that is not short."""
        places = [s.place.address for s in shaped.body.statements if isinstance(s, Load)]
        places += list(shaped.writes.values())

        def score(k: int) -> tuple[float, int]:
            axis = shaped.axes[k]
            steps = [abs(p.coefficient(axis.dims[-1])) for p in places]
            unit, strided = steps.count(1), sum(1 for s in steps if s > 1)
            return min(axis.size, _SHORT) / _SHORT * (1 + unit) / (1 + strided), k

        return max(candidates, key=score)

    def _cuts(self, shaped: Shaped) -> dict[int, list[int]]:
        """Where conditions on one axis change, if that makes few parts."""
        found: dict[int, set[int]] = {}
        for guard in shaped.body.guards:
            if len(guard.position.terms) != 1:
                continue
            (dim, step) = guard.position.terms[0]
            axis = next(k for k, a in enumerate(shaped.axes) if dim in a.dims)
            if len(shaped.axes[axis].dims) != 1:
                continue
            edges = [_first(guard.position.offset, step, edge) for edge in (guard.low, guard.high)]
            inside = {e for e in edges if 0 < e < shaped.axes[axis].size}
            found.setdefault(axis, set()).update(inside)
        parts = 1
        kept: dict[int, list[int]] = {}
        for axis in sorted(found, key=lambda k: len(found[k])):
            parts *= len(found[axis]) + 1
            if parts <= _MOST_PARTS:
                kept[axis] = sorted(found[axis])
        return kept


def _first(offset: int, step: int, edge: int) -> int:
    """The first i for which offset + step·i has passed the edge.

    >>> _first(-1, 2, 0), _first(5, -2, 3)
    (1, 2)
    """
    return -((offset - edge) // step) if step > 0 else (offset - edge) // -step + 1


def _positions(body: Body, writes: dict[Value, Affine]) -> list[Affine]:
    """Everything that depends on where in the space the loop is."""
    found = [*writes.values(), *body.puts]
    for statement in body.statements:
        if isinstance(statement, Load):
            found.append(statement.place.address)
        elif isinstance(statement, Let):
            found += statement.positions
        found += [g.position for g in statement.guards]
    return found + [g.position for g in body.guards]


def _merged(
    space: Shape, positions: Sequence[Affine], reduced: tuple[int, ...], fixed: int
) -> list[Axis]:
    """Join neighbouring dimensions that every position walks as one; the first `fixed` stay."""
    axes: list[Axis] = []
    for d, size in enumerate(space):
        last = axes[-1] if axes else None
        joins = (
            last is not None
            and d > fixed
            and d - 1 >= fixed
            and last.reduced == (d in reduced)
            and all(p.coefficient(d - 1) == p.coefficient(d) * size for p in positions)
        )
        if joins and last is not None:
            axes[-1] = Axis((*last.dims, d), last.size * size, last.reduced)
        else:
            axes.append(Axis((d,), size, d in reduced))
    return axes
