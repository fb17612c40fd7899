"""Bands: the axes of each loop of a nest, with neighbours joined and cuts at conditions."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from adjoint.compiler.body import Body
from adjoint.compiler.definitions import Prefix, Put
from adjoint.compiler.plan import Plan
from adjoint.compiler.shaping.draft import Axis, Band, Draft, TransposedBlocks
from adjoint.core import dtypes
from adjoint.core.shapes import Shape, joined
from adjoint.core.symbolic_sizes import is_open, surely, with_known
from adjoint.expressions.trees import Operand
from adjoint.graph.ir import Node
from adjoint.loops import loop_programs
from adjoint.loops.affine import Affine
from adjoint.loops.loop_programs import (
    CELL,
    Cell,
    Check,
    Guard,
    Load,
    Place,
    Select,
    Statement,
    Store,
    Take,
    Total,
)


def make_bands(draft: Draft) -> None:
    """Make a band of each loop of the nest, and join its neighbouring dimensions where possible."""
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
    if draft.transposed is not None:
        _read_transposed(band, draft.transposed, depth)
    fixed = depth if len(draft.nest.members) > 1 or draft.transposed is not None else 0
    band.space = with_known(loop.space, draft.program.known)
    if draft.program.known:
        band.body = [loop_programs.with_known_sizes(s, draft.program.known) for s in band.body]
        band.writes = {v: a.with_known(draft.program.known) for v, a in band.writes.items()}
    band.axes = joined_axes(band.space, positions_of(band), member.reduced, fixed)
    cut_axes(draft, band)
    return band


def _read_transposed(band: Band, transposed: TransposedBlocks, depth: int) -> None:
    """Move the places of transposed values in a band to the block."""

    def there(value: Any, address: Affine) -> Affine:
        if value not in transposed.values:
            return address
        return transposed.address(value, address, band.loop.space, depth)

    def move(place: Place) -> Place:
        return replace(place, address=there(place.value, place.address))

    band.body = loop_programs.relocated(band.body, move)
    band.writes = {v: there(v, a) for v, a in band.writes.items()}


def _total(plan: Plan, node: Node, name: str) -> Total:
    definition = plan.definitions[node]
    dtype = dtypes.float64 if node.output.dtype.is_floating_point else dtypes.int64
    running = isinstance(definition, Prefix)
    start = loop_programs.start(definition.kind, dtype, running=running)
    return Total(node, definition.kind, name, dtype, start)


def _ends(plan: Plan, band: Band, body: Body) -> Iterator[Statement]:
    """The statements at the end of an iteration: stores, and accumulators that take values in."""
    space, known = band.loop.space, len(body.statements)
    for value in band.loop.stored:
        yield Store(Place(value, band.writes[value]), body.aligned(value, space))
    for total in band.totals:
        source = body.source(plan.definitions[total.node], space)
        yield Take(total.kind, Cell(total.name), source)
        if band.kind is Prefix:
            output = total.node.output
            place = Place(output, band.writes[output])
            yield Store(place, Operand(CELL, total.dtype), source=Cell(total.name))
    if band.kind is Put:
        (node,) = band.loop.combining
        definition = plan.definitions[node]
        place = body.put_place(node.output, definition)
        yield Store(place, body.source(definition, space), definition.accumulate)
    assert len(body.statements) == known, "everything was asked for before"


def positions_of(band: Band) -> list[Affine]:
    """All positions in a band."""
    found = [p for s in band.body for p in loop_programs.positions(s)]
    return [*found, *band.writes.values()]


def joined_axes(
    space: Shape, positions: Sequence[Affine], reduced: tuple[int, ...], fixed: int
) -> list[Axis]:
    """Join neighbouring dimensions that every position walks as one; the first `fixed` stay."""
    steps = [p.coefficients(len(space)) for p in dict.fromkeys(positions)]
    starts = {d for d in range(len(space)) if d <= fixed or (d in reduced) != (d - 1 in reduced)}
    groups = joined(space, steps, starts)
    return [Axis(g, math.prod(space[d] for d in g), g[0] in reduced) for g in groups]


def cut_axes(draft: Draft, band: Band) -> None:
    """Cut a band's axes where conditions on one axis change, if that makes few parts."""
    before = _is_positive if draft.assumes else surely
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
        inside = [e for e in edges if _is_inside(e, axis.size, before)]
        found.setdefault(number, set()).update(inside)
    parts = 1
    for number in sorted(found, key=lambda k: len(found[k])):
        parts *= len(found[number]) + 1
        cuts = sorted(found[number], key=int)
        in_order = all(before(b - a) for a, b in itertools.pairwise(cuts))
        if parts <= draft.target.limits.parts and in_order:
            band.axes[number].cuts = tuple(cuts)


def _is_inside(edge: int, size: int, before: Callable[[int], bool]) -> bool:
    """Whether an edge cuts a loop; it may be an end for some sizes, and a part empty."""
    return edge not in (0, size) and before(edge) and before(size - edge)


def _is_positive(difference: int) -> bool:
    """Whether a number is at least 0 for all sizes, or positive for the example."""
    return surely(difference) or difference > 0


def _guards(statements: Sequence[Statement]) -> Iterator[Guard]:
    for statement in statements:
        if isinstance(statement, (Load, Check)):
            yield from statement.guards
        elif isinstance(statement, Select):
            yield statement.guard


def _first(offset: int, step: int, edge: int) -> int:
    """The first i at which offset + step·i has passed the edge.

    >>> _first(-1, 2, 0), _first(5, -2, 3)
    (1, 2)
    """
    return -((offset - edge) // step) if step > 0 else (offset - edge) // -step + 1
