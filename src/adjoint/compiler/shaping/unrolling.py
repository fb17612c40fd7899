"""Take several rows in at once, where a loop adds rows of symbolic length to accumulators.

    for i in 0 … n: for b in lanes: acc[b] += x[i, b]
    ->  for i in 0 … n // 4 * 4, in steps of 4:
            for b in lanes: acc[b] += x[i, b], acc[b] += x[i + 1, b], …
        for i in n // 4 * 4 … n: for b in lanes: acc[b] += x[i, b]

Each accumulator is then loaded and stored once for four rows, and takes the elements in the same
order. Where `lanes` is known, accumulators stay in registers anyway.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from adjoint.compiler.shaping.draft import Draft
from adjoint.core.symbolic_sizes import is_open
from adjoint.loops.affine import Affine
from adjoint.loops.loop_programs import (
    LANE,
    ForLoop,
    Let,
    Load,
    Position,
    Select,
    Statement,
    StatementBlock,
    Take,
    reindexed,
)


def take_rows_together(draft: Draft) -> None:
    """Unroll loops over rows around light loops along a block of symbolic length."""
    if is_open(draft.program.rows):
        draft.program.body = _unrolled(draft.program.body, draft)


def _unrolled(statements: Sequence[Statement], draft: Draft) -> list[Statement]:
    found: list[Statement] = []
    for statement in statements:
        if isinstance(statement, (ForLoop, StatementBlock)):
            statement.body = _unrolled(statement.body, draft)
        if isinstance(statement, ForLoop) and _is_light(statement, draft.target.vectors.poor):
            found += _together(statement, draft.target.vectors.together)
        else:
            found.append(statement)
    return found


def _is_light(loop: ForLoop, most: int) -> bool:
    """Whether all that a loop over rows does is to take few values of each lane in."""
    lanes = loop.body[0]
    if len(loop.body) > 1 or not isinstance(lanes, ForLoop) or lanes.variable != LANE:
        return False
    if loop.variable < 0 or loop.low != (0,) or len(loop.high) > 1 or loop.step != 1:
        return False
    takes = any(isinstance(s, Take) for s in lanes.body)
    return takes and len(lanes.body) <= most and all(_is_plain(s, loop) for s in lanes.body)


def _is_plain(statement: Statement, loop: ForLoop) -> bool:
    if isinstance(statement, Position):
        return not any(p.coefficient(loop.variable) for p in statement.positions)
    if isinstance(statement, Let):
        return not statement.tree.calls
    return isinstance(statement, (Load, Select, Take))


def _together(loop: ForLoop, count: int) -> list[Statement]:
    """The loop over `count` rows at a time, and the loop over the remaining ones."""
    (lanes,), (rows,) = loop.body, loop.high
    assert isinstance(lanes, ForLoop)
    whole = rows // count * count
    shared = [s for s in lanes.body if isinstance(s, Position)]
    own = [s for s in lanes.body if not isinstance(s, Position)]
    copies = [StatementBlock(_further(own, loop.variable, k)) for k in range(count)]
    along = replace(lanes, body=[*shared, *copies])
    return [
        replace(loop, high=(whole,), step=count, body=[along], cuts=()),
        replace(loop, low=(whole,), cuts=()),
    ]


def _further(statements: Sequence[Statement], row: int, count: int) -> list[Statement]:
    """The statements for the row that follows after some others."""

    def change(position: Affine) -> Affine:
        return position + Affine(position.coefficient(row) * count)

    return [reindexed(s, change) for s in statements]
