"""Checkpoints inside transforms: a `Function` of the arguments; both derivatives run it again.

A function that closes over differentiated tensors runs normally, which is right but saves no memory
(see Note [Closures] in transforms/custom.py).
"""

from __future__ import annotations

from typing import Any

from adjoint.calls.function import Function
from adjoint.core.errors import CheckpointError
from adjoint.core.shapes import show
from adjoint.tensor.tensor import Tensor
from adjoint.transforms import forward, reverse
from adjoint.transforms.custom import pull_some


class Checkpoint(Function):
    """The function of its arguments."""

    @staticmethod
    def forward(call: Any, f: Any, again: Any, state: Any, *tensors: Any) -> Any:
        return call.outputs(call.run(f, tensors)[0])

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        ctx.call, _, ctx.again, ctx.draws = *inputs[:3], inputs[3] is not None
        ctx.types = [(tuple(o.shape), o.dtype) for o in output]
        kept = [t for t in inputs[3:] if t is not None]
        ctx.save_for_backward(*kept)
        ctx.save_for_forward(*kept)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        state, tensors = _saved(ctx)
        found = pull_some(lambda values: _run(ctx, state, values), tensors, grads)
        return (None, None, None, None, *found)

    @staticmethod
    def jvp(ctx: Any, *tangents: Any) -> Any:
        state, saved = _saved(ctx)
        places = [i for i, t in enumerate(saved) if t.is_differentiable_dtype()]

        def flat(*variables: Any) -> tuple[list[Any], None]:
            tensors = list(saved)
            for place, variable in zip(places, variables, strict=True):
                tensors[place] = variable
            return _run(ctx, state, tensors), None

        directions = [tangents[4:][i] for i in places]
        outputs, found, _ = forward.pushforward(flat, [saved[i] for i in places], directions)
        filled = reverse.filled(found, outputs)
        return tuple(
            t if o.is_differentiable_dtype() else None for t, o in zip(filled, outputs, strict=True)
        )


def _saved(ctx: Any) -> tuple[Any, list[Tensor]]:
    """The state of the random numbers (None if it is not restored), and the function's tensors."""
    kept = list(ctx.saved_tensors)
    return (kept[0], kept[1:]) if ctx.draws else (None, kept)


def _run(ctx: Any, state: Any, tensors: list[Tensor]) -> list[Any]:
    """The outputs, computed again; raise if their types differ."""
    positional, named = ctx.call.rebuild(tensors)
    outputs = list(ctx.call.outputs(ctx.again(state, *positional, **named)))
    types = [(tuple(o.shape), o.dtype) for o in outputs]
    if types != ctx.types:
        first, now = (
            ", ".join(f"{d.name}[{show(s)}]" for s, d in each) for each in (ctx.types, types)
        )
        raise CheckpointError(
            f"checkpoint: the function returns something else when it runs again: {first} became "
            f"{now}. It must do the same each time."
        )
    return outputs
