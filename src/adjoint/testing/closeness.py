"""When two arrays are the same up to rounding: the one comparison behind gradcheck and the laws.

`near` compares entry by entry. Inside `measured()` it also notes by how much arrays differed, which
is how `adjoint check` knows the worst error of a law without any law returning numbers.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


class Worst:
    """The difference that came nearest to its tolerance, or went furthest beyond it."""

    __slots__ = ("allowed", "error", "share")

    def __init__(self) -> None:
        self.error = 0.0  # |got - expected|: 3.2e-10
        self.allowed = 0.0  # the tolerance at that entry: 1e-5; 0 where entries must be equal
        self.share = -1.0  # error / allowed; -1 before the first comparison

    def note(self, error: Array, allowed: Array, near: Array) -> None:
        """Compare with the entries of one more array."""
        if not near.size:
            return
        error = np.where(near & ~np.isfinite(error), 0.0, error)  # equal infinities, NaN twice
        with np.errstate(all="ignore"):
            share = np.where(error == 0, 0.0, error / allowed)
        share = np.where(np.isnan(share), np.inf, share)
        place = int(np.argmax(share))
        if share.flat[place] > self.share:
            self.share = float(share.flat[place])
            self.error = float(error.flat[place])
            self.allowed = float(np.broadcast_to(allowed, share.shape).flat[place])

    def merge(self, other: Worst) -> None:
        """Take over the other's difference if it is the worse one."""
        if other.share > self.share:
            self.error, self.allowed, self.share = other.error, other.allowed, other.share


_MEASURED: ContextVar[Worst | None] = ContextVar("measured", default=None)


@contextmanager
def measured() -> Generator[Worst]:
    """Note the worst difference of all comparisons inside."""
    worst = Worst()
    token = _MEASURED.set(worst)
    try:
        yield worst
    finally:
        _MEASURED.reset(token)


def near(got: Array, expected: Array, relative: float, absolute: float) -> Array:
    """|got - expected| ≤ absolute + relative·|expected|, entry by entry.

    An infinity is near itself alone, where the tolerance would be infinite; NaN is near NaN.
    """
    with np.errstate(all="ignore"):
        error = np.abs(got - expected)
        allowed = absolute + relative * np.abs(expected)
        within = (error <= allowed) & np.isfinite(expected)
        found = within | (got == expected) | (np.isnan(got) & np.isnan(expected))
    worst = _MEASURED.get()
    if worst is not None:
        worst.note(error, allowed, found)
    return found
