"""Decomposition: rewrite operators in smaller ones, until only primitives and kept ones remain.

`table` maps 'name.overload' to the decomposition of each row that has one: a function with the
parameters of the operator, by position and by keyword, with defaults. It reads the table of rows,
so it includes users' rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from adjoint.core.errors import ArgumentError
from adjoint.core.records import record
from adjoint.core.state import changed
from adjoint.graph.ir import Constant, Graph, Node, Value, substitute
from adjoint.graph.passes.common_subexpressions import call_key
from adjoint.graph.passes.dead_code import eliminate_dead
from adjoint.graph.trace import TraceLevel
from adjoint.ops import arguments, binding
from adjoint.ops.operator import Operator
from adjoint.table import TABLE
from adjoint.table.rows import Row
from adjoint.table.schema import Argument
from adjoint.tensor.modes import enable_grad

Keep = Iterable[str] | Callable[[Operator], bool]


class Decompositions(Mapping[str, Callable[..., Any]]):
    """The decompositions of all rows, by 'name.overload' ('name' alone means 'name.default')."""

    def __init__(self) -> None:
        self._functions: dict[str, tuple[Row, Callable[..., Any]]] = {}

    def __getitem__(self, name: str) -> Callable[..., Any]:
        row = _row(name)
        if row is None or not row.decompose:
            raise KeyError(name)
        known = self._functions.get(row.full_name)
        if known is None or known[0] is not row:
            known = self._functions[row.full_name] = (row, _as_called(row))
        return known[1]

    def __contains__(self, name: object) -> bool:
        row = _row(name) if isinstance(name, str) else None
        return row is not None and bool(row.decompose)

    def __iter__(self) -> Iterator[str]:
        return (row.full_name for row in TABLE.rows() if row.decompose)

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __repr__(self) -> str:
        return f"<{len(self)} decompositions>"


def _as_called(row: Row) -> Callable[..., Any]:
    """The decomposition of a row as a function with the parameters of the operator."""
    what, schema, function = row.name, row.schema, binding.decomposition(row)

    def decomposed(*args: Any, **keywords: Any) -> Any:
        if len(args) > len(schema.arguments):
            raise ArgumentError(
                f"{what}() takes {len(schema.arguments)} arguments, got {len(args)}: {schema}"
            )
        given = dict(zip(schema.names, args, strict=False))
        for name, value in arguments.rename(schema, keywords).items():
            if name not in schema.names or name in given:
                raise ArgumentError(
                    f"{what}() has no argument {name!r}, or has it twice; its signature is {schema}"
                )
            given[name] = value
        return function(*[_value(what, a, given) for a in schema.arguments])

    decomposed.__name__ = decomposed.__qualname__ = f"{schema.symbol}_decomposed"
    decomposed.__doc__ = str(schema)
    return decomposed


def _value(what: str, argument: Argument, given: dict[str, Any]) -> Any:
    absent = argument.default if argument.has_default else arguments.MISSING
    if absent is arguments.MISSING and argument.type.is_optional:
        absent = None
    return arguments.convert(what, argument, given.get(argument.name, absent))


def _row(name: str) -> Row | None:
    base, _, overload = name.partition(".")
    overload = "" if overload == "default" else overload
    if base not in TABLE or overload not in TABLE.overloads(base):
        return None
    return TABLE.row(base, overload)


table = Decompositions()


def primitives() -> list[Row]:
    """The rows without a decomposition, of which all other rows are made."""
    return [row for row in TABLE.rows() if row.primitive]


def decompose(graph: Graph, keep: Keep = ()) -> Graph:
    """silu(x)  ->  x * sigmoid(x): return a graph of primitives and of operators in `keep`.

    `keep` holds names ('silu' for all overloads, 'silu.default' for one), or is a function of an
    operator.

    >>> import adjoint as ad
    >>> graph = ad.trace(lambda x: x.var(), ad.ShapeDtype(3))
    >>> [node.name for node in ad.decompose(graph, keep=["mean"]).nodes]
    ['mean.dim', 'sub.Tensor', 'mul.Tensor', 'sum.dim_IntList', 'div.Scalar']
    """
    kept = keep if callable(keep) else _named(keep)

    def smaller(node: Node, _: bool) -> Callable[..., Any] | None:
        row = node.op.row
        return binding.decomposition(row) if row.decompose and not kept(node.op) else None

    return eliminate_dead(expand(graph.clone(), smaller))


def _named(names: Iterable[str]) -> Callable[[Operator], bool]:
    wanted = frozenset([names] if isinstance(names, str) else names)
    for name in wanted:
        if name.partition(".")[0] not in TABLE:
            raise ArgumentError(f"decompose: keep={name!r}: there is no such operator")
    return lambda op: op.name in wanted or op.full_name in wanted


def expand(graph: Graph, smaller: Callable[[Node, bool], Callable[..., Any] | None]) -> Graph:
    """Replace nodes by smaller operators, then those in turn, until all stay.

    `smaller(node, is_part)` returns a function that replaces the node, or None if the node stays;
    `is_part` says whether the node comes from the replacement of another one.
    """
    waiting, is_part = list(graph.nodes), False
    while waiting:
        for node in waiting:
            for inner in node.graphs.values():
                expand(inner, smaller)
        chosen = [(n, smaller(n, is_part)) for n in waiting if isinstance(n.op, Operator)]
        waiting, is_part = [], True
        # a graph does not depend on the modes of the caller
        plain = changed(autocast=None, function_modes=(), default_device=None, seen=False)
        with plain, TraceLevel(graph) as level, enable_grad():
            known: dict[Any, _Decomposed] = {}
            for node, function in chosen:
                if function is not None:
                    waiting.extend(_expanded(level, graph, node, function, known))
    return graph


@record
class _Decomposed:
    """The nodes that a function made in place of a node."""

    inputs: list[Value]  # of the node, without duplicates
    nodes: list[Node]
    results: list[Value]

    def is_alone(self) -> bool:
        """Whether the nodes read nothing but the inputs and constants."""
        made = {*self.inputs, *(v for node in self.nodes for v in node.outputs)}
        read = [*self.results, *(v for node in self.nodes for v in node.inputs())]
        return all(v in made or (v.node and isinstance(v.node.op, Constant)) for v in read)

    def again(self, graph: Graph, inputs: list[Value]) -> list[Value]:
        """The results for other inputs, from copies of the nodes at the insertion point."""
        mapping = dict(zip(self.inputs, inputs, strict=True))
        for node in self.nodes:
            args = substitute(node.args, lambda v: mapping.get(v, v))
            inner = {name: each.clone() for name, each in node.graphs.items()}
            made = graph.add(node.op, args, [v.type for v in node.outputs], graphs=inner)
            mapping.update(zip(node.outputs, made.outputs, strict=True))
        return [mapping.get(v, v) for v in self.results]


def _expanded(
    level: TraceLevel, graph: Graph, node: Node, function: Callable[..., Any],
    known: dict[Any, _Decomposed],
) -> list[Node]:  # fmt: skip
    """Replace a node by the operators of a function; return the new nodes.

    `known` remembers what the function did for inputs of the same types.
    """
    start, inputs = node.preceding, list(dict.fromkeys(node.inputs()))
    numbers = {value: (number, value.type) for number, value in enumerate(inputs)}
    key = call_key(function, substitute(node.args, numbers.get))
    met = known.get(key) if key is not None else None
    with graph.inserting_before(node):
        values = _traced(level, node, function) if met is None else met.again(graph, inputs)
    first = graph.first if start is None else start.following
    new = []
    while first is not None and first is not node:
        first.place, first.block = node.place, node.block
        new.append(first)
        first = first.following
    if met is None and key is not None and (made := _Decomposed(inputs, new, values)).is_alone():
        known[key] = made
    for old, value in zip(node.outputs, values, strict=True):
        graph.replace_uses(old, value)
    graph.remove(node)
    return new


def _traced(level: TraceLevel, node: Node, function: Callable[..., Any]) -> list[Value]:
    """The results of a function of a node's inputs, traced into the graph."""
    result = function(*[_lifted(level, a) for a in node.args])
    results = result if isinstance(result, (tuple, list)) else (result,)
    return [
        level.value(r if r.dtype is old.dtype else r.to(old.dtype))
        for r, old in zip(results, node.outputs, strict=True)
    ]


def _lifted(level: TraceLevel, argument: Any) -> Any:
    if isinstance(argument, Value):
        return level.lift(argument)
    if isinstance(argument, tuple) and any(isinstance(a, Value) for a in argument):
        return [_lifted(level, a) for a in argument]
    return argument
