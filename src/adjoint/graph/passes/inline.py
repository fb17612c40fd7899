"""Inlining: replace a `call` node by the nodes of its graph.

A function with a derivative of its own stays one node, so that its rule is found;
`inline_functions` replaces these, too, in graphs that are not going to be differentiated any more.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from adjoint.graph.control.regions import register
from adjoint.graph.custom import is_custom
from adjoint.graph.interpret import run_flat
from adjoint.graph.ir import Graph, Node, Region, Type, Value
from adjoint.graph.passes.rewriting import Rewriter, inner_graphs


def _run(node: Node, values: Sequence[Any]) -> Any:
    return tuple(run_flat(node.graphs["body"], values))


def _types(node: Node) -> list[Type]:
    return [o.type for o in node.graphs["body"].outputs]


CALL = register(Region("call", _run), _types)


def call(graph: Graph, body: Graph, args: Sequence[Value]) -> Node:
    """Add a node that calls `body`, whose outputs are all values."""
    return graph.add(CALL, tuple(args), [o.type for o in body.outputs], graphs={"body": body})


def inline_calls(graph: Graph) -> Graph:
    """y = call(x, body=g) -> the nodes of g with x as input."""
    inner_graphs(graph, inline_calls)
    if not graph.nests:
        return graph
    return Rewriter(graph).run(
        lambda rewriter, node: _inlined(rewriter, node) if node.op is CALL else None
    )


def inline_functions(graph: Graph) -> Graph:
    """y = custom(x) -> the nodes of custom's graph."""
    inner_graphs(graph, inline_functions)
    return Rewriter(graph).run(
        lambda rewriter, node: _inlined(rewriter, node) if is_custom(node) else None
    )


def _inlined(rewriter: Rewriter, node: Node) -> Any:
    (body,) = node.graphs.values()
    return rewriter.graph.inline(body, dict(zip(body.inputs, node.args, strict=True)))
