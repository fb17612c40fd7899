"""One graph for all sizes, merged from graphs of a few sizes.

A function is traced for a few sizes. Its graphs must be equal except for numbers. Each number must
be a polynomial of the sizes and of their quotients by whole numbers (⌊n / 2⌋), or a real number
that depends on a size (1/n, √n); it becomes a `SymbolicSize` or a `Real` of the merged graph. A
graph of other sizes is the merged one if its numbers are the values of the polynomials, which is
checked before a program is used for them.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from adjoint.compiler.definitions import (
    Address,
    Arange,
    Combination,
    Definition,
    Fill,
    Look,
    Piece,
    Pieces,
    Pointwise,
    Put,
    Reduction,
    Reshape,
    Routine,
    RoutineDefinition,
    ViewDefinition,
    define,
)
from adjoint.compiler.target import Target
from adjoint.core.errors import AdjointError
from adjoint.core.lazy import Lazy
from adjoint.core.records import structure
from adjoint.core.shapes import row_major
from adjoint.core.symbolic_sizes import (
    NotOpen,
    Real,
    SymbolicSize,
    at,
    for_many,
    is_open,
    is_whole,
    made,
    symbol,
)
from adjoint.graph import passes
from adjoint.graph.facts import is_random
from adjoint.graph.ir import Constant, Graph, Node, Type, Value
from adjoint.graph.passes import prune_loops
from adjoint.graph.typing import result_types
from adjoint.loops.accumulators import ACCUMULATORS
from adjoint.loops.affine import Affine, flat, identity
from adjoint.ops.arguments import DIMS
from adjoint.ops.operator import Operator
from adjoint.tensor.tensor import make

if TYPE_CHECKING:
    import fractions
else:
    fractions = Lazy("fractions")

Points = Sequence[tuple[int, ...]]
_RECORDS = (Definition, Piece, Address, Affine, Routine)
_LOOPS = (
    Combination,
    Arange,
    Fill,
    Look,
    Pieces,
    Pointwise,
    Put,
)  # definitions of loops, not of routines
_DENOMINATOR = 4096  # the largest denominator of a factor in a real number
_MULTIPLE = 1 << 24  # the largest whole multiple tried for a real number
_DIVISOR = 64  # the largest divisor that is tried
_TOGETHER = 3  # sizes and quotients multiplied in one number


class NotWhole(NotOpen):
    """A number that is a polynomial only for sizes like the traced ones, as n / 2 for even n."""


class SizedConstant(NotOpen):
    """A constant from outside the program that depends on sizes."""


@structure
class Opened:
    """A lowered graph whose numbers depend on sizes, with the definitions of its nodes."""

    graph: Graph
    definitions: dict[Node, Any]
    target: Target

    def holds(self, graph: Graph, sizes: tuple[int, ...]) -> bool:
        """Whether `graph` is this graph for given sizes.

        A graph with known sizes may be simpler (a sum of one element, a product with n - 1 = 1).
        Then this graph is simplified for the sizes, too.
        """
        if _Comparison(sizes, self.target).graphs(self.graph, graph, self.definitions):
            return True
        made = _Instance(sizes, self.target)
        if not made.graphs(self.graph, instance := self.graph.clone(), self.definitions):
            return False
        with for_many(None):
            simple = (prune_loops(passes.run(each)) for each in (instance, graph))
            mine, other = map(_without_copies, simple)
        return _Comparison((), self.target).graphs(mine, other, {})


def _without_copies(graph: Graph) -> Graph:
    """Return the source of each output that is a copy: a call returns new memory anyway."""
    for number, output in enumerate(graph.outputs):
        while isinstance(output, Value) and output.node is not None and _is_copy(output.node):
            output = graph.outputs[number] = output.node.args[0]
    return passes.eliminate_dead(graph)


def _is_copy(node: Node) -> bool:
    return isinstance(node.op, Operator) and node.op.row.moves == "nothing"


def opened(fits: Fits, graphs: Sequence[Graph], example: tuple[int, ...], target: Target) -> Opened:
    """One graph with symbolic sizes that gives each traced graph when the sizes of its point are
    put in; raises NotOpen if there is none.

    Choices that only concern speed are made for the sizes of the example.
    """
    return _Opening(fits, example, target).run(graphs)


# -- many into one --------------------------------------------------------------------------------


class _Opening:
    def __init__(self, fits: Fits, example: tuple[int, ...], target: Target) -> None:
        self.fits, self.example, self.target = fits, example, target
        self.numbers: list[dict[Value, int]] = [{} for _ in fits.points]  # of each graph's values
        self.values: list[Value] = []  # of the merged graph
        self.definitions: dict[Node, Any] = {}
        self.known: dict[tuple[Any, ...], Any] = {}  # numbers fitted before

    def run(self, graphs: Sequence[Graph]) -> Opened:
        graph = graphs[0].clone()
        self.graph(graph, graphs)
        return Opened(graph, self.definitions, self.target)

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
        target.retype(Type(shape, first.dtype, first.requires_grad))
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
        if isinstance(target.op, Operator):
            named = zip(target.op.schema.names, target.args, strict=True)
            _check_dimensions(tuple(a for name, a in named if name in DIMS))
        for value, values in zip(target.outputs, zip(*(n.outputs for n in nodes)), strict=True):
            self.made(value, values)
        if not isinstance(target.op, Constant):
            found = [define(n, self.target) for n in nodes]
            if any(isinstance(each, ViewDefinition) for each in found):
                found = [_as_view(each) for each in found]
            self.definitions[target] = self.common(found)

    def constant(self, target: Node, nodes: Sequence[Node]) -> None:
        if not all(isinstance(n.op, Constant) for n in nodes):
            raise NotOpen("the program is another for other sizes")
        arrays = [np.asarray(n.op.tensor.array) for n in nodes]
        if all(_is_same(a, arrays[0]) for a in arrays):
            return
        if not all(_is_full_of(a, arrays[0]) for a in arrays):
            raise SizedConstant("a constant depends on them")
        self.definitions[target] = Fill(arrays[0].flat[0].item())

    def common(self, parts: Sequence[Any]) -> Any:
        """The merged form of corresponding parts of the graphs."""
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
            found = kind(**{name: self.common(each) for name, each in fields.items()})
            _check_dimensions(_dimensions(found))
            return found
        if any(p is not first and p != first for p in parts):
            raise NotOpen(f"{first!r} is {parts[-1]!r} for other sizes")
        return first

    def number(self, values: tuple[Any, ...]) -> Any:
        if all(v == values[0] for v in values) or values[0] != values[0]:
            return values[0]
        found = self.known.get(values)
        if found is None:
            whole = type(values[0]) is int
            fitted = self.fits.fit if whole else self.fits.fit_real
            found = self.known[values] = fitted(values).like(self.example)
        return found


def _dimensions(record: Any) -> tuple[Any, ...]:
    """The fields of a record that are numbers of dimensions."""
    match record:
        case Affine(_, terms):
            return tuple(variable for variable, _ in terms)
        case Piece():
            return (record.dim,)
        case Combination():
            return record.dims
        case Address():
            return (*record.dims, record.first, record.rank)
        case _:
            return ()


def _check_dimensions(numbers: tuple[Any, ...]) -> None:
    """Refuse a dimension number that depends on sizes: loops and addresses need a fixed one."""
    if is_open(numbers):
        raise NotOpen("an operator works along another dimension for other sizes")


def _as_view(definition: Any) -> Any:
    """A reshape to the same shape, as it occurs for some sizes, in the form of a view."""
    if isinstance(definition, Reshape) and definition.shape == definition.source.shape:
        return ViewDefinition(definition.source, identity(len(definition.shape)))
    return definition


def _is_same(a: Any, b: Any) -> bool:
    return a.shape == b.shape and a.tobytes() == b.tobytes()


def _is_full_of(a: Any, b: Any) -> bool:
    """Whether two arrays are filled with one and the same number."""
    return bool(a.size and b.size and (a == b.flat[0]).all() and (b == b.flat[0]).all())


# -- one for many ---------------------------------------------------------------------------------


class _Comparison:
    """Whether a graph is equal to a merged one for given sizes.

    Nodes that differ in general may be equal for these sizes (an `arange` of either of two sizes),
    and are one node of the graph then.
    """

    def __init__(self, sizes: tuple[int, ...], target: Target) -> None:
        self.sizes, self.target = sizes, target
        self.pairs: dict[Value, Value] = {}
        self.still: set[int] = set()  # variables of size 1 in the current view

    def graphs(self, opened: Graph, graph: Graph, definitions: dict[Node, Any]) -> bool:
        if len(opened) < len(graph) or len(opened.inputs) != len(graph.inputs):
            return False
        if not all(map(self.value, opened.inputs, graph.inputs)):
            return False
        alike: dict[Any, list[Node]] = {}
        for node in graph.nodes:
            alike.setdefault((node.name, *node.inputs()), []).append(node)
        met: set[Node] = set()
        for mine in opened.nodes:
            others = alike.get((mine.name, *map(self.pairs.get, mine.inputs())), [])
            if len(others) > 1:  # prefer the same constant, and nodes not matched yet
                others.sort(key=lambda o: (_is_other_constant(mine, o), o in met))
            other = next((o for o in others if self.node(mine, o, definitions)), None)
            if other is None:
                return False
            met.add(other)
            if not _may_merge(other):  # each of these stands for itself
                others.remove(other)
        return len(met) == len(graph) and self.same(tuple(opened.outputs), tuple(graph.outputs))

    def node(self, mine: Node, other: Node, definitions: dict[Node, Any]) -> bool:
        if isinstance(mine.op, Constant):
            if not isinstance(other.op, Constant):
                return False
            a, b = (np.asarray(n.op.tensor.array) for n in (mine, other))
            if not (_is_full_of(a, b) if mine in definitions else _is_same(a, b)):
                return False
            return self.value(mine.output, other.output)
        if mine.name != other.name or len(mine.outputs) != len(other.outputs):
            return False
        return (
            (mine not in definitions or _runs(definitions[mine], mine, self.sizes))
            and all(self.graphs(g, other.graphs[k], definitions) for k, g in mine.graphs.items())
            and self.same(mine.args, other.args)
            and all(map(self.value, mine.outputs, other.outputs))
            and (mine not in definitions or self.definition(definitions[mine], other))
        )

    def definition(self, mine: Any, other: Node) -> bool:
        """Whether a definition equals that of another node, for these sizes."""
        if all(0 in v.shape for v in other.outputs):
            return True  # no elements, no work
        self.still = set()
        if isinstance(mine, Look):
            self.still = {d for d, size in enumerate(other.output.shape) if size == 1}
        found = define(other, self.target)
        if isinstance(mine, Combination) and isinstance(found, Reshape):  # reduces single elements
            return self.pairs.get(mine.source) is found.source
        if isinstance(mine, Reduction) and isinstance(found, Fill):  # of no elements: the start
            return self.same(ACCUMULATORS[mine.kind].of_nothing, found.number)
        if isinstance(mine, Put) and isinstance(found, Pieces):  # writes nothing
            return 0 in at(mine.space, self.sizes) and self.pairs.get(mine.base) is found.base
        if isinstance(mine, Pieces) and isinstance(found, Pieces):
            parts = [p for p in mine.pieces if at(p.low, self.sizes) < at(p.high, self.sizes)]
            kept = tuple([p for p in found.pieces if p.low < p.high])
            return self.same((mine.base, tuple(parts)), (found.base, kept))
        if isinstance(mine, (ViewDefinition, Reshape)) and isinstance(
            found, (ViewDefinition, Reshape)
        ):
            return self.same(mine.source, found.source) and self.looks_alike(mine, found, other)
        return self.same(mine, found)

    def looks_alike(self, mine: Any, found: Any, node: Node) -> bool:
        """Whether two views select the same elements. Dimensions of size 1 do not matter: with them
        a view may be a reshape.
        """
        strides, shape = row_major(found.source.shape), node.output.shape

        def place(look: ViewDefinition | Reshape) -> Affine:
            if isinstance(look, Reshape):
                return flat(identity(len(shape)), row_major(shape)).without(self.still)
            index = tuple([_closed(each, self.sizes) for each in look.index])
            return flat(index, strides).without(self.still)

        return place(mine) == place(found)

    def value(self, mine: Value, other: Value) -> bool:
        self.pairs[mine] = other
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
        if isinstance(mine, SymbolicSize):
            return type(other) is int and mine.at(self.sizes) == other
        if isinstance(mine, Affine) and isinstance(other, Affine):
            mine, other = (each.without(self.still) for each in (mine, other))
        if dataclasses.is_dataclass(mine) and isinstance(mine, _RECORDS):
            names = (f.name for f in dataclasses.fields(mine))
            return type(mine) is type(other) and all(
                self.same(getattr(mine, name), getattr(other, name)) for name in names
            )
        if isinstance(mine, float) and isinstance(other, float) and math.isfinite(mine):
            return math.isclose(mine, other, rel_tol=4e-16)
        return type(mine) is type(other) and (mine == other or (mine != mine and other != other))


def _runs(definition: Any, node: Node, sizes: tuple[int, ...]) -> bool:
    """Whether native code of a node holds for these sizes. If one of them is 0, loops have no
    iterations, and routines of ours none over results without elements, but others may do
    something else.
    """
    if isinstance(definition, _LOOPS):
        return True
    ours = definition.ours if isinstance(definition, RoutineDefinition) else None
    if ours is not None and not ours.helpers and all(_is_empty(v, sizes) for v in node.outputs):
        return not any(_is_empty(v, sizes) for v in node.inputs())
    return not any(_is_empty(v, sizes) for v in (*node.inputs(), *node.outputs))


def _is_empty(value: Value, sizes: tuple[int, ...]) -> bool:
    return any(at(size, sizes) == 0 for size in value.shape if is_open(size))


def _closed(index: Affine, sizes: tuple[int, ...]) -> Affine:
    """An index with the sizes put in."""
    terms = [(variable, at(step, sizes)) for variable, step in index.terms]
    return Affine(at(index.offset, sizes), tuple([(v, step) for v, step in terms if step]))


class _Instance(_Comparison):
    """Puts sizes into a merged graph, and checks that the definitions of nodes stay the same."""

    def graphs(self, opened: Graph, graph: Graph, definitions: dict[Node, Any]) -> bool:
        self._types(opened.inputs, graph.inputs)
        for mine, node in zip(opened.nodes, graph.nodes, strict=True):
            node.set_args(at(node.args, self.sizes))
            self._types(mine.outputs, node.outputs)
            if isinstance(mine.op, Constant) and mine in definitions:
                whole = np.full(node.output.shape, definitions[mine].number, node.output.dtype.np)
                node.op = Constant(make(whole))
            elif not (self._is_consistent(node) and self.node(mine, node, definitions)):
                return False
        graph.outputs = [o if isinstance(o, Value) else at(o, self.sizes) for o in graph.outputs]
        return True

    def _is_consistent(self, node: Node) -> bool:
        """Whether the operator gives its results these types. Polynomials fit the traced sizes and
        those like them, and may be wrong for others.
        """
        if not isinstance(node.op, Operator):
            return True
        try:
            _, types = result_types(node.op, node.args)
        except AdjointError:
            return False
        mine = [(v.shape, v.dtype) for v in node.outputs]
        return mine == [(t.shape, t.dtype) for t in types]

    def _types(self, opened: Sequence[Value], values: Sequence[Value]) -> None:
        for mine, value in zip(opened, values, strict=True):
            shape = at(mine.shape, self.sizes)
            value.retype(Type(shape, mine.dtype, mine.type.requires_grad))
            self.pairs[mine] = value


def _is_other_constant(mine: Node, other: Node) -> bool:
    """Whether two nodes are constants with different tensors, which may be equal."""
    constants = isinstance(mine.op, Constant) and isinstance(other.op, Constant)
    return constants and other.op.tensor is not mine.op.tensor


def _may_merge(node: Node) -> bool:
    """Whether equal nodes may be one: constants, and operators that draw nothing."""
    if isinstance(node.op, Constant):
        return True
    return isinstance(node.op, Operator) and not is_random(node)


# -- numbers --------------------------------------------------------------------------------------


class Fits:
    """Finds polynomials through values at some points."""

    def __init__(self, points: Points) -> None:
        self.points = points
        self.sizes = range(len(points[0]))

    def fit(self, values: Sequence[Any]) -> SymbolicSize:
        """The simplest polynomial through all points; some points are left over to check it.

        >>> Fits([(3, 7), (5, 11), (8, 13), (9, 20)]).fit([22, 56, 105, 181])
        (size0 * size1 + 1)
        """
        found = self.polynomial(values)
        if found is None:
            listed = _listed(self.points, values)
            raise NotOpen(f"a number is {listed}, which is no polynomial")
        return found

    def polynomial(self, values: Sequence[Any]) -> SymbolicSize | None:
        """The simplest polynomial through all points; None if there is none."""
        columns = list(zip(*self.points, strict=True))
        for basis in _bases(self.sizes, len(self.sizes), len(self.points) - 1):
            terms = _solved(columns, values, basis)
            found = None if terms is None else made(int(values[0]), terms)
            if isinstance(found, SymbolicSize):
                return found
        return None

    def fit_real(self, values: Sequence[float]) -> Real:
        """A real number factor · size ^ power, for a power of ±1 or ±½."""
        sign = -1.0 if values[0] < 0 else 1.0
        ways = itertools.product((self._power, self._multiple), (1, -1, 0.5, -0.5))
        for way, power in ways:
            found = way([sign * v for v in values], power, sign)
            if found is not None:
                return found
        raise NotOpen(f"a number is {_listed(self.points, values)}, which is no polynomial")

    def _power(self, values: Sequence[float], power: float, sign: float) -> Real | None:
        if not all(v > 0 and math.isfinite(v) for v in values):
            return None
        roots = [v ** (1 / power) for v in values]
        bases = [fractions.Fraction(r).limit_denominator(_DENOMINATOR) for r in roots]
        denominator = math.lcm(*(b.denominator for b in bases))
        if denominator > _DENOMINATOR:
            return None
        size = self.polynomial([b * denominator for b in bases])
        if size is None:
            return None
        whole = math.lcm(*(fractions.Fraction(c).denominator for c in size.terms.values()))
        found = Real(sign * (denominator * whole) ** (-power), size * whole, power)
        return self._checked(found, values, sign)

    def _multiple(self, values: Sequence[float], power: float, sign: float) -> Real | None:
        """The same with any factor, as in 2π / n. The proportions of the values give the size."""
        if not all(v > 0 and math.isfinite(v) for v in values):
            return None
        shares = [(v / values[0]) ** (1 / power) for v in values]
        parts = [fractions.Fraction(s).limit_denominator(_MULTIPLE) for s in shares]
        whole = math.lcm(*(p.denominator for p in parts))
        size = self.polynomial([p * whole for p in parts]) if whole <= _MULTIPLE else None
        if size is None or not is_whole(size):
            return None
        factor = values[0] / size.at(self.points[0]) ** power
        return self._checked(Real(sign * factor, size, power), values, sign)

    def _checked(self, found: Real, values: Sequence[float], sign: float) -> Real | None:
        """The number if it equals all values, else None."""
        pairs = zip(self.points, values, strict=True)
        same = all(math.isclose(found.at(p), sign * v, rel_tol=4e-16) for p, v in pairs)
        return found if same else None


class WholeFits(Fits):
    """Finds polynomials with whole values for all sizes."""

    def fit(self, values: Sequence[Any]) -> SymbolicSize:
        """The simplest polynomial through all points; NotWhole if not whole for all sizes."""
        found = self.polynomial(values)
        if found is None or not is_whole(found):
            listed = _listed(self.points, values)
            raise NotWhole(f"a number is {listed}, which is no whole number for all sizes")
        return found


class QuotientFits(Fits):
    """Finds polynomials of sizes and of their quotients by whole numbers, and remembers the
    quotients.

    The points should have many remainders.
    """

    def __init__(self, points: Points) -> None:
        super().__init__(points)
        # sizes and quotients of them, each with its values at the points
        self.numbers = [(symbol(s, points[0][s]), [p[s] for p in points]) for s in self.sizes]

    def fit(self, values: Sequence[Any]) -> SymbolicSize:
        """The simplest polynomial through all points, or a quotient.

        >>> QuotientFits([(3,), (5,), (8,), (10,), (12,)]).fit([2, 3, 5, 6, 7])
        ((size0 / 2) + 1)
        """
        found = self.polynomial(values)
        if found is None:
            found = self._quotient(values)
        return super().fit(values) if found is None else found

    def polynomial(self, values: Sequence[Any]) -> SymbolicSize | None:
        """The simplest polynomial of sizes, or of sizes and quotients, through all points."""
        found = super().polynomial(values)
        if found is not None and is_whole(found):
            return found
        columns = [known for _, known in self.numbers]
        if len(columns) == len(self.sizes):
            return None
        for basis in _bases(range(len(columns)), len(self.sizes), len(self.points) - 1):
            terms = _solved(columns, values, basis)
            if terms is not None and all(type(c) is int for c in terms.values()):
                total = sum(c * math.prod(self.numbers[k][0] for k in p) for p, c in terms.items())
                if isinstance(total, SymbolicSize):
                    self._remember(total)
                    return total
        return None

    def _remember(self, number: SymbolicSize) -> None:
        """Make a number available to later fits, if it may be the size of a dimension."""
        if all(len(powers) < 2 for powers in number.terms):
            self.numbers.append((number, [at(number, p) for p in self.points]))

    def _quotient(self, values: Sequence[Any]) -> SymbolicSize | None:
        """factor · ⌊(number + offset) / divisor⌋ + slope · number + start, for a number found
        before; None if there is none.
        """
        wanted = np.array([int(v) for v in values], object)
        if any(a != b for a, b in zip(wanted, values, strict=True)):
            return None
        for slope in (0, 1, -1):
            for divisor in range(2, _DIVISOR + 1):
                for number, known in self.numbers:
                    met = _steps_of(np.array(known), wanted - slope * np.array(known), divisor)
                    if met is not None:
                        factor, offset, start = met
                        quotient = (number + offset) // divisor
                        found = factor * quotient + slope * number + start
                        for each in dict.fromkeys((quotient, found)):
                            self._remember(each)
                        return found
        return None


def _steps_of(known: Any, wanted: Any, divisor: int) -> tuple[int, int, int] | None:
    """(factor, offset, start): wanted = factor · ⌊(known + offset) / divisor⌋ + start; or None."""
    low, high = known.argmin(), known.argmax()
    for offset in (0, divisor - 1, *range(1, divisor - 1)):
        steps = (known + offset) // divisor
        rise, distance = wanted[high] - wanted[low], int(steps[high] - steps[low])
        if not distance or rise % distance:
            continue
        factor = rise // distance
        start = wanted[low] - factor * int(steps[low])
        if factor and (factor * steps + start == wanted).all():
            return int(factor), offset, int(start)
    return None


def _bases(symbols: Sequence[int], count: int, most: int) -> Iterator[tuple[Any, ...]]:
    """Sets of at most `most` monomials, simple ones first. The first `count` symbols are sizes, the
    others quotients.
    """
    for s in symbols:
        yield ((), (s,))
    for degree in (2, 3):
        for s in symbols:
            yield tuple((s,) * k for k in range(degree + 1))
    largest = len(symbols) if len(symbols) == count else max(count, _TOGETHER)
    for size in range(2, largest + 1):
        for chosen in itertools.combinations(symbols, size):
            yield ((), chosen)
            parts = [p for k in range(size + 1) for p in itertools.combinations(chosen, k)]
            if len(parts) <= most:
                yield tuple(parts)
            yield ((), *((s,) for s in chosen))
    sizes = symbols[:count]
    pairs = itertools.combinations_with_replacement(sizes, 2)
    every = ((), *((s,) for s in sizes), *pairs)
    if len(every) <= most:
        yield every
    for degree in (3, 4):  # elements of products of all pairs: n² m²
        for powers in itertools.combinations_with_replacement(sizes, degree):
            yield ((), powers)


def _solved(columns: Any, values: Sequence[Any], basis: Any) -> dict[Any, Any] | None:
    """The coefficients of a basis that meet all values, by exact elimination; None if there are
    none.

    A column has the values of one symbol.
    """
    count = len(basis)
    if count >= len(values) or not _is_near(columns, values, basis):
        return None
    rows = [
        [
            *(fractions.Fraction(math.prod(columns[s][n] for s in powers)) for powers in basis),
            fractions.Fraction(wanted),
        ]
        for n, wanted in enumerate(values)
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


def _is_near(columns: Any, values: Sequence[Any], basis: Any) -> bool:
    """Whether the basis may meet the values, up to rounding: much faster than the exact test."""
    matrix = np.ones((len(values), len(basis)))
    for column, powers in enumerate(basis):
        for s in powers:
            matrix[:, column] *= columns[s]
    matrix /= np.abs(matrix).max(0)
    wanted = np.array([float(v) for v in values])
    missed = matrix @ np.linalg.lstsq(matrix, wanted, rcond=None)[0] - wanted
    return bool(np.abs(missed).max() <= 1e-6 * np.abs(wanted).max())


def _listed(points: Points, values: Sequence[Any]) -> str:
    pairs = zip(points[:3], values[:3], strict=True)
    return ", ".join(f"{float(v):g} for {' and '.join(map(str, p))}" for p, v in pairs)
