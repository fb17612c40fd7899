"""The t for which a function is computed at A + tD, where A has a cluster of values.

A fan holds the values at t = 0, then at each of `STEPS`, then at their negatives. The first steps
are close to one another, so that functions which vary slowly are known from large ones, where
rounding does the least harm; the later ones are farther apart, for functions that vary quickly. No
step is another one times a power of two, which would repeat its rounding errors. The last steps
are so near to A that the values there differ only by rounding errors: several, since large numbers
that cancel are often rounded alike.
"""

from __future__ import annotations

from typing import Any

import numpy as np

STEPS = (*(0.4 * 0.7**k for k in range(8)), *(0.4 * 0.7**7 * 0.47**k for k in range(1, 7)))
_NEAREST = (4, 3, 2)  # times ε
PROBES = 2 * len(_NEAREST)
FAN = 1 + 2 * len(STEPS) + PROBES


def steps_of(dtype: np.dtype[Any], repeated: bool) -> np.ndarray[Any, np.dtype[Any]]:
    """The t of all matrices of a fan except A; without the t nearest to 0 if values repeat in A."""
    eps = float(np.finfo(dtype).eps)
    nearest = [STEPS[-1] if repeated else k * eps for k in _NEAREST]
    return np.array([*STEPS, *(-t for t in STEPS), *nearest, *(-t for t in nearest)])
