"""SciPy's functions by name, and more accurate versions of a few of them.

SciPy's inverses of distribution functions are some ten ulp from the truth, and their derivatives,
which are functions of them, some ten times as many: a step of Newton's more. Its exponential
integral, error function and quotients of gamma functions lose up to a hundred ulp.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from adjoint.kernels.special import airy
from adjoint.kernels.special.analytic import analytic_derivative
from adjoint.kernels.special.common import Array, ufunc
from adjoint.kernels.special.gamma import digamma
from adjoint.kernels.special.incomplete import gamma_density, igamma, igammac
from adjoint.kernels.special.incomplete_beta import beta_density, betainc
from adjoint.kernels.special.normal import exp_of_square

CLOSE = 1e-8  # relative: what is further away has lost its digits


def named(name: str, part: int, *operands: Any) -> Array:
    """Return one result of SciPy's function of that name."""
    found = ufunc(name, *operands, part=part)
    better = _CLOSER.get(f"{name}.{part}" if part else name)
    if better is None or found.dtype != np.float64 or not found.size:
        return found
    with np.errstate(all="ignore"):
        closer = better(found, *(np.asarray(x, np.float64) for x in operands))
    return np.where(np.abs(closer - found) <= CLOSE * np.abs(found), closer, found)


def _of_gamma(x: Array, a: Array, p: Array) -> Array:
    return x - _beyond(a, x, p, 1 - p) / gamma_density(a, x, 0)


def _of_upper_gamma(x: Array, a: Array, q: Array) -> Array:
    return x - _beyond(a, x, 1 - q, q) / gamma_density(a, x, 0)


def _beyond(a: Array, x: Array, p: Array, q: Array) -> Array:
    """P(a, x) - p = q - Q(a, x), of the smaller ones."""
    return np.where(p < q, igamma(a, x) - p, q - igammac(a, x))


def _of_beta(x: Array, a: Array, b: Array, p: Array) -> Array:
    return x - (betainc(a, b, x) - p) / beta_density(a, b, x, 0, 0)


def _of_upper_beta(x: Array, a: Array, b: Array, p: Array) -> Array:
    """No step where p, which is taken from 1, is a small number."""
    return np.where(p > 0.25, _of_beta(x, a, b, 1 - p), x)


def _error_function(found: Array, x: Array) -> Array:
    """erfi(x) = 2/√π eˣ² D(x), D being Dawson's function."""
    inside = np.where(np.abs(x) < 26, x, 0.0)
    return (
        2
        / math.sqrt(math.pi)
        * exp_of_square(inside, 1.0, 0.0)
        * analytic_derivative(x, "dawsn", 0)
    )


def _exponential_integral(found: Array, x: Array) -> Array:
    """Ei(x) = γ + log x + Σ xᵏ/(k k!), x > 3, and eˣ/x Σ k!/xᵏ far out."""
    near = np.where((x > 3) & (x < 42), x, 3.0)
    total, term = np.euler_gamma + np.log(near), np.ones_like(x)
    for k in range(1, 160):
        term = term * near / k
        total = total + term / k
    far = np.where(x > 3, x, 42.0)
    series = np.ones_like(x)
    for k in range(42, 0, -1):
        series = 1 + series * k / far
    return np.where(x > 3, np.where(x < 42, total, np.exp(far) / far * series), found)


def _pochhammer(found: Array, z: Array, m: Array) -> Array:
    """Γ(z + m)/Γ(z)."""
    return np.where((z > 0) & (z + m > 0), gamma_of_sum(z, m) * ufunc("rgamma", z), found)


def _binomial(found: Array, n: Array, k: Array) -> Array:
    """Γ(n + 1)/(Γ(k + 1) Γ(n - k + 1))."""
    below, lost = _sum(n, -k)
    one = np.ones_like(below)
    chosen, rest = gamma_of_sum(k * one, one), gamma_of_sum(below, one, lost)
    inside = (below > -1) & (k > -1) & (n > -1)
    return np.where(inside, gamma_of_sum(n * one, one) / chosen / rest, found)


def gamma_of_sum(x: Array, y: Array, more: Any = 0.0) -> Array:
    """Γ(x + y + more), where more is small."""
    total, lost = _sum(x, y)
    return ufunc("gamma", total) * (1 + (lost + more) * digamma(total))


def _sum(x: Array, y: Array) -> tuple[Array, Array]:
    """x + y, and its rounding error."""
    total = np.asarray(x + y)  # a sum of 0-d arrays is none
    back = total - x
    return total, (x - (total - back)) + (y - back)


_CLOSER: dict[str, Callable[..., Array]] = {
    "gammaincinv": _of_gamma,
    "gammainccinv": _of_upper_gamma,
    "betaincinv": _of_beta,
    "betainccinv": _of_upper_beta,
    "airy.2": lambda found, x: airy.second(found, x, 0),
    "airy.3": lambda found, x: airy.second(found, x, 1),
    "erfi": _error_function,
    "expi": _exponential_integral,
    "poch": _pochhammer,
    "binom": _binomial,
}
