"""Bessel functions and their derivatives of every order.

Derivatives are sums over neighbouring orders, d/dx Cₙ = (Cₙ₋₁ ± Cₙ₊₁)/2 repeated: of one sign for I
and K, dominated by one term near 0 for J and Y. Functions scaled by an exponential use integrals
or series of one sign, since there the sums over orders cancel.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache, partial

import numpy as np

from adjoint.core.errors import ValueRangeError
from adjoint.kernels.special.common import (
    Array,
    check_orders,
    choose,
    horner,
    in_double,
    piecewise,
    ufunc,
)

KINDS = ("jv", "yv", "iv", "kv", "ive", "kve")
LARGE = 25.0  # from here on the asymptotic series of i0e and i1e have all digits
FAR = 25.0  # and those of J and Y
HANKEL_TERMS = 12
LOW = 6  # orders up to here have power series near 0
TINY = 1e-300
SERIES_TERMS = 150
ASYMPTOTIC_TERMS = 40
NODES = np.arange(0, 48) * 0.16  # of the trapezoidal rule for exp(-v²) on [0, 7.5]


def function(self: Array, name: str) -> Array:
    return ufunc(name, self)


def bessel(x: Array, nu: Array, kind: str) -> Array:
    """SciPy's function of this name: jv, yv, iv, kv, and ive, kve scaled by an exponential."""
    if kind not in KINDS:
        raise ValueRangeError(f"_bessel: no kind {kind!r}; there are {', '.join(KINDS)}.")
    return ufunc(kind, nu, x)


# --- I -----------------------------------------------------------------------------------------


def bessel_i_derivative(self: Array, order: int, n: int) -> Array:
    """n-th derivative of I_order: 2⁻ⁿ Σ C(n, k) I_{order-n+2k}, terms of one sign."""
    check_orders("_bessel_i_derivative", order, n)
    return in_double(lambda x: sum_of_orders(x, order, n, modified_i, (1, 1)), self)


def modified_i(order: int, x: Array) -> Array:
    """Iₙ(x): its power series, all of one sign, and upwards from I₀ and I₁ for large x."""
    from scipy import special

    if order < 2:
        x = np.clip(x, -1e3, 1e3)  # beyond which they are infinite, also at infinity
        near, scaled = (special.i1, special.i1e) if order else (special.i0, special.i0e)
        found = choose(x, np.abs(x) > 700, partial(unscaled, scaled=scaled), near)
        return np.copysign(found, x) if order else found  # I₁(-0) is -0
    if order > LOW:
        return special.iv(order, x)
    near = np.abs(x) < 2 * LOW
    return choose(x, near, partial(power_series, order=order, sign=1), partial(i_far, order=order))


def unscaled(x: Array, scaled: Callable[[Array], Array]) -> Array:
    """e^|x| f(x), by halves: the exponential is too large before the product is."""
    half = np.exp(0.5 * np.abs(x))
    return scaled(x) * half * half


def i_far(x: Array, order: int) -> Array:
    """Iₙ₊₁ = Iₙ₋₁ - 2n/x Iₙ from I₀ and I₁, |x| above the order."""
    size = np.abs(x)
    before, now = modified_i(0, size), modified_i(1, size)
    for k in range(1, order):
        before, now = now, np.where(np.isinf(now), now, before - 2 * k / size * now)
    return now * np.sign(x) ** (order % 2)


def power_series(x: Array, order: int, sign: int) -> Array:
    """Σ signᵏ (x/2)²ᵏ⁺ⁿ / (k! (k+n)!): Iₙ or Jₙ."""
    half = 0.5 * x
    square = half * half
    terms = 8 + int(1.6 * float(np.sqrt(square.max(initial=0.0))) + 10)
    total = np.zeros_like(x)
    for k in range(terms, 0, -1):
        total += 1
        total *= square
        total *= sign / (k * (k + order))
    total += 1
    for k in range(1, order + 1):
        total *= half / k
    return total


def sum_of_orders(
    x: Array, order: int, n: int, value: Callable[[int, Array], Array], signs: tuple[int, int]
) -> Array:
    """2⁻ⁿ Σ C(n, k) upᵏ C_{order-n+2k}; `signs` are `up` and the sign of C₋₁ against C₁."""
    if n == 0:
        return value(order, x)
    up, reflected = signs
    known: dict[int, Array] = {}
    total = np.zeros_like(x)
    for k in range(n + 1):
        m = order - n + 2 * k
        if abs(m) not in known:
            known[abs(m)] = value(abs(m), x)
        factor = math.comb(n, k) * up**k * (reflected ** (m % 2) if m < 0 else 1)
        term = factor * known[abs(m)]
        total = np.where(np.isinf(term), term, total + term)  # next to a pole the last one counts
    return total / 2.0**n


def i1e(self: Array) -> Array:
    """e^{-|x|} I₁(x), odd also at -0."""
    result = ufunc("i1e", self)
    return np.copysign(result, self).astype(self.dtype, copy=False)


def i0e_derivative(self: Array, n: int) -> Array:
    """n-th derivative of e^{-|x|} I₀(x); at the kink x = 0 that of odd order is taken as 0."""
    check_orders("_i0e_derivative", n)
    return in_double(lambda x: np.sign(x) ** (n % 2) * kummer(np.abs(x), 0.5, 1.0, n), self)


def i1e_derivative(self: Array, n: int) -> Array:
    """n-th derivative of e^{-|x|} I₁(x) = x/2 M(3/2, 3, -2|x|), by Leibniz' rule."""
    check_orders("_i1e_derivative", n)

    def compute(x: Array) -> Array:
        size = np.abs(x)
        with_factor = np.where(np.isinf(size), 0, size) * kummer(size, 1.5, 3.0, n)
        total = with_factor + (n * kummer(size, 1.5, 3.0, n - 1) if n else 0)
        return np.sign(x) ** ((n + 1) % 2) * total / 2

    return in_double(compute, self)


def kummer(x: Array, a: float, b: float, n: int) -> Array:
    """n-th derivative of M(a, b, -2x), x ≥ 0: (-2)ⁿ (a)ₙ/(b)ₙ M(a+n, b+n, -2x)."""
    scale = (-2.0) ** n * rising(a, n) / rising(b, n)
    near = partial(kummer_series, a=b - a, b=b + n)
    far = partial(kummer_asymptotic, a=a + n, b=b + n)
    return scale * piecewise(x, near, far, LARGE)


def kummer_series(x: Array, a: float, b: float) -> Array:
    """e^{-2x} M(a, b, 2x): all terms positive."""
    total = term = np.ones_like(x)
    for k in range(SERIES_TERMS):
        term = term * ((a + k) / ((b + k) * (k + 1))) * (2 * x)
        total = total + term
        if k % 8 == 7 and np.all(term <= 1e-18 * total):
            break
    return np.exp(-2 * x) * total


def kummer_asymptotic(x: Array, a: float, b: float) -> Array:
    """M(a, b, -2x) ~ Γ(b)/Γ(b-a) z⁻ᵃ Σ (a)ₖ (a-b+1)ₖ / (k! zᵏ), z = 2x, to its least term."""
    z = 2 * x
    total = term = np.ones_like(z)
    for k in range(ASYMPTOTIC_TERMS):
        step = (a + k) * (a - b + 1 + k) / ((k + 1) * z)
        term = np.where(np.abs(step) < 1, term * step, 0)
        total = total + term
    return math.gamma(b) / math.gamma(b - a) * z**-a * total


def rising(a: float, n: int) -> float:
    return math.prod(a + k for k in range(n))


# --- J and Y -----------------------------------------------------------------------------------


def bessel_j_derivative(self: Array, order: int, n: int) -> Array:
    """n-th derivative of J_order: 2⁻ⁿ Σ (-1)ᵏ C(n, k) J_{order-n+2k}."""
    check_orders("_bessel_j_derivative", order, n)
    return in_double(lambda x: sum_of_orders(x, order, n, bessel_j, (-1, -1)), self)


def bessel_j(order: int, x: Array) -> Array:
    """Jₙ(x): its power series where |x| is about n or less, upwards from J₀ and J₁ beyond."""
    from scipy import special

    first = [special.j0, special.j1]
    if order < 2:
        return near_or_far(x, order, 0, first[order])
    near = np.abs(x) < order + 1.5
    if order > LOW:
        return choose(x, near, partial(special.jv, order), partial(j_beyond, order=order))
    low = partial(power_series, order=order, sign=-1)
    return choose(x, near, low, partial(j_beyond, order=order))


def j_beyond(x: Array, order: int) -> Array:
    from scipy import special

    zero, one = (near_or_far(x, k, 0, (special.j0, special.j1)[k]) for k in (0, 1))
    return upwards(zero, one, order, x, -1)


def bessel_y_derivative(self: Array, order: int, n: int) -> Array:
    """n-th derivative of Y_order, as for J."""
    check_orders("_bessel_y_derivative", order, n)
    return in_double(lambda x: sum_of_orders(x, order, n, bessel_y, (-1, -1)), self)


def bessel_y(order: int, x: Array) -> Array:
    from scipy import special

    near = [special.y0, special.y1]
    if order < 2:
        return near_or_far(x, order, 1, near[order])
    zero, one = (near_or_far(x, k, 1, near[k]) for k in (0, 1))
    return upwards(zero, one, order, x, -1)


def near_or_far(x: Array, order: int, kind: int, near: Callable[[Array], Array]) -> Array:
    """SciPy's function for |x| < 25, Hankel's expansion beyond; Y has no values left of 0."""
    far = (x if kind else np.abs(x)) >= FAR
    return choose(x, far, lambda x: hankel(x, order, kind), near)


def hankel(x: Array, order: int, kind: int) -> Array:
    """J (kind 0) or Y (kind 1) of order 0 or 1 for |x| ≥ 25, from Hankel's expansion.

    √(2/πx) (P cos ω - Q sin ω) and √(2/πx) (P sin ω + Q cos ω), ω = x - order π/2 - π/4, with ω
    resolved into sin x and cos x: subtracting π/4 first would cost x ulp.
    """
    size = np.abs(x)
    parts = [horner(-1 / (size * size), hankel_coefficients(order)[k::2]) for k in (0, 1)]
    parts[1] /= size
    finite = np.where(np.isinf(size), 0, size)
    sine, cosine = np.sin(finite), np.cos(finite)
    turned = (sine - cosine, -sine - cosine)[order]  # √2 sin ω
    ahead = (sine + cosine, sine - cosine)[order]  # √2 cos ω
    pair = (parts[0] * ahead - parts[1] * turned, parts[0] * turned + parts[1] * ahead)
    sign = np.sign(x) if order and not kind else 1.0
    return sign * pair[kind] / (math.sqrt(math.pi) * np.sqrt(size))  # π x may be too large


@cache
def hankel_coefficients(order: int) -> tuple[float, ...]:
    """aₖ = Π (4v² - (2j-1)²) / (8j), j = 1..k."""
    result = [1.0]
    for k in range(1, 2 * HANKEL_TERMS):
        result.append(result[-1] * (4 * order * order - (2 * k - 1) ** 2) / (8 * k))
    return tuple(result)


def upwards(zero: Array, one: Array, order: int, x: Array, sign: int) -> Array:
    """Cₙ₊₁ = 2n/x Cₙ + sign Cₙ₋₁ from C₀ and C₁: stable for Y and K."""
    if order == 0:
        return zero
    for k in range(1, order):
        zero, one = one, np.where(np.isinf(one), one, 2 * k / x * one + sign * zero)
    return one


# --- K -----------------------------------------------------------------------------------------


def bessel_k_derivative(self: Array, order: int, n: int) -> Array:
    """n-th derivative of K_order: (-1)ⁿ 2⁻ⁿ Σ C(n, k) K_{order-n+2k}."""
    check_orders("_bessel_k_derivative", order, n)
    return in_double(lambda x: (-1) ** n * sum_of_orders(x, order, n, modified_k, (1, 1)), self)


def modified_k(order: int, x: Array) -> Array:
    from scipy import special

    return upwards(special.k0(x), k_one(x, special.k1), order, x, 1)


def k_one(x: Array, function: Callable[[Array], Array]) -> Array:
    """K₁(x) or eˣ K₁(x), which are 1/x next to 0: SciPy has NaN at the least number."""
    return choose(x, (x > 0) & (x < TINY), np.reciprocal, function)


def k1(x: Array) -> Array:
    """K₁(x)."""
    from scipy import special

    return in_double(lambda x: k_one(x, special.k1), x)


def scaled_k1(x: Array) -> Array:
    """eˣ K₁(x)."""
    from scipy import special

    return in_double(lambda x: k_one(x, special.k1e), x)


def scaled_k_derivative(x: Array, order: int, n: int) -> Array:
    """n-th derivative of eˣ K_order(x)."""
    check_orders("_scaled_k_derivative", order, n)
    near, far = partial(scaled_k_near, order=order, n=n), partial(scaled_k_far, order=order, n=n)
    return in_double(lambda x: piecewise(x, near, far, 1.0), x)


def scaled_k_near(x: Array, order: int, n: int) -> Array:
    """x < 1: Σ C(n, j) eˣ K⁽ʲ⁾, in which the highest derivative dominates."""
    from scipy import special

    def value(m: int, x: Array) -> Array:
        return upwards(special.k0e(x), k_one(x, special.k1e), m, x, 1)

    total = np.zeros_like(x)
    for j in range(n, -1, -1):
        part = (-1) ** j * math.comb(n, j) * sum_of_orders(x, order, j, value, (1, 1))
        total = np.where(np.isinf(total), total, total + part)
    return total


def scaled_k_far(x: Array, order: int, n: int) -> Array:
    """x ≥ 1: (-1)ⁿ ∫ (cosh t - 1)ⁿ cosh(order t) e^{-x (cosh t - 1)} dt with v² = x (cosh t - 1).

    The integrand is even and analytic to |Im v| < √(2x): the trapezoidal rule has all digits.
    """
    total = np.zeros_like(x)
    for v in NODES:
        square = v * v / x
        weight = (0.5 if v == 0 else 1.0) * math.exp(-v * v)
        total = total + weight * square**n * cosh_of(order, 1 + square) / np.sqrt(x + v * v / 2)
    return (-1) ** n * math.sqrt(2) * (NODES[1] - NODES[0]) * total  # √(2x) might be too large


def cosh_of(multiple: int, cosh: Array) -> Array:
    """cosh(m t) by cosh t: cosh((m + 1) t) = 2 cosh t cosh(m t) - cosh((m - 1) t)."""
    before, now = cosh, np.ones_like(cosh)  # of -1 and 0
    for _ in range(multiple):
        before, now = now, 2 * cosh * now - before
    return now
