"""Special functions made of other operators, where an expression in the row is not enough."""

from __future__ import annotations

import math
from typing import Any

from adjoint.core.errors import ValueRangeError


def gaussian_derivative(self: Any, n: int, a: float) -> Any:
    """gₙ₊₁ = -2a (x gₙ + n gₙ₋₁) from exp(-a x²): what native code computes."""
    now = (self * self * -a).exp()
    before = now
    for k in range(n):
        following = self * now + before * k if k else self * now
        before, now = now, following * (-2 * a)
    return now


def mvlgamma(self: Any, p: int) -> Any:
    """log Γₚ(x) = p(p-1)/4 log π + Σ log Γ(x - j/2), j = 0..p-1."""
    if p < 1:
        raise ValueRangeError(f"mvlgamma(x, p): p is {p}; it is a dimension, so give 1 or more.")
    total = self.lgamma()
    for j in range(1, p):
        total = total + (self - j / 2).lgamma()
    return total + p * (p - 1) / 4 * math.log(math.pi)
