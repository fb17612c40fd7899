"""Elementwise operators made of others, where an expression in the row is not enough."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from adjoint import ops
from adjoint.core import dtypes
from adjoint.core.errors import ValueRangeError
from adjoint.core.powers import falling_power
from adjoint.kinks.infinitesimal import infinitesimal

FAR = 1e8  # beyond it 1 + x² is x² in every dtype
_UNKNOWN = complex(math.nan, math.nan)


def float_power(self: Any, exponent: Any) -> Any:
    """self ** exponent in float64, or complex128 if one of them is complex."""
    is_complex = any(
        isinstance(x, complex) or (hasattr(x, "is_complex") and x.is_complex())
        for x in (self, exponent)
    )
    dtype = dtypes.complex128 if is_complex else dtypes.float64
    base, power = (x.to(dtype) if hasattr(x, "to") else x for x in (self, exponent))
    return ops.pow(base, power)


def lerp(self: Any, end: Any, weight: Any) -> Any:
    """self + weight·(end - self), from the nearer end so that both ends are exact."""
    step = end - self
    if isinstance(weight, (int, float, complex)):
        near = abs(weight) < 0.5 if isinstance(weight, complex) else weight < 0.5
        return self + step * weight if near else end - step * (1 - weight)
    near = weight.abs() < 0.5 if weight.is_complex() else weight < 0.5
    return ops.where(near, self + weight * step, end - step * (1 - weight))


def logaddexp(self: Any, other: Any) -> Any:
    """log(exp(self) + exp(other)), a logsumexp of two; of complex numbers on the branch of the
    larger one.
    """
    a, b = ops.broadcast_tensors([self, other])
    if a.is_complex() or b.is_complex():
        first = a.real >= b.real
        larger, smaller = ops.where(first, a, b), ops.where(first, b, a)
        infinite = larger.real.isinf()  # then the difference is none, or tells nothing
        both = infinite & (smaller.real == larger.real)
        total = larger + ops.where(infinite, 0, smaller - larger).exp().log1p()
        return ops.where(infinite, ops.where(both, smaller, larger), total)
    return ops.stack([a, b]).logsumexp((0,))


def log2(self: Any) -> Any:
    """log(self) / log(2)."""
    return _over_real(self.log(), math.log(2))


def log10(self: Any) -> Any:
    """log(self) / log(10)."""
    return _over_real(self.log(), math.log(10))


def _over_real(natural: Any, log_base: float) -> Any:
    """A quotient; of a complex number by its parts, one of which may be infinite."""
    if not natural.is_complex():
        return natural / log_base
    return ops.complex(natural.real / log_base, natural.imag / log_base)


def power_derivative(self: Any, exponent: Any, n: int) -> Any:
    """p (p-1) … (p-n+1) xᵖ⁻ⁿ, 0 where a factor is."""
    factor = math.prod((exponent - k for k in range(n)), start=1)
    if isinstance(exponent, (int, float)):
        return self ** (exponent - n) * factor if factor else ops.zeros_like(self)
    nothing = exponent != exponent if n == 0 else factor == 0
    base = self.masked_fill(nothing & (self == 0), 1)
    return (base ** (exponent - n) * factor).masked_fill(nothing & (self == 0), 0)


def over_power(self: Any, other: Any, n: int) -> Any:
    """self / other / other …"""
    for _ in range(n):
        self = self / other
    return self


def exponential_derivative(self: Any, base: float, n: int) -> Any:
    """log(b)ⁿ bˣ."""
    return (base**self) * math.log(base) ** n


def share(self: Any, other: Any, binary: bool) -> Any:
    """eᵃ / (eᵃ + eᵇ) = sigmoid(a - b), and 1/2 where a and b are equal infinities."""
    same_infinity = (self == other) & self.isinf()
    difference = (self - other).masked_fill(same_infinity, 0)
    return (difference * math.log(2) if binary else difference).sigmoid()


def sgn(self: Any) -> Any:
    """The sign, or z / |z| of a complex number, 0 at 0."""
    if not self.is_complex():
        return self.sign()
    size = self.abs()
    zero, infinite = size == 0, size.isinf()
    ends = [part.where(part.isinf(), 0.0).clamp(-1, 1) for part in (self.real, self.imag)]
    end = ops.complex(*ends).masked_fill(ends[0] * ends[1] != 0, _UNKNOWN)
    return ops.where(infinite, end, ops.where(zero, 0, self / ops.where(zero | infinite, 1, size)))


def clamp(self: Any, min: Any, max: Any) -> Any:
    """clamp_min, then clamp_max."""
    if min is not None:
        self = self.clamp_min(min)
    return self if max is None else self.clamp_max(max)


def nan_to_num(self: Any, nan: float | None, posinf: float | None, neginf: float | None) -> Any:
    """NaN and infinities replaced; by 0 and the largest finite numbers unless told."""
    if not self.dtype.is_differentiable:
        return self.clone()
    if self.is_complex():
        parts = [nan_to_num(part, nan, posinf, neginf) for part in (self.real, self.imag)]
        return ops.complex(*parts)
    limits = dtypes.finfo(self.dtype)
    result = ops.where(self.isnan(), 0.0 if nan is None else nan, self)
    result = ops.where(self == float("inf"), limits.max if posinf is None else posinf, result)
    return ops.where(self == float("-inf"), limits.min if neginf is None else neginf, result)


def heaviside(self: Any, values: Any) -> Any:
    """0, `values` or 1 for negative, zero and positive elements; NaN stays."""
    step = ops.where(self.isnan(), self.detach(), (self > 0).to(self.dtype))
    return ops.where(self == 0, values, step)


def isclose(self: Any, other: Any, rtol: float, atol: float, equal_nan: bool) -> Any:
    """|self - other| <= atol + rtol·|other|, or equal."""
    if rtol < 0 or atol < 0:
        raise ValueRangeError(f"isclose(rtol={rtol}, atol={atol}): tolerances cannot be negative.")
    close = self == other
    if not self.dtype.is_differentiable:
        if rtol == 0 and atol == 0:
            return close
        self, other = self.to(dtypes.float64), other.to(dtypes.float64)
    gap = (self - other).abs()
    close = close | (gap.isfinite() & (gap <= (other * rtol).abs() + atol))
    return close | (self.isnan() & other.isnan()) if equal_nan else close


def isreal(self: Any) -> Any:
    """Whether the imaginary part is 0."""
    return self.imag == 0 if self.is_complex() else ops.ones(self.shape, dtype=dtypes.bool_)


def inverse_power(self: Any, other: Any, n: int, sine: bool) -> Any:
    """The real or imaginary part of ((x + iy)/r)ⁿ over rⁿ, 0 at the origin and at infinity.

    Divided by r step by step: rⁿ would overflow or underflow long before r does.
    """
    idle = ((self == 0) & (other == 0)) | self.isinf() | other.isinf()
    length = self.masked_fill(idle, 1).hypot(other.masked_fill(idle, 1))
    c, s = (t.masked_fill(idle, 0) / length for t in (other, self))
    real, imaginary = c, s
    for _ in range(n - 1):
        real, imaginary = real * c - imaginary * s, real * s + imaginary * c
    result = imaginary if sine else real
    for _ in range(n):
        result = result / length
    return result.masked_fill(idle, 0)


def hypot_nearby(self: Any, other: Any, *, exact: Sequence[Any]) -> Any:
    """√(x² + y²), of numbers that have an infinitely small part; no modulus of complex ones."""
    return root_above(self * self + other * other, _length_of(exact))


def _length_of(exact: Sequence[Any]) -> Any:
    return ops.hypot(exact[0].detach(), exact[1].detach())


def abs_nearby(self: Any, *, exact: Sequence[Any]) -> Any:
    """±x, positive as a number c εᵐ is that has a positive c."""
    size = self.detach()
    small = infinitesimal(exact[0].dtype.np)
    negative = (size.angle() - _turn(size, small)).cos() < 0
    return ops.where(ops.where(exact[0] == 0, negative, size.real < 0), -self, self)


def sqrt_nearby(self: Any, *, exact: Sequence[Any]) -> Any:
    """√x, of numbers that have an infinitely small part."""
    return root_above(self, exact[0])


def root_above(self: Any, exact: Any) -> Any:
    """The root of a number c εᵐ with ε = iδ that is √c ε^(m/2), where `exact` is 0."""
    root = self.sqrt()
    turned = root.detach()
    small = infinitesimal(exact.dtype.np)
    other = (exact == 0) & ((turned.angle() - _turn(turned, small)).cos() < -0.5)
    return ops.where(other, -root, root)


def _turn(self: Any, small: float) -> Any:
    """The angle of εᵐ, of which a number is a multiple: its size tells m."""
    size = self.abs()
    return size.masked_fill(size == 0, 1).log() * (0.5 * math.pi / math.log(small))


def power_nearby(self: Any, exponent: complex, *, exact: Sequence[Any]) -> Any:
    """xᵖ; by a root, which rounds nothing, where p is half a whole number."""
    if exponent.imag:
        return self**exponent
    exponent = exponent.real
    if exponent % 1 == 0.5:
        return root_above(self, exact[0]) ** int(2 * exponent)
    if exponent % 1 == 0:
        return self**exponent
    size = self.detach()
    around = (_turn(size, infinitesimal(exact[0].dtype.np)) - size.angle()) / (2 * math.pi)
    turns = around.round().masked_fill(exact[0] != 0, 0)
    return self**exponent * (turns * (2j * math.pi * exponent)).exp()


def power_derivative_nearby(self: Any, exponent: float, n: int, *, exact: Sequence[Any]) -> Any:
    """p (p-1) … (p-n+1) xᵖ⁻ⁿ, by `power_nearby`."""
    return falling_power(exponent, n, float)[0] * power_nearby(self, exponent - n, exact=exact)


def bend_nearby(self: Any, at: Any, *, exact: Sequence[Any]) -> Any:
    """0 · self, whose slope in an infinitely small number is `bent_nearby`."""
    return bent_nearby(self, at, exact=exact) * (at - at.detach())


def bent_nearby(self: Any, at: Any, *, exact: Sequence[Any]) -> Any:
    """2⁻⁴⁶ self / |x| for infinitely small x: more than rounding takes from a second derivative,
    less than an infinite one that is known; of a number as small as x hardly anything."""
    size = at.detach().abs()
    away = size > infinitesimal(dtypes.float32.np)
    fast = (2.0**-46 / size.masked_fill(away, 1)).masked_fill(away, 0)
    return self * fast.to(dtypes.complex128)


# --- slopes --------------------------------------------------------------------------------------


def atan_decay(self: Any) -> Any:
    """x / (1 + x²), which is equal for x and 1/x."""
    if self.is_complex():
        return self / (1 + self * self)
    far = self.abs() > 1
    near = ops.where(far, 1 / self.masked_fill(~far, 1), self)
    return near / (1 + near * near)


def asinh_slope(self: Any) -> Any:
    """1 / √(1 + x²), far out 1/|x|."""
    if self.is_complex():
        return (1 + self * self).rsqrt()
    size = self.abs()
    far = size >= FAR
    near = size.masked_fill(far, 1)
    return 1 / ops.where(far, size, (1 + near * near).sqrt())


def tanh_slope(self: Any) -> Any:
    """4e/(1 + e)², e = exp(-2|x|); of complex numbers 1 - tanh²."""
    if self.is_complex():
        y = self.tanh()
        return 1 - y * y
    small = ops.where(self > 0, -2 * self, 2 * self).exp()
    return 4 * small / ((1 + small) * (1 + small))
