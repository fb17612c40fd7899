"""Narrow accumulators: sums of float32 computed in short pieces."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from adjoint.compiler.shaping.draft import Draft
from adjoint.core import dtypes
from adjoint.core.dtypes import DType
from adjoint.core.symbolic_sizes import is_open, largest
from adjoint.expressions.trees import Operand, number
from adjoint.loops.accumulators import ACCUMULATORS
from adjoint.loops.affine import Affine, variable
from adjoint.loops.loop_programs import (
    CELL,
    LANE,
    MINUS_ZERO,
    PIECE,
    Cell,
    ForLoop,
    Room,
    Statement,
    StatementBlock,
    Store,
    Take,
    Total,
)

_FEW = 64  # most elements added up in one float
_MANY = 1 << 40  # iterations assumed for a loop whose length depends on the call


def narrow_totals(draft: Draft) -> None:
    """Let accumulators of float32 be float32 where a sum is short.

    Conversions to double in every iteration would halve the vectors. A long sum becomes short sums,
    which are added as doubles.
    """
    totals = {t.name: t for b in draft.bands for t in b.totals if _is_narrow(t)}
    if totals:
        body = _Narrowing(totals, draft).block(draft.program.body)
        known = {f"{t.name}p": t.dtype for t, _ in draft.program.partials}
        draft.program.body = _reading_as_declared(body, known)


def _is_narrow(total: Total) -> bool:
    way = ACCUMULATORS[total.kind]
    return total.node.output.dtype.name == "float32" and (way.sums or way.chooses)


class _Narrowing:
    """Makes some accumulators narrow in a loop program."""

    def __init__(self, totals: dict[str, Total], draft: Draft) -> None:
        self.totals = totals
        self.most = draft.most  # symbol -> the most its size may be
        self.floats = draft.target.vectors.widest  # in a vector

    def block(self, statements: list[Statement]) -> list[Statement]:
        """The statements with narrow accumulators where sums are short."""
        found: list[Statement] = []
        for place, statement in enumerate(statements):
            if isinstance(statement, (ForLoop, StatementBlock)):
                statement.body = self.block(statement.body)
            total = self.totals.get(statement.name) if isinstance(statement, Room) else None
            if isinstance(statement, Room) and total is not None and total.start != MINUS_ZERO:
                if self.is_short_sum(statements[place + 1 :], total):
                    _retype(statements[place + 1 :], total)
                    start = None if statement.start is None else _narrow(total, total.name).start
                    statement = replace(statement, dtype=dtypes.float32, start=start)
                else:
                    for later in statements[place + 1 :]:
                        _shorten(later, total, self.totals, _FEW * self.floats)
            found.append(statement)
        return found

    def is_short_sum(self, statements: Sequence[Statement], total: Total) -> bool:
        """Whether few elements are added up in one float of an accumulator."""
        if ACCUMULATORS[total.kind].chooses:
            return True
        counts = [largest(n, self.most) for n in _counts(statements, total, 1, self.floats)]
        return all(count is not None and count <= _FEW for count in counts)


def _counts(
    statements: Sequence[Statement], total: Total, around: int, lanes: int
) -> Iterator[int]:
    """The number of elements that each take adds to one lane of an accumulator."""
    for statement in statements:
        if isinstance(statement, Take) and statement.cell.name == total.name:
            yield around
        elif isinstance(statement, StatementBlock):
            yield from _counts(statement.body, total, around, lanes)
        elif isinstance(statement, ForLoop):
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
                turns = turns if is_open(turns) else -(-turns // lanes)
            yield from _counts(statement.body, total, around * turns, lanes)


def _retype(statements: Sequence[Statement], total: Total) -> None:
    """Change the type of an accumulator to float in the vector loops that share it."""
    for statement in statements:
        if isinstance(statement, ForLoop):
            narrow = _narrow(total, total.name)
            statement.totals = tuple(
                narrow if t.name == total.name else t for t in statement.totals
            )
        if isinstance(statement, (ForLoop, StatementBlock)):
            _retype(statement.body, total)


def _reading_as_declared(statements: list[Statement], known: dict[str, DType]) -> list[Statement]:
    """The statements with accumulators read as what they are declared to be."""
    known, found = dict(known), list[Statement]()
    for statement in statements:
        if isinstance(statement, Room):
            known[statement.name] = statement.dtype
        elif isinstance(statement, (ForLoop, StatementBlock)):
            statement.body = _reading_as_declared(statement.body, known)
        elif isinstance(statement, (Store, Take)) and statement.source is not None:
            own = Operand(CELL, known[statement.source.name])
            statement = replace(statement, tree=statement.tree.substitute({CELL: own}))
        found.append(statement)
    return found


def _narrow(total: Total, name: str) -> Total:
    """An accumulator in float32, under a name."""
    start = number(total.start.value, dtypes.float32)
    return replace(total, name=name, dtype=dtypes.float32, start=start)


def _shorten(statement: Statement, total: Total, totals: dict[str, Total], piece: int) -> None:
    """Cut the vector loop of an accumulator into pieces with short sums."""
    if isinstance(statement, StatementBlock) or (
        isinstance(statement, ForLoop) and not statement.vector
    ):
        for inner in statement.body:
            _shorten(inner, total, totals, piece)
        return
    names = [t.name for t in statement.totals] if isinstance(statement, ForLoop) else []
    if (
        not isinstance(statement, ForLoop)
        or total.name not in names
        or not totals.keys() >= {*names}
    ):
        return
    sums = [t for t in statement.totals if not ACCUMULATORS[t.kind].chooses]
    pieces = {t.name: _narrow(t, f"{t.name}f") for t in sums}
    body = [
        replace(s, cell=Cell(pieces[s.cell.name].name))
        if isinstance(s, Take) and s.cell.name in pieces
        else s
        for s in statement.body
    ]
    low, v = variable(PIECE), statement.variable
    ends = (low + Affine(piece), *statement.high)
    inner_totals = tuple(pieces.get(t.name, t) for t in statement.totals)
    inner = ForLoop(v, (low,), ends, body, vector=True, totals=inner_totals)
    statement.variable, statement.step, statement.vector = PIECE, piece, False
    statement.totals = ()
    rooms = [Room(p.dtype, p.name, start=p.start) for p in pieces.values()]
    own = Operand(CELL, dtypes.float32)
    takes = [Take(t.kind, Cell(t.name), own, Cell(pieces[t.name].name)) for t in sums]
    statement.body = [*rooms, inner, *takes]
