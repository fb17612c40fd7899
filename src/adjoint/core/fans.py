"""Where a function is computed beside a matrix with a cluster of values: at A + tD for these t.

A fan holds what is computed at t = 0, then at each of `STEPS`, then at their negatives. The first
steps are close to one another, so that functions which vary slowly are known from large ones, where
rounding does the least harm; the later ones are farther apart, for functions that vary quickly. No
step is another one times a power of two, by which rounding errors would be multiplied, too.
"""

from __future__ import annotations

STEPS = (*(0.4 * 0.7**k for k in range(8)), *(0.4 * 0.7**7 * 0.47**k for k in range(1, 7)))
FAN = 1 + 2 * len(STEPS)
