"""Sizes that stay open: one compiled program for every size of some dimensions.

The program is written for a few sizes. Their texts must agree but for numbers; each number that
differs must be a polynomial of the sizes (or one over it), found from some of the texts and checked
with another one. It then becomes a parameter of the compiled program, and so do the shapes of all
arrays. A function whose program depends on sizes in another way is compiled for each size, and a
warning says so once.
"""

from __future__ import annotations

import ctypes
import hashlib
import inspect
import itertools
import math
import re
import sys
import threading
import time
import warnings
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np

from adjoint.compiler import libraries
from adjoint.compiler.c import build, render
from adjoint.compiler.c.body import Body
from adjoint.compiler.definitions import Pieces
from adjoint.compiler.lower import lower
from adjoint.compiler.memory import Layout
from adjoint.compiler.nests import Nest
from adjoint.compiler.program import Program
from adjoint.compiler.stages import Cost
from adjoint.core import pytrees
from adjoint.core.errors import AdjointError, ArgumentError
from adjoint.graph.ir import Constant, Graph, Value
from adjoint.graph.trace import ShapeDtype
from adjoint.tensor.tensor import Tensor

_SAMPLES = (1088, 1216, 1472, 1664, 1856, 2112, 2368, 2752)  # large, as programs for many elements
_SMALLER = (136, 152, 184, 208, 232, 264, 296, 344)  # where so many would need too much memory
_NUMBER = re.compile(r"(?<![\w.])\d+(?:\.\d+)?(?:e[+-]?\d+)?(?:f|LL)?(?![\w.])")
_ARRAY = re.compile(
    r"^\s*(?:static |_Thread_local )*(?:double|float|int|long long|unsigned char) \w+\[[^\]]*SIZES"
)
_END = r"(\d+|\(SIZES->n\[\d+\]\))"
_FROM_TO = re.compile(  # loops over part of a dimension: parts lie one after another for every size
    rf"for \(long (\w+) = (?:LARGER\(first, )?{_END}\)?; \1 < (?:SMALLER\(last, )?{_END}\)?;"
)
_SHAPED = (Tensor, ShapeDtype)
_MOST = 2  # sizes that may vary apart from one another


class NotUniform(Exception):
    """Programs for different sizes differ in more than numbers."""


class Sizes:
    """Which dimensions of a function's arguments are open, and the programs found for them."""

    def __init__(self, function: Callable[..., Any], dynamic: Any) -> None:
        self.parameters = _parameters(function)
        self.open = _normalized(self.parameters, dynamic)
        self.templates: dict[Any, Template | None] = {}
        self.warned = False

    def program(
        self,
        key: Any,
        tensors: Sequence[Any],
        structure: Any,
        traced: Callable[[Any, Any], Graph],
        report: Callable[[str, float], None],
        role: Hashable = None,
    ) -> Any:
        """A program for these arguments and what its outputs are; None: compile as if closed.

        With a `role`, `traced` makes another graph of the same function, e.g. of its gradient, and
        its arguments are marked as those given.
        """
        places = self._places(tensors, structure)
        sizes = list(dict.fromkeys(size for _, _, size in places))
        if not sizes or 0 in sizes or 1 in sizes:
            return None  # sizes of 0 and 1 mean other programs: they broadcast
        if len(sizes) > _MOST:
            self.warn(f"{len(sizes)} different ones, at most {_MOST} can vary")
            return None
        resized = _Resized(tensors, structure, places, sizes, marked=role is not None)
        point = tuple(sizes)
        pattern = (role, key[0], key[1], *self._pattern(key, places, sizes))
        template = self.templates.get(pattern)
        if template is not None and point in template.instances:
            return template.instance(point)
        graph = traced(*resized.at(point))  # what is wrong with the function itself is raised here
        if pattern not in self.templates:
            template = self._learn(resized, traced, report)
            self.templates[pattern] = template
        if template is None or not template.fits(graph, point):
            return None  # x[:100] of 50 elements has 50: that size has a program of its own
        return template.instance(point)

    def _places(self, tensors: Sequence[Any], structure: Any) -> list[tuple[int, int, int]]:
        """(leaf, dimension, size) of every open dimension; leaves are counted over all
        arguments.
        """
        args, keywords = pytrees.unflatten(structure, range(len(tensors)))
        given = {self._name(n): pytrees.leaves(a) for n, a in enumerate(args)}
        given |= {name: pytrees.leaves(a) for name, a in keywords.items()}
        found = []
        for argument, dims in self.open.items():
            leaves = given.get(argument, [])
            shapes = {n: tensors[n].shape for n in leaves if isinstance(tensors[n], _SHAPED)}
            for dim in dims:
                has = [n for n, shape in shapes.items() if -len(shape) <= dim < len(shape)]
                if leaves and not has:
                    raise ArgumentError(
                        f"compile: dynamic opens dimension {dim} of {argument!r}, which has "
                        + (f"shape {' and '.join(map(str, shapes.values()))}" if shapes else "none")
                    )
                found += [(n, dim % len(shapes[n]), shapes[n][dim]) for n in has]
        return sorted(set(found))

    def _name(self, position: int) -> int | str:
        """What an argument at some position is called in `open`."""
        if position in self.open or position >= len(self.parameters):
            return position
        return self.parameters[position].name

    def _pattern(self, key: Any, places: Any, sizes: list[int]) -> list[Any]:
        """The signature with open sizes replaced by their names."""
        parts = [list(p) for p in key[2:]]
        for leaf, dim, size in places:
            shape = list(parts[leaf][0])
            shape[dim] = f"size{sizes.index(size)}"
            parts[leaf][0] = tuple(shape)
        return [tuple(p) for p in parts]

    def _learn(self, resized: _Resized, traced: Any, report: Any) -> Template | None:
        """The program for all sizes; None, after a warning, if there is none."""
        reason = ""
        for points in _points(len(resized.sizes), resized.closed()):
            try:
                return _learned(points, [traced(*resized.at(p)) for p in points], report)
            except NotUniform as error:
                reason = str(error)
                break
            except MemoryError as error:  # of kernels that say which shapes views have
                reason = f"{error}; sizes of about {points[0]} were tried"
            except AdjointError as error:
                reason = f"for sizes {points[0]} the function raises: {error}"
                break
        self.warn(reason)
        return None

    def warn(self, reason: str) -> None:
        """Say, once, that sizes do not stay open."""
        if not self.warned:
            self.warned = True
            warnings.warn(
                f"compile: sizes cannot stay open here ({reason}); each size is compiled for "
                "itself",
                stacklevel=_outside(),
            )


def _outside() -> int:
    """How many calls ago the user's code was left."""
    frame, level = sys._getframe(1), 1
    while frame is not None and frame.f_globals.get("__name__", "").startswith("adjoint."):
        frame, level = frame.f_back, level + 1
    return level


def _parameters(function: Any) -> list[inspect.Parameter]:
    try:
        return list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):  # a function of C: its arguments have positions alone
        return []


def _normalized(
    parameters: list[inspect.Parameter], dynamic: Any
) -> dict[int | str, tuple[int, ...]]:
    """{name: dimensions}, with positions for arguments that have no name of their own."""
    if not isinstance(dynamic, dict):
        raise ArgumentError(
            "compile: dynamic must be {argument: dimensions}, e.g. dynamic={'x': 0} or "
            f"{{0: (0, 1)}}, got {dynamic!r}"
        )
    names = [p.name for p in parameters]
    rest = next((n for n, p in enumerate(parameters) if p.kind is p.VAR_POSITIONAL), None)
    found: dict[int | str, tuple[int, ...]] = {}
    for argument, dims in dynamic.items():
        known = argument in names and argument != (names[rest] if rest is not None else None)
        if type(argument) is int and argument >= 0:
            known = argument < len(names) or rest is not None or not names
        if not known:
            raise ArgumentError(
                f"compile: dynamic names {argument!r}, and the arguments are {', '.join(names)}"
                + (f" (name those of *{names[rest]} by position)" if rest is not None else "")
            )
        listed = (dims,) if isinstance(dims, int) else dims
        if not isinstance(listed, (tuple, list)) or any(type(d) is not int for d in listed):
            raise ArgumentError(
                f"compile: dynamic gives {dims!r} for {argument!r}; a dimension is a whole number, "
                "several are a tuple"
            )
        named = type(argument) is int and argument < (len(names) if rest is None else rest)
        found[names[argument] if named else argument] = tuple(listed)
    return found


def _points(count: int, closed: set[int]) -> list[list[tuple[int, ...]]]:
    """Sizes to write programs for, enough for all coefficients, and one more; then smaller ones."""
    small, large = ([s for s in sizes if s not in closed] for sizes in (_SMALLER, _SAMPLES))
    if count == 1:
        return [[(s,) for s in sizes[:5]] for sizes in (large, small)]
    return [list(itertools.product(first[:3], large[3:6])) for first in (large, small)]


def _learned(points: Any, graphs: Sequence[Graph], report: Any) -> Template:
    started = time.perf_counter()
    for join in (True, False):
        programs = [Program(g, separate=True, join=join) for g in graphs]
        report(f"write C for {len(points)} sizes", time.perf_counter() - started)
        try:
            return Template(points, programs, join, graphs[0].signature.outputs, report)
        except NotUniform:
            if not join:
                raise
    raise AssertionError


@dataclass
class _Resized:
    """Arguments with open dimensions, as examples of other sizes."""

    tensors: Sequence[Any]
    structure: Any
    places: list[tuple[int, int, int]]
    sizes: list[int]
    marked: bool  # whether examples require gradients where the tensors do

    def closed(self) -> set[int]:
        """The sizes of all dimensions."""
        return {s for t in self.tensors if isinstance(t, _SHAPED) for s in t.shape}

    def at(self, point: Sequence[int]) -> Any:
        """(arguments, keywords) with other sizes."""
        where = {(n, dim): point[self.sizes.index(size)] for n, dim, size in self.places}
        examples = []
        for number, value in enumerate(self.tensors):
            if isinstance(value, _SHAPED):
                shape = tuple(where.get((number, d), s) for d, s in enumerate(value.shape))
                value = ShapeDtype(shape, value.dtype, self.marked and value.requires_grad)
            examples.append(value)
        return pytrees.unflatten(self.structure, examples)


# -- numbers that depend on sizes -----------------------------------------------------------------


@dataclass(frozen=True)
class Polynomial:
    """Σ c · nⁱ mʲ, or one over it."""

    terms: tuple[tuple[tuple[int, ...], Fraction], ...]  # (powers, coefficient)
    inverse: bool = False

    def at(self, sizes: Sequence[int]) -> Any:
        total = sum(
            (
                c * math.prod(s**p for s, p in zip(sizes, powers, strict=False))
                for powers, c in self.terms
            ),
            Fraction(0),
        )
        if self.inverse:
            return float(1 / total) if total else math.inf
        return int(total) if total.denominator == 1 else float(total)


def fit(points: Sequence[tuple[int, ...]], values: Sequence[Any]) -> Polynomial:
    """The polynomial of degree 3 (2 in each of several sizes) through all points; it must exist."""
    for inverse in (False, True):
        if inverse and not all(values):
            break
        exact = [Fraction(v) for v in values]
        wanted = [1 / v for v in exact] if inverse else exact
        if inverse:
            wanted = [
                Fraction(round(v)) if abs(v - round(v)) < Fraction(1, 10**6) else v for v in wanted
            ]
        found = _solve(points, wanted)
        if found is None:
            continue
        polynomial = Polynomial(found, inverse)
        if all(float(polynomial.at(p)) == float(v) for p, v in zip(points, values, strict=True)):
            return polynomial
    known = ", ".join(
        f"{float(v):g} for {' and '.join(map(str, p))}"
        for p, v in zip(points[:3], values[:3], strict=True)
    )
    raise NotUniform(f"a number is {known}, which is no polynomial")


def _solve(points: Any, values: Sequence[Fraction]) -> Any:
    """Exact elimination with as many points as there are coefficients."""
    count = len(points[0])
    most = 3 if count == 1 else 2
    powers = [p for p in itertools.product(range(most + 1), repeat=count) if sum(p) <= 3]
    rows = [
        [Fraction(math.prod(s**e for s, e in zip(point, p, strict=True))) for p in powers] + [v]
        for point, v in zip(points, values, strict=True)
    ]
    for column in range(len(powers)):
        pivot = next((r for r in range(column, len(rows)) if rows[r][column]), None)
        if pivot is None:
            return None
        rows[column], rows[pivot] = rows[pivot], rows[column]
        for r in range(len(rows)):
            if r != column and rows[r][column]:
                factor = rows[r][column] / rows[column][column]
                rows[r] = [a - factor * b for a, b in zip(rows[r], rows[column], strict=True)]
    if any(row[-1] for row in rows[len(powers) :]):
        return None
    return tuple((p, rows[k][-1] / rows[k][k]) for k, p in enumerate(powers) if rows[k][-1])


def described(graph: Graph) -> str:
    """Everything that a graph computes, as text in which only numbers depend on sizes."""
    names: dict[Value, str] = {}

    def text(argument: Any) -> str:
        if isinstance(argument, Value):
            return names[argument]
        if isinstance(argument, (tuple, list)):
            return f"[{', '.join(map(text, argument))}]"
        return repr(argument)

    def made(value: Value) -> str:
        names[value] = f"v{len(names)}"
        return f"{names[value]}: {value.type}"

    def lines(graph: Graph) -> Iterator[str]:
        yield f"given {', '.join(map(made, graph.inputs))}"
        for node in graph.nodes:
            for name, inner in node.graphs.items():
                yield f"{name}:"
                yield from lines(inner)
            constant = ""
            if isinstance(node.op, Constant):
                constant = _fingerprint(np.asarray(node.op.tensor.array))
            arguments = ", ".join(map(text, node.args))
            yield f"{', '.join(map(made, node.outputs))} = {node.name} {constant} {arguments}"
        yield f"return {text(graph.outputs)}"

    return "\n".join(lines(graph))


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


def _fingerprint(array: Any) -> str:
    """The same for constants that `_same` takes for one."""
    if array.size and (array == array.flat[0]).all():
        array = array.reshape(-1)[:1]
    return f"h{hashlib.sha256(array.tobytes()).hexdigest()}"


# -- templates ------------------------------------------------------------------------------------


class Pattern:
    """A text whose numbers depend on sizes."""

    def __init__(self, points: Any, texts: Sequence[str]) -> None:
        split = [_NUMBER.split(t) for t in texts]
        if any(p != split[0] for p in split):
            raise NotUniform("the program is another for other sizes")
        self.pieces = split[0]
        numbers = zip(*(_NUMBER.findall(t) for t in texts), strict=True)
        known: dict[tuple[str, ...], Any] = {}
        self.numbers: list[str | tuple[str, Polynomial]] = []  # as it stands; or how it ends, and …
        for tokens in numbers:
            if tokens not in known:
                known[tokens] = tokens[0] if len(set(tokens)) == 1 else _varying(points, tokens)
            self.numbers.append(known[tokens])

    def matches(self, text: str, sizes: tuple[int, ...]) -> bool:
        """Whether a text is the one for some sizes."""
        if _NUMBER.split(text) != self.pieces:
            return False
        for token, known in zip(_NUMBER.findall(text), self.numbers, strict=True):
            if isinstance(known, str):
                if token != known:
                    return False
            elif float(token.rstrip("fL")) != float(known[1].at(sizes)):
                return False
        return True


def _varying(points: Any, tokens: tuple[str, ...]) -> tuple[str, Polynomial]:
    real = any(c in tokens[0] for c in ".e")
    digits = [t.rstrip("fL") for t in tokens]
    values = [Fraction(float(d)) if real else Fraction(int(d)) for d in digits]
    return ("f" if tokens[0].endswith("f") else "x") if real else "n", fit(points, values)


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

    def fits(self, graph: Graph, sizes: tuple[int, ...]) -> bool:
        """Whether the program is one of a graph for given sizes."""
        if any(low.at(sizes) > high.at(sizes) for low, high in self.bounds):
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
            return Polynomial((((), Fraction(int(text))),))
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

    entry_function = None

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
        empty = np.empty(1, np.uint8)
        self.kept: list[Any] = [empty]
        self.block[render.ARENA] = id(empty)
        if "library[" in first.stages.source:
            self.block[render.LIBRARY] = ctypes.addressof(libraries.addresses())
        self._parameters(template, sizes)
        self.inputs = first.inputs
        self.results = [(first.slots[v], self.shapes[v], v.dtype.np) for v in first.made]
        given = {*first.graph.inputs, *first.made}
        for value, slot in first.slots.items():
            if value not in given:
                array = first.kept.get(value)
                if array is None:
                    array = np.empty(self.shapes[value], value.dtype.np)
                elif array.shape != self.shapes[value]:
                    array = np.full(self.shapes[value], array.flat[0], value.dtype.np)
                self.kept.append(array)
                self.block[slot] = id(array)
        self.lock = threading.Lock()
        self.stages = replace(template.stages, counted=self._cost(template, sizes))

    def _cost(self, template: Template, sizes: tuple[int, ...]) -> Cost | None:
        if template.costs is None:
            return None
        results = sum(math.prod(shape) * dtype.itemsize for _, shape, dtype in self.results)
        memory = results + sum(a.nbytes for a in self.kept[1:])
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
        with self.lock:
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
