"""A program as C text, and its functions: the last two stages of the compiler for C."""

from __future__ import annotations

import ctypes
import math
from dataclasses import field
from typing import Any

from adjoint.compiler import routine_calls
from adjoint.compiler.arena import ProgramLayout
from adjoint.compiler.host import HostProgram
from adjoint.compiler.host_building import Ordered, SizeTable
from adjoint.compiler.plan import Callback, Strided
from adjoint.compiler.targets.c import entry, render
from adjoint.compiler.targets.c.addresses import FIRST
from adjoint.core.records import structure
from adjoint.core.shapes import Shape
from adjoint.expressions import functions
from adjoint.graph.ir import Value
from adjoint.toolchain import build


@structure
class CText:
    """A program as C text."""

    ordered: Ordered
    source: str = ""
    segments: list[Any] = field(default_factory=list)  # functions' names, and callbacks, in order
    has_entry: bool = False  # whether one function checks the arguments and runs all segments

    @property
    def layout(self) -> ProgramLayout:
        return self.ordered.layout

    @property
    def table(self) -> SizeTable:
        """The numbers that it is given."""
        return self.ordered.table

    @property
    def host(self) -> HostProgram:
        return self.ordered.host

    @property
    def slots(self) -> dict[Value, int]:
        """The places of arrays in the block of arguments."""
        return {v: k for k, v in enumerate(self.layout.plan.roots.values, FIRST)}

    @property
    def tapes(self) -> dict[Value, int]:
        """The places of tapes, which follow the arrays."""
        roots = self.layout.plan.roots
        return {v: k for k, v in enumerate(roots.tapes, FIRST + len(roots.values))}

    @property
    def end(self) -> int:
        """The end of arrays and tapes in the block of arguments; the inputs' dtypes follow."""
        roots = self.layout.plan.roots
        return FIRST + len(roots.values) + len(roots.tapes)

    def direct(self) -> tuple[list[int], dict[Value, Shape]] | None:
        """(the number of the result that each output is, results' shapes as returned), if nothing
        calls back and every output is a different whole result.
        """
        plan = self.layout.plan
        numbers = {v: i for i, v in enumerate(plan.roots.made)}
        found: list[int] = []
        shapes: dict[Value, Shape] = {}
        for operand, output in zip(plan.outputs, plan.graph.outputs, strict=True):
            if not isinstance(operand, Strided) or operand.value not in numbers:
                return None
            if not _is_all(operand):
                return None
            found.append(numbers[operand.value])
            shapes[operand.value] = output.shape
        calls = any(isinstance(s, Callback) for s in self.segments)
        return None if calls or len(shapes) < len(plan.outputs) else (found, shapes)


def _is_all(operand: Strided) -> bool:
    """Whether an operand is a whole value in row-major order."""
    same = math.prod(operand.shape) == math.prod(operand.value.shape)
    return same and not operand.offset and routine_calls.is_whole(operand)


def write(ordered: Ordered) -> CText:
    """Print a program."""
    made, text = _printed(ordered, "void")
    if made.direct() is not None:
        plan = made.layout.plan
        given = plan.graph.inputs, made.slots, made.end
        way_in = entry.text(*given, made.segments, plan.symbols)
        made.has_entry, text = bool(way_in), text + way_in
    if text:
        made.source = functions.prelude(_called(made.host), build.data_offset()) + text
    return made


def standalone(ordered: Ordered) -> CText:
    """Print a program as a source for other C programs: nothing in it is visible outside."""
    made, text = _printed(ordered, "static void")
    made.source = functions.standalone_prelude(_called(made.host)) + text
    return made


def _printed(ordered: Ordered, kind: str) -> tuple[CText, str]:
    """A program without its source, and the text of its own functions."""
    text, segments = render.segments(ordered.host, ordered.layout.plan.target, kind)
    return CText(ordered, segments=segments), text


def _called(host: HostProgram) -> list[str]:
    """The functions that its loop programs call."""
    return sorted({name for program in host.loop_programs() for name in program.calls})


@structure
class Built:
    """The functions of a program."""

    segments: list[Any]  # functions, and callbacks, in order
    entry: Any = None  # the function that checks the arguments, if there is one


def built(written: CText) -> Built:
    """Compile and load the functions of a program."""
    source = written.source
    made = Built(
        [s if isinstance(s, Callback) else build.load(source, s) for s in written.segments]
    )
    if written.has_entry:
        made.entry = build.load(source, "entry")
        made.entry.restype = ctypes.c_int
    return made
