"""Switches of NVIDIA's library for networks, not here: they are kept, and change nothing."""

from __future__ import annotations

import contextlib
from collections.abc import Generator

enabled = True
benchmark = False
benchmark_limit = 10
deterministic = False
allow_tf32 = True


def is_available() -> bool:
    """Whether the library is there."""
    return False


def version() -> int | None:
    """Return the version of the library, None if it is not there."""
    return None


@contextlib.contextmanager
def flags(
    enabled: bool = False,
    benchmark: bool = False,
    benchmark_limit: int = 10,
    deterministic: bool = False,
    allow_tf32: bool = True,
) -> Generator[None]:
    """Set switches in a block: nothing here depends on them."""
    yield
