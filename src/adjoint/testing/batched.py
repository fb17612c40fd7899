"""Batched gradcheck: gradients of a batch of cotangents at once equal those of each one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import adjoint as ad
from adjoint.testing.explain import GradcheckError, Options
from adjoint.testing.jacobians import Array, Call, array_of, random_like, tensor_of

_SIZE = 2  # of the batch


def check_batched_grad(call: Call, wanted: list[int], options: Options) -> None:
    """vmap over the cotangents, by `is_grads_batched`, against a loop."""
    leaves = call.leaves()
    outputs = [call(leaves)[k] for k in wanted]
    batches = _batches([array_of(t) for t in outputs])

    def pull(cotangents: list[ad.Tensor], **options: bool) -> tuple[Any, ...]:
        return ad.autograd.grad(
            outputs, leaves, cotangents, retain_graph=True, allow_unused=True, **options
        )

    # The batch comes last: what `retain_grad` keeps of it cannot be added to outside of vmap.
    each = [pull([tensor_of(np.asarray(b[n])) for b in batches]) for n in range(_SIZE)]
    got = _attempt("reverse", lambda: pull([tensor_of(b) for b in batches], is_grads_batched=True))
    _compare("reverse", got, each, options)


def check_batched_forward_grad(call: Call, wanted: list[int], options: Options) -> None:
    """vmap over the tangents, against a loop."""
    primals = tuple(t.detach() for t in call.inputs)
    batches = _batches([array_of(t) for t in primals])

    def push(*tangents: ad.Tensor) -> tuple[ad.Tensor, ...]:
        return ad.jvp(lambda *x: tuple(call(x)[k] for k in wanted), primals, tangents)[1]

    got = _attempt("forward", lambda: ad.vmap(push)(*[tensor_of(b) for b in batches]))
    each = [push(*[tensor_of(np.asarray(b[n])) for b in batches]) for n in range(_SIZE)]
    _compare("forward", got, each, options)


def _batches(like: list[Array]) -> list[Array]:
    generator = np.random.default_rng(0)
    return [random_like(np.broadcast_to(a, (_SIZE, *a.shape)), generator) for a in like]


def _attempt(mode: str, run: Callable[[], Any]) -> Any:
    try:
        return run()
    except Exception as error:
        raise GradcheckError(
            f"gradcheck: {mode} mode fails under vmap ({type(error).__name__}: {error}), though "
            "not for one sample. Is the derivative written with adjoint's operators only?"
        ) from error


def _compare(mode: str, got: Any, each: list[Any], options: Options) -> None:
    for i, batch in enumerate(got):
        for n, sample in enumerate(each):
            if batch is None or sample[i] is None:
                same = batch is sample[i]
            else:
                same = bool(options.close(array_of(batch)[n], array_of(sample[i])).all())
            if not same:
                raise GradcheckError(
                    f"gradcheck: {mode} mode of a batch differs from that of its samples (tensor "
                    f"{i}, sample {n})"
                )
