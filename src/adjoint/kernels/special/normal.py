"""The error function and the normal distribution, and their derivatives of every order.

The functions that matter are Jₙ(z) = e^{z²} iⁿerfc(z), repeated integrals of erfc scaled by their
decay. They are positive, Jₙ' = -2(n+1) Jₙ₊₁, and every derivative of erfcx and of log Φ is made of
them without differences of large numbers.
"""

from __future__ import annotations

import math

import numpy as np

from adjoint.kernels.special.common import Array, exp_of_square, in_double, ufunc

TWO_OVER_ROOT_PI = 1.1283791670955126
ROOT_HALF = 0.7071067811865476
ROOT_TWO_OVER_PI = 0.7978845608028654
# From z upwards, so many steps of the continued fraction give all digits.
NEAR = 0.5  # below, the recurrence runs upwards
STEPS = ((NEAR, 520), (1.0, 130), (2.0, 50), (6.0, 14))


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

    tail = x < -1
    left = np.where(tail & (x > -100), x, -1.0)
    small = 0.5 * exp_of_square(left, -0.5) * special.erfcx(-left * ROOT_HALF)
    return np.where(tail, np.where(x > -100, small, 0), special.ndtr(x))


def log_ndtr(self: Array) -> Array:
    """log Φ(x); on the right as log(1 - Φ(-x))."""
    return in_double(log_of_normal, self) if self.dtype == np.float64 else ufunc("log_ndtr", self)


def log_of_normal(x: Array) -> Array:
    from scipy import special

    right = np.log1p(-normal(-np.abs(x)))
    return np.where(x > 0, right, special.log_ndtr(x))


def ndtri(self: Array) -> Array:
    return ufunc("ndtri", self)


# --- the bell curve ----------------------------------------------------------------------------


def gaussian_derivative(self: Array, n: int, a: float) -> Array:
    """n-th derivative of exp(-a x²), a = 1 or 1/2: gₙ₊₁ = -2a (x gₙ + n gₙ₋₁)."""
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


def integral_ratios(z: Array, n: int) -> list[Array]:
    """rₖ = Jₖ/Jₖ₋₁ for k = 1..n and z ≥ ½, downwards: 1/rₖ₋₁ = 2z + 2k rₖ."""
    result = [np.empty_like(z) for _ in range(n)]
    bounds = [*(start for start, _ in STEPS), math.inf]
    for (start, steps), end in zip(STEPS, bounds[1:]):
        part = (z >= start) & ((z < end) | (end == math.inf))
        if not part.any():
            continue
        where = z[part]
        order = n + steps
        ratio = 1 / (where + np.sqrt(where * where + 2 * order))
        for k in range(order, 0, -1):
            if k <= n:
                result[k - 1][part] = ratio
            ratio = 1 / (2 * where + 2 * k * ratio) if k > 1 else ratio
    return result


def scaled_integrals(z: Array, n: int) -> list[Array]:
    """J₀(z) … Jₙ(z): upwards for z < ½, where no digits are lost, by ratios from there on."""
    from scipy import special

    result = [special.erfcx(z)]
    large = z >= NEAR
    ratios = integral_ratios(z[large], n)
    before = np.full_like(z, TWO_OVER_ROOT_PI)
    for k in range(1, n + 1):
        following = (0.5 * before - z * result[-1]) / k
        following[large] = ratios[k - 1] * result[-1][large]
        before = result[-1]
        result.append(following)
    return result


def erfcx_derivative(self: Array, n: int) -> Array:
    """n-th derivative of e^{x²} erfc(x): (-2)ⁿ n! Jₙ(x)."""
    scale = (-2.0) ** n * math.factorial(n)
    return in_double(
        lambda x: scale * scaled_integrals(np.atleast_1d(x), n)[n].reshape(x.shape), self
    )


# --- log Φ -------------------------------------------------------------------------------------


def log_ndtr_derivative(self: Array, n: int) -> Array:
    """n-th derivative of log Φ(x), n ≥ 1."""
    return in_double(lambda x: log_normal(np.atleast_1d(x), n).reshape(x.shape), self)


def log_normal(x: Array, n: int) -> Array:
    result = np.empty_like(x)
    right = x > 0
    result[right] = right_tail(x[right], n)
    result[~right] = left_tail(x[~right], n)
    return result


def left_tail(x: Array, n: int) -> Array:
    """With z = -x/√2: log Φ = log J₀(z) - z² - log 2, and the derivatives of log J₀ are cumulants.

    mₖ = (-2)ᵏ k! Jₖ/J₀ are the moments; κₙ = mₙ - Σ C(n-1, k-1) κₖ mₙ₋ₖ.
    """
    z = -x * ROOT_HALF
    integrals = scaled_integrals(z, n)
    if n == 1:
        return ROOT_TWO_OVER_PI / integrals[0]
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
    from scipy import special

    y = np.abs(special.erfinv(x))
    size = np.abs(x)
    outer = special.erfcx(y) / (1 - size)
    return np.where(size < 0.5, np.exp(y * y), outer) / TWO_OVER_ROOT_PI


def ndtri_slope(self: Array) -> Array:
    """1/φ(y) at y = ndtri(p): erfcx(|y|/√2) √(π/2) / min(p, 1 - p), as for erfinv."""
    return in_double(quantile_slope, self)


def quantile_slope(p: Array) -> Array:
    from scipy import special

    y = np.abs(special.ndtri(p))
    return special.erfcx(y * ROOT_HALF) / (np.minimum(p, 1 - p) * ROOT_TWO_OVER_PI)
