"""Graphs in tests."""

from __future__ import annotations

from collections.abc import Sequence

from adjoint.graph.ir import Graph, Node, Value
from adjoint.graph.passes.inline import CALL


def call(graph: Graph, body: Graph, args: Sequence[Value]) -> Node:
    """Add a node that calls `body`, whose outputs are all values."""
    return graph.add(CALL, tuple(args), [o.type for o in body.outputs], graphs={"body": body})
