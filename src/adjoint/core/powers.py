"""Derivatives of powers: factor, rounded exponent, and the rounding error of the exponent."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any


def falling_power(p: float, n: int, rounded: Callable[[float], Any]) -> tuple[float, float, float]:
    """The n-th derivative of xᵖ is p (p-1) … (p-n+1) xᵖ⁻ⁿ.

    Returns the factor, the exponent as `rounded` gives it, and the error of that rounding. Over all
    magnitudes of x, an ulp of the exponent is hundreds of ulp of the power.

    >>> falling_power(2.5, 2, float)
    (3.75, 0.5, 0.0)
    """
    p = float(rounded(p))
    if not math.isfinite(p):
        return p, p, 0.0
    exact = Fraction(p) - n
    power = float(rounded(float(exact)))
    factor = math.prod((Fraction(p) - k for k in range(n)), start=Fraction(1))
    return float(factor), power, float(exact - Fraction(power))
