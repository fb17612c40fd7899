"""The tensors that `forward` returns, and their history.

An input that is returned as it is becomes a view of itself; one that was marked dirty stays itself;
a tensor with a history made inside `forward` loses it. Views keep their base, and are marked: a
write to one would need a derivative that only the user's `backward` has.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

from adjoint.calls.function.context import FunctionContext
from adjoint.core.errors import GradError
from adjoint.homes.levels import on_level
from adjoint.tensor.modes import no_grad
from adjoint.tensor.tensor import Tensor, alias


class Inputs:
    """The arguments of a call: as the user gave them, and as `forward` saw them."""

    def __init__(self, args: Sequence[Any], primals: list[Any]) -> None:
        self.args = list(args)
        self.primals = primals  # the arguments without tangents, or of the level below
        self._places = {id(p): i for i, p in enumerate(primals) if isinstance(p, Tensor)}

    def has(self, tensor: Any) -> bool:
        """Whether `forward` got this tensor as an argument."""
        return id(tensor) in self._places

    def given(self, tensor: Any) -> Any:
        """The user's argument for a tensor that `forward` got; other tensors unchanged."""
        place = self._places.get(id(tensor))
        return tensor if place is None else self.args[place]


def is_among(tensor: Any, tensors: Sequence[Any]) -> bool:
    """Whether a tensor is in a list, by identity."""
    return any(tensor is t for t in tensors)


def is_differentiable(context: FunctionContext, output: Any) -> bool:
    """Whether an output has a derivative."""
    return (
        isinstance(output, Tensor)
        and output.is_differentiable_dtype()
        and not is_among(output, context.non_differentiable)
    )


def is_materialised(context: FunctionContext, output: Any) -> bool:
    """Whether `backward` gets zeros where the gradient of an output is absent."""
    wanted = context._materialize_non_diff_grads or is_differentiable(context, output)
    return isinstance(output, Tensor) and wanted


def outputs_of(
    name: str, context: FunctionContext, inputs: Inputs, returned: list[Any]
) -> list[Any]:
    """The outputs of a call with their history, from the results of `forward`, with marks."""
    _check_closed(name, returned, any(context.needs_input_grad))
    check_dirty(name, context, inputs, returned)
    settled: dict[int, Any] = {}
    for tensor in returned:
        if isinstance(tensor, Tensor) and id(tensor) not in settled:
            settled[id(tensor)] = _output_of(name, context, inputs, tensor)
    context.dirty_tensors = tuple(settled.get(id(t), t) for t in context.dirty_tensors)
    context.non_differentiable = tuple(settled.get(id(t), t) for t in context.non_differentiable)
    return [settled.get(id(r), r) if isinstance(r, Tensor) else r for r in returned]


def _check_closed(name: str, returned: list[Any], recorded: bool) -> None:
    """Raise if `forward` used a tensor of a transform, which would lose its derivative here.

    Operators on constants inside a trace have no derivative, and are recorded in the graph.
    """
    for tensor in returned:
        if on_level(tensor) and (recorded or not tensor.home.creates):
            raise GradError(
                f"{name}.forward uses a tensor inside {tensor.home.name} that is not one of its "
                "arguments, so that backward could not tell its gradient; pass it to apply()"
            )


def _output_of(name: str, context: FunctionContext, inputs: Inputs, tensor: Tensor) -> Tensor:
    if is_among(tensor, context.dirty_tensors):
        return inputs.given(tensor)
    if inputs.has(tensor):
        with no_grad():
            tensor = tensor.alias()
    elif tensor.edge is not None:
        view, tensor = tensor.extra, alias(tensor)
        tensor.extra = view
    view = None if tensor.extra is None else tensor.extra.view
    if view is not None:
        view.base = inputs.given(view.base)
        view.function = name
    return tensor


def check_dirty(name: str, context: FunctionContext, inputs: Inputs, returned: list[Any]) -> None:
    """Raise unless every input that was marked dirty is returned, alone if it is a view."""
    for tensor in context.dirty_tensors:
        if not inputs.has(tensor):
            warnings.warn(
                f"{name}: mark_dirty was given a tensor that is not an input, which is not needed",
                stacklevel=2,
            )
        elif not is_among(tensor, returned):
            raise GradError(
                f"{name}: an input was marked dirty and not returned; inputs that forward changes "
                "in place must all be outputs"
            )
        elif (
            sum(isinstance(r, Tensor) for r in returned) > 1
            and any(context.needs_input_grad)
            and tensor._base is not None
        ):
            raise GradError(
                f"{name} changes an input in place that is a view of another tensor; such a "
                "function must return only that input. Clone the input, or return fewer tensors."
            )
