"""A progress bar on a terminal; nothing elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Sequence
from typing import Any

_WIDTH = 30
_EVERY = 0.1  # seconds between two drawings


def is_shown() -> bool:
    """Whether there is a terminal to draw on."""
    return sys.stderr.isatty()


def bar(items: Sequence[Any], what: str, wanted: bool) -> Iterator[Any]:
    """Iterate over `items`; draw a progress bar if `wanted` and standard error is a terminal."""
    if not wanted or not is_shown():
        yield from items
        return
    count, started, drawn = len(items), time.monotonic(), 0.0
    for done, item in enumerate(items):
        now = time.monotonic()
        if now - drawn >= _EVERY:
            _draw(what, done, count, now - started)
            drawn = now
        yield item
    _draw(what, count, count, time.monotonic() - started)
    sys.stderr.write("\n")


def _draw(what: str, done: int, count: int, seconds: float) -> None:
    filled = _WIDTH * done // max(count, 1)
    left = seconds / done * (count - done) if done else 0.0
    sys.stderr.write(
        f"\r{what} [{'█' * filled}{'·' * (_WIDTH - filled)}] {done}/{count}, {left:.0f} s left "
    )
    sys.stderr.flush()
