"""Orthogonal polynomials and their derivatives."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from adjoint.core.errors import ArgumentError
from adjoint.kernels import from_c
from adjoint.kernels.special.common import Array, check_orders, in_double

KINDS = (  # in the order of ad_polynomial_starts
    "chebyshev_t", "chebyshev_u", "chebyshev_v", "chebyshev_w", "shifted_chebyshev_t",
    "shifted_chebyshev_u", "shifted_chebyshev_v", "shifted_chebyshev_w", "hermite_h", "hermite_he",
    "laguerre_l", "legendre_p",
)  # fmt: skip
LARGEST = 1 << 16  # the degree up to which the recurrence ends in a second or so


def polynomial(x: Any, n: Any, kind: str, k: int) -> Array:
    """k-th derivative in x of the polynomial of degree n; 0 for n < 0. n is cut to an integer.

    Degrees above LARGEST give NaN: the recurrence takes one step for each.
    """
    check_orders("_polynomial", k)
    if kind not in KINDS:
        raise ArgumentError(
            f"_orthogonal_polynomial: no kind {kind!r}; there are {', '.join(KINDS)}."
        )
    return in_double(lambda x, n: of_degrees(x, n, kind, k), x, n)


def of_degrees(x: Any, n: Any, kind: str, k: int) -> Array:
    """One degree after the other, since few are different; NaN beyond LARGEST."""
    x, n = np.broadcast_arrays(np.asarray(x, float), np.trunc(np.asarray(n, float)))
    result = np.where(n < 0, 0.0, math.nan)
    for degree in np.unique(n[(n >= 0) & (n <= LARGEST)]):
        own = (n == degree) & ~np.isnan(x)
        given = int(degree), KINDS.index(kind), k
        result[own] = from_c.computed("ad_polynomial_of", x[own], *given)
    return result
