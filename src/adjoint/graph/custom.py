"""Functions with derivative rules of their own, in a graph: one node that keeps the rule.

The node has the graph of the function's result, for printing and for compilers. It runs the
function itself, so that every transform of the graph finds the rule. A function that uses traced
tensors other than its arguments cannot run outside the trace; its operators are traced one by one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from adjoint.calls.function import FunctionContext
from adjoint.core.generator import drawn
from adjoint.core.source_lines import user_line
from adjoint.graph.facts import generators
from adjoint.graph.ir import Graph, Node, Region, Type, Value
from adjoint.homes.levels import on_level
from adjoint.ops import streams
from adjoint.tensor.modes import no_grad
from adjoint.tensor.tensor import Tensor

FORWARD = "forward"  # the name of the node's graph
_TENSOR = object()  # stands for a tensor among the arguments


def is_custom(node: Node) -> bool:
    """Whether a node is a function with a derivative rule of its own."""
    return isinstance(node.op, Region) and FORWARD in node.graphs


def traced(level: Any, function: Any, args: Sequence[Any], keywords: dict[str, Any]) -> Any:
    """Add a node for `function.apply(*args)`; return the results."""
    tensors = [a for a in args if isinstance(a, Tensor)]
    graph, returned = _forward(level, function, args, keywords)
    if graph is None:
        return _run_forward(function, args, keywords)[0]

    rest = [_TENSOR if isinstance(a, Tensor) else a for a in args]

    def run(_: Node, values: Sequence[Any]) -> Any:
        given = iter(values)
        output = function.apply(*[next(given) if a is _TENSOR else a for a in rest], **keywords)
        return [o for o in _listed(output) if isinstance(o, Tensor)]

    for generator in generators(graph):
        drawn(generator, level, streams.read)
    values = tuple(level.value(t) for t in tensors)
    needs = any(v.type.requires_grad for v in values)
    types = [
        Type(o.shape, o.dtype, needs and o.dtype.is_differentiable and not constant)
        for o, constant in zip(graph.outputs, returned.constant, strict=True)
    ]
    node = level.graph.add(Region(function.__name__, run), values, types, graphs={FORWARD: graph})
    node.place = user_line()
    return returned.filled([level.lift(v) for v in node.outputs])


def _listed(output: Any) -> list[Any]:
    return list(output) if isinstance(output, (tuple, list)) else [output]


class _ReturnedTensors:
    """The structure of a function's result, with places for its tensors."""

    def __init__(self, output: Any, context: FunctionContext) -> None:
        self.kind = type(output) if isinstance(output, (tuple, list)) else None
        listed = _listed(output)
        self.rest = [_TENSOR if isinstance(o, Tensor) else o for o in listed]
        marked = context.non_differentiable
        self.constant = [  # for each tensor, whether it is marked as non-differentiable
            any(o is m for m in marked) for o in listed if isinstance(o, Tensor)
        ]

    def filled(self, tensors: list[Any]) -> Any:
        given = iter(tensors)
        outputs = [next(given) if o is _TENSOR else o for o in self.rest]
        return outputs[0] if self.kind is None else self.kind(outputs)


def _run_forward(
    function: Any, args: Sequence[Any], keywords: dict[str, Any]
) -> tuple[Any, FunctionContext]:
    context = FunctionContext()
    context.needs_input_grad = tuple(isinstance(a, Tensor) and a.requires_grad for a in args)
    return function.run_forward(context, list(args), keywords), context


def _forward(
    level: Any, function: Any, args: Sequence[Any], keywords: dict[str, Any]
) -> tuple[Graph | None, Any]:
    """(graph of a function, its result); (None, None) if it uses other tensors of the trace."""
    with level.another() as inner, no_grad():
        inner.graph.signature.name = function.__name__
        lifted = [
            inner.lift(inner.graph.add_input(Type(tuple(a.shape), a.dtype), "x"))
            if isinstance(a, Tensor)
            else a
            for a in args
        ]
        output, context = _run_forward(function, lifted, keywords)
        returned = _ReturnedTensors(output, context)
        inner.graph.outputs = [inner.value(o) for o in _listed(output) if isinstance(o, Tensor)]
    if any(on_level(t) for t, _ in inner.constants.values()):
        return None, None
    assert all(isinstance(o, Value) for o in inner.graph.outputs)
    return inner.graph, returned
