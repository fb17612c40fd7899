"""Widen bytes where vectors run along a block of rows and compute with wider numbers, too.

gcc uses vectors of one width in a loop. With bytes it takes 64 rows at once: most blocks have
fewer, so they would run row by row, and the text of the loop would become many times as long. So
bytes in memory are copied to arrays of wide numbers before such a loop, or from such arrays after
it, and bytes kept for a block are wide throughout.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from adjoint.compiler.affine import variable
from adjoint.compiler.loop_programs import (
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
)
from adjoint.compiler.shaping.draft import Draft
from adjoint.expressions.c_numbers import BITS

_BYTES = frozenset(c_type for c_type, bits in BITS.items() if bits == 8)
_WIDE = 8  # most bytes of a widened number
_OWN = 30_000  # the first variable number that no body uses
_Around = Callable[[list[Statement]], list[Statement]]  # adds the loops inside a loop of rows


def room_of(itemsize: int) -> int:
    """The most bytes that an element takes in the memory of a block."""
    return _WIDE if itemsize == 1 else itemsize


def widen_bytes(draft: Draft) -> None:
    """Let loops along a block of rows compute with numbers of one width."""
    if not draft.block:
        return
    types = {s.c_type for s in draft.program.statements() if isinstance(s, (Load, Let, Select))}
    if types & _BYTES and types - _BYTES:
        wide = "long long" if types & {"double", "long long"} else "int"
        draft.program.body = _Widening(wide, draft.block).block(draft.program.body)


class _Widening:
    def __init__(self, wide: str, block: int) -> None:
        self.wide, self.block_size = wide, block
        self.count = 0  # arrays made so far

    def block(self, statements: Sequence[Statement]) -> list[Statement]:
        """The statements with wide numbers in loops along rows and in the memory of the block."""
        found: list[Statement] = []
        for statement in statements:
            if isinstance(statement, Room) and statement.count and statement.c_type in _BYTES:
                statement = replace(statement, c_type=self.wide)
            if isinstance(statement, ForLoop) and statement.variable == LANE:
                found.append(self.along(statement))
                continue
            if isinstance(statement, (ForLoop, StatementBlock)):
                statement.body = self.block(statement.body)
            found.append(statement)
        return found

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
                    before.append(copy(around, statement, Store(there, statement.name)))
                    yield Load(statement.name, self.wide, there)
                elif apart and isinstance(statement, Store) and _is_byte_of_memory(statement):
                    there, name = self.array(before), f"v{_OWN + self.count}"
                    yield replace(statement, place=there)
                    read = Load(name, self.wide, there)
                    after.append(copy(around, read, replace(statement, text=name, source=None)))
                else:
                    yield statement

        loop = replace(loop, body=[*changed(loop.body, lambda body: body)])
        return StatementBlock([*before, loop, *after]) if before else loop

    def array(self, before: list[Statement]) -> Place:
        """A new array with one element for each row of a block."""
        room = Local(f"w{self.count}", self.wide, self.block_size)
        self.count += 1
        before.append(Room(room.c_type, room.name, room.count))
        return Place(room, variable(LANE))

    def widened(self, statement: Load | Store) -> Load | Store:
        """The statement with its array of the block widened."""
        assert isinstance(statement.place.value, Local)
        room = replace(statement.place.value, c_type=self.wide)
        place = replace(statement.place, value=room)
        if isinstance(statement, Load):
            return replace(statement, c_type=self.wide, place=place)
        return replace(statement, place=place)


def _in_loop(loop: ForLoop, around: _Around) -> _Around:
    """Add a loop to the loops around copied statements."""
    return lambda body: around([replace(loop, body=body)])


def _is_of_block(statement: Load | Store) -> bool:
    """Whether a byte is loaded from, or stored to, the memory of the block."""
    value = statement.place.value
    return isinstance(value, Local) and value.c_type in _BYTES


def _is_byte(load: Load) -> bool:
    """Whether a byte is loaded from a place known before the loop."""
    return load.c_type in _BYTES and not load.place.chosen


def _is_byte_of_memory(store: Store) -> bool:
    """Whether a byte is stored to a place in memory known before the loop."""
    value = store.place.value
    if isinstance(value, Local) or store.adds or store.place.chosen:
        return False
    return value.dtype.itemsize == 1
