"""sinc, logit and other functions made of elementary ones, with derivatives of every order."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from adjoint.kernels.special.common import Array, in_double, ufunc

TERMS = 16  # of the power series, for |y| below SERIES + n / 2
SERIES = 2.0


def xlogy(self: Any, other: Any) -> Array:
    return ufunc("xlogy", self, other)


def xlog1py(self: Any, other: Any) -> Array:
    return ufunc("xlog1py", self, other)


def entr(self: Array) -> Array:
    return ufunc("entr", self)


def expit(self: Array) -> Array:
    if self.dtype.kind == "c":
        return complex_sigmoid(self)
    return ufunc("expit", self)


def complex_sigmoid(self: Array) -> Array:
    """1 / (1 + exp(-z)), the half plane chosen so that exp does not overflow."""
    right = np.real(self) >= 0
    small = np.exp(np.where(right, -self, self))
    return np.where(right, 1, small) / (1 + small)


def expit_slope(self: Array) -> Array:
    """σ(x) σ(-x) = 1 / (4 cosh²(x/2)), from exp(-|x|): no overflow, no 1 - σ."""

    def compute(x: Array) -> Array:
        small = np.exp(-np.abs(x))
        return small / np.square(1 + small)

    return in_double(compute, self)


def logit(self: Array, eps: float | None) -> Array:
    if eps is not None:
        low, high = (np.asarray(bound).astype(self.dtype) for bound in (eps, 1 - eps))
        self = np.asarray(np.minimum(np.maximum(self, low), high))
    return ufunc("logit", self)


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
    if self.dtype.kind == "c":
        wide = self.astype(np.complex128)
        result = math.pi**n * divided_sine(math.pi * wide, np.sin, np.cos, n)
        return result.astype(self.dtype)
    return in_double(lambda x: math.pi**n * divided_sine_pi(x, n), self)


def spherical_bessel_j0(x: Array) -> Array:
    return spherical_bessel_j0_derivative(x, 0)


def spherical_bessel_j0_derivative(x: Array, n: int) -> Array:
    """n-th derivative of sin(x)/x."""
    return in_double(lambda y: divided_sine(y, np.sin, np.cos, n), x)


def divided_sine_pi(x: Array, n: int) -> Array:
    """As `divided_sine` at y = πx, the sine from x less its nearest integer: exact for large x."""
    nearest = np.rint(x)
    sign = np.where(np.fmod(nearest, 2) == 0, 1.0, -1.0)
    rest = x - nearest
    sine = sign * np.sin(math.pi * rest)
    cosine = sign * np.sin(math.pi * (0.5 - np.abs(rest)))  # exactly 0 at half-integers
    return divided_sine(math.pi * x, lambda _: sine, lambda _: cosine, n)


def divided_sine(y: Array, sine: Any, cosine: Any, n: int) -> Array:
    """n-th derivative f of sin(y)/y: y f⁽ⁿ⁾ + n f⁽ⁿ⁻¹⁾ = sin⁽ⁿ⁾(y), and its power series near 0."""
    near = np.abs(y) < SERIES + n / 2
    away = np.where(near, 1, y)
    cycle = (sine(y), cosine(y))
    result = cycle[0] / away
    for k in range(1, n + 1):
        result = ((-1.0) ** (k // 2) * cycle[k % 2] - k * result) / away
    result = np.where(np.isinf(np.abs(y)), 0, result)
    return np.where(near, divided_sine_series(np.where(near, y, 0), n), result)


def divided_sine_series(y: Array, n: int) -> Array:
    """Σ (-1)ᵏ y²ᵏ⁻ⁿ / ((2k+1) (2k-n)!), 2k ≥ n, by Horner's rule in y²."""
    first = (n + 1) // 2
    square = y * y
    total = np.zeros_like(y)
    for k in range(first + TERMS, first - 1, -1):
        total = total * square + (-1.0) ** k / ((2 * k + 1) * math.factorial(2 * k - n))
    return total * y if n % 2 else total
