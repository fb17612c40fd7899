"""SciPy's functions by name; inverses of distribution functions by a step of Newton's more.

SciPy's inverses are some ten ulp from the truth, and their derivatives, which are functions of
them, some ten times as many.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from adjoint.kernels.special.common import Array, ufunc
from adjoint.kernels.special.incomplete import gamma_density, igamma, igammac
from adjoint.kernels.special.incomplete_beta import beta_density, betainc

CLOSE = 1e-8  # relative: a longer step than this comes from a residual without digits


def named(name: str, part: int, *operands: Any) -> Array:
    """Return one result of SciPy's function of that name."""
    found = ufunc(name, *operands, part=part)
    step = _STEPS.get(name)
    if step is None or found.dtype != np.float64 or not found.size:
        return found
    moved = found - step(found, *(np.asarray(x, np.float64) for x in operands))
    return np.where(np.abs(moved - found) <= CLOSE * found, moved, found)


def _of_gamma(x: Array, a: Array, p: Array) -> Array:
    return _beyond(a, x, p, 1 - p) / gamma_density(a, x, 0)


def _of_upper_gamma(x: Array, a: Array, q: Array) -> Array:
    return _beyond(a, x, 1 - q, q) / gamma_density(a, x, 0)


def _beyond(a: Array, x: Array, p: Array, q: Array) -> Array:
    """P(a, x) - p = q - Q(a, x), of the smaller ones."""
    return np.where(p < q, igamma(a, x) - p, q - igammac(a, x))


def _of_beta(x: Array, a: Array, b: Array, p: Array) -> Array:
    return (betainc(a, b, x) - p) / beta_density(a, b, x, 0, 0)


def _of_upper_beta(x: Array, a: Array, b: Array, p: Array) -> Array:
    """No step where p, which is taken from 1, is a small number."""
    return np.where(p > 0.25, _of_beta(x, a, b, 1 - p), np.inf)


_STEPS: dict[str, Callable[..., Array]] = {
    "gammaincinv": _of_gamma,
    "gammainccinv": _of_upper_gamma,
    "betaincinv": _of_beta,
    "betainccinv": _of_upper_beta,
}
