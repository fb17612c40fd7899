"""A host program as C text: functions for its loop programs, and functions that run its statements
in order.

`p` is the block of arguments: the arena, the addresses of routines, the status word, the sizes,
then the arrays.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from adjoint.compiler.host import (
    Address,
    AfterFirst,
    Blocks,
    CallRoutine,
    CopyArray,
    FillArray,
    Held,
    HostOperand,
    HostProgram,
    Joined,
    JoinRows,
    Launch,
    OfPart,
    OfThread,
    PackedArguments,
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
        self.shared: dict[Shared, str] = {}  # the same for functions that share rows among threads
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
        parts = most.parts if parallel else 1
        if run.scratch is not None:
            lines.append(f"double *const scratch = (double *){address(run.scratch)};")
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
            call = self._call(self._sharing(made, name), run, given)
            lines.append(f"const int parts = {call}" if made.partials else call)
        else:
            lines.append(self._call(name, run, ["0", str(made.rows), *own]))
        lines += self._totals(run, "parts" if parallel else "1", str(stride(made)))
        return "{\n" + "\n".join(f"  {line}" for line in lines) + "\n}\n"

    def _parts(self, made: LoopProgram) -> str:
        """C text of the most parts into which the rows of a loop program are cut."""
        most, lanes = f"PARTS({made.work}, {made.partial})", self.target.cache.lanes
        if not made.blocked:
            return most
        return f"SMALLER({most}, LARGER(2, ({made.rows} + {lanes - 1}) / {lanes}))"

    def _sharing(self, made: LoopProgram, name: str) -> str:
        """The name of the function that shares the rows of a loop program among threads."""
        shared = sharing(made, name, self.sizes)
        return self.shared.setdefault(shared, f"{name}_shared")

    def _call(self, name: str, run: Run, given: Sequence[str]) -> str:
        """A call of a function of a loop program's arrays, of `given`, and of the sizes."""
        return f"{name}({', '.join([*map(pointer, run.operands), *given, *self.sizes])});"

    def _totals(self, run: Run, parts: str, distance: str) -> list[str]:
        """C text that joins the accumulators of parts, which are `distance` numbers apart."""
        lines, offset = [], 0
        for each in run.joined:
            lines.append(self._joined(each, offset, parts, distance))
            offset += each.count
        return lines

    def _joined(self, each: Joined, offset: Any, parts: str, distance: str) -> str:
        total = each.total
        name = self.totals.setdefault(joining(total), joining_name(total))
        source = f"({C_TYPES[total.dtype.name]} *)partial + {offset}"
        given = [first(each.target), source, str(each.count), parts, distance]
        if each.divisor is not None:
            given.append(c_text.printed(each.divisor))
        return f"{name}({', '.join(given)});"

    # -- sweeps -----------------------------------------------------------------------------------

    def _blocks(self, sweep: Blocks) -> str:
        """C text of a sweep, whose rows threads share in parts.

        Each thread has memory for one block of the values that steps pass on. Each part has sums of
        its own, which are added in the order of the parts.
        """
        at = _outside(sweep)
        fields = dict.fromkeys(("room", "sums", *at.values()), "char *")
        fields |= {"library": "void **", "status": "int *", "step": "long"}
        fields |= dict.fromkeys(self.sizes, "long")
        shared = task(fields, self._part(sweep, at))
        name = self.shared.setdefault(shared, f"sweep{len(self.shared)}")
        given = ", ".join(["room", "sums", *map(address, at), *[*fields][2 + len(at) :]])
        awake = self.target.threads.awake
        elements = sum(math.prod(each.target.view.shape) for each in sweep.sums)
        most = f"{sweep.work} < {awake} ? 1 : PARTS({sweep.work}, {elements})"
        lines = [
            f"char *const room = {address(sweep.memory)}, *const sums = {address(sweep.kept)};",
            f"const long most = {most};",
            f"const long blocks = ({sweep.rows} + {sweep.width - 1}) / {sweep.width};",
            f"const long step = (blocks + most - 1) / most * {sweep.width};",
            f"const long parts = ({sweep.rows} + step - 1) / step;",
            f"struct {name}_task task = {{{given}}};",
            f"share_parts({name}_part, &task, parts, THREADS);",
        ]
        for step in sweep.steps:
            if isinstance(step, Run) and step.joined:
                lines.append(f"{{ double *const partial = (double *)(sums + {step.accumulators});")
                lines += [*self._totals(step, "parts", str(sweep.part // 8)), "}"]
        lines += [self._sum_of_parts(sweep, each) for each in sweep.sums]
        return "{\n" + "\n".join(f"  {line}" for line in lines) + "\n}\n"

    def _part(self, sweep: Blocks, at: Mapping[Address, str]) -> str:
        """C text that runs the blocks of one part; `at` has the names of addresses outside."""
        begin: list[str] = []
        each: list[str] = []
        for place, step in enumerate(sweep.steps):
            if isinstance(step, CallRoutine):
                arguments = tuple([_named_inside(given, at) for given in step.arguments])
                call = routines.called(replace(step, arguments=arguments))
                each.append(call.rstrip("\n"))
                continue
            made = step.program
            if made.partials:
                begin.append(f"double *const all{place} = (double *)(kept + {step.accumulators});")
                begin.append(f"double *const one{place} = all{place} + {made.partial};")
                begin += _started(made, f"all{place}")
            given = ["low", "high", *own_arguments(made, f"one{place}", own_memory(made))]
            operands = tuple([_named_inside(operand, at) for operand in step.operands])
            each.append(self._call(self.function(made), replace(step, operands=operands), given))
            each += _merged(made, f"all{place}", f"one{place}")
        lines = [
            f"char *const own = room + member * {sweep.each}L; (void)own;",
            f"char *const kept = sums + part * {sweep.part}L; (void)kept;",
            f"const long first = part * step, last = SMALLER(first + step, {sweep.rows});",
            *begin,
            f"for (long low = first; low < last; low += {sweep.width}) {{",
            f"  const long high = SMALLER(low + {sweep.width}, last);",
            *(f"  {line}" for line in each),
            "}",
        ]
        return "\n".join(f"  {line}" for line in lines)

    def _sum_of_parts(self, sweep: Blocks, given: SumOfParts) -> str:
        """C text of a product over all rows: the sum of those over the rows of each part."""
        dtype = given.target.dtype
        c_type = C_TYPES[dtype.name]
        adds = adding(c_type, self.target.threads)
        name = self.shared.setdefault(adds, f"added_{c_type}")
        arguments = [first(given.target), f"({c_type} *)(sums + {given.offset})"]
        arguments += [str(math.prod(given.target.view.shape)), "parts"]
        return f"{name}({', '.join([*arguments, str(sweep.part // dtype.itemsize)])});"


def _outside(sweep: Blocks) -> dict[Address, str]:
    """Names for the addresses of a sweep that are not of its own memory."""
    found: dict[Address, str] = {}
    for step in sweep.steps:
        given = step.operands if isinstance(step, Run) else step.arguments
        for operand in _operands(given):
            if not isinstance(operand.address, (OfThread, OfPart)):
                found.setdefault(operand.address, f"at{len(found)}")
    return found


def _operands(arguments: Sequence[Any]) -> Iterator[HostOperand]:
    for given in arguments:
        if isinstance(given, HostOperand):
            yield given
        elif isinstance(given, AfterFirst):
            yield given.operand
        elif isinstance(given, PackedArguments):
            yield from _operands(given.addresses)


def _named_inside(given: Any, names: Mapping[Address, str]) -> Any:
    """An argument with names in place of the addresses outside of a sweep."""
    match given:
        case HostOperand():
            name = names.get(given.address)
            return given if name is None else replace(given, address=Held(name))
        case AfterFirst():
            return replace(given, operand=_named_inside(given.operand, names))
        case PackedArguments():
            inside = tuple([_named_inside(each, names) for each in given.addresses])
            return replace(given, addresses=inside)
        case _:
            return given


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
    shared = {each.functions: name for each, name in renderer.shared.items()}
    functions = renderer.totals | renderer.functions | shared
    outlined = (
        {*functions} if len(renderer.functions) > target.limits.inlined else renderer.outlined
    )
    programs = [_named(text, name, text in outlined) for text, name in functions.items()]
    body = "\n".join([*programs, *renderer.parts, *texts])
    needed = declarations(host.loop_programs())
    needed += TAPE_DECLARED if host.tapes else ""
    needed += shared_declarations(target) if shared else ""
    needed += "".join(_named(each.structure, n) for each, n in renderer.shared.items())
    needed += "#define APART __attribute__((noinline))\n" if outlined or renderer.parts else ""
    return routines.declarations(host) + "\n" + needed + body, names


_OPENING = f"""  char *arena = DATA(p, {ARENA});
  void **library = p[{LIBRARY}];
  int *status = p[{STATUS}];
  (void)arena; (void)library; (void)status;
"""
