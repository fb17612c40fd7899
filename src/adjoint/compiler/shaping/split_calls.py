"""Split calls of vector functions off a heavy loop, for a piece of the loop at a time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from adjoint.compiler.shaping.draft import Draft
from adjoint.compiler.target import Target
from adjoint.core.symbolic_sizes import is_open
from adjoint.expressions.trees import Variable
from adjoint.loops.affine import Affine, variable
from adjoint.loops.loop_programs import (
    PIECE,
    ForLoop,
    Let,
    Load,
    Local,
    Place,
    Room,
    Select,
    Statement,
    StatementBlock,
    Store,
    overwrites,
    used,
    without_dead,
)


def split_off_calls(draft: Draft) -> None:
    """Call the functions of a heavy loop before the rest of it.

    No vector register survives a call: all registers of the loop, with its constants, would be
    stored and reloaded in each iteration.
    """
    draft.program.body = _split_in(draft.program.body, draft.target)


def _split_in(statements: Sequence[Statement], target: Target, piece: int = 0) -> list[Statement]:
    """Split the loops in statements; `piece` is the length of the pieces around them, or 0."""
    found: list[Statement] = []
    for statement in statements:
        if isinstance(statement, ForLoop) and statement.vector:
            found += _split(statement, target, piece) or [statement]
            continue
        if isinstance(statement, (ForLoop, StatementBlock)):
            step = statement.step if isinstance(statement, ForLoop) else 0
            is_cut = isinstance(statement, ForLoop) and statement.variable == PIECE
            statement.body = _split_in(statement.body, target, step if is_cut else 0)
        found.append(statement)
    return found


def _split(loop: ForLoop, target: Target, piece: int) -> list[Statement] | None:
    """The calls of a loop, then the rest; None if splitting gains nothing or is not allowed."""
    first = _before_calls(loop.body, target)
    is_long = piece or _is_long(loop, target.vectors.long)
    if first is None or not is_long or overwrites(loop.body):
        return None
    room = piece or target.vectors.piece
    made = {s.made for s in first if isinstance(s, (Let, Select))}
    rest = [s for s in loop.body if getattr(s, "made", None) not in made]
    wanted = dict.fromkeys(v for s in rest for v in used(s) if v in made)
    here = variable(loop.variable) + variable(PIECE) * -1
    kept = {v: Place(Local(f"{v.name}s", v.dtype, room), here) for v in wanted}
    loads = [Load(v, place) for v, place in kept.items()]
    stores = [Store(place, v) for v, place in kept.items()]
    rooms: list[Statement] = [Room(v.dtype, p.value.name, room) for v, p in kept.items()]
    calls = replace(loop, body=[*first, *stores], totals=())
    others = replace(loop, body=without_dead([*loads, *rest]))
    if piece:
        return [*rooms, calls, others]
    begin = variable(PIECE)
    ends = (begin + Affine(room), *loop.high)
    for part in (calls, others):
        part.low, part.high = (begin,), ends
    return [ForLoop(PIECE, loop.low, loop.high, [*rooms, calls, others], step=room)]


def _before_calls(statements: Sequence[Statement], target: Target) -> list[Statement] | None:
    """The statements for the calls of an iteration; None without calls, or with little else."""
    alike = target.rounds_alike
    if any(isinstance(s, Let) and not alike(s.tree.calls) for s in statements):
        needed: set[Variable] = set()
        found: list[Statement] = []
        for statement in reversed(statements):
            called = isinstance(statement, Let) and not alike(statement.tree.calls)
            if not called and getattr(statement, "made", None) not in needed:
                continue
            if not isinstance(statement, (Load, Let, Select)):
                return None
            needed.update(used(statement))
            found.append(statement)
        left = len(statements) - len(found)
        if left >= target.vectors.beside_calls and left > 2 * len(found):
            return found[::-1]
    return None


def _is_long(loop: ForLoop, least: int) -> bool:
    """Whether a loop can be cut and is long, or may be long for a symbolic size."""
    low, high = loop.low[-1], loop.high[-1]
    if loop.step != 1 or loop.variable < 0 or isinstance(low, (str, Affine)):
        return False
    return not isinstance(high, (str, Affine)) and (is_open(high) or high - low >= least)
