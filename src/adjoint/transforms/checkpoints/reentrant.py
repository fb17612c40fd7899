"""PyTorch's older way, `use_reentrant=True`: one node that runs the function and a backward again.

The first run records nothing, so that only arguments and parameters get gradients, and only by
`backward()`.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

from adjoint.calls import gradients
from adjoint.calls.autocast import autocast_of_now
from adjoint.calls.function import Function
from adjoint.core.errors import GradError
from adjoint.core.generator import drawing_again, get_rng_state
from adjoint.tape import backward_passes
from adjoint.tensor.modes import enable_grad
from adjoint.tensor.tensor import Tensor


def run(f: Callable[..., Any], args: tuple[Any, ...], preserve_rng_state: bool) -> Any:
    """Call a function that one node stands for."""
    return _Reentrant.apply(f, preserve_rng_state, *args)


class _Reentrant(Function):
    """The function; its backward runs it on the tape, and a backward pass through that."""

    @staticmethod
    def forward(ctx: Any, f: Any, preserve_rng_state: bool, *args: Any) -> Any:
        ctx.f, ctx.state = f, get_rng_state() if preserve_rng_state else None
        ctx.precision = autocast_of_now()
        ctx.rest = [None if isinstance(a, Tensor) else a for a in args]
        ctx.places = [i for i, a in enumerate(args) if isinstance(a, Tensor)]
        ctx.save_for_backward(*[args[i] for i in ctx.places])
        return f(*args)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        pass_under_way = backward_passes.innermost()
        if pass_under_way is not None and pass_under_way.wanted is not None:
            raise GradError(
                "checkpoint with use_reentrant=True is incompatible with autograd.grad() and with "
                "inputs= of backward(); use use_reentrant=False"
            )
        args = list(ctx.rest)
        for place, tensor in zip(ctx.places, ctx.saved_tensors, strict=True):
            args[place] = tensor.detach().requires_grad_(tensor.requires_grad)
        numbers = nullcontext() if ctx.state is None else drawing_again([None], [ctx.state])
        with numbers, ctx.precision(), enable_grad():
            result = ctx.f(*args)
        outputs = result if isinstance(result, tuple) else (result,)
        pairs = [
            (o, g)
            for o, g in zip(outputs, grads, strict=True)
            if isinstance(o, Tensor) and o.requires_grad
        ]
        if not pairs:
            raise GradError(
                "checkpoint: none of the outputs requires a gradient, so that there is nothing to "
                "compute again"
            )
        gradients.backward([o for o, _ in pairs], [g for _, g in pairs])
        return (None, None, *(a.grad if isinstance(a, Tensor) else None for a in args))
