"""Where the values of a plan are, as C text; and the block of arguments of a program."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import field
from typing import Any

from adjoint.compiler.arena import ProgramLayout
from adjoint.compiler.plan import Strided
from adjoint.core.c_types import C_TYPES
from adjoint.core.records import structure
from adjoint.core.shapes import Shape
from adjoint.expressions.c_numbers import literal
from adjoint.graph.ir import Value

ARENA, LIBRARY, STATUS, SIZES = 0, 1, 2, 3  # indices into the block of arguments
FIRST = 4  # index of the first array


class SizeTable:
    """The numbers that a program with symbolic sizes is given: the sizes, and places in the arena,
    which only the memory plan can compute from sizes.
    """

    def __init__(self, symbols: int) -> None:
        self.sizes = [f"size{k}" for k in range(symbols)]
        self.offsets: dict[
            tuple[int, Any], tuple[int, ProgramLayout]
        ] = {}  # by layout and value or step

    def number(self, layout: ProgramLayout, what: Any, known: int) -> str:
        """C text of a place in an arena; `known` is the place for known sizes."""
        if not self.sizes:
            return str(known)
        place = len(self.sizes) + len(self.offsets)
        place, _ = self.offsets.setdefault((id(layout), what), (place, layout))
        return f"z[{place}]"

    def values(self, sizes: Sequence[int]) -> list[int]:
        """The numbers for given sizes, after the layouts have been arranged for these sizes."""
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
        """C text that declares the sizes."""
        if not self.sizes:
            return ""
        lines = [f"const long {name} = z[{k}]; (void){name};" for k, name in enumerate(self.sizes)]
        return "  " + "\n  ".join([f"const long *const z = p[{SIZES}];", *lines]) + "\n"


def inner_start(layout: ProgramLayout, number: int, name: str) -> int:
    """The start of the arena of a region's graph, which follows those of the graphs before it."""
    start = layout.starts[number]
    for before, each in layout.inner[number].items():
        if before == name:
            break
        start += each.size
    return start


@structure
class CScope:
    """Where the values of a plan are, as C expressions of type char *."""

    layout: ProgramLayout
    base: str  # C text of the plan's arena
    table: SizeTable
    tapes: dict[Value, int]  # their indices in the block of arguments
    places: dict[Value, str] = field(default_factory=dict)  # of values outside the arena
    prefix: str = ""  # of names in nested plans

    def place(self, value: Value) -> str:
        found = self.places.get(value)
        if found is not None:
            return found
        if value in self.tapes:
            return f"({self.tape(value)})->data"
        known = self.layout.offsets[value]
        return f"({self.base} + {self.table.number(self.layout, value, known)})"

    def tape(self, value: Value) -> str:
        """C text of the tape of a value that has one row for each turn of a loop."""
        return f"(Tape *)p[{self.tapes[value]}]"

    def holds(self, value: Value) -> bool:
        """Whether a value has memory, since somebody reads it."""
        return value in self.places or value in self.tapes or value in self.layout.offsets

    def pointer(self, value: Value) -> str:
        return f"(({C_TYPES[value.dtype.name]} *){self.place(value)})"

    def operand(self, operand: Strided) -> str:
        pointer = self.pointer(operand.value)
        return f"({pointer} + {operand.offset})" if operand.offset else pointer


def row_bytes(shape: Shape, value: Value) -> int:
    """The bytes of one row of a loop's value: `shape` is the shape of the row."""
    return math.prod(shape) * value.dtype.itemsize


def copied(value: Value, target: str, source: Any) -> str:
    """C text that copies an array, or a number, to an array of `value`'s shape.

    The pointers are computed once, before the loop: for all that C knows a store may change memory
    that they are read from, and a loop that reads them in each iteration is not vectorised.
    """
    size, c_type = math.prod(value.shape), C_TYPES[value.dtype.name]
    if isinstance(source, str):
        ends, text = f"{c_type} *const to = {target}, *const from = {source};", "from[k]"
    else:
        ends, text = f"{c_type} *const to = {target};", literal(source, c_type)
    return f"{{ {ends} for (long k = 0; k < {size}; k++) to[k] = {text}; }}"
