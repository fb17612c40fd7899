"""Ways of recording: a random program has one gradient, however the tape keeps what it needs.

The program runs as it is, checkpointed (nested, without early stop, with a random policy of what is
kept), with saved tensors packed or allowed to change, on tensors of a subclass, inside a user's
function, and in inference mode. Values and gradients must agree with the plain run.
"""

from __future__ import annotations

import contextlib
import functools
import random
from collections.abc import Callable
from typing import Any

import numpy as np

import adjoint as ad
from adjoint.core.errors import AdjointError, GradError
from adjoint.utils.checkpoint import (
    checkpoint,
    create_selective_checkpoint_contexts,
    set_checkpoint_early_stop,
)
from tests.campaigns import campaign
from tests.random_programs import Program

Loss = Callable[..., Any]
apart = functools.partial(checkpoint, use_reentrant=False)


class Tagged(ad.Tensor):
    """A class with nothing of its own."""


class Wrapped(ad.autograd.Function):
    """A function whose backward is that of the program."""

    @staticmethod
    def forward(loss: Loss, *args: Any) -> Any:
        return loss(*args)

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.loss = inputs[0]
        ctx.save_for_backward(*inputs[1:])

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        saved = ctx.saved_tensors
        places = [i for i, t in enumerate(saved) if t.is_floating_point()]
        found = ad.grad(ctx.loss, argnums=tuple(places))(*saved)
        grads: list[Any] = [None] * len(saved)
        for place, value in zip(places, found, strict=True):
            grads[place] = value * grad
        return None, *grads


def _policy(seed: int) -> Callable[..., bool]:
    """Keeps some operators, the same ones each time."""
    return lambda context, op, *args: random.Random(f"{op.full_name} {seed}").random() < 0.4


def _ways(seed: int) -> dict[str, tuple[Callable[[Loss], Loss], Callable[[], Any]]]:
    """How the loss is changed, and the mode in which it runs and is differentiated."""
    contexts = functools.partial(
        create_selective_checkpoint_contexts, _policy(seed), allow_cache_entry_mutation=True
    )
    plain = contextlib.nullcontext

    def on_subclass(loss: Loss) -> Loss:
        return lambda *args: loss(*(a.as_subclass(Tagged) for a in args))

    return {
        "checkpoint": (lambda f: functools.partial(apart, f), plain),
        "nested": (lambda f: functools.partial(apart, functools.partial(apart, f)), plain),
        "no early stop": (
            lambda f: functools.partial(apart, f),
            lambda: set_checkpoint_early_stop(False),
        ),
        "selective": (lambda f: functools.partial(apart, f, context_fn=contexts), plain),
        "packed": (lambda f: f, ad.autograd.graph.save_on_cpu),
        "mutation": (lambda f: f, ad.autograd.graph.allow_mutation_on_saved_tensors),
        "subclass": (on_subclass, plain),
        "function": (lambda f: functools.partial(Wrapped.apply, f), plain),
    }


def _gradients(loss: Loss, program: Program, mode: Callable[[], Any]) -> list[Any]:
    given = [v.clone() for v in program.arguments.values()]
    inputs = [v.requires_grad_() for v in given[: program.floats]]
    with mode():
        value = loss(*given)
        if not value.requires_grad:
            return [value.detach().numpy()]
        found = ad.autograd.grad(value, inputs, allow_unused=True)
    return [value.detach().numpy(), *(None if g is None else g.numpy() for g in found)]


def _same(got: Any, expected: Any) -> bool:
    zero = [np.zeros(1) if v is None else v for v in (got, expected)]
    return bool(np.allclose(*zero, rtol=1e-7, atol=1e-9, equal_nan=True))


def check(seed: int) -> int:
    """Compare all ways of recording one program; return the number of comparisons."""
    program = Program(seed, largest=60)
    loss, checks = program.loss(), 0
    try:
        expected = _gradients(loss, program, contextlib.nullcontext)
    except AdjointError:  # it cannot be recorded at all
        return 0
    for name, (change, mode) in _ways(seed).items():
        try:
            found = _gradients(change(loss), program, mode)
        except GradError as error:
            # a derivative inside the program has used up what was kept, or a write has changed it
            if name == "selective" and any(
                t in str(error) for t in ("extra time", "other numbers")
            ):
                continue
            raise
        checks += len(expected)
        pairs = zip(found, expected, strict=True)
        assert all(_same(g, e) for g, e in pairs), f"{name}\n{program}\n{found}\n{expected}"
    with ad.inference_mode():
        value = loss(*program.arguments.values())
        assert value.is_inference(), f"inference\n{program}"
        assert _same(value.numpy(), expected[0]), f"inference\n{program}"
    return checks + 1


if __name__ == "__main__":
    campaign.main(check)
