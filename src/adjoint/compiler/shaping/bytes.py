"""Widen bytes where vectors run along a block of rows and compute with wider numbers, too.

gcc uses vectors of one width in a loop. With bytes it takes 64 rows at once: most blocks have
fewer, so they would run row by row, and the text of the loop would become many times as long. So
bytes in memory are copied to arrays of wide numbers before such a loop, or from such arrays after
it, and bytes kept for a block are wide throughout.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from adjoint.compiler.shaping.draft import Draft
from adjoint.core import dtypes
from adjoint.core.dtypes import DType
from adjoint.expressions.trees import Expression, Variable
from adjoint.loops.affine import variable
from adjoint.loops.loop_programs import (
    LANE,
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
    depends,
    overwrites,
    renamed,
)

_BYTES = frozenset((dtypes.bool_, dtypes.uint8, dtypes.int8))
_WIDE = 8  # most bytes of a widened number
_Around = Callable[[list[Statement]], list[Statement]]  # adds the loops inside a loop of rows


def room_of(itemsize: int) -> int:
    """The most bytes that an element takes in the memory of a block."""
    return _WIDE if itemsize == 1 else itemsize


def widen_bytes(draft: Draft) -> None:
    """Let loops along a block of rows, and short ones, compute with numbers of one width."""
    made = {s.made.dtype for s in draft.program.statements() if isinstance(s, (Load, Let, Select))}
    if not (made & _BYTES and made - _BYTES):
        return
    widening = _Widening(
        dtypes.int64 if made & {dtypes.float64, dtypes.int64} else dtypes.int32, draft.block or 1
    )
    if draft.block:
        draft.program.body = widening.block(draft.program.body)
    elif _has_short(draft):
        draft.program.body = widening.row(draft.program.body)


def _has_short(draft: Draft) -> bool:
    """Whether a loop of vectors is shorter than one of bytes."""
    loops = (s for s in draft.program.statements() if isinstance(s, ForLoop) and s.vector)
    lengths = (int(s.high[0] - s.low[0]) for s in loops if len(s.low) == len(s.high) == 1)
    return any(length < draft.target.vectors.padded for length in lengths)


class _Widening:
    def __init__(self, wide: DType, block: int) -> None:
        self.wide, self.block_size = wide, block
        self.count = 0  # arrays made so far

    def block(self, statements: Sequence[Statement]) -> list[Statement]:
        """The statements with wide numbers in loops along rows and in the memory of the block."""
        found: list[Statement] = []
        for statement in statements:
            if isinstance(statement, Room) and statement.count and statement.dtype in _BYTES:
                statement = replace(statement, dtype=self.wide)
            if isinstance(statement, ForLoop) and statement.variable == LANE:
                found.append(self.along(statement))
                continue
            if isinstance(statement, (ForLoop, StatementBlock)):
                statement.body = self.block(statement.body)
            found.append(statement)
        return found

    def row(self, statements: Sequence[Statement]) -> list[Statement]:
        """The statements with wide numbers in the memory of a row."""
        return _retyped([*self._in_row(statements)], self.wide)

    def _in_row(self, statements: Sequence[Statement]) -> Iterator[Statement]:
        for statement in statements:
            if isinstance(statement, Room) and statement.count and statement.dtype in _BYTES:
                yield replace(statement, dtype=self.wide)
            elif isinstance(statement, (ForLoop, StatementBlock)):
                yield replace(statement, body=[*self._in_row(statement.body)])
            elif isinstance(statement, (Load, Store)) and _is_of_block(statement):
                yield self.widened(statement)
            else:
                yield statement

    def along(self, loop: ForLoop) -> Statement:
        """A loop along rows, with copies of its bytes before and after it."""
        apart = loop.vector and not overwrites(loop.body)
        before: list[Statement] = []
        after: list[Statement] = []

        def copy(around: _Around, *statements: Statement) -> ForLoop:
            body = around([*statements])
            places = [s for s in loop.body if isinstance(s, Position)]
            wanted = [p for p in places if depends(body, p.variable)]
            return ForLoop(LANE, loop.low, loop.high, [*wanted, *body])

        def changed(statements: Sequence[Statement], around: _Around) -> Iterator[Statement]:
            for statement in statements:
                if isinstance(statement, ForLoop):
                    inside = _in_loop(statement, around)
                    yield replace(statement, body=[*changed(statement.body, inside)])
                elif isinstance(statement, (Load, Store)) and _is_of_block(statement):
                    yield self.widened(statement)
                elif apart and isinstance(statement, Load) and _is_byte(statement):
                    there = self.array(before)
                    before.append(copy(around, statement, Store(there, statement.made)))
                    yield Load(self.wider(statement.made), there)
                elif apart and isinstance(statement, Store) and _is_byte_of_memory(statement):
                    there, made = self.array(before), Variable(f"z{self.count}", self.wide)
                    yield replace(statement, place=there)
                    store = replace(statement, tree=made, source=None)
                    after.append(copy(around, Load(made, there), store))
                else:
                    yield statement

        loop = replace(loop, body=_retyped([*changed(loop.body, lambda body: body)], self.wide))
        return StatementBlock([*before, loop, *after]) if before else loop

    def array(self, before: list[Statement]) -> Place:
        """A new array with one element for each row of a block."""
        room = Local(f"w{self.count}", self.wide, self.block_size)
        self.count += 1
        before.append(Room(room.dtype, room.name, room.count))
        return Place(room, variable(LANE))

    def widened(self, statement: Load | Store) -> Load | Store:
        """The statement with its array of the block widened."""
        assert isinstance(statement.place.value, Local)
        room = replace(statement.place.value, dtype=self.wide)
        place = replace(statement.place, value=room)
        if isinstance(statement, Load):
            return replace(statement, made=self.wider(statement.made), place=place)
        return replace(statement, place=place)

    def wider(self, narrow: Variable) -> Variable:
        """The variable of a byte as a wide number."""
        return replace(narrow, dtype=self.wide)


def _retyped(statements: Sequence[Statement], wide: DType) -> list[Statement]:
    """The statements with wide variables where those that they read are wide."""
    made = {s.made for s in statements if isinstance(s, Load) and s.made.dtype is wide}
    same: dict[Variable, Expression] = {
        replace(wider, dtype=narrow): wider for wider in made for narrow in _BYTES
    }
    found = [_with_variables(statement, same) for statement in statements]
    return [
        replace(s, body=_retyped(s.body, wide)) if isinstance(s, (ForLoop, StatementBlock)) else s
        for s in found
    ]


def _with_variables(statement: Statement, same: dict[Variable, Expression]) -> Statement:
    if isinstance(statement, (ForLoop, StatementBlock)):
        return replace(statement, body=[_with_variables(s, same) for s in statement.body])
    return renamed(statement, same)


def _in_loop(loop: ForLoop, around: _Around) -> _Around:
    """Add a loop to the loops around copied statements."""
    return lambda body: around([replace(loop, body=body)])


def _is_of_block(statement: Load | Store) -> bool:
    """Whether a byte is loaded from, or stored to, the memory of the row or of the block."""
    value = statement.place.value
    return isinstance(value, Local) and value.dtype in _BYTES


def _is_byte(load: Load) -> bool:
    """Whether a byte is loaded from a place known before the loop."""
    return load.made.dtype in _BYTES and not load.place.chosen


def _is_byte_of_memory(store: Store) -> bool:
    """Whether a byte is stored to a place in memory known before the loop."""
    value = store.place.value
    if isinstance(value, Local) or store.adds or store.place.chosen:
        return False
    return value.dtype.itemsize == 1
