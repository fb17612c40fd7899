"""lgamma, polygamma, and the Hurwitz zeta function with its derivatives in both arguments."""

from __future__ import annotations

import math
from functools import cache

import numpy as np

from adjoint.core.errors import ValueRangeError
from adjoint.kernels.special.common import Array, check_orders, choose, in_double, ufunc

EULER = 0.5772156649015329
LOG_ROOT_TWO_PI = 0.9189385332046727
NEGATIVE_ROOT = -0.5040830082644554  # of digamma, less 8.15e-18
NEGATIVE_ROOT_REST = -8.15428206243813e-18
DIRECT = 20  # up to here n! and ζ(n+1, x) are taken on their own
SHIFT = 12  # terms summed before the Euler–Maclaurin formula takes over
TINY = 1e-300  # below it Γ(x) is 1/x
STEEP = 1e15  # the exponent from which a sum of powers is its first term
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

    near = (np.abs(x - 1.5) < 0.7) & (np.abs(x - 1.5) > 0.3)
    found = choose(x, near, log_gamma_near_zeros, special.gammaln)
    if (tiny := np.abs(x) < TINY).any():
        found = np.where(tiny, -np.log(np.abs(x)), found)  # SciPy has infinities there,
    return np.where(x == -np.inf, np.inf, found)  # and here -inf; C and PyTorch have not


def log_gamma_near_zeros(x: Array) -> Array:
    """By powers of x - 1, and log Γ(x) = log Γ(x-1) + log(x-1) next to 2."""
    two = x > 1.5
    z = np.where(two, x - 2, x - 1)
    return log_gamma_series(z) + np.where(two, np.log1p(z), 0)


def log_gamma_series(z: Array) -> Array:
    """log Γ(1 + z) = -γ z + Σ ζ(k) (-z)ᵏ / k."""
    total = np.zeros_like(z)
    for coefficient in log_gamma_coefficients():
        total += coefficient
        total *= -z
    return (total + EULER) * -z


@cache
def log_gamma_coefficients() -> tuple[float, ...]:
    from scipy import special

    return tuple(float(special.zeta(k)) / k for k in range(26, 1, -1))


def digamma(self: Array) -> Array:
    """ψ(x), and ψ(±0) = ∓∞ as PyTorch."""
    return in_double(digamma_real, self)


def digamma_real(x: Array) -> Array:
    from scipy import special

    # SciPy is slow about the zero between -1 and 0, and beside the poles it has no digit right.
    result = choose(x, (x < 0) & (x != np.floor(x)), digamma_below_zero, special.digamma)
    zero = x == 0
    return np.where(zero, np.copysign(math.inf, -x), result) if zero.any() else result


def digamma_below_zero(x: Array) -> Array:
    return choose(x, np.abs(x - NEGATIVE_ROOT) < 0.1, digamma_near_root, digamma_reflected)


def digamma_near_root(x: Array) -> Array:
    """Its Taylor series at the zero, which is NEGATIVE_ROOT to twice the precision."""
    step = (x - NEGATIVE_ROOT) - NEGATIVE_ROOT_REST
    total = np.zeros_like(x)
    for coefficient in digamma_coefficients():
        total += coefficient
        total *= step
    return total


@cache
def digamma_coefficients() -> tuple[float, ...]:
    root = np.array(NEGATIVE_ROOT)
    return tuple(float(polygamma_real(k, root)) / math.factorial(k) for k in range(24, 0, -1))


def digamma_reflected(x: Array) -> Array:
    """ψ(1-x) - π cot πx."""
    from scipy import special

    return special.digamma(1 - x) - math.pi / np.tan(math.pi * (x - np.rint(x)))


MOST_DERIVATIVES = 10_000  # the sums take so many steps


def polygamma(n: int, self: Array) -> Array:
    """ψ⁽ⁿ⁾(x) = (-1)ⁿ⁺¹ n! ζ(n+1, x), for negative x by reflection."""
    if n < 0:
        raise ValueRangeError(
            f"polygamma(n, x): n is {n}; it counts derivatives, so give 0 or more."
        )
    if n > MOST_DERIVATIVES:
        raise ValueRangeError(
            f"polygamma(n, x): n is {n}; derivatives up to {MOST_DERIVATIVES} are computed."
        )
    if n == 0:
        return digamma(self)
    return in_double(lambda x: polygamma_real(n, x), self)


def polygamma_real(n: int, x: Array) -> Array:
    """(-1)ⁿ⁺¹ n! Σ (x+k)⁻ⁿ⁻¹: for x < 0 the terms left of 0 and those right of it on their own.

    With s = n + 1 and x = -m - f, 0 ≤ f < 1, they are (-1)ˢ (ζ(s, f) - ζ(s, 1-x)) and ζ(s, 1-f).
    """
    left = x < 0
    result = scaled_zeta(n, np.where(left, 1 - x, x))
    if np.any(left):
        rest = np.where(left, -x - np.floor(-x), 0.5)
        own, other = scaled_zeta(n, rest), scaled_zeta(n, 1 - rest)
        # The two sides together first: at half-integers they are equal.
        sign = (-1.0) ** (n + 1)
        both = np.where((rest == 0.5) & (sign < 0), 0, sign * own + other)
        reflected = both - sign * result
        near = np.where(rest < 0.5, sign * own, other)
        reflected = np.where(np.isinf(near) & (rest != 0.5), near, reflected)
        result = np.where(left, np.where(rest == 0, math.inf, reflected), result)
    return (-1.0) ** (n + 1) * result


def scaled_zeta(n: int, x: Array) -> Array:
    """n! ζ(n+1, x), x ≥ 0, where the factors alone may overflow and underflow."""
    if n <= DIRECT:
        return math.factorial(n) * zeta_of_integer(n + 1, x)
    inside = (x > 0) & np.isfinite(x)
    start = np.where(inside, x, 1)
    power = 1 / start
    for k in range(1, n + 1):
        power = power * (k / start)
    result = power * relative_zeta(n + 1, start)
    return np.where(inside, result, np.where(x == 0, math.inf, 1 / x))


def zeta_of_integer(s: int, x: Array) -> Array:
    """Σ (x+k)⁻ˢ, s ≥ 2, by Euler–Maclaurin summation."""
    total = integer_power(1 / (x + 0.0), s)
    for k in range(1, SHIFT):
        total += integer_power(1 / (x + k), s)
    inverse = 1 / (x + SHIFT)
    square = inverse * inverse
    tail = np.zeros_like(x)
    for j in range(len(BERNOULLI) - 1, -1, -1):
        rising = math.prod(range(s, s + 2 * j + 1))
        tail *= square
        tail += BERNOULLI[j] * rising
    tail *= inverse
    tail += 0.5
    tail *= inverse
    tail += 1 / (s - 1)
    tail *= integer_power(inverse, s - 1)
    return total + tail


def integer_power(x: Array, n: int) -> Array:
    result = x
    for bit in f"{n:b}"[1:]:
        result = result * result
        if bit == "1":
            result = result * x
    return result


def relative_zeta(s: int, x: Array) -> Array:
    """xˢ ζ(s, x) = Σ (x/(x+k))ˢ, by Euler–Maclaurin summation."""
    total = np.zeros_like(x)
    for k in range(SHIFT + s):
        total = total + (x / (x + k)) ** s
    end = x + (SHIFT + s)
    corrections = 0.5 + end / (s - 1)
    factor = s / end
    for j, coefficient in enumerate(BERNOULLI):
        corrections = corrections + coefficient * factor
        factor = factor * ((s + 2 * j + 1) / end) * ((s + 2 * j + 2) / end)
    return total + (x / end) ** s * corrections


def polygamma_difference(z: Array, b: Array, n: int) -> Array:
    """ψ⁽ⁿ⁾(z + b) - ψ⁽ⁿ⁾(z), accurate also where b is small beside z."""
    check_orders("_polygamma_difference", n)
    return in_double(lambda z, b: difference_in(z, b, n), z, b)


def difference_in(z: Array, b: Array, n: int) -> Array:
    """(-1)ⁿ n! Σ (z+k)⁻ⁿ⁻¹ - (z+b+k)⁻ⁿ⁻¹, by Euler–Maclaurin summation of the differences."""
    inside = (z > 0) & (z + b > 0) & np.isfinite(z + b)
    start, step = np.where(inside, z, 1), np.where(inside, b, 0)
    total = np.zeros_like(start)
    for k in range(SHIFT):
        total = total + power_difference(start + k, step, n + 1)
    end = start + SHIFT
    integral = power_difference(end, step, n) / n if n else np.log1p(step / end)
    total = total + integral + 0.5 * power_difference(end, step, n + 1)
    rising = n + 1.0
    for j, coefficient in enumerate(BERNOULLI):
        total = total + coefficient * rising * power_difference(end, step, n + 2 * j + 2)
        rising *= (n + 2 * j + 2) * (n + 2 * j + 3)
    result = (-1.0) ** n * math.factorial(n) * total
    return result if inside.all() else np.where(inside, result, plain_difference(z, b, n))


def power_difference(z: Array, b: Array, p: int) -> Array:
    """z⁻ᵖ - (z + b)⁻ᵖ."""
    return np.where(b == 0, 0.0, -np.expm1(-p * np.log1p(b / z)) * z ** (-1.0 * p))


def plain_difference(z: Array, b: Array, n: int) -> Array:
    return polygamma(n, z + b) - polygamma(n, z)


# --- Stirling's formula ------------------------------------------------------------------------


def log_excess(delta: Array, ratio: Array) -> Array:
    """δ - log(1 + δ), ratio = 1 + δ; near 0 as δ² Σ (-δ)ᵏ / (k + 2)."""
    near = np.abs(delta) < 0.1
    small = np.where(near, delta, 0)
    total = np.zeros_like(small)
    for k in range(18, -1, -1):
        total = 1 / (k + 2) - small * total
    away = delta - np.where(delta > -0.5, np.log1p(delta), np.log(ratio))
    return np.where(near, small * small * total, away)


def weighted_excess(a: Array, excess: Array, ratio: Array, log_ratio: Array) -> Array:
    """a (d - log(1 + d)), d = excess/a and 1 + d = ratio, which may be too large or too small."""
    with np.errstate(all="ignore"):
        near = a * log_excess(excess / a, ratio)
        far = excess - a * log_ratio
    return np.where((ratio > 1e-300) & (ratio < 1e300), near, far)


def exp_excess(x: Array) -> Array:
    """exp(x) - 1 - x, without cancellation near 0."""
    near = np.abs(x) < 0.5
    small = np.where(near, x, 0)
    total = np.zeros_like(x)
    for k in range(14, 1, -1):
        total = (1 + small * total) / k  # x²/2 (1 + x/3 (1 + x/4 (…)))
    return np.where(near, small * small * total, np.expm1(x) - x)


def stirling_error(a: Array) -> Array:
    """log Γ(a) - ((a - ½) log a - a + ½ log 2π): a series in 1/a from 10 on, a > 0."""
    large = a >= 10
    start = np.where(large, a, 10)
    square = 1 / (start * start)
    total = np.zeros_like(start)
    for c in (-691 / 360360, 1 / 1188, -1 / 1680, 1 / 1260, -1 / 360, 1 / 12):
        total = total * square + c
    series = total / start
    if large.all():
        return series
    small = np.where(large, 1, a)
    direct = log_gamma(small) - (small - 0.5) * np.log(small) + small - LOG_ROOT_TWO_PI
    return np.where(large, series, direct)


# --- zeta --------------------------------------------------------------------------------------


def zeta(self: Array | float, other: Array | float) -> Array:
    """ζ(s, q) = Σ (q + k)⁻ˢ."""
    found = ufunc("zeta", self, other)
    steep = (self > STEEP) & (other > 0)  # SciPy has NaN there
    if np.any(steep):
        found = np.where(steep, np.power(other, -self), found).astype(found.dtype)
    return found


def zeta_derivative(self: Array | float, other: Array | float, n: int) -> Array:
    """∂ⁿζ(s, q)/∂sⁿ by Euler–Maclaurin summation of (-log t)ⁿ t⁻ˢ."""
    check_orders("_zeta_derivative", n)
    return in_double(lambda s, q: zeta_in_s(s, q, n), self, other)


def zeta_in_s(s: Array | float, q: Array | float, n: int) -> Array:
    s, q = np.broadcast_arrays(np.asarray(s, float), np.asarray(q, float))
    outside = (s <= 1) | (q <= 0)
    far = np.where(q < 1, math.inf, 0.0)  # for s = ∞, n ≥ 1
    endless = (s == math.inf) & ~outside
    s, q = np.where(outside | endless, 2.0, s), np.where(outside, 1.0, q)
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
    return np.where(outside, math.nan, np.where(endless, far, total))


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
