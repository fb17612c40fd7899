"""Intel's library of linear algebra: NumPy may use it, we do not."""

from __future__ import annotations


def is_available() -> bool:
    """Whether the library is used."""
    return False
