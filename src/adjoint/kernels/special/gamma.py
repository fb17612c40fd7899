"""lgamma, polygamma, and the Hurwitz zeta function with its derivatives in both arguments."""

from __future__ import annotations

import math
from functools import cache

import numpy as np

from adjoint.core.errors import ValueRangeError
from adjoint.core.lazy import Lazy
from adjoint.kernels import from_c
from adjoint.kernels.from_c import twin
from adjoint.kernels.special.common import Array, branches, check_orders, from_text, in_double

special = Lazy("scipy.special")

NEGATIVE_ROOT = -0.5040830082644554  # of digamma, less 8.15e-18
NEGATIVE_ROOT_REST = -8.15428206243813e-18
TINY = 1e-300  # below it Γ(x) is 1/x


def lgamma(self: Array) -> Array:
    """log|Γ(x)|, by its power series near the zeros at 1 and 2."""
    return in_double(log_gamma, self)


@twin("ad_lgamma")
def log_gamma(x: Array) -> Array:
    inside = (x > 0.5) & (x < 3)
    found = branches(x, inside, log_gamma_inside, special.gammaln)
    if (tiny := np.abs(x) < TINY).any():
        found = np.where(tiny, -np.log(np.abs(x)), found)  # SciPy has infinities there,
    return np.where(x == -np.inf, np.inf, found)  # and here -inf; C and PyTorch have not


def log_gamma_inside(x: Array) -> Array:
    """log Γ by log Γ(1 + f) = -log1p(f (1-f) …), 0 ≤ f < 1, which is right at the zeros 1 and 2."""
    f = np.where(x < 1, x, np.where(x < 2, x - 1, x - 2))
    shift = np.where(x < 1, -np.log(x), np.where(x < 2, 0, np.log(np.where(x < 2, 1, x - 1))))
    return shift - np.log1p(from_c.function("ad_inverse_gamma_excess")(f))


def digamma(self: Array) -> Array:
    """ψ(x), and ψ(±0) = ∓∞ as PyTorch."""
    return in_double(digamma_real, self)


@twin("ad_digamma")
def digamma_real(x: Array) -> Array:
    # SciPy is slow near the zero between -1 and 0, and near the poles it has no correct digit.
    result = branches(x, (x < 0) & (x != np.floor(x)), digamma_below_zero, special.digamma)
    zero = x == 0
    return np.where(zero, np.copysign(math.inf, -x), result) if zero.any() else result


def digamma_below_zero(x: Array) -> Array:
    return branches(x, np.abs(x - NEGATIVE_ROOT) < 0.1, digamma_near_root, digamma_reflected)


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
    root = np.array([NEGATIVE_ROOT])
    found = (from_c.computed("ad_polygamma", root, k)[0] for k in range(24, 0, -1))
    return tuple(float(slope) / math.factorial(24 - k) for k, slope in enumerate(found))


def digamma_reflected(x: Array) -> Array:
    """ψ(1-x) - π cot πx."""
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
    return digamma(self) if n == 0 else from_text("ad_polygamma", self, n)


def polygamma_difference(z: Array, b: Array, n: int) -> Array:
    """ψ⁽ⁿ⁾(z + b) - ψ⁽ⁿ⁾(z), accurate even if b is much smaller than z."""
    check_orders("_polygamma_difference", n)
    return from_text("ad_polygamma_difference", z, b, n)


def half_step(self: Array, n: int) -> Array:
    """The n-th derivative of log Γ(a + 1/2) - log Γ(a) - log(a)/2."""
    check_orders("_half_step", n)
    return from_text("ad_half_step", self, n)


def zeta(self: Array | float, other: Array | float) -> Array:
    """ζ(s, q) = Σ (q + k)⁻ˢ."""
    return from_text("ad_hurwitz", self, other)


def zeta_derivative(self: Array | float, other: Array | float, n: int, m: int) -> Array:
    """∂ⁿ⁺ᵐζ(s, q)/∂sⁿ∂qᵐ."""
    check_orders("_zeta_derivative", n, m)
    return from_text("ad_hurwitz_derivative", self, other, n, m)
