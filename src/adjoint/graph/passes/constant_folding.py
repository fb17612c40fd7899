"""Constant folding: run operators on constants once, unless the result is much larger."""

from __future__ import annotations

import math
from typing import Any

from adjoint.core.errors import AdjointError
from adjoint.graph.facts import constant_of, is_random
from adjoint.graph.interpret import evaluate
from adjoint.graph.ir import Constant, Graph, Node
from adjoint.graph.passes.rewriting import Rewriter, inner_graphs
from adjoint.ops.operator import Operator
from adjoint.tensor.modes import no_grad
from adjoint.tensor.tensor import is_plain

_MOST = 4096  # elements that a result of smaller constants may have


def fold_constants(graph: Graph) -> Graph:
    """y = sin(constant)  ->  y = constant"""
    inner_graphs(graph, fold_constants)

    def rule(rewriter: Rewriter, node: Node) -> Any:
        if not _foldable(node):
            return None
        known = {v: constant_of(v) for v in node.inputs()}
        try:
            with no_grad():
                results = evaluate(node, known)
        except (AdjointError, ArithmeticError):
            return None  # it raises when the graph runs
        return [rewriter.constant(r) for r in results]

    return Rewriter(graph).run(rule)


def _foldable(node: Node) -> bool:
    if isinstance(node.op, Constant) or not isinstance(node.op, Operator) or is_random(node):
        return False
    sources = []
    for value in node.inputs():
        tensor = constant_of(value)
        if tensor is None or not is_plain(tensor) or tensor.edge is not None:
            return False
        sources.append(tensor)
    if not sources:
        return False
    limit = max(_MOST, sum(t.numel() for t in sources))
    return sum(math.prod(v.shape) for v in node.outputs) <= limit
