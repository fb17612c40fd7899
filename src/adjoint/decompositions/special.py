"""Special functions made of other operators, where an expression in the row is not enough."""

from __future__ import annotations

import math
from typing import Any

from adjoint import ops
from adjoint.core.errors import ValueRangeError


def gaussian_derivative(self: Any, n: int, a: float) -> Any:
    """gₙ₊₁ = -2a (x gₙ + n gₙ₋₁) from exp(-a x²), the recurrence that native code computes."""
    now = (self * self * -a).exp()
    before = now
    for k in range(n):
        following = self * now + before * k if k else self * now
        before, now = now, following * (-2 * a)
    return now


def expit_slope(self: Any) -> Any:
    """e/(1 + e)², e = exp(-|x|)."""
    small = ops.where(self > 0, -self, self).exp()
    return small / ((1 + small) * (1 + small))


MOST_TERMS = 10_000


def mvlgamma(self: Any, p: int) -> Any:
    """log Γₚ(x) = p(p-1)/4 log π + Σ log Γ(x - j/2), j = 0..p-1."""
    if p < 1:
        raise ValueRangeError(f"mvlgamma(x, p): p is {p}; it is a dimension, so give 1 or more.")
    if p > MOST_TERMS:
        raise ValueRangeError(f"mvlgamma(x, p): p is {p}; sums of up to {MOST_TERMS} are taken.")
    total = self.lgamma()
    for j in range(1, p):
        total = total + (self - j / 2).lgamma()
    return total + p * (p - 1) / 4 * math.log(math.pi)


def dirichlet_grad(x: Any, alpha: Any, total: Any) -> Any:
    """dx/dα of a beta sample with parameters α and total - α, over 1 - x; 0 at the ends."""
    inner = (x > 0) & (x < 1)
    inside = ops.where(inner, x, 0.5)
    slope = ops._beta_slope(inside, alpha, total - alpha, 0, 0) / (1 - inside)
    return ops.where(inner, slope, 0)


def power_transform(self: Any, exponent: Any, shifted: bool) -> Any:
    """(x^y - 1)/y = log(x) (eᶻ - 1)/z, z = y log x; of 1 + x where shifted."""
    x, y = self, exponent
    log = x.log1p() if shifted else x.log()
    z = ops.special_xlog1py(y, x) if shifted else ops.xlogy(y, x)  # 0 where y and x are 0
    close = z.abs() < 3
    near = log * ops._analytic_derivative(z.where(close, 0.0), "exprel", 0)
    base, steep = x.where(~close, 1.0), y.where(~close, 1.0)
    power = one_more_to(base, steep) if shifted else base.pow(steep)
    return ops.where(close, near, (power - 1) / steep)


def one_more_to(x: Any, y: Any) -> Any:
    """(1 + x)^y, with the digits that 1 + x has lost."""
    base, fixed = 1 + x, x.detach()
    whole = base.detach()
    lost = ops.where(fixed.abs() < 1, fixed - (whole - 1), 1 - (whole - fixed))
    return base.pow(y) * (1 + (y * lost / whole).where(whole.isfinite() & (whole != 0), 0.0))


def inverse_power_transform(self: Any, exponent: Any, shifted: bool) -> Any:
    """(1 + xy)^(1/y), and eˣ where y is 0, less 1 where shifted; by the exponent where that is not
    large.
    """
    x, y = self, exponent
    shift = x * y
    close = (shift.abs() < 0.5) | (((shift - 1.5).abs() < 1.5) & (x.abs() < 4))
    small = x * ops._analytic_derivative(shift.where(close, 0.0), "log1prel", 0)
    near = small.expm1() if shifted else small.exp()
    far = (1 + shift).where(~close, 1.0).pow(1 / y.where(~close, 1.0))
    return ops.where(close, near, far - 1 if shifted else far)


def student_log_density(t: Any, df: Any) -> Any:
    """-ν/2 log(1 + t²/ν) - log(1 + t²/ν)/2 - log(2π)/2 + h(ν/2), where the first term is a multiple
    of t² if t²/ν is small and h falls as 1/ν: nothing cancels for large ν."""
    s = t / df.sqrt()
    far = s.abs() > 1
    near, beyond = s.where(~far, 0.0), s.where(far, 2.0)
    log_far = 2 * ops.hypot(beyond, ops.ones_like(s)).log()
    small = near * near
    within = t.where(~far, 0.0).square() * ops._analytic_derivative(small, "log1prel", 0)
    first = ops.where(far, df * log_far, within)
    rest = ops.where(far, log_far, small.log1p())
    return -(first + rest) / 2 - math.log(2 * math.pi) / 2 + ops._half_step(df / 2, 0)


def student_cdf(t: Any, df: Any) -> Any:
    """Student's distribution function F: 1/2 and an odd series in t in the middle, elsewhere half
    the incomplete beta function of whichever fraction of t² + ν is small; ν = ∞ is normal."""
    normal = df > 1e22  # t⁴/4ν, by which they differ, is no digit
    heavy = _heavy_cdf(t, df.where(~normal, 1.0))
    return ops.where(normal, ops.special_ndtr(t), heavy)


def _heavy_cdf(t: Any, df: Any) -> Any:
    s = t / df.sqrt()
    middle = (t.abs() < 0.5) & (s.abs() < 0.25)
    inside = _student_middle(t.where(middle, 0.0), s.where(middle, 0.0), df)
    tail = _student_tail(s.where(~middle, 1.0).abs(), t.where(~middle, 1.0), df)
    outside = ops.where(t < 0, tail, 1 - tail)
    return ops.where(middle, 0.5 + inside, outside)


def _student_middle(t: Any, s: Any, df: Any) -> Any:
    """F - 1/2 = t f(0) ₂F₁(1/2, (ν + 1)/2; 3/2; -t²/ν)."""
    half = (df + 1) / 2
    total = ops.ones_like(s)
    for k in range(15, -1, -1):
        total = 1 - s * s * total * ((k + 0.5) / ((k + 1.5) * (k + 1))) * (half + k)
    return t * total * ops._half_step(df / 2, 0).exp() / math.sqrt(2 * math.pi)


def _student_tail(s: Any, t: Any, df: Any) -> Any:
    """1 - F for |t| = s √ν."""
    outer = s > 1
    half = ops.full_like(df * s, 0.5)
    far, square = s.where(outer, 2.0), t.where(~outer, 1.0).square()
    one = ops.ones_like(s)
    beyond = ops.special_betainc(df / 2, half, (1 / ops.hypot(far, one)).square())
    within = ops._scipy(half, df / 2, square / (square + df), "betaincc")
    return ops.where(outer, beyond, within) / 2
