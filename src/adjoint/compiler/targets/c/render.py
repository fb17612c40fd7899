"""A program as C text: functions for its nests, and functions that run its steps in order.

`p` is the block of arguments: the arena, the addresses of routines, the status word, the sizes,
then the arrays. Values of the program are stored in the arena. A region (a loop over time, a
branch) gets pointers to the values that it reads.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from adjoint.compiler import routine_calls, shaping
from adjoint.compiler.arena import ProgramLayout
from adjoint.compiler.definitions import Put
from adjoint.compiler.nests import Nest
from adjoint.compiler.plan import Callback, Nested, RoutineCall, Strided
from adjoint.compiler.sweeps import Sweep
from adjoint.compiler.target import Target, Threads
from adjoint.compiler.targets.c.regions import Regions
from adjoint.compiler.targets.c.scope import (
    ARENA,
    LIBRARY,
    STATUS,
    CScope,
    SizeTable,
    copied,
)
from adjoint.compiler.targets.c.tapes import TAPE_DECLARED
from adjoint.compiler.targets.c.threads import (
    joining,
    joining_name,
    own_arguments,
    own_memory,
    sharing,
)
from adjoint.core.c_types import C_TYPES
from adjoint.core.shapes import row_major
from adjoint.core.symbolic_sizes import is_open
from adjoint.expressions import c_text
from adjoint.graph.ir import Value
from adjoint.loops.accumulators import ACCUMULATORS
from adjoint.loops.joining import declarations, taken
from adjoint.loops.loop_programs import LoopProgram, Total
from adjoint.loops.printer import printed


class Renderer:
    """Writes the functions of one program. Functions with the same text are written once."""

    def __init__(self, table: SizeTable, target: Target) -> None:
        self.table, self.target = table, target
        self.functions: dict[str, str] = {}  # text without the name -> name
        self.totals: dict[str, str] = {}  # the same for functions that join accumulators
        self.shared: dict[str, str] = {}  # the same for functions that share rows among threads
        self.outlined: set[str] = set()  # texts of functions that must not be inlined
        self.parts: list[str] = []  # functions for parts of a long segment

    def function(self, program: LoopProgram) -> str:
        """The name of the C function of a loop program; equal texts share one function."""
        text = printed(program, "NAME", self.table.sizes)
        if program.rereads:  # inlined, gcc 12 forgets that nobody writes the memory it reads
            self.outlined.add(text)
        return self.functions.setdefault(text, program.name)

    def segment(self, scope: CScope, numbers: Sequence[int]) -> str:
        """The body of a function that runs steps; long ones call functions for parts of them."""
        opening = f"{{\n{_OPENING}{scope.table.opening()}"
        parts, lines = [""], 0
        for text in (self._step(scope, n) for n in numbers):
            if lines > self.target.limits.lines:
                parts, lines = [*parts, ""], 0
            parts[-1] += text
            lines += text.count("\n")
        if len(parts) == 1:
            return f"{opening}{parts[0]}}}\n"
        calls = []
        for steps in parts:
            name = f"part{len(self.parts)}"
            self.parts.append(f"static void APART {name}(void **p) {opening}{steps}}}\n")
            calls.append(f"  {name}(p);\n")
        return f"{{\n{''.join(calls)}}}\n"

    def steps(self, scope: CScope, numbers: Sequence[int]) -> str:
        return "".join(self._step(scope, n) for n in numbers)

    def _step(self, scope: CScope, number: int) -> str:
        step = scope.layout.steps[number]
        if isinstance(step, Nest):
            return self._nest(scope, step, number)
        if isinstance(step, Sweep):
            return self._sweep(scope, step, number)
        if isinstance(step, RoutineCall):
            return _writer(scope, step).text()
        assert isinstance(step, Nested)
        return Regions(self.table, self.steps).text(scope, step, number)

    # -- nests ------------------------------------------------------------------------------------

    def _nest(self, scope: CScope, nest: Nest, number: int) -> str:
        """C text that runs the first version of a nest whose condition holds."""
        text = self._program(scope, nest, number, scope.layout.programs[number])
        for version in reversed(scope.layout.versions[number]):
            holds = " && ".join(f"{size} >= 0" for size in version.where)
            text = f"if ({holds}) {self._program(scope, nest, number, version.program)}else {text}"
        return text

    def _program(self, scope: CScope, nest: Nest, number: int, made: LoopProgram) -> str:
        name = self.function(made)
        lines = self._bases(scope, nest)
        largest = scope.layout.largest
        most, limits = self.target.threads, self.target.limits
        enough = most.awake if is_open(largest) or largest >= most.work else most.work
        parallel = made.divisible and (is_open(made.work) or made.work >= enough)
        threads = most.most if parallel else 1
        if made.scratch:
            start = self.table.number(scope.layout, number, 0)
            lines.append(f"double *const scratch = (double *)({scope.base} + {start});")
        if is_open(made.partial):  # each thread's accumulators come first in its scratch memory
            lines.append("double *const partial = scratch;")
        elif made.partial:
            kept = "static _Thread_local " if threads * made.partial > limits.stack else ""
            lines.append(f"{kept}double room[{threads * made.partial}];")
            lines.append("double *const partial = room;")  # the caller's, shared by all threads
        rows, stride = str(made.rows), str(_stride(made))
        own = own_arguments(made, "partial", own_memory(made))
        if parallel:
            little = _is_little(made, largest, most) if is_open(made.work) else "0"
            given = [little, rows, *own, stride, str(made.scratch), "&threads"]
            lines.append("int threads;")  # how many threads ran, which may be fewer than asked for
            lines.append(self._call(self._sharing(made, name), scope, made, given))
        else:
            lines.append(self._call(name, scope, made, ["0", rows, *own]))
        lines += self._totals(scope, made, "threads" if parallel else "1", stride)
        return "{\n" + "\n".join(f"  {line}" for line in lines) + "\n}\n"

    def _sharing(self, made: LoopProgram, name: str) -> str:
        """The name of the function that shares the rows of a loop program among threads."""
        text = sharing(made, name, self.table.sizes)
        return self.shared.setdefault(text, f"{name}_shared")

    def _call(self, name: str, scope: CScope, made: LoopProgram, given: Sequence[str]) -> str:
        """A call of a function of a loop program's arrays, of `given`, and of the sizes."""
        arrays = [scope.operand(Strided(v, n, v.shape, ())) for v, n in made.pointers.items()]
        return f"{name}({', '.join([*arrays, *given, *self.table.sizes])});"

    def _totals(self, scope: CScope, made: LoopProgram, threads: str, distance: str) -> list[str]:
        """C text that joins the accumulators of threads, which are `distance` numbers apart."""
        lines, offset = [], 0
        for total, count in made.partials:
            name = self.totals.setdefault(joining(total), joining_name(total))
            given = [
                scope.pointer(total.node.output),
                f"({C_TYPES[total.dtype.name]} *)partial + {offset}",
            ]
            given += [str(count), threads, distance]
            if total.kind == "mean":
                given.append(c_text.printed(shaping.divisor(scope.layout.plan, total.node)))
            lines.append(f"{name}({', '.join(given)});")
            offset += count
        return lines

    def _bases(self, scope: CScope, nest: Nest) -> list[str]:
        """C text that copies the base of each put to its result, before the put writes to it."""
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
                    lines.append(copied(node.output, scope.pointer(node.output), source))
        return lines

    # -- sweeps -----------------------------------------------------------------------------------

    def _sweep(self, scope: CScope, sweep: Sweep, number: int) -> str:
        """C text of a sweep.

        Each thread has a share of the rows in blocks, memory for the values that steps pass on, and
        sums of its own, which are added in the order of the threads.
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
            if isinstance(step, RoutineCall):
                each.append(_swept_call(inner, sweep, step))
                continue
            made = sweep.programs[place]
            if made.partials:
                begin.append(f"double *const all{place} = (double *)(own + {places[place]});")
                begin.append(f"double *const one{place} = all{place} + {made.partial};")
                begin += _started(made, f"all{place}")
            given = ["low", "high", *own_arguments(made, f"one{place}", own_memory(made))]
            each.append(self._call(self.function(made), inner, made, given))
            each += _merged(made, f"all{place}", f"one{place}")
        awake = self.target.threads.awake
        lines += [
            f"#pragma omp parallel num_threads(THREADS) if ({sweep.work} >= {awake})",
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
        for place, made in sweep.programs.items():
            if made.partials:
                lines.append(f"{{ double *const partial = (double *)(room + {places[place]});")
                lines += [*self._totals(scope, made, "threads", str(sweep.room // 8)), "}"]
        for value in sweep.sums:
            lines += _swept_sum(scope, sweep, value)
        return "{\n" + "\n".join(f"  {line}" for line in lines) + "\n}\n"


def _writer(
    scope: CScope, call: RoutineCall, targets: list[str] | None = None
) -> routine_calls.CallWriter:
    pointers = [scope.operand(o) for o in call.operands]
    if targets is None:
        targets = [scope.pointer(v) if scope.holds(v) else "0" for v in call.node.outputs]
    return routine_calls.CallWriter(call, pointers, targets)


def _swept_call(scope: CScope, sweep: Sweep, call: RoutineCall) -> str:
    """C text of a product for the rows of one block."""
    a, b, out = routine_calls.matrices(call)
    value = call.node.output
    if value in sweep.sums:
        a, b = sweep.operand(a, -1), sweep.operand(b, -2)
        own = f"(({C_TYPES[value.dtype.name]} *)(own + {sweep.places[value]}))"
        writer = routine_calls.CallWriter(call, [scope.operand(a), scope.operand(b)], [own])
        return writer.sum_of_products(a, b, "low", "high - low", "low > first")
    a = sweep.operand(a, -2)
    result = sweep.operand(Strided(value, 0, out, row_major(out)), -2)
    given = [scope.operand(a), scope.operand(b)]
    writer = routine_calls.CallWriter(call, given, [scope.operand(result)])
    return writer.rows_of_product(a, b, result, "low", "high - low")


def _swept_sum(scope: CScope, sweep: Sweep, value: Value) -> list[str]:
    """C text of a product over all rows: the sum of the parts of the threads that had rows."""
    c_type = C_TYPES[value.dtype.name]
    part = f"(({c_type} *)(room + t * {sweep.room}L + {sweep.places[value]}))"
    count, awake = math.prod(value.shape), scope.layout.plan.target.threads.awake
    return [
        f"{{ {c_type} *const to = {scope.pointer(value)};",
        f"#pragma omp parallel for num_threads(threads) if (threads * {count} >= {awake})",
        f"for (long k = 0; k < {count}; k++) {{",
        f"  const long step = ({sweep.rows} + threads - 1) / threads;",
        f"  {c_type} total = 0;",
        f"  for (long t = 0; t * step < {sweep.rows}; t++) total += {part}[k];",
        "  to[k] = total;",
        "} }",
    ]


def _started(made: LoopProgram, into: str) -> Iterator[str]:
    """C text that sets the accumulators of a thread to their start."""
    for total, count, target in _accumulators(made, into):
        begin = c_text.printed(ACCUMULATORS[total.kind].start(total.dtype))
        yield f"for (long k = 0; k < {count}; k++) {target} = {begin};"


def _merged(made: LoopProgram, into: str, block: str) -> Iterator[str]:
    """C text that adds the accumulators of a block to those of its thread."""
    pairs = zip(_accumulators(made, into), _accumulators(made, block), strict=True)
    for (total, count, target), (_, _, one) in pairs:
        c_type, take = C_TYPES[total.dtype.name], taken(total.kind, total.dtype, "total", "one")
        body = f"{c_type} total = {target}; const {c_type} one = {one}; {take} {target} = total;"
        yield f"for (long k = 0; k < {count}; k++) {{ {body} }}"


def _accumulators(made: LoopProgram, pointer: str) -> Iterator[tuple[Total, int, str]]:
    """(accumulator, count, C text of its element k) for each accumulator of a loop program."""
    offset = 0
    for total, count in made.partials:
        yield total, count, f"(({C_TYPES[total.dtype.name]} *){pointer})[{offset} + k]"
        offset += count


def _is_little(made: LoopProgram, largest: Any, threads: Threads) -> str:
    """C condition under which one thread runs all rows; symbolic sizes leave it to the call."""
    many = f" || {made.partial} > {threads.partial}" if is_open(made.partial) else ""
    enough = f"({largest} < {threads.work} ? {threads.work} : {threads.awake})"
    return f"{made.work} < {enough}{many}"


def _stride(made: LoopProgram) -> int:
    """The distance between the accumulators of one thread and of the next."""
    return made.scratch if is_open(made.partial) else made.partial


def segments(layout: ProgramLayout, scope: CScope) -> tuple[str, list[Any]]:
    """(text, names): runs of native steps as C functions.

    `names` has the functions in order, with each `Callback` between them.
    """
    target = layout.plan.target
    renderer = Renderer(scope.table, target)
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
            texts.append(f"void {names[-1]}(void **p) {renderer.segment(scope, run)}")
            run = []
        if step is not None:
            names.append(step)
    if not texts:
        return "", names
    functions = renderer.totals | renderer.functions | renderer.shared
    outlined = (
        {*functions} if len(renderer.functions) > target.limits.inlined else renderer.outlined
    )
    names_of = {text: f"APART {n}" if text in outlined else n for text, n in functions.items()}
    programs = [text.replace("NAME", name, 1) for text, name in names_of.items()]
    body = "\n".join([*programs, *renderer.parts, *texts])
    needed = declarations(layout.loop_programs())
    needed += TAPE_DECLARED if scope.tapes else ""
    needed += "#define APART __attribute__((noinline))\n" if outlined or renderer.parts else ""
    return routine_calls.declarations(layout.plan.routines()) + "\n" + needed + body, names


_OPENING = f"""  char *arena = DATA(p, {ARENA});
  void **library = p[{LIBRARY}];
  int *status = p[{STATUS}];
  (void)arena; (void)library; (void)status;
"""
