"""A call of a function on plain and dual tensors: its values, its node, its tangents."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from adjoint.calls.function import results, tangents
from adjoint.calls.function.context import FunctionContext, FunctionNode, KeptTensor, keep
from adjoint.core.errors import GradError
from adjoint.core.source_lines import caller
from adjoint.core.state import OBSERVED, current
from adjoint.homes import forward
from adjoint.tape import observe
from adjoint.tensor import views
from adjoint.tensor.modes import no_grad
from adjoint.tensor.nodes import Output, count_write
from adjoint.tensor.tensor import Tensor, make


def run(function: Any, args: Sequence[Any], keywords: dict[str, Any]) -> Any:
    """Run `forward`, and record the derivatives of its results."""
    context = FunctionContext()
    context.needs_input_grad = tuple(isinstance(a, Tensor) and a.edge is not None for a in args)
    forward.share_extras(args)
    inputs = results.Inputs(args, [forward.DUALS.primal(a) for a in args])
    with no_grad():
        output = function.run_forward(context, inputs.primals, keywords)
    several = isinstance(output, (tuple, list))
    returned = list(output) if several else [output]
    outputs = results.outputs_of(function.__name__, context, inputs, returned)
    if current().recording and any(context.needs_input_grad):
        _record(function, context, inputs, returned, outputs)
    if any(map(forward.is_dual, args)):
        tangents.push(function, context, inputs, outputs)
    context.dirty_tensors = context.non_differentiable = ()  # they would hold the node they are on
    return tuple(outputs) if several else outputs[0]


def _record(
    function: Any,
    context: FunctionContext,
    inputs: results.Inputs,
    returned: list[Any],
    outputs: list[Any],
) -> None:
    following = [a.edge for a in inputs.args if isinstance(a, Tensor)]
    node = make_node(function, context, inputs.args, following, outputs)
    node._zeros = [
        _zeros(o.value.shape, o.value.dtype) if results.is_materialised(context, o) else None
        for o in outputs
    ]
    for number, output in enumerate(outputs):
        if results.is_differentiable(context, output):
            _connect(function, context, output, Output(node, number))
    node.saved = tuple(_saved(t, inputs, returned, outputs) for t in context.take_saved(function))
    if current().recording == OBSERVED:
        observe.announce(node)


def _zeros(shape: tuple[int, ...], dtype: Any) -> Callable[[], Tensor]:
    return lambda: make(np.zeros(shape, dtype))


def _connect(function: Any, context: FunctionContext, output: Tensor, edge: Output) -> None:
    if results.is_among(output, context.dirty_tensors):
        views.check_recorded_write(output, function.__name__)
        count_write(output, function.__name__)
        views.rebase(output, edge)
    else:
        output.edge = edge


def _saved(
    tensor: Tensor | None, inputs: results.Inputs, returned: list[Any], outputs: list[Any]
) -> KeptTensor:
    """Save an output by its number, any other tensor itself."""
    given = inputs.given(tensor)
    number = next((i for i, o in enumerate(outputs) if o is given and o is not None), None)
    if number is None and not inputs.has(tensor):
        number = next((i for i, r in enumerate(returned) if r is tensor and r is not None), None)
    return keep(given, number)


def make_node(
    function: Any,
    context: FunctionContext,
    args: Sequence[Any],
    following: Sequence[Any],
    outputs: list[Any],
) -> FunctionNode:
    """The node of a call, without saved tensors."""
    are_tensors = [isinstance(a, Tensor) for a in args]
    node = function._backward_cls(function._rule, tuple(following), context, are_tensors)
    node.place = caller()
    node.outputs = tuple(
        (o.value.shape, o.value.dtype) if isinstance(o, Tensor) else ((), None) for o in outputs
    )
    node._inputs = [] if function.reverse() else list(args)
    if current().recording == OBSERVED:
        observe.obey_modes(node)
    return node


def pull(node: FunctionNode, grads: Any, needs: Any, graph: bool) -> tuple[Any, ...]:
    """The rule of function nodes: call the user's backward, and check its results."""
    function, context = node.function, node._context
    if context.materialize_grads:
        grads = [
            zeros() if g is None and zeros is not None else g
            for g, zeros in zip(grads, node._zeros, strict=True)
        ]
    backward = function.reverse()
    with context.pulling(graph):
        if backward is not None:
            returned = backward(context, *grads)
        else:
            returned = tangents.transposed_jvp(function, context, node._inputs, grads)
    return _checked(node, returned if isinstance(returned, tuple) else (returned,))


def _checked(node: FunctionNode, returned: tuple[Any, ...]) -> tuple[Any, ...]:
    """The gradients of the tensors among the inputs."""
    what, expected = node.rule.name, len(node._are_tensors)
    if len(returned) > expected and all(r is None for r in returned[expected:]):
        returned = returned[:expected]
    if len(returned) != expected:
        raise GradError(
            f"{what} returned an incorrect number of gradients: {len(returned)} for the {expected} "
            "inputs of forward"
        )
    for number, (grad, is_tensor) in enumerate(zip(returned, node._are_tensors, strict=True)):
        if grad is not None and not (is_tensor and isinstance(grad, Tensor)):
            raise GradError(
                f"{what} returned {type(grad).__name__} as the gradient of input {number}, which "
                + ("must be a tensor or None" if is_tensor else "is not a tensor: return None")
            )
    return tuple(g for g, t in zip(returned, node._are_tensors, strict=True) if t)
