"""Loop programs: fusion makes them, and C text is printed from them.

A `LoopProgram` is a function of rows: loops (`ForLoop`) around statements, each of which reads or
writes one element, with indices that are affine in the loops' variables. With symbolic sizes the
extents and indices are polynomials in size symbols (`core/symbolic_sizes.py`).

A variable is a whole number: a dimension of the loop's space, or a constant of this file (`ROW`).
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from typing import Any

from adjoint.compiler.accumulators import ACCUMULATORS
from adjoint.compiler.affine import Affine, Bounds
from adjoint.core.records import record, structure
from adjoint.core.remembering import cached_property
from adjoint.core.symbolic_sizes import is_open, surely, with_known
from adjoint.graph.ir import Node, Value

ROW, BLOCK, LANE = -1, -2, -3  # the number of a row; the first row of a block; a row in a block
ABOVE, LEFT = -4, -5  # where a tile begins
PIECE = -6  # where a part of a long sum begins
VECTOR = -7  # where a vector begins, unless it would end behind a short loop
FIRST, LAST = "first", "last"  # the rows that a call of the function runs over


# -- one iteration --------------------------------------------------------------------------------


@record
class Guard:
    """low <= position < high"""

    position: Affine
    low: int
    high: int

    def decided(self, bounds: Bounds) -> bool | None:
        """Whether it holds for all variables within bounds, or for none; None: for some."""
        least, largest = self.position.range(bounds)
        if surely(least - self.low) and surely(self.high - 1 - largest):
            return True
        return False if surely(self.low - 1 - largest) or surely(least - self.high) else None


@record
class Local:
    """An array of a kernel's own, for one row or one block of rows."""

    name: str
    c_type: str
    count: int  # elements


@record
class Place:
    """An element of a value in memory."""

    value: Value | Local
    address: Affine
    chosen: tuple[tuple[str, int], ...] = ()  # (variable with an index, its stride)


@record
class Load:
    """A variable that is read from memory; 0 where a guard does not hold."""

    name: str
    c_type: str
    place: Place
    guards: tuple[Guard, ...] = ()


@record
class Let:
    """A variable and its expression; positions of the loops stand in it as {0}, {1}."""

    name: str
    c_type: str
    text: str
    positions: tuple[Affine, ...] = ()


@record
class Select:
    """A variable that is one of two, by a condition on a position."""

    name: str
    c_type: str
    guard: Guard
    inside: str
    outside: str


@record
class Check:
    """An index that must be in range: it becomes `name`, which always is."""

    name: str
    index: str
    size: int
    wraps: bool  # whether negative ones count from the end
    guards: tuple[Guard, ...] = ()


@record
class Total:
    """The accumulator of a reduction or of running totals."""

    node: Node
    kind: str  # "sum"
    name: str
    c_type: str
    start: str


@record
class Cell:
    """An accumulator; with an address, one of several beside one another."""

    name: str
    address: Affine | None = None


@record
class Store:
    """An expression that is written to memory."""

    place: Place
    text: str
    adds: bool = False  # to what lies there
    source: Cell | None = None  # an accumulator, which stands in the expression as CELL


@record
class Take:
    """An accumulator takes an expression in."""

    kind: str
    cell: Cell
    text: str
    source: Cell | None = None  # another accumulator, as in a store


# -- around iterations ----------------------------------------------------------------------------


@record
class Room:
    """A variable that is set, or an array; of the stack."""

    c_type: str
    name: str
    count: int | None = None
    start: str | None = None


@record
class Reset:
    """An accumulator becomes an expression."""

    cell: Cell
    text: str


@record
class Position:
    """A variable of loops in terms of others, as C text with these for {0}, {1}."""

    variable: int
    text: str
    positions: tuple[Affine, ...] = ()


@structure
class StatementBlock:
    """Statements with variables of their own, where the positions are within bounds."""

    body: list[Statement]
    bounds: dict[int, tuple[int, int]] = field(default_factory=dict)


@structure
class ForLoop:
    """A loop. Of several low ends the largest counts, of several high ends the smallest."""

    variable: int
    low: tuple[Any, ...]
    high: tuple[Any, ...]
    body: list[Statement]
    step: int = 1
    vector: bool = False
    totals: tuple[Total, ...] = ()  # accumulators that the lanes of a vector share
    cuts: tuple[int, ...] = ()  # where a condition on its variable changes


Simple = Load | Let | Select | Check | Store | Take | Room | Reset | Position
Statement = Simple | ForLoop | StatementBlock
Leaf = Load | Let | Select | Check


@structure
class LoopProgram:
    """The function of a nest: statements for the rows from FIRST to LAST - 1."""

    name: str
    rows: int
    body: list[Statement] = field(default_factory=list)
    partials: list[tuple[Total, int]] = field(default_factory=list)  # that last through all rows
    work: int = 0  # about as many additions
    divisible: bool = False  # whether threads can share its rows
    turned: frozenset[Value] = frozenset()  # values of which it finds a block of rows, turned
    whole: bool = False  # whether it runs over all rows, whatever FIRST and LAST are
    known: Mapping[int, int] = field(default_factory=dict)  # open sizes that are numbers in it
    comments: list[str] = field(default_factory=list)

    def statements(self) -> list[Statement]:
        """All of them, each loop before its body."""
        return _walk(self.body)

    @property
    def checks(self) -> bool:
        """Whether it can find an index out of range."""
        return any(isinstance(s, Check) for s in self.statements())

    @property
    def rereads(self) -> bool:
        """Whether vectors read the same element of memory in every turn of a loop."""
        vectors = (s for s in self.statements() if isinstance(s, ForLoop) and s.vector)
        reads = ((v.variable, s.place) for v in vectors for s in v.body if isinstance(s, Load))
        return any(
            variable >= 0 and isinstance(place.value, Value) and not place.chosen
            and not place.address.coefficient(variable)
            for variable, place in reads
        )  # fmt: skip

    @cached_property
    def pointers(self) -> dict[Value, int]:
        """The values that it reads and writes in memory, in the order of their first use, and from
        which element on: so the kernels of the rows of one value are alike.
        """
        found: dict[Value, list[int]] = {}
        for statement in self.statements():
            place = statement.place if isinstance(statement, (Load, Store)) else None
            if place is not None and isinstance(place.value, Value):
                found.setdefault(place.value, []).append(place.address.offset)
        known = {v: all(type(n) is int and n >= 0 for n in found[v]) for v in found}
        return {v: min(found[v]) if known[v] else 0 for v in found}

    def rooms(self) -> list[Room]:
        """Arrays whose size is open: they lie in memory that the caller gives each thread."""
        return [s for s in self.statements() if isinstance(s, Room) and is_open(s.count)]

    @property
    def partial(self) -> int:
        """How many accumulators last through all rows."""
        return sum(count for _, count in self.partials)

    @property
    def scratch(self) -> int:
        """What a thread needs of memory whose size is open, in words of 8 bytes."""
        own = self.partial if is_open(self.partial) else 0
        return own + sum(room.count or 0 for room in self.rooms())


def _walk(statements: Sequence[Statement]) -> list[Statement]:
    found: list[Statement] = []
    for statement in statements:
        found.append(statement)
        if isinstance(statement, (ForLoop, StatementBlock)):
            found += _walk(statement.body)
    return found


# -- edits ----------------------------------------------------------------------------------------

_NAMES = re.compile(r"\bv\d+\b")
_ZEROS = ("0.0", "0.0f")
_TERM = re.compile(r"v\d+|0\.0f?")


def used(statement: Any) -> list[str]:
    """The variables of an iteration that a statement reads."""
    found = []
    if isinstance(statement, (Let, Store, Take)):
        found = _NAMES.findall(statement.text)
    elif isinstance(statement, Select):
        found = _NAMES.findall(f"{statement.inside} {statement.outside}")
    elif isinstance(statement, Check):
        found = _NAMES.findall(statement.index)
    if isinstance(statement, (Load, Store)):
        found += [name for name, _ in statement.place.chosen]
    return found


def without_dead(statements: Sequence[Statement]) -> list[Statement]:
    """The statements of an iteration without variables that nobody reads; checks stay."""
    needed: set[str] = set()
    kept: list[Statement] = []
    for statement in reversed(statements):
        made = isinstance(statement, (Load, Let, Select))
        if made and statement.name not in needed:
            continue
        needed.update(used(statement))
        kept.append(statement)
    return kept[::-1]


def within(statements: Sequence[Statement], bounds: Bounds) -> list[Statement]:
    """Statements of one iteration where positions are within bounds: conditions that these decide
    are gone, and what only they wanted.
    """
    same: dict[str, str] = {}  # a choice that is decided is one of its sides
    settled: set[str] = {*_ZEROS}  # adding 0 to them changes nothing: they are not -0.0
    found: list[Statement] = []

    def now(text: str) -> str:
        return _NAMES.sub(lambda m: same.get(m[0], m[0]), text) if same else text

    for statement in statements:
        if isinstance(statement, Select):
            inside, outside = now(statement.inside), now(statement.outside)
            holds = statement.guard.decided(bounds)
            if holds is None:
                found.append(replace(statement, inside=inside, outside=outside))
            else:
                same[statement.name] = inside if holds else outside
            continue
        if isinstance(statement, (Load, Check)):
            decided = [g.decided(bounds) for g in statement.guards]
            if False in decided:
                same[statement.name] = "0"
                continue
            left = tuple(g for g, d in zip(statement.guards, decided, strict=True) if d is None)
            statement = replace(statement, guards=left)
        statement = _renamed(statement, now)
        if isinstance(statement, Let) and (other := _beside_zero(statement.text)):
            if other in settled:
                same[statement.name] = other
                continue
            settled.add(statement.name)
        found.append(statement)
    return without_dead(found)


def _beside_zero(text: str) -> str:
    """What 0 is added to in `v1 + 0.0`; nothing if an expression is something else."""
    left, _, right = text.partition(" + ")
    if _TERM.fullmatch(left) and _TERM.fullmatch(right):
        return left if right in _ZEROS else right if left in _ZEROS else ""
    return ""


def _renamed(statement: Any, now: Callable[[str], str]) -> Any:
    if isinstance(statement, (Let, Store, Take)):
        statement = replace(statement, text=now(statement.text))
    if isinstance(statement, Check):
        statement = replace(statement, index=now(statement.index))
    if isinstance(statement, (Load, Store)) and statement.place.chosen:
        chosen = tuple((now(name), stride) for name, stride in statement.place.chosen)
        statement = replace(statement, place=replace(statement.place, chosen=chosen))
    return statement


def ends_early(statements: Sequence[Statement]) -> list[Statement]:
    """The same, each value stored or taken in as soon as it is made: where many wait for the end of
    an iteration registers do not suffice, and compilers take quadratic time.
    """
    made: dict[str, int] = {}
    places: list[int] = []
    overwritten = overwrites(statements)
    for place, statement in enumerate(statements):
        if isinstance(statement, (ForLoop, StatementBlock)):
            statement.body = ends_early(statement.body)
        elif isinstance(statement, (Load, Let, Select, Check)):
            made[statement.name] = place
        elif isinstance(statement, (Store, Take)) and statement.source is None and not overwritten:
            place = max((made[n] for n in used(statement) if n in made), default=place)
        places.append(place)
    return [statements[k] for k in sorted(range(len(places)), key=places.__getitem__)]


def relocated(statements: Sequence[Statement], move: Callable[[Place], Place]) -> list[Any]:
    """The same with every place moved."""
    return [
        replace(s, place=move(s.place)) if isinstance(s, (Load, Store)) else s for s in statements
    ]


def reindexed(statement: Any, change: Callable[[Affine], Affine]) -> Any:
    """The same statement with every position changed."""

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
    """The same statement of an iteration where some open sizes are numbers."""

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
    """Everything in a statement that depends on where in the space the loop is."""
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
    """Whether a position in some statements depends on a variable."""
    found = (p for s in _walk(statements) for p in positions(s))
    return any(p.coefficient(variable) for p in found)


def overwrites(statements: Sequence[Statement]) -> bool:
    """Whether something is read and written."""
    found = [(type(s), s.place.value) for s in _walk(statements) if isinstance(s, (Load, Store))]
    return bool({v for kind, v in found if kind is Load} & {v for k, v in found if k is Store})


def may_repeat(loop: ForLoop) -> bool:
    """Whether an iteration that runs twice does the same again, but for the totals of the loop."""
    totals = {t.name for t in loop.totals}
    for statement in _walk(loop.body):
        if isinstance(statement, Take) and statement.cell.name not in totals:
            return False
        if isinstance(statement, Store) and statement.adds:
            return False
    return not overwrites(loop.body)


# -- verification ---------------------------------------------------------------------------------


def verify(kernel: LoopProgram) -> LoopProgram:
    """Return a kernel if it is sound, else raise; for tests.

    Every variable is set where it is read, every index belongs to a loop around it, and, where
    sizes are known, no place lies outside its memory.
    """
    _Verifier(kernel.turned).block(kernel.body, {}, set())
    return kernel


class _Verifier:
    def __init__(self, turned: frozenset[Value]) -> None:
        self.turned = turned  # values whose memory is not the kernel's to know

    def block(self, statements: Sequence[Statement], bounds: Any, names: set[str]) -> None:
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
                names.add(statement.name)
            if isinstance(statement, (Load, Store)) and not getattr(statement, "guards", ()):
                self.inside(statement.place, bounds)

    def inside(self, place: Place, bounds: Any) -> None:
        value = place.value
        if place.chosen or any(bounds[v] is None for v, _ in place.address.terms):
            return
        if isinstance(value, Value) and value in self.turned:
            return
        least, largest = place.address.range(bounds)
        count = value.count if isinstance(value, Local) else math.prod(value.shape)
        within = surely(least) and surely(count - 1 - largest)
        if not within and not is_open(count):
            raise AssertionError(f"{place} lies outside of {count}")


def _extent(loop: ForLoop) -> tuple[int, int] | None:
    """The known ends of a loop; None where a call decides."""
    low = [n for n in loop.low if isinstance(n, int)]
    high = [n for n in loop.high if isinstance(n, int)]
    return (low[-1], high[-1]) if low and high and loop.step == 1 else None


def start(kind: str, c_type: str, *, running: bool = False) -> str:
    """Where an accumulator begins."""
    if running and kind == "sum":
        return "-0.0" if c_type == "double" else "0"  # the first element is as it was
    return ACCUMULATORS[kind].start(c_type)
