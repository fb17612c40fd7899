"""A program as C text: functions for its nests, and functions that run its steps in order.

`p` is the block of arguments: the arena, the addresses of routines, the status word, the sizes,
then the arrays. Values of the program are stored in the arena. A region (a loop over time, a
branch) gets pointers to the values that it reads.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from adjoint.compiler import routine_calls, shaping
from adjoint.compiler.accumulators import ACCUMULATORS
from adjoint.compiler.arena import ProgramLayout
from adjoint.compiler.definitions import Put
from adjoint.compiler.loop_programs import LoopProgram, Total
from adjoint.compiler.nests import Nest
from adjoint.compiler.plan import Callback, Nested, RoutineCall, Strided
from adjoint.compiler.sweeps import Sweep, reads, writes
from adjoint.compiler.target import Target, Threads
from adjoint.compiler.targets.c.joining import declarations, taken
from adjoint.compiler.targets.c.printer import printed
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
    Shared,
    adding,
    joining,
    joining_name,
    own_arguments,
    own_memory,
    shared_declarations,
    sharing,
    stride,
    task,
)
from adjoint.core.c_types import C_TYPES
from adjoint.core.shapes import row_major
from adjoint.core.symbolic_sizes import is_open
from adjoint.expressions import c_text
from adjoint.graph.ir import Value


class Renderer:
    """Writes the functions of one program. Functions with the same text are written once."""

    def __init__(self, table: SizeTable, target: Target) -> None:
        self.table, self.target = table, target
        self.functions: dict[str, str] = {}  # text without the name -> name
        self.totals: dict[str, str] = {}  # the same for functions that join accumulators
        self.shared: dict[Shared, str] = {}  # the same for functions that share rows among threads
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
        parts = most.parts if parallel else 1
        if made.scratch:
            start = self.table.number(scope.layout, number, 0)
            lines.append(f"double *const scratch = (double *)({scope.base} + {start});")
        if is_open(made.partial):  # each part's accumulators come first in its scratch memory
            lines.append("double *const partial = scratch;")
        elif made.partial:
            kept = "static _Thread_local " if parts * made.partial > limits.stack else ""
            lines.append(f"{kept}double room[{parts * made.partial}];")
            lines.append("double *const partial = room;")  # the caller's, shared by all threads
        own = own_arguments(made, "partial", own_memory(made))
        if parallel:
            little = f"{_is_little(made, largest, most)} ? 1 : " if is_open(made.work) else ""
            given = [str(made.rows), f"{little}{self._parts(made)}", *own]
            call = self._call(self._sharing(made, name), scope, made, given)
            lines.append(f"const int parts = {call}" if made.partials else call)
        else:
            lines.append(self._call(name, scope, made, ["0", str(made.rows), *own]))
        lines += self._totals(scope, made, "parts" if parallel else "1", str(stride(made)))
        return "{\n" + "\n".join(f"  {line}" for line in lines) + "\n}\n"

    def _parts(self, made: LoopProgram) -> str:
        """C text of the most parts into which the rows of a loop program are cut."""
        most, lanes = f"PARTS({made.work}, {made.partial})", self.target.cache.lanes
        if not made.blocked:
            return most
        return f"SMALLER({most}, LARGER(2, ({made.rows} + {lanes - 1}) / {lanes}))"

    def _sharing(self, made: LoopProgram, name: str) -> str:
        """The name of the function that shares the rows of a loop program among threads."""
        shared = sharing(made, name, self.table.sizes)
        return self.shared.setdefault(shared, f"{name}_shared")

    def _call(self, name: str, scope: CScope, made: LoopProgram, given: Sequence[str]) -> str:
        """A call of a function of a loop program's arrays, of `given`, and of the sizes."""
        arrays = [scope.operand(Strided(v, n, v.shape, ())) for v, n in made.pointers.items()]
        return f"{name}({', '.join([*arrays, *given, *self.table.sizes])});"

    def _totals(self, scope: CScope, made: LoopProgram, parts: str, distance: str) -> list[str]:
        """C text that joins the accumulators of parts, which are `distance` numbers apart."""
        lines, offset = [], 0
        for total, count in made.partials:
            name = self.totals.setdefault(joining(total), joining_name(total))
            given = [
                scope.pointer(total.node.output),
                f"({C_TYPES[total.dtype.name]} *)partial + {offset}",
            ]
            given += [str(count), parts, distance]
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
        """C text of a sweep, whose rows threads share in parts.

        Each thread has memory for one block of the values that steps pass on. Each part has sums of
        its own, which are added in the order of the parts.
        """
        start = self.table.number(scope.layout, number, scope.layout.starts[number])
        threads = self.target.threads
        outside = dict.fromkeys(v for v in (*reads(sweep), *writes(sweep)) if scope.holds(v))
        at = {v: f"at{k}" for k, v in enumerate(outside)}
        fields = dict.fromkeys(("room", "sums", *at.values()), "char *")
        fields |= {"library": "void **", "status": "int *", "step": "long"}
        fields |= dict.fromkeys(self.table.sizes, "long")
        shared = task(fields, self._swept_part(scope, sweep, at))
        name = self.shared.setdefault(shared, f"sweep{len(self.shared)}")
        places = ["room", "sums", *map(scope.place, at)]
        given = ", ".join([*places, "library", "status", "step", *self.table.sizes])
        elements = sum(math.prod(v.shape) for v in sweep.sums)
        most = f"{sweep.work} < {threads.awake} ? 1 : PARTS({sweep.work}, {elements})"
        lines = [
            f"char *const room = {scope.base} + {start};",
            f"char *const sums = room + {threads.most * sweep.block_room}L; (void)sums;",
            f"const long most = {most};",
            f"const long blocks = ({sweep.rows} + {sweep.block - 1}) / {sweep.block};",
            f"const long step = (blocks + most - 1) / most * {sweep.block};",
            f"const long parts = ({sweep.rows} + step - 1) / step;",
            f"struct {name}_task task = {{{given}}};",
            f"share_parts({name}_part, &task, parts, THREADS);",
        ]
        for place, made in sweep.programs.items():
            if made.partials:
                partial = f"{{ double *const partial = (double *)(sums + {sweep.places[place]});"
                distance = str(sweep.sum_room // 8)
                lines += [partial, *self._totals(scope, made, "parts", distance), "}"]
        lines += [self._swept_sum(scope, sweep, value) for value in sweep.sums]
        return "{\n" + "\n".join(f"  {line}" for line in lines) + "\n}\n"

    def _swept_part(self, scope: CScope, sweep: Sweep, at: Mapping[Value, str]) -> str:
        """C text that runs the blocks of one part; `at` has the places of values outside."""
        places = sweep.places
        inner = replace(scope, places=dict(at))
        for value in sweep.local:
            inner.places[value] = f"(own + {places[value]} - low * {value.dtype.itemsize})"
        begin: list[str] = []
        each: list[str] = []
        for place, step in enumerate(sweep.steps):
            if isinstance(step, RoutineCall):
                each.append(_swept_call(inner, sweep, step))
                continue
            made = sweep.programs[place]
            if made.partials:
                begin.append(f"double *const all{place} = (double *)(kept + {places[place]});")
                begin.append(f"double *const one{place} = all{place} + {made.partial};")
                begin += _started(made, f"all{place}")
            given = ["low", "high", *own_arguments(made, f"one{place}", own_memory(made))]
            each.append(self._call(self.function(made), inner, made, given))
            each += _merged(made, f"all{place}", f"one{place}")
        lines = [
            f"char *const own = room + member * {sweep.block_room}L; (void)own;",
            f"char *const kept = sums + part * {sweep.sum_room}L; (void)kept;",
            f"const long first = part * step, last = SMALLER(first + step, {sweep.rows});",
            *begin,
            f"for (long low = first; low < last; low += {sweep.block}) {{",
            f"  const long high = SMALLER(low + {sweep.block}, last);",
            *(f"  {line}" for line in each),
            "}",
        ]
        return "\n".join(f"  {line}" for line in lines)

    def _swept_sum(self, scope: CScope, sweep: Sweep, value: Value) -> str:
        """C text of a product over all rows: the sum of those over the rows of each part."""
        c_type = C_TYPES[value.dtype.name]
        adds = adding(c_type, self.target.threads)
        name = self.shared.setdefault(adds, f"added_{c_type}")
        given = [scope.pointer(value), f"({c_type} *)(sums + {sweep.places[value]})"]
        given += [str(math.prod(value.shape)), "parts", str(sweep.sum_room // value.dtype.itemsize)]
        return f"{name}({', '.join(given)});"


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
        own = f"(({C_TYPES[value.dtype.name]} *)(kept + {sweep.places[value]}))"
        writer = routine_calls.CallWriter(call, [scope.operand(a), scope.operand(b)], [own])
        return writer.sum_of_products(a, b, "low", "high - low", "low > first")
    a = sweep.operand(a, -2)
    result = sweep.operand(Strided(value, 0, out, row_major(out)), -2)
    given = [scope.operand(a), scope.operand(b)]
    writer = routine_calls.CallWriter(call, given, [scope.operand(result)])
    return writer.rows_of_product(a, b, result, "low", "high - low")


def _started(made: LoopProgram, into: str) -> Iterator[str]:
    """C text that sets the accumulators of a part to their start."""
    for total, count, target in _accumulators(made, into):
        begin = c_text.printed(ACCUMULATORS[total.kind].start(total.dtype))
        yield f"for (long k = 0; k < {count}; k++) {target} = {begin};"


def _merged(made: LoopProgram, into: str, block: str) -> Iterator[str]:
    """C text that adds the accumulators of a block to those of its part."""
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


def _named(text: str, name: str, is_apart: bool = False) -> str:
    """The text of a function with its name, which may not be inlined if it is to stay apart."""
    if is_apart:
        text = text.replace(" NAME(", " APART NAME(", 1)
    return text.replace("NAME", name)


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
    shared = {each.functions: name for each, name in renderer.shared.items()}
    functions = renderer.totals | renderer.functions | shared
    outlined = (
        {*functions} if len(renderer.functions) > target.limits.inlined else renderer.outlined
    )
    programs = [_named(text, name, text in outlined) for text, name in functions.items()]
    body = "\n".join([*programs, *renderer.parts, *texts])
    needed = declarations(layout.loop_programs())
    needed += TAPE_DECLARED if scope.tapes else ""
    needed += shared_declarations(target) if shared else ""
    needed += "".join(_named(each.structure, n) for each, n in renderer.shared.items())
    needed += "#define APART __attribute__((noinline))\n" if outlined or renderer.parts else ""
    return routine_calls.declarations(layout.plan.routines()) + "\n" + needed + body, names


_OPENING = f"""  char *arena = DATA(p, {ARENA});
  void **library = p[{LIBRARY}];
  int *status = p[{STATUS}];
  (void)arena; (void)library; (void)status;
"""
