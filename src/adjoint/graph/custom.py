"""Functions with a derivative of their own, in a graph: one node that keeps the rule.

The node holds the graph of what the function computes, for printing and for compilers, and runs the
function itself, so that every transform of the graph still finds its rule. A function that uses
traced tensors other than its arguments cannot be run again outside the trace; its operators are
then traced one by one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from adjoint.graph.ir import Graph, Node, Region, Type, Value
from adjoint.tensor.function import FunctionContext
from adjoint.tensor.levels import LevelTensor
from adjoint.tensor.modes import no_grad
from adjoint.tensor.tensor import Tensor

FORWARD = "forward"  # the name of the graph in the node
_TENSOR = object()  # stands for an argument that is a tensor


def is_custom(node: Node) -> bool:
    """Whether a node is a function with a rule of its own."""
    return isinstance(node.op, Region) and FORWARD in node.graphs


def traced(level: Any, function: Any, args: Sequence[Any], keywords: dict[str, Any]) -> Any:
    """Add the node of `function.apply(*args)`; return its results."""
    tensors = [a for a in args if isinstance(a, Tensor)]
    graph, kind = _forward(level, function, args, keywords)
    if graph is None:
        return _run_forward(function, args, keywords)

    rest = [_TENSOR if isinstance(a, Tensor) else a for a in args]

    def run(_: Node, values: Sequence[Any]) -> Any:
        given = iter(values)
        return function.apply(*[next(given) if a is _TENSOR else a for a in rest], **keywords)

    values = tuple(level.value(t) for t in tensors)
    needs = any(v.type.requires_grad for v in values)
    types = [Type(o.shape, o.dtype, needs and o.dtype.is_differentiable) for o in graph.outputs]
    node = level.graph.add(Region(function.__name__, run), values, types, graphs={FORWARD: graph})
    outs = [level.lift(v) for v in node.outputs]
    return outs[0] if kind is None else kind(outs)


def _run_forward(function: Any, args: Sequence[Any], keywords: dict[str, Any]) -> Any:
    context = FunctionContext()
    context.needs_input_grad = tuple(isinstance(a, Tensor) and a.requires_grad for a in args)
    return function.run_forward(context, list(args), keywords)


def _forward(
    level: Any, function: Any, args: Sequence[Any], keywords: dict[str, Any]
) -> tuple[Graph | None, Any]:
    """The graph of what it computes (None if not closed), and how results are put together."""
    with type(level)(Graph()) as inner, no_grad():
        inner.graph.signature.name = function.__name__
        lifted = [
            inner.lift(inner.graph.add_input(Type(tuple(a.shape), a.dtype), "x"))
            if isinstance(a, Tensor)
            else a
            for a in args
        ]
        output = _run_forward(function, lifted, keywords)
        outputs = list(output) if isinstance(output, (tuple, list)) else [output]
        if not all(isinstance(o, Tensor) for o in outputs):
            return None, None
        inner.graph.outputs = [inner.value(o) for o in outputs]
    if any(isinstance(t, LevelTensor) for t, _ in inner.constants.values()):
        return None, None
    assert all(isinstance(o, Value) for o in inner.graph.outputs)
    return inner.graph, type(output) if isinstance(output, (tuple, list)) else None
