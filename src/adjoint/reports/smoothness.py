"""`ad.smoothness`: the operators of a function on which a derivative ends.

A comparison, a rounding, an argmax, a sort's order, a detach: what they compute depends on the
input, and its derivative is zero. A loss that depends on its input through these alone has a zero
gradient; where both ways exist the gradient belongs to one of them. The graph of the function
tells: an operator ends a derivative where a value that has one enters, and none leaves.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import field
from typing import Any

from adjoint.core import pytrees
from adjoint.core.dtypes import FLOAT
from adjoint.core.records import record, structure
from adjoint.graph.ir import Graph, Node, Region, Value
from adjoint.reports.traced import traced
from adjoint.transforms.arguments import Argnums

REAL = "a function with derivative zero"


@record
class End:
    """One operator on which a derivative ends."""

    operator: str  # "argsort.default"
    place: str  # "model.py:12", the user's line
    kind: str  # "a comparison", "whole numbers", "a derivative of zero"
    outputs: tuple[str, ...]  # of the function that depend on its result: ("output[0]",)

    def __str__(self) -> str:
        outputs = ", ".join(self.outputs) or "nothing"
        return f"{self.place or '(unknown line)'}: {self.operator} is {self.kind}; on it: {outputs}"


@record
class Smoothness:
    """What `ad.smoothness` found."""

    ends: tuple[End, ...]
    flat: tuple[str, ...]  # the outputs that depend on the input through ends alone

    def __str__(self) -> str:
        lines = [str(end) for end in self.ends] or ["every operator on the way has a derivative"]
        for name in self.flat:
            on_it = sorted({f"{e.operator} at {e.place}" for e in self.ends if name in e.outputs})
            lines.append(f"{name} depends on the input only through {', '.join(on_it)}")
        return "\n".join(lines)

    __repr__ = __str__


@structure
class _Way:
    """How a value depends on the input."""

    is_smooth: bool = False  # along operators that all have a derivative
    ends: set[int] = field(default_factory=set)  # numbers of ends on the way

    def and_(self, other: _Way) -> _Way:
        return _Way(self.is_smooth or other.is_smooth, self.ends | other.ends)


def smoothness(
    f: Callable[..., Any], *args: Any, argnums: Argnums = 0, **keywords: Any
) -> Smoothness:
    """Return the operators of `f` on which a derivative in its argument ends, with their lines.

    >>> import adjoint as ad
    >>> def loss(x):
    ...     return x[x.argsort()][0].round()
    >>> found = ad.smoothness(loss, ad.ones(3))
    >>> [end.operator for end in found.ends], found.flat
    (['argsort.default', 'round.default'], ('output',))
    """
    graph, varied = traced("smoothness", f, argnums, args, keywords)
    search = _Search()
    ways = search.through(graph, [_Way(v in varied) for v in graph.inputs])
    structure_of = graph.signature.outputs
    assert structure_of is not None  # a traced function has one
    return search.report(pytrees.paths(structure_of, "output"), ways)


class _Search:
    """A walk through a graph and the graphs inside."""

    def __init__(self) -> None:
        self.ends: list[tuple[Node, str]] = []

    def through(self, graph: Graph, given: Sequence[_Way]) -> list[_Way]:
        """How the outputs of a graph depend on the input, given how its inputs do."""
        ways = dict(zip(graph.inputs, given, strict=True))
        for node in graph.nodes:
            inputs = [(v, ways[v]) for v in dict.fromkeys(node.inputs()) if v in ways]
            if inputs:
                ways.update(zip(node.outputs, self._leaving(node, inputs), strict=True))
        return [ways.get(o, _Way()) if isinstance(o, Value) else _Way() for o in graph.outputs]

    def _leaving(self, node: Node, inputs: list[tuple[Value, _Way]]) -> list[_Way]:
        whole = _Way()
        for _, way in inputs:
            whole = whole.and_(way)
        if isinstance(node.op, Region):
            return self._of_region(node, dict(inputs), whole)
        smooth = smooth_arguments(node)
        arrives = any(way.is_smooth for _, way in inputs)
        goes_on = any(way.is_smooth for value, way in inputs if value in smooth)
        kinds = {_kind(v) for v in node.outputs if v.uses or len(node.outputs) == 1}
        lost = sorted(kinds - {REAL} if goes_on else kinds) if arrives else []
        ended = {kind: self._end(node, kind) for kind in lost}
        return [
            _Way(goes_on and _kind(v) == REAL, whole.ends | ended.get(_kind(v), set()))
            for v in node.outputs
        ]

    def _of_region(self, node: Node, ways: dict[Value, _Way], whole: _Way) -> list[_Way]:
        """The results of a loop or a branch; they depend on what decides about it, too."""
        found = [_Way()] * len(node.outputs)
        decides = _Way(False, ways[node.args[0]].ends if node.args[0] in ways else set())
        for name, inner in node.graphs.items():
            given = [ways.get(v, _Way()) for v in _operands(node, name)]
            if len(given) != len(inner.inputs):  # a region that is no loop and no branch
                given = [whole] * len(inner.inputs)
            made = self._settled(inner, given, *_carry_of(node, name))
            if name == "condition":
                decides = _Way(False, made[0].ends)
            else:
                found = [f.and_(m) for f, m in zip(found, made, strict=False)]
        return [_only_real(w.and_(decides), v) for w, v in zip(found, node.outputs, strict=False)]

    def _settled(self, body: Graph, given: list[_Way], first: int, count: int) -> list[_Way]:
        """The outputs of a graph, once no turn adds to what its carry depends on."""
        while True:
            made = self.through(body, given)
            carry = given[first : first + count]
            grown = [g.and_(m) for g, m in zip(carry, made[:count], strict=True)]
            if grown == carry:
                return made
            given = [*given[:first], *grown, *given[first + count :]]

    def _end(self, node: Node, kind: str) -> set[int]:
        if (node, kind) not in self.ends:  # a loop is walked through several times
            self.ends.append((node, kind))
        return {self.ends.index((node, kind))}

    def report(self, names: Sequence[str], ways: Sequence[_Way]) -> Smoothness:
        """The ends with the outputs that depend on them."""
        ends = []
        for number, (node, kind) in enumerate(self.ends):
            on_it = tuple(n for n, w in zip(names, ways, strict=True) if number in w.ends)
            ends.append(End(node.name, node.place, kind, on_it))
        pairs = zip(names, ways, strict=True)
        return Smoothness(tuple(ends), tuple(n for n, w in pairs if w.ends and not w.is_smooth))


# region -> graph -> the groups of operands that are the graph's inputs
_GROUPS: dict[str, dict[str, tuple[int, ...]]] = {
    "scan": {"body": (0, 1, 2)},
    "while_loop": {"condition": (0, 2), "body": (1, 2)},
    "cond": {"true": (1,), "false": (1,)},
}


def _operands(node: Node, graph: str) -> list[Any]:
    """The operands of a loop or branch, in the order of the inputs of one of its graphs."""
    chosen = _GROUPS.get(node.op.name, {}).get(graph, ())
    return [value for place in chosen for value in node.args[place]]


def _carry_of(node: Node, graph: str) -> tuple[int, int]:
    """The first input of a graph that the carry of a loop is, and how many there are."""
    if graph != "body" or node.op.name not in ("scan", "while_loop"):
        return 0, 0
    before, carry = node.args[:2] if node.op.name == "scan" else node.args[1:3]
    return len(before), len(carry)


def _only_real(way: _Way, value: Value) -> _Way:
    return _Way(way.is_smooth and value.dtype.category >= FLOAT, way.ends)


def smooth_arguments(node: Node) -> set[Value]:
    """The values in whose place the operator has a derivative."""
    row = node.op.row
    if row.archetype.result == "bool" or not any(row.differentiable_outputs):
        return set()
    names = {a.name for a in row.differentiable} - row.flat
    found: set[Value] = set()
    for name, value in zip(row.schema.names, node.args, strict=False):
        if name in names:
            found.update(
                v for v in (value if type(value) is tuple else (value,)) if type(v) is Value
            )
    return found


def _kind(value: Value) -> str:
    if value.dtype.name == "bool":
        return "a comparison"
    return REAL if value.dtype.category >= FLOAT else "whole numbers"
