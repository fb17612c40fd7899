"""Derivatives of powers: their factors and exponents, with what rounding these leaves out."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any


def falling_power(p: float, n: int, rounded: Callable[[float], Any]) -> tuple[float, float, float]:
    """Of the n-th derivative of xᵖ, p (p-1) … (p-n+1) xᵖ⁻ⁿ: the factor, the exponent rounded to a
    type of numbers, and the rest of the exponent.

    Over all magnitudes of x, an ulp of the exponent is hundreds of ulp of the power.

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
