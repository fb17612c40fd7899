"""Bessel functions of whole orders and their derivatives; SciPy's of real orders."""

from __future__ import annotations

import numpy as np

from adjoint.core.errors import ValueRangeError
from adjoint.kernels.special.bessel_series import improved
from adjoint.kernels.special.common import Array, check_orders, from_text, ufunc

KINDS = ("jv", "yv", "iv", "kv", "ive", "kve")


def bessel(x: Array, nu: Array, kind: str) -> Array:
    """SciPy's function of this name: jv, yv, iv, kv, and ive, kve scaled by an exponential."""
    if kind not in KINDS:
        raise ValueRangeError(f"_bessel: no kind {kind!r}; there are {', '.join(KINDS)}.")
    found = ufunc(kind, nu, x)
    if found.dtype != np.float64:
        return found
    with np.errstate(all="ignore"):
        return improved(found, x, nu, kind)


def bessel_i_derivative(self: Array, order: int, n: int) -> Array:
    """n-th derivative of I_order."""
    return _derivative("_bessel_i_derivative", self, order, n, 0)


def bessel_k_derivative(self: Array, order: int, n: int) -> Array:
    """n-th derivative of K_order."""
    return _derivative("_bessel_k_derivative", self, order, n, 1)


def bessel_j_derivative(self: Array, order: int, n: int) -> Array:
    """n-th derivative of J_order."""
    return _derivative("_bessel_j_derivative", self, order, n, 2)


def bessel_y_derivative(self: Array, order: int, n: int) -> Array:
    """n-th derivative of Y_order."""
    return _derivative("_bessel_y_derivative", self, order, n, 3)


def _derivative(what: str, x: Array, order: int, n: int, kind: int) -> Array:
    check_orders(what, order, n)
    return from_text("ad_bessel_derivative", x, order, n, kind)


def i0e_derivative(self: Array, n: int) -> Array:
    """n-th derivative of e^{-|x|} I₀(x); at the kink x = 0 that of odd order is taken as 0."""
    check_orders("_i0e_derivative", n)
    return from_text("ad_scaled_i", self, 0, n)


def i1e_derivative(self: Array, n: int) -> Array:
    """n-th derivative of e^{-|x|} I₁(x); at the kink x = 0 that of even order is taken as 0."""
    check_orders("_i1e_derivative", n)
    return from_text("ad_scaled_i", self, 1, n)


def scaled_k_derivative(x: Array, order: int, n: int) -> Array:
    """n-th derivative of eˣ K_order(x)."""
    check_orders("_scaled_k_derivative", order, n)
    return from_text("ad_scaled_k_derivative", x, order, n)
