"""Cut loops where conditions change, walk matrices in tiles, run short loops in whole vectors."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from adjoint.compiler.definitions import Reduction
from adjoint.compiler.shaping.building import extents
from adjoint.compiler.shaping.draft import Draft
from adjoint.compiler.target import Vectors
from adjoint.core import dtypes
from adjoint.core.dtypes import DType
from adjoint.core.symbolic_sizes import is_open
from adjoint.expressions.trees import Binary, Call, Choose, Variable, number
from adjoint.loops import loop_programs
from adjoint.loops.accumulators import ACCUMULATORS
from adjoint.loops.affine import Affine, variable
from adjoint.loops.loop_programs import (
    ABOVE,
    FIRST,
    LANE,
    LAST,
    LEFT,
    VECTOR,
    ForLoop,
    Let,
    Load,
    Local,
    Place,
    Position,
    Room,
    Select,
    Statement,
    StatementBlock,
    Store,
    Take,
    calls_any,
    position,
)


def cut_loops(draft: Draft) -> None:
    """Cut loops where conditions change, and simplify the parts."""
    if any(a.cuts for b in draft.bands for a in b.axes):
        bounds = extents(draft.bands[0]) if len(draft.bands) == 1 else {}
        draft.program.body = _cut(draft.program.body, bounds)


def _cut(statements: list[Statement], bounds: dict[int, tuple[int, int]]) -> list[Statement]:
    found: list[Statement] = []
    for statement in statements:
        if isinstance(statement, StatementBlock):
            found.append(StatementBlock(_cut(statement.body, bounds | statement.bounds)))
            continue
        if not isinstance(statement, ForLoop):
            found.append(statement)
            continue
        known = [n for n in statement.high if not isinstance(n, str)]
        if not known:
            found.append(replace(statement, body=_cut(statement.body, bounds)))
            continue
        edges = [statement.low[-1], *statement.cuts, known[-1]]
        for low, high in itertools.pairwise(edges):
            inner = {**bounds, statement.variable: (low, high)}
            part = replace(
                statement,
                low=(*statement.low[:-1], low),
                high=(*statement.high[:-1], high),
                cuts=(),
                body=_cut(statement.body, inner),
            )
            found.append(part)
    if any(isinstance(s, (Select, Load)) for s in found):
        return loop_programs.within(found, bounds)
    return found


# -- tiles and short loops ------------------------------------------------------------------------


def tile(draft: Draft) -> None:
    """Walk a matrix in tiles if it is read along one axis and written along the other."""
    band = draft.bands[0]
    if len(draft.bands) > 1 or len(band.axes) != 2 or band.kind or draft.lanes or draft.vector < 0:
        return
    rows, columns = band.axes[draft.row], band.axes[draft.vector]
    vectors = draft.target.vectors
    if rows.cuts or columns.cuts or min(int(rows.size), int(columns.size)) <= vectors.tile:
        return
    i, j = rows.variable, columns.variable
    places = [s.place.address for s in band.body if isinstance(s, (Load, Store))]
    if not any(p.coefficient(i) == 1 and int(p.coefficient(j)) > vectors.whole for p in places):
        return
    high, wide = vectors.tile, 4 * vectors.tile
    along = ForLoop(j, (variable(LEFT),), (variable(LEFT) + Affine(wide), columns.size), band.body)
    along.vector = True
    across = ForLoop(i, (variable(ABOVE),), (variable(ABOVE) + Affine(high), LAST), [along])
    right = ForLoop(LEFT, (0,), (columns.size,), [across], step=wide)
    draft.program.body = [ForLoop(ABOVE, (FIRST,), (LAST,), [right], step=high)]


def pad_short(draft: Draft) -> None:
    """Run short loops with function calls, or with many statements, in whole vectors.

    Elements left over by the vectors would call slow scalar functions, and each would take as long
    as a vector.
    """
    vectors = draft.target.vectors
    short = [b for b in draft.bands if any(_is_short(a.size, vectors) for a in b.axes)]
    if short and all(b.kind in (None, Reduction) for b in draft.bands):
        draft.program.body = _padded(draft.program.body, draft)


def _is_short(size: Any, vectors: Vectors) -> bool:
    return not is_open(size) and 1 < size <= vectors.padded


def _padded(statements: list[Statement], draft: Draft) -> list[Statement]:
    found: list[Statement] = []
    for statement in statements:
        if isinstance(statement, (ForLoop, StatementBlock)):
            statement.body = _padded(statement.body, draft)
        padded = _in_whole_vectors(statement, draft) if isinstance(statement, ForLoop) else None
        if isinstance(statement, ForLoop) and padded is not None:
            draft.program.whole |= FIRST in statement.low
            found.append(padded)
        else:
            found.append(statement)
    return found


def _in_whole_vectors(loop: ForLoop, draft: Draft) -> ForLoop | StatementBlock | None:
    """A short loop as overlapping vectors; or on padded copies of its operands, in whole vectors.
    None if neither is possible.
    """
    size, vectors = loop.high[-1], draft.target.vectors
    whole = loop.low[-1] == 0 and isinstance(size, int)
    if not loop.vector or loop.variable < 0 or not whole or not _is_short(size, vectors):
        return None
    if (loop.low[0] == FIRST and size != draft.program.rows) or size % vectors.whole == 0:
        return None
    kinds = {type(s) for s in loop.body}
    called = any(calls_any(s, draft.target.vectorized) for s in loop.body)
    if kinds - {Load, Let, Store, Take} or not (called or len(loop.body) >= vectors.heavy):
        return None
    if any(isinstance(s, Load) and s.guards for s in loop.body):
        return None
    takes = [s for s in loop.body if isinstance(s, Take)]
    if any(s.cell.address is not None for s in takes) or (takes and loop.low[0] != FIRST):
        return None
    ways = [ACCUMULATORS[s.kind] for s in takes]
    overlaps = size > vectors.whole and loop_programs.may_repeat(loop)
    if overlaps and all(way.sums or way.chooses for way in ways):
        return _overlapping(loop, size, vectors.whole)
    if not called or not all(way.sums for way in ways):
        return None
    room, v = -(-size // vectors.whole) * vectors.whole, loop.variable
    before: list[Statement] = []
    inside: list[Statement] = []
    after: list[Statement] = []

    def each(low: int, high: int, body: list[Statement]) -> ForLoop:
        return ForLoop(v, (low,), (high,), body)

    for statement in loop.body:
        if isinstance(statement, Load) and statement.place.address.terms:
            made = statement.made
            copy = Local(f"w{made.name}", made.dtype, room)
            there = Place(copy, variable(v))
            before.append(Room(copy.dtype, copy.name, room))
            before.append(each(0, size, [statement, Store(there, made)]))
            first = Load(made, Place(copy, Affine()))
            before.append(each(size, room, [first, Store(there, made)]))
            inside.append(replace(statement, place=there))
        elif isinstance(statement, (Store, Take)):
            result = Local(f"r{len(after)}", _type_of(loop, statement), room)
            made = Variable(f"x{len(after)}", result.dtype)
            there = Place(result, variable(v))
            before.append(Room(result.dtype, result.name, room))
            inside.append(Store(there, statement.tree))
            after.append(each(0, size, [Load(made, there), replace(statement, tree=made)]))
        else:
            inside.append(statement)
    vectors = replace(loop, low=(0,), high=(room,), body=inside, totals=())
    return StatementBlock([*before, vectors, *after])


def _overlapping(loop: ForLoop, size: int, whole: int) -> ForLoop:
    """Run a loop in vectors, of which the last begins early enough to end with the loop.

    Some elements are computed twice, with the same result; sums take them in once.
    """
    wide = 2 * whole if size >= 2 * whole and _are_narrow(loop.body) else whole
    begin, last = position(0), number(size - wide, dtypes.int64)
    moved = Binary("+", Choose(Binary("<", begin, last), begin, last), position(1))
    body: list[Statement] = [Position(loop.variable, moved, (variable(VECTOR), variable(LANE)))]
    is_new = Binary(">=", position(0), position(1))
    for statement in loop.body:
        if isinstance(statement, Take) and ACCUMULATORS[statement.kind].sums:
            made = Variable(f"x{len(body)}", _type_of(loop, statement))
            tree = Choose(is_new, statement.tree, number(0, made.dtype))
            if made.dtype.is_floating_point:
                tree = Call("ad_when", (is_new, statement.tree), made.dtype)
            body.append(Let(made, tree, (variable(loop.variable), variable(VECTOR))))
            statement = replace(statement, tree=made)
        body.append(statement)
    along = replace(loop, variable=LANE, low=(0,), high=(wide,), body=body)
    return ForLoop(VECTOR, (0,), (size,), [along], step=wide)


def _are_narrow(statements: Sequence[Statement]) -> bool:
    """Whether all variables are floats, so that twice as many fit into a vector."""
    made = (s.made.dtype for s in statements if isinstance(s, (Load, Let)))
    return all(dtype is dtypes.float32 for dtype in made)


def _type_of(loop: ForLoop, statement: Store | Take) -> DType:
    """The dtype of the element that a statement writes."""
    if isinstance(statement, Take):
        return next(t.dtype for t in loop.totals if t.name == statement.cell.name)
    return statement.place.value.dtype
