"""A host program as C text: functions for its loop programs, and functions that run its statements
in order.

`p` is the block of arguments: the arena, the addresses of routines, the status word, the sizes,
then the arrays.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

from adjoint.compiler.host import (
    Blocks,
    CallRoutine,
    CopyArray,
    FillArray,
    HostProgram,
    Joined,
    JoinRows,
    Launch,
    Run,
    Statement,
    SumOfParts,
)
from adjoint.compiler.plan import Callback
from adjoint.compiler.target import Target, Threads
from adjoint.compiler.targets.c import regions, routines
from adjoint.compiler.targets.c.addresses import (
    ARENA,
    LIBRARY,
    STATUS,
    address,
    copied,
    first,
    opening,
    pointer,
    size_names,
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
from adjoint.core.symbolic_sizes import is_open
from adjoint.expressions import c_text
from adjoint.loops.accumulators import ACCUMULATORS
from adjoint.loops.joining import declarations, taken
from adjoint.loops.loop_programs import LoopProgram, Total
from adjoint.loops.printer import printed


class Renderer:
    """Writes the functions of one program. Functions with the same text are written once."""

    def __init__(self, symbols: int, target: Target) -> None:
        self.symbols, self.sizes, self.target = symbols, size_names(symbols), target
        self.functions: dict[str, str] = {}  # text without the name -> name
        self.totals: dict[str, str] = {}  # the same for functions that join accumulators
        self.shared: dict[str, str] = {}  # the same for functions that share rows among threads
        self.outlined: set[str] = set()  # texts of functions that must not be inlined
        self.parts: list[str] = []  # functions for parts of a long segment

    def function(self, program: LoopProgram) -> str:
        """The name of the C function of a loop program; equal texts share one function."""
        text = printed(program, "NAME", self.sizes)
        if program.rereads:  # inlined, gcc 12 forgets that nobody writes the memory it reads
            self.outlined.add(text)
        return self.functions.setdefault(text, program.name)

    def segment(self, statements: Sequence[Statement]) -> str:
        """The body of a function that runs steps; long ones call functions for parts of them."""
        begin = f"{{\n{_OPENING}{opening(self.symbols)}"
        parts, lines = [""], 0
        for text in map(self._statement, statements):
            if lines > self.target.limits.lines:
                parts, lines = [*parts, ""], 0
            parts[-1] += text
            lines += text.count("\n")
        if len(parts) == 1:
            return f"{begin}{parts[0]}}}\n"
        calls = []
        for steps in parts:
            name = f"part{len(self.parts)}"
            self.parts.append(f"static void APART {name}(void **p) {begin}{steps}}}\n")
            calls.append(f"  {name}(p);\n")
        return f"{{\n{''.join(calls)}}}\n"

    def _steps(self, statements: Sequence[Statement]) -> str:
        return "".join(map(self._statement, statements))

    def _statement(self, statement: Statement) -> str:
        match statement:
            case Launch():
                return self._launch(statement)
            case Blocks():
                return self._blocks(statement)
            case CallRoutine():
                return routines.called(statement)
            case CopyArray() | FillArray():
                return copied(statement)
            case JoinRows():
                return routines.joined(statement)
            case _:
                return regions.PRINTERS[type(statement)](statement, self._steps)

    # -- nests ------------------------------------------------------------------------------------

    def _launch(self, launch: Launch) -> str:
        """C text that runs the first loop program whose condition holds."""
        *versions, general = launch.runs
        text = self._run(general, launch.largest)
        for run in reversed(versions):
            holds = " && ".join(f"{size} >= 0" for size in run.where)
            text = f"if ({holds}) {self._run(run, launch.largest)}else {text}"
        return text

    def _run(self, run: Run, largest: Any) -> str:
        made = run.program
        name = self.function(made)
        lines = []
        most, limits = self.target.threads, self.target.limits
        enough = most.awake if is_open(largest) or largest >= most.work else most.work
        parallel = made.divisible and (is_open(made.work) or made.work >= enough)
        threads = most.most if parallel else 1
        if run.scratch is not None:
            lines.append(f"double *const scratch = (double *){address(run.scratch)};")
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
            lines.append(self._call(self._sharing(made, name), run, given))
        else:
            lines.append(self._call(name, run, ["0", rows, *own]))
        lines += self._totals(run, "threads" if parallel else "1", stride)
        return "{\n" + "\n".join(f"  {line}" for line in lines) + "\n}\n"

    def _sharing(self, made: LoopProgram, name: str) -> str:
        """The name of the function that shares the rows of a loop program among threads."""
        text = sharing(made, name, self.sizes)
        return self.shared.setdefault(text, f"{name}_shared")

    def _call(self, name: str, run: Run, given: Sequence[str]) -> str:
        """A call of a function of a loop program's arrays, of `given`, and of the sizes."""
        return f"{name}({', '.join([*map(pointer, run.operands), *given, *self.sizes])});"

    def _totals(self, run: Run, threads: str, distance: str) -> list[str]:
        """C text that joins the accumulators of threads, which are `distance` numbers apart."""
        lines, offset = [], 0
        for each in run.joined:
            lines.append(self._joined(each, offset, threads, distance))
            offset += each.count
        return lines

    def _joined(self, each: Joined, offset: Any, threads: str, distance: str) -> str:
        total = each.total
        name = self.totals.setdefault(joining(total), joining_name(total))
        source = f"({C_TYPES[total.dtype.name]} *)partial + {offset}"
        given = [first(each.target), source, str(each.count), threads, distance]
        if each.divisor is not None:
            given.append(c_text.printed(each.divisor))
        return f"{name}({', '.join(given)});"

    # -- sweeps -----------------------------------------------------------------------------------

    def _blocks(self, sweep: Blocks) -> str:
        """C text of a sweep.

        Each thread has a share of the rows in blocks, memory for the values that steps pass on, and
        sums of its own, which are added in the order of the threads.
        """
        lines = [f"char *const room = {address(sweep.memory)};", "int threads = 1;"]
        begin: list[str] = []
        each: list[str] = []
        for place, step in enumerate(sweep.steps):
            if isinstance(step, CallRoutine):
                each.append(routines.called(step).rstrip("\n"))
                continue
            made = step.program
            if made.partials:
                begin.append(f"double *const all{place} = (double *)(own + {step.accumulators});")
                begin.append(f"double *const one{place} = all{place} + {made.partial};")
                begin += _started(made, f"all{place}")
            given = ["low", "high", *own_arguments(made, f"one{place}", own_memory(made))]
            each.append(self._call(self.function(made), step, given))
            each += _merged(made, f"all{place}", f"one{place}")
        awake = self.target.threads.awake
        lines += [
            f"#pragma omp parallel num_threads(THREADS) if ({sweep.work} >= {awake})",
            "{ const long thread = THREAD, count = COUNT;",
            "  if (thread == 0) threads = count;",
            f"  char *const own = room + thread * {sweep.each}L; (void)own;",
            f"  const long step = ({sweep.rows} + count - 1) / count;",
            f"  const long first = SMALLER(thread * step, {sweep.rows});",
            f"  const long last = SMALLER(first + step, {sweep.rows});",
            *(f"  {line}" for line in begin),
            f"  for (long low = first; low < last; low += {sweep.width}) {{",
            f"    const long high = SMALLER(low + {sweep.width}, last);",
            *(f"    {line}" for line in each),
            "  }",
            "}",
        ]
        for step in sweep.steps:
            if isinstance(step, Run) and step.joined:
                lines.append(f"{{ double *const partial = (double *)(room + {step.accumulators});")
                lines += [*self._totals(step, "threads", str(sweep.each // 8)), "}"]
        for part in sweep.sums:
            lines += _sum_of_parts(sweep, part, awake)
        return "{\n" + "\n".join(f"  {line}" for line in lines) + "\n}\n"


def _sum_of_parts(sweep: Blocks, given: SumOfParts, awake: int) -> list[str]:
    """C text of a product over all rows: the sum of the parts of the threads that had rows."""
    c_type = C_TYPES[given.target.dtype.name]
    part = f"(({c_type} *)(room + t * {sweep.each}L + {given.offset}))"
    count = math.prod(given.target.view.shape)
    return [
        f"{{ {c_type} *const to = {first(given.target)};",
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


def segments(host: HostProgram, target: Target, kind: str = "void") -> tuple[str, list[Any]]:
    """(text, names): runs of native steps as C functions of a kind ("static void").

    `names` has the functions in order, with each `Callback` between them.
    """
    renderer = Renderer(host.symbols, target)
    names: list[Any] = []
    texts: list[str] = []
    for part in host.parts:
        if isinstance(part, Callback):
            names.append(part)
            continue
        names.append(f"segment{len(texts)}")
        texts.append(f"{kind} {names[-1]}(void **p) {renderer.segment(part)}")
    if not texts:
        return "", names
    functions = renderer.totals | renderer.functions | renderer.shared
    outlined = (
        {*functions} if len(renderer.functions) > target.limits.inlined else renderer.outlined
    )
    names_of = {text: f"APART {n}" if text in outlined else n for text, n in functions.items()}
    programs = [text.replace("NAME", name, 1) for text, name in names_of.items()]
    body = "\n".join([*programs, *renderer.parts, *texts])
    needed = declarations(host.loop_programs())
    needed += TAPE_DECLARED if host.tapes else ""
    needed += "#define APART __attribute__((noinline))\n" if outlined or renderer.parts else ""
    return routines.declarations(host) + "\n" + needed + body, names


_OPENING = f"""  char *arena = DATA(p, {ARENA});
  void **library = p[{LIBRARY}];
  int *status = p[{STATUS}];
  (void)arena; (void)library; (void)status;
"""
