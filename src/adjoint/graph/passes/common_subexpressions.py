"""Common subexpressions: an operator on the same values runs once, unless it is random.

So does a loop or a branch: a gradient of `custom_linear_solve` solves some equations twice.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from adjoint.core.symbolic_sizes import is_for_many
from adjoint.graph.facts import is_random
from adjoint.graph.ir import Constant, Graph, Node, Region, Value
from adjoint.graph.passes.rewriting import Rewriter, inner_graphs
from adjoint.tensor.tensor import is_plain

_SMALL = 64  # elements up to which constants are compared by value
_NONE: Mapping[Value, int] = MappingProxyType({})


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
    if isinstance(node.op, Region):
        return _region_key(node)
    if node.op.row.random:
        return None
    if node.op.row.fills and is_for_many():
        return None  # tensors may have the same number of elements only for some sizes
    call = call_key(node.op, node.args)
    return None if call is None else (call, tuple([v.type.requires_grad for v in node.outputs]))


def _region_key(node: Node, numbers: Mapping[Value, int] = _NONE) -> Any:
    """A key of a loop or branch: its operands, and what its graphs do; None if it is random."""
    if not node.graphs or is_random(node):
        return None
    needs = tuple([v.type.requires_grad for v in node.outputs])
    graphs = [(name, graph_key(graph, any(needs))) for name, graph in node.graphs.items()]
    call = call_key(node.op, node.args, numbers)
    if call is None or any(key is None for _, key in graphs):
        return None
    return (call, tuple(graphs), needs)


def graph_key(graph: Graph, recorded: bool) -> Any:
    """A key that graphs share which do the same: each value is known by its number. None if there
    is none. Whether inputs need a gradient counts in graphs that are `recorded`.
    """
    numbers = {value: number for number, value in enumerate(graph.inputs)}
    needs = [recorded and v.type.requires_grad for v in graph.inputs]
    lines: list[Any] = [tuple([(v.shape, v.dtype) for v in graph.inputs]), tuple(needs)]
    for node in graph.nodes:
        if isinstance(node.op, Constant):
            line = _constant_key(node.op.tensor)
        elif isinstance(node.op, Region):
            line = _region_key(node, numbers)
        else:
            line = call_key(node.op, node.args, numbers)
        if line is None:
            return None
        lines.append(line)
        numbers |= {v: len(numbers) + k for k, v in enumerate(node.outputs)}
    lines.append(_part(tuple(graph.outputs), numbers))
    return tuple(lines)


def call_key(op: Any, args: tuple[Any, ...], numbers: Mapping[Value, int] = _NONE) -> Any:
    """A key of an operator with its arguments; None if it cannot be hashed. Values in `numbers` are
    told apart by these.
    """
    key = (op, tuple([_part(a, numbers) for a in args]))
    try:
        hash(key)
    except TypeError:
        return None
    return key


def _part(argument: Any, numbers: Mapping[Value, int]) -> Any:
    """A key of an argument: 1, 1.0 and True are different, and so are 0.0 and -0.0."""
    if type(argument) is Value:
        number = numbers.get(argument)
        return argument if number is None else (Value, number)
    if isinstance(argument, tuple):
        return tuple([_part(a, numbers) for a in argument])
    if isinstance(argument, float):
        return (float, argument, math.copysign(1, argument))
    if isinstance(argument, complex):
        return (complex, repr(argument))
    return (type(argument), argument)


def _constant_key(tensor: Any) -> Any:
    if is_plain(tensor) and tensor.edge is None and tensor.numel() <= _SMALL:
        return (Constant, tensor.dtype, tuple(tensor.shape), tensor.value.tobytes())
    return (Constant, id(tensor))
