"""Functions that are quicker beside another one in the same loop: erf(x) needs no exponential where
exp(-x²) is computed anyway, as it is for the derivative of erf.

C compilers find what two texts have in common, but not that a function of a library has an
exponential in it. Across loops nothing is shared: to keep a value takes as long as to compute it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from adjoint.core.records import record
from adjoint.graph.ir import Node, Value
from adjoint.ops.operator import operator


@record
class Neighbour:
    """An operator on the same value, and what an operator is beside it."""

    name: str
    arguments: tuple[Any, ...]  # after the value
    beside: str  # an operator of the value and of what the neighbour computes


NEIGHBOURS = {
    "erf.default": Neighbour("_gaussian_derivative.default", (0, 1.0), "_erf_beside"),
}
_WANTED = frozenset(n.name for n in NEIGHBOURS.values())


class Neighbours:
    """The values that a loop computes, for those that are quicker beside them."""

    def __init__(self, values: Iterable[Value]) -> None:
        made = ((v, v.node) for v in values if v.node is not None)
        self.known = {(node.name, node.args): v for v, node in made if node.name in _WANTED}

    def node(self, node: Node) -> Node:
        """A node, or one that computes the same from a neighbour."""
        found = NEIGHBOURS.get(node.name) if self.known else None
        if found is None:
            return node
        other = self.known.get((found.name, (node.args[0], *found.arguments)))
        if other is None:
            return node
        beside = Node(operator(found.beside), (node.args[0], other))
        beside.outputs = node.outputs
        return beside
