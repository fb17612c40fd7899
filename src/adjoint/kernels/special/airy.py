"""The Airy function and its derivatives; far left its phase has as many digits as it takes."""

from __future__ import annotations

import math
from decimal import Decimal, localcontext
from functools import cache
from typing import Any

import numpy as np

from adjoint.kernels import from_c
from adjoint.kernels.special.common import Array, check_orders, in_double

HUGE = -1e9  # left of it two float64 do not hold the phase
PI_BITS = 1800
# Bi and its slope at 0, 9.2.5 and 9.2.6; steps of Taylor's series, and how far they go
BI_AT_ZERO = (
    "0.614926627446000735150922369093613553594728188648596505040879",
    "0.448288357353826357914823710398828390866226799212262061082809",
)
QUARTERS, TERMS = (-48, 40), 22


def airy_derivative(x: Array, n: int) -> Array:
    """n-th derivative of Ai."""
    check_orders("_airy_ai_derivative", n)
    return in_double(lambda x: derivative(x, n), x)


def derivative(x: Array, n: int) -> Any:
    found = np.asarray(from_c.computed("ad_airy", x, n))
    if not (huge := (x < HUGE) & (x > -math.inf)).any():
        return found
    return np.where(huge, [far_left(float(-z), n) if z < HUGE else 0.0 for z in x], found)


def far_left(z: float, n: int) -> float:
    """(cos ζ + sin ζ)/√(2π) z^{-1/4} and its derivatives, by Ai″ = x Ai."""
    phase, root = exact_phase(z), z**0.25 * math.sqrt(2 * math.pi)
    sine, cosine = math.sin(phase), math.cos(phase)
    values = [0.0, (cosine + sine) / root, (sine - cosine) / root * math.sqrt(z)]
    for k in range(2, n + 1):
        values.append(-z * values[-2] + (k - 2) * values[-3])
    return values[n + 1]


def exact_phase(z: float) -> float:
    """ζ = 2/3 z √z less the full turns, in integers."""
    above, below = z.as_integer_ratio()
    bits = 80 + int(1.5 * math.log2(z))
    zeta = math.isqrt((4 * above**3 << 2 * bits) // (9 * below**3))
    turn = 2 * pi_in_bits() >> (PI_BITS - bits)
    return (zeta % turn) / (1 << bits)


@cache
def pi_in_bits() -> int:
    """π 2**PI_BITS, from 16 arctan(1/5) - 4 arctan(1/239)."""

    def arctan_of_inverse(n: int) -> int:
        total, power, k = 0, (1 << PI_BITS + 64) // n, 1
        while power:
            total += (power if k % 4 == 1 else -power) // k
            power //= n * n
            k += 2
        return total

    return (16 * arctan_of_inverse(5) - 4 * arctan_of_inverse(239)) >> 64


def second(found: Array, x: Array, slope: int) -> Array:
    """Bi or Bi′ by Taylor's series at the nearest multiple of 1/4; elsewhere SciPy's `found`."""
    first, last = QUARTERS
    inside = (x >= first / 4) & (x <= last / 4)
    place = np.rint(4 * np.where(inside, x, 0.0))
    centre, table = place / 4, second_table()[place.astype(np.intp) - first]
    terms = [table[..., 0], table[..., 1], centre * table[..., 0] / 2]
    for k in range(1, TERMS):
        terms.append((centre * terms[k] + terms[k - 1]) / ((k + 1) * (k + 2)))
    step, total = np.where(inside, x, 0.0) - centre, np.zeros_like(x)
    for k in range(TERMS, slope - 1, -1):
        total = total * step + terms[k] * (k if slope else 1)
    return np.where(inside, total, found)


@cache
def second_table() -> Array:
    """Bi and Bi′ at quarters, by steps from 0 in numbers of 60 digits."""
    first, last = QUARTERS
    table = np.zeros((last - first + 1, 2))
    with localcontext(prec=60):
        for way, end in ((1, last), (-1, first)):
            now = tuple(map(Decimal, BI_AT_ZERO))
            for place in range(0, end + way, way):
                table[place - first] = [float(value) for value in now]
                now = _stepped(now, Decimal(place) / 4, Decimal(way) / 4)
    return table


def _stepped(start: tuple[Decimal, ...], at: Decimal, step: Decimal) -> tuple[Decimal, ...]:
    """A solution of y″ = xy and its slope, a step further."""
    terms = [*start, at * start[0] / 2]
    for k in range(1, 60):
        terms.append((at * terms[k] + terms[k - 1]) / ((k + 1) * (k + 2)))
    value = sum((c * step**k for k, c in enumerate(terms)), Decimal(0))
    slope = sum((k * c * step ** (k - 1) for k, c in enumerate(terms) if k), Decimal(0))
    return value, slope
