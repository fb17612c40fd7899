"""Backward passes: what is asked of one, which ones are under way, which nodes they recorded.

A hook or a user's own backward may call backward again. Python's stack would overflow after some
hundred of these, so that every few levels the pass goes on in a new thread, which has a stack of
its own, with the modes of the old one.
"""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Callable
from typing import Any, NamedTuple

from adjoint.core.errors import GradError
from adjoint.core.state import current
from adjoint.tensor.nodes import Node

_LEVELS_OF_A_THREAD = 24  # each takes some ten to twenty frames of Python's thousand

_REMEMBERED = 31  # recorded passes of a context: derivatives of a higher order are not taken


class BackwardRequest(NamedTuple):
    """What is asked of a backward pass."""

    create_graph: bool = False  # the pass is recorded, so that it can be differentiated itself
    retain_graph: bool = False  # nodes keep what they saved, for another pass
    linear: bool = False  # recorded only as the linear function of the given gradients that it is
    level: Any = None  # the transform whose tape this is; gradients are tensors of the level below
    whole: bool = False  # the tape is known to end in the inputs: every path leads there
    # told each node before its rule runs: what is computed until it is told the next one belongs to
    # the derivative of that node
    observer: Callable[[Node], None] | None = None


def innermost() -> Any:
    """The innermost pass of this context, or None."""
    runs = current().passes
    return runs[-1] if runs else None


def retains() -> bool:
    """Whether the innermost pass keeps what nodes saved."""
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
