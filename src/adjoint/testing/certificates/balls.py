"""Power series of balls: the arithmetic in which definitions are evaluated.

A ball of Arb contains the exact number, so whatever is computed with balls is proven. A series
(`arb_series` of python-flint, the extra `certify`) holds a value and its Taylor coefficients. Where
Arb has no series of a function, its Taylor coefficients come from derivatives that are known
(`derivatives`), from the inverse function (`inverted`), or, for parameters such as the shape of an
incomplete gamma function, from differences of balls over a step of 2⁻²⁰⁰ (`stepped`), which is
accurate but not proven.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

from adjoint.core.errors import AdjointError
from adjoint.core.importing import imported

ORDERS = 5  # the value, three derivatives, and the slope of the third
STEP_BITS = 200  # of `stepped`


class MissingFlint(AdjointError, ImportError):
    """python-flint is not installed."""


@cache
def flint() -> Any:
    """The module python-flint."""
    try:
        return imported("flint")
    except ImportError:
        raise MissingFlint(
            "certificates need Arb's enclosures: pip install 'adjoint[certify]' (python-flint)"
        ) from None


def number(value: Any) -> Any:
    """A Python number as an exact ball."""
    return flint().arb(value)


def series(coefficients: Sequence[Any]) -> Any:
    return flint().arb_series(list(coefficients))


def constant(s: Any) -> Any:
    """The constant term of a series; a number as it is."""
    return s[0] if isinstance(s, flint().arb_series) else number(s)


# -- building blocks -------------------------------------------------------------------------------


def composed(taylor: Sequence[Any], inner: Any) -> Any:
    """The series of f(inner), given the Taylor coefficients f⁽ᵏ⁾(a)/k! at a = inner's constant."""
    if not isinstance(inner, flint().arb_series):
        return series([taylor[0]])
    step = inner - inner[0]
    result = series([taylor[-1]])
    for coefficient in reversed(taylor[:-1]):
        result = result * step + coefficient
    return result


def derivatives(function: Callable[[int, Any], Any]) -> Callable[[Any], Any]:
    """A function of series, from its n-th derivative at a ball."""

    def of_series(s: Any) -> Any:
        a = constant(s)
        return composed([function(n, a) / math.factorial(n) for n in range(ORDERS)], s)

    return of_series


def inverted(function: Callable[[Any], Any], value: Any, inner: Any) -> Any:
    """The series of the inverse of `function` at `inner`, given the inverse's value there."""
    near = function(series([value, 1]))
    back = series([0, *(near[k] for k in range(1, ORDERS))]).reversion()
    return composed([value, *(back[k] for k in range(1, ORDERS))], inner)


def stepped(function: Callable[[Any], Any], s: Any) -> Any:
    """The series of a function of balls, by central differences over 2⁻²⁰⁰ of its argument."""
    arb, ctx = flint().arb, flint().ctx
    a = constant(s)
    bits, ctx.prec = ctx.prec, ctx.prec + 5 * STEP_BITS
    try:
        h = arb(2) ** -STEP_BITS * abs(a).mid() if a != 0 else arb(2) ** -STEP_BITS
        f = {k: function(a + k * h) for k in (-2, -1, 0, 1, 2)}
        taylor = [
            f[0],
            (f[1] - f[-1]) / (2 * h),
            (f[1] - 2 * f[0] + f[-1]) / (2 * h * h),
            (f[2] - 2 * f[1] + 2 * f[-1] - f[-2]) / (12 * h**3),
            (f[2] - 4 * f[1] + 6 * f[0] - 4 * f[-1] + f[-2]) / (24 * h**4),
        ]
        return composed(taylor, s)
    finally:
        ctx.prec = bits


def root(function: Callable[[Any], Any], guess: float) -> Any:
    """The zero of an increasing or decreasing function near `guess`, as a ball: Newton's method in
    balls, then a radius within which the function is seen to change its sign."""
    arb, ctx = flint().arb, flint().ctx
    y = arb(guess)
    for _ in range(12 + ctx.prec.bit_length()):
        f = function(series([y, 1]))
        if not f[1].is_finite() or f[1].contains(0):
            break
        y = (y - f[0] / f[1]).mid()
    radius = (abs(y) + arb(2) ** -1080) * arb(2) ** (-ctx.prec // 2)
    below, above = (function(series([y + r]))[0] for r in (-radius, radius))
    if (below < 0 and above > 0) or (below > 0 and above < 0):
        return y.union(y - radius).union(y + radius)
    return arb("nan")
