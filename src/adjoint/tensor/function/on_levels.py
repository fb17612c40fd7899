"""A call of a function inside `grad` and `jvp`: the function one level below, its derivative here.

`setup_context` is run again for each level, on the tensors below it, so that each transform has a
context of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from adjoint.core.errors import GradError
from adjoint.core.state import current
from adjoint.tensor import forward, levels, views
from adjoint.tensor.function import eager, tangents
from adjoint.tensor.function.context import FunctionContext, keep
from adjoint.tensor.function.results import (
    Inputs,
    is_among,
    is_differentiable,
    is_materialised,
)
from adjoint.tensor.tape import Output, wrote
from adjoint.tensor.tensor import Tensor


def run(level: Any, function: Any, args: Sequence[Any], keywords: dict[str, Any]) -> Any:
    """Run the function below `level`, and record or push its derivative there."""
    if not function.has("setup_context"):
        raise GradError(
            f"{function.__name__} is used inside {level.name}: give it a setup_context(ctx, "
            "inputs, output) apart from forward(*inputs), so that each transform can set up its "
            "own context"
        )
    inputs = Inputs(args, [level.below(a) for a in args])
    context = FunctionContext()
    context.needs_input_grad = tuple(level.owns(a) and not level.is_idle(a) for a in args)
    with level.outside():
        output = function.apply(*inputs.primals, **keywords)
        function.setup_context(context, tuple(inputs.primals), output)
    several = isinstance(output, (tuple, list))
    below = list(output) if several else [output]
    outs = [_lifted(level, function.__name__, context, inputs, o) for o in below]
    if isinstance(level, levels.GradLevel):
        _record(level, function, context, inputs, below, outs)
    else:
        _push(level, function, context, inputs, below, outs)
    return tuple(outs) if several else outs[0]


def _lifted(level: Any, name: str, context: FunctionContext, inputs: Inputs, output: Any) -> Any:
    """An output on the level: a dirty input is itself, a view of an input views it here too."""
    if not isinstance(output, Tensor):
        return output
    if is_among(output, context.dirty_tensors):
        target = inputs.given(output)
        if not level.owns(target):
            raise GradError(
                f"{name}: a tensor from outside {level.name} is changed in place with a value "
                "from inside; clone() it inside and pass the copy"
            )
        wrote(target, name)
        return target
    lifted = level.lift(output)
    source = next((a for a in inputs.args if level.owns(a) and _views(output, a.value)), None)
    if source is not None:
        views.link_function(name, source, lifted)
    return lifted


def _views(output: Tensor, source: Any) -> bool:
    base = output._base
    return base is not None and (base is source or base is source._base)


def _record(
    level: Any,
    function: Any,
    context: FunctionContext,
    inputs: Inputs,
    below: list[Any],
    outs: list[Any],
) -> None:
    if not current().recording or not any(context.needs_input_grad):
        return
    following = [a.edge if level.owns(a) else None for a in inputs.args if isinstance(a, Tensor)]
    node = eager.make_node(function, context, inputs.primals, following, outs)
    node.home = level
    node._zeros = [o.detach().zeros_like if is_materialised(context, o) else None for o in below]
    for number, (output, out) in enumerate(zip(below, outs, strict=True)):
        if is_differentiable(context, output):
            edge = Output(node, number)
            if is_among(output, context.dirty_tensors):
                views.check_writable(out, function.__name__)
                views.rebase(out, edge)
            else:
                out.edge = edge
    node.saved = tuple(keep(t, None) for t in context.take_saved(function))


def _push(
    level: Any,
    function: Any,
    context: FunctionContext,
    inputs: Inputs,
    below: list[Any],
    outs: list[Any],
) -> None:
    given = [level.tangent(a) for a in inputs.args]
    if not any(t is not None for t in given):
        return
    with level.outside():
        found = tangents.output_tangents(function, context, inputs.primals, given, below)
        for output, out, tangent in zip(below, outs, found, strict=True):
            if isinstance(output, Tensor):
                out.tangent = None if tangent is None else forward.fit_tangent(tangent, output)
