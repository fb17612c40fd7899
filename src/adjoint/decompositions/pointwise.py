"""Elementwise operators made of others, where an expression in the row is not enough."""

from __future__ import annotations

from typing import Any

from adjoint import ops
from adjoint.core import dtypes
from adjoint.core.errors import ValueRangeError


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
        return self + step * weight if abs(weight) < 0.5 else end - step * (1 - weight)
    return ops.where(weight.abs() < 0.5, self + weight * step, end - step * (1 - weight))


def logaddexp(self: Any, other: Any) -> Any:
    """log(exp(self) + exp(other)), a logsumexp of two."""
    a, b = ops.broadcast_tensors([self, other])
    return ops.stack([a, b]).logsumexp((0,))


def sgn(self: Any) -> Any:
    """The sign, or z / |z| of a complex number, 0 at 0."""
    if not self.is_complex():
        return self.sign()
    size = self.abs()
    zero = size == 0
    return ops.where(zero, 0, self / ops.where(zero, 1, size))


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


def atan2_slope(self: Any, other: Any) -> Any:
    """∂atan2(y, x)/∂y = x/r², and 0 at the origin and at infinity; ∂/∂x is -y/r².

    Divided by r twice: r² would overflow or underflow long before r does.
    """
    idle = ((self == 0) & (other == 0)) | self.isinf() | other.isinf()
    across = self.masked_fill(idle, 1).hypot(other.masked_fill(idle, 1))
    return (other.masked_fill(idle, 0) / across / across).masked_fill(idle, 0)
