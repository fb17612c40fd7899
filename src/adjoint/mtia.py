"""`ad.mtia`: Meta's devices, of which there are none here; programs ask `is_available()`."""

from __future__ import annotations

from typing import NoReturn

from adjoint.absent import absent
from adjoint.accelerators import Accelerator

__all__ = [
    "current_device",
    "device_count",
    "empty_cache",
    "is_available",
    "is_initialized",
    "set_device",
    "synchronize",
]

_THIS = Accelerator("mtia")

is_available = _THIS.is_available
device_count = _THIS.device_count
synchronize = _THIS.synchronize
empty_cache = _THIS.empty_cache
is_initialized = _THIS.is_initialized
current_device = _THIS.current_device
set_device = _THIS.set_device


def __getattr__(name: str) -> NoReturn:
    raise absent(__name__, name, __all__)
