"""The function that users call, and the choice of the way that a call takes."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import Any, NamedTuple

from adjoint.calls import dispatch
from adjoint.calls.autocast import autocast_of_now
from adjoint.core.errors import ArgumentError
from adjoint.core.state import current
from adjoint.ops import streams
from adjoint.transforms import drawing
from adjoint.transforms.annotations import P, R
from adjoint.transforms.checkpoints import functional, selective
from adjoint.transforms.checkpoints.recompute import Frame, on_the_tape
from adjoint.transforms.custom import UserCall, UsesOutsideTensor
from adjoint.transforms.transformed import Transformed


class Options(NamedTuple):
    """How a function is checkpointed."""

    preserve_rng_state: bool = True  # random operators repeat the numbers of the first run
    context_fn: Callable[[], tuple[Any, Any]] | None = None  # contexts of the first and later runs
    determinism_check: str = "default"  # or "none"
    debug: bool = False  # say in errors where tensors were saved
    early_stop: bool = True  # a later run ends with the last value that is needed


_CHECKS = ("default", "none")


def checkpoint(f: Callable[P, R]) -> Callable[P, R]:
    """Return `f` without its intermediate values, which derivatives compute again.

    Memory for time, in both modes; nests. Random operators repeat the numbers of the first run.

    >>> import adjoint as ad
    >>> ad.grad(ad.checkpoint(lambda x: x.sin().exp()))(0.0)
    tensor(1.)
    """

    def checkpointed(*args: Any, **keywords: Any) -> Any:
        return run(f, args, keywords, Options())

    return Transformed(checkpoint, f, checkpointed)


def run(
    f: Callable[..., Any], args: tuple[Any, ...], keywords: dict[str, Any], options: Options
) -> Any:
    """Call a function whose intermediate values are computed again when they are needed."""
    if options.determinism_check not in _CHECKS:
        raise ArgumentError(
            f"checkpoint: determinism_check must be one of {', '.join(_CHECKS)}, got "
            f"{options.determinism_check!r}"
        )
    first, later = _contexts(options)
    if isinstance(first, selective.FirstRun):
        first_run, later_run = first.watching(f), later.watching(f)
    else:
        first_run = later_run = f
    if any(level.creates for level in current().levels):
        with first:
            return f(*args, **keywords)  # a graph decides itself which values it keeps
    call = UserCall("checkpoint", args, keywords)
    again = _replayed(later_run, later)
    state = streams.read(None) if options.preserve_rng_state else None
    if not current().levels and dispatch.topmost(call.tensors) is None:
        if not current().recording:
            with first:
                return f(*args, **keywords)
        rerun = functools.partial(again, state)
        return call.given_back(_on_the_tape(call, first_run, rerun, first, options))
    try:
        with first:
            return call.result(functional.Checkpoint.apply(call, f, again, state, *call.tensors))
    except UsesOutsideTensor:
        return again(state, *args, **keywords)


def _contexts(options: Options) -> tuple[Any, Any]:
    if options.context_fn is None:
        return nullcontext(), nullcontext()
    contexts = options.context_fn()
    if not (isinstance(contexts, tuple) and len(contexts) == 2):
        raise ArgumentError(
            "checkpoint: context_fn must return two contexts, one for the first run of the "
            "function and one for the runs that compute it again"
        )
    return contexts


def _replayed(f: Callable[..., Any], context: Any) -> Callable[..., Any]:
    """The function as it ran first: with its autocast, in its own context, and from a given state
    of the random numbers.
    """
    precision = autocast_of_now()

    def again(state: Any, *args: Any, **keywords: Any) -> Any:
        numbers = nullcontext() if state is None else drawing.from_states([None], [state])
        with numbers, precision(), context:
            return f(*args, **keywords)

    return again


def _on_the_tape(
    call: UserCall,
    f: Callable[..., Any],
    again: Callable[..., Any],
    first: Any,
    options: Options,
) -> Any:
    def recompute(tensors: Sequence[Any]) -> Any:
        positional, named = call.rebuild(tensors)
        return again(*positional, **named)

    checks = options.determinism_check == "default"
    tensors = call.tensors
    frame = Frame(
        recompute, tensors, check=checks, debug=options.debug, early_stop=options.early_stop
    )
    call.forget_tensors()  # the frame keeps them, or an outer checkpoint computes them again
    positional, named = call.rebuild(tensors)
    with first:
        return on_the_tape(frame, lambda: f(*positional, **named))
