"""Quotients of elementary functions and Dawson's function, with derivatives of every order.

Each is analytic where its formula divides by 0, and its derivatives are sums of numbers of one
sign: a power series near 0, a recurrence in the order where that does not cancel.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Decimal, localcontext
from functools import cache

import numpy as np

from adjoint.core.errors import ValueRangeError
from adjoint.kernels.special.common import Array, branches, check_orders, in_double

SPACING, CENTRES, TAYLOR, DIGITS = 2, 16, 40, 60  # for Dawson's function: two centres a unit


def analytic_derivative(x: Array, name: str, n: int) -> Array:
    """The n-th derivative of exprel, log1prel, sinhc or dawsn."""
    check_orders("_analytic_derivative", n)
    if name not in DERIVATIVES:
        raise ValueRangeError(f"_analytic_derivative: {name!r} is none of {', '.join(DERIVATIVES)}")
    compute = DERIVATIVES[name]
    with np.errstate(all="ignore"):
        return in_double(lambda v: compute(v, n), x)


def exprel_derivative(x: Array, n: int) -> Array:
    """∫₀¹ tⁿ eˣᵗ dt, of (eˣ - 1)/x: its series, or x f⁽ⁿ⁾ + n f⁽ⁿ⁻¹⁾ = eˣ far out."""
    return branches(
        x,
        x < 0,
        lambda y: branches(y, y > -20 - n, lambda z: _falling(z, n), lambda z: _upward(z, n)),
        lambda y: branches(y, y < 20 + n, lambda z: _rising(z, n), lambda z: _upward(z, n)),
    )


def _rising(x: Array, n: int) -> Array:
    """Σ xᵏ/(k! (n + k + 1)), x ≥ 0."""
    total, term = np.full_like(x, 1 / (n + 1)), np.ones_like(x)
    for k in range(1, 100 + 4 * n):
        term = term * x / k
        total += term / (n + k + 1)
    return total


def _falling(x: Array, n: int) -> Array:
    """eˣ Σ |x|ᵏ/((n + 1) … (n + k + 1)), x ≤ 0: Kummer's transformation."""
    term = np.full_like(x, 1 / (n + 1))
    total = term.copy()
    for k in range(1, 120 + 4 * n):
        term = term * -x / (n + k + 1)
        total += term
    return np.exp(x) * total


def _upward(x: Array, n: int) -> Array:
    """The recurrence in n; where eˣ has no number left, e^{x/2} twice."""
    scale = np.where(x > 700, x / 2, 0.0)
    grown = np.exp(x - scale)
    found = (grown - np.exp(-scale)) / x
    for k in range(1, n + 1):
        found = (grown - k * found) / x
    return np.where(np.isinf(x), np.where(x > 0, math.inf, 0.0), found * np.exp(scale))


def log1prel_derivative(x: Array, n: int) -> Array:
    """(-1)ⁿ n! ∫₀¹ tⁿ/(1 + xt)ⁿ⁺¹ dt, of log(1 + x)/x: ₂F₁ of positive terms, or far out
    x f⁽ⁿ⁾ + n f⁽ⁿ⁻¹⁾ = (log(1 + x))⁽ⁿ⁾."""
    return branches(x, np.abs(x) <= 0.5, lambda y: _log_series(y, n), lambda y: _log_upward(y, n))


def _log_series(x: Array, n: int) -> Array:
    """15.8.1: (1 + x)⁻ⁿ ₂F₁(1, 1; n + 2; -x), or in x/(1 + x) (1 + x)⁻ⁿ⁻¹ ₂F₁(n + 1, 1; n + 2)."""
    below = x < 0
    w = np.where(below, -x, x / (1 + x))
    term = np.ones_like(x)
    total = term.copy()
    for k in range(60):
        term = term * w * np.where(below, (k + 1) / (n + 2 + k), (n + 1 + k) / (n + 2 + k))
        total += term
    scale = (-1) ** n * math.factorial(n) / (n + 1)
    return scale * total * (1 + x) ** np.where(below, -n, -n - 1.0)


def _log_upward(x: Array, n: int) -> Array:
    found = np.where(np.isinf(x), 0.0, np.log1p(x) / x)
    for k in range(1, n + 1):
        outer = -math.factorial(k - 1) * (-1 / (1 + x)) ** k
        found = (outer - k * found) / x
    return found


def sinhc_derivative(x: Array, n: int) -> Array:
    """The n-th derivative of sinh(x)/x: Σ x²ᵏ⁻ⁿ/((2k + 1) (2k - n)!), or far out x f⁽ⁿ⁾ + n f⁽ⁿ⁻¹⁾
    = sinh⁽ⁿ⁾(x).
    """
    return branches(
        x, np.abs(x) < 10 + n, lambda y: _sinhc_series(y, n), lambda y: _sinhc_upward(y, n)
    )


def _sinhc_series(x: Array, n: int) -> Array:
    first, square = (n + 1) // 2, x * x
    total = np.zeros_like(x)
    for k in range(first + 40 + 2 * n, first - 1, -1):
        total = total * square + 1 / ((2 * k + 1) * math.factorial(2 * k - n))
    return total * x if n % 2 else total


def _sinhc_upward(x: Array, n: int) -> Array:
    y = np.abs(x)
    scale = np.where(y > 700, y / 2, 0.0)
    grown, shrunk = np.exp(y - scale) / 2, np.exp(-y - scale) / 2
    found = (grown - shrunk) / y
    for k in range(1, n + 1):
        found = (grown - (-1) ** k * shrunk - k * found) / y
    found = np.where(np.isinf(y), math.inf, found * np.exp(scale))
    return np.where(x < 0, -found, found) if n % 2 else found


def dawsn_derivative(x: Array, n: int) -> Array:
    """The n-th derivative of Dawson's function e^{-x²} ∫₀ˣ e^{t²} dt: Taylor series around centres,
    which are made in 60 digits, and the asymptotic series, whose terms have one sign, from 7 + n/4
    on.
    """
    y = np.abs(x)
    far = y > 7 + n / 4
    found = branches(y, far, lambda v: _dawsn_far(v, n), lambda v: _dawsn_near(v, n))
    return np.where(x < 0, -found, found) if n % 2 == 0 else found


def _dawsn_far(y: Array, n: int) -> Array:
    """(-1)ⁿ Σ (2k - 1)!!/2ᵏ⁺¹ (2k + 1) … (2k + n) y⁻²ᵏ⁻¹⁻ⁿ, up to its smallest term."""
    inverse = 1 / y
    ratios = [(2 * k + 1 + n) * (2 * k + 2 + n) / (2.0 * (2 * k + 2)) for k in range(30)]
    total = np.ones_like(y)
    for ratio in reversed(ratios):
        total = 1 + total * ratio * inverse * inverse
    return (-1) ** n * math.factorial(n) / 2 * total * inverse ** (n + 1)


def _dawsn_near(y: Array, n: int) -> Array:
    table = _dawsn_table(n)
    y = np.where(np.isnan(y), 0.0, y) + 0 * y
    place = np.rint(np.where(np.isnan(y), 0.0, y) * SPACING).astype(int)
    step = y - place / SPACING
    total = np.zeros_like(y)
    for row in table[::-1]:
        total = total * step + row[place]
    return total


@cache
def _dawsn_table(n: int) -> Array:
    """Taylor coefficients of the n-th derivative: a row for each power, a column for each centre.

    D⁽ⁿ⁺¹⁾ = -2x D⁽ⁿ⁾ - 2n D⁽ⁿ⁻¹⁾ loses digits, but enough remain.
    """
    columns = []
    with localcontext() as context:
        context.prec = DIGITS + n
        for centre in range(CENTRES * SPACING + SPACING * n):
            c = Decimal(centre) / SPACING
            values = [_dawsn_exactly(c)]
            values.append(1 - 2 * c * values[0])
            for k in range(1, TAYLOR + n):
                values.append(-2 * c * values[k] - 2 * k * values[k - 1])
            columns.append([float(values[n + k] / math.factorial(k)) for k in range(TAYLOR)])
    return np.array(columns).T


def _dawsn_exactly(c: Decimal) -> Decimal:
    """e^{-c²} Σ c²ᵏ⁺¹/(k! (2k + 1))."""
    square = c * c
    term, total = c, Decimal(0)
    for k in range(1, 3000):
        total += term / (2 * k - 1)
        term = term * square / k
        if term <= total * Decimal(10) ** -(DIGITS + 20):
            break
    return total * (-square).exp()


DERIVATIVES: dict[str, Callable[[Array, int], Array]] = {
    "exprel": exprel_derivative,
    "log1prel": log1prel_derivative,
    "sinhc": sinhc_derivative,
    "dawsn": dawsn_derivative,
}
