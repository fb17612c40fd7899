"""Masks: a gradient that a mask has set to 0 stays 0, whatever it is multiplied by.

The gradient of `where(c, f(x), y)` with respect to x is `where(c, g, 0) * f'(x)`. Where c is false,
f'(x) has no meaning and may be infinite or NaN, and 0 times it is NaN. So a node that is linear in
the masked value is moved into the mask: where(c, g, 0) * h -> where(c, g * h, 0).

This gives other numbers than the operators by themselves, so it is done only in the linear blocks
of a backward, where 0 means "no gradient", unless the caller passes `everywhere=True`.
"""

from __future__ import annotations

from typing import Any

from adjoint.graph.facts import argument, filled, is_call
from adjoint.graph.ir import Graph, Node, Value
from adjoint.graph.passes.rewriting import Rewriter, inner_graphs
from adjoint.ops.operator import Operator


def sink_where(graph: Graph, *, everywhere: bool = False) -> Graph:
    """where(c, g, 0) * h  ->  where(c, g * h, 0)"""
    inner_graphs(graph, lambda inner: sink_where(inner, everywhere=everywhere))

    def rule(rewriter: Rewriter, node: Node) -> Any:
        if not isinstance(node.op, Operator) or not (everywhere or node.block is not None):
            return None
        for name in node.op.row.linear:
            place = node.op.schema.names.index(name)
            mask = masked(node.args[place])
            if mask is not None:
                return _inside_mask(rewriter, node, place, *mask)
        return None

    return Rewriter(graph).run(rule)


def _inside_mask(
    rewriter: Rewriter, node: Node, place: int, condition: Value, kept: Value, keep_true: bool
) -> Any:
    args = list(node.args)
    args[place] = kept
    inner = rewriter.call(node.name, *args)
    out = node.outputs[0]
    if inner.dtype is not out.dtype:
        return None
    if keep_true:
        new = rewriter.call("where.ScalarOther", condition, inner, 0)
    else:
        new = rewriter.call("where.ScalarSelf", condition, 0, inner)
    return new if new.type == out.type else None


def masked(value: Any) -> tuple[Value, Value, bool] | None:
    """(condition, value, keeps_where_true), or None for an unmasked value."""
    found = None
    if is_call(value, "masked_fill"):
        tensor, condition, number = value.node.args
        found = (condition, tensor, False) if _is_zero(number) else None
    elif is_call(value, "where"):
        found = _chosen(value.node)
    if found is None or not is_call(found[0], "logical_not"):
        return found
    negation: Any
    negation, kept, keeps_true = found
    condition = negation.node.args[0]
    return (condition, kept, not keeps_true) if condition.dtype is negation.dtype else found


def _chosen(node: Node) -> tuple[Value, Value, bool] | None:
    """(condition, value, keeps_where_true) of a `where` with 0 on one side; else None."""
    if "condition" not in node.op.schema.names or "self" not in node.op.schema.names:
        return None
    chosen, other = argument(node, "self"), argument(node, "other")
    condition = argument(node, "condition")
    if isinstance(chosen, Value) and _is_zero(other):
        return condition, chosen, True
    if isinstance(other, Value) and _is_zero(chosen):
        return condition, other, False
    return None


def _is_zero(value: Any) -> bool:
    if isinstance(value, Value):
        return value.node is not None and filled(value.node) == 0
    return value == 0
