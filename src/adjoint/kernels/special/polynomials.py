"""Orthogonal polynomials and their derivatives, by the three-term recurrence differentiated.

pₘ₊₁ = (Aₘ x + Bₘ) pₘ - Cₘ pₘ₋₁ gives for the k-th derivative
pₘ₊₁⁽ᵏ⁾ = (Aₘ x + Bₘ) pₘ⁽ᵏ⁾ + k Aₘ pₘ⁽ᵏ⁻¹⁾ - Cₘ pₘ₋₁⁽ᵏ⁾: no division, regular at x = ±1.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from adjoint.core.errors import ArgumentError, ValueRangeError
from adjoint.kernels.special.common import Array, check_orders, in_double

HERMITE = {"hermite_h": 2.0, "hermite_he": 1.0}
LARGEST = 1 << 16  # the degree up to which the recurrence ends in a second or so
LARGE, OFTEN = 1e100, 8  # in 8 steps nothing grows by 1e200
Coefficients = Callable[[int], tuple[float, float, float]]

# p₁ = a x + b, and then A, B, C of the step from m to m + 1.
CHEBYSHEV: Coefficients = lambda m: (2.0, 0.0, 1.0)
SHIFTED: Coefficients = lambda m: (4.0, -2.0, 1.0)
KINDS: dict[str, tuple[tuple[float, float], Coefficients]] = {
    "chebyshev_t": ((1.0, 0.0), CHEBYSHEV),
    "chebyshev_u": ((2.0, 0.0), CHEBYSHEV),
    "chebyshev_v": ((2.0, -1.0), CHEBYSHEV),
    "chebyshev_w": ((2.0, 1.0), CHEBYSHEV),
    "shifted_chebyshev_t": ((2.0, -1.0), SHIFTED),
    "shifted_chebyshev_u": ((4.0, -2.0), SHIFTED),
    "shifted_chebyshev_v": ((4.0, -3.0), SHIFTED),
    "shifted_chebyshev_w": ((4.0, -1.0), SHIFTED),
    "hermite_h": ((2.0, 0.0), lambda m: (2.0, 0.0, 2.0 * m)),
    "hermite_he": ((1.0, 0.0), lambda m: (1.0, 0.0, float(m))),
    "laguerre_l": ((-1.0, 1.0), lambda m: (-1 / (m + 1), (2 * m + 1) / (m + 1), m / (m + 1))),
    "legendre_p": ((1.0, 0.0), lambda m: ((2 * m + 1) / (m + 1), 0.0, m / (m + 1))),
}


def polynomial(x: Any, n: Any, kind: str, k: int) -> Array:
    """k-th derivative in x of the polynomial of degree n; 0 for n < 0. n is cut to an integer."""
    check_orders("_polynomial", k)
    if kind not in KINDS:
        raise ArgumentError(
            f"_orthogonal_polynomial: no kind {kind!r}; there are {', '.join(KINDS)}."
        )
    if k and kind in HERMITE:
        return in_double(lambda x, n: hermite_derivative(x, n, kind, k), x, n)
    return in_double(lambda x, n: evaluate(x, n, kind, k), x, n)


def hermite_derivative(x: Any, n: Any, kind: str, k: int) -> Array:
    """Hₙ⁽ᵏ⁾ = 2ᵏ n!/(n-k)! Hₙ₋ₖ, and without 2ᵏ for He."""
    n = np.trunc(np.asarray(n, float))
    factor = math.prod((n - j for j in range(k)), start=HERMITE[kind] ** k)
    return np.where(n < k, 0.0, factor * evaluate(x, n - k, kind, 0))


def evaluate(x: Any, n: Any, kind: str, k: int) -> Array:
    n = np.trunc(np.asarray(n, float))
    last = int(n[np.isfinite(n)].max(initial=0))
    if last > LARGEST:
        raise ValueRangeError(
            f"special_{kind}: the degree must not be above {LARGEST}, got {last}; the recurrence "
            "takes one step for each."
        )
    alike = bool((n == last).all())
    x, n = np.broadcast_arrays(np.asarray(x, float), n)
    result = np.zeros(x.shape)
    for m, value, exponent in degrees(x, last, kind, k):
        if alike and m != last:
            continue
        value = np.ldexp(value, exponent) if np.any(exponent) else value
        result = value if alike else np.where(n == m, value, result)
    missing = np.isnan(x)
    return np.where(missing & (n >= 0), x, result) if missing.any() else result


def degrees(x: Array, last: int, kind: str, k: int) -> Iterator[tuple[int, Array, Any]]:
    """Degree m, k-th derivative and the power of two to multiply it with, up to degree `last`.

    With X = 2ᵉ ≥ |x| it runs on p(x)/Xᵐ as a function of x/X, and takes out what still grows: p
    may leave the range of float64 on the way, and ∞ - ∞ would be NaN.
    """
    (slope, offset), coefficients = KINDS[kind]
    e: Any = 0
    inverse: Any = 1.0
    if np.any(np.abs(x) > 1):
        e = np.maximum(np.frexp(np.where(np.isfinite(x), x, 0))[1], 0)
        inverse = np.ldexp(1.0, -e)
        x = x * inverse
    before = [np.ones_like(x)] + [np.zeros_like(x) for _ in range(k)]
    now = [slope * x + offset * inverse] + [np.full_like(x, slope * (j == 0)) for j in range(k)]
    taken: Any = 0
    yield 0, before[k], 0
    yield 1, now[k], e * (1 - k)
    for m in range(1, last):
        a, b, c = coefficients(m)
        factor = a * x + b * inverse
        weight = c * (inverse * inverse)
        following = [
            factor * now[j] - weight * before[j] + (j * a * now[j - 1] if j else 0.0)
            for j in range(k + 1)
        ]
        before, now = now, following
        if m % OFTEN == 0:
            before, now, taken = scaled_down(before, now, taken)
        yield m + 1, now[k], taken + e * (m + 1 - k)


def scaled_down(
    before: list[Array], now: list[Array], taken: Any
) -> tuple[list[Array], list[Array], Any]:
    """Both without a common power of two where they are large or small."""
    size = np.fmax.reduce([np.abs(part) for part in (*before, *now)])
    beyond = ((size > LARGE) | (size < 1 / LARGE)) & np.isfinite(size)
    if not beyond.any():
        return before, now, taken
    power = np.where(beyond, np.frexp(size)[1], 0)
    before = [np.ldexp(part, -power) for part in before]
    return before, [np.ldexp(part, -power) for part in now], taken + power
