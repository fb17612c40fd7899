"""`ad.utils.checkpoint`: checkpointing, called as PyTorch calls it.

What PyTorch lists beside these are parts of its own machine (`CheckpointFunction`,
`DefaultDeviceType`, states of devices), and left out.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from adjoint.core.errors import ArgumentError, CheckpointError
from adjoint.core.source_lines import warn
from adjoint.transforms.checkpoints import (
    CheckpointPolicy,
    Options,
    SelectiveCheckpointContext,
    create_selective_checkpoint_contexts,
    reentrant,
    run,
    set_checkpoint_debug_enabled,
    set_checkpoint_early_stop,
)

__all__ = [
    "CheckpointError",
    "CheckpointPolicy",
    "SelectiveCheckpointContext",
    "checkpoint",
    "checkpoint_sequential",
    "create_selective_checkpoint_contexts",
    "noop_context_fn",
    "set_checkpoint_debug_enabled",
    "set_checkpoint_early_stop",
]


def checkpoint(
    function: Callable[..., Any] | None = None,
    *args: Any,
    use_reentrant: bool | None = None,
    context_fn: Callable[[], tuple[Any, Any]] | None = None,
    determinism_check: str = "default",
    debug: bool = False,
    preserve_rng_state: bool = True,
    early_stop: bool = True,
    **keywords: Any,
) -> Any:
    """Return `function(*args, **keywords)`, computed again when backward needs it.

    Without a function, return a decorator: `@checkpoint(use_reentrant=False)`.

    `function` may be a module: its parameters get their gradients, and it should be in the same
    mode, training or not, when backward runs. A function that does something else then raises
    `CheckpointError`.

    With `use_reentrant=False`, which is to be preferred, everything works as without checkpoint;
    a function that does not do the same each time is found out. With `use_reentrant=True` the
    function is one node, which `backward()` alone can pass.

    >>> import adjoint as ad
    >>> x = ad.tensor(0.0, requires_grad=True)
    >>> ad.utils.checkpoint.checkpoint(lambda x: x.sin().exp(), x, use_reentrant=False).backward()
    >>> x.grad
    tensor(1.)
    """
    options = Options(preserve_rng_state, context_fn, determinism_check, debug, early_stop)
    reenters = _is_reentrant("checkpoint", use_reentrant)
    if function is None:
        return lambda f: _checkpointed(f, options, reenters=reenters)
    return _run(function, args, keywords, options, reenters=reenters)


def _checkpointed(
    function: Callable[..., Any], options: Options, *, reenters: bool
) -> Callable[..., Any]:
    """The function, of which every call is checkpointed."""

    @functools.wraps(function)
    def checkpointed(*args: Any, **keywords: Any) -> Any:
        return _run(function, args, keywords, options, reenters=reenters)

    return checkpointed


def _run(
    function: Callable[..., Any],
    args: tuple[Any, ...],
    keywords: dict[str, Any],
    options: Options,
    *,
    reenters: bool,
) -> Any:
    if reenters:
        if options.context_fn is not None or options.debug:
            raise ArgumentError(
                "checkpoint: context_fn and debug are only supported when use_reentrant=False"
            )
        if keywords:
            raise ArgumentError(
                f"checkpoint: unexpected keywords {', '.join(keywords)}; with use_reentrant=True a "
                "function takes positional arguments only"
            )
        return reentrant.run(function, args, options.preserve_rng_state)
    return run(function, args, keywords, options)


def noop_context_fn() -> tuple[AbstractContextManager[None], AbstractContextManager[None]]:
    """Return two contexts that do nothing: a `context_fn` for those who need one."""
    return nullcontext(), nullcontext()


def _is_reentrant(what: str, use_reentrant: bool | None) -> bool:
    if use_reentrant is None:
        warn(
            f"{what}: the use_reentrant parameter should be passed explicitly; use_reentrant=False "
            "is taken, which is recommended"
        )
    return bool(use_reentrant)


def checkpoint_sequential(
    functions: Any,
    segments: int,
    input: Any,
    use_reentrant: bool | None = None,
    **options: Any,
) -> Any:
    """Run functions in a row, checkpointed in `segments` pieces; the last one is not.

    `functions` is a sequence of them, or a module with children, such as `ad.nn.Sequential`.

    >>> import adjoint as ad
    >>> layers = ad.nn.Sequential(ad.nn.Tanh(), ad.nn.Sigmoid(), ad.nn.Tanh())
    >>> x = ad.zeros(2, requires_grad=True)
    >>> options = {"use_reentrant": False}
    >>> y = ad.utils.checkpoint.checkpoint_sequential(layers, 2, x, **options)
    >>> y.sum().backward()
    >>> ad.equal(y, layers(x)), x.grad
    (True, tensor([0.1966, 0.1966]))
    """
    reentrantly = _is_reentrant("checkpoint_sequential", use_reentrant)
    listed = list(functions.children() if hasattr(functions, "children") else functions)
    if not 0 < segments <= len(listed):
        raise ArgumentError(
            f"checkpoint_sequential: {segments} segments of {len(listed)} functions"
        )
    size = len(listed) // segments

    def piece(start: int, stop: int) -> Callable[[Any], Any]:
        def run_piece(value: Any) -> Any:
            for function in listed[start:stop]:
                value = function(value)
            return value

        return run_piece

    for number in range(segments - 1):
        part = piece(number * size, (number + 1) * size)
        input = checkpoint(part, input, use_reentrant=reentrantly, **options)
    return piece((segments - 1) * size, len(listed))(input)


def __dir__() -> list[str]:
    return sorted(__all__)
