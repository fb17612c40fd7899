"""Print loop programs as C text."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from adjoint.core import dtypes
from adjoint.core.c_types import C_TYPES
from adjoint.core.dtypes import DType
from adjoint.core.symbolic_sizes import is_open
from adjoint.expressions import c_text
from adjoint.expressions.functions import VECTORIZED
from adjoint.expressions.trees import Binary, Choose, Expression, Variable
from adjoint.loops.affine import Affine, variable
from adjoint.loops.joining import clause, taken
from adjoint.loops.loop_programs import (
    ABOVE,
    BLOCK,
    CELL,
    FIRST,
    LANE,
    LEFT,
    PIECE,
    ROW,
    VECTOR,
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
    calls_any,
    may_repeat,
    position,
)

_WIDEST = 16  # elements of a vector
_BYTES = (dtypes.bool_, dtypes.uint8)
_OWN = {
    ROW: "row", BLOCK: "start", LANE: "b", ABOVE: "above", LEFT: "left", PIECE: "piece",
    VECTOR: "vector",
}  # fmt: skip


def printed(program: LoopProgram, name: str, sizes: Sequence[str] = ()) -> str:
    """The C function of a loop program; its last arguments are the symbolic sizes."""
    return _Printer(program, sizes).function(name)


class _Printer:
    def __init__(self, program: LoopProgram, sizes: Sequence[str]) -> None:
        self.program, self.sizes = program, sizes
        self.names = {v: f"p{k}" for k, v in enumerate(program.pointers)}
        self.taken = 0  # words of scratch memory in use
        self.strides: set[int] = set()  # strides hidden from gcc
        self.across: set[int] = set()  # variables that count along lanes

    def function(self, name: str) -> str:
        program = self.program
        pointer = "*" if program.overlaps else "*restrict "
        arguments = [f"{C_TYPES[v.dtype.name]} {pointer}{p}" for v, p in self.names.items()]
        arguments += ["const long first", "const long last"]
        body = [*self.partials(), *self.block(program.body)]
        if program.partials:
            arguments.append("double *restrict partial")
        if program.checks:
            arguments.append("int *status")
            body = ["int wrong = 0;", *body, "if (wrong) *status = 1;"]
        if program.rooms():
            arguments.append("double *restrict scratch")
        arguments += [f"const long {size}" for size in self.sizes]
        body = [*map(_hidden, sorted(self.strides)), *body]
        if program.known:
            known = [f"const long size{number} = {size};" for number, size in program.known.items()]
            body = ["{", *known, *body, "}"]
        body = [f"(void){size};" for size in self.sizes] + body
        head = f"static void {name}({', '.join(arguments)}) {{"
        lines = [*program.comments, head, *_indented(["(void)first; (void)last;", *body]), "}", ""]
        return "\n".join(lines)

    def partials(self) -> list[str]:
        """Declarations of the accumulators that last through all rows."""
        lines, offset = [], 0
        for total, count in self.program.partials:
            name, c_type = f"{total.name}p", _type(total.dtype)
            start = c_text.printed(total.start)
            lines.append(f"{c_type} *restrict {name} = ({c_type} *)partial + {offset};")
            lines.append(f"for (long k = 0; k < {count}; k++) {name}[k] = {start};")
            offset += count
        return lines

    def block(self, statements: Sequence[Statement]) -> list[str]:
        lines: list[str] = []
        for statement in statements:
            if isinstance(statement, ForLoop):
                lines += self.loop(statement)
            elif isinstance(statement, StatementBlock):
                lines += ["{", *_indented(self.block(statement.body)), "}"]
            else:
                lines.append(self.line(statement))
        return lines

    def loop(self, loop: ForLoop) -> list[str]:
        name = _name(loop.variable)
        low, high = self.ends("LARGER", loop.low), self.ends("SMALLER", loop.high)
        if loop.variable == LANE and not _may_run_along_columns(loop):
            self.across = {s.variable for s in loop.body if isinstance(s, Position)}
        inner = self.block(loop.body)
        if loop.variable == LANE:
            self.across = set()
        if loop.variable == BLOCK:
            inner = [f"const long lanes = SMALLER(last - start, {loop.step});", *inner]
        if _is_once(loop):
            return [f"{{ const long {name} = {low};", *_indented(inner), "}"]
        step = f"{name}++" if loop.step == 1 else f"{name} += {loop.step}"
        vectors = f"#pragma omp simd{''.join(map(clause, loop.totals))}"

        def turns(low: str, high: str) -> list[str]:
            return [
                f"for (long {name} = {low}; {name} < {high}; {step}) {{",
                *_indented(inner),
                "}",
            ]

        if loop.vector and loop.step == 1 and any(map(is_open, loop.high)) and _has_lanes(loop):
            return self.in_lanes(loop, low, high)
        return [vectors, *turns(low, high)] if loop.vector else turns(low, high)

    def in_lanes(self, loop: ForLoop, low: str, high: str) -> list[str]:
        """A loop of symbolic length in whole vectors.

        The last vector overlaps the one before it: its elements are computed twice, and sums take
        them in once. A sum has an accumulator for each lane. gcc's own code would end each row
        element by element, and would pass sums through memory.
        """
        name, wide = _name(loop.variable), _lanes(loop)
        lines = [f"const long low = {low}, high = {high};", "long at = low;"]
        for total in loop.totals:
            start = c_text.printed(total.start)
            lines += [
                f"{_type(total.dtype)} {total.name}l[{wide}] __attribute__((aligned(64)));",
                f"for (long b = 0; b < {wide}; b++) {total.name}l[b] = {start};",
            ]
        cells = {t.name: Cell(f"{t.name}l", variable(LANE)) for t in loop.totals}
        vector = ["#pragma omp simd", f"for (long b = 0; b < {wide}; b++) {{"]
        body = _indented(self.block(_taken(loop, cells)))
        lines += [
            f"for (; at + {wide} <= high; at += {wide}) {{",
            *_indented([*vector, f"  const long {name} = at + b;", *body, "}"]),
            "}",
        ]
        if may_repeat(loop):
            begin = f"  const long {name} = high - {wide} + b;"
            rooms, *parts = _taken_once(loop, cells, wide)
            last = self.block(rooms)
            for part in filter(None, parts):
                last += [*vector, begin, *_indented(self.block(part)), "}"]
            lines += [
                f"if (at < high && high - low >= {wide}) {{",
                *_indented([*last, "at = high;"]),
                "}",
            ]
        for total in loop.totals:
            half, way, lanes = wide, (total.kind, total.dtype), f"{total.name}l"
            while half := half // 2:
                lane = taken(*way, f"{lanes}[b]", f"{lanes}[b + {half}]")
                lines += ["#pragma omp simd", f"for (long b = 0; b < {half}; b++) {{ {lane} }}"]
            lines.append(taken(*way, total.name, f"{lanes}[0]"))
        if loop.totals:
            lines += ["for (; at < high; at++) {", f"  const long {name} = at;"]
        else:  # tells gcc that fewer are left than fill a vector
            lines += ["#pragma omp simd", f"for (long b = 0; b < (high - at) % {wide}; b++) {{"]
            lines.append(f"  const long {name} = at + b;")
        return ["{", *_indented([*lines, *_indented(self.block(loop.body)), "}"]), "}"]

    def ends(self, choose: str, ends: Sequence[Any]) -> str:
        texts = [self.index(e) if isinstance(e, Affine) else str(e) for e in ends]
        return functools.reduce(lambda a, b: f"{choose}({a}, {b})", texts)

    def line(self, statement: Statement) -> str:
        """The C text of a statement that contains no others."""
        match statement:
            case Load(made, place, guards):
                found, condition = self.place(place), self.condition(guards)
                return _declared(made, f"{condition} ? {found} : 0" if condition else found)
            case Let(made, tree, positions):
                return _declared(made, self.tree(tree, positions))
            case Select(made, guard, inside, outside):
                one, other = self.tree(inside), self.tree(outside)
                return _declared(made, f"({self.condition((guard,))}) ? {one} : {other}")
            case Check():
                return self.check(statement)
            case Store(place, tree, adds, source):
                text = self.tree(tree, cell=source)
                return f"{self.place(place)} {'+=' if adds else '='} {text};"
            case Take(kind, cell, tree, source):
                return taken(kind, tree.dtype, self.cell(cell), self.tree(tree, cell=source))
            case Reset(cell, tree):
                return f"{self.cell(cell)} = {self.tree(tree)};"
            case Room(dtype, name, count, start):
                if is_open(count):
                    return self.room(statement)
                # gcc 12 puts arrays of half-precision numbers into vectors without aligning them
                size = "" if count is None else f"[{count}] __attribute__((aligned(64)))"
                begin = "" if start is None else f" = {c_text.printed(start)}"
                return f"{_type(dtype)} {name}{size}{begin};"
            case Position(variable, tree, positions):
                return f"const long {_name(variable)} = {self.tree(tree, positions)};"
            case ForLoop() | StatementBlock():
                raise AssertionError("these have lines of their own")

    def room(self, room: Room) -> str:
        """An array of symbolic size, in the scratch memory of the thread."""
        place, self.taken = self.taken, self.taken + (room.count or 0)
        c_type = _type(room.dtype)
        return f"{c_type} *restrict {room.name} = ({c_type} *)(scratch + {place});"

    def tree(
        self, tree: Expression, positions: Sequence[Affine] = (), cell: Cell | None = None
    ) -> str:
        """The C text of a tree, for its positions and the accumulator that it reads."""
        if isinstance(tree, Variable):
            return tree.name
        names = {str(k): f"({self.index(place)})" for k, place in enumerate(positions)}
        if cell is not None:
            names[CELL] = self.cell(cell)
        return c_text.printed(tree, names)

    def check(self, check: Check) -> str:
        condition = self.condition(check.guards)
        index, size = self.tree(check.index), check.size
        least = f"-{size}" if check.wraps else "0"
        fine = f"({index} >= {least} && {index} < {size})"
        bad = f"({condition}) && !{fine}" if condition else f"!{fine}"
        wrapped = f"{index} + ({index} < 0 ? {size} : 0)" if check.wraps else index
        return f"wrong |= {bad}; const long long {check.made.name} = {fine} ? {wrapped} : 0;"

    def condition(self, guards: Sequence[Guard]) -> str:
        texts = []
        for guard in guards:
            position = self.index(guard.position)
            texts.append(f"{position} >= {guard.low} && {position} < {guard.high}")
        return " && ".join(texts)

    def cell(self, cell: Cell) -> str:
        return cell.name if cell.address is None else f"{cell.name}[{self.index(cell.address)}]"

    def place(self, place: Place) -> str:
        value = place.value
        address = place.address
        if isinstance(value, Local):
            name = value.name
        else:
            name, first = self.names[value], self.program.pointers[value]
            address = Affine(address.offset - first, address.terms)
        terms = [self.index(address)]
        terms += [f"{self.tree(chosen)} * {stride}" for chosen, stride in place.chosen]
        return f"{name}[{' + '.join(t for t in terms if t != '0') or '0'}]"

    def index(self, address: Affine) -> str:
        """The C text of an index."""
        terms = [str(address.offset)] if address.offset else []
        for number, step in address.terms:
            name, factor = _name(number), str(step)
            if number in self.across and _is_permuted_by_gcc(step):
                self.strides.add(step)
                factor = f"stride{step}"
            terms.append(name if step == 1 else f"{name} * {factor}")
        return " + ".join(terms) or "0"


def _is_once(loop: ForLoop) -> bool:
    """Whether a loop always has exactly one iteration."""
    low, high = loop.low[-1], loop.high[-1]
    return len(loop.low) == 1 and type(low) is type(high) is int and high == low + 1


def _is_permuted_by_gcc(stride: int) -> bool:
    """Whether gcc would gather elements at this stride by permuting whole vectors.

    That is fast for strides of 3 and powers of 2, and slower than single loads for others.
    """
    return type(stride) is int and stride > 4 and stride & (stride - 1) != 0


def _may_run_along_columns(loop: ForLoop) -> bool:
    """Whether a loop along rows only moves numbers, so that gcc may vectorise along columns."""
    if any(isinstance(s, (ForLoop, Take)) or calls_any(s, VECTORIZED) for s in loop.body):
        return False
    places = [s.place for s in loop.body if isinstance(s, (Load, Store))]
    return not any(isinstance(p.value, Local) and len(p.address.terms) > 1 for p in places)


def _hidden(stride: int) -> str:
    return f'long stride{stride} = {stride}; __asm__("" : "+r"(stride{stride}));'


def _has_lanes(loop: ForLoop) -> bool:
    """Whether a loop of symbolic length is written as whole vectors.

    Loops over bytes are not: gcc uses vectors of one width in a loop, so bytes take 64 iterations
    at once, and gcc arranges that itself. Nor are loops without function calls that run once or
    gather: there the remainder is quickly done element by element.
    """
    if not any(calls_any(s, VECTORIZED) for s in loop.body):
        places = [s.place.address for s in loop.body if isinstance(s, (Load, Store))]
        steps = (abs(int(p.coefficient(loop.variable))) for p in places)
        if FIRST in loop.low or (not loop.totals and any(step > 1 for step in steps)):
            return False
    bytes_ = any(isinstance(s, Load) and s.made.dtype in _BYTES for s in loop.body)
    return bool(loop.totals) or (may_repeat(loop) and not bytes_)


def _lanes(loop: ForLoop) -> int:
    """The number of elements of a loop's vectors.

    Wide numbers alone fill a vector with half as many, in a loop inside rows. A loop over rows
    takes the larger number, since functions may use narrow numbers internally.
    """
    made = [s.made.dtype for s in loop.body if isinstance(s, (Load, Let, Select))]
    wide = {dtypes.float64, dtypes.int64} >= {*made, *(t.dtype for t in loop.totals)}
    return _WIDEST // 2 if wide and FIRST not in loop.low else _WIDEST


def _taken(loop: ForLoop, cells: dict[str, Cell]) -> list[Statement]:
    """The statements of a loop with other accumulators."""
    return [
        replace(s, cell=cells[s.cell.name]) if isinstance(s, Take) and s.cell.name in cells else s
        for s in loop.body
    ]


def _taken_once(loop: ForLoop, cells: dict[str, Cell], wide: int) -> tuple[list[Statement], ...]:
    """The same where elements before the C variable `at` come a second time: accumulators take
    them in once. (arrays, statements, statements of a second loop along the vector).

    Results of functions go through an array: gcc would call a function only where its result is
    taken in, for one element after the other.
    """
    is_new = Binary(">=", position(0), Variable("at", dtypes.int64))
    calls = any(calls_any(s, VECTORIZED) for s in loop.body)
    rooms: list[Statement] = []
    first: list[Statement] = []
    second: list[Statement] = []
    for number, statement in enumerate(loop.body):
        if not (isinstance(statement, Take) and statement.cell.name in cells):
            first.append(statement)
            continue
        total = next(t for t in loop.totals if t.name == statement.cell.name)
        tree = statement.tree
        if calls:
            place = Place(Local(f"y{number}l", total.dtype, wide), variable(LANE))
            rooms.append(Room(total.dtype, f"y{number}l", wide))
            first.append(Store(place, tree, source=statement.source))
            tree = Variable(f"z{number}", total.dtype)
            second.append(Load(tree, place))
        made = Variable(f"y{number}", total.dtype)
        chosen = Let(made, Choose(is_new, tree, total.start), (variable(loop.variable),))
        taking = replace(statement, cell=cells[total.name], tree=made)
        (second if calls else first).extend([chosen, taking])
    return rooms, first, second


def _declared(made: Variable, text: str) -> str:
    return f"const {_type(made.dtype)} {made.name} = {text};"


def _type(dtype: DType) -> str:
    return C_TYPES[dtype.name]


def _name(variable: int) -> str:
    return _OWN.get(variable) or f"i{variable}"


def _indented(lines: Sequence[str]) -> list[str]:
    return [f"  {line}" for line in lines if line]
