"""`ad.accelerator`: whichever device stands beside the CPU; none does here."""

from __future__ import annotations

from typing import NoReturn

from adjoint.absent import absent
from adjoint.accelerators import Accelerator
from adjoint.core.devices import COUNTS, Device

__all__ = [
    "current_accelerator",
    "current_device_index",
    "device_count",
    "empty_cache",
    "is_available",
    "max_memory_allocated",
    "memory_allocated",
    "set_device_index",
    "synchronize",
]

_KINDS = [kind for kind, count in COUNTS.items() if count and kind not in ("cpu", "meta")]
_THIS = Accelerator(_KINDS[0] if _KINDS else "cuda")

is_available = _THIS.is_available
device_count = _THIS.device_count
synchronize = _THIS.synchronize
empty_cache = _THIS.empty_cache
memory_allocated = _THIS.memory_allocated
max_memory_allocated = _THIS.max_memory_allocated
current_device_index = _THIS.current_device
set_device_index = _THIS.set_device


def current_accelerator(check_available: bool = False) -> Device | None:
    """Return the device beside the CPU, None if there is none.

    >>> import adjoint as ad
    >>> device = ad.accelerator.current_accelerator() or ad.device("cpu")
    >>> device
    device(type='cpu')
    """
    return Device(_KINDS[0]) if _KINDS else None


def __getattr__(name: str) -> NoReturn:
    raise absent(__name__, name, __all__)
