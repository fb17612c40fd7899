"""One graph for all sizes: graphs of a few sizes, number by number.

A function is traced for a few sizes. Its graphs must agree but for numbers, and each number must be
a polynomial of the sizes, or a real number that depends on one (1/n, √n); it becomes a `Size` or a
`Real` of one graph that stands for all. A graph of other sizes belongs to it if its numbers are
those of the polynomials: that is looked at before a program is used for them.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from adjoint.compiler.affine import Affine
from adjoint.compiler.definitions import Address, Definition, Fill, Piece, define
from adjoint.compiler.routines import Routine
from adjoint.core.lazy import Lazy
from adjoint.core.records import structure
from adjoint.core.sizes import NotOpen, Real, Size, is_open, made
from adjoint.graph.ir import Constant, Graph, Node, Type, Value

if TYPE_CHECKING:
    import fractions
else:
    fractions = Lazy("fractions")

Points = Sequence[tuple[int, ...]]
_RECORDS = (Definition, Piece, Address, Affine, Routine)
_DENOMINATOR = 4096  # the largest of a factor beside a size in a real number


@structure
class Opened:
    """A lowered graph whose numbers depend on sizes, and what its nodes are to loops."""

    graph: Graph
    definitions: dict[Node, Any]

    def holds(self, graph: Graph, sizes: tuple[int, ...]) -> bool:
        """Whether a graph is this one for given sizes."""
        return _Comparison(sizes).graphs(self.graph, graph, self.definitions)


def opened(points: Points, graphs: Sequence[Graph], example: tuple[int, ...]) -> Opened:
    """The graph of which each of some graphs is the one for a point; NotOpen if there is none.
    Where a choice is a matter of speed, it is made for the sizes of the example.
    """
    return _Opening(points, example).run(graphs)


# -- many into one --------------------------------------------------------------------------------


class _Opening:
    def __init__(self, points: Points, example: tuple[int, ...]) -> None:
        self.points, self.example = points, example
        self.numbers: list[dict[Value, int]] = [{} for _ in points]  # of values, by graph
        self.values: list[Value] = []  # of the graph that is made
        self.definitions: dict[Node, Any] = {}
        self.known: dict[tuple[Any, ...], Any] = {}  # numbers that were looked at before

    def run(self, graphs: Sequence[Graph]) -> Opened:
        graph = graphs[0].clone()
        self.graph(graph, graphs)
        return Opened(graph, self.definitions)

    def graph(self, target: Graph, graphs: Sequence[Graph]) -> None:
        if len({(len(g), len(g.inputs), len(g.outputs)) for g in graphs}) > 1:
            raise NotOpen("the program is another for other sizes")
        for value, values in zip(target.inputs, zip(*(g.inputs for g in graphs)), strict=True):
            self.made(value, values)
        for node, nodes in zip(target.nodes, zip(*(g.nodes for g in graphs)), strict=True):
            self.node(node, nodes)
        target.outputs = list(self.common([tuple(g.outputs) for g in graphs]))

    def made(self, target: Value, values: Sequence[Value]) -> None:
        first = values[0].type
        if any((v.dtype, len(v.shape)) != (first.dtype, len(first.shape)) for v in values):
            raise NotOpen("a value has another number of dimensions, or another dtype")
        shape = self.common([v.shape for v in values])
        target.type = Type(shape, first.dtype, first.requires_grad)
        for numbers, value in zip(self.numbers, values, strict=True):
            numbers[value] = len(self.values)
        self.values.append(target)

    def node(self, target: Node, nodes: Sequence[Node]) -> None:
        if isinstance(target.op, Constant):
            self.constant(target, nodes)
        elif any(n.op.name != target.op.name or n.name != target.name for n in nodes):
            raise NotOpen("the program is another for other sizes")
        for name, inner in target.graphs.items():
            self.graph(inner, [n.graphs[name] for n in nodes])
        target.set_args(self.common([n.args for n in nodes]))
        for value, values in zip(target.outputs, zip(*(n.outputs for n in nodes)), strict=True):
            self.made(value, values)
        if not isinstance(target.op, Constant):
            found = [define(n) for n in nodes]
            self.definitions[target] = self.common(found)

    def constant(self, target: Node, nodes: Sequence[Node]) -> None:
        if not all(isinstance(n.op, Constant) for n in nodes):
            raise NotOpen("the program is another for other sizes")
        arrays = [np.asarray(n.op.tensor.array) for n in nodes]
        if all(_is_same(a, arrays[0]) for a in arrays):
            return
        if not all(_is_full_of(a, arrays[0]) for a in arrays):
            raise NotOpen("a constant depends on them")
        self.definitions[target] = Fill(arrays[0].flat[0].item())

    def common(self, parts: Sequence[Any]) -> Any:
        """What all of some values are, for the sizes that each of them belongs to."""
        first = parts[0]
        kind = type(first)
        if any(type(p) is not kind for p in parts):
            raise NotOpen("the program is another for other sizes")
        if kind is Value:
            places = {n[p] for n, p in zip(self.numbers, parts, strict=True)}
            if len(places) > 1:
                raise NotOpen("the program is another for other sizes")
            return self.values[places.pop()]
        if kind is tuple:
            if len({len(p) for p in parts}) > 1:
                raise NotOpen("the program is another for other sizes")
            return tuple([self.common(p) for p in zip(*parts, strict=True)])
        if kind in (int, float):
            return self.number(tuple(parts))
        if dataclasses.is_dataclass(first) and isinstance(first, _RECORDS):
            fields = {
                f.name: [getattr(p, f.name) for p in parts] for f in dataclasses.fields(first)
            }
            return kind(**{name: self.common(each) for name, each in fields.items()})
        if any(p is not first and p != first for p in parts):
            raise NotOpen(f"{first!r} is {parts[-1]!r} for other sizes")
        return first

    def number(self, values: tuple[Any, ...]) -> Any:
        if all(v == values[0] for v in values) or values[0] != values[0]:
            return values[0]
        found = self.known.get(values)
        if found is None:
            whole = type(values[0]) is int
            fitted = fit if whole else fit_real
            found = self.known[values] = fitted(self.points, values).like(self.example)
        return found


def _is_same(a: Any, b: Any) -> bool:
    return a.shape == b.shape and a.tobytes() == b.tobytes()


def _is_full_of(a: Any, b: Any) -> bool:
    """Whether two arrays hold one number, the same."""
    return bool(a.size and b.size and (a == b.flat[0]).all() and (b == b.flat[0]).all())


# -- one for many ---------------------------------------------------------------------------------


class _Comparison:
    """Whether a graph is another one for given sizes."""

    def __init__(self, sizes: tuple[int, ...]) -> None:
        self.sizes = sizes
        self.pairs: dict[Value, Value] = {}

    def graphs(self, opened: Graph, graph: Graph, definitions: dict[Node, Any]) -> bool:
        if len(opened) != len(graph) or len(opened.inputs) != len(graph.inputs):
            return False
        if not all(map(self.value, opened.inputs, graph.inputs)):
            return False
        for mine, other in zip(opened.nodes, graph.nodes, strict=True):
            if not self.node(mine, other, definitions):
                return False
        return self.same(tuple(opened.outputs), tuple(graph.outputs))

    def node(self, mine: Node, other: Node, definitions: dict[Node, Any]) -> bool:
        if isinstance(mine.op, Constant):
            if not isinstance(other.op, Constant):
                return False
            a, b = (np.asarray(n.op.tensor.array) for n in (mine, other))
            if not (_is_full_of(a, b) if mine in definitions else _is_same(a, b)):
                return False
        elif mine.name != other.name or len(mine.outputs) != len(other.outputs):
            return False
        return (
            all(self.graphs(g, other.graphs[k], definitions) for k, g in mine.graphs.items())
            and self.same(mine.args, other.args)
            and all(map(self.value, mine.outputs, other.outputs))
        )

    def value(self, mine: Value, other: Value) -> bool:
        self.pairs[mine] = other
        if is_open(mine.shape) and 0 in other.shape:
            return False  # of nothing there are other programs
        return mine.dtype is other.dtype and self.same(mine.shape, other.shape)

    def same(self, mine: Any, other: Any) -> bool:
        if isinstance(mine, Value):
            return self.pairs.get(mine) is other
        if type(mine) is tuple:
            if type(other) is not tuple or len(mine) != len(other):
                return False
            return all(map(self.same, mine, other))
        if isinstance(mine, Real):
            return math.isclose(mine.at(self.sizes), other, rel_tol=4e-16)
        if isinstance(mine, Size):
            return type(other) is int and mine.at(self.sizes) == other
        return type(mine) is type(other) and (mine == other or (mine != mine and other != other))


# -- numbers --------------------------------------------------------------------------------------


def fit(points: Points, values: Sequence[Any]) -> Size:
    """The simplest polynomial through all points; it must leave some of them to check it.

    >>> fit([(3, 7), (5, 11), (8, 13), (9, 20)], [22, 56, 105, 181])
    (size0 * size1 + 1)
    """
    for basis in _bases(len(points[0]), len(points) - 1):
        terms = _solved(points, values, basis)
        if terms is not None:
            found = made(int(values[0]), terms)
            if isinstance(found, Size):
                return found
    raise NotOpen(f"a number is {_listed(points, values)}, which is no polynomial")


def _bases(count: int, most: int) -> Iterator[tuple[tuple[int, ...], ...]]:
    """Sets of monomials, the simple ones first; none has more than so many."""
    symbols = range(count)
    for s in symbols:
        yield ((), (s,))
    for degree in (2, 3):
        for s in symbols:
            yield tuple((s,) * k for k in range(degree + 1))
    for size in range(2, count + 1):
        for chosen in itertools.combinations(symbols, size):
            yield ((), chosen)
            parts = [p for k in range(size + 1) for p in itertools.combinations(chosen, k)]
            if len(parts) <= most:
                yield tuple(parts)
            yield ((), *((s,) for s in chosen))
    pairs = itertools.combinations_with_replacement(symbols, 2)
    every = ((), *((s,) for s in symbols), *pairs)
    if len(every) <= most:
        yield every


def _solved(points: Points, values: Sequence[Any], basis: Any) -> dict[Any, Any] | None:
    """The coefficients of a basis with which all points are met, by exact elimination."""
    count = len(basis)
    if count >= len(points):
        return None
    rows = [
        [
            *(fractions.Fraction(math.prod(point[s] for s in powers)) for powers in basis),
            fractions.Fraction(value),
        ]
        for point, value in zip(points, values, strict=True)
    ]
    for column in range(count):
        pivot = next((r for r in range(column, len(rows)) if rows[r][column]), None)
        if pivot is None:
            return None
        rows[column], rows[pivot] = rows[pivot], rows[column]
        for r, row in enumerate(rows):
            if r != column and row[column]:
                factor = row[column] / rows[column][column]
                rows[r] = [a - factor * b for a, b in zip(row, rows[column], strict=True)]
    if any(row[-1] for row in rows[count:]):
        return None
    found = [rows[k][-1] / rows[k][k] for k in range(count)]
    return {p: int(c) if c.denominator == 1 else c for p, c in zip(basis, found, strict=True)}


def fit_real(points: Points, values: Sequence[float]) -> Real:
    """factor · size ^ power, for a power of ±1 or ±½."""
    sign = -1.0 if values[0] < 0 else 1.0
    for power in (1, -1, 0.5, -0.5):
        found = _power(points, [sign * v for v in values], power, sign)
        if found is not None:
            return found
    raise NotOpen(f"a number is {_listed(points, values)}, which is no polynomial")


def _power(points: Points, values: Sequence[float], power: float, sign: float) -> Real | None:
    if not all(v > 0 and math.isfinite(v) for v in values):
        return None
    bases = [fractions.Fraction(v ** (1 / power)).limit_denominator(_DENOMINATOR) for v in values]
    denominator = math.lcm(*(b.denominator for b in bases))
    if denominator > _DENOMINATOR:
        return None
    try:
        size = fit(points, [b * denominator for b in bases])
    except NotOpen:
        return None
    whole = math.lcm(*(fractions.Fraction(c).denominator for c in size.terms.values()))
    found = Real(sign * (denominator * whole) ** (-power), size * whole, power)
    pairs = zip(points, values, strict=True)
    return (
        found if all(math.isclose(found.at(p), sign * v, rel_tol=4e-16) for p, v in pairs) else None
    )


def _listed(points: Points, values: Sequence[Any]) -> str:
    pairs = zip(points[:3], values[:3], strict=True)
    return ", ".join(f"{float(v):g} for {' and '.join(map(str, p))}" for p, v in pairs)
