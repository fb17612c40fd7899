"""Lowering: rewrite a graph in operators that have a native form.

A node without a native form is replaced by its decomposition, as long as it has one; a node that
has neither calls back to its eager kernel.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable
from typing import Any

import numpy as np

from adjoint import ops
from adjoint.calls.methods import as_tensor
from adjoint.compiler.definitions import Definitions
from adjoint.compiler.program_decompositions import LOWERED, of_complex, of_halves
from adjoint.compiler.routines import keeps_scores
from adjoint.compiler.small_products import is_small, write_products
from adjoint.compiler.target import Target
from adjoint.core.collecting import uncollected
from adjoint.graph import passes
from adjoint.graph.facts import argument
from adjoint.graph.ir import Graph, Node, Value
from adjoint.graph.passes.decompose import expand
from adjoint.graph.passes.products_onto import is_large, is_onto
from adjoint.graph.passes.prune_loops import prune_loops
from adjoint.ops import binding


class Choices:
    """How each node is lowered, in order; the same for graphs of one function at many sizes."""

    def __init__(
        self, target: Target, known: tuple[tuple[str, str], ...] = (), *, alone: bool = False
    ) -> None:
        self.target = target
        self.definitions = Definitions(target)
        self.alone = alone  # whether the program has no eager operators to fall back on
        self.known = known  # (operator, way) for each node of an earlier graph
        self.place = 0  # in `known`, of the next node
        self.places: dict[str, list[int]] = {}  # operator -> its places in `known`
        self.ways: dict[str, set[str]] = {}
        for place, (name, way) in enumerate(known):
            self.places.setdefault(name, []).append(place)
            self.ways.setdefault(name, set()).add(way)
        self.made: list[tuple[str, str]] = []

    def again(self) -> Choices:
        """The same choices, to be followed for another graph."""
        return Choices(self.target, tuple(self.made), alone=self.alone)

    def of(self, node: Node, is_part: bool) -> str:
        """The way to lower a node, a key of `_WAYS`."""
        return self._chosen(node.name, lambda: _choice(node, is_part, self))

    def loops(self, node: Node) -> bool:
        """Whether a product of matrices is computed by a loop instead of a routine."""
        choose = lambda: "loop" if is_small(node, self.target) else "call"
        return self._chosen(f"{node.name} of matrices", choose) == "loop"

    def adds(self, node: Node) -> bool:
        """Whether the routine of a product also adds the other summand."""
        choose = lambda: "onto" if is_large(node) else "apart"
        return self._chosen(f"{node.name} of a product", choose) == "onto"

    def keeps(self, node: Node, fits: bool) -> bool:
        """Whether a scan keeps the result of a step's node for its backward."""
        choose = lambda: "kept" if fits else "again"
        return self._chosen(f"{node.name} of a step", choose) == "kept"

    def _chosen(self, name: str, choose: Callable[[], str]) -> str:
        """The way recorded for the next node with this operator name.

        Nodes may be missing for some sizes, so skip ahead by name; if all recorded nodes of the
        name went one way, go that way.
        """
        places, ways = self.places.get(name, []), self.ways.get(name, set())
        ahead = bisect_left(places, self.place)
        if ahead < len(places):
            self.place = places[ahead] + 1
            way = self.known[places[ahead]][1]
        else:
            way = next(iter(ways)) if len(ways) == 1 else choose()
        self.made.append((name, way))
        return way


@uncollected()
def lower(graph: Graph, choices: Choices) -> Graph:
    """Prepare a graph for fusion: inline custom functions (derivatives have been taken), decompose,
    and simplify before and after.
    """
    inlined = passes.join_rows(passes.simplified(passes.inline_functions(graph.clone())))
    lowered = passes.simplified(expand_decompositions(inlined, choices))
    lowered = write_products(passes.sum_operands_first(lowered), choices.definitions, choices.loops)
    return prune_loops(passes.add_products(lowered, choices.adds))


def expand_decompositions(graph: Graph, choices: Choices) -> Graph:
    """Replace nodes of `graph` without a native form by their decompositions, repeatedly."""

    def smaller(node: Node, is_part: bool) -> Callable[..., Any] | None:
        way = choices.of(node, is_part)
        if way == "as places":
            return _at_places(node, choices.target.costs.places)
        return _WAYS[way](node)

    _forget_blocks(graph)
    return expand(graph, smaller)


def _forget_blocks(graph: Graph) -> None:
    """Drop linear blocks, so that zeros in a decomposition are numbers, not absent gradients."""
    for node in graph.nodes:
        node.block = None
        for inner in node.graphs.values():
            _forget_blocks(inner)


def _choice(node: Node, is_part: bool, choices: Choices) -> str:
    """Which of `_WAYS` a node goes."""
    if is_part and _is_no_change(node):
        return "as zeros"
    if is_small(node, choices.target):
        return "stays"  # becomes a sum at the end, once everything is simplified
    row = node.op.row
    if row.routine == "mostly":
        return "stays" if choices.alone else "as smaller routines"
    if is_onto(node) and not is_large(node):
        return "as decomposition"
    if node.name == "detach.default":
        return "as it was"  # no derivative is taken any more
    if row.schema.is_view and row.schema.returns[0].type.is_list and "dim" in row.schema.names:
        return "as views"
    if row.reduces in ("sum", "any", "all") and "dim" in row.schema.names and _of_one(node):
        return "as conversion"
    if node.name == "as_strided.default":
        return "as places"
    if of_complex(node) is not None:
        return "as real and imaginary parts"
    lowers = row.routine in LOWERED and _is_real(node, choices.target)
    if lowers and LOWERED[row.routine](node) is not None:
        return "as smaller routines"
    if row.decompose and keeps_scores(node, choices.target):
        return "as decomposition"
    if row.schema.is_view or choices.definitions.of(node) is not None:
        return "stays"
    if of_halves(node) is not None:
        return "in float32"
    if not row.decompose:
        return "stays"
    return "as decomposition"


def _is_real(node: Node, target: Target) -> bool:
    values = (*node.inputs(), *node.outputs)
    return all(target.has(value) and not value.dtype.is_complex for value in values)


def _of_one(node: Node) -> bool:
    """Whether each reduction is over a single element."""
    return math.prod(node.args[0].shape) == math.prod(node.output.shape)


def _converted(node: Node) -> Callable[..., Any]:
    """A function for sum, any or all over single elements: a conversion and a reshape."""
    truth = node.op.row.reduces != "sum"

    def alone(tensor: Any, *_: Any) -> Any:
        element = tensor.ne(0) if truth else tensor
        return element.to(node.output.dtype).reshape(node.output.shape)

    return alone


def _itself(tensor: Any) -> Any:
    return tensor


def _is_no_change(node: Node | None) -> bool:
    """Whether a node is x - x.detach(), or a multiple of it: zeros that carry a derivative."""
    if node is None or node.name not in ("sub.Tensor", "mul.Tensor", "div.Tensor"):
        return False
    first, second = (a.node if isinstance(a, Value) else None for a in node.args[:2])
    if node.op.name != "sub":
        return _is_no_change(first) or (node.op.name == "mul" and _is_no_change(second))
    return (
        second is not None
        and second.name == "detach.default"
        and second.args[0] is node.args[0]
        and argument(node, "alpha") == 1
    )


def _zeros(node: Node) -> Callable[..., Any]:
    return lambda *_: ops.zeros(node.output.shape, dtype=node.output.dtype)


def _single_views(node: Node) -> Callable[..., Any]:
    """A function that returns the views of unbind, split, … one by one."""
    source = next(node.inputs())
    dim = argument(node, "dim") % len(source.shape)

    def cut(tensor: Any, *_: Any) -> list[Any]:
        if len(node.outputs[0].shape) < len(source.shape):
            return [tensor.select(dim, i) for i in range(source.shape[dim])]
        found, start = [], 0
        for value in node.outputs:
            found.append(tensor.narrow(dim, start, value.shape[dim]))
            start += value.shape[dim]
        return found

    return cut


def _at_places(node: Node, most: int) -> Callable[..., Any] | None:
    """A function that gathers the elements of `as_strided` from a row-major tensor; None if there
    are more than `most`.
    """
    size, strides, offset = node.args[1:4]
    if math.prod(size) > most:
        return None
    places = np.full(size, offset or 0)
    for count, stride, axis in zip(size, strides, range(len(size)), strict=True):
        places += (np.arange(count) * stride).reshape(
            [-1 if d == axis else 1 for d in range(len(size))]
        )
    return lambda tensor, *_: tensor.reshape((-1,))[as_tensor(places)]


_WAYS: dict[str, Callable[[Node], Callable[..., Any] | None]] = {
    "stays": lambda node: None,
    "as it was": lambda node: _itself,
    "as zeros": _zeros,
    "as views": _single_views,
    "as conversion": _converted,
    "as real and imaginary parts": of_complex,
    "in float32": of_halves,
    "as smaller routines": lambda node: LOWERED[node.op.row.routine](node),
    "as decomposition": lambda node: binding.decomposition(node.op.row),
}  # way -> a function of the node that returns the replacing function, or None if the node stays
