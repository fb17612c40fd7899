"""A program as C text: functions for its nests, and one function that runs all steps in order.

`p` is the block of arguments: the arena, the library's routines, a word for errors, then the
arrays. Values of the program lie in the arena; a region (a loop over time, a branch) gets pointers
to the values that it reads.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import field, replace
from typing import Any

from adjoint.compiler import libraries, shaping
from adjoint.compiler.accumulators import ACCUMULATORS, DECLARED
from adjoint.compiler.affine import row_major
from adjoint.compiler.c.printer import printed
from adjoint.compiler.c.tapes import AGAIN, TAPE_DECLARED
from adjoint.compiler.definitions import Put
from adjoint.compiler.loops import Kernel, Total
from adjoint.compiler.memory import THREADS, Layout
from adjoint.compiler.nests import Nest
from adjoint.compiler.plan import Call, Callback, Nested, Operand, Remake
from adjoint.compiler.sweeps import Sweep
from adjoint.core.records import structure
from adjoint.core.shapes import Shape
from adjoint.core.sizes import is_open
from adjoint.elements.numbers import C_TYPES, literal
from adjoint.graph.ir import Value
from adjoint.graph.staging import UNKNOWN

ARENA, LIBRARY, STATUS, SIZES = 0, 1, 2, 3  # places in the block of arguments
FIRST = 4  # where the arrays begin
PARALLEL = 1 << 21  # additions from which threads pay: waking them takes some 25 µs
AWAKE = 1 << 18  # and where a larger step of the program has woken them


class Table:
    """The numbers that a program with open sizes is given: the sizes, and what depends on them in
    ways that only the memory plan knows.
    """

    def __init__(self, symbols: int) -> None:
        self.sizes = [f"size{k}" for k in range(symbols)]
        self.offsets: dict[tuple[int, Any], tuple[int, Layout]] = {}  # by layout and value or step

    def number(self, layout: Layout, what: Any, known: int) -> str:
        """Where something begins in its arena, as C text."""
        if not self.sizes:
            return str(known)
        place = len(self.sizes) + len(self.offsets)
        place, _ = self.offsets.setdefault((id(layout), what), (place, layout))
        return f"z[{place}]"

    def values(self, sizes: Sequence[int]) -> list[int]:
        """The numbers for given sizes, once the layouts are arranged for them."""
        found = list(sizes)
        for (_, what), (_, layout) in self.offsets.items():
            if isinstance(what, Value):
                found.append(layout.offsets[what])
            elif isinstance(what, tuple):
                number, name = what
                found.append(inner_start(layout, number, name))
            else:
                found.append(layout.starts[what])
        return found

    def opening(self) -> str:
        """C text that reads the sizes."""
        if not self.sizes:
            return ""
        lines = [f"const long {name} = z[{k}]; (void){name};" for k, name in enumerate(self.sizes)]
        return "  " + "\n  ".join([f"const long *const z = p[{SIZES}];", *lines]) + "\n"


def inner_start(layout: Layout, number: int, name: str) -> int:
    """Where the arena of a graph of a region begins, behind those of the region's others."""
    start = layout.starts[number]
    for before, each in layout.inner[number].items():
        if before == name:
            break
        start += each.size
    return start


@structure
class Scope:
    """Where the values of one plan are, as C expressions of type char *."""

    layout: Layout
    base: str  # the arena of the plan
    table: Table
    tapes: dict[Value, int]  # and their places in the block of arguments
    places: dict[Value, str] = field(default_factory=dict)  # of what is not in the arena
    prefix: str = ""  # of names, for plans inside one another

    def place(self, value: Value) -> str:
        found = self.places.get(value)
        if found is not None:
            return found
        if value in self.tapes:
            return f"({self.tape(value)})->data"
        known = self.layout.offsets[value]
        return f"({self.base} + {self.table.number(self.layout, value, known)})"

    def tape(self, value: Value) -> str:
        """The tape of a value that has one turn after another, however many there are."""
        return f"(Tape *)p[{self.tapes[value]}]"

    def holds(self, value: Value) -> bool:
        """Whether there is room for a value, because somebody reads it."""
        return value in self.places or value in self.tapes or value in self.layout.offsets

    def pointer(self, value: Value) -> str:
        return f"(({C_TYPES[value.dtype.name]} *){self.place(value)})"

    def operand(self, operand: Operand) -> str:
        pointer = self.pointer(operand.value)
        return f"({pointer} + {operand.offset})" if operand.offset else pointer


class Renderer:
    """Writes the functions of one program."""

    def __init__(self, table: Table) -> None:
        self.table = table
        self.functions: dict[str, str] = {}  # text, but for the name, -> name

    def function(self, kernel: Kernel) -> str:
        """The name of the function of a kernel; those that do the same share one."""
        text = printed(kernel, "NAME", self.table.sizes)
        return self.functions.setdefault(text, kernel.name)

    def steps(self, scope: Scope, numbers: Sequence[int]) -> str:
        return "".join(self._step(scope, n) for n in numbers)

    def _step(self, scope: Scope, number: int) -> str:
        step = scope.layout.steps[number]
        if isinstance(step, Nest):
            return self._nest(scope, step, number)
        if isinstance(step, Sweep):
            return self._sweep(scope, step, number)
        if isinstance(step, Call):
            return _writer(scope, step).text()
        assert isinstance(step, Nested)
        write = {"scan": self._scan, "while_loop": self._while, "cond": self._branch}
        return write[step.node.op.name](scope, step, number)

    # -- nests ------------------------------------------------------------------------------------

    def _nest(self, scope: Scope, nest: Nest, number: int) -> str:
        made = scope.layout.kernels[number]
        name = self.function(made)
        lines = self._bases(scope, nest)
        largest = scope.layout.largest
        enough = AWAKE if is_open(largest) or largest >= PARALLEL else PARALLEL
        parallel = made.divisible and (is_open(made.work) or made.work >= enough)
        threads = THREADS if parallel else 1
        if made.scratch:
            start = self.table.number(scope.layout, number, 0)
            lines.append(f"double *const scratch = (double *)({scope.base} + {start});")
        if is_open(made.partial):  # the first of what each thread has there
            lines.append("double *const partial = scratch;")
        elif made.partial:
            kept = "static _Thread_local " if threads * made.partial > _STACK else ""
            lines.append(f"{kept}double room[{threads * made.partial}];")
            lines.append("double *const partial = room;")  # of this thread, for all of them
        alone = self._call(name, scope, made, "0", str(made.rows), "partial", "0")
        if not parallel:
            lines.append(alone)
        else:
            partial = f"partial + thread * {_stride(made)}"
            lines.append("int threads = 1;")  # as many as there are, perhaps fewer than asked for
            if is_open(made.work):
                lines.append(f"if ({_is_little(made, largest)}) {alone}\n  else")
            lines += [
                "#pragma omp parallel num_threads(THREADS)",
                "{ const long thread = THREAD, count = COUNT;",
                "  if (thread == 0) threads = count;",
                f"  const long step = ({made.rows} + count - 1) / count;",
                f"  const long low = SMALLER(thread * step, {made.rows});",
                f"  const long high = SMALLER(low + step, {made.rows});",
                f"  {self._call(name, scope, made, 'low', 'high', partial, 'thread')}",
                "}",
            ]
        lines += self._totals(scope, made, "threads" if parallel else "1", _stride(made))
        return "{\n" + "\n".join(f"  {line}" for line in lines) + "\n}\n"

    def _call(
        self, name: str, scope: Scope, made: Kernel, low: str, high: str, partial: str,
        thread: str = "0",
    ) -> str:  # fmt: skip
        given = [*(scope.pointer(v) for v in made.pointers()), low, high]
        if made.partials:
            given.append(partial)
        if made.checks:
            given.append("status")
        if made.rooms():
            own = made.partial if is_open(made.partial) else 0
            given.append(f"scratch + {thread} * {made.scratch} + {own}")
        return f"{name}({', '.join([*given, *self.table.sizes])});"

    def _totals(self, scope: Scope, made: Kernel, threads: str, apart: int) -> list[str]:
        """Join the accumulators of threads, `apart` from each other, always in the same order."""
        lines, offset = [], 0
        plan = scope.layout.plan
        for total, count in made.partials:
            node, c_type, accumulator = total.node, total.c_type, ACCUMULATORS[total.kind]
            one = f"((const {c_type} *)partial)[t * {apart} + {offset} + k]"
            lines += [
                f"for (long k = 0; k < {count}; k++) {{",
                f"  {c_type} total = {accumulator.start(c_type)};",
                f"  for (long t = 0; t < {threads}; t++) {{ const {c_type} one = {one}; "
                f"{accumulator.take.format(acc='total', v='one')} }}",
                f"  {scope.pointer(node.output)}[k] = {shaping.finished(plan, node, 'total')};",
                "}",
            ]
            offset += count
        return lines

    def _bases(self, scope: Scope, nest: Nest) -> list[str]:
        """C text for the arrays that puts start from."""
        plan = scope.layout.plan
        lines = []
        for member in nest.members:
            for node in member.loop.combining:
                definition = plan.definitions[node]
                if isinstance(definition, Put):
                    base = plan.numbers.get(definition.base)
                    source = base
                    if base is None:
                        source = scope.pointer(plan.origin(definition.base))
                    lines.append(_copied(node.output, scope.pointer(node.output), source))
        return lines

    # -- sweeps -----------------------------------------------------------------------------------

    def _sweep(self, scope: Scope, sweep: Sweep, number: int) -> str:
        """Blocks of rows: each thread has a share of them, a room for what steps hand on, and its
        own sums, which are added in the order of threads.
        """
        start = self.table.number(scope.layout, number, scope.layout.starts[number])
        places = sweep.places
        inner = replace(scope, places=dict(scope.places))
        for value in sweep.local:
            inner.places[value] = f"(own + {places[value]} - low * {value.dtype.itemsize})"
        lines = [f"char *const room = {scope.base} + {start};", "int threads = 1;"]
        begin: list[str] = []
        each: list[str] = []
        for place, step in enumerate(sweep.steps):
            if isinstance(step, Call):
                each.append(_swept_call(inner, sweep, step))
                continue
            made = sweep.kernels[place]
            if made.partials:
                begin.append(f"double *const all{place} = (double *)(own + {places[place]});")
                begin.append(f"double *const one{place} = all{place} + {made.partial};")
                begin += _started(made, f"all{place}")
            each.append(self._call(self.function(made), inner, made, "low", "high", f"one{place}"))
            each += _merged(made, f"all{place}", f"one{place}")
        lines += [
            f"#pragma omp parallel num_threads(THREADS) if ({sweep.work} >= {AWAKE})",
            "{ const long thread = THREAD, count = COUNT;",
            "  if (thread == 0) threads = count;",
            f"  char *const own = room + thread * {sweep.room}L; (void)own;",
            f"  const long step = ({sweep.rows} + count - 1) / count;",
            f"  const long first = SMALLER(thread * step, {sweep.rows});",
            f"  const long last = SMALLER(first + step, {sweep.rows});",
            *(f"  {line}" for line in begin),
            f"  for (long low = first; low < last; low += {sweep.block}) {{",
            f"    const long high = SMALLER(low + {sweep.block}, last);",
            *(f"    {line}" for line in each),
            "  }",
            "}",
        ]
        for place, made in sweep.kernels.items():
            if made.partials:
                lines.append(f"{{ double *const partial = (double *)(room + {places[place]});")
                lines += [*self._totals(scope, made, "threads", sweep.room // 8), "}"]
        for value in sweep.sums:
            lines += _swept_sum(scope, sweep, value)
        return "{\n" + "\n".join(f"  {line}" for line in lines) + "\n}\n"

    # -- regions ----------------------------------------------------------------------------------

    def _inner(self, scope: Scope, number: int, name: str) -> Scope:
        """The scope of a graph of a region; its arena follows those of the region's others."""
        layout = scope.layout
        known = inner_start(layout, number, name)
        start = self.table.number(layout, (number, name), known)
        base, prefix = f"({scope.base} + {start})", f"{scope.prefix}{number}{name}_"
        inner = layout.inner[number][name]
        return Scope(inner, base, self.table, scope.tapes, dict(scope.places), prefix)

    def _place(self, scope: Scope, operand: Operand | Value) -> str:
        """Where an operand of a region is that has run."""
        if isinstance(operand, Operand):
            return f"(char *){scope.operand(operand)}"
        return scope.place(operand)

    def _bind(self, inner: Scope, values: Sequence[Value], given: Sequence[str]) -> None:
        inner.places.update(zip(values, given, strict=True))

    def _share_tapes(self, scope: Scope, values: Sequence[Value], operands: Sequence[Any]) -> None:
        """Let a region know the tapes that it is given: how many turns they have."""
        for value, operand in zip(values, operands, strict=True):
            if isinstance(operand, Operand) and operand.value in scope.tapes:
                scope.tapes[value] = scope.tapes[operand.value]

    def _given(self, scope: Scope, step: Nested) -> tuple[list[str], list[str]]:
        """Pointers to the operands of a region; a number is written to memory of its own."""
        lines, found = [], []
        for number, operand in enumerate(step.operands):
            value = step.filled.get(number)
            if value is not None:
                lines.append(_copied(value, scope.pointer(value), operand) + "\n")
            found.append(self._place(scope, operand if value is None else value))
        return lines, found

    def _scan(self, scope: Scope, step: Nested, number: int) -> str:
        constants, start, xs, length, backwards = step.node.args
        counts = len(constants), len(start), len(xs)
        inner = self._inner(scope, number, "body")
        graph = inner.layout.plan.graph
        lines, given = self._given(scope, step)
        t = f"t{inner.prefix}"
        self._bind(inner, graph.inputs[: counts[0]], given[: counts[0]])
        self._share_tapes(scope, graph.inputs[: counts[0]], step.operands[: counts[0]])
        ends = counts[0] + counts[1]
        for value, place in zip(graph.inputs[ends:], given[ends:], strict=True):
            inner.places[value] = f"({place} + {t} * {_row_bytes(value.shape, value)})"
        again = [_Again(self, scope, r, self._inner(scope, number, r.name)) for r in step.remakes]
        for turns in again:
            inner.places |= {
                v: turns.rows[x] for v, x in zip(graph.inputs[ends:], xs) if x in turns.rows
            }
        carry = graph.inputs[counts[0] : ends]
        count = str(length)
        if length == UNKNOWN:
            count = f"({scope.tape(xs[0])})->count"
            for value in self._tapes(step):
                lines.append(f"({scope.tape(value)})->count = {count};\n")
                lines.append(self.grown(scope, value, count, count))
            lines += [line for turns in again for line in turns.declare(count)]
        ys = step.node.outputs[counts[1] :]
        rows = {
            position + counts[1]: f"({scope.place(v)} + {t} * {_row_bytes(v.shape[1:], v)})"
            for position, v in enumerate(ys)
        }
        s = f"s{inner.prefix}"
        head = f"for (long {s} = 0; {s} < {count}; {s}++) {{\n"
        loop = _Turns(self, scope, inner, step, carry, rows)
        lines += loop.declare(given[counts[0] : ends])
        lines.append(f"{head}const long {t} = {f'{count} - 1 - {s}' if backwards else s};\n")
        for turns in again:
            lines += turns.back_to(t) if backwards else turns.on_to(t)
        lines += loop.body()
        lines.append("}\n")
        lines += loop.finish()
        return "{\n" + "".join(lines) + "}\n"

    def _tapes(self, step: Nested) -> list[Value]:
        return [v for v in step.node.outputs if UNKNOWN in v.shape]

    def grown(self, scope: Scope, value: Value, turns: str, most: str) -> str:
        """See to it that a tape has room for some turns; without memory the call fails."""
        tape, size = scope.tape(value), _row_bytes(value.shape[1:], value)
        return f"if (has_no_room({tape}, {turns}, {most}, {size})) {{ *status = 1; return; }}\n"

    def _while(self, scope: Scope, step: Nested, number: int) -> str:
        first, constants, start, _ = step.node.args
        counts = len(first), len(constants), len(start)
        condition = self._inner(scope, number, "condition")
        inner = self._inner(scope, number, "body")
        lines, given = self._given(scope, step)
        asked = condition.layout.plan
        self._bind(condition, asked.graph.inputs[: counts[0]], given[: counts[0]])
        graph = inner.layout.plan.graph
        constant = slice(counts[0], counts[0] + counts[1])
        self._bind(inner, graph.inputs[: counts[1]], given[constant])
        self._share_tapes(scope, graph.inputs[: counts[1]], step.operands[constant])
        carry = graph.inputs[counts[1] :]
        loop = _Turns(self, scope, inner, step, carry, {})
        lines += loop.declare(given[counts[0] + counts[1] :])
        self._bind(condition, asked.graph.inputs[counts[0] :], [inner.places[v] for v in carry])
        turn, shift, most = (f"{letter}{inner.prefix}" for letter in ("s", "shift", "most"))
        tapes = self._tapes(step)
        lines.append(f"long {turn} = 0;\n")
        if tapes:
            room = _most_kept(scope, tapes) if step.thins else "0x7fffffffffffffff"
            lines.append(f"const long {most} = {room};\nlong {shift} = 0;\n")
        lines.append(f"for (;; {turn}++) {{\n")
        lines.append(self.steps(condition, range(len(condition.layout.steps))))
        (answer,) = asked.outputs
        held = (
            f"{condition.operand(answer)}[0]" if isinstance(answer, Operand) else str(int(answer))
        )
        lines.append(f"if (!{held}) break;\n")
        if tapes:
            lines += self._kept(scope, tapes, loop.names, turn, shift, most)
        lines += loop.body()
        lines.append("}\n")
        for tape in map(scope.tape, tapes):
            lines.append(f"({tape})->count = {turn}; ({tape})->shift = {shift};\n")
        lines += loop.finish()
        return "{\n" + "".join(lines) + "}\n"

    def _kept(
        self, scope: Scope, tapes: list[Value], names: list[str], turn: str, shift: str, most: str
    ) -> list[str]:
        """Keep the carry of a turn, if it is one of those that are kept: Note [Thinned tapes]."""
        is_kept = f"!({turn} & ((1L << {shift}) - 1))"
        sizes = [_row_bytes(v.shape[1:], v) for v in tapes]
        lines = [f"if ({is_kept} && {turn} >> {shift} == {most}) {{\n"]
        for value, size in zip(tapes, sizes, strict=True):
            lines.append(f"thin({scope.tape(value)}, {most}, {size});\n")
        lines.append(f"{shift}++;\n}}\nif ({is_kept}) {{\n")
        for value, name, size in zip(tapes, names, sizes, strict=True):
            lines.append(self.grown(scope, value, f"({turn} >> {shift}) + 1", most))
            if size:  # of nothing there is no memory
                row = f"{scope.place(value)} + ({turn} >> {shift}) * {size}"
                lines.append(f"__builtin_memcpy({row}, {name}, {size});\n")
        return [*lines, "}\n"]

    def _branch(self, scope: Scope, step: Nested, number: int) -> str:
        lines, given = self._given(scope, step)
        held = f"((unsigned char *){given[0]})[0]"
        parts = []
        for name in ("true", "false"):
            inner = self._inner(scope, number, name)
            self._bind(inner, inner.layout.plan.graph.inputs, given[1:])
            self._share_tapes(scope, inner.layout.plan.graph.inputs, step.operands[1:])
            text = self.steps(inner, range(len(inner.layout.steps)))
            for output, target in zip(inner.layout.plan.outputs, step.node.outputs, strict=True):
                source = inner.operand(output) if isinstance(output, Operand) else output
                text += _copied(target, scope.pointer(target), source) + "\n"
            parts.append(text)
        lines.append(f"if ({held}) {{\n{parts[0]}}} else {{\n{parts[1]}}}\n")
        return "{\n" + "".join(lines) + "}\n"


def _writer(scope: Scope, call: Call, targets: list[str] | None = None) -> libraries.CallWriter:
    pointers = [scope.operand(o) for o in call.operands]
    if targets is None:
        targets = [scope.pointer(v) if scope.holds(v) else "0" for v in call.node.outputs]
    return libraries.CallWriter(call, pointers, targets)


def _swept_call(scope: Scope, sweep: Sweep, call: Call) -> str:
    """Products for the rows of one block."""
    a, b, out = libraries.matrices(call)
    value = call.node.output
    if value in sweep.sums:
        a, b = sweep.operand(a, -1), sweep.operand(b, -2)
        own = f"(({C_TYPES[value.dtype.name]} *)(own + {sweep.places[value]}))"
        writer = libraries.CallWriter(call, [scope.operand(a), scope.operand(b)], [own])
        return writer.sum_of_products(a, b, "low", "high - low", "low > first")
    a = sweep.operand(a, -2)
    result = sweep.operand(Operand(value, 0, out, row_major(out)), -2)
    given = [scope.operand(a), scope.operand(b)]
    writer = libraries.CallWriter(call, given, [scope.operand(result)])
    return writer.rows_of_product(a, b, result, "low", "high - low")


def _swept_sum(scope: Scope, sweep: Sweep, value: Value) -> list[str]:
    """A product over all rows: the sum of the threads' parts, of those that had rows."""
    c_type = C_TYPES[value.dtype.name]
    part = f"(({c_type} *)(room + t * {sweep.room}L + {sweep.places[value]}))"
    count = math.prod(value.shape)
    return [
        f"#pragma omp parallel for num_threads(threads) if (threads * {count} >= {AWAKE})",
        f"for (long k = 0; k < {count}; k++) {{",
        f"  const long step = ({sweep.rows} + threads - 1) / threads;",
        f"  {c_type} total = 0;",
        f"  for (long t = 0; t * step < {sweep.rows}; t++) total += {part}[k];",
        f"  {scope.pointer(value)}[k] = total;",
        "}",
    ]


def _started(made: Kernel, into: str) -> Iterator[str]:
    """Let the accumulators of a thread begin."""
    for total, count, target in _accumulators(made, into):
        begin = ACCUMULATORS[total.kind].start(total.c_type)
        yield f"for (long k = 0; k < {count}; k++) {target} = {begin};"


def _merged(made: Kernel, into: str, block: str) -> Iterator[str]:
    """Add the accumulators of one block to those of its thread."""
    pairs = zip(_accumulators(made, into), _accumulators(made, block), strict=True)
    for (total, count, target), (_, _, one) in pairs:
        c_type = total.c_type
        take = ACCUMULATORS[total.kind].take.format(acc="total", v="one")
        body = f"{c_type} total = {target}; const {c_type} one = {one}; {take} {target} = total;"
        yield f"for (long k = 0; k < {count}; k++) {{ {body} }}"


def _accumulators(made: Kernel, pointer: str) -> Iterator[tuple[Total, int, str]]:
    """The accumulators of a kernel, how many each has, and number k of them as C text."""
    offset = 0
    for total, count in made.partials:
        yield total, count, f"(({total.c_type} *){pointer})[{offset} + k]"
        offset += count


def _is_little(made: Kernel, largest: Any) -> str:
    """Whether one thread does it, which with open sizes each call decides."""
    many = f" || {made.partial} > {shaping.MOST_PARTIAL}" if is_open(made.partial) else ""
    return f"{made.work} < ({largest} < {PARALLEL} ? {PARALLEL} : {AWAKE}){many}"


def _stride(made: Kernel) -> int:
    """From the accumulators of one thread to those of the next."""
    return made.scratch if is_open(made.partial) else made.partial


class _Turns:
    """The carried values of a loop over time.

    A turn reads where `c…` points, and writes to one of two buffers, or to the row of an output
    that is the same value; then the pointer moves there. A value that a turn makes is not copied.
    """

    def __init__(
        self, renderer: Renderer, scope: Scope, inner: Scope, step: Nested,
        carry: Sequence[Value], rows: dict[int, str],
    ) -> None:  # fmt: skip
        self.renderer, self.scope, self.inner, self.step = renderer, scope, inner, step
        self.carry, self.rows = list(carry), rows
        self.names = [f"c{inner.prefix}{k}" for k in range(len(carry))]

    def declare(self, given: Sequence[str]) -> list[str]:
        lines = [f"char *{n} = {g};\n" for n, g in zip(self.names, given, strict=True)]
        self.inner.places.update(zip(self.carry, self.names, strict=True))
        return lines

    def _next(self, k: int) -> str:
        even, odd = self.step.carried[k]
        turn = f"(s{self.inner.prefix} & 1)"
        return f"({turn} ? {self.scope.place(odd)} : {self.scope.place(even)})"

    def body(self) -> list[str]:
        """The steps of a turn, and what is carried on."""
        plan = self.inner.layout.plan
        outputs = plan.outputs
        bound: dict[Value, str] = {}
        copied: list[tuple[Any, Value, str]] = []
        places = [*(self._next(k) for k in range(len(self.carry))), *self.rows.values()]
        order = [*range(len(self.carry), len(outputs)), *range(len(self.carry))]
        for k in order:
            operand, target = outputs[k], self.step.node.outputs[k]
            value = self._own(operand)
            if value is not None and value not in bound:
                bound[value] = places[k]
            elif value is None or k >= len(self.carry):
                copied.append((operand, self._typed(target, k), places[k]))
        self.inner.places.update(bound)
        lines = [self.renderer.steps(self.inner, range(len(self.inner.layout.steps)))]
        for operand, like, place in copied:
            source = self.inner.operand(operand) if isinstance(operand, Operand) else operand
            c_type = C_TYPES[like.dtype.name]
            lines.append(_copied(like, f"(({c_type} *){place})", source) + "\n")
        moves = []
        for k, name in enumerate(self.names):
            value = self._own(outputs[k])
            moves.append((name, bound[value] if value is not None else places[k]))
        lines += [f"char *const n{n} = {place};\n" for n, place in moves]
        lines += [f"{n} = n{n};\n" for n, _ in moves]
        return lines

    def _typed(self, target: Value, k: int) -> Value:
        """A value of the shape that one turn gives."""
        if k < len(self.carry):
            return self.carry[k]
        return Value(target.name, type(target.type)(target.shape[1:], target.dtype))

    def _own(self, operand: Any) -> Value | None:
        """A value that the turn itself makes, whole; None for anything else."""
        layout = self.inner.layout
        if not isinstance(operand, Operand) or operand.value not in layout.offsets:
            return None
        whole = math.prod(operand.shape) == math.prod(operand.value.shape)
        return operand.value if whole and not operand.offset else None

    def finish(self) -> list[str]:
        lines = []
        for name, value in zip(self.names, self.step.node.outputs, strict=False):
            c_type = C_TYPES[value.dtype.name]
            target = self.scope.pointer(value)
            lines.append(_copied(value, target, f"(({c_type} *){name})") + "\n")
        return lines


class _Again:
    """The carries of a while_loop for a scan over them; those not kept are computed again."""

    def __init__(self, renderer: Renderer, scope: Scope, remake: Remake, inner: Scope) -> None:
        self.renderer, self.scope, self.inner = renderer, scope, inner
        loop = remake.loop
        self.tapes = [v for v in loop.node.outputs if UNKNOWN in v.shape]
        inputs = inner.layout.plan.graph.inputs
        given = loop.body_operands()
        for value, operand in zip(inputs, given, strict=False):
            inner.places[value] = renderer._place(scope, operand)
        step = replace(loop, carried=remake.carried)
        self.turns = _Turns(renderer, scope, inner, step, inputs[len(given) :], {})
        self.rows = dict(zip(self.tapes, self.turns.names, strict=True))  # and where they will be
        self.name = inner.prefix

    def declare(self, count: str) -> list[str]:
        """C text before the scan."""
        shift, first, room, used = (f"{w}{self.name}" for w in ("shift", "first", "room", "used"))
        lines = [
            f"const long {shift} = ({self.scope.tape(self.tapes[0])})->shift;\n",
            f"const long {first} = (({count} - 1) >> {shift}) + 1;\n",
            f"const long {room} = SMALLER({_most_kept(self.scope, self.tapes)}, {AGAIN});\n",
            f"long {used} = 0, held{self.name}[{AGAIN}];\nif ({shift}) {{\n",
        ]
        rows = f"{first} + {room}"
        lines += [self.renderer.grown(self.scope, v, rows, rows) for v in self.tapes]
        return [*lines, "}\n", *self.turns.declare(["0"] * len(self.tapes))]

    def _start(self, slot: str) -> list[str]:
        """Point to a carry that was kept."""
        pairs = zip(self.tapes, self.turns.names, strict=True)
        sizes = {v: _row_bytes(v.shape[1:], v) for v in self.tapes}
        return [f"{n} = {self.scope.place(v)} + {slot} * {sizes[v]};\n" for v, n in pairs]

    def back_to(self, t: str) -> list[str]:
        """C text that finds the carry of a turn, the one after it having been found before."""
        s, shift, first, room, used, held, slot, next_ = (
            f"{w}{self.name}"
            for w in ("s", "shift", "first", "room", "used", "held", "slot", "next")
        )
        lines = [
            f"while ({used} && {held}[{used} - 1] > {t}) {used}--;\n",
            f"long {s} = {t} >> {shift} << {shift}, {slot} = {t} >> {shift};\n",
            f"if ({used} && {held}[{used} - 1] > {s}) ",
            f"{{ {s} = {held}[{used} - 1]; {slot} = {first} + {used} - 1; }}\n",
            *self._start(slot),
            f"for (long {next_} = {s} + further({t} - {s} + 1, {room} - {used}); {s} < {t};) {{\n",
            *self.turns.body(),
            f"if (++{s} == {next_} && {s} < {t}) {{\n",
        ]
        for value, name in zip(self.tapes, self.turns.names, strict=True):
            if size := _row_bytes(value.shape[1:], value):
                row = f"{self.scope.place(value)} + ({first} + {used}) * {size}"
                lines.append(f"__builtin_memcpy({row}, {name}, {size});\n")
        further = f"{next_} = {s} + further({t} - {s} + 1, {room} - {used});"
        return [*lines, f"{held}[{used}++] = {s};\n{further}\n}}\n}}\n"]

    def on_to(self, t: str) -> list[str]:
        """C text that finds the carry of a turn, the one before it having been found before."""
        shift = f"shift{self.name}"
        return [
            f"if (!({t} & ((1L << {shift}) - 1))) {{\n",
            *self._start(f"({t} >> {shift})"),
            f"}} else {{\nconst long s{self.name} = {t} - 1;\n",
            *self.turns.body(),
            "}\n",
        ]


def _most_kept(scope: Scope, values: list[Value]) -> str:
    """How many carries of a loop may be kept."""
    size = sum(_row_bytes(v.shape[1:], v) for v in values)
    return f"most_kept({scope.tape(values[0])}, {size})"


_STACK = 1 << 14  # accumulators that fit on the stack


def _row_bytes(shape: Shape, value: Value) -> int:
    """What one turn of a loop reads or writes of a value, in bytes."""
    return math.prod(shape) * value.dtype.itemsize


def _copied(value: Value, target: str, source: Any) -> str:
    """Write an array, or a number, to another of the same size."""
    size = math.prod(value.shape)
    if not isinstance(source, str):
        text = literal(source, C_TYPES[value.dtype.name])
    else:
        text = f"{source}[k]"
    return f"for (long k = 0; k < {size}; k++) {target}[k] = {text};"


def segments(layout: Layout, scope: Scope) -> tuple[str, list[Any]]:
    """Runs of native steps as C functions, with callbacks between them.

    Also the names of the functions in order, a `Callback` standing for itself.
    """
    renderer = Renderer(scope.table)
    names: list[Any] = []
    texts: list[str] = []
    run: list[int] = []
    for number in range(len(layout.steps) + 1):
        step = layout.steps[number] if number < len(layout.steps) else None
        if step is not None and not isinstance(step, Callback):
            run.append(number)
            continue
        if run:
            names.append(f"segment{len(texts)}")
            head = f"void {names[-1]}(void **p) {{\n{_OPENING}{scope.table.opening()}"
            texts.append(head + renderer.steps(scope, run) + "}\n")
            run = []
        if step is not None:
            names.append(step)
    if not texts:
        return "", names
    kernels = [text.replace("NAME", name, 1) for text, name in renderer.functions.items()]
    body = "\n".join([*kernels, *texts])
    needed = DECLARED if "reduction(most" in body or "reduction(fewest" in body else ""
    needed += TAPE_DECLARED if scope.tapes else ""
    return libraries.declarations(layout.plan.routines()) + "\n" + needed + body, names


_OPENING = f"""  char *arena = DATA(p, {ARENA});
  void **library = p[{LIBRARY}];
  int *status = p[{STATUS}];
  (void)arena; (void)library; (void)status;
"""
