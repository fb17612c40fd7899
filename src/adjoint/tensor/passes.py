"""The backward passes under way in a thread: which one a hook runs in, and how deep they nest.

A hook or a user's own backward may call backward again. Python's stack would overflow after some
hundred of these, so that every few levels the pass goes on in a new thread, which has a stack of
its own, with the modes of the old one.
"""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Callable
from typing import Any

from adjoint.core.errors import GradError

_LEVELS_OF_A_THREAD = 24  # each takes some ten to twenty frames of Python's thousand


class _Underway(threading.local):
    """The passes of this thread, innermost last."""

    runs: tuple[Any, ...] = ()
    depth: int = 0  # of passes on this thread's stack


_underway = _Underway()


def current() -> Any:
    """The innermost pass of this thread, or None."""
    return _underway.runs[-1] if _underway.runs else None


def queue_callback(function: Callable[[], Any]) -> None:
    """Call `function` when the backward pass that is under way has ended."""
    run = current()
    if run is None:
        raise GradError("queue_callback: no backward pass is under way")
    run.callbacks.append(function)


def enter(run: Any, loop: Callable[[], None]) -> None:
    """Run the loop of a pass as the innermost one, and then what was queued for its end."""
    if _underway.depth >= _LEVELS_OF_A_THREAD:
        _on_new_thread(lambda: enter(run, loop), _underway.runs)
        return
    before = _underway.runs, _underway.depth
    _underway.runs, _underway.depth = (*before[0], run), before[1] + 1
    try:
        loop()
        for callback in run.callbacks:  # a callback may queue another one
            callback()
    finally:
        _underway.runs, _underway.depth = before


def _on_new_thread(function: Callable[[], None], runs: tuple[Any, ...]) -> None:
    failures: list[BaseException] = []
    context = contextvars.copy_context()

    def work() -> None:
        _underway.runs = runs
        try:
            context.run(function)
        except BaseException as error:
            failures.append(error)

    thread = threading.Thread(target=work, name="adjoint-backward")
    thread.start()
    thread.join()
    if failures:
        raise failures[0]
