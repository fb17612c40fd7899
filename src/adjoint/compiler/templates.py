"""One compiled program for all sizes of some dimensions.

It is written for a few sizes, and every number that depends on them becomes a parameter. Which
memory it needs is known for each size; the memory itself is shared.
"""

from __future__ import annotations

import ctypes
import math
import re
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from adjoint.compiler import libraries
from adjoint.compiler.c import render
from adjoint.compiler.c.body import Body
from adjoint.compiler.definitions import Pieces
from adjoint.compiler.lower import lower
from adjoint.compiler.memory import Layout
from adjoint.compiler.nests import Nest
from adjoint.compiler.patterns import NotUniform, Pattern, Polynomial, described, fit
from adjoint.compiler.program import Program
from adjoint.compiler.stages import Cost
from adjoint.core.lazy import Lazy
from adjoint.graph.ir import Graph
from adjoint.native import build

fractions = Lazy("fractions")

_ARRAY = re.compile(
    r"^\s*(?:static |_Thread_local )*(?:double|float|int|long long|unsigned char) \w+\[[^\]]*SIZES"
)
_END = r"(\d+|\(SIZES->n\[\d+\]\))"
_FROM_TO = re.compile(  # loops over part of a dimension: parts lie one after another for every size
    rf"for \(long (\w+) = (?:LARGER\(first, )?{_END}\)?; \1 < (?:SMALLER\(last, )?{_END}\)?;"
)


class Template:
    """One compiled program for all sizes."""

    def __init__(
        self,
        points: Any,
        programs: Sequence[Program],
        join: bool,
        outputs: Any,
        report: Callable[[str, float], None],
    ) -> None:
        self.first = programs[0]
        self.outputs = outputs
        _check_alike(programs)
        self.shape = Pattern(points, [described(p.graph) for p in programs])
        self.join = join
        self.pieces = Pattern(points, [pieces(p.layout) for p in programs])
        self.shapes = [
            _fit_shapes(points, [list(p.slots)[k].shape for p in programs])
            for k in range(len(self.first.slots))
        ]
        source = self._parametrize(points, [p.stages.source for p in programs])
        started = time.perf_counter()
        self.functions = [build.load(source, name) for name in self.first.segments]
        seconds = time.perf_counter() - started
        report("compile C", seconds)
        stages = self.first.stages
        self.stages = replace(
            stages, source=source, seconds={**stages.seconds, "compile C": seconds}
        )
        self.costs = _fit_costs(points, [p.stages.cost() for p in programs])
        self.instances: dict[tuple[int, ...], Any] = {}
        self.lock = threading.Lock()
        self.empty = np.empty(1, np.uint8)
        self._find_rooms()

    def _find_rooms(self) -> None:
        """Memory that the program needs while it runs, for all sizes as much as for the largest."""
        first = self.first
        given = {*first.graph.inputs, *first.made}
        self.rooms: dict[int, Any] = {
            slot: self.empty for v, slot in first.slots.items() if v not in given
        }
        self.numbers: dict[int, Any] = {}  # what constants that grow are full of
        varying = dict(zip(first.slots, self.shapes, strict=True))
        for value, array in first.kept.items():
            slot = first.slots[value]
            if all(p.is_constant for p in varying[value]):
                del self.rooms[slot]
            else:
                self.numbers[slot] = array.flat[0]

    def room(self, slot: int, count: int, dtype: Any) -> Any:
        """An array of at least so many elements, full of its number if it has one."""
        found = self.rooms[slot]
        if found is self.empty or found.size < count:
            found = np.empty(count, dtype)
            if slot in self.numbers:
                found.fill(self.numbers[slot])
            self.rooms[slot] = found
        return found

    def fits(self, graph: Graph, sizes: tuple[int, ...]) -> bool:
        """Whether the program is one of a graph for given sizes."""
        if any(low.at(sizes) > high.at(sizes) for low, high in self.bounds):
            return False
        if not all(isinstance(p.at(sizes), int) for p in self.wholes):
            return False
        return any(self._is_for(graph, small, sizes) for small in (True, False))

    def _is_for(self, graph: Graph, small_products: bool, sizes: tuple[int, ...]) -> bool:
        lowered = lower(graph, small_products=small_products)
        if not self.shape.matches(described(lowered), sizes):
            return False
        if self.pieces.pieces == [""]:
            return True
        here = Program(graph, separate=True, join=self.join, small_products=small_products)
        return self.pieces.matches(pieces(here.layout), sizes)

    def _parametrize(self, points: Any, texts: Sequence[str]) -> str:
        """The text with every number that depends on sizes as a parameter."""
        pattern = Pattern(points, texts)
        self.wholes: dict[Polynomial, int] = {}
        self.floats: dict[Polynomial, int] = {}
        parts = [pattern.pieces[0]]
        for number, after in zip(pattern.numbers, pattern.pieces[1:], strict=True):
            parts += [number if isinstance(number, str) else self._parameter(*number), after]
        text = "".join(parts)
        if any(map(_ARRAY.match, text.splitlines())):
            raise NotUniform("the memory of one row depends on them")
        self.bounds = [
            (self._bound(low), self._bound(high)) for _, low, high in _FROM_TO.findall(text)
        ]
        text = re.sub(
            r"static void (nest\d+)\(", r"static void \1(const Sizes *restrict SIZES, ", text
        )
        text = re.sub(r"(?<!void )\b(nest\d+)\(", r"\1(SIZES, ", text)
        opening = f"const Sizes *SIZES = p[{len(self.first.slots) + render.FIRST}];\n"
        text = re.sub(r"^(void segment\d+\(void \*\*p\) \{\n)", rf"\1  {opening}", text, flags=re.M)
        whole, real = max(len(self.wholes), 1), max(len(self.floats), 1)
        return f"typedef struct {{ long n[{whole}]; double x[{real}]; }} Sizes;\n{text}"

    def _bound(self, text: str) -> Polynomial:
        """The end of a loop, as it stands in the text."""
        if text.isdigit():
            return Polynomial((((), fractions.Fraction(int(text))),))
        return list(self.wholes)[int(text.split("[")[1].split("]")[0])]

    def _parameter(self, kind: str, polynomial: Polynomial) -> str:
        known = self.wholes if kind == "n" else self.floats
        number = known.setdefault(polynomial, len(known))
        cast = "(float)" if kind == "f" else ""
        return f"({cast}SIZES->{'n' if kind == 'n' else 'x'}[{number}])"

    def instance(self, sizes: tuple[int, ...]) -> Any:
        if sizes not in self.instances:
            self.instances[sizes] = Instance(self, sizes)
        return self.instances[sizes], self.outputs


def _check_alike(programs: Sequence[Program]) -> None:
    first = programs[0]
    for program in programs:
        if program.stages.callbacks():
            raise NotUniform(f"{program.stages.callbacks()[0]} calls its eager kernel")
        if program.direct != first.direct or program.direct is None:
            raise NotUniform("an output is an input or a constant")
        pairs = zip(first.kept.values(), program.kept.values(), strict=False)
        same = len(first.kept) == len(program.kept) and all(_same(a, b) for a, b in pairs)
        if not same or len(program.slots) != len(first.slots):
            raise NotUniform("a constant depends on them")


def _same(a: Any, b: Any) -> bool:
    """Whether constants are the same for all sizes: equal, or full of one number."""
    if a.shape == b.shape:
        return a.tobytes() == b.tobytes()
    return a.size and b.size and bool((a == a.flat[0]).all() and (b == a.flat[0]).all())


def _fit_shapes(points: Any, shapes: Sequence[Any]) -> tuple[Polynomial, ...]:
    if len({len(s) for s in shapes}) != 1:
        raise NotUniform("a value has another number of dimensions")
    return tuple(fit(points, column) for column in zip(*shapes, strict=True))


def _fit_costs(points: Any, costs: Sequence[Cost]) -> dict[str, Polynomial] | None:
    try:
        names = ("flops", "functions", "bytes_read", "bytes_written")
        return {name: fit(points, [getattr(c, name) for c in costs]) for name in names}
    except NotUniform:
        return None


class Instance:
    """A template for given sizes: its memory and its parameters."""

    entry = entry_function = None  # no short way in

    def __init__(self, template: Template, sizes: tuple[int, ...]) -> None:
        first = template.first
        self.functions, self.direct = template.functions, first.direct
        values = list(first.slots)
        self.shapes = {
            v: tuple(p.at(sizes) for p in shape)
            for v, shape in zip(values, template.shapes, strict=True)
        }
        self.block = (ctypes.c_void_p * (len(first.slots) + render.FIRST + 1))()
        self.status = ctypes.c_int(0)
        self.block[render.STATUS] = ctypes.addressof(self.status)
        self.block[render.ARENA] = id(template.empty)
        if used := first.plan.routines():
            self.block[render.LIBRARY] = ctypes.addressof(libraries.addresses(used))
        self._parameters(template, sizes)
        self.inputs = first.inputs
        self.results = [(first.slots[v], self.shapes[v], v.dtype.np) for v in first.made]
        self.rooms = [
            (slot, math.prod(self.shapes[value]), value.dtype.np)
            for value, slot in first.slots.items()
            if slot in template.rooms
        ]
        for value, array in first.kept.items():
            self.block[first.slots[value]] = id(array)
        self.template = template
        self.stages = replace(template.stages, counted=self._cost(template, sizes))

    def _cost(self, template: Template, sizes: tuple[int, ...]) -> Cost | None:
        if template.costs is None:
            return None
        memory = sum(math.prod(shape) * dtype.itemsize for _, shape, dtype in self.results)
        memory += sum(count * dtype.itemsize for _, count, dtype in self.rooms)
        return Cost(**{k: p.at(sizes) for k, p in template.costs.items()}, memory=memory)

    def _parameters(self, template: Template, sizes: tuple[int, ...]) -> None:
        whole = (ctypes.c_long * max(len(template.wholes), 1))(
            *(p.at(sizes) for p in template.wholes)
        )
        real = (ctypes.c_double * max(len(template.floats), 1))(
            *(p.at(sizes) for p in template.floats)
        )
        self.parameters = ctypes.create_string_buffer(bytes(whole) + bytes(real))
        self.block[len(template.first.slots) + render.FIRST] = ctypes.addressof(self.parameters)

    def run(self, arrays: Sequence[Any]) -> list[Any] | None:
        """Run on one contiguous array per input; None if an index was out of range."""
        with self.template.lock:
            for slot, count, dtype in self.rooms:
                self.block[slot] = id(self.template.room(slot, count, dtype))
            for slot, array in zip(self.inputs, arrays, strict=True):
                self.block[slot] = id(array)
            results = []
            for slot, shape, dtype in self.results:
                results.append(np.empty(shape, dtype))
                self.block[slot] = id(results[-1])
            for function in self.functions:
                function(self.block)
            if self.status.value:
                self.status.value = 0
                return None
        return [results[i] for i in self.direct or ()]


def pieces(layout: Layout) -> str:
    """The statements of loops that choose between pieces of values, as text: which pieces can meet
    an index was decided by sizes. x[-2:] has nothing of what was written to x[:3], except if x is
    short.
    """
    found = []
    for step in layout.steps:
        if isinstance(step, Nest) and any(
            isinstance(d, Pieces) for d in layout.plan.definitions.values()
        ):
            for member in step.members:
                space = member.loop.space
                body = Body(layout.plan, member.position, [(0, s) for s in space])
                body.run(member.loop, space)
                found += [f"{space}: {member.loop}", *map(str, body.statements)]
    for inner in layout.inner.values():
        found += [pieces(each) for each in inner.values()]
    return "\n".join(filter(None, found))
