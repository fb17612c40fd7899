"""Results keep memory of their own: if a pass makes one share an argument's memory, copy it.

x * 1 is a new tensor and x is not; a user who writes to the result must not change the argument, or
a constant of the graph.
"""

from __future__ import annotations

from typing import Any

from adjoint.graph.facts import is_view
from adjoint.graph.ir import Constant, Graph, Value
from adjoint.ops.operator import operator


def shared(graph: Graph) -> list[bool]:
    """For each output: whether it is an input or a constant, or a view of one."""
    return [_root_is_given(o) for o in graph.outputs]


def _root_is_given(value: Any) -> bool:
    if not isinstance(value, Value):
        return True
    while value.node is not None and is_view(value.node):
        value = next(value.node.inputs())
    return value.node is None or isinstance(value.node.op, Constant)


def copy_shared(graph: Graph, before: list[bool]) -> Graph:
    """return x -> return x.clone(), for outputs that had memory of their own before."""
    clone = operator("clone")
    for number, (was, now) in enumerate(zip(before, shared(graph), strict=True)):
        if now and not was:
            value = graph.outputs[number]
            graph.outputs[number] = graph.add(clone, (value, None), (value.type,)).output
    return graph
