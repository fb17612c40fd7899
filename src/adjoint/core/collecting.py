"""Python's search for cyclic garbage, left out while much is made that lives."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Generator


@contextlib.contextmanager
def uncollected() -> Generator[None]:
    """Look for no cyclic garbage meanwhile; as a decorator, while a function runs.

    A pass over a graph makes thousands of nodes, all of which stay. Looking through them again and
    again took a quarter of its time.

    >>> import gc
    >>> with uncollected():
    ...     gc.isenabled()
    False
    >>> gc.isenabled()
    True
    """
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
