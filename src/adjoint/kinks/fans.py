"""Where a function is computed beside a matrix with a cluster of values: at A + tD for these t.

A fan holds what is computed at t = 0, then at each of `STEPS`, then at their negatives. The first
steps are close to one another, so that functions which vary slowly are known from large ones, where
rounding does the least harm; the later ones are farther apart, for functions that vary quickly. No
step is another one times a power of two, by which rounding errors would be multiplied, too. The
last two are so near to A that what is computed there differs by rounding errors alone.
"""

from __future__ import annotations

from typing import Any

import numpy as np

STEPS = (*(0.4 * 0.7**k for k in range(8)), *(0.4 * 0.7**7 * 0.47**k for k in range(1, 7)))
PROBES = 2
FAN = 1 + 2 * len(STEPS) + PROBES


def steps_beside(dtype: np.dtype[Any], repeated: bool) -> np.ndarray[Any, np.dtype[Any]]:
    """The t of all matrices of a fan but A; where values repeat there, none is nearly A."""
    least = STEPS[-1] if repeated else 4 * float(np.finfo(dtype).eps)
    return np.array([*STEPS, *(-t for t in STEPS), least, -least])
