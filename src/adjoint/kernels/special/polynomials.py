"""Orthogonal polynomials and their derivatives, by the three-term recurrence differentiated.

pₘ₊₁ = (Aₘ x + Bₘ) pₘ - Cₘ pₘ₋₁ gives for the k-th derivative
pₘ₊₁⁽ᵏ⁾ = (Aₘ x + Bₘ) pₘ⁽ᵏ⁾ + k Aₘ pₘ⁽ᵏ⁻¹⁾ - Cₘ pₘ₋₁⁽ᵏ⁾: no division, regular at x = ±1.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from adjoint.core.errors import ArgumentError
from adjoint.kernels.special.common import Array, in_double

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
    if kind not in KINDS:
        raise ArgumentError(
            f"_orthogonal_polynomial: no kind {kind!r}; there are {', '.join(KINDS)}."
        )
    return in_double(lambda x, n: evaluate(x, n, kind, k), x, n)


def evaluate(x: Any, n: Any, kind: str, k: int) -> Array:
    x, n = np.broadcast_arrays(np.asarray(x, float), np.trunc(np.asarray(n, float)))
    (slope, offset), coefficients = KINDS[kind]
    before = [np.ones_like(x)] + [np.zeros_like(x) for _ in range(k)]
    now = [slope * x + offset] + [np.full_like(x, slope * (j == 0)) for j in range(k)]
    result = np.where(n == 0, before[k], np.where(n == 1, now[k], 0.0))
    last = int(n[np.isfinite(n)].max(initial=0))
    for m in range(1, last):
        a, b, c = coefficients(m)
        factor = a * x + b
        following = [
            factor * now[j] - c * before[j] + (j * a * now[j - 1] if j else 0.0)
            for j in range(k + 1)
        ]
        before, now = now, following
        result = np.where(n == m + 1, now[k], result)
    return np.where(np.isnan(x) & (n >= 0), x, result)
