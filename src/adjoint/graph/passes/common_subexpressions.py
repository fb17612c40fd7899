"""Common subexpressions: an operator on the same values runs once, unless it is random."""

from __future__ import annotations

import math
from typing import Any

from adjoint.core.symbolic_sizes import is_for_many
from adjoint.graph.ir import Constant, Graph, Node, Value
from adjoint.graph.passes.rewriting import Rewriter, inner_graphs
from adjoint.ops.operator import Operator
from adjoint.tensor.tensor import is_plain

_SMALL = 64  # elements up to which constants are compared by value


def merge_common(graph: Graph) -> Graph:
    """a = f(x); b = f(x); g(a, b)  ->  a = f(x); g(a, a)"""
    inner_graphs(graph, merge_common)
    seen: dict[Any, list[Value]] = {}

    def rule(_: Rewriter, node: Node) -> Any:
        key = _key(node)
        if key is None:
            return None
        found = seen.setdefault(key, node.outputs)
        return None if found is node.outputs else found

    return Rewriter(graph).run(rule)


def _key(node: Node) -> Any:
    """A key that nodes with the same result share; None if no other node can have it."""
    if isinstance(node.op, Constant):
        return _constant_key(node.op.tensor)
    if not isinstance(node.op, Operator) or node.op.row.random:
        return None
    if node.op.row.fills and is_for_many():
        return None  # tensors may have the same number of elements only for some sizes
    call = call_key(node.op, node.args)
    return None if call is None else (call, tuple([v.type.requires_grad for v in node.outputs]))


def call_key(op: Any, args: tuple[Any, ...]) -> Any:
    """A key of an operator with its arguments; None if it cannot be hashed."""
    key = (op, tuple([a if type(a) is Value else _part(a) for a in args]))
    try:
        hash(key)
    except TypeError:
        return None
    return key


def _part(argument: Any) -> Any:
    """A key of an argument: 1, 1.0 and True are different, and so are 0.0 and -0.0."""
    if type(argument) is Value:
        return argument
    if isinstance(argument, tuple):
        return tuple([_part(a) for a in argument])
    if isinstance(argument, float):
        return (float, argument, math.copysign(1, argument))
    if isinstance(argument, complex):
        return (complex, repr(argument))
    return (type(argument), argument)


def _constant_key(tensor: Any) -> Any:
    if is_plain(tensor) and tensor.edge is None and tensor.numel() <= _SMALL:
        return (Constant, tensor.dtype, tuple(tensor.shape), tensor.value.tobytes())
    return (Constant, id(tensor))
