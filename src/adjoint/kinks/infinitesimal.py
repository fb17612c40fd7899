"""The number iδ, which stands for an infinitely small one and is kept separate from finite ones.

δ is a power of two, so division and multiplication by it round nothing; and since iδ is imaginary,
a finite real number can be added without a loss of digits.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy._core.multiarray import count_nonzero  # without NumPy's wrapper

_FEW = 2048  # elements up to which counting is quicker than a reduction


class Kinks:
    """Whether this process has met a kink: see Note [Kinks] in homes/limits.py."""

    met: bool = False  # whether there ever was a tensor that came from a kink


kinks = Kinks()

Array = np.ndarray[Any, np.dtype[Any]]


def infinitesimal(dtype: np.dtype[Any]) -> float:
    """δ for a dtype; for a dtype narrower than float64 it is a number of complex64, too."""
    return 2.0**-200 if dtype.char in "dD" else 2.0**-100


def nearby(values: Array, scale: Array | None = None) -> Array:
    """The numbers as complex ones, with iδ in place of 0, or iδ times a scale.

    >>> nearby(np.array([0.0, 2.0])) == [2**-200 * 1j, 2]
    array([ True,  True])
    """
    small: Any = np.complex128(1j * infinitesimal(values.dtype))
    return np.where(values == 0, small if scale is None else small * scale, values)


def meets_zero(values: Array) -> bool:
    """Whether there is a 0 among real numbers; complex ones have no kink.

    >>> meets_zero(np.array([np.nan, 0.0, -1.0]))
    True
    """
    if values.dtype.kind == "c":
        return False
    if values.size <= _FEW:
        return bool(count_nonzero(values) < values.size)
    if values.dtype.char in "fd" and np.fmin.reduce(values, None) > 0:  # the quickest way to see it
        return False
    return bool((values == 0).any())
