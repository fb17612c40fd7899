"""Types of loop programs, for tests: every tree, position and accumulator is of a sound type.

Numbers of a half dtype are converted before something is computed with them. A variable or a store
may round, and wraps whole numbers, as eager mode does; it never drops a fraction or a part of a
complex number.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from adjoint.core import dtypes
from adjoint.core.dtypes import BOOL, COMPLEX, FLOAT, HALVES, INTEGER, DType
from adjoint.expressions.trees import (
    CONDITIONS,
    Binary,
    Call,
    Choose,
    Convert,
    Expression,
    Number,
    Operand,
    Unary,
)
from adjoint.loops.accumulators import ACCUMULATORS
from adjoint.loops.affine import Affine
from adjoint.loops.loop_programs import (
    CELL,
    FIRST,
    LANES,
    LAST,
    Cell,
    Check,
    ForLoop,
    Guard,
    Let,
    Load,
    Local,
    LoopProgram,
    Place,
    Position,
    Reset,
    Room,
    Select,
    Statement,
    StatementBlock,
    Store,
    Take,
    Total,
    positions,
)

_OF_BITS = frozenset(("&", "|", "^", "<<", ">>", "%", "~", "&&", "||", "!"))
_OF_ORDER = CONDITIONS - {"==", "!=", "&&", "||"}


class UnsoundType(AssertionError):
    """A part of a loop program whose type does not fit."""


def verify_types(program: LoopProgram) -> LoopProgram:
    """Return a loop program if its types are sound; raise UnsoundType otherwise."""
    cells = {f"{total.name}p": (total.dtype, True) for total, _ in program.partials}
    for total, count in program.partials:
        _require(_is_whole(count), total, "the number of accumulators is whole")
        _total(total)
    _Types(cells).block(program.body)
    return program


def _require(holds: Any, where: Any, law: str) -> None:
    if not holds:
        raise UnsoundType(f"{where}: {law}")


def _is_whole(number: Any) -> bool:
    return isinstance(number, int) and not isinstance(number, bool)


def _total(total: Total) -> None:
    _require(total.kind in ACCUMULATORS, total, "the accumulator is of no known kind")
    _require(total.start.dtype is total.dtype, total, "it starts with a number of its dtype")


class _Types:
    """Walks over statements, and knows the accumulators and arrays declared so far."""

    def __init__(self, cells: Mapping[str, tuple[DType, bool]]) -> None:
        self.cells = dict(cells)  # name -> (its dtype, whether it is an array)

    def block(self, statements: Sequence[Statement]) -> None:
        inner = _Types(self.cells)
        for statement in statements:
            inner.statement(statement)

    def statement(self, statement: Statement) -> None:
        for position in positions(statement):
            _affine(position, statement)
        match statement:
            case ForLoop():
                self.loop(statement)
            case StatementBlock(body):
                self.block(body)
            case Room(dtype, name, count, start):
                _require(
                    start is None or start.dtype is dtype, statement, "it starts with its dtype"
                )
                self.cells[name] = (dtype, count is not None)
            case Load(made, place, guards):
                self.place(place)
                self.guards(guards)
                _require(made.dtype is place.value.dtype, statement, "a load keeps the dtype")
            case Let(made, tree, inside):
                self.tree(tree, len(inside))
                _sets(made.dtype, tree.dtype, statement)
            case Select(made, guard, inside, outside):
                self.guards((guard,))
                for tree in (inside, outside):
                    self.tree(tree)
                    _sets(made.dtype, tree.dtype, statement)
            case Check(made, index, size, _, guards):
                self.tree(index)
                self.guards(guards)
                whole = index.dtype.category in (BOOL, INTEGER) and made.dtype is dtypes.int64
                _require(whole and _is_whole(size), statement, "an index is whole")
            case Store(place, tree, _, source):
                self.place(place)
                self.tree(tree, cell=source)
                _stores(place.value.dtype, tree.dtype, statement)
            case Take(kind, cell, tree, source):
                _require(kind in ACCUMULATORS, statement, "the accumulator is of no known kind")
                self.tree(tree, cell=source)
                _joins(kind, self.cell(cell), tree.dtype, statement)
            case Reset(cell, tree):
                self.tree(tree)
                _stores(self.cell(cell), tree.dtype, statement)
            case Position(variable, tree, inside):
                self.tree(tree, len(inside))
                whole = _is_whole(variable) and tree.dtype.category == INTEGER
                _require(whole, statement, "a position is whole")

    def loop(self, loop: ForLoop) -> None:
        for end in (*loop.low, *loop.high):
            if isinstance(end, Affine):
                _affine(end, loop)
            else:
                _require(end in (FIRST, LAST, LANES) or _is_whole(end), loop, f"{end!r} is no end")
        _require(
            _is_whole(loop.variable) and _is_whole(loop.step) and loop.step > 0, loop, "a step"
        )
        for total in loop.totals:
            _total(total)
            known = self.cells.get(total.name)
            _require(known == (total.dtype, False), total, "it is declared before its loop")
        self.block(loop.body)

    def place(self, place: Place) -> None:
        for index, stride in place.chosen:
            self.tree(index)
            whole = index.dtype.category in (BOOL, INTEGER) and _is_whole(stride)
            _require(whole, place, "an index is whole")
        if isinstance(place.value, Local):
            known = self.cells.get(place.value.name)
            _require(known == (place.value.dtype, True), place, "its array is declared before")

    def guards(self, guards: Sequence[Guard]) -> None:
        for guard in guards:
            _require(_is_whole(guard.low) and _is_whole(guard.high), guard, "bounds are whole")

    def cell(self, cell: Cell) -> DType:
        """The dtype of an accumulator."""
        known = self.cells.get(cell.name)
        _require(known is not None, cell, "the accumulator is not declared")
        assert known is not None
        dtype, is_array = known
        _require(is_array == (cell.address is not None), cell, "arrays of accumulators have places")
        return dtype

    def tree(self, tree: Expression, count: int = 0, cell: Cell | None = None) -> None:
        """Check a tree that reads `count` positions and an accumulator."""
        for part in tree.walk():
            if isinstance(part, Operand):
                self.operand(part, count, cell)
            else:
                _part(part)

    def operand(self, operand: Operand, count: int, cell: Cell | None) -> None:
        if operand.name == CELL:
            _require(cell is not None, operand, "no accumulator is read here")
            assert cell is not None
            _require(operand.dtype is self.cell(cell), operand, "it has the accumulator's dtype")
            return
        known = operand.name in map(str, range(count)) and operand.dtype is dtypes.int64
        _require(known, operand, "an operand is a position or an accumulator")


def _affine(position: Any, where: Any) -> None:
    whole = isinstance(position, Affine) and _is_whole(position.offset)
    whole = whole and all(_is_whole(v) and _is_whole(step) for v, step in position.terms)
    _require(whole, where, "positions are whole multiples of variables")


def _part(part: Expression) -> None:
    """Check one part of a tree, whose own parts are checked by themselves."""
    _require(isinstance(part.dtype, DType), part, "every part has a dtype")
    given = [each.dtype for each in part.parts]
    halves = HALVES.intersection(given)
    _require(not halves or isinstance(part, Convert), part, "a half is converted first")
    match part:
        case Number(value, dtype):
            fits = dtype.category == COMPLEX or not isinstance(value, complex)
            _require(fits, part, "a real number is not complex")
        case Unary(sign, _) | Binary(sign, _, _):
            if sign in _OF_BITS:
                _require(all(d.category < FLOAT for d in given), part, "bits are those of numbers")
            if sign in _OF_ORDER:
                _require(all(d.category < COMPLEX for d in given), part, "complex has no order")
        case Choose(condition, one, other):
            _require(condition.dtype.category < FLOAT, part, "a condition is true or false")
            both = COMPLEX in (one.dtype.category, other.dtype.category)
            _require(not both or one.dtype is other.dtype, part, "both are complex, or none")
        case Call(_, _, dtype):
            _require(dtype not in HALVES, part, "functions compute in wide numbers")
        case _:
            pass


def _sets(made: DType, given: DType, where: Any) -> None:
    """Require that a variable can be set to a number: it may round, but leaves no part out."""
    fits = made.category >= given.category and (made in HALVES) == (given in HALVES)
    _require(fits, where, f"{made} is set to {given}")


def _joins(kind: str, total: DType, given: DType, where: Any) -> None:
    """Require that an accumulator can take a number in: `any` asks whether it is 0."""
    own, value = Operand("total", total), Operand("value", given)
    for join in ACCUMULATORS[kind].joins:
        tree = join(own, value)
        for part in tree.walk():
            _part(part)
        _stores(total, tree.dtype, where)


def _stores(made: DType, given: DType, where: Any) -> None:
    """Require that a number can be stored in memory or in an accumulator: truths may be counted."""
    fits = max(made.category, INTEGER) >= given.category and (made in HALVES) == (given in HALVES)
    _require(fits, where, f"{made} is stored of {given}")
