"""The incomplete gamma functions in both arguments, derivatives of every order.

∂ⁿP/∂aⁿ integrates the n-th derivative of the density up to x, ∂ⁿQ/∂aⁿ from x on; the shorter tail
is taken. There log t is counted from its mean, so that the terms have the size of the result.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from adjoint.kernels.special.common import (
    HALF_LINE,
    Array,
    check_orders,
    exp_over,
    in_double,
    ufunc,
)
from adjoint.kernels.special.gamma import (
    exp_excess,
    log_excess,
    polygamma_real,
    stirling_error,
    weighted_excess,
)

TINY = 1e-300  # in place of the shape 0
CANCELLING = 1e5  # shapes from which exponents are no differences of large numbers
HUGE = 1e300  # a shape whose square root is nothing beside the distance of two numbers


def igamma(self: Any, other: Any) -> Array:
    """P(a, x), which is 1 for the least shapes and 0 for the largest: SciPy has 0 and NaN there."""
    found = at_extremes(
        ufunc("gammainc", self, other), self, other, lambda a, x: np.ones_like(x), 0
    )
    near = (other > 0) & (other < TINY) & (self >= TINY)
    if near.any():  # in proportion to xᵃ
        shape, at = np.where(near, self, 1), np.where(near, other, TINY)
        found = np.where(
            near, np.power(at / TINY, shape) * ufunc("gammainc", shape, at * 0 + TINY), found
        )
    return found


def igammac(self: Any, other: Any) -> Array:
    """Q(a, x) = 1 - P(a, x), for the least shapes a E₁(x)."""
    from scipy import special

    least = lambda a, x: a * special.exp1(x)
    return at_extremes(ufunc("gammaincc", self, other), self, other, least, 1)


def at_extremes(found: Array, a: Array, x: Array, least: Callable[..., Array], far: int) -> Array:
    """A result with `least(a, x)` in place of shapes near 0, and `far` left of the largest ones."""
    tiny, huge = (a > 0) & (a < TINY) & (x > 0), (a > HUGE) & (a < math.inf) & (x >= 0) & (x < a)
    if tiny.any() or huge.any():
        shape, at = np.where(tiny, a, TINY), np.where(tiny, x, 1)
        found = np.where(tiny, least(shape, at), np.where(huge, far, found)).astype(found.dtype)
    return found


def gamma_density(self: Any, other: Any, n: int) -> Array:
    """n-th derivative in a of p = ∂P/∂x = xᵃ⁻¹ e⁻ˣ / Γ(a)."""
    check_orders("_gamma_density", n)
    return in_double(lambda a, x: density_in_shape(a, x, n), self, other)


def density_in_shape(a: Array, x: Array, n: int) -> Array:
    a, x = np.broadcast_arrays(a, x)
    ends = a
    a = beside_zero(a)
    inside = (a > 0) & (x > 0) & np.isfinite(x) & np.isfinite(a)
    shape, at = np.where(inside, a, 1), np.where(inside, x, 1)
    slopes = [log_from_mean(shape, at), *centred_slopes(shape, n)[1:]]
    away = exp_over(log_power(shape, at), at) * leibniz(shape, bell(slopes, n), n)
    far = np.where((x == math.inf) | ((a == math.inf) & (x > 0)), 0.0, math.nan)
    return np.where(inside, away, np.where(x == 0, at_zero(ends, n), far))


def beside_zero(a: Array) -> Array:
    """The shape 0 as one just above it: P(0, x) = 1 and its derivatives are limits."""
    return np.where((a >= 0) & (a < TINY), TINY, a)


def at_zero(a: Array, n: int) -> Array:
    """The limit for x → 0 of the derivative of xᵃ⁻¹ / Γ(a); for a = 0, -1, … it is 0 if n is."""
    from scipy import special

    height = np.where((a == 1) & (n == 0), 1.0, special.rgamma(a) * math.inf * (-1.0) ** n)
    return np.where((a > 1) | (a <= 0) & (a == np.rint(a)), 0.0, height)


def igamma_derivative(self: Any, other: Any, n: int) -> Array:
    """∂ⁿP(a, x)/∂aⁿ, n ≥ 1."""
    check_orders("_igamma_derivative", n)
    return in_double(lambda a, x: in_shape(a, x, n), self, other)


def in_shape(a: Array, x: Array, n: int) -> Array:
    a, x = np.broadcast_arrays(a, x)
    flat = ((x == 0) & (a > 0)) | (x == math.inf) | ((a == math.inf) & (x >= 0))
    result = np.where(flat, 0.0, math.nan)
    a = beside_zero(a)
    inside = (a > 0) & (x > 0) & np.isfinite(x) & np.isfinite(a)
    above = inside & (x > a + 1)
    below = inside & ~above
    result[above] = -tail(a[above], x[above], n, upper_moments)
    result[below] = lower(a[below], x[below], n)
    return result


def lower(a: Array, x: Array, n: int) -> Array:
    """∂ⁿP/∂aⁿ for x ≤ a + 1; where a < 1 by P(a, x) = P(a+1, x) + xᵃ e⁻ˣ / Γ(a+1)."""
    small = a < 1
    result = tail(np.where(small, a + 1, a), x, n, lower_moments)
    if small.any():
        a, x = a[small], x[small]
        slopes = [log_from_mean(a, x), *centred_slopes(a, n)[1:]]
        result[small] += np.exp(log_power(a, x)) * bell(slopes, n)[n]
    return result


def tail(a: Array, x: Array, n: int, moments: Any) -> Array:
    """xᵃ e⁻ˣ/Γ(a+1) Σ C(n, k) gₙ₋ₖ mₖ: g of a · exp(-log Γ(a+1)), m of the logarithm."""
    outer = bell(centred_slopes(a, n), n)
    inner = moments(a, x, n)
    terms = (math.comb(n, k) * leibniz(a, outer, n - k) * inner[k] for k in range(n + 1))
    return np.exp(log_power(a, x)) * sum(terms)


def lower_moments(a: Array, x: Array, n: int) -> list[Array]:
    """∫ (log t - ψ(a+1))ᵏ exp(-as + x(1 - e⁻ˢ)) ds, t = x e⁻ˢ: the density below x ≤ a + 1."""
    start = log_from_mean(a, x)
    scale = np.maximum(a - x, np.sqrt(x))
    moments = [np.zeros_like(a) for _ in range(n + 1)]
    large = np.flatnonzero(a > CANCELLING)
    rest, at = (a - x)[large], x[large]
    for node, weight in HALF_LINE:
        s = node / scale
        power = -a * s - x * np.expm1(-s)
        if large.size:
            power[large] = -(rest * s[large] + at * exp_excess(-s[large]))
        part = np.exp(power) * (weight / scale)
        add_powers(moments, part, start - s)
    return moments


def upper_moments(a: Array, x: Array, n: int) -> list[Array]:
    """∫ (log t - ψ(a+1))ᵏ (1+u)ᵃ⁻¹ e^{-xu} du, t = x(1 + u): the density above x > a + 1."""
    start = log_from_mean(a, x)
    scale = np.maximum(x - a, np.sqrt(x))
    moments = [np.zeros_like(a) for _ in range(n + 1)]
    large = np.flatnonzero(a > CANCELLING)
    rest, shape = (x - a + 1)[large], (a - 1)[large]
    for node, weight in HALF_LINE:
        u = node / scale
        log_u = np.log1p(u)
        power = (a - 1) * log_u - x * u
        if large.size:
            power[large] = -(rest * u[large] + shape * log_excess(u[large], 1 + u[large]))
        part = np.exp(power) * (weight / scale)
        add_powers(moments, part, start + log_u)
    return moments


def add_powers(moments: list[Array], part: Array, x: Array) -> None:
    """Add part · xᵏ to the k-th moment."""
    for moment in moments:
        moment += part
        part *= x


def centred_slopes(a: Array, n: int) -> list[Array]:
    """Derivatives of -log Γ(a+1), the first left out: it goes with the logarithm it is mean of."""
    return [np.zeros_like(a), *(-polygamma_real(k, a + 1) for k in range(1, n))]


def bell(slopes: list[Array], n: int) -> list[Array]:
    """exp(-f) dᵐ/daᵐ exp(f) for m = 0..n from the derivatives of f."""
    result = [np.ones_like(slopes[0])]
    for m in range(n):
        terms = [math.comb(m, k) * result[m - k] * slopes[k] for k in range(m + 1)]
        result.append(np.add.reduce(terms))
    return result


def leibniz(a: Array, outer: list[Array], n: int) -> Array:
    """dⁿ/daⁿ of a · g: 1/Γ(a) is a/Γ(a+1), whose polygammas do not cancel near a = 0."""
    return a * outer[n] + (n * outer[n - 1] if n else 0)


def log_power(a: Array, x: Array) -> Array:
    """log(xᵃ e⁻ˣ / Γ(a+1)) = -½ log(2πa) - e(a) - a (δ - log(1+δ)), δ = (x-a)/a, e of Stirling."""
    deviance = weighted_excess(a, x - a, x / a, np.log(x) - np.log(a))
    return -0.5 * np.log(2 * math.pi * a) - stirling_error(a) - deviance


def log_from_mean(a: Array, x: Array) -> Array:
    """log x - ψ(a+1); for large a as log(x/a) and ψ(a+1) - log a, which are small."""
    from scipy import special

    large = a > 20
    shape = np.where(large, a, 20)
    square = 1 / (shape * shape)
    series = 1 / 12 - square * (1 / 120 - square * (1 / 252 - square * (1 / 240 - square / 132)))
    delta = (x - shape) / shape
    far = np.where(x / shape > 1e-300, np.log(x / shape), np.log(x) - np.log(shape))
    ratio = np.where(np.abs(delta) < 0.5, np.log1p(delta), far)
    near_mean = ratio - 0.5 / shape + square * series
    return np.where(large, near_mean, np.log(x) - special.digamma(a + 1))
