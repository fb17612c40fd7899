"""`ad.distributed`: several processes, which there are not; programs ask `is_available()`."""

from __future__ import annotations

from typing import NoReturn

from adjoint.absent import absent

__all__ = ["is_available", "is_initialized"]


def is_available() -> bool:
    """Whether processes can compute together."""
    return False


def is_initialized() -> bool:
    """Whether this process computes with others."""
    return False


def __getattr__(name: str) -> NoReturn:
    raise absent(__name__, name, __all__)
