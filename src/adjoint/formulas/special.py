"""Derivatives of special functions that are too long for a row."""

from __future__ import annotations

from typing import Any

from adjoint import ops

Tensor = Any
TINY = 1e-100


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


def gamma_density_slope(self: Tensor, other: Tensor, n: int, result: Tensor) -> Tensor:
    """∂p/∂x = p ((a - 1)/x - 1), n times in a; next to x = 0 as p(a - 1) - p(a).

    There p may underflow where p/x does not.
    """
    near = (other == 0) | ((other < TINY) & (self > 1))
    away = ops.where(near, 1, other)
    slope = result * ((self - 1) / away - 1)
    if n:
        slope = slope + n * ops._gamma_density(self, away, n - 1) / away
    before = ops._gamma_density(ops.where(near, self - 1, 1), ops.where(near, other, 1), n)
    return ops.where(near, before - result, slope)


def beta_density_slope(a: Tensor, b: Tensor, x: Tensor, i: int, j: int, result: Tensor) -> Tensor:
    """∂p/∂x = p (a - 1)/x - p (b - 1)/(1 - x), i times in a and j times in b."""
    left = (x == 0) | ((x < TINY) & (a > 1))
    right = x == 1
    below, above = ops.where(left, 0.5, x), 1 - ops.where(right, 0.5, x)
    rise, fall = result * ((a - 1) / below), result * ((b - 1) / above)
    if i:
        rise = rise + i * ops._beta_density(a, b, below, i - 1, j) / below
    if j:
        fall = fall + j * ops._beta_density(a, b, 1 - above, i, j - 1) / above
    slope = ops.where(left, 0, rise) - ops.where(right, 0, fall)
    at_left = _raised(a, b, x, i, j, left, 1, 0)
    return slope + at_left - _raised(a, b, x, i, j, right, 0, 1)


def _raised(
    a: Tensor, b: Tensor, x: Tensor, i: int, j: int, end: Tensor, less: int, other_less: int
) -> Tensor:
    """p (a - 1)/x as (a + b - 1) p(a - 1, b), or p (b - 1)/(1 - x), i and j times; 0 inside."""
    a, b, x = ops.where(end, a, 2), ops.where(end, b, 2), ops.where(end, x, 0.5)

    def density(i: int, j: int) -> Tensor:
        return ops._beta_density(a - less, b - other_less, x, i, j)

    total = (a + b - 1) * density(i, j)
    total = total + i * density(i - 1, j) if i else total
    total = total + j * density(i, j - 1) if j else total
    return ops.where(end, total, 0)


def zeta_mixed(self: Tensor, other: Tensor, n: int) -> Tensor:
    """-∂ζ⁽ⁿ⁾(s, q)/∂q = s ζ⁽ⁿ⁾(s+1, q) + n ζ⁽ⁿ⁻¹⁾(s+1, q), primes in s."""
    after = self + 1
    first = self * ops._zeta_derivative(after, other, n)
    return first + n * ops._zeta_derivative(after, other, n - 1)


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
