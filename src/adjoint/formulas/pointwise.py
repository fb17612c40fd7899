"""Derivatives of elementwise operators that are too long for a row.

Each can be differentiated again at the points where the operator is not smooth: the argument of a
division or a logarithm is replaced *before* the operation (`masked_fill`), so that neither the
value nor its derivative is 0 * infinity.
"""

from __future__ import annotations

import cmath
import math
from collections.abc import Callable
from typing import Any

from adjoint import ops
from adjoint.core import dtypes
from adjoint.ops.fans import is_in_graph
from adjoint.ops.kinks import may_be_near

Tensor = Any
Scalar = bool | int | float | complex

INFINITY = math.inf


# --- powers ------------------------------------------------------------------------------------


def pow_slope(self: Tensor, exponent: Tensor) -> Tensor:
    """∂(xʸ)/∂x = y xʸ⁻¹, and 0 at x = 0, y = 0 where xʸ⁻¹ is infinite.

    Elsewhere y = 0 is not special: 0 · x⁻¹ is 0, and keeps the mixed derivative ∂²/∂x∂y = x⁻¹.
    """
    if not (self.is_complex() or exponent.is_complex()):
        return ops._power_derivative(self, exponent, 1)
    least = 1 / float(dtypes.finfo(self.dtype).max) if self.dtype.is_differentiable else 0
    corner = (self.abs() <= least) & (exponent == 0)
    base = self.masked_fill(corner, 1)
    return (exponent * base ** (exponent - 1)).masked_fill(corner, 0)


def pow_log(self: Tensor, exponent: Tensor, result: Tensor) -> Tensor:
    """∂(xʸ)/∂y = xʸ log x, which tends to 0 at x = 0 for y > 0; at y = 0 it is taken as 0.

    Where xʸ has become 0 or 1 for good, at an infinite y, it is 0 too.
    """
    order = exponent.real if exponent.is_complex() else exponent
    vanishing = (self == 0) & (order >= 0)
    settled = vanishing | (order.isinf() & ((result == 0) | (result == 1)))
    base = self.masked_fill(settled, 1)
    if exponent.is_complex() and not base.is_complex():
        base = base.to(result.dtype)  # a negative base has a complex logarithm
    return (result.masked_fill(settled, 0) * base.log()).masked_fill(settled, 0)


def power_derivative_log(self: Tensor, exponent: Tensor, n: int, result: Tensor) -> Tensor:
    """∂/∂y of y (y-1) … (y-n+1) xʸ⁻ⁿ: that times log x, and the power times the slope of the
    factors, Σ of their products without one of them."""
    at_zero = self == 0
    logarithm = self.masked_fill(at_zero, 1).log()
    found = (result * logarithm).masked_fill(at_zero & (exponent >= n), 0)
    slope: Any = 0
    for left_out in range(n):
        others = [exponent - k for k in range(n) if k != left_out]
        slope = slope + (math.prod(others) if others else 1)
    corner = at_zero & (exponent < n)
    power = self.masked_fill(corner, 1) ** (exponent - n)
    return found + (power * slope).masked_fill(corner, 0) if n else found


def pow_scalar_base_factor(self: Scalar, exponent: Tensor, result: Tensor) -> Tensor:
    """∂(aʸ)/∂y = aʸ log a; for a = 0 it is 0 where y ≥ 0. A negative a has no real derivative."""
    if self == 0:
        vanishing = (exponent.real if exponent.is_complex() else exponent) >= 0
        return (result.masked_fill(vanishing, 1) * -INFINITY).masked_fill(vanishing, 0)
    if isinstance(self, complex) or exponent.is_complex():
        return result * cmath.log(self)
    return result * (math.log(self) if self > 0 else math.nan)


def from_above(change: Tensor, result: Tensor) -> Tensor:
    """A gradient or a tangent. Its own slope at 0 is unknown, because a second-order infinitely
    small number rounds away when it is added to a finite one.
    """
    return change + ops._bend(change, result) if may_be_near(result) else change


# --- lengths and angles ------------------------------------------------------------------------


def finite_length(length: Tensor) -> Tensor:
    """The length to divide by: infinity for 0, so that the quotient and its derivative are 0."""
    return length.masked_fill(length == 0, INFINITY)


def hypot_vjp(grad: Tensor, self: Tensor, other: Tensor, result: Tensor) -> Tensor:
    """x ȳ/r. At the origin r may be infinitely small; the slope there is the slope of x alone."""
    if not may_be_near(result):
        return ops._hypot_slope(grad, self, other)
    near = lambda length: ops._directed(self, grad, length.conj())
    return _of_graph(near, result, self, other, grad)


def hypot_jvp(tangent: Tensor, self: Tensor, other: Tensor, result: Tensor) -> Tensor:
    """ẋ x/r. At the origin the slope of this, 1/r, is infinite until something makes it finite."""
    if not may_be_near(result):
        return ops._hypot_slope(tangent, self, other)
    near = lambda length: ops._directed(tangent, self, length)
    return _of_graph(near, result, self, other, tangent)


def _of_graph(
    near: Callable[[Tensor], Tensor], result: Tensor, self: Tensor, other: Tensor, factor: Tensor
) -> Tensor:
    """`near` of r; in a graph, which holds it for all points, at the origin alone."""
    if not is_in_graph(result):
        return near(result)
    origin = (self == 0) & (other == 0)
    return _near_kink(origin, result, near, ops._hypot_slope(factor, self, other))


def hypot_curvature(factor: Tensor, self: Tensor, other: Tensor) -> Tensor:
    """∂(x/r)/∂x = (y/r)²/r, times a factor: over r between the two, so that nothing underflows."""
    across = ops._hypot_slope(factor / length_or_one(self, other), other, self)
    return ops._hypot_slope(across, other, self)


def length_or_one(self: Tensor, other: Tensor) -> Tensor:
    """The distance of a point from the origin, and 1 there."""
    origin = (self == 0) & (other == 0)
    return self.masked_fill(origin, 1).hypot(other.masked_fill(origin, 1))


def abs_vjp(grad: Tensor, self: Tensor, result: Tensor) -> Tensor:
    """z ȳ/|z|, where |z| may be infinitely small: then it is complex."""
    if not may_be_near(result):
        return grad * self.sgn()
    if self.is_complex():
        return self * ops._quotient(grad, result.conj()).real
    near = lambda length: self * ops._quotient(grad, length.conj())
    return _near_kink(self == 0, result, near, self.sgn() * grad)


def abs_jvp(self_p: Tensor, self_t: Tensor, result: Tensor) -> Tensor:
    """Re(conj(z) ż)/|z|."""
    if may_be_near(result):
        if self_p.is_complex():
            return ops._quotient((self_p.conj() * self_t).real, result)
        near = lambda length: ops._quotient(self_p * self_t, length)
        return _near_kink(self_p == 0, result, near, self_p.sgn() * self_t)
    if self_p.is_complex():
        return (self_p.sgn().conj() * self_t).real
    return self_p.sgn() * self_t


def _near_kink(
    kink: Tensor, result: Tensor, near: Callable[[Tensor], Tensor], away: Tensor
) -> Tensor:
    """`near` of the length where the length is infinitely small, elsewhere `away`, whose own slope
    loses no digits: the slope of x/|x| is 0, while a quotient would give 0 only up to rounding.
    """
    return ops.where(kink, near(result.masked_fill(~kink, 1)), away)


def sgn_derivative(direction: Tensor, self: Tensor, result: Tensor) -> Tensor:
    """(v - s Re(conj(s) v)) / |z| with s = z/|z|: the part of v across z. Its own adjoint.

    0 for reals, and 0 at z = 0.
    """
    if not self.is_complex():
        return ops.zeros_like(direction)
    across = direction - result * (result.conj() * direction).real
    return across / finite_length(self.abs())


def angle_vjp(grad: Tensor, self: Tensor) -> Tensor:
    """i z / |z|² = i sgn(z) / |z|, and 0 at z = 0; the angle of reals does not change."""
    if not self.is_complex():
        return ops.zeros_like(grad)
    return grad * 1j * (self.sgn() / finite_length(self.abs()))


def angle_jvp(self_p: Tensor, self_t: Tensor) -> Tensor:
    """Im(ż / z), and 0 at z = 0."""
    if not self_p.is_complex():
        return ops.zeros_like(self_t)
    return (self_t * (self_p.sgn() / finite_length(self_p.abs())).conj()).imag


# --- shares -------------------------------------------------------------------------------------


def share_rate(self: Tensor, other: Tensor, binary: bool) -> Tensor:
    """The logarithmic slope of σ(d) σ(-d) in d = a - b: -tanh(d/2), or for d log 2."""
    scale = math.log(2) if binary else 1.0
    return ((other - self).masked_fill(self == other, 0) * (scale / 2)).tanh() * scale


# --- choices -----------------------------------------------------------------------------------


def clamp_inside(self: Tensor, low: Any, high: Any) -> Tensor:
    """Whether an element is within the limits, which are included; NaN is not."""
    if low is None:
        return self <= high
    if high is None:
        return self >= low
    return (self >= low) & (self <= high)


def clamp_at_min(self: Tensor, low: Tensor, high: Tensor | None) -> Tensor:
    """Whether the result is the lower limit; where low > high it is the upper one."""
    return self < low if high is None else (self < low) & (low <= high)


def clamp_at_max(self: Tensor, low: Tensor | None, high: Tensor) -> Tensor:
    """Whether the result is the upper limit."""
    return self > high if low is None else (self > high) | (low > high)


def fmax_self(self: Tensor, other: Tensor) -> Tensor:
    """Whether fmax takes `self`: the larger, the first at a tie, the one that is a number."""
    return (self >= other) | other.isnan()


def fmin_self(self: Tensor, other: Tensor) -> Tensor:
    """Whether fmin takes `self`."""
    return (self <= other) | other.isnan()
