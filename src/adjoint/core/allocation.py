"""The process keeps the memory of freed arrays for the next ones.

By default glibc returns large blocks to the system as soon as they are freed, and every array of
some megabytes then pays for fresh pages, up to a third of the time of a pass over it. If the
environment sets the thresholds ($MALLOC_TRIM_THRESHOLD_ or $MALLOC_MMAP_THRESHOLD_), they stay as
the user set them.
"""

from __future__ import annotations

import ctypes
import os
import sys

_TRIM, _MMAP = -1, -3  # glibc's numbers of the parameters
_KEPT = 1 << 28  # bytes of freed memory above which some is returned
_OWN = 1 << 26  # bytes from which a block gets its own mapping


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
