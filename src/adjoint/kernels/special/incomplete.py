"""The incomplete gamma functions in both arguments, derivatives of every order.

∂ⁿ/∂aⁿ comes from integrals and series of logarithms: below x ≈ a + 1 from the power series of P,
above from Q = F(a, x) ∫ (1+u)ᵃ⁻¹ e^{-xu} du with F = xᵃ e⁻ˣ / Γ(a), whose integrand is positive.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from adjoint.kernels.special.common import Array, in_double, ufunc


def igamma(self: Any, other: Any) -> Array:
    return ufunc("gammainc", self, other)


def igammac(self: Any, other: Any) -> Array:
    return ufunc("gammaincc", self, other)


def density(self: Any, other: Any) -> Array:
    """∂P/∂x = xᵃ⁻¹ e⁻ˣ / Γ(a)."""
    return in_double(gamma_density, self, other)


def gamma_density(a: Array, x: Array) -> Array:
    return np.where(x == 0, at_zero(a), np.exp(log_factor(a, np.where(x == 0, 1, x))) / x)


def at_zero(a: Array) -> Array:
    return np.where((a > 1) | (a == 0), 0.0, np.where(a == 1, 1.0, math.inf))


def log_factor(a: Array, x: Array) -> Array:
    """log(xᵃ e⁻ˣ / Γ(a)); for large a by Stirling's formula, where a log x, x and log Γ cancel."""
    from scipy import special

    small = a < 10
    with np.errstate(all="ignore"):
        plain = special.xlogy(a, x) - x - special.gammaln(np.where(small, a, 1))
    large = np.where(small, 10, a)
    delta = (x - large) / large
    deviance = large * np.where(
        np.abs(delta) < 0.5, -special.log1p(delta) + delta, delta - np.log(x / large)
    )
    near = np.abs(delta) < 0.1
    deviance = np.where(near, large * log_excess(np.where(near, delta, 0)), deviance)
    stirling = 0.5 * np.log(large / (2 * math.pi)) - stirling_error(large) - deviance
    return np.where(small, plain, stirling)


def log_excess(delta: Array) -> Array:
    """δ - log(1 + δ) = δ² Σ (-δ)ᵏ / (k + 2), |δ| < 0.1."""
    total = np.zeros_like(delta)
    for k in range(18, -1, -1):
        total = 1 / (k + 2) - delta * total
    return delta * delta * total


def stirling_error(a: Array) -> Array:
    """log Γ(a) - ((a - ½) log a - a + ½ log 2π), a ≥ 10."""
    square = 1 / (a * a)
    total = np.zeros_like(a)
    for c in (-691 / 360360, 1 / 1188, -1 / 1680, 1 / 1260, -1 / 360, 1 / 12):
        total = total * square + c
    return total / a


def igamma_derivative(self: Any, other: Any, n: int) -> Array:
    """∂ⁿP(a, x)/∂aⁿ, n ≥ 1."""
    return in_double(lambda a, x: in_shape(a, x, n), self, other)


def in_shape(a: Array, x: Array, n: int) -> Array:
    a, x = np.broadcast_arrays(a, x)
    result = np.where((x == 0) & (a > 0) | (np.isinf(x) & (x > 0)), 0.0, math.nan)
    inside = (a > 0) & (x > 0) & np.isfinite(x) & np.isfinite(a)
    above = inside & (x > a + 1)
    below = inside & ~above
    result[above] = -upper(a[above], x[above], n)
    result[below] = lower(a[below], x[below], n)
    return result


def logarithmic(a: Array, x: Array, n: int) -> list[Array]:
    """F⁽ᵐ⁾/F in a for m = 0..n, F = xᵃ/Γ(a): complete Bell polynomials of log x - ψ, -ψ', …"""
    from scipy import special

    slopes = [np.log(x) - special.digamma(a)]
    slopes += [-special.polygamma(k, a) for k in range(1, n)]
    bell = [np.ones_like(a)]
    for m in range(n):
        terms = [math.comb(m, k) * bell[m - k] * slopes[k] for k in range(m + 1)]
        bell.append(np.add.reduce(terms))
    return bell


def lower(a: Array, x: Array, n: int) -> Array:
    """P = Σ xᵃ⁺ᵏ e⁻ˣ / Γ(a + k + 1), differentiated term by term."""
    if a.size == 0:
        return a
    factor = np.exp(log_factor(a, x)) / a
    count = int(min(40 + 12 * math.sqrt(float(a.max()) + 1), 1e5))
    total = np.zeros_like(a)
    for k in range(count):
        total = total + factor * logarithmic(a + k + 1, x, n)[n]
        factor = factor * x / (a + k + 1)
    return total


def upper(a: Array, x: Array, n: int) -> Array:
    """∂ⁿQ/∂aⁿ = F Σ C(n, j) (F⁽ⁿ⁻ʲ⁾/F) ∫ (1+u)ᵃ⁻¹ logʲ(1+u) e^{-xu} du, x > a + 1.

    With u = exp(s - e⁻ˢ)/scale the trapezoidal rule in s has all digits.
    """
    scale = np.maximum(x - a, np.sqrt(x))
    moments = [np.zeros_like(a) for _ in range(n + 1)]
    step = 1 / 16
    for s in np.arange(-4.0, 6.5, step):
        reach = math.exp(s - math.exp(-s))
        u = reach / scale
        log_u = np.log1p(u)
        weight = np.exp((a - 1) * log_u - x * u) * u * (1 + math.exp(-s)) * step
        for j in range(n + 1):
            moments[j] = moments[j] + weight * log_u**j
    # 1/Γ(a) = a/Γ(a+1) by Leibniz' rule: near a = 0 the polygammas of a itself would cancel.
    bell = logarithmic(a + 1, x, n)
    factors = [a * bell[m] + (m * bell[m - 1] if m else 0) for m in range(n + 1)]
    total = sum(math.comb(n, j) * factors[n - j] * moments[j] for j in range(n + 1))
    return np.exp(log_factor(a, x)) / a * total
