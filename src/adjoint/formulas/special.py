"""Derivatives of special functions that are too long for a row."""

from __future__ import annotations

import math
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


def density_in_shape(self: Tensor, other: Tensor, n: int) -> Tensor:
    """∂ⁿp/∂aⁿ of p = xᵃ⁻¹ e⁻ˣ / Γ(a): p times the Bell polynomial of log x - ψ(a), -ψ'(a), …"""
    slopes = [ops.where(other == 0, 1, other).log() - self.digamma()]
    slopes += [-ops.polygamma(k, self) for k in range(1, n)]
    bell: list[Any] = [1]
    for m in range(n):
        bell.append(sum(math.comb(m, k) * slopes[k] * bell[m - k] for k in range(m + 1)))
    return ops._gamma_density(self, other) * bell[n]


def density_slope(self: Tensor, other: Tensor, result: Tensor) -> Tensor:
    """∂p/∂x = p ((a - 1)/x - 1), at x = 0 as the difference of the densities at a - 1 and a."""
    zero = other == 0
    away = result * ((self - 1) / ops.where(zero, 1, other) - 1)
    return ops.where(zero, ops._gamma_density(self - 1, other) - result, away)


def zeta_mixed(self: Tensor, other: Tensor, n: int) -> Tensor:
    """-∂ζ⁽ⁿ⁾(s, q)/∂q = s ζ⁽ⁿ⁾(s+1, q) + n ζ⁽ⁿ⁻¹⁾(s+1, q), primes in s."""
    after = self + 1
    first = self * ops._zeta_derivative(after, other, n)
    return first + n * ops._zeta_derivative(after, other, n - 1)
