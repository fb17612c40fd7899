"""The processor."""

from __future__ import annotations

import platform


def get_cpu_capability() -> str:
    """Return the kind of processor; native kernels are compiled for this very one."""
    return platform.machine().upper()
