"""Build loops around the statements of bands: rows outermost, vectors innermost, accumulators."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from adjoint.compiler.definitions import Prefix, Put, Reduction
from adjoint.compiler.plan import Plan
from adjoint.compiler.shaping.draft import Axis, Band, Draft
from adjoint.compiler.shaping.row_axes import best_axis
from adjoint.core import dtypes
from adjoint.core.symbolic_sizes import is_open, with_known
from adjoint.expressions.trees import Binary, Expression, Number, Operand, Variable, number
from adjoint.graph.ir import Node
from adjoint.loops import loop_programs
from adjoint.loops.affine import Affine, variable
from adjoint.loops.loop_programs import (
    BLOCK,
    CELL,
    FIRST,
    LANE,
    LANES,
    LAST,
    ROW,
    Cell,
    ForLoop,
    Place,
    Position,
    Reset,
    Room,
    Statement,
    StatementBlock,
    Store,
    Take,
    Total,
    position,
)


def build_loops(draft: Draft) -> None:
    """Put loops around the bands: rows outermost, vectors innermost."""
    made = draft.program
    rooms = [Room(r.dtype, r.name, r.count) for r in (*draft.rooms.values(), *draft.shared)]
    _declare_partials(draft)
    if draft.block:
        made.body.append(_in_blocks(draft, rooms))
    elif draft.lanes:
        made.body += _straight(draft, draft.bands[0])
    elif not draft.outside():
        made.body += _within_rows(draft, draft.bands[0])
    elif len(draft.bands) == 1:
        made.body += _row_loop(draft, draft.bands[0])
    else:
        inner = [*rooms, *_row_indices(draft)]
        for band in draft.bands:
            inner.append(_in_block(draft, band))
        made.body.append(ForLoop(ROW, (FIRST,), (LAST,), inner))


def _in_block(draft: Draft, band: Band) -> StatementBlock:
    return StatementBlock(_within_rows(draft, band), extents(band))


def extents(band: Band) -> dict[int, tuple[int, int]]:
    return {a.variable: (0, a.size) for a in band.axes}


def _row_loop(draft: Draft, band: Band) -> list[Statement]:
    axis = band.axes[draft.row]
    before: list[Statement] = []
    if band.kind is Prefix and axis.reduced:
        before = [Room(t.dtype, t.name, start=t.start) for t in band.totals]
    return [*before, _loop_over_rows(axis, _within_rows(draft, band))]


def _loop_over_rows(axis: Axis, body: list[Statement], **more: Any) -> ForLoop:
    return ForLoop(axis.variable, (FIRST, 0), (LAST, axis.size), body, cuts=axis.cuts, **more)


def _straight(draft: Draft, band: Band) -> list[Statement]:
    """Loops whose vectors run along the rows themselves."""
    totals = tuple(band.totals)
    before = [Room(t.dtype, t.name, start=t.start) for t in totals]
    after = [Reset(Cell(f"{t.name}p", Affine()), Variable(t.name, t.dtype)) for t in totals]
    along = _loop_over_rows(band.axes[draft.row], list(band.body), vector=True, totals=totals)
    return [*before, along, *after]


def _in_blocks(draft: Draft, rooms: Sequence[Statement]) -> ForLoop:
    """Loops over blocks of rows, in which vectors run along the rows."""
    inner: list[Statement] = list(rooms)
    for band in draft.bands:
        inner.append(_in_block(draft, band))
    return ForLoop(BLOCK, (FIRST,), (LAST,), inner, step=draft.block)


def _row_indices(draft: Draft) -> list[Statement]:
    """The indices of the outer axes, computed from the number of the row."""
    axes = [draft.bands[0].axes[k] for k in draft.outside()]
    lines: list[Statement] = []
    rest: Expression = position(0)
    for axis in reversed(axes[1:]):
        size = number(axis.size, dtypes.int64)
        lines.append(Position(axis.variable, Binary("%", rest, size), (variable(ROW),)))
        rest = Binary("/", rest, size)
    return [*lines, Position(axes[0].variable, rest, (variable(ROW),))]


def _within_rows(draft: Draft, band: Band) -> list[Statement]:
    """The loops over the axes of a band inside a row, or inside a block of rows."""
    outside = draft.outside()
    inner = [k for k in range(len(band.axes)) if k not in outside]
    kept = [k for k in inner if not band.axes[k].reduced]
    reduced = [k for k in inner if band.axes[k].reduced]
    if draft.block:
        return _combined(draft, band, kept, reduced, outside[0])
    if not inner:
        if band.kind is not Reduction:
            return list(band.body)
        rooms = [Room(t.dtype, t.name, start=t.start) for t in band.totals]
        return [*rooms, *band.body, *_finish(draft, band, {})]
    if band.kind is Put:
        return _in_loops(band, inner, list(band.body))
    short = draft.target.vectors.short
    vector = draft.vector if len(draft.bands) == 1 else best_axis(band, inner, short)
    return _combined(
        draft, band, [k for k in kept if k != vector], [k for k in reduced if k != vector], vector
    )


def _combined(
    draft: Draft, band: Band, kept: list[int], reduced: list[int], vector: int
) -> list[Statement]:
    """Nest loops over kept axes around those over reduced ones, with vectors innermost."""
    axis = band.axes[vector]

    def along(body: list[Statement], **more: Any) -> ForLoop:
        if draft.block:
            place = _sum(axis.variable, variable(BLOCK), variable(LANE))
            wanted = [place] if loop_programs.depends(body, axis.variable) else []
            return ForLoop(LANE, (0,), (LANES,), [*wanted, *body], **more)
        return ForLoop(axis.variable, (0,), (axis.size,), body, cuts=axis.cuts, **more)

    if not band.combines:
        return _in_loops(band, [*kept, *reduced], [along(list(band.body), vector=True)])
    scans = band.kind is Prefix
    each = not axis.reduced  # whether each element of the vector has an accumulator
    over_rows = any(band.axes[k].reduced for k in draft.outside())
    if each and not scans and not reduced and over_rows:
        cells = {t.name: Cell(f"{t.name}p", band.writes[t.node.output]) for t in band.totals}
        return _in_loops(band, kept, [along(_taking(band, cells), vector=True)])
    cells = {t.name: Cell(t.name) for t in band.totals}
    lines: list[Statement] = []
    if (
        each
        and not scans
        and draft.block
        and _is_unrolled(band, reduced, draft.target.vectors.unrolled)
    ):
        lines += [Room(t.dtype, t.name, start=t.start) for t in band.totals]
        lines += _unrolled(band, reduced, _taking(band, cells))
        return _in_loops(band, kept, [along([*lines, *_finish(draft, band, cells)], vector=True)])
    if each:
        lane = variable(LANE if draft.block else axis.variable)
        cells = {t.name: Cell(t.name, lane) for t in band.totals}
        lines += [Room(t.dtype, t.name, draft.block or axis.size) for t in band.totals]
        lines.append(along([Reset(cells[t.name], t.start) for t in band.totals]))
    else:
        lines += [Room(t.dtype, t.name, start=t.start) for t in band.totals]
    totals = () if each else tuple(band.totals)
    inner = along(_taking(band, cells), vector=each or not scans, totals=totals)
    lines += _in_loops(band, reduced, [inner])
    if not scans:
        finish = _finish(draft, band, cells)
        lines += [along(finish)] if each else finish
    return _in_loops(band, kept, lines)


def _sum(place: int, first: Affine, second: Affine) -> Position:
    """A loop variable that is the sum of two positions."""
    return Position(place, Binary("+", position(0), position(1)), (first, second))


def _is_unrolled(band: Band, axes: Sequence[int], most: int) -> bool:
    """Whether a reduction is short enough for its accumulators to stay in registers."""
    turns = math.prod(band.axes[k].size for k in axes)
    cut = any(band.axes[k].cuts for k in axes)
    return not is_open(turns) and not cut and turns * len(band.body) <= most


def _unrolled(band: Band, axes: Sequence[int], body: list[Statement]) -> list[Statement]:
    """The iterations of loops over some axes, one after the other."""
    for k in reversed(axes):
        axis = band.axes[k]
        body = [ForLoop(axis.variable, (turn,), (turn + 1,), body) for turn in range(axis.size)]
    return body


def _taking(band: Band, cells: dict[str, Cell]) -> list[Statement]:
    """The statements of a band, with its accumulators replaced."""
    found: list[Statement] = []
    for statement in band.body:
        if isinstance(statement, Take):
            statement = replace(statement, cell=cells[statement.cell.name])
        elif isinstance(statement, Store) and statement.source is not None:
            statement = replace(statement, source=cells[statement.source.name])
        found.append(statement)
    return found


def _finish(draft: Draft, band: Band, cells: dict[str, Cell]) -> list[Statement]:
    """Store accumulators, or take them into those that outlast the row."""
    found: list[Statement] = []
    lasting = {t.name for t, _ in draft.program.partials}
    for total in band.totals:
        cell = cells.get(total.name, Cell(total.name))
        address = band.writes[total.node.output]
        if total.name in lasting:
            own = Operand(CELL, total.dtype)
            found.append(Take(total.kind, Cell(f"{total.name}p", address), own, cell))
            continue
        place = draft.place(Place(total.node.output, address))
        found.append(Store(place, finished(draft.plan, total), source=cell))
    return found


def finished(plan: Plan, total: Total) -> Expression:
    """The result of a reduction, computed from its accumulator."""
    definition, own = plan.definitions[total.node], Operand(CELL, total.dtype)
    is_mean = isinstance(definition, Reduction) and definition.kind == "mean"
    return Binary("/", own, divisor(plan, total.node)) if is_mean else own


def divisor(plan: Plan, node: Node) -> Number:
    """The number by which a mean divides its sum."""
    shape = plan.definitions[node].source.shape
    count = math.prod(shape) // max(math.prod(node.output.shape), 1)
    return number(count, dtypes.float64)


def _declare_partials(draft: Draft) -> None:
    """Declare the accumulators that last through all rows, of which each thread has its own."""
    for band in draft.bands:
        if band.kind is Reduction and any(band.axes[k].reduced for k in draft.outside()):
            for total in band.totals:
                count = math.prod(with_known(total.node.output.shape, draft.program.known))
                draft.program.partials.append((total, count))


def _in_loops(band: Band, axes: Sequence[int], inner: list[Statement]) -> list[Statement]:
    """Loops over some axes around statements."""
    for k in reversed(axes):
        axis = band.axes[k]
        inner = [ForLoop(axis.variable, (0,), (axis.size,), inner, cuts=axis.cuts)]
    return inner
