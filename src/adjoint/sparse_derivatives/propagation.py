"""The walk of derivatives through a linear graph, by facts of rows.

A *tangent* here is not a tensor but the derivative of a value in all columns: a sparse matrix with
a row for each element. An `Algebra` says how it is stored. For an operator that acts on tangents
there are five cases:

- elementwise: each element of the result scales one element of each operand;
- it moves elements (columns `moves`, `selects`; views): each element of the result is one element
  of an operand, or zero. Which one is found by moving numbers in place of elements;
- it adds elements (sums, scatters): each element of an operand goes to one element of the result.
  Which one is found by pulling numbers back;
- any other small operator is linear in its operand, so its matrix at random values of the other
  operands has all the entries that it has anywhere;
- everything else may connect everything: never an entry is missed.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar

import numpy as np
from scipy import sparse

from adjoint.core.dtypes import FLOAT
from adjoint.core.records import record
from adjoint.core.state import changed, current
from adjoint.graph.facts import acts
from adjoint.graph.interpret import evaluate
from adjoint.graph.ir import Graph, Node, Region, Value, substitute
from adjoint.homes.pullback import pullback
from adjoint.ops.operator import Operator
from adjoint.table.rows import Row
from adjoint.tensor.tensor import Tensor, is_plain, make
from adjoint.transforms.reverse import filled

Array = np.ndarray[Any, np.dtype[Any]]
T = TypeVar("T")
Run = Callable[[dict[Value, Any]], list[Any]]  # an operator as a function of some operands

# region -> its rule, a function of a propagation and a node: regions.py
REGIONS: dict[str, Callable[[Any, Node], Sequence[Any]]] = {}
_PROBED = 1 << 22  # elements of the largest matrix that is found by probing
_SEEDS = (1, 2)  # of random operands


class Algebra(ABC, Generic[T]):
    """How derivatives in all columns are stored; T is such a derivative."""

    takes_any: bool  # whether it follows derivatives through any matrix, loop and branch

    @abstractmethod
    def moved(self, parts: dict[Value, T], run: Run) -> list[T | None]:
        """The results of an operator that moves elements."""

    @abstractmethod
    def scaled(self, part: T, value: Value, run: Run, *, is_known: bool) -> T | None:
        """The result of an elementwise operator with one operand of the result's shape.

        `is_known` says whether the other operands are known.
        """

    @abstractmethod
    def collected(self, part: T, value: Value, into: Collection) -> T:
        """The result of an operator that adds elements."""

    def connected(self, part: T, matrix: Any, result: Value) -> T:
        """The result of an operator whose matrix has entries at some places (SciPy's CSR)."""
        raise AssertionError(f"{type(self).__name__} defines connected if takes_any")

    def count(self, part: T) -> int:
        """The number of entries."""
        raise AssertionError(f"{type(self).__name__} defines count if takes_any")

    @abstractmethod
    def spread(self, part: T, result: Value) -> T:
        """The result of an operator that may connect everything."""

    @abstractmethod
    def joined(self, parts: list[T]) -> T:
        """The sum."""


@record
class Collection:
    """Where each element of an operand is added, and with which factor."""

    targets: Array  # the number of an element of the result, plus 1; 0: nowhere
    factors: Array
    result: Any  # a value, or what has its shape and dtype


def has_rule(row: Row) -> bool:
    """Whether the propagation knows how the operator connects elements."""
    known = _is_elementwise(row) or _is_move(row) or row.overwrites
    return bool(known or row.reduces in ("sum", "mean"))


def _is_elementwise(row: Row) -> bool:
    """Whether each element of the result depends on one element of each operand."""
    if len(row.schema.returns) != 1:
        return False
    by_rule = any(f.automatic == "auto_element_wise" for f in row.forward)
    return bool(row.archetype.shape == "broadcast" or row.element or by_rule)


def _is_move(row: Row) -> bool:
    return row.schema.is_view or bool(row.moves)


class Propagation(Generic[T]):
    """One walk through a graph that is linear in the values that have a tangent."""

    def __init__(self, graph: Graph, algebra: Algebra[T], known: dict[Value, Any]) -> None:
        self.graph, self.algebra = graph, algebra
        self.known = known  # tensors, of the values that are known
        self.tangents: dict[Value, T] = {}

    def run(self, tangents: dict[Value, T]) -> list[T | None]:
        """The derivatives of the outputs; None for zero."""
        self.tangents = tangents
        for node in self.graph.nodes:
            linear = [v for v in dict.fromkeys(node.inputs()) if v in tangents and _size(v)]
            if linear and not any(map(_is_real, node.outputs)):
                continue  # a comparison of tangents, which nobody knows
            if not linear:
                self._evaluate(node)
                continue
            for value, found in zip(node.outputs, self._through(node, linear), strict=True):
                if found is not None:
                    tangents[value] = found
        return [tangents.get(o) if isinstance(o, Value) else None for o in self.graph.outputs]

    def _evaluate(self, node: Node) -> None:
        """Compute a node without tangents, if its inputs are known.

        Nodes that depend on constants alone are computed at once, not traced again.
        """
        inputs = [self.known.get(v) for v in node.inputs()]
        if any(v is None for v in inputs) or (self.algebra.takes_any and acts(node)):
            return
        levels = () if all(map(is_plain, inputs)) else current().levels
        with changed(levels=levels):
            self.known.update(zip(node.outputs, evaluate(node, self.known), strict=True))

    def _through(self, node: Node, linear: list[Value]) -> Sequence[T | None]:
        if isinstance(node.op, Region):
            rule = REGIONS.get(node.op.name) if self.algebra.takes_any else None
            return self._dense(node, linear) if rule is None else rule(self, node)
        row, others = node.op.row, [v for v in node.inputs() if v not in self.tangents]
        if _is_elementwise(row):
            return [self._elementwise(node, linear, others)]
        if row.reduces in ("sum", "mean"):
            found = self._collected(node, linear, others, sure=True)
        elif _is_move(row) or row.selects:
            found = self._moved(node, linear, others)
        else:
            found = None
        return found or self._probed(node, linear) or self._dense(node, linear)

    # -- elementwise ------------------------------------------------------------------------------

    def _elementwise(self, node: Node, linear: list[Value], others: list[Value]) -> T | None:
        is_known = all(v in self.known for v in others)
        is_linear = _is_linear(node, linear)
        if not (is_known and is_linear) and not self.algebra.takes_any:
            return self._dense(node, linear)[0]
        found = []
        for value in linear:
            part = self._expanded(self.tangents[value], value, node.output)
            rest = {v: _zeros(v) for v in linear if v is not value}
            run = lambda given, rest=rest: self._run(node, {**rest, **given})
            scaled = self.algebra.scaled(part, value, run, is_known=is_known and is_linear)
            found += [] if scaled is None else [scaled]
        return self.algebra.joined(found) if found else None

    def _expanded(self, part: T, value: Value, result: Value) -> T:
        if value.shape == result.shape:
            return part
        (found,) = self.algebra.moved({value: part}, lambda g: [g[value].expand(result.shape)])
        assert found is not None
        return found

    # -- moves ------------------------------------------------------------------------------------

    def _moved(
        self, node: Node, linear: list[Value], others: list[Value]
    ) -> Sequence[T | None] | None:
        """The results if each of their elements is one element of an operand, or zero."""
        run = self._alone(node, others)
        if run is None or _mixes(node, linear):
            return None
        if node.op.row.moves == "nothing":
            return self.algebra.moved(
                {v: self.tangents[v] for v in linear}, lambda g: [*g.values()]
            )
        if _is_move(node.op.row) or _is_one_each(run, linear):
            return self.algebra.moved({v: self.tangents[v] for v in linear}, run)
        return self._collected(node, linear, others)

    def _alone(self, node: Node, others: list[Value]) -> Run | None:
        """The operator as a function of its linear operands; None if another one is not known.

        A real operand without a tangent is zero, since the operator is linear.
        """
        rest = {v: make(np.zeros(v.shape)) for v in others if _is_real(v)}
        if not all(v in rest or is_plain(self.known.get(v)) for v in others):
            return None
        return lambda given: self._run(node, {**rest, **given})

    # -- sums -------------------------------------------------------------------------------------

    def _collected(
        self, node: Node, linear: list[Value], others: list[Value], *, sure: bool = False
    ) -> Sequence[T] | None:
        """The result if each element of an operand goes to one element of it.

        Numbers are pulled back in place of cotangents. `sure` says that the row knows it; else the
        answer is tried.
        """
        run = self._alone(node, others)
        if run is None or len(node.outputs) > 1 or _mixes(node, linear):
            return None
        flat = lambda *given: (run(dict(zip(linear, given, strict=True))), None)
        zeros = [make(np.zeros(v.shape)) for v in linear]
        ((output,), _), pull = pullback(flat, zeros)
        numbers = np.arange(1.0, 1 + _size(node.output)).reshape(node.output.shape)
        factors = filled(pull([make(np.ones(output.shape))]), zeros)
        placed = filled(pull([make(numbers)]), zeros)
        found = {}
        for value, factor, number in zip(linear, factors, placed, strict=True):
            there = factor.value != 0
            targets = np.zeros(value.shape, np.int64)
            targets[there] = np.rint(number.value[there] / factor.value[there])
            found[value] = Collection(targets, factor.value, node.output)
        if not (sure or _adds(run, found)):
            return None
        collected = self.algebra.collected
        return [self.algebra.joined([collected(self.tangents[v], v, found[v]) for v in linear])]

    # -- everything else --------------------------------------------------------------------------

    def _probed(self, node: Node, linear: list[Value]) -> Sequence[T] | None:
        """The results by the matrices of the operator at random values of the other operands."""
        results = sum(map(_size, node.outputs))
        if not self.algebra.takes_any or not _is_simple(node):
            return None
        if any(_size(v) * results > _PROBED for v in linear):
            return None
        found: list[list[T]] = [[] for _ in node.outputs]
        for value in linear:
            matrices = [self._matrix(node, value, linear, seed) for seed in _SEEDS]
            if any(m is None for m in matrices):
                return None
            for number, pair in enumerate(zip(*matrices, strict=True)):
                entries = sparse.csr_array(np.logical_or(*[~(m == 0) for m in pair]))
                part, result = self.tangents[value], node.outputs[number]
                found[number].append(self.algebra.connected(part, entries, result))
        return [self.algebra.joined(parts) for parts in found]

    def _matrix(
        self, node: Node, value: Value, linear: list[Value], seed: int
    ) -> list[Array] | None:
        """The matrix of each result in one operand, at random values of unknown operands.

        None if the operator is not linear in it.
        """
        random = np.random.default_rng(seed)
        given = {v: _zeros(v) for v in linear if v is not value}
        for other in node.inputs():
            if other not in self.tangents and not is_plain(self.known.get(other)):
                given[other] = make(random.uniform(0.5, 2.0, other.shape).astype(other.dtype.np))
        run = lambda tensor: [r.value.ravel() for r in self._run(node, {**given, value: tensor})]
        parts = (1, 1j) if value.dtype.is_complex else (1,)
        columns = []
        for unit in parts:
            for place in range(_size(value)):
                basis = np.zeros(value.shape, value.dtype.np)
                basis.flat[place] = unit
                columns.append(run(make(basis)))
        found = [np.stack(column, 1) for column in zip(*columns, strict=True)]
        factors = [random.normal(size=value.shape) for _ in parts]
        vector = sum(unit * each for unit, each in zip(parts, factors, strict=True))
        results = run(make(np.asarray(vector, value.dtype.np)))
        flat = np.concatenate([each.ravel() for each in factors])
        if not all(_near(m @ flat, r) for m, r in zip(found, results, strict=True)):
            return None
        return [np.sum(np.abs(np.split(m, len(parts), 1)), 0) for m in found]

    def _dense(self, node: Node, linear: list[Value]) -> Sequence[T]:
        """The results if every element may depend on every element."""
        spread = self.algebra.spread
        return [
            self.algebra.joined([spread(self.tangents[v], result) for v in linear])
            for result in node.outputs
        ]

    def _value(self, value: Value) -> Any:
        """A known value; a tangent without elements is known, too."""
        return self.known[value] if _size(value) or value in self.known else _zeros(value)

    def _run(self, node: Node, given: dict[Value, Any]) -> list[Any]:
        """The results of an operator, with some operands replaced."""
        args = substitute(node.args, lambda v: given[v] if v in given else self._value(v))
        args = [list(a) if type(a) is tuple and any(isinstance(t, Tensor) for t in a) else a
                for a in args]  # fmt: skip
        results = node.op.call(args)
        return list(results) if isinstance(results, (tuple, list)) else [results]


_linear: dict[Any, bool] = {}  # what `_is_linear` found


def _is_linear(node: Node, linear: list[Value]) -> bool:
    """Whether an elementwise operator is linear in some operands, tried at random numbers.

    One that does not broadcast replaces some elements, and keeps the others.
    """
    if node.op.row.archetype.shape != "broadcast":
        return True
    kinds = {v: (v.dtype, v in linear) for v in node.inputs()}
    key = (node.op, str(substitute(node.args, kinds.get)))
    if key not in _linear:
        _linear[key] = _tried(node, linear)
    return _linear[key]


def _tried(node: Node, linear: list[Value]) -> bool:
    random = np.random.default_rng(0)
    count = 5

    def numbers(value: Value) -> Array:
        return (random.uniform(0.5, 2.0, count) * (value.dtype.category > 0)).astype(value.dtype.np)

    rest = {v: numbers(v) for v in node.inputs()}
    one, other = ({v: random.normal(size=count).astype(v.dtype.np) for v in linear} for _ in "ab")

    def run(given: dict[Value, Array]) -> Array:
        args = substitute(node.args, lambda v: make(given[v] if v in given else rest[v]))
        return np.asarray(node.op.call(list(args)).value)

    total = run({v: one[v] + other[v] for v in linear})
    with np.errstate(all="ignore"):
        return _near(run(one) + run(other), total)


def _near(a: Array, b: Array) -> bool:
    """Whether arrays are equal but for rounding; numbers that are not finite are not."""
    return bool(np.allclose(a, b, rtol=1e-2 if a.dtype.itemsize < 4 else 1e-4, atol=1e-4))


def _is_one_each(run: Run, linear: list[Value]) -> bool:
    """Whether each element of the results is one element of an operand, or zero."""
    random, start = np.random.default_rng(0), 1
    numbers, values = {}, {}
    for value in linear:
        numbers[value] = np.arange(start, start + _size(value), dtype=float).reshape(value.shape)
        values[value] = random.normal(size=value.shape)
        start += _size(value)
    flat = np.concatenate([[0.0], *[values[v].ravel() for v in linear]])
    placed = [r.value for r in run({v: make(n) for v, n in numbers.items()})]
    found = [r.value for r in run({v: make(x) for v, x in values.items()})]
    if any((p != np.rint(p)).any() or (p < 0).any() or (p >= start).any() for p in placed):
        return False
    pairs = zip(placed, found, strict=True)
    return all(np.array_equal(flat[p.astype(np.int64)], f) for p, f in pairs)


def _adds(run: Run, into: dict[Value, Collection]) -> bool:
    """Whether an operator adds the elements of its operands as it is said to."""
    random = np.random.default_rng(0)
    values = {v: random.normal(size=v.shape) for v in into}
    (found,) = run({v: make(x) for v, x in values.items()})
    expected = np.zeros(1 + found.value.size)
    for value, each in into.items():
        np.add.at(expected, each.targets.ravel(), (each.factors * values[value]).ravel())
    return _near(expected[1:], found.value.ravel())


def _size(value: Any) -> int:
    return math.prod(value.shape)


def _is_real(value: Value) -> bool:
    return value.dtype.category >= FLOAT


def _mixes(node: Node, linear: list[Value]) -> bool:
    """Whether the operator makes real numbers of complex ones, or the reverse."""
    return len({v.dtype.is_complex for v in (*linear, *node.outputs)}) > 1


def _is_simple(node: Node) -> bool:
    """Whether the unknown operands are real, so that random numbers may stand for them."""
    return isinstance(node.op, Operator) and all(_is_real(v) for v in node.inputs())


def _zeros(value: Value) -> Any:
    return make(np.zeros(value.shape, value.dtype.np))
