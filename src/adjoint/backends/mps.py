"""What there is for Apple's devices: nothing."""

from __future__ import annotations


def is_available() -> bool:
    """Whether there is such a device."""
    return False


def is_built() -> bool:
    """Whether adjoint was built for such devices."""
    return False
