"""The error function and the normal distribution, and their derivatives of every order."""

from __future__ import annotations

import math

import numpy as np

from adjoint.core.lazy import Lazy
from adjoint.kernels import from_c
from adjoint.kernels.from_c import twin
from adjoint.kernels.special.common import (
    Array,
    branches,
    check_orders,
    exp_of_square,
    from_text,
    in_double,
    ufunc,
)

special = Lazy("scipy.special")

TWO_OVER_ROOT_PI = 1.1283791670955126
ROOT_HALF = 0.7071067811865476
ROOT_TWO_OVER_PI = 0.7978845608028654
SHIFT = 100.0  # of exponents


def erf(self: Array) -> Array:
    return ufunc("erf", self)


def erfc(self: Array) -> Array:
    return from_text("erfc", self)


@twin("erfc", single=math.erfc)
def complement(x: Array) -> Array:
    """erfc(x); its tail as e^{-x²} erfcx(x)."""
    tail = lambda x: exp_of_square(x, -1.0) * from_c.function("ad_erfcx_right")(x)
    return branches(x, x > 0.5, lambda x: tail(np.minimum(x, 30.0)), special.erfc)


def erfcx(self: Array) -> Array:
    """e^{x²} erfc(x)."""
    return from_text("ad_scaled_erfc", self)


def scaled(x: Array) -> Array:
    """e^{x²} erfc(x) of a vector of float64."""
    return np.asarray(from_c.computed("ad_scaled_erfc", x))


def erfinv(self: Array) -> Array:
    """SciPy's, which loses the sign of -0."""
    return np.copysign(ufunc("erfinv", self), self)


def ndtr(self: Array) -> Array:
    """Φ(x)."""
    return from_text("ad_normal", self)


def log_ndtr(self: Array) -> Array:
    """log Φ(x)."""
    return from_text("ad_log_normal", self)


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
    shift = np.where(a * x * x > 600, SHIFT, 0.0) if n else 0.0  # not too small before products
    before, now = np.zeros_like(x), exp_of_square(x, -a, shift) if exactly else np.exp(-a * x * x)
    for k in range(n):
        before, now = now, -2 * a * (x * now + k * before)
    if n and exactly:
        now = now * np.where(shift > 0, math.exp(-SHIFT), 1.0)
    return np.where(far, 0, now)


# --- derivatives of erfcx and log Φ ---------------------------------------------------------------


def erfcx_derivative(self: Array, n: int) -> Array:
    """n-th derivative of e^{x²} erfc(x)."""
    check_orders("_erfcx_derivative", n)
    return from_text("ad_erfcx_derivative", self, n) if n else erfcx(self)


def log_ndtr_derivative(self: Array, n: int) -> Array:
    """n-th derivative of log Φ(x), n ≥ 1."""
    check_orders("_log_ndtr_derivative", n)
    return from_text("ad_log_ndtr_derivative", self, n)


# --- inverses ----------------------------------------------------------------------------------


def erfinv_slope(self: Array) -> Array:
    """1/erf'(y) at y = erfinv(x): √π/2 e^{y²} = √π/2 erfcx(|y|) / (1 - |x|) near the ends.

    The second form does not magnify the rounding of y, and 1 - |x| is exact.
    """
    return in_double(inverse_slope, self)


def inverse_slope(x: Array) -> Array:
    return branches(x, np.abs(x) < 0.5, slope_inside, slope_outside) / TWO_OVER_ROOT_PI


def slope_inside(x: Array) -> Array:
    return np.exp(np.square(special.erfinv(x)))


def slope_outside(x: Array) -> Array:
    rest = 1 - np.abs(x)
    return np.where(rest == 0, math.inf, scaled(np.abs(special.erfinv(x))) / rest)


def ndtri_slope(self: Array) -> Array:
    """1/φ(y) at y = ndtri(p): erfcx(|y|/√2) √(π/2) / min(p, 1 - p), as for erfinv."""
    return in_double(quantile_slope, self)


def quantile_slope(p: Array) -> Array:
    y = np.abs(special.ndtri(p))
    inside = np.exp(0.5 * np.square(np.minimum(y, 0.7))) / (0.5 * ROOT_TWO_OVER_PI)
    far = np.flatnonzero(~(y < 0.7))
    rest = np.minimum(p[far], 1 - p[far]) * ROOT_TWO_OVER_PI
    inside[far] = np.where(rest == 0, math.inf, scaled(y[far] * ROOT_HALF) / rest)
    return inside
