"""What the bands of a nest would compute twice for the same rows: once, and kept for the block.

Where vectors run along rows, a value of a row is a vector. Reading it from memory in strides is
slow, and so are quotients, roots and functions; memory of a block of rows lies in the cache. So an
expression of the row alone that has one of these in it is computed by the first band that wants it,
and read by the others. A band with loops inside its rows would compute it once in each turn: it
gets a band before it, which does so once.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any

from adjoint.compiler.affine import variable
from adjoint.compiler.loop_programs import (
    LANE,
    Check,
    Leaf,
    Let,
    Load,
    Local,
    Place,
    Select,
    Statement,
    Store,
    positions,
    used,
    without_dead,
)
from adjoint.elements.language import weight

_NAMES = re.compile(r"\bv\d+\b")


class Sharing:
    """The bands of a nest, one after the other, and the memory that they share."""

    def __init__(self, row: int, block: int, room: int) -> None:
        self.row, self.block = row, block
        self.left = room  # bytes that may still be taken
        self.keys: dict[Any, int] = {}  # what a statement computes -> its number
        self.dear: dict[int, bool] = {}  # whether a number is worth a place
        self.made: dict[int, tuple[list[Statement], str]] = {}  # the body that computes it, as what
        self.places: dict[int, Place] = {}  # where a number is kept
        self.rooms: list[Local] = []

    def band(self, body: list[Statement], *, turns: bool) -> list[list[Statement]]:
        """The bodies that take the place of one; `turns` says that loops inside its rows run it
        several times.
        """
        makers = {s.name: s for s in body if isinstance(s, Leaf)}
        numbers = self._numbered(makers.values())
        wanted = self._wanted(body, makers, numbers, turns)
        before: list[list[Statement]] = []
        if missing := [name for name in wanted if numbers[name] not in self.made]:
            stores = [Store(self.places[numbers[name]], name) for name in missing]
            before = self.band([*_cone(missing, makers), *stores], turns=False)
        read = {name: self._load(makers[name], numbers[name]) for name in wanted}
        after = without_dead([read.get(getattr(s, "name", ""), s) for s in body])
        if not turns:
            self._note(after, numbers)
        return [*before, after]

    def _numbered(self, makers: Iterable[Any]) -> dict[str, int]:
        """The number of each variable that depends on the row alone."""
        numbers: dict[str, int] = {}
        for statement in makers:
            key = self._key(statement, numbers)
            if key is not None:
                new = key not in self.keys
                number = numbers[statement.name] = self.keys.setdefault(key, len(self.keys))
                if new:
                    operands = [numbers[name] for name in used(statement)]
                    inner = any(self.dear[k] for k in operands)
                    self.dear[number] = inner or self._is_dear(statement)
        return numbers

    def _key(self, statement: Any, numbers: dict[str, int]) -> Any:
        """What a statement computes, in numbers of what it reads; None if not by the row alone."""
        if isinstance(statement, Check):
            return None
        if isinstance(statement, Load):
            if statement.guards and self._is_kept(statement):
                return (Load, statement.place)  # where a condition fails nobody looks at it
            if statement.place.chosen or statement.guards:
                return None
        if any(v not in (self.row, LANE) for p in positions(statement) for v, _ in p.terms):
            return None
        if not all(name in numbers for name in used(statement)):
            return None
        if isinstance(statement, Load):
            return (Load, statement.place)

        def numbered(text: str) -> str:
            return _NAMES.sub(lambda found: f"#{numbers[found[0]]}#", text)

        if isinstance(statement, Let):
            return (Let, statement.c_type, numbered(statement.text), statement.positions)
        sides = (numbered(statement.inside), numbered(statement.outside))
        return (Select, statement.c_type, statement.guard, *sides)

    def _is_kept(self, statement: Load) -> bool:
        """Whether a block has, or from now on keeps, what a load reads."""
        number = self.keys.get((Load, statement.place), -1)
        return number in self.made and self.dear[number] and self._take(number, statement)

    def _is_dear(self, statement: Any) -> bool:
        """Whether a statement reads memory in strides, or divides, or calls a function."""
        if isinstance(statement, Load):
            place = statement.place
            stride = place.address.coefficient(self.row)
            return not isinstance(place.value, Local) and stride not in (0, 1)
        return isinstance(statement, Let) and weight(statement.text) > 1

    def _wanted(
        self,
        body: Sequence[Statement],
        makers: dict[str, Any],
        numbers: dict[str, int],
        turns: bool,
    ) -> list[str]:
        """The variables that a body should read rather than compute, those nearest its ends."""
        wanted: dict[str, None] = {}
        asked = [name for s in body if not isinstance(s, (Load, Let, Select)) for name in used(s)]
        seen: set[str] = set()
        while asked:
            name = asked.pop()
            if name in seen:
                continue
            seen.add(name)
            maker, number = makers[name], numbers.get(name)
            known = number is not None and (turns or number in self.made)
            if known and not self._is_easy(maker, numbers) and self._take(number, maker):
                wanted[name] = None
            else:
                asked += used(maker)
        return list(wanted)

    def _is_easy(self, statement: Any, numbers: dict[str, int]) -> bool:
        """Whether a value is soon computed again from what is at hand."""
        operands = (numbers[name] for name in used(statement))
        near = all(not self.dear[k] or k in self.places for k in operands)
        return numbers[statement.name] not in self.places and near and not self._is_dear(statement)

    def _take(self, number: Any, statement: Any) -> bool:
        """Whether a value has memory, or gets some, if there is any left."""
        if number in self.places:
            return True
        size = 8 * self.block  # of the widest type
        if size > self.left:
            return False
        self.left -= size
        room = Local(f"s{len(self.rooms)}", statement.c_type, self.block)
        self.rooms.append(room)
        self.places[number] = Place(room, variable(LANE))
        return True

    def _load(self, statement: Any, number: int) -> Load:
        """A variable as it is read from the memory of the block, where its maker now writes it."""
        place = self.places[number]
        maker, name = self.made[number]
        if not any(isinstance(s, Store) and s.place == place for s in maker):
            maker.append(Store(place, name))
        return Load(statement.name, statement.c_type, place)

    def _note(self, body: list[Statement], numbers: dict[str, int]) -> None:
        """Remember what a body computes, for those after it."""
        for statement in body:
            name = getattr(statement, "name", None)
            if name in numbers:
                self.made.setdefault(numbers[name], (body, name))
            elif isinstance(statement, Store) and self._is_copy(statement, numbers):
                number = numbers[statement.text]
                self.keys.setdefault((Load, statement.place), number)
                if isinstance(statement.place.value, Local):
                    self.places.setdefault(number, statement.place)

    def _is_copy(self, store: Store, numbers: dict[str, int]) -> bool:
        """Whether a place has from now on what a variable of the row is."""
        plain = not store.adds and store.source is None and not store.place.chosen
        alone = all(v in (self.row, LANE) for v, _ in store.place.address.terms)
        return plain and alone and store.text in numbers


def _cone(names: Sequence[str], makers: dict[str, Any]) -> list[Statement]:
    """The statements that some variables need, in order."""
    needed, asked = set(), list(names)
    while asked:
        name = asked.pop()
        if name not in needed:
            needed.add(name)
            asked += used(makers[name])
    return [statement for name, statement in makers.items() if name in needed]
