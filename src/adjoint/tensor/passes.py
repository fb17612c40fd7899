"""The backward passes under way in a context: which one a hook runs in, and how deep they nest.

A hook or a user's own backward may call backward again. Python's stack would overflow after some
hundred of these, so that every few levels the pass goes on in a new thread, which has a stack of
its own, with the modes of the old one.
"""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any

from adjoint.core.errors import GradError

_LEVELS_OF_A_THREAD = 24  # each takes some ten to twenty frames of Python's thousand


# the passes of this context, innermost last
_underway: ContextVar[tuple[Any, ...]] = ContextVar("adjoint backward passes", default=())


def current() -> Any:
    """The innermost pass of this context, or None."""
    runs = _underway.get()
    return runs[-1] if runs else None


def queue_callback(function: Callable[[], Any]) -> None:
    """Call `function` when the backward pass that is under way has ended."""
    run = current()
    if run is None:
        raise GradError("queue_callback: no backward pass is under way")
    run.callbacks.append(function)


def enter(run: Any, loop: Callable[[], None]) -> None:
    """Run the loop of a pass as the innermost one, and then what was queued for its end."""
    before = _underway.get()
    token = _underway.set((*before, run))
    try:
        if before and len(before) % _LEVELS_OF_A_THREAD == 0:
            _on_new_thread(loop)
        else:
            loop()
        for callback in run.callbacks:  # a callback may queue another one
            callback()
    finally:
        _underway.reset(token)


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
