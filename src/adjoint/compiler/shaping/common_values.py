"""Common values of the bands of a nest: computed once per block of rows, and kept in an array of
the block.

Where vectors run along rows, a value of a row is a vector. Strided loads are slow, and so are
divisions, roots and functions, while the memory of a block is in the cache. So an expression with
one of these that depends on the row alone is computed by the first band that needs it, and read by
the others. A band with loops inside its rows would compute the expression in each iteration: it
gets a band before it, which computes it once.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from adjoint.expressions.trees import Expression, Operand, Variable
from adjoint.loops.affine import variable
from adjoint.loops.loop_programs import (
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


class Sharing:
    """The bands of a nest in order, and the arrays of the block that they share."""

    def __init__(self, row: int, block: int, room: int) -> None:
        self.row, self.block = row, block
        self.left = room  # bytes that are left
        self.keys: dict[Any, int] = {}  # expression -> its number
        self.dear: dict[int, bool] = {}  # number -> whether it is expensive
        self.made: dict[int, tuple[list[Statement], Variable]] = {}  # its body and variable
        self.places: dict[int, Place] = {}  # number -> where the block keeps it
        self.rooms: list[Local] = []

    def band(self, body: list[Statement], *, turns: bool) -> list[list[Statement]]:
        """The bodies that replace a body; with `turns`, loops inside its rows run it often."""
        makers = {s.made: s for s in body if isinstance(s, Leaf)}
        numbers = self._numbered(makers.values())
        wanted = self._wanted(body, makers, numbers, turns)
        before: list[list[Statement]] = []
        if missing := [name for name in wanted if numbers[name] not in self.made]:
            stores = [Store(self.places[numbers[name]], name) for name in missing]
            before = self.band([*_cone(missing, makers), *stores], turns=False)
        read = {name: self._load(makers[name], numbers[name]) for name in wanted}
        after = without_dead([read.get(s.made, s) if isinstance(s, Leaf) else s for s in body])
        if not turns:
            self._note(after, numbers)
        return [*before, after]

    def _numbered(self, makers: Iterable[Any]) -> dict[Expression, int]:
        """The number of each variable that depends on the row alone."""
        numbers: dict[Expression, int] = {}
        for statement in makers:
            key = self._key(statement, numbers)
            if key is not None:
                new = key not in self.keys
                number = numbers[statement.made] = self.keys.setdefault(key, len(self.keys))
                if new:
                    operands = [numbers[name] for name in used(statement)]
                    inner = any(self.dear[k] for k in operands)
                    self.dear[number] = inner or self._is_dear(statement)
        return numbers

    def _key(self, statement: Any, numbers: dict[Expression, int]) -> Any:
        """A key of what a statement computes; None if it depends on more than the row."""
        if isinstance(statement, Check):
            return None
        if isinstance(statement, Load):
            if statement.guards and self._is_kept(statement):
                return (Load, statement.place)  # nobody reads it where the condition fails
            if statement.place.chosen or statement.guards:
                return None
        if any(v not in (self.row, LANE) for p in positions(statement) for v, _ in p.terms):
            return None
        if not all(name in numbers for name in used(statement)):
            return None
        if isinstance(statement, Load):
            return (Load, statement.place)

        names: dict[Variable, Expression] = {
            v: Operand(f"#{numbers[v]}", v.dtype) for v in used(statement)
        }
        if isinstance(statement, Let):
            dtype, tree = statement.made.dtype, statement.tree.substitute(names)
            return (Let, dtype, tree, statement.positions)
        sides = (statement.inside.substitute(names), statement.outside.substitute(names))
        return (Select, statement.made.dtype, statement.guard, *sides)

    def _is_kept(self, statement: Load) -> bool:
        """Whether the block keeps the value of a load, or can from now on."""
        number = self.keys.get((Load, statement.place), -1)
        return number in self.made and self.dear[number] and self._take(number, statement)

    def _is_dear(self, statement: Any) -> bool:
        """Whether a statement loads with a stride, divides, or calls a function."""
        if isinstance(statement, Load):
            place = statement.place
            stride = place.address.coefficient(self.row)
            return not isinstance(place.value, Local) and stride not in (0, 1)
        return isinstance(statement, Let) and statement.tree.cost > 1

    def _wanted(
        self,
        body: Sequence[Statement],
        makers: dict[Variable, Any],
        numbers: dict[Expression, int],
        turns: bool,
    ) -> list[Variable]:
        """The variables that a body should read, not compute: those nearest its results."""
        wanted: dict[Variable, None] = {}
        asked = [name for s in body if not isinstance(s, (Load, Let, Select)) for name in used(s)]
        seen: set[Variable] = set()
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

    def _is_easy(self, statement: Any, numbers: dict[Expression, int]) -> bool:
        """Whether a value is cheap to recompute from values that are available."""
        operands = (numbers[name] for name in used(statement))
        near = all(not self.dear[k] or k in self.places for k in operands)
        return numbers[statement.made] not in self.places and near and not self._is_dear(statement)

    def _take(self, number: Any, statement: Any) -> bool:
        """Whether a value has an array of the block, or gets one while there is memory."""
        if number in self.places:
            return True
        size = 8 * self.block  # for the widest type
        if size > self.left:
            return False
        self.left -= size
        room = Local(f"s{len(self.rooms)}", statement.made.dtype, self.block)
        self.rooms.append(room)
        self.places[number] = Place(room, variable(LANE))
        return True

    def _load(self, statement: Any, number: int) -> Load:
        """Load a variable from the array of the block; ensure that its maker stores it there."""
        place = self.places[number]
        maker, name = self.made[number]
        if not any(isinstance(s, Store) and s.place == place for s in maker):
            maker.append(Store(place, name))
        return Load(statement.made, place)

    def _note(self, body: list[Statement], numbers: dict[Expression, int]) -> None:
        """Remember the values that a body computes, for the bodies after it."""
        for statement in body:
            name = getattr(statement, "made", None)
            if name is not None and name in numbers:
                self.made.setdefault(numbers[name], (body, name))
            elif isinstance(statement, Store) and self._is_copy(statement, numbers):
                number = numbers[statement.tree]
                self.keys.setdefault((Load, statement.place), number)
                if isinstance(statement.place.value, Local):
                    self.places.setdefault(number, statement.place)

    def _is_copy(self, store: Store, numbers: dict[Expression, int]) -> bool:
        """Whether a store makes a place hold the value of a variable of the row."""
        plain = not store.adds and store.source is None and not store.place.chosen
        alone = all(v in (self.row, LANE) for v, _ in store.place.address.terms)
        return plain and alone and store.tree in numbers


def _cone(names: Sequence[Variable], makers: dict[Variable, Any]) -> list[Statement]:
    """The statements that compute some variables, in order."""
    needed, asked = set(), list(names)
    while asked:
        name = asked.pop()
        if name not in needed:
            needed.add(name)
            asked += used(makers[name])
    return [statement for name, statement in makers.items() if name in needed]
