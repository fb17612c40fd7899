"""Backward passes: what a caller requests of one, and which are under way in this context.

A hook or a user's own backward may call backward again. Python's stack would overflow after some
hundred nested passes, so every few levels the pass goes on in a new thread, which has a stack of
its own and takes over the modes of the old one.
"""

from __future__ import annotations

import contextvars
import functools
import threading
from collections.abc import Callable
from typing import Any, NamedTuple

from adjoint.core.errors import GradError
from adjoint.core.state import current
from adjoint.tensor.nodes import Node

_LEVELS_OF_A_THREAD = 24  # each takes some ten to twenty frames of Python's thousand

_REMEMBERED = 31  # recorded passes of a context: derivatives of a higher order are not taken


class BackwardRequest(NamedTuple):
    """How a backward pass runs, as its caller requests it."""

    create_graph: bool = False  # record the pass, so that it can be differentiated
    retain_graph: bool = False  # nodes keep their saved values for another pass
    linear: bool = False  # record the pass as a linear function of `grads` alone
    level: Any = None  # the transform whose tape this is; gradients are tensors of the level below
    whole: bool = False  # every path on the tape is known to end in the inputs
    # called with each node before its rule runs: what is computed until the next call belongs to
    # the derivative of that node
    observer: Callable[[Node], None] | None = None


# one without a level or an observer, which are many times the same
request: Callable[..., BackwardRequest] = functools.lru_cache(maxsize=32)(BackwardRequest)


def innermost() -> Any:
    """The innermost pass of this context, or None."""
    runs = current().passes
    return runs[-1] if runs else None


def retains() -> bool:
    """Whether the innermost pass keeps the saved values of nodes."""
    run = innermost()
    return run is not None and not run.release


def queue_callback(function: Callable[[], Any]) -> None:
    """Call `function` when the backward pass that is under way has ended."""
    run = innermost()
    if run is None:
        raise GradError("queue_callback: no backward pass is under way")
    run.callbacks.append(function)


def on_stack(loop: Callable[[], None]) -> None:
    """Run the loop of the innermost pass, on a stack that has room for it."""
    outer = len(current().passes) - 1
    if outer and outer % _LEVELS_OF_A_THREAD == 0:
        _on_new_thread(loop)
    else:
        loop()


def _on_new_thread(function: Callable[[], None]) -> None:
    failures: list[BaseException] = []
    context = contextvars.copy_context()

    def work() -> None:
        try:
            context.run(function)
        except BaseException as error:
            failures.append(error)

    thread = threading.Thread(target=work, name="adjoint-backward")
    thread.start()
    thread.join()
    if failures:
        raise failures[0]
