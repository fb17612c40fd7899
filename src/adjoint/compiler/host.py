"""Host programs: what a compiled program does between its loop programs, in order, as data.

`host_building` makes a host program of a layout; a target prints it (`targets/c/render.py`), or a
runtime interprets it. It is no text of any language. Sizes and offsets are whole numbers, which may
depend on symbolic sizes; a condition is a truth value in memory; a routine is a symbol with the
numbers to call it with.

An `Address` is where memory begins. Variables of a host program are counters of loops
(`TurnCounter`) and addresses that change from turn to turn (`Held`).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from adjoint.compiler.plan import Callback, Strided
from adjoint.core.dtypes import DType
from adjoint.core.records import record
from adjoint.core.shapes import Shape
from adjoint.expressions.trees import Number
from adjoint.loops.loop_programs import LoopProgram, Total

Size = Any  # a whole number: of known size, a polynomial in symbolic sizes, or an `Offset`

# -- numbers --------------------------------------------------------------------------------------


@record
class Offset:
    """A number that the memory plan computes from symbolic sizes, in the program's table."""

    index: int


@record
class TurnCounter:
    """The number of a turn of a loop, counted from 0."""

    name: str


@record
class RowsOfBlock:
    """The number of rows of the block that a sweep is at."""


@record
class TapeLength:
    """The number of turns that a tape has."""

    tape: Tape


# -- addresses ------------------------------------------------------------------------------------


@record
class Array:
    """An array of its own: an input, a constant, a result."""

    number: int  # among `Plan.roots.values`


@record
class InArena:
    """A part of the arena."""

    offsets: tuple[Size, ...]  # in bytes, from the outermost plan to the innermost

    def plus(self, offset: Size) -> InArena:
        return InArena((*self.offsets, offset))


@record
class Tape:
    """Memory that grows: a row for each turn of a loop without a known length."""

    number: int  # among `Plan.roots.tapes`, which follow the arrays
    row: Size  # bytes


@record
class Held:
    """An address that a loop keeps, such as that of its carry."""

    name: str


@record
class RowOf:
    """The row of a turn."""

    start: Address
    turn: TurnCounter
    size: Size  # bytes of a row


@record
class InTurns:
    """One of two buffers: in turns 0, 2, … and in turns 1, 3, …"""

    turn: TurnCounter
    even: Address
    odd: Address


@record
class OfThread:
    """A place in the memory of a thread of a sweep; where row 0 of a block would be."""

    offset: int  # in bytes
    row: int = 0  # bytes from one row of the block to the next; 0: not a block of rows


@record
class OfPart:
    """A place in the memory of a part of a sweep."""

    offset: int  # in bytes


@record
class HostOperand:
    """A strided view of memory."""

    address: Address
    view: Strided  # its value, offset, shape and strides, in elements
    row: Size = 0  # elements by which it advances with each row before the block of a sweep

    @property
    def dtype(self) -> DType:
        return self.view.value.dtype


Address = Array | InArena | Tape | Held | RowOf | InTurns | OfThread | OfPart | HostOperand

# -- launches -------------------------------------------------------------------------------------


@record
class Joined:
    """The result of an accumulator, which is joined from those of all parts."""

    total: Total
    count: Size  # accumulators of a part
    target: HostOperand
    divisor: Number | None  # of a mean


@record
class Run:
    """A loop program with its arguments."""

    program: LoopProgram
    operands: tuple[HostOperand, ...]  # in the order of `program.pointers`
    joined: tuple[Joined, ...]
    scratch: InArena | None = None  # memory of all threads
    where: tuple[Size, ...] = ()  # it serves sizes for which all of these are at least 0
    accumulators: int = 0  # in a sweep: their offset in the memory of a part


@record
class Launch:
    """The first of some loop programs whose condition holds."""

    runs: tuple[Run, ...]
    largest: Size  # the work of the largest step of the plan


@record
class SumOfParts:
    """A product over all rows: the sum of those over the rows of each part."""

    target: HostOperand
    offset: int  # in the memory of a part


@record
class Blocks:
    """Steps that run one block of rows after the other. Threads share the rows in parts."""

    rows: Size
    width: int  # rows of a block
    work: Size
    memory: InArena  # of all threads
    each: int  # bytes of a thread
    kept: InArena  # memory of all parts
    part: int  # bytes of a part
    steps: tuple[Run | CallRoutine, ...]
    sums: tuple[SumOfParts, ...]


# -- routines -------------------------------------------------------------------------------------


@record
class Symbol:
    """The address of a function: "product:product:float", "lapack:dgetrf"."""

    name: str


@record
class PackedArguments:
    """The address of a structure: addresses, then real numbers."""

    addresses: tuple[HostOperand | Symbol | None, ...]
    reals: tuple[float, ...] = ()


@record
class AfterFirst:
    """An operand; in the first block of a thread none."""

    operand: HostOperand


@record
class CallRoutine:
    """A call of a routine, which gets its numbers and arguments and returns whether it failed.

    It is called for each element of a batch, whose dimensions are the leading ones of its operands.
    """

    symbol: Symbol
    numbers: tuple[Size | RowsOfBlock, ...]
    arguments: tuple[HostOperand | PackedArguments | Symbol | AfterFirst | None, ...]
    batch: Shape = ()


# -- copies ---------------------------------------------------------------------------------------


@record
class CopyArray:
    """A row-major array copied to another."""

    target: HostOperand
    source: HostOperand


@record
class FillArray:
    """A number written to each element of a row-major array."""

    target: HostOperand
    number: Any


@record
class JoinRows:
    """Rows of some row-major arrays, next to each other in the rows of the target."""

    target: HostOperand
    rows: Size
    sources: tuple[HostOperand, ...]
    lengths: tuple[Size, ...]  # elements of a row of each


# -- loops and branches ---------------------------------------------------------------------------


@record
class Hold:
    """An address that is kept from here on; None if a later step sets it."""

    held: Held
    address: Address | None


@record
class Move:
    """Kept addresses that change together."""

    moves: tuple[tuple[Held, Address], ...]


@record
class Loop:
    """A loop with a length that is known before it; `turn` counts down in a backward loop."""

    step: TurnCounter
    turn: TurnCounter
    count: Size | TapeLength
    backwards: bool
    body: tuple[Statement, ...]


@record
class WhileLoop:
    """A loop that runs as long as a truth value, which `test` computes in each turn, is true."""

    step: TurnCounter
    test: tuple[Statement, ...]
    condition: HostOperand | bool
    body: tuple[Statement, ...]


@record
class Branch:
    """Steps for a truth value that is true, and for one that is false."""

    condition: HostOperand
    true: tuple[Statement, ...]
    false: tuple[Statement, ...]


@record
class Enclosed:
    """Steps with variables of their own."""

    body: tuple[Statement, ...]


# -- tapes: Note [Thinned tapes] ------------------------------------------------------------------


@record
class Grow:
    """A tape gets as many rows as another has turns."""

    tape: Tape
    length: TapeLength


@record
class Open:
    """Tapes are filled from here on."""

    tapes: tuple[Tape, ...]
    name: str  # of this use of the tapes
    thins: bool  # whether it may keep only some of its carries


@record
class Push:
    """The carry of a turn is copied to its tapes, if it is one to keep."""

    tapes: tuple[Tape, ...]
    name: str
    thins: bool
    turn: TurnCounter
    carry: tuple[Held, ...]


@record
class Close:
    """The tapes have the carries of so many turns."""

    tapes: tuple[Tape, ...]
    name: str
    turns: TurnCounter


@record
class Rewind:
    """Tapes are read from here on, turn after turn."""

    tapes: tuple[Tape, ...]
    name: str


@record
class Pop:
    """The carry of a turn is found; if it was dropped, the body, which computes the carry of turn
    `step` + 1 from that of turn `step`, is run from the last turn kept before.

    The carry of the turn before (or in a backward loop of that after) was found before.
    """

    tapes: tuple[Tape, ...]
    name: str
    carry: tuple[Held, ...]
    turn: TurnCounter
    step: TurnCounter
    backwards: bool
    body: tuple[Statement, ...]


Statement = (
    Launch | Blocks | CallRoutine | CopyArray | FillArray | JoinRows | Hold | Move | Loop
    | WhileLoop | Branch | Enclosed | Grow | Open | Push | Close | Rewind | Pop
)  # fmt: skip


@record
class HostProgram:
    """Segments of native steps, with callbacks between them."""

    parts: tuple[tuple[Statement, ...] | Callback, ...]
    routines: tuple[str, ...]  # the symbols of the functions that it calls by address, in order
    symbols: int = 0  # symbolic sizes
    tapes: bool = False  # whether it has tapes

    def statements(self) -> Iterator[Statement | Run]:
        """All statements, those in loops and branches and the steps of sweeps too."""
        for part in self.parts:
            if not isinstance(part, Callback):
                yield from _walk(part)

    def loop_programs(self) -> Iterator[LoopProgram]:
        """The loop programs that it runs, some more than once."""
        for statement in self.statements():
            if isinstance(statement, Launch):
                yield from (run.program for run in statement.runs)
            elif isinstance(statement, Run):
                yield statement.program


def _walk(statements: tuple[Statement, ...]) -> Iterator[Statement | Run]:
    for statement in statements:
        yield statement
        if isinstance(statement, Blocks):
            yield from statement.steps
        for body in inside(statement):
            yield from _walk(body)


def inside(statement: Statement) -> tuple[tuple[Statement, ...], ...]:
    """The statements in a statement."""
    if isinstance(statement, (Loop, Enclosed, Pop)):
        return (statement.body,)
    if isinstance(statement, WhileLoop):
        return statement.test, statement.body
    return (statement.true, statement.false) if isinstance(statement, Branch) else ()
