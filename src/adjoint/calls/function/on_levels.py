"""A call of a function inside `grad` and `jvp`: it runs one level below, its derivative is on the
level.

`setup_context` is run again for each level, on the tensors below it, so that each transform has a
context of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from adjoint.calls.function import eager, tangents
from adjoint.calls.function.context import FunctionContext, keep
from adjoint.calls.function.results import Inputs, is_among, is_differentiable, is_materialised
from adjoint.core.errors import GradError
from adjoint.core.records import record
from adjoint.core.state import current
from adjoint.homes import levels
from adjoint.homes.forward import fit_tangent
from adjoint.tensor import views
from adjoint.tensor.nodes import Output, count_write
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
    call = _CallOnLevel(level, function, context, inputs, below, outs)
    if isinstance(level, levels.GradLevel):
        call.record()
    else:
        call.push()
    return tuple(outs) if several else outs[0]


def _lifted(level: Any, name: str, context: FunctionContext, inputs: Inputs, output: Any) -> Any:
    """An output on the level: a dirty input stays itself, a view of an input stays a view."""
    if not isinstance(output, Tensor):
        return output
    if is_among(output, context.dirty_tensors):
        target = inputs.given(output)
        if not level.owns(target):
            raise GradError(
                f"{name}: a tensor from outside {level.name} is changed in place with a value "
                "from inside; clone() it inside and pass the copy"
            )
        count_write(target, name)
        return target
    lifted = level.lift(output)
    source = next((a for a in inputs.args if level.owns(a) and _views(output, a.value)), None)
    if source is not None:
        views.link_function(name, source, lifted)
    return lifted


def _views(output: Tensor, source: Any) -> bool:
    base = output._base
    return base is not None and (base is source or base is source._base)


@record
class _CallOnLevel:
    """A function that has run below a level; its derivative there is still to come."""

    level: Any
    function: Any
    context: FunctionContext
    inputs: Inputs
    below: list[Any]  # the outputs one level below
    outs: list[Any]  # the outputs on the level

    def record(self) -> None:
        """Put a node on the level's tape."""
        context = self.context
        if not current().recording or not any(context.needs_input_grad):
            return
        given = (a for a in self.inputs.args if isinstance(a, Tensor))
        following = [a.edge if self.level.owns(a) else None for a in given]
        node = eager.make_node(self.function, context, self.inputs.primals, following, self.outs)
        node.home = self.level
        node._zeros = [
            o.detach().zeros_like if is_materialised(context, o) else None for o in self.below
        ]
        for number, (output, out) in enumerate(zip(self.below, self.outs, strict=True)):
            if is_differentiable(context, output):
                edge = Output(node, number)
                if is_among(output, context.dirty_tensors):
                    views.check_recorded_write(out, self.function.__name__)
                    views.rebase(out, edge)
                else:
                    out.edge = edge
        node.saved = tuple(keep(t, None) for t in context.take_saved(self.function))

    def push(self) -> None:
        """Give the outputs their tangents."""
        given = [self.level.tangent(a) for a in self.inputs.args]
        if not any(t is not None for t in given):
            return
        with self.level.outside():
            found = tangents.output_tangents(
                self.function, self.context, self.inputs.primals, given, self.below
            )
            for output, out, tangent in zip(self.below, self.outs, found, strict=True):
                if isinstance(output, Tensor):
                    out.companion = None if tangent is None else fit_tangent(tangent, output)
