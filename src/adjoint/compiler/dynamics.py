"""Sizes that stay open: one compiled program for every size of some dimensions.

The program is written for a few sizes. Their texts must agree but for numbers; each number that
differs must be a polynomial of the sizes (or one over it), found from some of the texts and checked
with another one. It then becomes a parameter of the compiled program, and so do the shapes of all
arrays. A function whose program depends on sizes in another way is compiled for each size, and a
warning says so once.
"""

from __future__ import annotations

import ctypes
import inspect
import itertools
import math
import re
import threading
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from adjoint.compiler import libraries
from adjoint.compiler.c import build, render
from adjoint.compiler.lower import lower
from adjoint.compiler.program import Program
from adjoint.core import pytrees
from adjoint.core.errors import ArgumentError
from adjoint.graph.ir import Graph
from adjoint.graph.trace import ShapeDtype
from adjoint.tensor.methods import as_tensor
from adjoint.tensor.tensor import Tensor

_SAMPLES = (1088, 1216, 1472, 1664, 1856, 2112, 2368, 2752)  # multiples of 64, as alignment wants
_NUMBER = re.compile(r"(?<![\w.])\d+(?:\.\d+)?(?:e[+-]?\d+)?(?:f|LL)?(?![\w.])")
_ARRAY = re.compile(
    r"^\s*(?:static |_Thread_local )*(?:double|float|int|long long|unsigned char) \w+\[[^\]]*SIZES"
)
_MOST = 2  # sizes that may vary apart from one another


class NotUniform(Exception):
    """Programs for different sizes differ in more than numbers."""


class Sizes:
    """Which dimensions of a function's arguments are open, and the programs found for them."""

    def __init__(self, function: Callable[..., Any], dynamic: Any) -> None:
        self.open = _normalized(function, dynamic)
        self.templates: dict[Any, Template | None] = {}

    def program(
        self, key: Any, args: Any, keywords: Any, traced: Callable[[Any, Any], Graph], report: Any
    ) -> Any:
        """A program for these arguments and what its outputs are; None: compile as if closed."""
        places = self._places(args)
        sizes = list(dict.fromkeys(size for _, _, size in places))
        if len(sizes) > _MOST or 0 in sizes or 1 in sizes:
            return None  # sizes of 0 and 1 mean other programs: they broadcast
        pattern = (key[0], key[1], *self._pattern(key, places, sizes))
        if pattern not in self.templates:
            self.templates[pattern] = self._learn(args, keywords, places, sizes, traced, report)
        template = self.templates[pattern]
        if template is None:
            return None
        point = tuple(sizes)
        if point not in template.instances:
            graph = traced(*_resized(args, keywords, places, sizes, point))
            if not template.shape.matches(str(lower(graph)), point):
                return None  # x[:100] of 50 elements has 50: that size has a program of its own
        return template.instance(point)

    def _places(self, args: Any) -> list[tuple[int, int, int]]:
        """(leaf, dimension, size) of every open dimension; leaves are counted over all
        arguments.
        """
        found, leaf = [], 0
        for number, argument in enumerate(args):
            for value in pytrees.leaves(argument):
                shape = np.shape(value.value if isinstance(value, Tensor) else value)
                for dim in self.open.get(number, ()):
                    if -len(shape) <= dim < len(shape):
                        found.append((leaf, dim % len(shape), shape[dim]))
                leaf += 1
        return found

    def _pattern(self, key: Any, places: Any, sizes: list[int]) -> list[Any]:
        """The signature with open sizes replaced by their names."""
        parts = [list(p) for p in key[2:]]
        for leaf, dim, size in places:
            shape = list(parts[leaf][0])
            shape[dim] = f"size{sizes.index(size)}"
            parts[leaf][0] = tuple(shape)
        return [tuple(p) for p in parts]

    def _learn(
        self, args: Any, keywords: Any, places: Any, sizes: list[int], traced: Any, report: Any
    ) -> Template | None:
        closed = {s for v in pytrees.leaves((args, keywords)) for s in np.shape(_array(v))}
        usable = [s for s in _SAMPLES if s not in closed]
        points = _points(len(sizes), usable)
        graphs = [traced(*_resized(args, keywords, places, sizes, p)) for p in points]
        reason = ""
        for join in (True, False):
            try:
                programs = [Program(g, report, separate=True, join=join) for g in graphs]
                return Template(points, programs, graphs[0].signature.outputs)
            except NotUniform as error:
                reason = str(error)
        warnings.warn(
            f"compile: sizes cannot stay open here ({reason}); each size is compiled for itself",
            stacklevel=6,
        )
        return None


def _normalized(function: Any, dynamic: Any) -> dict[int, tuple[int, ...]]:
    """{position: dimensions}."""
    if not isinstance(dynamic, dict):
        raise ArgumentError(
            "compile: dynamic must be {argument: dimensions}, e.g. dynamic={'x': 0} or {0: (0, "
            "1)}, "
            f"got {dynamic!r}"
        )
    names = list(inspect.signature(function).parameters)
    found = {}
    for argument, dims in dynamic.items():
        if argument not in names and not isinstance(argument, int):
            raise ArgumentError(
                f"compile: dynamic names {argument!r}, and the arguments are {', '.join(names)}"
            )
        position = argument if isinstance(argument, int) else names.index(argument)
        found[position] = (dims,) if isinstance(dims, int) else tuple(dims)
    return found


def _array(value: Any) -> Any:
    return value.value if isinstance(value, Tensor) else value


def _points(count: int, usable: Sequence[int]) -> list[tuple[int, ...]]:
    """Sizes to write programs for: enough for all coefficients, and one more."""
    if count == 1:
        return [(s,) for s in usable[:4]]
    a, b = usable[:3], usable[3:6]
    return [
        (a[0], b[0]),
        (a[1], b[0]),
        (a[2], b[0]),
        (a[0], b[1]),
        (a[0], b[2]),
        (a[1], b[1]),
        (a[2], b[2]),
    ]


def _resized(args: Any, keywords: Any, places: Any, sizes: list[int], point: Any) -> Any:
    """The arguments as examples of other sizes."""
    leaves, structure = pytrees.flatten((args, keywords))
    where = {(leaf, dim): point[sizes.index(size)] for leaf, dim, size in places}
    examples = []
    for number, value in enumerate(leaves):
        if not isinstance(value, (Tensor, np.ndarray, np.generic, float, complex)):
            examples.append(value)
            continue
        tensor = value if isinstance(value, Tensor) else as_tensor(value)
        shape = tuple(where.get((number, d), s) for d, s in enumerate(tensor.shape))
        examples.append(ShapeDtype(shape, tensor.dtype))
    return pytrees.unflatten(structure, examples)


# -- numbers that depend on sizes -----------------------------------------------------------------


@dataclass(frozen=True)
class Polynomial:
    """Σ c · nⁱ mʲ, or one over it."""

    terms: tuple[tuple[tuple[int, ...], Fraction], ...]  # (powers, coefficient)
    inverse: bool = False

    def at(self, sizes: Sequence[int]) -> Any:
        total = sum(
            (
                c * math.prod(s**p for s, p in zip(sizes, powers, strict=True))
                for powers, c in self.terms
            ),
            Fraction(0),
        )
        if self.inverse:
            return float(1 / total)
        return int(total) if total.denominator == 1 else float(total)


def fit(points: Sequence[tuple[int, ...]], values: Sequence[Any]) -> Polynomial:
    """The polynomial of degree 2 through all points; it must exist."""
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
    raise NotUniform(
        f"a number is {', '.join(map(str, values))} for sizes {', '.join(map(str, points))}"
    )


def _solve(points: Any, values: Sequence[Fraction]) -> Any:
    """Exact elimination with as many points as there are coefficients."""
    count = len(points[0])
    powers = [p for p in itertools.product(range(3), repeat=count) if sum(p) <= 2]
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

    def __init__(self, points: Any, programs: Sequence[Program], outputs: Any) -> None:
        self.first = programs[0]
        self.outputs = outputs
        _check_alike(programs)
        self.shape = Pattern(points, [str(p.graph) for p in programs])
        self.shapes = [
            _fit_shapes(points, [list(p.slots)[k].shape for p in programs])
            for k in range(len(self.first.slots))
        ]
        source = self._parametrize(points, [p.stages.source for p in programs])
        self.first.stages.source = source
        self.functions = [build.load(source, name) for name in self.first.segments]
        self.instances: dict[tuple[int, ...], Any] = {}

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
        text = re.sub(
            r"static void (nest\d+)\(", r"static void \1(const Sizes *restrict SIZES, ", text
        )
        text = re.sub(r"(?<!void )\b(nest\d+)\(", r"\1(SIZES, ", text)
        opening = f"const Sizes *SIZES = p[{len(self.first.slots) + render.FIRST}];\n"
        text = re.sub(r"^(void segment\d+\(void \*\*p\) \{\n)", rf"\1  {opening}", text, flags=re.M)
        whole, real = max(len(self.wholes), 1), max(len(self.floats), 1)
        return f"typedef struct {{ long n[{whole}]; double x[{real}]; }} Sizes;\n{text}"

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
        same = len(first.kept) == len(program.kept) and all(np.array_equal(a, b) for a, b in pairs)
        if not same or len(program.slots) != len(first.slots):
            raise NotUniform("a constant depends on them")


def _fit_shapes(points: Any, shapes: Sequence[Any]) -> tuple[Polynomial, ...]:
    if len({len(s) for s in shapes}) != 1:
        raise NotUniform("a value has another number of dimensions")
    return tuple(fit(points, column) for column in zip(*shapes, strict=True))


class Instance:
    """A template for given sizes: its memory and its parameters."""

    entry_function = None

    def __init__(self, template: Template, sizes: tuple[int, ...]) -> None:
        first = template.first
        self.functions, self.stages, self.direct = template.functions, first.stages, first.direct
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
                self.kept.append(array)
                self.block[slot] = id(array)
        self.lock = threading.Lock()

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
