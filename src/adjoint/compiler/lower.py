"""Lowering: a graph in terms of what native code knows.

Nodes that have no native form are decomposed while they have a decomposition; what is left over
calls back to its eager kernel.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable
from typing import Any

import numpy as np

from adjoint import ops
from adjoint.calls.methods import as_tensor
from adjoint.compiler.definitions import define, is_native, keeps_scores
from adjoint.compiler.program_decompositions import LOWERED, of_complex, of_halves
from adjoint.compiler.small_products import SMALL_PRODUCT, is_small, write_products
from adjoint.core.collecting import uncollected
from adjoint.graph import passes
from adjoint.graph.facts import argument
from adjoint.graph.ir import Graph, Node, Value
from adjoint.graph.passes.decompose import expand
from adjoint.graph.passes.products_onto import is_large, is_onto
from adjoint.graph.passes.prune_loops import prune_loops
from adjoint.ops import binding

_PLACES = 1 << 12  # elements of which the places in memory may be a constant


class Choices:
    """How each node was lowered, in order: where sizes stay open, the same for all of them."""

    def __init__(
        self,
        known: tuple[tuple[str, str], ...] = (),
        small: int = SMALL_PRODUCT,
        *,
        alone: bool = False,
    ) -> None:
        self.alone = alone  # whether the program has no operators to leave a call to
        self.known = known  # (operator, way), of an earlier graph
        self.place = 0  # of the next one
        self.places: dict[str, list[int]] = {}  # of each operator among them
        self.ways: dict[str, set[str]] = {}
        for place, (name, way) in enumerate(known):
            self.places.setdefault(name, []).append(place)
            self.ways.setdefault(name, set()).add(way)
        self.made: list[tuple[str, str]] = []
        self.small = small  # multiplications of a product up to which a loop beats a call

    def again(self) -> Choices:
        """The same choices, for another graph."""
        return Choices(tuple(self.made), alone=self.alone)

    def of(self, node: Node, is_part: bool) -> str:
        """How to lower a node."""
        return self._chosen(node.name, lambda: _choice(node, is_part, self.small, self.alone))

    def loops(self, node: Node) -> bool:
        """Whether a product of matrices is a loop rather than a call."""
        choose = lambda: "loop" if is_small(node, self.small) else "call"
        return self._chosen(f"{node.name} of matrices", choose) == "loop"

    def adds(self, node: Node) -> bool:
        """Whether a sum with a product is computed by the routine of the product."""
        choose = lambda: "onto" if is_large(node) else "apart"
        return self._chosen(f"{node.name} of a product", choose) == "onto"

    def keeps(self, node: Node, fits: bool) -> bool:
        """Whether a scan keeps the result of a node for the backward of its steps."""
        choose = lambda: "kept" if fits else "again"
        return self._chosen(f"{node.name} of a step", choose) == "kept"

    def _chosen(self, name: str, choose: Callable[[], str]) -> str:
        """What was chosen for the next known node of a name. Known ones may be left out, where
        nodes are the same for some sizes; then those of a name of which one way is known go it.
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
def lower(graph: Graph, choices: Choices | None = None) -> Graph:
    """The graph that is fused: custom functions opened (their rules have been used), decomposed,
    simplified before and after.
    """
    inlined = passes.join_rows(passes.simplified(passes.inline_functions(graph.clone())))
    choices = choices or Choices()
    lowered = passes.simplified(expand_decompositions(inlined, choices))
    lowered = write_products(passes.sum_operands_first(lowered), choices.loops)
    return prune_loops(passes.add_products(lowered, choices.adds))


def expand_decompositions(graph: Graph, choices: Choices) -> Graph:
    """Replace nodes without a native form by their decompositions, until nothing changes. The
    graph is changed.
    """

    def smaller(node: Node, is_part: bool) -> Callable[..., Any] | None:
        return _WAYS[choices.of(node, is_part)](node)

    _forget_blocks(graph)
    return expand(graph, smaller)


def _forget_blocks(graph: Graph) -> None:
    """Let backward be like forward: zeros in a decomposition are numbers, not absent gradients."""
    for node in graph.nodes:
        node.block = None
        for inner in node.graphs.values():
            _forget_blocks(inner)


def _choice(node: Node, is_part: bool, small: int, alone: bool) -> str:
    """What becomes of a node: one of `_WAYS`."""
    if is_part and _is_no_change(node):
        return "as zeros"
    if is_small(node, small):
        return "stays"  # written as a sum when everything is simplified
    row = node.op.row
    if row.routine == "mostly":
        return "stays" if alone else "as smaller routines"
    if is_onto(node) and not is_large(node):
        return "as decomposition"
    if node.name == "detach.default":
        return "as it was"  # derivatives have been taken
    if row.schema.is_view and row.schema.returns[0].type.is_list and "dim" in row.schema.names:
        return "as views"
    if row.reduces in ("sum", "any", "all") and "dim" in row.schema.names and _of_one(node):
        return "as conversion"
    if node.name == "as_strided.default":
        return "as places"
    if of_complex(node) is not None:
        return "as real and imaginary parts"
    real = all(map(_is_real, (*node.inputs(), *node.outputs)))
    if row.routine in LOWERED and real and LOWERED[row.routine](node) is not None:
        return "as smaller routines"
    if row.decompose and keeps_scores(node):
        return "as decomposition"
    if row.schema.is_view or define(node) is not None:
        return "stays"
    if of_halves(node) is not None:
        return "in float32"
    if not row.decompose:
        return "stays"
    return "as decomposition"


def _is_real(value: Value) -> bool:
    return is_native(value) and not value.dtype.is_complex


def _of_one(node: Node) -> bool:
    """Whether a reduction is of single elements."""
    return math.prod(node.args[0].shape) == math.prod(node.output.shape)


def _single(node: Node) -> Callable[..., Any]:
    """A sum of single elements, or whether any of them is not 0."""
    truth = node.op.row.reduces != "sum"

    def alone(tensor: Any, *_: Any) -> Any:
        element = tensor.ne(0) if truth else tensor
        return element.to(node.output.dtype).reshape(node.output.shape)

    return alone


def _itself(tensor: Any) -> Any:
    return tensor


def _is_no_change(node: Node | None) -> bool:
    """Whether a node is x - x.detach(), or a multiple: zeros, by which a value gets derivatives."""
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


def _parts(node: Node) -> Callable[..., Any]:
    """Several views of one tensor (unbind, split, …) as one view each."""
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


def _strided(node: Node) -> Callable[..., Any] | None:
    """Elements at given strides of a tensor that lies row by row: a gather at known places."""
    size, strides, offset = node.args[1:4]
    if math.prod(size) > _PLACES:
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
    "as views": _parts,
    "as conversion": _single,
    "as places": _strided,
    "as real and imaginary parts": of_complex,
    "in float32": of_halves,
    "as smaller routines": lambda node: LOWERED[node.op.row.routine](node),
    "as decomposition": lambda node: binding.decomposition(node.op.row),
}  # a function that does what a node does by smaller operators; None where it stays
