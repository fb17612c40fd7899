"""Forward mode of users' functions, and the derivation of one mode from the other."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import nullcontext
from typing import Any

from adjoint.calls.function.context import FunctionContext
from adjoint.calls.function.results import Inputs, is_among, is_differentiable
from adjoint.core.errors import GradError, MissingRule
from adjoint.homes import derive, forward
from adjoint.tensor.nodes import version
from adjoint.tensor.tensor import Tensor


def push(function: Any, context: FunctionContext, inputs: Inputs, outputs: list[Any]) -> None:
    """Give the outputs on dual tensors their tangents."""
    given = [forward.DUALS.tangent(a) for a in inputs.args]
    versions = [None if t is None else version(t) for t in given]
    found = output_tangents(function, context, inputs.primals, given, outputs)
    if function.has("jvp"):
        written = [t is not None and version(t) != v for t, v in zip(given, versions, strict=True)]
        _check_memory(function, context, inputs, zip(given, written, strict=True), outputs, found)
        if function.reverse() is not None:
            context.saved_for_forward = ()
    for number, (output, tangent) in enumerate(zip(outputs, found, strict=True)):
        if tangent is not None:
            forward.attach_tangent(output, number, forward.fit_tangent(tangent, output))


def output_tangents(
    function: Any,
    context: FunctionContext,
    primals: Sequence[Any],
    given: Sequence[Any],
    outputs: list[Any],
) -> list[Any]:
    """The tangent of each output: by the user's `jvp`, or derived from `backward`."""
    if not function.has("jvp"):
        return _transposed_backward(function, context, outputs, list(given))
    if context.materialize_grads:
        given = [
            derive.materialised(p, t)
            if isinstance(p, Tensor) and p.is_differentiable_dtype()
            else t
            for p, t in zip(primals, given, strict=True)
        ]
    with context.pushing():
        found = function.jvp(context, *given)
    found = list(found) if isinstance(found, (tuple, list)) else [found]
    if len(found) != len(outputs):
        raise GradError(
            f"{function.__name__}.jvp returned {len(found)} tangents for {len(outputs)} outputs"
        )
    for number, (tangent, output) in enumerate(zip(found, outputs, strict=True)):
        if tangent is not None and not is_differentiable(context, output):
            raise GradError(
                f"{function.__name__}.jvp returned a tangent for output {number}, which has no "
                "derivative. You should return None at that position instead."
            )
    return found


def _check_memory(
    function: Any,
    context: FunctionContext,
    inputs: Inputs,
    given: Iterable[tuple[Any, bool]],
    outputs: list[Any],
    found: list[Any],
) -> None:
    """Raise unless tangents share memory as their tensors do, so that later writes reach both."""
    tangents = list(given)  # jvp may have written to them
    for output, tangent in zip(outputs, found, strict=True):
        if tangent is None:
            continue
        for argument, (before, written) in zip(inputs.args, tangents, strict=True):
            if before is None:
                continue
            if argument is output and is_among(output, context.dirty_tensors):
                if tangent is not before or not written:
                    raise GradError(
                        f"{function.__name__} changes an input in place, so its jvp function must "
                        "modify the corresponding tangent in place too, and return it"
                    )
            elif _base(output) is _base(argument) and _base(tangent) is not _base(before):
                raise GradError(
                    f"{function.__name__} is a custom Function whose forward is returning a view "
                    "(or an input as-is), but its jvp is not returning a view of the given tangent"
                )
            elif _base(output) is _base(argument) and tangent is before:
                raise GradError(
                    f"{function.__name__} is a custom Function whose forward is returning a view "
                    "(or an input as-is), so its jvp must return a view of the tangent: "
                    "tangent.view_as(tangent)"
                )


def _base(tensor: Tensor) -> Tensor:
    return tensor if tensor._base is None else tensor._base


def transposed_jvp(
    function: Any, context: FunctionContext, inputs: list[Any], grads: list[Any]
) -> tuple[Any, ...]:
    """The reverse mode, from `jvp`."""
    if not function.has("jvp"):
        raise MissingRule(
            f"{function.__name__} must implement either the backward or the jvp method to be "
            "differentiated"
        )
    places = [
        i for i, t in enumerate(inputs) if isinstance(t, Tensor) and t.is_differentiable_dtype()
    ]

    def pushed(*tangents: Any) -> list[Any]:
        full: list[Any] = [None] * len(inputs)
        for place, tangent in zip(places, tangents, strict=True):
            full[place] = tangent
        # a node has saved the tensors for `jvp`, since there is no `backward`
        with context.pushing() if context._node_reference is None else nullcontext():
            result = function.jvp(context, *full)
        return list(result) if isinstance(result, (tuple, list)) else [result]

    found = derive.transpose(pushed, [inputs[i] for i in places], grads)
    full: list[Any] = [None] * len(inputs)
    for place, grad in zip(places, found, strict=True):
        full[place] = grad
    return tuple(full)


def _transposed_backward(
    function: Any, context: FunctionContext, outputs: list[Any], tangents: list[Any]
) -> list[Any]:
    """The forward mode, from `backward`."""
    backward = function.reverse()
    if backward is None:
        raise MissingRule(
            f"{function.__name__} must implement the jvp function or backward to be used in "
            "forward mode"
        )
    places = [i for i, o in enumerate(outputs) if is_differentiable(context, o)]

    def pulled(*grads: Any) -> list[Any]:
        full = [
            o.detach().zeros_like() if context.materialize_grads and isinstance(o, Tensor) else None
            for o in outputs
        ]
        for place, grad in zip(places, grads, strict=True):
            full[place] = grad
        result = backward(context, *full)
        return list(result) if isinstance(result, tuple) else [result]

    found = derive.transpose(pulled, [outputs[i] for i in places], tangents)
    by_output = dict(zip(places, found, strict=True))
    return [by_output.get(i) for i in range(len(outputs))]
