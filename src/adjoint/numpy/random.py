"""NumPy's random numbers as arrays that can be differentiated.

    >>> from adjoint.numpy import random
    >>> random.RandomState(0).randn(2)
    array([1.76405235, 0.40015721])

Numbers are drawn when Python runs: a traced or compiled function keeps those that it drew when it
was traced. `ad.randn` and its like draw anew at each call.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from adjoint.doors import with_signature
from adjoint.doors.numpy.conversion import array_or_refuse
from adjoint.doors.numpy.words import made
from adjoint.homes.arrays import array_of


class Source:
    """NumPy's generator of random numbers, whose arrays are ours."""

    def __init__(self, theirs: Any) -> None:
        self._theirs = theirs

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        found = getattr(self._theirs, name)
        return _drawing(name, found) if callable(found) else found

    def __repr__(self) -> str:
        return f"<adjoint.numpy.random of {self._theirs!r}>"


def _drawing(name: str, theirs: Any) -> Any:
    def draw(*args: Any, **keywords: Any) -> Any:
        plain = [array_or_refuse(f"random.{name}", a) for a in args]
        named = {k: array_or_refuse(f"random.{name}", v) for k, v in keywords.items()}
        found = theirs(*plain, **named)
        return array_of(made(found)) if isinstance(found, np.ndarray) else found

    draw.__name__ = draw.__qualname__ = name
    draw.__doc__ = f"NumPy's `random.{name}`, with arrays of ours."
    return with_signature(draw, theirs)


def RandomState(seed: Any = None) -> Source:
    """NumPy's generator of old."""
    return Source(np.random.RandomState(seed))


def default_rng(seed: Any = None) -> Source:
    """NumPy's generator of new."""
    return Source(np.random.default_rng(seed))


_MODULE = Source(np.random)


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(name)
    return getattr(_MODULE, name)


def __dir__() -> list[str]:
    return sorted(n for n in dir(np.random) if not n.startswith("_"))
