"""Compute the sum of a large matrix product and a matrix with one routine.

    w - 0.1 * (x.T @ g)  ->  addmm(w, x.T, -0.1 * g)

A step of gradient descent is such a sum. Otherwise a matrix as large as the weights would be
written and read again between the product and the sum.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

from adjoint.core.symbolic_sizes import chosen
from adjoint.graph.facts import argument
from adjoint.graph.ir import Graph, Node, Value
from adjoint.graph.passes.rewriting import Rewriter, inner_graphs
from adjoint.ops.operator import Operator

LARGE = 1 << 16  # elements of a matrix that does not fit the cache


def is_large(node: Node) -> bool:
    """Whether the result of a node does not fit the cache."""
    return int(math.prod(node.output.shape)) >= LARGE


def add_products(graph: Graph, wanted: Callable[[Node], bool] = is_large) -> Graph:
    """w + c * (a @ b) -> addmm(w, a, c * b), if nobody else uses the product."""
    inner_graphs(graph, lambda inner: add_products(inner, wanted))
    outputs = {o for o in graph.outputs if isinstance(o, Value)}

    def rewritten(rewriter: Rewriter, node: Node) -> Value | None:
        return _added_onto(rewriter, node, outputs, wanted)

    Rewriter(graph).run(rewritten)
    return graph


def is_onto(node: Node) -> bool:
    """Whether a node adds a product, unscaled, to a matrix of the same size."""
    if node.name != "addmm.default" or node.args[0].shape != node.output.shape:
        return False
    return node.args[3:] == (1, 1) and len({v.dtype for v in node.inputs()}) == 1


def _added_onto(
    rewriter: Rewriter, node: Node, outputs: set[Value], wanted: Callable[[Node], bool]
) -> Value | None:
    if node.name not in ("add.Tensor", "sub.Tensor"):
        return None
    first, second = node.args[:2]
    factor = argument(node, "alpha") * (1 if node.op.name == "add" else -1)
    ways = [(first, second, factor)]
    if factor == 1:
        ways.append((second, first, 1))
    for start, value, scale in ways:
        found = _product(value, outputs) if isinstance(value, Value) else None
        if found is None or not isinstance(start, Value) or start.type != node.output.type:
            continue
        a, b, inside = found
        if start.shape != (a.shape[0], b.shape[1]) or not wanted(node):
            continue
        is_left = chosen(("scaled", node.output.name), partial(_is_smaller, a, b))
        small, large = (a, b) if is_left else (b, a)
        scaled = _scaled(rewriter, small, scale * inside)
        pair = (scaled, large) if small is a else (large, scaled)
        return rewriter.call("addmm.default", start, *pair, 1, 1)
    return None


def _is_smaller(a: Value, b: Value) -> bool:
    return math.prod(a.shape) < math.prod(b.shape)


def _product(value: Value, outputs: set[Value]) -> tuple[Value, Value, Any] | None:
    """(a, b, factor) of a value factor * (a @ b) with no other use; None for other values."""
    factor: Any = 1
    while value.node is not None and len(value.uses) == 1 and value not in outputs:
        made = value.node
        if not isinstance(made.op, Operator):
            return None
        if made.name == "neg.default":
            factor = -factor
        elif made.name == "mul.Scalar" and isinstance(made.args[1], (int, float)):
            factor = factor * made.args[1]
        elif made.op.row.is_product:
            return _operands(made, factor)
        else:
            return None
        value = made.args[0]
    return None


def _operands(node: Node, factor: Any) -> tuple[Value, Value, Any] | None:
    a, b = node.args[:2]
    real = node.output.dtype.name in ("float32", "float64") and a.dtype is b.dtype
    return (a, b, factor) if real and len(a.shape) == len(b.shape) == 2 else None


def _scaled(rewriter: Rewriter, value: Value, factor: Any) -> Value:
    """A multiple of a value. The multiple of a transposed view is the view of the multiple."""
    if factor == 1:
        return value
    made = value.node
    if made is not None and made.name in ("t.default", "transpose.int", "permute.default"):
        return rewriter.call(made.name, _scaled(rewriter, made.args[0], factor), *made.args[1:])
    return rewriter.call("mul.Scalar", value, factor)
