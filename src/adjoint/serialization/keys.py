"""Keys of dicts and items of sets in files."""

from __future__ import annotations

from typing import Any

from adjoint.core.errors import FileError

_ITEMS = 1000  # how many a key, such as a tuple of tuples, may have


def checked_key(key: Any) -> Any:
    """Return a key of a file if its hash is found in a moment.

    Tuples of tuples have hashes that take as long as they have items, in C, without a limit of
    their depth: a small file could stop a process, or end it.
    """
    left = [key]
    for seen, item in enumerate(left):
        if type(item) in (tuple, frozenset):
            left += item
        if seen + len(left) > _ITEMS:
            raise FileError("a key of a dict in the file is too long")
    return key
