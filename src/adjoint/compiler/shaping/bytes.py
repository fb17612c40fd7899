"""Bytes beside wide numbers, where vectors run along a block of rows.

gcc puts all vectors of a loop into registers of one size. Beside a byte it takes 64 rows at once:
most blocks have fewer, and are then run row by row, and the text of the loop becomes many times as
long. So bytes of memory are copied to arrays of wide numbers before such a loop, or from them after
it, and those that stay in the block are wide all the time.
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
from adjoint.elements.c_types import BITS

_BYTES = frozenset(c_type for c_type, bits in BITS.items() if bits == 8)
_WIDE = 8  # bytes of a wide number, at most
_OWN = 30_000  # the first variable of an iteration that no body has
_Around = Callable[[list[Statement]], list[Statement]]  # loops inside a loop of rows


def room_of(itemsize: int) -> int:
    """What an element takes in memory of a block, at most."""
    return _WIDE if itemsize == 1 else itemsize


def widen_bytes(draft: Draft) -> None:
    """Let loops along a block of rows compute with numbers of one width."""
    if not draft.block:
        return
    types = {s.c_type for s in draft.kernel.statements() if isinstance(s, (Load, Let, Select))}
    if types & _BYTES and types - _BYTES:
        wide = "long long" if types & {"double", "long long"} else "int"
        draft.kernel.body = _Widening(wide, draft.block).block(draft.kernel.body)


class _Widening:
    def __init__(self, wide: str, block: int) -> None:
        self.wide, self.block_size = wide, block
        self.count = 0  # of arrays made

    def block(self, statements: Sequence[Statement]) -> list[Statement]:
        """The same with wide numbers in loops along rows, and in memory of the block."""
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
        """A loop of rows, with copies of its bytes before it and after it."""
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
                    inside = _inside(statement, around)
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
        """A new array with an element for each row of a block."""
        room = Local(f"w{self.count}", self.wide, self.block_size)
        self.count += 1
        before.append(Room(room.c_type, room.name, room.count))
        return Place(room, variable(LANE))

    def widened(self, statement: Load | Store) -> Load | Store:
        """The same with memory of the block that is wide."""
        assert isinstance(statement.place.value, Local)
        room = replace(statement.place.value, c_type=self.wide)
        place = replace(statement.place, value=room)
        if isinstance(statement, Load):
            return replace(statement, c_type=self.wide, place=place)
        return replace(statement, place=place)


def _inside(loop: ForLoop, around: _Around) -> _Around:
    """Other statements in the place of those of a loop."""
    return lambda body: around([replace(loop, body=body)])


def _is_of_block(statement: Load | Store) -> bool:
    """Whether a byte is read from memory of the block, or written to it."""
    value = statement.place.value
    return isinstance(value, Local) and value.c_type in _BYTES


def _is_byte(load: Load) -> bool:
    """Whether a byte is read at a place that is known before the loop."""
    return load.c_type in _BYTES and not load.place.chosen


def _is_byte_of_memory(store: Store) -> bool:
    """Whether a byte is written to a place that is known before the loop."""
    value = store.place.value
    if isinstance(value, Local) or store.adds or store.place.chosen:
        return False
    return value.dtype.itemsize == 1
