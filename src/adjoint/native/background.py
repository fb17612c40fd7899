"""Native code that is built while the program goes on: nobody waits for a compiler.

`soon` returns a library that is there already; else a thread builds it, and the caller does without
until it is ready.
"""

from __future__ import annotations

import os
import queue
import threading
import warnings
from typing import Any

from adjoint.native import build, discovery

_lock = threading.Lock()
_ready: dict[str, Any] = {}  # by source: the library, or None while it is being built
_waiting: queue.SimpleQueue[str] = queue.SimpleQueue()
_threads: dict[int, threading.Thread] = {}  # by process: a fork has none


def soon(source: str) -> Any:
    """The library of a source; None as long as it is being built, and where it cannot be."""
    try:
        return _ready[source]
    except KeyError:
        pass
    if os.environ.get("ADJOINT_NATIVE") == "0" or discovery.toolchain() is None:
        return None
    if build.is_built(source):
        _ready[source] = build.library(source)
        return _ready[source]
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
    """The library of a source, built at once if it is not there."""
    if _ready.get(source) is None:
        _ready[source] = build.library(source)
    return _ready[source]


def _work() -> None:
    while True:
        source = _waiting.get()
        try:
            _ready[source] = build.library(source)
        except build.BuildError as error:  # the caller's own way stays
            warnings.warn(f"large arrays are computed without native code: {error}", stacklevel=1)
