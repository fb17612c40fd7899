"""How samples of gamma and beta distributions move with their parameters."""

from __future__ import annotations

from adjoint.kernels.special.common import Array, check_orders, from_text


def gamma_slope(self: Array, output: Array, order: int) -> Array:
    """∂ⁿ/∂aⁿ of the slope dz/da of a sample z of the gamma distribution of shape a."""
    check_orders("_gamma_slope", order)
    return from_text("ad_gamma_slope", self, output, order)


def beta_slope(x: Array, a: Array, b: Array, order: int, order_other: int) -> Array:
    """∂ⁱ⁺ʲ/∂aⁱ∂bʲ of the slope dx/da of a sample x of the beta distribution of a and b."""
    check_orders("_beta_slope", order, order_other)
    return from_text("ad_beta_slope", x, a, b, order, order_other)
