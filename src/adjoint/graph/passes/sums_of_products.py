"""Sums over rows or columns of matrix products: summing one operand before the product is cheaper.

    (a @ b).sum(0)  =  a.sum(0) @ b        as einsum("ni,ij->j") would compute it

The gradient of a mean that is subtracted from every row is such a sum. The rounding errors are
similar. With an infinite factor both orders give an infinity or NaN, not always the same one.
"""

from __future__ import annotations

from typing import Any

from adjoint.graph.facts import is_call
from adjoint.graph.ir import Graph, Node, Value
from adjoint.graph.passes.rewriting import Rewriter, inner_graphs
from adjoint.graph.passes.simplify import summed
from adjoint.ops.operator import Operator


def sum_operands_first(graph: Graph) -> Graph:
    """(a @ b).sum(rows) -> a.sum(rows) @ b, if nobody else uses the product."""
    inner_graphs(graph, sum_operands_first)
    outputs = {o for o in graph.outputs if isinstance(o, Value)}
    Rewriter(graph).run(lambda rewriter, node: _summed_first(rewriter, node, outputs))
    return graph


def _summed_first(rewriter: Rewriter, node: Node, outputs: set[Value]) -> Value | None:
    if not isinstance(node.op, Operator) or node.op.row.reduces != "sum":
        return None
    value, dims = node.args[0], summed(node)
    around: list[Node] = []  # nodes between the product and its sum
    while dims and len(value.uses) == 1 and value not in outputs:
        if is_call(value, "permute"):
            ndim = len(value.shape)
            dims = tuple(value.node.args[1][d] % ndim for d in dims)
        elif not is_call(value, "neg"):
            break
        around.append(value.node)
        value = value.node.args[0]
    if not dims or len(value.uses) > 1 or value in outputs or not _is_product(value):
        return None
    total = _product_of_sums(rewriter, value, dims)
    if total is None:
        return None
    for step in reversed(around):
        total = rewriter.call(step.name, total, *step.args[1:])
    out = node.outputs[0]
    return total if total.shape == out.shape else rewriter.call("reshape.default", total, out.shape)


def _is_product(value: Value) -> bool:
    """Whether a value is a product of real matrices, or a batch of products."""
    node = value.node
    if node is None or not isinstance(node.op, Operator) or not node.op.row.is_product:
        return False
    wide = value.dtype.is_floating_point and value.dtype.itemsize >= 4
    return wide and all(len(operand.shape) >= 2 for operand in node.args[:2])


def _product_of_sums(rewriter: Rewriter, value: Value, dims: tuple[int, ...]) -> Value | None:
    """The sum of a product, keeping the dimensions; None if both operands have one of them."""
    assert value.node is not None
    a, b = value.node.args[:2]
    ndim = len(value.shape)
    of_a, of_b = [], []
    for d in dims:
        left, right = d - ndim + len(a.shape), d - ndim + len(b.shape)
        in_a = left >= 0 and d != ndim - 1 and a.shape[left] != 1
        in_b = right >= 0 and d != ndim - 2 and b.shape[right] != 1
        if in_a and in_b:
            return None
        of_a += [left] if in_a else []
        of_b += [right] if in_b else []
    if not of_a and not of_b:
        return None
    return rewriter.call("matmul.default", _summed(rewriter, a, of_a), _summed(rewriter, b, of_b))


def _summed(rewriter: Rewriter, value: Value, dims: list[int]) -> Any:
    """A sum that keeps the dimensions; a permuted value is summed before its permutation."""
    if not dims:
        return value
    if value.node is not None and is_call(value, "permute"):
        source, order = value.node.args
        total = _summed(rewriter, source, [order[d] % len(order) for d in dims])
        return rewriter.call("permute.default", total, order)
    return rewriter.call("sum.dim_IntList", value, tuple(dims), True, None)
