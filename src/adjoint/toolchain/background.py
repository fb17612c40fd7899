"""Native code that is built while the program goes on: nobody waits for a compiler.

`soon` returns a library that is built; otherwise a thread builds it, and the caller uses NumPy
until it is ready. $ADJOINT_NATIVE decides: "0" forbids native code; "wait" lets callers wait, so
that every run of a program computes alike.
"""

from __future__ import annotations

import os
import queue
import threading
import warnings
from typing import Any

from adjoint.core import threads
from adjoint.toolchain import build, discovery

_lock = threads.lock()
_ready: dict[str, Any] = {}  # by source: the library, or None while it is being built
_waiting: queue.SimpleQueue[str] = queue.SimpleQueue()
_threads: dict[int, threading.Thread] = {}  # by process: a forked child has no threads


def soon(source: str) -> Any:
    """The library of a source; None while it is being built, and if it cannot be built."""
    try:
        return _ready[source]
    except KeyError:
        pass
    if not is_allowed():
        return None
    if os.environ.get("ADJOINT_NATIVE") == "wait" or build.is_built(source):
        return now(source)
    with _lock:
        if source in _ready:
            return _ready[source]
        _ready[source] = None
        _waiting.put(source)
        if os.getpid() not in _threads:
            thread = threading.Thread(target=_work, name="adjoint builds", daemon=True)
            _threads[os.getpid()] = thread
            thread.start()
    return None


def now(source: str) -> Any:
    """The library of a source, built now if necessary; None if it cannot be built."""
    if _ready.get(source) is None:
        _ready[source] = _built(source)
    return _ready[source]


def _work() -> None:
    while True:
        source = _waiting.get()
        _ready[source] = _built(source)


def _built(source: str) -> Any:
    try:
        return build.library(source)
    except build.BuildError as error:  # NumPy's kernel stays in use
        warnings.warn(f"some operators run without native code: {error}", stacklevel=3)
        return None


def is_allowed() -> bool:
    """Whether native code may be used, and can be built."""
    return os.environ.get("ADJOINT_NATIVE") != "0" and discovery.toolchain() is not None
