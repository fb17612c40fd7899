"""Functions that are cheaper when the same loop computes a related one: erf(x) needs no exponential
if the loop computes exp(-x²) anyway, as it does for the derivative of erf.

A C compiler finds common subexpressions of two texts, but does not know that a library function
contains an exponential. Loops do not share such values: loading one takes as long as computing it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from adjoint.core.records import record
from adjoint.graph.ir import Node, Value
from adjoint.ops.operator import operator


@record
class Neighbour:
    """An operator, and one that replaces a related operator when this one is computed anyway."""

    name: str
    arguments: tuple[Any, ...]  # its arguments after the shared operand
    beside: str  # replaces the related operator; takes (operand, this operator's result)


NEIGHBOURS = {
    "erf.default": Neighbour("_gaussian_derivative.default", (0, 1.0), "_erf_beside"),
}
_WANTED = frozenset(n.name for n in NEIGHBOURS.values())


class Neighbours:
    """The values that a loop computes and that can make other functions cheaper."""

    def __init__(self, values: Iterable[Value]) -> None:
        made = ((v, v.node) for v in values if v.node is not None)
        self.known = {(node.name, node.args): v for v, node in made if node.name in _WANTED}

    def node(self, node: Node) -> Node:
        """The node, or a cheaper node with the same result that uses a value the loop computes."""
        found = NEIGHBOURS.get(node.name) if self.known else None
        if found is None:
            return node
        other = self.known.get((found.name, (node.args[0], *found.arguments)))
        if other is None:
            return node
        beside = Node(operator(found.beside), (node.args[0], other))
        beside.outputs = node.outputs
        return beside
