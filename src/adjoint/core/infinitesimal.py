"""A number that stands for an infinitely small one: 1 + δ = 1, and δ² is still there.

δ is a power of two, so dividing by it and multiplying with it rounds nothing.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from adjoint.core.dtypes import bfloat16


class Kinks:
    """What this process has met: see Note [Kinks] in tensor/limits.py."""

    met: bool = False  # whether there ever was a tensor that came from a kink


kinks = Kinks()

_EXPONENTS = {
    np.dtype(np.float64): -200,
    np.dtype(np.float32): -100,
    bfloat16.np: -100,
}

Array = np.ndarray[Any, np.dtype[Any]]


def infinitesimal(dtype: np.dtype[Any]) -> float:
    """δ in the precision of a real dtype; 0 where there is no room for it (float16).

    >>> 1 + infinitesimal(np.dtype(np.float64)) == 1
    True
    """
    exponent = _EXPONENTS.get(dtype)
    return 0.0 if exponent is None else math.ldexp(1.0, exponent)


def nearby(values: Array) -> Array:
    """The same numbers, with δ in place of 0."""
    return np.where(values == 0, values.dtype.type(infinitesimal(values.dtype)), values)
