"""oneDNN, which computes convolutions where its package is installed."""

from __future__ import annotations

import contextlib
from collections.abc import Generator

from adjoint.core.errors import ArgumentError
from adjoint.kernels.convolution import onednn

enabled = True
deterministic = False


def is_available() -> bool:
    """Whether the package of the library is installed."""
    return onednn.library() is not None


@contextlib.contextmanager
def flags(enabled: bool = True, deterministic: bool = False) -> Generator[None]:
    """Set switches in a block; the library itself is chosen by installing its package."""
    if not isinstance(enabled, bool):
        raise ArgumentError(f"mkldnn.flags: enabled must be True or False, got {enabled!r}")
    yield
