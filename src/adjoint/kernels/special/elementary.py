"""sinc, logit and other functions made of elementary ones, with derivatives of every order."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from adjoint.kernels.special.common import (
    Array,
    branches,
    check_orders,
    horner,
    in_double,
    require_real,
    ufunc,
)

TERMS = 16  # of the power series, for |y| below SERIES + n / 2
SERIES = 2.0
SINE_OF_PI = tuple(
    (-1) ** k * math.pi ** (2 * k + 1) / math.factorial(2 * k + 1) for k in range(13)
)


def xlogy(self: Any, other: Any) -> Array:
    return ufunc("xlogy", self, other)


def x_log_x(self: Array) -> Array:
    return ufunc("xlogy", self, self)


def xlog1py(self: Any, other: Any) -> Array:
    return ufunc("xlog1py", self, other)


def entr(self: Array) -> Array:
    return ufunc("entr", self)


def expit_slope(self: Array) -> Array:
    """σ(x) σ(-x) = 1 / (4 cosh²(x/2)), from exp(-|x|): no overflow, no 1 - σ."""
    require_real("sigmoid's slope", self.dtype)
    x = np.asarray(self if self.dtype.char in "fd" else self.astype(np.float32))
    small = np.asarray(np.abs(x))
    np.negative(small, out=small)
    np.exp(small, out=small)
    below = 1 + small
    below *= below
    small /= below
    return small.astype(self.dtype, copy=False)


def logit(self: Array, eps: float | None) -> Array:
    if eps is not None:
        low, high = (np.asarray(bound).astype(self.dtype) for bound in (eps, 1 - eps))
        self = np.asarray(np.minimum(np.maximum(self, low), high))
    return in_double(log_odds, self)


def log_odds(x: Array) -> Array:
    """log(x / (1-x)); in the middle log1p((2x-1) / (1-x)), whose numerator is exact."""
    return branches(
        x,
        (x > 0.25) & (x < 0.75),
        lambda x: np.log1p((2 * x - 1) / (1 - x)),
        lambda x: np.log(x / (1 - x)),
    )


def logit_slope(self: Array, eps: float | None) -> Array:
    """1 / (x (1 - x)); NaN outside [0, 1] without eps, 0 outside [eps, 1 - eps] with it."""

    def compute(x: Array) -> Array:
        slope = 1 / (x * (1 - x))
        low, high = (0.0, 1.0) if eps is None else (eps, 1 - eps)
        outside = (x < low) | (x > high)
        return np.where(outside, math.nan if eps is None else 0.0, slope)

    return in_double(compute, self)


# --- sin y / y ---------------------------------------------------------------------------------


def sinc(self: Array) -> Array:
    return sinc_derivative(self, 0)


def sinc_derivative(self: Array, n: int) -> Array:
    """n-th derivative of sin(πx)/(πx), complex x included."""
    check_orders("_sinc_derivative", n)
    if self.dtype.kind == "c":
        wide = self.astype(np.complex128)
        y = (math.pi * wide).reshape(-1)
        result = math.pi**n * divided_sine(y, np.sin(y), np.cos(y), n)
        return result.reshape(self.shape).astype(self.dtype)
    return in_double(lambda x: math.pi**n * divided_sine_pi(x, n), self)


def spherical_bessel_j0(x: Array) -> Array:
    return spherical_bessel_j0_derivative(x, 0)


def spherical_bessel_j0_derivative(x: Array, n: int) -> Array:
    """n-th derivative of sin(x)/x."""
    check_orders("_spherical_bessel_j0_derivative", n)
    if n == 0:
        return in_double(lambda y: sine_over(np.sin(y), y), x)
    return in_double(lambda y: divided_sine(y, np.sin(y), np.cos(y), n), x)


def divided_sine_pi(x: Array, n: int) -> Array:
    """As `divided_sine` at y = πx, the sine from x less its nearest integer: exact for large x."""
    nearest = np.rint(x)
    half = 0.5 * nearest
    sign = 1 - 4 * np.abs(half - np.rint(half))  # -1 at odd integers
    rest = x - nearest
    sine = sign * sine_of_pi(rest)
    if n == 0:
        return sine_over(sine, math.pi * x)
    cosine = sign * sine_of_pi(0.5 - np.abs(rest))  # exactly 0 at half-integers
    return divided_sine(math.pi * x, sine, cosine, n)


def sine_over(sine: Array, y: Array) -> Array:
    """sin(y)/y with its limits at 0 and at infinity."""
    with np.errstate(all="ignore"):
        result = sine / y
    result[y == 0] = 1
    result[np.isinf(y)] = 0
    return result


def sine_of_pi(x: Array) -> Array:
    """sin(πx), |x| ≤ ½."""
    return x * horner(x * x, SINE_OF_PI)


def divided_sine(y: Array, sine: Array, cosine: Array, n: int) -> Array:
    """n-th derivative f of sin(y)/y: y f⁽ⁿ⁾ + n f⁽ⁿ⁻¹⁾ = sin⁽ⁿ⁾(y), and its power series near 0."""
    near = np.flatnonzero(np.abs(y) < SERIES + n / 2)
    with np.errstate(all="ignore"):
        result = sine / y
        for k in range(1, n + 1):
            result = ((-1.0) ** (k // 2) * (sine, cosine)[k % 2] - k * result) / y
    result[np.isinf(np.abs(y))] = 0
    result[near] = divided_sine_series(y[near], n)
    return result


def divided_sine_series(y: Array, n: int) -> Array:
    """Σ (-1)ᵏ y²ᵏ⁻ⁿ / ((2k+1) (2k-n)!), 2k ≥ n, by Horner's rule in y²."""
    first = (n + 1) // 2
    square = y * y
    total = np.zeros_like(y)
    for k in range(first + TERMS, first - 1, -1):
        total = total * square + (-1.0) ** k / ((2 * k + 1) * math.factorial(2 * k - n))
    return total * y if n % 2 else total
