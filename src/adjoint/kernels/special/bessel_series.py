"""Bessel functions of real orders by their power series, in numbers of twice as many digits.

SciPy's values are up to two hundred ulp from the truth below 25 and for small arguments. A number
is a pair (high, low) of vectors; the sums of J cancel as many digits as e^x has, which leaves
enough of 32. Functions of whole orders are in bessel.c.
"""

from __future__ import annotations

import numpy as np
from scipy import special

from adjoint.kernels.special.by_name import gamma_of_sum
from adjoint.kernels.special.common import Array

Pair = tuple[Array, Array]

NEAR = 25.0  # where series are summed, for orders up to MOST
MOST = 20.0
TERMS = 56  # of which the last is 1e-18 of the sum at 25
APART = 0.2  # of sin(πν): nearer to whole orders two functions are nearly the same
_SPLIT = 134217729.0  # 2²⁷ + 1: halves of numbers, whose products are exact


def improved(found: Array, x: Array, nu: Array, kind: str) -> Array:
    """The function of this name by its series where that has more digits than `found`."""
    near = (x > 0) & (x < NEAR) & (np.abs(nu) < MOST) & (nu != np.rint(nu))
    if kind in ("yv", "kv", "kve"):
        near &= np.abs(_sine(nu)) > APART
    if not near.any():
        return found
    z, order = (np.broadcast_to(a, near.shape)[near] for a in (x, nu))
    values, known = _SERIES[kind](z, order)
    result = found.copy()
    result[near] = np.where(known & np.isfinite(values), values, found[near])
    return result


def _first(x: Array, nu: Array) -> tuple[Array, Array]:
    return _start(x, nu) * _waving(x, nu), np.ones_like(x, bool)


def _second(x: Array, nu: Array) -> tuple[Array, Array]:
    """Y = (J_ν cos νπ - J_-ν)/sin νπ, DLMF 10.2.3."""
    whole = np.rint(nu)
    cosine = np.sin(np.pi * (0.5 - np.abs(nu - whole))) * (1 - 2 * np.mod(whole, 2))
    first, other = (_start(x, n) * _waving(x, n) for n in (nu, -nu))
    values = (first * cosine - other) / _sine(nu)
    return values, np.ones_like(x, bool)


def _third(x: Array, nu: Array) -> tuple[Array, Array]:
    """K = π/2 (I_-ν - I_ν)/sin νπ, DLMF 10.27.4, where the terms do not cancel."""
    nu = np.abs(nu)
    falling, rising = (_start(x, n) * _growing(x, n) for n in (-nu, nu))
    return np.pi / 2 * (falling - rising) / _sine(nu), np.abs(rising) < 0.25 * np.abs(falling)


def _third_scaled(x: Array, nu: Array) -> tuple[Array, Array]:
    values, known = _third(x, nu)
    return values * np.exp(x), known


def _modified(x: Array, nu: Array) -> tuple[Array, Array]:
    return _start(x, nu) * _growing(x, nu), np.ones_like(x, bool)


def _modified_scaled(x: Array, nu: Array) -> tuple[Array, Array]:
    return _start(x, nu) * _growing(x, nu) * np.exp(-x), np.ones_like(x, bool)


_SERIES = {
    "jv": _first,
    "yv": _second,
    "iv": _modified,
    "ive": _modified_scaled,
    "kv": _third,
    "kve": _third_scaled,
}


def _sine(nu: Array) -> Array:
    """sin(πν)."""
    whole = np.rint(nu)
    found: Array = np.sin(np.pi * (nu - whole)) * (1 - 2 * np.mod(whole, 2))
    return found


def _start(x: Array, nu: Array) -> Array:
    """(x/2)^ν/Γ(ν + 1)."""
    rising = nu > 0
    above = gamma_of_sum(np.where(rising, nu, 0.5), np.ones_like(nu))
    found: Array = (x / 2) ** nu / np.where(rising, above, special.gamma(nu + 1))
    return found


def _growing(x: Array, nu: Array) -> Array:
    """Σ (x²/4)^k/(k! (ν + 1)_k), DLMF 10.25.2."""
    term, total = np.ones_like(x), np.ones_like(x)
    for k in range(1, TERMS):
        term = term * (x * x / (4 * k * (k + nu)))
        total = total + term
        if np.all((np.abs(term) < 1e-19 * np.abs(total)) & (k > -nu)):
            break
    return total


def _waving(x: Array, nu: Array) -> Array:
    """Σ (-x²/4)^k/(k! (ν + 1)_k), DLMF 10.2.2."""
    nothing = np.zeros_like(x)
    square = _times((x, nothing), (0.25 * x, nothing))
    total = term = (np.ones_like(x), nothing)
    for k in range(1, TERMS):
        factor = _times(_plus((np.full_like(x, k), nothing), (nu, nothing)), (nothing - k, nothing))
        term = _over(_times(term, square), factor)
        total = _plus(total, term)
        if np.all((np.abs(term[0]) < 1e-19 * np.abs(total[0])) & (k > -nu)):
            break
    return total[0] + total[1]


def _plus(a: Pair, b: Pair) -> Pair:
    high = a[0] + b[0]
    part = high - a[0]
    rest = (a[0] - (high - part)) + (b[0] - part)
    return _ordered(high, rest + a[1] + b[1])


def _times(a: Pair, b: Pair) -> Pair:
    high = a[0] * b[0]
    return _ordered(high, _rest(a[0], b[0], high) + a[0] * b[1] + a[1] * b[0])


def _over(a: Pair, b: Pair) -> Pair:
    high = a[0] / b[0]
    product = high * b[0]
    rest = (a[0] - product) - _rest(high, b[0], product)
    return _ordered(high, (rest + a[1] - high * b[1]) / b[0])


def _ordered(high: Array, low: Array) -> Pair:
    total = high + low
    return total, low - (total - high)


def _rest(a: Array, b: Array, product: Array) -> Array:
    """a b less their product as it was rounded.  Dekker 1971."""
    a1, b1 = a * _SPLIT, b * _SPLIT
    a1, b1 = a1 - (a1 - a), b1 - (b1 - b)
    a2, b2 = a - a1, b - b1
    found: Array = ((a1 * b1 - product) + a1 * b2 + a2 * b1) + a2 * b2
    return found
