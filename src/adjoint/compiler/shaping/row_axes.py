"""Choose the axes that are the rows, which threads share; whether vectors run along them; and the
values kept for a row or for a block of rows.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from adjoint.compiler.definitions import Prefix, Put, Reduction
from adjoint.compiler.nests import Nest, row_elements
from adjoint.compiler.shaping.bands import cut_axes, joined_axes, make_bands, positions_of
from adjoint.compiler.shaping.bytes import room_of
from adjoint.compiler.shaping.common_values import Sharing
from adjoint.compiler.shaping.draft import Axis, Band, Draft, NotTransposable
from adjoint.compiler.target import Vectors
from adjoint.core.symbolic_sizes import is_open, with_known
from adjoint.loops import loop_programs
from adjoint.loops.loop_programs import (
    Load,
    Local,
    Store,
)


def choose_rows(draft: Draft) -> None:
    """Choose the axes that the function runs over, and whether vectors run along them."""
    if draft.transposed is not None:
        _choose_turned(draft)
    elif len(draft.bands) == 1:
        _choose_of_one(draft, draft.bands[0])
    else:
        _choose_of_many(draft)
    draft.program.rows = math.prod(draft.bands[0].axes[k].size for k in draft.outside())
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
    short = draft.target.vectors.short
    vector = best_axis(band, range(len(axes)), short)
    kept = [k for k, a in enumerate(axes) if not a.reduced]
    along = axes[vector]
    if along.reduced and is_open(along.size) and int(along.size) < short and len(kept) == 1:
        vector = kept[0]  # the remainder of a row of unknown length takes longer than its vectors
    scanned = band.kind is Prefix
    draft.row = vector
    if band.kind is Reduction and len(kept) == len(axes) == 1:
        return  # reduces only dimensions of size 1: a conversion
    if len(axes) == 1 or (scanned and kept == [vector]):
        draft.lanes = not (scanned and axes[vector].reduced)
        return
    wide = axes[vector].size
    long_row = bool(band.loop.reduced) and (is_open(wide) or wide > draft.target.cache.adjacent)
    if not axes[vector].reduced and (kept == [vector] or long_row):
        draft.lanes = True
        return
    draft.vector = vector
    outer = [k for k in kept if k != vector] or [k for k in range(len(axes)) if k != vector]
    long = [k for k in outer if int(axes[k].size) >= draft.target.threads.rows]
    draft.row = long[0] if long else max(outer, key=lambda k: int(axes[k].size))


def _choose_turned(draft: Draft) -> None:
    depth = len(draft.nest.outer)
    if depth > 1 and not _join_outer(draft, depth):
        raise NotTransposable
    draft.outer, draft.lanes = 1, True


def _choose_of_many(draft: Draft) -> None:
    nest = draft.nest
    depth = len(nest.outer)
    apart = depth > 1 and not _join_outer(draft, depth)
    if apart and any(len(b.axes) == depth for b in draft.bands):  # no axis is left for vectors
        nest.outer = nest.outer[:-1]
        make_bands(draft)
        _choose_of_many(draft)
        return
    draft.outer = count = 1 if len(draft.bands[0].axes[0].dims) > 1 else len(nest.outer)
    vectors = draft.target.vectors
    least = short_of(nest, vectors)
    weights = short = 0
    for band in draft.bands:
        inner = range(count, len(band.axes))
        if inner:
            weights += len(band.body)
            if _is_poor(band, band.axes[best_axis(band, inner, vectors.short)], least, vectors):
                short += len(band.body)
    rows = int(math.prod(nest.outer))
    draft.lanes = count == 1 and rows >= vectors.whole and (short * 2 >= weights or not weights)


def short_of(nest: Nest, vectors: Vectors) -> int:
    """The size below which the rows of a nest are too short for vectors."""
    depth = len(nest.outer)
    totals = [m for m in nest.members if m.loop.combining and any(d >= depth for d in m.reduced)]
    return vectors.short_totals if depth and len(totals) > 1 else vectors.short


def _is_poor(band: Band, axis: Axis, short: int, vectors: Vectors) -> bool:
    """Whether vectors along an axis gain little: it is short, or strided while rows are not.

    Rows that are strided gain little, too: an axis that is kept and in order may then be shorter.
    """
    places = [s.place.address for s in band.body if isinstance(s, (Load, Store))]
    steps = [int(p.coefficient(axis.variable)) for p in places]
    row = band.axes[0].variable
    in_order = any(p.coefficient(row) == 1 for p in places)
    if 1 in steps and not axis.reduced and not in_order:
        short = min(short, vectors.short)
    return int(axis.size) < short or (1 not in steps and any(steps) and in_order)


def _join_outer(draft: Draft, count: int) -> bool:
    """Join the outer axes of all bands into one; return whether all positions allow it."""
    bands = draft.bands
    for band in bands:
        joined = joined_axes(band.space[:count], positions_of(band), (), 0)
        if len(joined) != 1 or len({d in band.member.reduced for d in range(count)}) != 1:
            return False
    for band in bands:
        size = math.prod(band.space[:count])
        first = Axis(tuple(range(count)), size, 0 in band.member.reduced)
        band.axes = [first, *band.axes[count:]]
        cut_axes(draft, band)
    return True


def _walk_axes(band: Band) -> None:
    """Let positions count along joined axes, where only the last dimension has a variable."""
    joined = {d for a in band.axes for d in a.dims[:-1]}
    if joined:
        band.body = [loop_programs.reindexed(s, lambda p: p.without(joined)) for s in band.body]
        band.writes = {v: p.without(joined) for v, p in band.writes.items()}


def best_axis(band: Band, candidates: Sequence[int], short: int) -> int:
    """The axis with the most contiguous accesses that is not short."""
    places = [s.place.address for s in band.body if isinstance(s, Load)]
    places += list(band.writes.values())

    def score(k: int) -> tuple[float, int]:
        axis = band.axes[k]
        steps = [abs(int(p.coefficient(axis.variable))) for p in places]
        unit, strided = steps.count(1), sum(1 for s in steps if s > 1)
        return min(int(axis.size), short) / short * (1 + unit) / (1 + strided), k

    return max(candidates, key=score)


def _is_blocked(draft: Draft) -> bool:
    """Whether rows run in blocks: with several bands, or an accumulator for each row."""
    if draft.transposed is not None:
        return True
    return len(draft.bands) > 1 or (len(draft.bands[0].axes) > 1 and draft.bands[0].combines)


def _choose_block(draft: Draft) -> None:
    if draft.transposed is not None:
        draft.block = draft.transposed.width
        return
    rows, nest = int(draft.program.rows), draft.nest
    room = sum(int(row_elements(v, nest.outer)) * room_of(v.dtype.itemsize) for v in nest.local)
    cache, least = draft.target.cache, draft.target.vectors.whole
    block = cache.lanes
    while block > least and room * block > cache.block:
        block //= 2
    if len(draft.bands) == 1 and rows >= 4 * cache.lanes:
        block = 4 * cache.lanes
    draft.block = block


# -- memory of rows -------------------------------------------------------------------------------


def keep_rows(draft: Draft) -> None:
    """Keep values that only the nest reads in arrays of one row or one block."""
    nest, size = draft.nest, draft.block or 1
    for number, value in enumerate(nest.local):
        count = with_known(row_elements(value, nest.outer), draft.program.known) * size
        draft.rooms[value] = Local(f"l{number}", value.dtype, count)
    if draft.rooms:
        for band in draft.bands:
            band.body = loop_programs.relocated(band.body, draft.place)


def share_rows(draft: Draft) -> None:
    """Let bands share values of a block that are slow to read or to recompute."""
    if not draft.block or len(draft.bands) == 1:
        return
    rows = {b.axes[0].variable for b in draft.bands}
    assert len(rows) == 1, "bands of a block have the same rows"
    taken = sum(r.count for r in draft.rooms.values()) * 8
    sharing = Sharing(rows.pop(), draft.block, draft.target.cache.shared - taken)
    found: list[Band] = []
    for band in draft.bands:
        *before, band.body = sharing.band(band.body, turns=len(band.axes) > 1)
        found += [Band(band.member, band.axes[:1], None, body, [], {}) for body in before]
        found.append(band)
    draft.bands = found
    draft.shared = sharing.rooms
