"""The incomplete gamma functions in both arguments, derivatives of every order."""

from __future__ import annotations

from typing import Any

from adjoint.kernels.special.common import Array, check_orders, from_text


def igamma(self: Any, other: Any) -> Array:
    """P(a, x)."""
    return from_text("ad_igamma", self, other)


def igammac(self: Any, other: Any) -> Array:
    """Q(a, x) = 1 - P(a, x)."""
    return from_text("ad_igammac", self, other)


def gamma_density(self: Any, other: Any, n: int, m: int = 0) -> Array:
    """xᵃ⁻¹ e⁻ˣ / Γ(a), n times differentiated in a and m times in x."""
    check_orders("_gamma_density", n, m)
    return from_text("ad_gamma_density", self, other, n, m)


def igamma_derivative(self: Any, other: Any, n: int) -> Array:
    """∂ⁿP(a, x)/∂aⁿ, n ≥ 1."""
    check_orders("_igamma_derivative", n)
    return from_text("ad_igamma_derivative", self, other, n)
