"""The beta function and the incomplete beta function, derivatives of every order in a, b and x."""

from __future__ import annotations

from typing import Any

from adjoint.kernels.special.common import Array, check_orders, from_text


def beta(self: Any, other: Any) -> Array:
    """B(a, b)."""
    return from_text("ad_beta", self, other)


def betaln(self: Any, other: Any) -> Array:
    """log|B(a, b)|."""
    return from_text("ad_betaln", self, other)


def betainc(a: Any, b: Any, x: Any) -> Array:
    """I(a, b, x)."""
    return from_text("ad_betainc", a, b, x)


def beta_density(a: Any, b: Any, x: Any, i: int, j: int, m: int = 0) -> Array:
    """∂ⁱ⁺ʲ⁺ᵐ/∂aⁱ∂bʲ∂xᵐ of p = ∂I/∂x = xᵃ⁻¹ (1-x)ᵇ⁻¹ / B(a, b)."""
    check_orders("_beta_density", i, j, m)
    return from_text("ad_beta_density", a, b, x, i, j, m)


def betainc_derivative(a: Any, b: Any, x: Any, i: int, j: int) -> Array:
    """∂ⁱ⁺ʲI(a, b, x)/∂aⁱ∂bʲ, i + j ≥ 1."""
    check_orders("_betainc_derivative", i, j)
    return from_text("ad_betainc_derivative", a, b, x, i, j)
