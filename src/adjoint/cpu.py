"""`ad.cpu`: the device on which everything runs, under the names of `torch.cpu`."""

from __future__ import annotations

import functools
from typing import Any

from adjoint import amp as _amp

__all__ = [
    "amp",
    "current_device",
    "device_count",
    "is_available",
    "is_initialized",
    "set_device",
    "synchronize",
]


class amp:  # noqa: N801 - a namespace
    """Mixed precision on the CPU under its old names."""

    autocast = functools.partial(_amp.autocast, "cpu")
    GradScaler = functools.partial(_amp.GradScaler, "cpu")


def is_available() -> bool:
    """Whether there is a CPU."""
    return True


def is_initialized() -> bool:
    """Whether the CPU is in use."""
    return True


def device_count() -> int:
    """Return 1: all cores are one device."""
    return 1


def current_device() -> str:
    """Return the device in use, 'cpu'."""
    return "cpu"


def set_device(device: Any) -> None:
    """Accept the choice of the device in use: there is one."""


def synchronize(device: Any = None) -> None:
    """Wait until computations are done: they are when a function returns."""
