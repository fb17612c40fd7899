"""The error function and the normal distribution, and their derivatives of every order.

The functions that matter are Jₙ(z) = e^{z²} iⁿerfc(z), repeated integrals of erfc scaled by their
decay. They are positive, Jₙ' = -2(n+1) Jₙ₊₁, and every derivative of erfcx and of log Φ is made of
them without differences of large numbers.
"""

from __future__ import annotations

import math
from functools import cache

import numpy as np

from adjoint.kernels.special.common import (
    Array,
    check_orders,
    choose,
    exp_of_square,
    in_double,
    ufunc,
)

TWO_OVER_ROOT_PI = 1.1283791670955126
ROOT_HALF = 0.7071067811865476
ROOT_TWO_OVER_PI = 0.7978845608028654
# Jₙ is taken upwards below NEAR, from Taylor series up to FAR, from a continued fraction beyond.
NEAR, FAR = 0.5, 6.0
SPACING, TAYLOR = 0.125, 13


def erf(self: Array) -> Array:
    return ufunc("erf", self)


def erfc(self: Array) -> Array:
    return ufunc("erfc", self)


def erfcx(self: Array) -> Array:
    return ufunc("erfcx", self)


def erfinv(self: Array) -> Array:
    return ufunc("erfinv", self)


def ndtr(self: Array) -> Array:
    """Φ(x); its left tail as φ(x) erfcx(-x/√2) √(π/2), whose exponent keeps all digits."""
    return in_double(normal, self) if self.dtype == np.float64 else ufunc("ndtr", self)


def normal(x: Array) -> Array:
    from scipy import special

    return choose(x, x < -1, left_of_normal, special.ndtr)


def left_of_normal(x: Array) -> Array:
    from scipy import special

    x = np.maximum(x, -100.0)  # where it is 0
    return 0.5 * exp_of_square(x, -0.5) * special.erfcx(-x * ROOT_HALF)


def log_ndtr(self: Array) -> Array:
    """log Φ(x); on the right as log(1 - Φ(-x))."""
    return in_double(log_of_normal, self) if self.dtype == np.float64 else ufunc("log_ndtr", self)


def log_of_normal(x: Array) -> Array:
    from scipy import special

    return choose(x, x > 0, lambda x: np.log1p(-normal(-x)), special.log_ndtr)


def ndtri(self: Array) -> Array:
    return ufunc("ndtri", self)


# --- the bell curve ----------------------------------------------------------------------------


def gaussian_derivative(self: Array, n: int, a: float) -> Array:
    """n-th derivative of exp(-a x²), a = 1 or 1/2: gₙ₊₁ = -2a (x gₙ + n gₙ₋₁)."""
    check_orders("_gaussian_derivative", n)
    exactly = self.dtype == np.float64  # narrower dtypes do not see the rounding of x² in float64
    return in_double(lambda x: bell(x, n, a, exactly), self)


def bell(x: Array, n: int, a: float, exactly: bool) -> Array:
    far = np.abs(x) > 100  # all derivatives underflow: no 0 · ∞
    x = np.where(far, 0, x)
    before, now = np.zeros_like(x), exp_of_square(x, -a) if exactly else np.exp(-a * x * x)
    for k in range(n):
        before, now = now, -2 * a * (x * now + k * before)
    return np.where(far, 0, now)


# --- erfcx -------------------------------------------------------------------------------------


def by_continued_fraction(z: Array, n: int, steps: int) -> list[Array]:
    """Jₖ/Jₖ₋₁ for k = 1..n and z ≥ ½, downwards: 1/rₖ₋₁ = 2z + 2k rₖ."""
    order = n + steps
    ratio = 1 / (z + np.sqrt(z * z + 2 * order))
    result = [ratio]
    for k in range(order, 1, -1):
        ratio = 1 / (2 * z + 2 * k * ratio)
        result.append(ratio)
    return result[: -n - 1 : -1]


@cache
def taylor_table(n: int) -> Array:
    """Taylor coefficients (-2)ᵏ C(n+k, k) Jₙ₊ₖ of Jₙ at ½, ½ + SPACING, … up to FAR."""
    z = np.arange(NEAR, FAR + SPACING, SPACING)
    value = scaled_integrals(z, 0)[0]
    values = [value]
    for ratio in by_continued_fraction(z, n + TAYLOR, 520):
        values.append(values[-1] * ratio)
    terms = [(-2.0) ** k * math.comb(n + k, k) * values[n + k] for k in range(TAYLOR)]
    return np.stack(terms)


def by_taylor(z: Array, n: int) -> Array:
    """Jₙ(z), ½ ≤ z < FAR, from the nearest node."""
    table = taylor_table(n)
    nearest = np.rint((z - NEAR) / SPACING)
    step = z - (NEAR + nearest * SPACING)
    index = nearest.astype(np.intp)
    total = table[-1][index]
    for row in table[-2::-1]:
        total *= step
        total += row[index]
    return total


def scaled_integrals(z: Array, n: int, *, over_first: bool = False) -> list[Array]:
    """J₀(z) … Jₙ(z): upwards for z < ½, where no digits are lost.

    With `over_first` all may be divided by J₀, so that they do not underflow: J₀ is 1 then.
    """
    from scipy import special

    result = [special.erfcx(z)]
    if over_first:
        result[0][z >= FAR] = 1
    before = np.full_like(z, TWO_OVER_ROOT_PI)
    middle, far = np.flatnonzero((z >= NEAR) & (z < FAR)), np.flatnonzero(z >= FAR)
    ratios = by_continued_fraction(z[far], n, 14) if n else []
    for k in range(1, n + 1):
        following = (0.5 * before - z * result[-1]) / k
        following[middle] = by_taylor(z[middle], k)
        following[far] = ratios[k - 1] * result[-1][far]
        before = result[-1]
        result.append(following)
    return result


def erfcx_derivative(self: Array, n: int) -> Array:
    """n-th derivative of e^{x²} erfc(x): (-2)ⁿ n! Jₙ(x)."""
    check_orders("_erfcx_derivative", n)
    scale = (-2.0) ** n * math.factorial(n)
    return in_double(lambda x: scale * scaled_integrals(x, n)[n], self)


# --- log Φ -------------------------------------------------------------------------------------


def log_ndtr_derivative(self: Array, n: int) -> Array:
    """n-th derivative of log Φ(x), n ≥ 1."""
    check_orders("_log_ndtr_derivative", n)
    return in_double(lambda x: log_normal(x, n), self)


def log_normal(x: Array, n: int) -> Array:
    return choose(x, x > 0, lambda x: right_tail(x, n), lambda x: left_tail(x, n))


def left_tail(x: Array, n: int) -> Array:
    """With z = -x/√2: log Φ = log J₀(z) - z² - log 2, and the derivatives of log J₀ are cumulants.

    mₖ = (-2)ᵏ k! Jₖ/J₀ are the moments; κₙ = mₙ - Σ C(n-1, k-1) κₖ mₙ₋ₖ.
    """
    z = -x * ROOT_HALF
    if n == 1:
        return ROOT_TWO_OVER_PI / scaled_integrals(z, 0)[0]
    integrals = scaled_integrals(z, n, over_first=True)
    moments = [
        (-2.0) ** k * math.factorial(k) * value / integrals[0] for k, value in enumerate(integrals)
    ]
    cumulants = cumulants_of(moments, n)
    return (cumulants - 2 * (n == 2)) * (-ROOT_HALF) ** n


def cumulants_of(moments: list[Array], n: int) -> Array:
    cumulants = [moments[1]]
    for order in range(2, n + 1):
        total = moments[order]
        for k in range(1, order):
            total = total - math.comb(order - 1, k - 1) * cumulants[k - 1] * moments[order - k]
        cumulants.append(total)
    return cumulants[n - 1]


def right_tail(x: Array, n: int) -> Array:
    """h = φ/Φ and h' = -h (x + h), differentiated by Leibniz' rule."""
    from scipy import special

    far = x > 100
    x = np.where(far, 0, x)
    slopes = [0.5 * ROOT_TWO_OVER_PI * exp_of_square(x, -0.5) / special.ndtr(x)]
    for order in range(1, n):
        inner = [x + slopes[0], 1 + slopes[1] if order > 1 else x, *slopes[2:]]
        terms = [math.comb(order - 1, k) * slopes[k] * inner[order - 1 - k] for k in range(order)]
        slopes.append(-np.sum(terms, axis=0))
    return np.where(far, 0, slopes[n - 1])


# --- inverses ----------------------------------------------------------------------------------


def erfinv_slope(self: Array) -> Array:
    """1/erf'(y) at y = erfinv(x): √π/2 e^{y²} = √π/2 erfcx(|y|) / (1 - |x|) near the ends.

    The second form does not magnify the rounding of y, and 1 - |x| is exact.
    """
    return in_double(inverse_slope, self)


def inverse_slope(x: Array) -> Array:
    return choose(x, np.abs(x) < 0.9, slope_inside, slope_outside) / TWO_OVER_ROOT_PI


def slope_inside(x: Array) -> Array:
    from scipy import special

    return np.exp(np.square(special.erfinv(x)))


def slope_outside(x: Array) -> Array:
    from scipy import special

    rest = 1 - np.abs(x)
    return np.where(rest == 0, math.inf, special.erfcx(np.abs(special.erfinv(x))) / rest)


def ndtri_slope(self: Array) -> Array:
    """1/φ(y) at y = ndtri(p): erfcx(|y|/√2) √(π/2) / min(p, 1 - p), as for erfinv."""
    return in_double(quantile_slope, self)


def quantile_slope(p: Array) -> Array:
    from scipy import special

    y = np.abs(special.ndtri(p))
    inside = np.exp(0.5 * np.square(np.minimum(y, 1.5))) / (0.5 * ROOT_TWO_OVER_PI)
    far = np.flatnonzero(~(y < 1.5))
    rest = np.minimum(p[far], 1 - p[far]) * ROOT_TWO_OVER_PI
    inside[far] = np.where(rest == 0, math.inf, special.erfcx(y[far] * ROOT_HALF) / rest)
    return inside
