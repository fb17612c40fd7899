"""lgamma, polygamma, and the Hurwitz zeta function with its derivatives in both arguments."""

from __future__ import annotations

import math
from functools import cache

import numpy as np

from adjoint.core.errors import ValueRangeError
from adjoint.kernels.special.common import Array, in_double, ufunc

EULER = 0.5772156649015329
SHIFT = 12  # terms summed before the Euler–Maclaurin formula takes over
# B₂ⱼ / (2j)!
BERNOULLI = (
    1 / 12,
    -1 / 720,
    1 / 30240,
    -1 / 1209600,
    1 / 47900160,
    -691 / 1307674368000,
    1 / 74724249600,
    -3617 / 10670622842880000,
)


def lgamma(self: Array) -> Array:
    """log|Γ(x)|, by its power series near the zeros at 1 and 2."""
    return in_double(log_gamma, self)


def log_gamma(x: Array) -> Array:
    from scipy import special

    one, two = np.abs(x - 1) < 0.2, np.abs(x - 2) < 0.2
    result = special.gammaln(x)
    if not (np.any(one) or np.any(two)):
        return result
    z = np.where(one, x - 1, np.where(two, x - 2, 0))
    series = log_gamma_series(z)
    return np.where(one, series, np.where(two, series + np.log1p(z), result))


def log_gamma_series(z: Array) -> Array:
    """log Γ(1 + z) = -γ z + Σ ζ(k) (-z)ᵏ / k."""
    from scipy import special

    total = np.zeros_like(z)
    for k in range(26, 1, -1):
        total = (total + float(special.zeta(k)) / k) * -z
    return (total + EULER) * -z


def digamma(self: Array) -> Array:
    """ψ(x), and ψ(±0) = ∓∞ as PyTorch."""
    result = ufunc("digamma", self)
    return np.where(self == 0, np.copysign(math.inf, -self), result).astype(self.dtype)


def polygamma(n: int, self: Array) -> Array:
    """ψ⁽ⁿ⁾(x) = (-1)ⁿ⁺¹ n! ζ(n+1, x), for negative x by reflection."""
    if n < 0:
        raise ValueRangeError(
            f"polygamma(n, x): n is {n}; it counts derivatives, so give 0 or more."
        )
    if n == 0:
        return digamma(self)
    return in_double(lambda x: polygamma_real(n, x), self)


def polygamma_real(n: int, x: Array) -> Array:
    from scipy import special

    left = x < 0
    result = (
        (-1.0) ** (n + 1) * special.gamma(n + 1.0) * special.zeta(n + 1.0, np.where(left, 1 - x, x))
    )
    if not np.any(left):
        return result
    # (-1)ⁿ ψ⁽ⁿ⁾(1-x) - ψ⁽ⁿ⁾(x) = π dⁿ/dxⁿ cot(πx)
    with np.errstate(all="ignore"):  # poles are infinite, see below
        reflected = (-1.0) ** n * result - math.pi ** (n + 1) * cotangent_derivative(x, n)
    return np.where(left, np.where(x == np.rint(x), math.inf * (-1) ** (n + 1), reflected), result)


def cotangent_derivative(x: Array, n: int) -> Array:
    """Pₙ(cot πx), the n-th derivative of the cotangent at πx."""
    rest = math.pi * (x - np.rint(x))
    return np.polynomial.polynomial.polyval(np.cos(rest) / np.sin(rest), cotangent_polynomial(n))


@cache
def cotangent_polynomial(n: int) -> Array:
    """P₀ = c, Pₙ₊₁ = -(1 + c²) Pₙ'."""
    coefficients = np.array([0.0, 1.0])
    for _ in range(n):
        slope = np.polynomial.polynomial.polyder(coefficients)
        coefficients = -np.polynomial.polynomial.polymul([1.0, 0.0, 1.0], slope)
    return coefficients


# --- zeta --------------------------------------------------------------------------------------


def zeta(self: Array | float, other: Array | float) -> Array:
    """ζ(s, q) = Σ (q + k)⁻ˢ."""
    return ufunc("zeta", self, other)


def zeta_derivative(self: Array | float, other: Array | float, n: int) -> Array:
    """∂ⁿζ(s, q)/∂sⁿ by Euler–Maclaurin summation of (-log t)ⁿ t⁻ˢ."""
    return in_double(lambda s, q: zeta_in_s(s, q, n), self, other)


def zeta_in_s(s: Array | float, q: Array | float, n: int) -> Array:
    s, q = np.broadcast_arrays(np.asarray(s, float), np.asarray(q, float))
    outside = (s <= 1) | (q <= 0)
    s, q = np.where(outside, 2.0, s), np.where(outside, 1.0, q)
    total = np.zeros_like(s)
    for k in range(SHIFT):
        total = total + (-np.log(q + k)) ** n * (q + k) ** -s
    end = q + SHIFT
    minus_log = -np.log(end)
    power = end**-s
    # ∫ (-log t)ⁿ t⁻ˢ dt = dⁿ/dsⁿ of a¹⁻ˢ/(s-1)
    parts = [
        math.comb(n, k)
        * minus_log ** (n - k)
        * (-1.0) ** k
        * math.factorial(k)
        / (s - 1) ** (k + 1)
        for k in range(n + 1)
    ]
    total = total + power * end * np.sum(parts, axis=0) + 0.5 * minus_log**n * power
    total = total + power * corrections(s, end, minus_log, n)
    return np.where(outside, math.nan, total)


def corrections(s: Array, end: Array, minus_log: Array, n: int) -> Array:
    """-Σ B₂ⱼ/(2j)! f⁽²ʲ⁻¹⁾(a) / a⁻ˢ: f⁽ᵐ⁾ = t⁻ˢ⁻ᵐ P(-log t), P → -P' - (s + m) P."""
    polynomial = [np.zeros_like(s) for _ in range(n)] + [np.ones_like(s)]
    total = np.zeros_like(s)
    for m in range(2 * len(BERNOULLI) - 1):
        slope = [(k + 1) * polynomial[k + 1] for k in range(n)] + [np.zeros_like(s)]
        polynomial = [-d - (s + m) * p for d, p in zip(slope, polynomial)]
        if m % 2 == 0:
            value = np.polynomial.polynomial.polyval(minus_log, np.stack(polynomial), tensor=False)
            total = total - BERNOULLI[m // 2] * value * end ** (-(m + 1.0))
    return total
