"""A program as C text, and its functions: the last two stages of the compiler for C."""

from __future__ import annotations

import ctypes
import math
from dataclasses import field
from typing import Any

from adjoint.compiler import routine_calls
from adjoint.compiler.arena import ProgramLayout
from adjoint.compiler.host import HostProgram
from adjoint.compiler.host_building import SizeTable, host_program
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

    layout: ProgramLayout
    table: SizeTable  # the numbers that it is given
    slots: dict[Value, int]  # the places of arrays in the block of arguments
    tapes: dict[Value, int]  # the places of tapes, which follow the arrays
    host: HostProgram
    source: str = ""
    segments: list[Any] = field(default_factory=list)  # functions' names, and callbacks, in order
    has_entry: bool = False  # whether one function checks the arguments and runs all segments

    @property
    def end(self) -> int:
        """The end of arrays and tapes in the block of arguments; the inputs' dtypes follow."""
        return FIRST + len(self.slots) + len(self.tapes)

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


def write(layout: ProgramLayout) -> CText:
    """Print a program whose values have places."""
    made, text = _printed(layout, "void")
    if made.direct() is not None:
        inputs, symbols = layout.plan.graph.inputs, layout.plan.symbols
        way_in = entry.text(inputs, made.slots, made.end, made.segments, symbols)
        made.has_entry, text = bool(way_in), text + way_in
    if text:
        made.source = functions.prelude(_called(made.host), build.data_offset()) + text
    return made


def standalone(layout: ProgramLayout) -> CText:
    """Print a program as a source for other C programs: nothing in it is visible outside."""
    made, text = _printed(layout, "static void")
    made.source = functions.standalone_prelude(_called(made.host)) + text
    return made


def _printed(layout: ProgramLayout, kind: str) -> tuple[CText, str]:
    """A program without its source, and the text of its own functions."""
    roots, table = layout.plan.roots, SizeTable(layout.plan.symbols)
    slots = {v: k for k, v in enumerate(roots.values, FIRST)}
    tapes = {v: k for k, v in enumerate(roots.tapes, FIRST + len(slots))}
    made = CText(layout, table, slots, tapes, host_program(layout, table, slots, tapes))
    text, made.segments = render.segments(made.host, layout.plan.target, kind)
    return made, text


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
