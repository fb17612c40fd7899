"""Dead code: remove nodes with unused results.

A node that draws random numbers stays, as later nodes would draw other numbers without it.
"""

from __future__ import annotations

from adjoint.graph.facts import acts
from adjoint.graph.ir import Graph, Value


def eliminate_dead(graph: Graph) -> Graph:
    """y = f(x); return x -> return x, in one walk from the last node to the first."""
    outputs = {o for o in graph.outputs if isinstance(o, Value)}
    for node in graph.reversed_nodes():
        for inner in node.graphs.values():
            eliminate_dead(inner)
        for value in node.outputs:
            if value.uses or value in outputs:
                break
        else:
            if not acts(node):
                graph.discard(node)
    return graph
