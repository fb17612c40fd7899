"""Memory of arrays that are gone stays with the process, for the next ones.

By default glibc returns large blocks to the system as soon as they are freed, and every array of
some megabytes then pays for fresh pages, up to a third of the time of a pass over it. The
thresholds are the user's where the environment sets them ($MALLOC_TRIM_THRESHOLD_ or
$MALLOC_MMAP_THRESHOLD_).
"""

from __future__ import annotations

import ctypes
import os
import sys

_TRIM, _MMAP = -1, -3  # glibc's numbers of the parameters
_KEPT = 1 << 28  # bytes of freed memory from which some is given back
_OWN = 1 << 26  # bytes from which a block is a mapping of its own


def keep_freed_memory() -> None:
    """Raise the thresholds of the C library; without one of glibc, nothing changes."""
    if sys.platform != "linux":
        return
    if any(name.startswith(("MALLOC_TRIM", "MALLOC_MMAP")) for name in os.environ):
        return
    set_option = getattr(ctypes.CDLL(None), "mallopt", None)
    if set_option is not None:
        set_option(_TRIM, _KEPT)
        set_option(_MMAP, _OWN)
