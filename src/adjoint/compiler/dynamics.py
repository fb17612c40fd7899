"""Sizes that stay open: one compiled program for every size of some dimensions.

The function is traced for a few sizes, and its graphs become one, whose numbers are polynomials of
the sizes (`opening`); that one is compiled, once. A new size is traced too: if its graph is the one
for all, with numbers put in, the program serves it. A function whose graph depends on sizes in
another way is compiled for each size, and a warning says so once.
"""

from __future__ import annotations

import inspect
import itertools
import time
from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from typing import Any

import numpy as np

from adjoint.compiler.lower import Choices, lower
from adjoint.compiler.opening import (
    Fits,
    NotWhole,
    Opened,
    QuotientFits,
    WholeFits,
    opened,
)
from adjoint.compiler.program import Code, Program
from adjoint.core import pytrees
from adjoint.core.errors import AdjointError, ArgumentError
from adjoint.core.places import warn
from adjoint.core.records import structure
from adjoint.core.sizes import NotOpen, assuming
from adjoint.graph.ir import Graph
from adjoint.graph.numbers import NumberTensor
from adjoint.graph.trace import ShapeDtype
from adjoint.tensor.tensor import Tensor

_SHAPED = (Tensor, ShapeDtype)
_MULTIPLES = (64, 32, 16, 8, 1)  # of these are the sizes for which a function is traced, the
# smaller ones where a trace of the larger ones needs more memory than there is
_FIRST = 17  # the least of these multiples
_PERIODS = (1, 2, 4)  # of functions that do something else for odd sizes, or every fourth
_FEW = 2  # of these that may be special by chance
_MORE = 6  # sizes to trace for where quotients of sizes are to be seen
_LEAST = 8  # the least size that a program is written for
_TYPICAL = 256  # about the sizes that it is written for if all of the first call are less


class Everywhere:
    """The code of a function for all sizes of a pattern."""

    def __init__(
        self, code: Code, found: Opened, choices: Choices, assumed: Any, period: int
    ) -> None:
        self.code, self.found, self.choices = code, found, choices
        self.period = period  # it is for sizes with the same remainders by this number
        self.assumed = list(assumed)  # numbers that are at least 0 where the code is right

    def program(self, graph: Graph, sizes: tuple[int, ...]) -> Program | None:
        """The program for given sizes, of which `graph` is the traced one; None if it has none."""
        if any(number.at(sizes) < 0 for number in self.assumed):
            return None
        lowered = lower(graph, self.choices.again())
        return self.code.program(sizes) if self.found.holds(lowered, sizes) else None


class Sizes:
    """Which dimensions of a function's arguments are open, and the programs found for them."""

    def __init__(self, function: Callable[..., Any], dynamic: Any) -> None:
        self.parameters = _parameters(function)
        self.open = _normalized(self.parameters, dynamic)
        self.known: dict[Any, Everywhere | None] = {}
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
        resized = _Resized(tensors, structure, places, sizes, marked=role is not None)
        point = tuple(sizes)
        pattern = (role, key[0], key[1], *self._pattern(key, places, sizes))
        graph = traced(*resized.at(point))  # what is wrong with the function itself is raised here
        found = self._code(pattern, resized, graph, traced, report)
        program = None if found is None else found.program(graph, point)
        # x[:100] of 50 elements has 50: that size has a program of its own
        return None if program is None else (program, graph.signature.outputs)

    def _places(self, tensors: Sequence[Any], structure: Any) -> list[tuple[int, int, int]]:
        """(leaf, dimension, size) of every open dimension; leaves count over all arguments."""
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
        """The name in `open` of an argument at some position."""
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

    def _code(
        self, pattern: Any, resized: _Resized, graph: Graph, traced: Any, report: Any
    ) -> Everywhere | None:
        """The code of a pattern; None if there is none."""
        keys = {p: (p, pattern, *(size % p for size in resized.sizes)) for p in _PERIODS}
        for key in keys.values():
            if key in self.known:
                return self.known[key]
        found = self._learn(resized, graph, traced, report)
        self.known[keys[1 if found is None else found.period]] = found
        return found

    def _learn(
        self, resized: _Resized, graph: Graph, traced: Any, report: Any
    ) -> Everywhere | None:
        """The code for all sizes; None, after a warning, if there is none."""
        reason = ""
        for multiple in _MULTIPLES:
            points = _points(len(resized.sizes), resized.closed(), multiple)
            try:
                return self._learn_from(points, resized, graph, traced, report)
            except NotOpen as error:
                reason = str(error)
                break
            except MemoryError as error:  # of kernels that say which shapes views have
                reason = f"{error}; sizes of about {points[0]} were tried"
            except AdjointError as error:
                reason = f"for sizes {points[0]} the function raises: {error}"
                break
        self.warn(reason)
        return None

    def _learn_from(
        self, points: Any, resized: _Resized, graph: Graph, traced: Any, report: Any
    ) -> Everywhere:
        """The code for all sizes, from graphs for some. The points are multiples of one number, for
        functions that ask for such sizes. Where numbers are quotients, other sizes are traced; and
        where the function does something else for some remainders, those like the first alone.
        """
        first = resized.example(), graph
        if first[0] != tuple(resized.sizes):
            first = first[0], traced(*resized.at(first[0]))
        graphs = [traced(*resized.at(p)) for p in points]
        try:
            return _learned(WholeFits, points, graphs, first, report)
        except NotWhole:
            pass
        for period in _PERIODS:
            mixed = _mixed(points, resized.sizes, period)
            try:
                others = [traced(*resized.at(p)) for p in mixed]
                return _learned(QuotientFits, mixed, others, first, report, period)
            except (NotOpen, AdjointError):
                continue
        return _learned(Fits, points, graphs, first, report)

    def warn(self, reason: str) -> None:
        """Say, once, that sizes do not stay open."""
        if not self.warned:
            self.warned = True
            warn(
                f"compile: sizes cannot stay open here ({reason}); each size is compiled for itself"
            )


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


def _points(count: int, closed: set[int], multiple: int) -> list[tuple[int, ...]]:
    """Sizes to trace a function for, all different: enough for the coefficients of polynomials,
    and some more. Programs are written as for the first of them.
    """
    needed = 2 * count + 3 + (_FEW if count > 1 else 0)
    found: list[int] = []
    number = _FIRST
    while len(found) < count * needed:
        if number * multiple not in closed:
            found.append(number * multiple)
        number += 1
    mixed = np.random.default_rng(0).permutation(found).tolist()
    return [tuple(mixed[k * count : (k + 1) * count]) for k in range(needed)]


def _mixed(
    points: list[tuple[int, ...]], like: Sequence[int], period: int
) -> list[tuple[int, ...]]:
    """Sizes as large as others, and some more, with many remainders; all different. By `period`
    they have the remainders of some sizes.
    """
    count, least, most = len(points[0]), min(map(min, points)), max(map(max, points))
    needed = len(points) + _MORE
    draw = np.random.default_rng(0)
    found: list[tuple[int, ...]] = []
    taken: set[int] = set()
    while len(found) < needed:
        point = draw.integers(least, max(most, least + 4 * needed * count), count).tolist()
        point = [size + (other - size) % period for size, other in zip(point, like, strict=True)]
        if len({*point} - taken) == count:
            taken |= {*point}
            found.append(tuple(point))
    return found


def _learned(
    fits: type[Fits],
    points: Sequence[tuple[int, ...]],
    graphs: Sequence[Graph],
    first: tuple[tuple[int, ...], Graph],
    report: Any,
    period: int = 1,
) -> Everywhere:
    """The code for all sizes; what is a matter of speed (whether a product is a loop, which axis
    vectors run along) is decided for the first ones.
    """
    started = time.perf_counter()
    sizes, graph = first
    choices = Choices()
    lower(graph, choices)
    alike = _alike(points, [lower(g, choices.again()) for g in graphs])
    example = tuple(max(size, _LEAST) for size in sizes)
    with assuming() as assumed:
        found = opened(fits([p for p, _ in alike]), [g for _, g in alike], example)
        report(f"compare {len(graphs)} sizes", time.perf_counter() - started)
        code = Code(graphs[0], report, found, len(sizes))
    return Everywhere(code, found, choices, assumed, period)


def _alike(
    points: Sequence[tuple[int, ...]], graphs: Sequence[Graph]
) -> list[tuple[tuple[int, ...], Graph]]:
    """Points and graphs, but for a few graphs that differ from all others: where quotients of two
    sizes happen to be equal, what is computed of both is computed once.
    """
    lengths = [len(g) for g in graphs]
    usual, count = Counter(lengths).most_common(1)[0]
    if len(graphs) - count > _FEW:
        usual = None
    pairs = zip(points, graphs, strict=True)
    return [(p, g) for p, g in pairs if usual is None or len(g) == usual]


@structure
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

    def example(self) -> tuple[int, ...]:
        """The sizes that a program is written for: those given; or larger ones if all are small,
        which will hardly stay so, with the remainders of those given.
        """
        if max(self.sizes) >= _TYPICAL:
            return tuple(self.sizes)
        found: list[int] = []
        for size in self.sizes:
            free = itertools.count(_TYPICAL + size % _MULTIPLES[0], _MULTIPLES[0])
            found.append(next(n for n in free if n not in self.closed() and n not in found))
        return tuple(found)

    def at(self, point: Sequence[int]) -> Any:
        """(arguments, keywords) with other sizes."""
        where = {(n, dim): point[self.sizes.index(size)] for n, dim, size in self.places}
        examples = []
        for number, value in enumerate(self.tensors):
            if isinstance(value, _SHAPED) and type(value) is not NumberTensor:
                shape = tuple(where.get((number, d), s) for d, s in enumerate(value.shape))
                value = ShapeDtype(shape, value.dtype, self.marked and value.requires_grad)
            examples.append(value)
        return pytrees.unflatten(self.structure, examples)
