"""Imports of our own modules on first use, by one thread at a time.

Two threads that import modules which import each other would each hold one and wait for the other;
Python then gives one of them an unfinished module.
"""

from __future__ import annotations

import importlib
import sys
from types import ModuleType

from adjoint.core.threads import lock

_one = lock()
_PATIENCE = 20.0  # seconds


def imported(name: str) -> ModuleType:
    """A module, imported now if necessary.

    A thread that calls this in the middle of another import may hold a module that a second thread
    waits for, so the wait is limited.
    """
    known = sys.modules.get(name)
    if known is not None and not getattr(known.__spec__, "_initializing", False):
        return known
    taken = _one.acquire(timeout=_PATIENCE)
    try:
        return importlib.import_module(name)
    finally:
        if taken:
            _one.release()
