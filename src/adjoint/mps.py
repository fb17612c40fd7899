"""`ad.mps`: Apple's devices, of which there are none here; programs ask `is_available()`."""

from __future__ import annotations

from typing import NoReturn

from adjoint.absent import absent
from adjoint.accelerators import Accelerator

__all__ = [
    "device_count",
    "empty_cache",
    "is_available",
    "manual_seed",
    "seed",
    "synchronize",
]

_THIS = Accelerator("mps")

is_available = _THIS.is_available
device_count = _THIS.device_count
synchronize = _THIS.synchronize
empty_cache = _THIS.empty_cache
manual_seed = _THIS.manual_seed
seed = _THIS.seed


def __getattr__(name: str) -> NoReturn:
    raise absent(__name__, name, __all__)
