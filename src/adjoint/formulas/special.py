"""Derivatives of special functions that are too long for a row."""

from __future__ import annotations

from typing import Any

from adjoint import ops

Tensor = Any


def log_or_zero(self: Tensor, other: Tensor) -> Tensor:
    """∂(x log y)/∂x = log y, and 0 where x = 0 and y ≤ 0: there x log y is taken as 0."""
    return ops.where((self == 0) & (other <= 0), 1, other).log()


def log1p_or_zero(self: Tensor, other: Tensor) -> Tensor:
    """∂(x log(1 + y))/∂x = log(1 + y), and 0 where x = 0 and y ≤ -1."""
    return ops.where((self == 0) & (other <= -1), 0, other).log1p()


def quotient_or_zero(self: Any, other: Tensor) -> Tensor:
    """∂(x log y)/∂y = x / y, and 0 where both are 0: 0 log y is 0 for every y."""
    if isinstance(self, (int, float)):
        return self / other if self else ops.zeros_like(other)
    return self / ops.where((self == 0) & (other == 0), 1, other)


def bessel_slope(x: Tensor, nu: Tensor, kind: str) -> Tensor:
    """C′ᵥ = (Cᵥ₋₁ ± Cᵥ₊₁)/2, DLMF 10.6.1 and 10.29.1; K has the other sign.

    The scaled functions are e⁻|ˣ| I and eˣ K, whose exponential is differentiated, too.
    """
    below, above = (ops._bessel(x, nu + step, kind) for step in (-1, 1))
    if kind in ("jv", "yv"):
        return (below - above) / 2
    mean = (below + above) / 2
    if kind == "ive":
        return mean - x.sign() * ops._bessel(x, nu, kind)
    if kind == "kve":
        return ops._bessel(x, nu, kind) - mean
    return mean if kind == "iv" else -mean


def gamma_slope_in_sample(self: Tensor, output: Tensor, result: Tensor, order: int) -> Tensor:
    """∂g/∂z = ψ(a) - log z - g ((a-1)/z - 1), differentiated n times in a:

    ψ⁽ⁿ⁾(a) - g⁽ⁿ⁾ ((a-1)/z - 1) - n g⁽ⁿ⁻¹⁾/z, without log z for n > 0.
    """
    term = result * ((self - 1) / output - 1)
    if order == 0:
        return self.digamma() - output.log() - term
    before = ops._gamma_slope(self, output, order - 1)
    return ops.polygamma(order, self) - term - before * order / output


def beta_slope_in_sample(
    self: Tensor, a: Tensor, b: Tensor, result: Tensor, order: int, order_other: int
) -> Tensor:
    """∂h/∂x = ψ(a) - ψ(a+b) - log x - h ((a-1)/x - (b-1)/(1-x)), differentiated i times in a and

    j times in b:  … - h⁽ⁱʲ⁾ (…) - i h⁽ⁱ⁻¹ʲ⁾/x + j h⁽ⁱʲ⁻¹⁾/(1-x).
    """
    i, j = order, order_other
    total = -ops.polygamma(i + j, a + b) - result * ((a - 1) / self - (b - 1) / (1 - self))
    if j == 0:
        total = total + ops.polygamma(i, a)
    if i == j == 0:
        total = total - self.log()
    if i > 0:
        total = total - ops._beta_slope(self, a, b, i - 1, j) * i / self
    if j > 0:
        total = total + ops._beta_slope(self, a, b, i, j - 1) * j / (1 - self)
    return total
