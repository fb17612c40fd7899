"""Loop programs: fusion makes them, and C text is printed from them.

A `LoopProgram` is a function of rows: loops (`ForLoop`) around statements, each of which reads or
writes one element, with indices that are affine in the loops' variables. With symbolic sizes the
extents and indices are polynomials in size symbols (`core/symbolic_sizes.py`).

A loop's variable is a whole number: a dimension of the loop's space, or a constant of this file
(`ROW`). What statements compute are trees (`expressions/trees.py`) of variables of their own; the
operands in a tree are positions, or the accumulator that a statement reads (`CELL`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from typing import Any, Protocol

from adjoint.core import dtypes
from adjoint.core.dtypes import DType
from adjoint.core.records import record, structure
from adjoint.core.remembering import cached_property
from adjoint.core.symbolic_sizes import is_open, surely, with_known
from adjoint.expressions.trees import (
    Binary,
    Expression,
    Number,
    Operand,
    Variable,
    is_zero,
    number,
)
from adjoint.loops.accumulators import ACCUMULATORS
from adjoint.loops.affine import Affine, Bounds

ROW, BLOCK, LANE = -1, -2, -3  # the row; the first row of a block; the row within a block
ABOVE, LEFT = -4, -5  # the first row and column of a tile
PIECE = -6  # the start of a piece of a long sum
VECTOR = -7  # the start of a vector, moved back where it would pass the end of a short loop
FIRST, LAST = "first", "last"  # ends of the range of rows for which the function is called
LANES = "lanes"  # the end of the rows of a block


CELL = "cell"  # the operand that stands for the accumulator that a statement reads


def position(number: int) -> Operand:
    """The operand that stands for one of a statement's positions."""
    return Operand(str(number), dtypes.int64)


# -- one iteration --------------------------------------------------------------------------------


@record
class Guard:
    """low <= position < high"""

    position: Affine
    low: int
    high: int

    def decided(self, bounds: Bounds) -> bool | None:
        """True if it holds for all variables within bounds, False if for none, None if for some."""
        least, largest = self.position.range(bounds)
        if surely(least - self.low) and surely(self.high - 1 - largest):
            return True
        return False if surely(self.low - 1 - largest) or surely(least - self.high) else None


class InMemory(Protocol):
    """An array that the caller gives: a value of a graph, or a `Given`."""

    @property
    def name(self) -> str: ...

    @property
    def shape(self) -> tuple[int, ...]: ...

    @property
    def dtype(self) -> DType: ...


@record
class Given:
    """An array among the arguments of a loop program that no graph has made."""

    name: str
    dtype: DType
    shape: tuple[int, ...] = ()


@record
class Local:
    """An array of a loop program's own, for one row or for one block of rows."""

    name: str
    dtype: DType
    count: int  # elements


@record
class Place:
    """An element of a value in memory."""

    value: InMemory | Local
    address: Affine
    chosen: tuple[tuple[Expression, int], ...] = ()  # (an index, its stride)


@record
class Load:
    """A variable read from memory; 0 if a guard does not hold."""

    made: Variable
    place: Place
    guards: tuple[Guard, ...] = ()


@record
class Let:
    """A variable and its expression, in which `position(0)` stands for the first position."""

    made: Variable
    tree: Expression
    positions: tuple[Affine, ...] = ()


@record
class Select:
    """A variable that is `inside` if the guard holds, else `outside`."""

    made: Variable
    guard: Guard
    inside: Expression
    outside: Expression


@record
class Check:
    """A check that an index is in range; `made` is the index, or 0 if it is out of range."""

    made: Variable
    index: Expression
    size: int
    wraps: bool  # whether negative indices count from the end
    guards: tuple[Guard, ...] = ()


@record
class Total:
    """The accumulator of a reduction or of a prefix."""

    node: Any  # of the graph: the reduction
    kind: str  # "sum"
    name: str
    dtype: DType
    start: Number


@record
class Cell:
    """An accumulator; with an address, an element of an array of accumulators."""

    name: str
    address: Affine | None = None


@record
class Store:
    """An expression written to memory."""

    place: Place
    tree: Expression
    adds: bool = False  # whether it is added to the element in memory
    source: Cell | None = None  # an accumulator, which `CELL` in the tree stands for


@record
class Take:
    """An expression taken into an accumulator."""

    kind: str
    cell: Cell
    tree: Expression
    source: Cell | None = None  # another accumulator, which `CELL` in the tree stands for


# -- around iterations ----------------------------------------------------------------------------


@record
class Room:
    """A declaration on the stack: a variable with a start value, or an array."""

    dtype: DType
    name: str
    count: int | None = None
    start: Number | None = None


@record
class Reset:
    """An accumulator set to an expression."""

    cell: Cell
    tree: Expression


@record
class Position:
    """A loop variable computed from others, for which `position(0)`, … stand in the tree."""

    variable: int
    tree: Expression
    positions: tuple[Affine, ...] = ()


@structure
class StatementBlock:
    """Statements with variables of their own, for positions within bounds."""

    body: list[Statement]
    bounds: dict[int, tuple[int, int]] = field(default_factory=dict)


@structure
class ForLoop:
    """A loop from the largest of the low ends to the smallest of the high ends."""

    variable: int
    low: tuple[Any, ...]
    high: tuple[Any, ...]
    body: list[Statement]
    step: int = 1
    vector: bool = False
    totals: tuple[Total, ...] = ()  # accumulators shared by the lanes of a vector
    cuts: tuple[int, ...] = ()  # values of its variable at which a condition changes


Simple = Load | Let | Select | Check | Store | Take | Room | Reset | Position
Statement = Simple | ForLoop | StatementBlock
Leaf = Load | Let | Select | Check


@structure
class LoopProgram:
    """The function of a nest: statements for the rows FIRST to LAST - 1."""

    name: str
    rows: int
    body: list[Statement] = field(default_factory=list)
    partials: list[tuple[Total, int]] = field(default_factory=list)  # that last through all rows
    work: int = 0  # about as many additions
    divisible: bool = False  # whether threads can share its rows
    transposed: frozenset[InMemory] = frozenset()  # values whose blocks of rows it finds transposed
    whole: bool = False  # whether it runs over all rows, ignoring FIRST and LAST
    known: Mapping[int, int] = field(default_factory=dict)  # symbolic sizes that are numbers in it
    comments: list[str] = field(default_factory=list)
    overlaps: bool = False  # whether what it writes may lie where it reads, element on element

    def statements(self) -> list[Statement]:
        """All statements; each loop comes before its body."""
        return walk(self.body)

    @property
    def checks(self) -> bool:
        """Whether it may find an index out of range."""
        return Check in map(type, self.statements())

    @property
    def rereads(self) -> bool:
        """Whether vectors load the same element of memory in every iteration of a loop."""
        vectors = (s for s in self.statements() if isinstance(s, ForLoop) and s.vector)
        reads = ((v.variable, s.place) for v in vectors for s in v.body if isinstance(s, Load))
        return any(
            variable >= 0 and not isinstance(place.value, Local) and not place.chosen
            and not place.address.coefficient(variable)
            for variable, place in reads
        )  # fmt: skip

    @property
    def blocked(self) -> bool:
        """Whether its rows are taken in blocks, side by side in memory."""
        return any(isinstance(s, ForLoop) and s.variable == LANE for s in self.statements())

    @cached_property
    def pointers(self) -> dict[Any, int]:
        """The values in memory that it accesses, in the order of their first use, with the first
        element of each. Loop programs for different rows of a value are alike up to these.
        """
        found: dict[InMemory, list[int]] = {}
        for statement in self.statements():
            place = statement.place if isinstance(statement, (Load, Store)) else None
            if place is not None and not isinstance(place.value, Local):
                found.setdefault(place.value, []).append(place.address.offset)
        known = {v: all(type(n) is int and n >= 0 for n in found[v]) for v in found}
        return {v: min(found[v]) if known[v] else 0 for v in found}

    @property
    def calls(self) -> frozenset[str]:
        """The functions that it calls."""
        found = set[str]()
        for statement in self.statements():
            if isinstance(statement, (Let, Store, Take)):
                found |= statement.tree.calls
            elif isinstance(statement, (Select, Check)):
                found.update(*[tree.calls for tree in trees(statement)])
        return frozenset(found)

    def rooms(self) -> list[Room]:
        """Arrays of symbolic size, in scratch memory that the caller gives each thread."""
        return [s for s in self.statements() if isinstance(s, Room) and is_open(s.count)]

    @property
    def partial(self) -> int:
        """The number of accumulators that last through all rows."""
        return sum(count for _, count in self.partials)

    @property
    def scratch(self) -> int:
        """The scratch memory of one thread, in words of 8 bytes."""
        own = self.partial if is_open(self.partial) else 0
        return own + sum(room.count or 0 for room in self.rooms())


def walk(statements: Sequence[Statement]) -> list[Statement]:
    found: list[Statement] = []
    for statement in statements:
        found.append(statement)
        if isinstance(statement, (ForLoop, StatementBlock)):
            found += walk(statement.body)
    return found


# -- edits ----------------------------------------------------------------------------------------


def used(statement: Any) -> list[Variable]:
    """The variables that a statement of an iteration reads."""
    return [variable for tree in trees(statement) for variable in tree.variables]


def trees(statement: Any) -> list[Expression]:
    """The trees in a statement of an iteration."""
    found: list[Expression] = []
    if isinstance(statement, (Let, Store, Take)):
        found = [statement.tree]
    elif isinstance(statement, Select):
        found = [statement.inside, statement.outside]
    elif isinstance(statement, Check):
        found = [statement.index]
    if isinstance(statement, (Load, Store)):
        found += [index for index, _ in statement.place.chosen]
    return found


def calls_any(statement: Any, functions: frozenset[str]) -> bool:
    """Whether a statement computes a variable by one of some functions."""
    return isinstance(statement, Let) and not functions.isdisjoint(statement.tree.calls)


def without_dead(statements: Sequence[Statement]) -> list[Statement]:
    """The statements of an iteration without unused variables; checks stay."""
    needed: set[Variable] = set()
    kept: list[Statement] = []
    for statement in reversed(statements):
        made = isinstance(statement, (Load, Let, Select))
        if made and statement.made not in needed:
            continue
        needed.update(used(statement))
        kept.append(statement)
    return kept[::-1]


def within(statements: Sequence[Statement], bounds: Bounds) -> list[Statement]:
    """Simplify the statements of an iteration for positions within bounds: remove the conditions
    that the bounds decide, and the variables that only they used.
    """
    same: dict[Variable, Expression] = {}  # decided select or guard -> the tree that replaces it
    settled: set[Expression] = set()  # adding 0 does not change them: they are not -0.0
    found: list[Statement] = []
    for statement in statements:
        if isinstance(statement, Select):
            statement = renamed(statement, same)
            holds = statement.guard.decided(bounds)
            if holds is None:
                found.append(statement)
            else:
                same[statement.made] = statement.inside if holds else statement.outside
            continue
        if isinstance(statement, (Load, Check)):
            decided = [g.decided(bounds) for g in statement.guards]
            if False in decided:
                same[statement.made] = number(0, statement.made.dtype)
                continue
            left = tuple(g for g, d in zip(statement.guards, decided, strict=True) if d is None)
            statement = replace(statement, guards=left)
        statement = renamed(statement, same)
        if isinstance(statement, Let) and (other := _beside_zero(statement.tree)) is not None:
            if other in settled or is_zero(other):
                same[statement.made] = other
                continue
            settled.add(statement.made)
        found.append(statement)
    return without_dead(found)


def _beside_zero(tree: Expression) -> Expression | None:
    """The term to which a tree such as `v1 + 0.0` adds 0; None of any other tree."""
    if not isinstance(tree, Binary) or tree.sign != "+" or not tree.dtype.is_floating_point:
        return None
    sides = tree.left, tree.right
    if not all(isinstance(side, Variable) or is_zero(side) for side in sides):
        return None
    return sides[0] if is_zero(sides[1]) else sides[1] if is_zero(sides[0]) else None


def renamed(statement: Any, same: Mapping[Variable, Expression]) -> Any:
    """The statement of an iteration with trees in place of variables that it reads."""
    if not same:
        return statement
    if isinstance(statement, (Let, Store, Take)):
        statement = replace(statement, tree=statement.tree.substitute(same))
    if isinstance(statement, Select):
        inside, outside = (t.substitute(same) for t in (statement.inside, statement.outside))
        statement = replace(statement, inside=inside, outside=outside)
    if isinstance(statement, Check):
        statement = replace(statement, index=statement.index.substitute(same))
    if isinstance(statement, (Load, Store)) and statement.place.chosen:
        chosen = tuple((index.substitute(same), stride) for index, stride in statement.place.chosen)
        statement = replace(statement, place=replace(statement.place, chosen=chosen))
    return statement


def ends_early(statements: Sequence[Statement]) -> list[Statement]:
    """Move each store and take to where its operands are complete.

    If many of them waited for the end of an iteration, registers would not suffice, and compilers
    would take quadratic time.
    """
    made: dict[Variable, int] = {}
    places: list[int] = []
    overwritten = overwrites(statements)
    for place, statement in enumerate(statements):
        if isinstance(statement, (ForLoop, StatementBlock)):
            statement.body = ends_early(statement.body)
        elif isinstance(statement, (Load, Let, Select, Check)):
            made[statement.made] = place
        elif isinstance(statement, (Store, Take)) and statement.source is None and not overwritten:
            place = max((made[n] for n in used(statement) if n in made), default=place)
        places.append(place)
    return [statements[k] for k in sorted(range(len(places)), key=places.__getitem__)]


def relocated(statements: Sequence[Statement], move: Callable[[Place], Place]) -> list[Any]:
    """The statements with every place changed by `move`."""
    return [
        replace(s, place=move(s.place)) if isinstance(s, (Load, Store)) else s for s in statements
    ]


def reindexed(statement: Any, change: Callable[[Affine], Affine]) -> Any:
    """The statement with every position changed by `change`."""

    def guard(each: Guard) -> Guard:
        return replace(each, position=change(each.position))

    if isinstance(statement, (Load, Store)):
        place = statement.place
        statement = replace(statement, place=replace(place, address=change(place.address)))
    if isinstance(statement, Let) and statement.positions:
        statement = replace(statement, positions=tuple(map(change, statement.positions)))
    if isinstance(statement, (Load, Check)) and statement.guards:
        statement = replace(statement, guards=tuple(map(guard, statement.guards)))
    if isinstance(statement, Select):
        statement = replace(statement, guard=guard(statement.guard))
    return statement


def with_known_sizes(statement: Any, known: Mapping[int, int]) -> Any:
    """The statement of an iteration with some symbolic sizes replaced by numbers."""

    def guard(each: Guard) -> Guard:
        low, high = with_known((each.low, each.high), known)
        return replace(each, low=low, high=high)

    statement = reindexed(statement, lambda position: position.with_known(known))
    if isinstance(statement, (Load, Store)) and statement.place.chosen:
        place = replace(statement.place, chosen=with_known(statement.place.chosen, known))
        statement = replace(statement, place=place)
    if isinstance(statement, Check):
        statement = replace(statement, size=with_known(statement.size, known))
    if isinstance(statement, (Load, Check)) and statement.guards:
        statement = replace(statement, guards=tuple(map(guard, statement.guards)))
    if isinstance(statement, Select):
        statement = replace(statement, guard=guard(statement.guard))
    return statement


def positions(statement: Any) -> Iterator[Affine]:
    """All positions in a statement."""
    if isinstance(statement, (Load, Store)):
        yield statement.place.address
    if isinstance(statement, (Let, Position)):
        yield from statement.positions
    if isinstance(statement, (Load, Check)):
        yield from (g.position for g in statement.guards)
    if isinstance(statement, Select):
        yield statement.guard.position
    if isinstance(statement, (Take, Reset)) and statement.cell.address is not None:
        yield statement.cell.address


def depends(statements: Sequence[Statement], variable: int) -> bool:
    """Whether a position in the statements depends on a variable."""
    found = (p for s in walk(statements) for p in positions(s))
    return any(p.coefficient(variable) for p in found)


def overwrites(statements: Sequence[Statement]) -> bool:
    """Whether the statements read and write the same value."""
    found = [(type(s), s.place.value) for s in walk(statements) if isinstance(s, (Load, Store))]
    return bool({v for kind, v in found if kind is Load} & {v for k, v in found if k is Store})


def may_repeat(loop: ForLoop) -> bool:
    """Whether repeating an iteration has no effect except on the totals of the loop."""
    totals = {t.name for t in loop.totals}
    for statement in walk(loop.body):
        if isinstance(statement, Take) and statement.cell.name not in totals:
            return False
        if isinstance(statement, Store) and statement.adds:
            return False
    return not overwrites(loop.body)


# -- verification ---------------------------------------------------------------------------------


def verify(program: LoopProgram) -> LoopProgram:
    """Return a loop program if it is sound; raise otherwise. For tests.

    Every variable is set before it is read, with the same dtype, every position uses variables of
    enclosing loops only, and, for known sizes, every place is inside its memory.
    """
    _Verifier(program.transposed).block(program.body, {}, set())
    return program


class _Verifier:
    def __init__(self, transposed: frozenset[InMemory]) -> None:
        self.transposed = transposed  # values in transposed blocks, whose places are not checked

    def block(self, statements: Sequence[Statement], bounds: Any, names: set[Variable]) -> None:
        bounds, names = dict(bounds), set(names)
        for statement in statements:
            for position in positions(statement):
                for variable, _ in position.terms:
                    if variable not in bounds:
                        raise AssertionError(f"{statement}: no loop over {variable}")
            for name in used(statement):
                if name not in names:
                    raise AssertionError(f"{statement}: {name} is not set")
            if isinstance(statement, ForLoop):
                inner = {**bounds, statement.variable: _extent(statement)}
                self.block(statement.body, inner, names)
            elif isinstance(statement, StatementBlock):
                self.block(statement.body, bounds, names)
            elif isinstance(statement, Position):
                bounds[statement.variable] = None
            elif isinstance(statement, (Load, Let, Select, Check)):
                names.add(statement.made)
            if isinstance(statement, (Load, Store)) and not getattr(statement, "guards", ()):
                self.inside(statement.place, bounds)

    def inside(self, place: Place, bounds: Any) -> None:
        value = place.value
        if place.chosen or any(bounds[v] is None for v, _ in place.address.terms):
            return
        if not isinstance(value, Local) and value in self.transposed:
            return
        least, largest = place.address.range(bounds)
        count = value.count if isinstance(value, Local) else math.prod(value.shape)
        within = surely(least) and surely(count - 1 - largest)
        if not within and not is_open(count):
            raise AssertionError(f"{place} lies outside of {count}")


def _extent(loop: ForLoop) -> tuple[int, int] | None:
    """The known ends of a loop; None if they depend on the call."""
    low = [n for n in loop.low if isinstance(n, int)]
    high = [n for n in loop.high if isinstance(n, int)]
    return (low[-1], high[-1]) if low and high and loop.step == 1 else None


MINUS_ZERO = number(-0.0, dtypes.float64)


def start(kind: str, dtype: DType, *, running: bool = False) -> Number:
    """The start value of an accumulator."""
    if running and kind == "sum" and dtype is dtypes.float64:
        return MINUS_ZERO  # keeps the sign of a first element -0.0
    return ACCUMULATORS[kind].start(dtype)
