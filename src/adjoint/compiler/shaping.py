"""Nests as loop programs: which axes run where, vectors, cuts, tiles, accumulators.

A nest becomes bands, one for each of its loops: axes around the statements of one iteration. Each
function in `PASSES` changes the draft of one kernel; the last ones work on its loops.

Rows are what threads share. Vectors run along the innermost axis of each band, or, where those are
short, along a block of rows (`block`): then values that stay in the nest are kept one block at a
time, transposed, and reductions of a row need no horizontal sums. Where a condition on a position
decides what is read (the pieces of a value), a loop is cut there and each part has its own body.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import field, replace
from typing import Any

from adjoint.compiler import loops
from adjoint.compiler.accumulators import ACCUMULATORS
from adjoint.compiler.affine import Affine, Rows, row_major, variable
from adjoint.compiler.body import Body, calls
from adjoint.compiler.definitions import Prefix, Put, Reduction
from adjoint.compiler.loops import (
    ABOVE,
    BLOCK,
    FIRST,
    LANE,
    LAST,
    LEFT,
    PIECE,
    ROW,
    VECTOR,
    Cell,
    Check,
    For,
    Guard,
    Kernel,
    Let,
    Load,
    Local,
    Place,
    Position,
    Reset,
    Room,
    Scope,
    Select,
    Statement,
    Store,
    Take,
    Total,
)
from adjoint.compiler.nests import Member, Nest, row_elements
from adjoint.compiler.plan import Loop, Plan
from adjoint.compiler.sharing import Sharing
from adjoint.core.records import record, structure
from adjoint.core.shapes import Shape
from adjoint.core.sizes import is_open, surely
from adjoint.elements.numbers import C_TYPES, suffix
from adjoint.graph.ir import Node, Value
from adjoint.native import cache

WHOLE = 8  # elements in a vector
_LONG_ROW = 1024  # accumulators beside one another
_MANY_ROWS = 32  # that threads can share evenly
_SHORT = 16  # elements below which a dimension is too short for vectors of its own
_MOST_PARTS = 32  # that the axes of a loop are cut into
_LANES = 64  # rows in a block
_BLOCK_BYTES = 1 << 15  # that the values of a block should fit into
_SHARED_BYTES = 1 << 16  # the same, with what its bands keep for one another
_PADDED = 64  # up to this size a loop is run in whole vectors
_TILE = 16  # rows of a tile where a matrix is turned
_FEW = 64  # elements that one float adds up
_FLOATS = 16  # floats in a vector
_UNROLLED = 80  # statements of a reduction whose turns are written out
_MANY = 1 << 40  # turns of a loop whose number only a call knows
_OWN = 10_000  # the first variable of an iteration that no body has
MOST_PARTIAL = 1 << 15  # accumulators of one thread


class NotTurned(Exception):
    """The rows of a nest are not one axis, along which vectors could run."""


@structure
class Axis:
    """One or more dimensions of a loop that are run as one."""

    dims: tuple[int, ...]  # of the loop's space, neighbours; the last is its variable
    size: int
    reduced: bool
    cuts: tuple[int, ...] = ()  # where conditions change

    @property
    def variable(self) -> int:
        return self.dims[-1]


@structure
class Band:
    """A loop of a nest: its axes, and what one iteration does."""

    member: Member
    axes: list[Axis]
    kind: type | None  # Reduction, Prefix or Put; None: every element is made by itself
    body: list[Statement]  # of one iteration, ends included
    totals: list[Total]
    writes: dict[Value, Affine]

    @property
    def loop(self) -> Loop:
        return self.member.loop

    @property
    def combines(self) -> bool:
        return self.kind in (Reduction, Prefix)


@record
class Turned:
    """Values of which a block of rows lies turned: an element of one row, that of the next row."""

    values: dict[Value, Rows]
    width: int  # rows of a block

    def address(self, value: Value, address: Affine, space: Shape, depth: int) -> Affine:
        """Where an element is, from where row 0 would be; the first dimensions are the rows."""
        rows = address.without(range(depth, len(space)))
        bounds = [(0, size) for size in space]
        element = self.values[value].element(address.without(range(depth)), bounds)
        steps = [step * self.values[value].behind for step in row_major(space[:depth])]
        assert element is not None, "the row has no such element"
        assert rows.coefficients(depth) == steps, "another row"
        row = Affine(0, tuple(enumerate(row_major(space[:depth]))))
        return element * self.width + row


@structure
class Draft:
    """A kernel on its way: a nest, its bands, and which axes run where."""

    plan: Plan
    nest: Nest
    kernel: Kernel
    turned: Turned | None = None  # what it finds turned: then vectors run along rows
    bands: list[Band] = field(default_factory=list)
    outer: int = 0  # how many axes of each band the rows are, or, of a single one, …
    row: int = -1  # … which axis
    vector: int = -1  # the axis of vectors, where the nest has one band
    lanes: bool = False  # whether vectors run along rows
    block: int = 0  # rows of which values are kept; 0: none
    rooms: dict[Value, Local] = field(default_factory=dict)  # of values that stay in the nest
    shared: list[Local] = field(default_factory=list)  # of what several bands want

    def place(self, place: Place) -> Place:
        """Where an element is: in memory, or in that of its row or its block of rows."""
        room = self.rooms.get(place.value) if isinstance(place.value, Value) else None
        if room is None:
            return place
        inside = place.address.without(range(len(self.nest.outer)))
        address = inside * self.block + variable(LANE) if self.block else inside
        return Place(room, address)

    def outside(self) -> list[int]:
        """The axes of a band that are rows."""
        return [self.row] if self.row >= 0 else list(range(self.outer))


def kernel(plan: Plan, nest: Nest, name: str, turned: Turned | None = None) -> Kernel:
    """The loop program of a nest."""
    draft = Draft(plan, nest, Kernel(name, 1), turned)
    if turned is not None:
        draft.kernel.turned = frozenset(turned.values)
    for change in PASSES:
        change(draft)
    if cache.debugging():
        draft.kernel.comments = _comments(nest)
    return draft.kernel


def _comments(nest: Nest) -> list[str]:
    """Which lines of the user's program a nest comes from."""
    places: dict[str, list[str]] = {}
    for member in nest.members:
        made = [v.node for v in member.loop.inside]
        for node in (*made, *member.loop.combining):
            if node is not None:
                places.setdefault(node.place or "no line", []).append(node.op.name)
    return [f"/* {place}: {', '.join(names)} */" for place, names in places.items()]


# -- bands ----------------------------------------------------------------------------------------


def make_bands(draft: Draft) -> None:
    """One band for each loop of the nest, with neighbouring dimensions joined where they can be."""
    draft.bands = [_band(draft, number) for number in range(len(draft.nest.members))]


def _band(draft: Draft, number: int) -> Band:
    plan, member = draft.plan, draft.nest.members[number]
    loop, body = member.loop, member.body
    kind = type(plan.definitions[loop.combining[0]]) if loop.combining else None
    band = Band(member, [], kind, [], [], member.writes)
    if band.combines:
        band.totals = [_total(plan, n, f"acc{number}_{k}") for k, n in enumerate(loop.combining)]
    band.body = [*body.statements, *_ends(plan, band, body)]
    depth = len(draft.nest.outer)
    if draft.turned is not None:
        _turn(band, draft.turned, depth)
    fixed = depth if len(draft.nest.members) > 1 or draft.turned is not None else 0
    band.axes = _joined(loop.space, _positions(band), member.reduced, fixed)
    _cut_axes(band)
    return band


def _turn(band: Band, turned: Turned, depth: int) -> None:
    """Let a band read and write the values that lie turned where they lie."""

    def there(value: Any, address: Affine) -> Affine:
        if value not in turned.values:
            return address
        return turned.address(value, address, band.loop.space, depth)

    def move(place: Place) -> Place:
        return replace(place, address=there(place.value, place.address))

    band.body = loops.relocated(band.body, move)
    band.writes = {v: there(v, a) for v, a in band.writes.items()}


def _total(plan: Plan, node: Node, name: str) -> Total:
    definition = plan.definitions[node]
    c_type = "double" if node.output.dtype.is_floating_point else "long long"
    running = isinstance(definition, Prefix)
    start = loops.start(definition.kind, c_type, running=running)
    return Total(node, definition.kind, name, c_type, start)


def _ends(plan: Plan, band: Band, body: Body) -> Iterator[Statement]:
    """What an iteration does with its values."""
    space, known = band.loop.space, len(body.statements)
    for value in band.loop.stored:
        yield Store(Place(value, band.writes[value]), body.aligned(value, space))
    for total in band.totals:
        source = body.source(plan.definitions[total.node], space)
        yield Take(total.kind, Cell(total.name), source)
        if band.kind is Prefix:
            output = total.node.output
            place = Place(output, band.writes[output])
            yield Store(place, "CELL", source=Cell(total.name))
    if band.kind is Put:
        (node,) = band.loop.combining
        definition = plan.definitions[node]
        place = body.put_place(node.output, definition)
        yield Store(place, body.source(definition, space), definition.accumulate)
    assert len(body.statements) == known, "everything was asked for before"


def _positions(band: Band) -> list[Affine]:
    """Everything that depends on where in the space a band is."""
    found = [p for s in band.body for p in loops.positions(s)]
    return [*found, *band.writes.values()]


def _joined(
    space: Shape, positions: Sequence[Affine], reduced: tuple[int, ...], fixed: int
) -> list[Axis]:
    """Join neighbouring dimensions that every position walks as one; the first `fixed` stay."""
    axes: list[Axis] = []
    steps = [p.coefficients(len(space)) for p in dict.fromkeys(positions)]
    for d, size in enumerate(space):
        last = axes[-1] if axes else None
        joins = (
            last is not None
            and d > fixed
            and last.reduced == (d in reduced)
            and all(s[d - 1] == s[d] * size for s in steps)
        )
        if joins and last is not None:
            axes[-1] = Axis((*last.dims, d), last.size * size, last.reduced)
        else:
            axes.append(Axis((d,), size, d in reduced))
    return axes


def _cut_axes(band: Band) -> None:
    """Note where conditions on one axis change, if that makes few parts."""
    found: dict[int, set[int]] = {}
    for guard in dict.fromkeys(_guards(band.body)):
        if len(guard.position.terms) != 1:
            continue
        (dim, step) = guard.position.terms[0]
        number = next(k for k, a in enumerate(band.axes) if dim in a.dims)
        axis = band.axes[number]
        if len(axis.dims) != 1:
            continue
        if is_open(guard.position.offset) and abs(step) != 1:
            continue
        edges = [_first(guard.position.offset, step, edge) for edge in (guard.low, guard.high)]
        found.setdefault(number, set()).update(e for e in edges if _is_inside(e, axis.size))
    parts = 1
    for number in sorted(found, key=lambda k: len(found[k])):
        parts *= len(found[number]) + 1
        cuts = sorted(found[number], key=int)
        in_order = all(surely(b - a) or a < b for a, b in itertools.pairwise(cuts))
        if parts <= _MOST_PARTS and in_order:
            band.axes[number].cuts = tuple(cuts)


def _is_inside(edge: int, size: int) -> bool:
    """Whether an edge cuts a loop; for some sizes it may be an end, and a part empty."""
    if edge in (0, size):
        return False
    return (surely(edge) and surely(size - edge)) or 0 < edge < size


def _guards(statements: Sequence[Statement]) -> Iterator[Guard]:
    for statement in statements:
        if isinstance(statement, (Load, Check)):
            yield from statement.guards
        elif isinstance(statement, Select):
            yield statement.guard


def _first(offset: int, step: int, edge: int) -> int:
    """The first i for which offset + step·i has passed the edge.

    >>> _first(-1, 2, 0), _first(5, -2, 3)
    (1, 2)
    """
    return -((offset - edge) // step) if step > 0 else (offset - edge) // -step + 1


# -- which axes run where -------------------------------------------------------------------------


def choose_rows(draft: Draft) -> None:
    """Choose the axes that the function runs over, and whether vectors do too."""
    if draft.turned is not None:
        _choose_turned(draft)
    elif len(draft.bands) == 1:
        _choose_of_one(draft, draft.bands[0])
    else:
        _choose_of_many(draft)
    draft.kernel.rows = math.prod(draft.bands[0].axes[k].size for k in draft.outside())
    if draft.lanes and _is_blocked(draft):
        _choose_block(draft)
    for band in draft.bands:
        _walk_axes(band)


def _choose_of_one(draft: Draft, band: Band) -> None:
    axes = band.axes
    if not axes:
        return
    draft.row = 0
    if band.kind is Put:
        return
    vector = _best_axis(band, range(len(axes)))
    kept = [k for k, a in enumerate(axes) if not a.reduced]
    scanned = band.kind is Prefix
    draft.row = vector
    if band.kind is Reduction and len(kept) == len(axes) == 1:
        return  # over sizes of 1 alone: a conversion
    if len(axes) == 1 or (scanned and kept == [vector]):
        draft.lanes = not (scanned and axes[vector].reduced)
        return
    wide = axes[vector].size
    long_row = bool(band.loop.reduced) and (is_open(wide) or wide > _LONG_ROW)
    if not axes[vector].reduced and (kept == [vector] or long_row):
        draft.lanes = True
        return
    draft.vector = vector
    outer = [k for k in kept if k != vector] or [k for k in range(len(axes)) if k != vector]
    long = [k for k in outer if int(axes[k].size) >= _MANY_ROWS]
    draft.row = long[0] if long else max(outer, key=lambda k: int(axes[k].size))


def _choose_turned(draft: Draft) -> None:
    depth = len(draft.nest.outer)
    if depth > 1 and not _join_outer(draft.bands, depth):
        raise NotTurned
    draft.outer, draft.lanes = 1, True


def _choose_of_many(draft: Draft) -> None:
    nest = draft.nest
    depth = len(nest.outer)
    apart = depth > 1 and not _join_outer(draft.bands, depth)
    if apart and any(len(b.axes) == depth for b in draft.bands):  # no axis is left for vectors
        nest.outer = nest.outer[:-1]
        make_bands(draft)
        _choose_of_many(draft)
        return
    draft.outer = count = 1 if len(draft.bands[0].axes[0].dims) > 1 else len(nest.outer)
    weights = short = 0
    for band in draft.bands:
        inner = range(count, len(band.axes))
        if inner:
            weights += len(band.body)
            if _is_poor(band, band.axes[_best_axis(band, inner)]):
                short += len(band.body)
    rows = int(math.prod(nest.outer))
    draft.lanes = count == 1 and rows >= WHOLE and (short * 2 >= weights or not weights)


def _is_poor(band: Band, axis: Axis) -> bool:
    """Whether vectors along an axis gain little: it is short, or memory is read across it while
    rows are read in order.
    """
    if int(axis.size) < _SHORT:
        return True
    places = [s.place.address for s in band.body if isinstance(s, (Load, Store))]
    steps = [int(p.coefficient(axis.variable)) for p in places]
    row = band.axes[0].variable
    in_order = any(p.coefficient(row) == 1 for p in places)
    return 1 not in steps and any(steps) and in_order


def _join_outer(bands: list[Band], count: int) -> bool:
    """Join the outer axes of all bands into one, if every position allows it."""
    for band in bands:
        joined = _joined(band.loop.space[:count], _positions(band), (), 0)
        if len(joined) != 1 or len({d in band.member.reduced for d in range(count)}) != 1:
            return False
    for band in bands:
        size = math.prod(band.loop.space[:count])
        first = Axis(tuple(range(count)), size, 0 in band.member.reduced)
        band.axes = [first, *band.axes[count:]]
        _cut_axes(band)
    return True


def _walk_axes(band: Band) -> None:
    """Let positions count along axes: of dimensions that are joined only the last one counts."""
    joined = {d for a in band.axes for d in a.dims[:-1]}
    if joined:
        band.body = [loops.reindexed(s, lambda p: p.without(joined)) for s in band.body]
        band.writes = {v: p.without(joined) for v, p in band.writes.items()}


def _best_axis(band: Band, candidates: Sequence[int]) -> int:
    """The axis along which memory is read and written in order, and that is not short."""
    places = [s.place.address for s in band.body if isinstance(s, Load)]
    places += list(band.writes.values())

    def score(k: int) -> tuple[float, int]:
        axis = band.axes[k]
        steps = [abs(int(p.coefficient(axis.variable))) for p in places]
        unit, strided = steps.count(1), sum(1 for s in steps if s > 1)
        return min(int(axis.size), _SHORT) / _SHORT * (1 + unit) / (1 + strided), k

    return max(candidates, key=score)


def _is_blocked(draft: Draft) -> bool:
    """Whether rows come in blocks: several bands, or accumulators beside one another."""
    if draft.turned is not None:
        return True
    return len(draft.bands) > 1 or (len(draft.bands[0].axes) > 1 and draft.bands[0].combines)


def _choose_block(draft: Draft) -> None:
    if draft.turned is not None:
        draft.block = draft.turned.width
        return
    rows, nest = int(draft.kernel.rows), draft.nest
    room = sum(int(row_elements(v, nest.outer)) * v.dtype.itemsize for v in nest.local)
    block = _LANES
    while block > WHOLE and room * block > _BLOCK_BYTES:
        block //= 2
    if len(draft.bands) == 1 and rows >= 4 * _LANES:
        block = 4 * _LANES
    draft.block = block


# -- memory of rows -------------------------------------------------------------------------------


def keep_rows(draft: Draft) -> None:
    """Let values that only the nest reads lie in the memory of one row, or of one block."""
    nest, size = draft.nest, draft.block or 1
    for number, value in enumerate(nest.local):
        c_type, count = C_TYPES[value.dtype.name], row_elements(value, nest.outer) * size
        draft.rooms[value] = Local(f"l{number}", c_type, count)
    if draft.rooms:
        for band in draft.bands:
            band.body = loops.relocated(band.body, draft.place)


def share_rows(draft: Draft) -> None:
    """Let bands keep for one another, block by block, what is slow to read or to compute again."""
    if not draft.block or len(draft.bands) == 1:
        return
    rows = {b.axes[0].variable for b in draft.bands}
    assert len(rows) == 1, "bands of a block have the same rows"
    taken = sum(r.count for r in draft.rooms.values()) * 8
    sharing = Sharing(rows.pop(), draft.block, _SHARED_BYTES - taken)
    found: list[Band] = []
    for band in draft.bands:
        *before, band.body = sharing.band(band.body, turns=len(band.axes) > 1)
        found += [Band(band.member, band.axes[:1], None, body, [], {}) for body in before]
        found.append(band)
    draft.bands = found
    draft.shared = sharing.rooms


# -- loops ----------------------------------------------------------------------------------------


def build_loops(draft: Draft) -> None:
    """Put loops around the bands: rows outermost, vectors innermost."""
    made = draft.kernel
    rooms = [Room(r.c_type, r.name, r.count) for r in (*draft.rooms.values(), *draft.shared)]
    _declare_partials(draft)
    if draft.block:
        made.body.append(_in_blocks(draft, rooms))
    elif draft.lanes:
        made.body += _straight(draft, draft.bands[0])
    elif not draft.outside():
        made.body += _inside(draft, draft.bands[0])
    elif len(draft.bands) == 1:
        made.body += _row_loop(draft, draft.bands[0])
    else:
        inner = [*rooms, *_row_indices(draft)]
        for band in draft.bands:
            inner.append(_scope(draft, band))
        made.body.append(For(ROW, (FIRST,), (LAST,), inner))


def _scope(draft: Draft, band: Band) -> Scope:
    return Scope(_inside(draft, band), _extents(band))


def _extents(band: Band) -> dict[int, tuple[int, int]]:
    return {a.variable: (0, a.size) for a in band.axes}


def _row_loop(draft: Draft, band: Band) -> list[Statement]:
    axis = band.axes[draft.row]
    before: list[Statement] = []
    if band.kind is Prefix and axis.reduced:
        before = [Room(t.c_type, t.name, start=t.start) for t in band.totals]
    return [*before, _rows(axis, _inside(draft, band))]


def _rows(axis: Axis, body: list[Statement], **more: Any) -> For:
    return For(axis.variable, (FIRST, 0), (LAST, axis.size), body, cuts=axis.cuts, **more)


def _straight(draft: Draft, band: Band) -> list[Statement]:
    """Vectors along the rows themselves."""
    totals = tuple(band.totals)
    before = [Room(t.c_type, t.name, start=t.start) for t in totals]
    after = [Reset(Cell(f"{t.name}p", Affine()), t.name) for t in totals]
    along = _rows(band.axes[draft.row], list(band.body), vector=True, totals=totals)
    return [*before, along, *after]


def _in_blocks(draft: Draft, rooms: Sequence[Statement]) -> For:
    """Blocks of rows, in which vectors run along the rows."""
    inner: list[Statement] = list(rooms)
    for band in draft.bands:
        inner.append(_scope(draft, band))
    return For(BLOCK, (FIRST,), (LAST,), inner, step=draft.block)


def _row_indices(draft: Draft) -> list[Statement]:
    """The indices of the outer axes from the number of the row."""
    axes = [draft.bands[0].axes[k] for k in draft.outside()]
    lines: list[Statement] = []
    rest = "{0}"
    for axis in reversed(axes[1:]):
        lines.append(Position(axis.variable, f"({rest}) % {axis.size}", (variable(ROW),)))
        rest = f"({rest}) / {axis.size}"
    return [*lines, Position(axes[0].variable, rest, (variable(ROW),))]


def _inside(draft: Draft, band: Band) -> list[Statement]:
    """The axes of a band that are inside a row, or inside a block of rows."""
    outside = draft.outside()
    inner = [k for k in range(len(band.axes)) if k not in outside]
    kept = [k for k in inner if not band.axes[k].reduced]
    reduced = [k for k in inner if band.axes[k].reduced]
    if draft.block:
        return _combined(draft, band, kept, reduced, outside[0])
    if not inner:
        if band.kind is not Reduction:
            return list(band.body)
        rooms = [Room(t.c_type, t.name, start=t.start) for t in band.totals]
        return [*rooms, *band.body, *_finish(draft, band, {})]
    if band.kind is Put:
        return _around(band, inner, list(band.body))
    vector = draft.vector if len(draft.bands) == 1 else _best_axis(band, inner)
    return _combined(
        draft, band, [k for k in kept if k != vector], [k for k in reduced if k != vector], vector
    )


def _combined(
    draft: Draft, band: Band, kept: list[int], reduced: list[int], vector: int
) -> list[Statement]:
    """The loops over kept axes enclose the loops over reduced ones, these the one of vectors."""
    axis = band.axes[vector]

    def along(body: list[Statement], **more: Any) -> For:
        if draft.block:
            place = Position(axis.variable, "{0} + {1}", (variable(BLOCK), variable(LANE)))
            wanted = [place] if loops.depends(body, axis.variable) else []
            return For(LANE, (0,), ("lanes",), [*wanted, *body], **more)
        return For(axis.variable, (0,), (axis.size,), body, cuts=axis.cuts, **more)

    if not band.combines:
        return _around(band, [*kept, *reduced], [along(list(band.body), vector=True)])
    scans = band.kind is Prefix
    each = not axis.reduced  # an accumulator for each element of the vector
    over_rows = any(band.axes[k].reduced for k in draft.outside())
    if each and not scans and not reduced and over_rows:
        cells = {t.name: Cell(f"{t.name}p", band.writes[t.node.output]) for t in band.totals}
        return _around(band, kept, [along(_taking(band, cells), vector=True)])
    cells = {t.name: Cell(t.name) for t in band.totals}
    lines: list[Statement] = []
    if each and not scans and draft.block and _is_unrolled(band, reduced):
        lines += [Room(t.c_type, t.name, start=t.start) for t in band.totals]
        lines += _unrolled(band, reduced, _taking(band, cells))
        return _around(band, kept, [along([*lines, *_finish(draft, band, cells)], vector=True)])
    if each:
        lane = variable(LANE if draft.block else axis.variable)
        cells = {t.name: Cell(t.name, lane) for t in band.totals}
        lines += [Room(t.c_type, t.name, draft.block or axis.size) for t in band.totals]
        lines.append(along([Reset(cells[t.name], t.start) for t in band.totals]))
    else:
        lines += [Room(t.c_type, t.name, start=t.start) for t in band.totals]
    totals = () if each else tuple(band.totals)
    inner = along(_taking(band, cells), vector=each or not scans, totals=totals)
    lines += _around(band, reduced, [inner])
    if not scans:
        finish = _finish(draft, band, cells)
        lines += [along(finish)] if each else finish
    return _around(band, kept, lines)


def _is_unrolled(band: Band, axes: Sequence[int]) -> bool:
    """Whether a reduction is so short that its accumulators stay in registers."""
    turns = math.prod(band.axes[k].size for k in axes)
    cut = any(band.axes[k].cuts for k in axes)
    return not is_open(turns) and not cut and turns * len(band.body) <= _UNROLLED


def _unrolled(band: Band, axes: Sequence[int], body: list[Statement]) -> list[Statement]:
    """The turns of loops over some axes, one after the other."""
    for k in reversed(axes):
        axis = band.axes[k]
        body = [For(axis.variable, (turn,), (turn + 1,), body) for turn in range(axis.size)]
    return body


def _taking(band: Band, cells: dict[str, Cell]) -> list[Statement]:
    """The statements of a band with other accumulators."""
    found: list[Statement] = []
    for statement in band.body:
        if isinstance(statement, Take):
            statement = replace(statement, cell=cells[statement.cell.name])
        elif isinstance(statement, Store) and statement.source is not None:
            statement = replace(statement, source=cells[statement.source.name])
        found.append(statement)
    return found


def _finish(draft: Draft, band: Band, cells: dict[str, Cell]) -> list[Statement]:
    """Store accumulators, or add them to those that last through all rows."""
    found: list[Statement] = []
    lasting = {t.name for t, _ in draft.kernel.partials}
    for total in band.totals:
        cell = cells.get(total.name, Cell(total.name))
        address = band.writes[total.node.output]
        if total.name in lasting:
            found.append(Take(total.kind, Cell(f"{total.name}p", address), "(CELL)", cell))
            continue
        text = finished(draft.plan, total.node, "CELL")
        place = draft.place(Place(total.node.output, address))
        found.append(Store(place, text, source=cell))
    return found


def finished(plan: Plan, node: Node, name: str) -> str:
    """The result of a reduction from its accumulator."""
    definition = plan.definitions[node]
    if not isinstance(definition, Reduction) or definition.kind != "mean":
        return name
    count = math.prod(definition.source.shape) // max(math.prod(node.output.shape), 1)
    return f"{name} / (double){count}" if is_open(count) else f"{name} / {count}.0"


def _declare_partials(draft: Draft) -> None:
    """Accumulators that last through all rows: each thread has its own."""
    for band in draft.bands:
        if band.kind is Reduction and any(band.axes[k].reduced for k in draft.outside()):
            for total in band.totals:
                count = math.prod(total.node.output.shape)
                draft.kernel.partials.append((total, count))


def _around(band: Band, axes: Sequence[int], inner: list[Statement]) -> list[Statement]:
    """Loops over some axes around statements."""
    for k in reversed(axes):
        axis = band.axes[k]
        inner = [For(axis.variable, (0,), (axis.size,), inner, cuts=axis.cuts)]
    return inner


# -- cuts -----------------------------------------------------------------------------------------


def cut_loops(draft: Draft) -> None:
    """Cut loops where conditions change, and leave out what the parts do not need."""
    if any(a.cuts for b in draft.bands for a in b.axes):
        bounds = _extents(draft.bands[0]) if len(draft.bands) == 1 else {}
        draft.kernel.body = _cut(draft.kernel.body, bounds)


def _cut(statements: list[Statement], bounds: dict[int, tuple[int, int]]) -> list[Statement]:
    found: list[Statement] = []
    for statement in statements:
        if isinstance(statement, Scope):
            found.append(Scope(_cut(statement.body, bounds | statement.bounds)))
            continue
        if not isinstance(statement, For):
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
        return loops.within(found, bounds)
    return found


# -- tiles and short loops ------------------------------------------------------------------------


def tile(draft: Draft) -> None:
    """Walk a matrix in tiles where it is read along one axis and written along the other."""
    band = draft.bands[0]
    if len(draft.bands) > 1 or len(band.axes) != 2 or band.kind or draft.lanes or draft.vector < 0:
        return
    rows, columns = band.axes[draft.row], band.axes[draft.vector]
    if rows.cuts or columns.cuts or min(int(rows.size), int(columns.size)) <= _TILE:
        return
    i, j = rows.variable, columns.variable
    places = [s.place.address for s in band.body if isinstance(s, (Load, Store))]
    if not any(p.coefficient(i) == 1 and int(p.coefficient(j)) > WHOLE for p in places):
        return
    wide = 4 * _TILE
    along = For(j, (variable(LEFT),), (variable(LEFT) + Affine(wide), columns.size), band.body)
    along.vector = True
    across = For(i, (variable(ABOVE),), (variable(ABOVE) + Affine(_TILE), LAST), [along])
    right = For(LEFT, (0,), (columns.size,), [across], step=wide)
    draft.kernel.body = [For(ABOVE, (FIRST,), (LAST,), [right], step=_TILE)]


def pad_short(draft: Draft) -> None:
    """Run short loops that call functions in whole vectors: the elements beside them would call
    slow scalar functions.
    """
    short = [b for b in draft.bands if any(_is_short(a.size) for a in b.axes)]
    if short and all(b.kind in (None, Reduction) for b in draft.bands):
        draft.kernel.body = _padded(draft.kernel.body, draft.kernel)


def _is_short(size: Any) -> bool:
    return not is_open(size) and 1 < size <= _PADDED


def _padded(statements: list[Statement], kernel: Kernel) -> list[Statement]:
    found: list[Statement] = []
    for statement in statements:
        if isinstance(statement, (For, Scope)):
            statement.body = _padded(statement.body, kernel)
        padded = _in_whole_vectors(statement, kernel.rows) if isinstance(statement, For) else None
        if isinstance(statement, For) and padded is not None:
            kernel.whole |= FIRST in statement.low
            found.append(padded)
        else:
            found.append(statement)
    return found


def _in_whole_vectors(loop: For, rows: int) -> For | Scope | None:
    """Vectors that overlap; or copies of what is read, with elements of no meaning behind them, and
    then whole vectors.
    """
    size = loop.high[-1]
    whole = loop.low[-1] == 0 and isinstance(size, int)
    if not loop.vector or loop.variable < 0 or not whole or not _is_short(size):
        return None
    if (loop.low[0] == FIRST and size != rows) or size % WHOLE == 0:
        return None
    kinds = {type(s) for s in loop.body}
    if kinds - {Load, Let, Store, Take} or not _calls_functions(loop.body):
        return None
    if any(isinstance(s, Load) and s.guards for s in loop.body):
        return None
    takes = [s for s in loop.body if isinstance(s, Take)]
    if any(s.cell.address is not None for s in takes) or (takes and loop.low[0] != FIRST):
        return None
    ways = [ACCUMULATORS[s.kind] for s in takes]
    overlaps = size > WHOLE and not loops.overwrites(loop.body)
    if overlaps and all(way.sums or way.chooses for way in ways):
        return _overlapping(loop, size)
    if not all(way.sums for way in ways):
        return None
    room, v = -(-size // WHOLE) * WHOLE, loop.variable
    before: list[Statement] = []
    inside: list[Statement] = []
    after: list[Statement] = []

    def each(low: int, high: int, body: list[Statement]) -> For:
        return For(v, (low,), (high,), body)

    for statement in loop.body:
        if isinstance(statement, Load) and statement.place.address.terms:
            c_type, name = statement.c_type, statement.name
            copy = Local(f"w{name}", c_type, room)
            there = Place(copy, variable(v))
            before.append(Room(c_type, copy.name, room))
            before.append(each(0, size, [statement, Store(there, name)]))
            first = Load(name, c_type, Place(copy, Affine()))
            before.append(each(size, room, [first, Store(there, name)]))
            inside.append(replace(statement, place=there))
        elif isinstance(statement, (Store, Take)):
            result = Local(f"r{len(after)}", _type_of(loop, statement), room)
            name = f"v{_OWN + len(after)}"
            there = Place(result, variable(v))
            before.append(Room(result.c_type, result.name, room))
            inside.append(Store(there, statement.text))
            read = Load(name, result.c_type, there)
            after.append(each(0, size, [read, replace(statement, text=name)]))
        else:
            inside.append(statement)
    vectors = replace(loop, low=(0,), high=(room,), body=inside, totals=())
    return Scope([*before, vectors, *after])


def _overlapping(loop: For, size: int) -> For:
    """The last vector begins early enough to end with the loop: some elements are computed twice,
    which changes nothing, and enter sums once.
    """
    wide = 2 * WHOLE if size >= 2 * WHOLE and _are_narrow(loop.body) else WHOLE
    place = Position(
        loop.variable, f"SMALLER({{0}}, {size - wide}) + {{1}}", (variable(VECTOR), variable(LANE))
    )
    body: list[Statement] = [place]
    for statement in loop.body:
        if isinstance(statement, Take) and ACCUMULATORS[statement.kind].sums:
            name, c_type = f"v{_OWN + len(body)}", _type_of(loop, statement)
            text = f"({{0}} >= {{1}} ? {statement.text} : 0)"
            if c_type in ("float", "double"):
                text = f"ad_when{suffix(c_type)}({{0}} >= {{1}}, {statement.text})"
            body.append(Let(name, c_type, text, (variable(loop.variable), variable(VECTOR))))
            statement = replace(statement, text=name)
        body.append(statement)
    along = replace(loop, variable=LANE, low=(0,), high=(wide,), body=body)
    return For(VECTOR, (0,), (size,), [along], step=wide)


def _are_narrow(statements: Sequence[Statement]) -> bool:
    """Whether all variables are floats: twice as many fit into a vector."""
    return all(s.c_type == "float" for s in statements if isinstance(s, (Load, Let)))


def _type_of(loop: For, statement: Store | Take) -> str:
    """The type of what a statement writes."""
    if isinstance(statement, Take):
        return next(t.c_type for t in loop.totals if t.name == statement.cell.name)
    target = statement.place.value
    return target.c_type if isinstance(target, Local) else C_TYPES[target.dtype.name]


def _calls_functions(statements: Sequence[Statement]) -> bool:
    return any(isinstance(s, Let) and calls(s.text) for s in statements)


# -- narrow accumulators --------------------------------------------------------------------------


def narrow_totals(draft: Draft) -> None:
    """Let accumulators of float32 be float32 where a sum is short: conversions to double in every
    iteration would halve the vectors. A long sum is one of short ones, which are added as doubles.
    """
    totals = {t.name: t for b in draft.bands for t in b.totals if _is_narrow(t)}
    if totals:
        draft.kernel.body = _narrowed(draft.kernel.body, totals)


def _is_narrow(total: Total) -> bool:
    way = ACCUMULATORS[total.kind]
    return total.node.output.dtype.name == "float32" and (way.sums or way.chooses)


def _narrowed(statements: list[Statement], totals: dict[str, Total]) -> list[Statement]:
    found: list[Statement] = []
    for place, statement in enumerate(statements):
        if isinstance(statement, (For, Scope)):
            statement.body = _narrowed(statement.body, totals)
        total = totals.get(statement.name) if isinstance(statement, Room) else None
        if total is not None and total.start != "-0.0":
            if _is_short_sum(statements[place + 1 :], total):
                _retype(statements[place + 1 :], total)
                statement = replace(statement, c_type="float")
            else:
                for later in statements[place + 1 :]:
                    _shorten(later, total, totals)
        found.append(statement)
    return found


def _is_short_sum(statements: Sequence[Statement], total: Total) -> bool:
    """Whether few elements meet in one float of an accumulator."""
    if ACCUMULATORS[total.kind].chooses:
        return True
    counts = list(_counts(statements, total, 1))
    return all(not is_open(c) and c <= _FEW for c in counts)


def _counts(statements: Sequence[Statement], total: Total, around: int) -> Iterator[int]:
    """How many elements each statement that feeds an accumulator adds, those of lanes apart."""
    for statement in statements:
        if isinstance(statement, Take) and statement.cell.name == total.name:
            yield around
        elif isinstance(statement, Scope):
            yield from _counts(statement.body, total, around)
        elif isinstance(statement, For):
            low, high = statement.low[-1], statement.high[-1]
            known = isinstance(low, int) and isinstance(high, int)
            turns = -(-(high - low) // statement.step) if known else _MANY
            own = any(
                isinstance(s, Take) and s.cell.address and s.cell.address.coefficient(
                    statement.variable
                )
                for s in statement.body
            )  # fmt: skip
            if own or statement.variable == LANE:
                turns = 1
            elif any(t.name == total.name for t in statement.totals):
                turns = turns if is_open(turns) else -(-turns // _FLOATS)
            yield from _counts(statement.body, total, around * turns)


def _retype(statements: Sequence[Statement], total: Total) -> None:
    """Let the vectors of loops know that an accumulator is a float."""
    for statement in statements:
        if isinstance(statement, For):
            statement.totals = tuple(
                replace(t, c_type="float") if t.name == total.name else t for t in statement.totals
            )
        if isinstance(statement, (For, Scope)):
            _retype(statement.body, total)


def _shorten(statement: Statement, total: Total, totals: dict[str, Total]) -> None:
    """Cut the loop of vectors that feeds an accumulator, and perhaps others, into pieces with short
    sums.
    """
    if isinstance(statement, Scope) or (isinstance(statement, For) and not statement.vector):
        for inner in statement.body:
            _shorten(inner, total, totals)
        return
    names = [t.name for t in statement.totals] if isinstance(statement, For) else []
    if not isinstance(statement, For) or total.name not in names or not totals.keys() >= {*names}:
        return
    sums = [t for t in statement.totals if not ACCUMULATORS[t.kind].chooses]
    pieces = {t.name: replace(t, name=f"{t.name}f", c_type="float") for t in sums}
    body = [
        replace(s, cell=Cell(pieces[s.cell.name].name))
        if isinstance(s, Take) and s.cell.name in pieces
        else s
        for s in statement.body
    ]
    low, v = variable(PIECE), statement.variable
    ends = (low + Affine(_FEW * _FLOATS), *statement.high)
    inner_totals = tuple(pieces.get(t.name, t) for t in statement.totals)
    inner = For(v, (low,), ends, body, vector=True, totals=inner_totals)
    statement.variable, statement.step, statement.vector = PIECE, _FEW * _FLOATS, False
    statement.totals = ()
    rooms = [Room("float", p.name, start=p.start) for p in pieces.values()]
    takes = [Take(t.kind, Cell(t.name), pieces[t.name].name) for t in sums]
    statement.body = [*rooms, inner, *takes]


# -- facts ----------------------------------------------------------------------------------------


def count_work(draft: Draft) -> None:
    """How much there is to do, and whether threads can share it."""
    made = draft.kernel
    made.work = sum(math.prod(m.loop.space) * m.body.work() for m in draft.nest.members)
    sequential = any(m.sequential for m in draft.nest.members)
    few = is_open(made.partial) or made.partial <= MOST_PARTIAL
    made.divisible = int(made.rows) > 1 and few and not sequential and not made.whole


Pass = Callable[[Draft], None]
PASSES: tuple[Pass, ...] = (
    make_bands, choose_rows, keep_rows, share_rows, build_loops, tile, cut_loops, pad_short,
    narrow_totals, count_work,
)  # fmt: skip
