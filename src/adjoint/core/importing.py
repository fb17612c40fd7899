"""Our own modules, imported where they are first needed: by one thread at a time.

Of modules that import one another, two threads would each hold one and wait for the other; Python
then gives one of them a module that is not finished.
"""

from __future__ import annotations

import importlib
import sys
from types import ModuleType

from adjoint.core.threads import lock

_one = lock()
_PATIENCE = 20.0  # seconds


def imported(name: str) -> ModuleType:
    """A module, imported now if it is not there yet.

    A thread that comes here in the middle of an import of its own may hold what another one waits
    for, so nobody waits for ever.
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
