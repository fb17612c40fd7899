"""Element-by-element kernels that are more than one NumPy function.

Most rows of `table/pointwise.yaml` name a NumPy ufunc directly. What is here checks arguments NumPy
would let pass, keeps integers integers, covers complex numbers where NumPy does not, or does
several steps in float32 so that float16 and bfloat16 are rounded once, at the end. The dispatcher
has promoted the arguments already, and it silences floating-point warnings.
"""

from __future__ import annotations

import functools
import math
from typing import Any

import ml_dtypes
import numpy as np

from adjoint.c_kernels.conversions import astype
from adjoint.core import dtypes
from adjoint.core.choosing import limited
from adjoint.core.errors import DtypeError, ValueRangeError
from adjoint.core.lazy import Lazy
from adjoint.core.powers import falling_power
from adjoint.core.promotion import check_integer, element, fit_number
from adjoint.kernels.halves import in_float32, in_halves, widen

special = Lazy("scipy.special")

Array = np.ndarray[Any, Any]
Scalar = bool | int | float | complex

LOG_2 = 0.6931471805599453
EXPONENT_LIMIT = 5000  # beyond it 2**n is 0 or infinite in every dtype
MOST_DERIVATIVES = 100
FAR = 1e8  # beyond it 1 + x² is x² in every dtype


def ufunc_in_float32(kernel: np.ufunc, self: Any, other: Any) -> Any:
    """A ufunc on halves and wider numbers, rounded once."""
    half = self.dtype if self.dtype in dtypes.REDUCED else other.dtype
    return kernel(self, other, dtype=np.float32).astype(half)


# --- sums and products -------------------------------------------------------------------------


def fit_factor(name: str, dtype: np.dtype[Any], factor: Scalar) -> Scalar:
    """Return a factor such as alpha so that it fits `dtype`; refuse fractions of integers."""
    if dtype.kind in "iub" and isinstance(factor, (float, complex)):
        raise DtypeError(
            f"{name}: the factor is {factor} and the tensors hold {dtypes.of(dtype)}; give an "
            "integer, or convert the tensors to a floating point dtype first."
        )
    if dtype.kind in "fcV":
        return factor
    if dtype.kind != "b":
        check_integer(factor, dtypes.of(dtype))
    return fit_number(factor, dtypes.of(dtype))


def add(self: Array | Scalar, other: Array | Scalar, alpha: Scalar) -> Array:
    """self + alpha * other."""
    return _with_scaled(np.add, self, other, alpha)


def sub(self: Array | Scalar, other: Array | Scalar, alpha: Scalar) -> Array:
    """self - alpha * other."""
    return _with_scaled(np.subtract, self, other, alpha)


def _with_scaled(combine: np.ufunc, self: Any, other: Any, alpha: Scalar) -> Array:
    """A sum with alpha * other; the product of numbers is taken before it is rounded."""
    dtype = np.result_type(self, other)
    factor: Any = fit_factor(combine.__name__.removesuffix("tract"), dtype, alpha)
    if dtype in dtypes.REDUCED:
        half = dtypes.of(dtype)
        self, other = (
            widen(x) if isinstance(x, np.ndarray) else element(x, half) for x in (self, other)
        )
        return astype(combine(self, other * factor), dtype)
    if isinstance(other, np.ndarray):
        return combine(self, other * factor)
    product = other * factor
    return combine(
        self, fit_number(product % 2**64 if dtype.kind in "iu" else product, dtypes.of(dtype))
    )


def addcmul(self: Array, tensor1: Array, tensor2: Array, value: Scalar) -> Array:
    """self + value * tensor1 * tensor2."""
    value = fit_factor("addcmul", self.dtype, value)
    if value == 1:
        return self + tensor1 * tensor2
    return self + value * tensor1 * tensor2


def addcdiv(self: Array, tensor1: Array, tensor2: Array, value: Scalar) -> Array:
    """self + value * tensor1 / tensor2."""
    if self.dtype.kind in "iub":
        raise DtypeError(
            f"addcdiv: got {dtypes.of(self.dtype)} tensors, and dividing integers would lose the "
            "fraction; convert them to a floating point dtype first."
        )
    return self + value * tensor1 / tensor2


def lerp(self: Array, end: Array, weight: Array | Scalar) -> Array:
    """self + weight * (end - self), computed from the nearer end so that both ends are exact."""
    step = end - self
    if isinstance(weight, np.ndarray):
        near = np.abs(weight) < 0.5 if weight.dtype.kind == "c" else weight < 0.5
        return np.where(near, self + weight * step, end - step * (1 - weight))
    near = abs(weight) < 0.5 if isinstance(weight, complex) else weight < 0.5
    return self + weight * step if near else end - step * (1 - weight)


# --- division ----------------------------------------------------------------------------------


def check_divisor(name: str, self: Any, other: Any) -> None:
    """Refuse integer division by zero and truths; floating point division gives infinities."""
    kinds = np.result_type(self, other).kind
    if kinds == "b":
        raise DtypeError(f"{name}: truths have no quotients; convert them, x.int()")
    if kinds in "iub" and not np.all(other):
        raise ValueRangeError(
            f"{name}: integer division by zero; use floating point tensors to get infinities."
        )


def floor_divide(self: Any, other: Any) -> Array:
    """self / other, rounded towards minus infinity."""
    check_divisor("floor_divide", self, other)
    return in_float32(np.floor_divide, self, other)


def trunc_divide(self: Any, other: Any) -> Array:
    """self / other, rounded towards zero."""
    check_divisor("div(rounding_mode='trunc')", self, other)
    if np.result_type(self, other).kind in "iub":
        # a - fmod(a, b) is a multiple of b, so flooring is exact.
        return np.floor_divide(np.subtract(self, np.fmod(self, other)), other)
    return in_float32(lambda a, b: np.trunc(np.divide(a, b)), self, other)


def div_mode(self: Array, other: Array | Scalar, rounding_mode: str | None) -> Array:
    """self / other, rounded as `rounding_mode` says."""
    if rounding_mode is None:
        if self.dtype.kind in "iub":
            self = self.astype(dtypes.DEFAULT.dtype.np)
            if isinstance(other, np.ndarray):
                other = other.astype(self.dtype)
        return np.divide(self, other)
    if rounding_mode == "floor":
        return floor_divide(self, other)
    if rounding_mode == "trunc":
        return trunc_divide(self, other)
    raise ValueRangeError(f"div(rounding_mode={rounding_mode!r}): use None, 'trunc' or 'floor'.")


def remainder(self: Any, other: Any) -> Array:
    """self - other * floor(self / other), which has the sign of `other`."""
    check_divisor("remainder", self, other)
    return in_halves(np.remainder, self, other)


def fmod(self: Any, other: Any) -> Array:
    """self - other * trunc(self / other), which has the sign of `self`."""
    check_divisor("fmod", self, other)
    return in_halves(np.fmod, self, other)


# --- powers ------------------------------------------------------------------------------------


def integer_power(base: Any, exponent: Array) -> Array:
    """base ** exponent in integers; a negative exponent gives 0 except for the bases 1 and -1."""
    power = np.power(base, np.maximum(exponent, 0))
    if exponent.dtype.kind != "i" or exponent.size == 0 or exponent.min() >= 0:
        return power
    odd_or_even = np.where(np.bitwise_and(exponent, 1), base, np.multiply(base, base))
    inverse = np.where(np.abs(base) == 1, odd_or_even, 0)
    return np.where(exponent < 0, inverse, power).astype(power.dtype)


def pow_tensor(self: Any, exponent: Array) -> Array:
    """self ** exponent with a tensor as exponent; `self` may be a number."""
    kind = exponent.dtype.kind
    if kind == "b":
        return np.logical_or(self, np.logical_not(exponent))
    if kind in "iu":
        return integer_power(self, exponent)
    return in_halves(np.power, self, exponent)


def pow_scalar(self: Array, exponent: Scalar) -> Array:
    """self ** exponent with a number as exponent."""
    kind = self.dtype.kind
    if kind == "b":
        return np.logical_or(self, not exponent)
    # The operator, not np.power: NumPy turns ** 2, ** 0.5 and ** -1 into cheap functions.
    return in_halves(lambda base, power: base**power, self, exponent)


def power_derivative(self: Array, exponent: Array | float, n: int) -> Array:
    """p (p-1) … (p-n+1) xᵖ⁻ⁿ, with all digits of p - n; 0 where a factor is 0.

    The factors are multiplied between two halves of the power, each of which is in range if the
    product is; integer powers are exact, and none of their factors is below 1.
    """
    if not 0 <= n <= MOST_DERIVATIVES:
        raise ValueRangeError(f"_power_derivative: n is {n}; it is from 0 to {MOST_DERIVATIVES}.")
    if not isinstance(exponent, np.ndarray):
        number = float(exponent)
        return _powered(self, *falling_power(number, n, self.dtype.type))
    kind = exponent.dtype.type
    factor = math.prod((exponent - kind(k) for k in range(n)), start=kind(1))
    return _powered(self, factor, *_two_difference(exponent, kind(n)))


def _powered(x: Array, factor: Any, power: Any, rest: Any) -> Array:
    """factor · x to the power + rest; of negative x with its sign."""
    turns = power - 2 * np.floor(0.5 * power)
    whole = (turns == 0) | (turns == 1)
    part = np.abs(x) ** np.where(whole, power, 0.5 * power).astype(x.dtype)
    value = factor * part * np.where(whole, x.dtype.type(1), part)
    if np.ndim(rest) or rest:
        inside = (x > 0) & (x < np.inf)
        value = value * (1 + rest * np.log(np.where(inside, x, x.dtype.type(1))))
    if (x < 0).any():
        sign = np.where(turns == 0, 1, np.where(turns == 1, -1, np.nan)).astype(x.dtype)
        value = np.where(x < 0, sign * value, value)
    return np.where(np.equal(factor, 0), x.dtype.type(0), value)


def over_power(self: Array, other: Array, n: int) -> Array:
    """self / other / other …"""
    if not 0 <= n <= MOST_DERIVATIVES:
        raise ValueRangeError(f"_over_power: n is {n}; it is from 0 to {MOST_DERIVATIVES}.")
    return functools.reduce(lambda part, _: part / other, range(n), self)


def exponential_derivative(self: Array, base: float, n: int) -> Array:
    """log(b)ⁿ bˣ, the factor between two halves of the power."""
    if not base > 0 or not 0 <= n <= MOST_DERIVATIVES:
        raise ValueRangeError(
            f"_exponential_derivative(base={base}, n={n}): the base is positive, and n from 0 to "
            f"{MOST_DERIVATIVES}."
        )
    number = self.dtype.type(base)
    half = np.exp2(0.5 * self) if base == 2 else np.power(number, 0.5 * self)
    return math.log(float(number)) ** n * half * half


def _two_difference(a: Any, b: Any) -> tuple[Any, Any]:
    """a - b and its rounding error (Knuth), which is 0 where a - b is infinite."""
    difference = a - b
    moved = difference - a
    rest = (a - (difference - moved)) - (b + moved)
    return difference, np.where(np.isfinite(rest), rest, rest.dtype.type(0))


def relu(self: Array) -> Array:
    """max(self, 0)."""
    return limited(self, 0, None)


def rsqrt(self: Array) -> Array:
    """1 / sqrt(self)."""
    return np.reciprocal(np.sqrt(self))


# --- exponentials and logarithms ---------------------------------------------------------------


def sigmoid(self: Array) -> Array:
    """1 / (1 + exp(-self))."""
    return complex_sigmoid(self) if self.dtype.kind == "c" else real_sigmoid(self)


def real_sigmoid(self: Array) -> Array:
    """exp(x) / (1 + exp(x)); beyond 60 it is 1 in every dtype."""
    power = np.asarray(np.minimum(self, 60))
    np.exp(power, out=power)
    below = 1 + power
    power /= below
    return power


def complex_sigmoid(self: Array) -> Array:
    """As for reals, with the half plane chosen so that exp does not overflow to infinity + NaN."""
    right = self.real >= 0
    small = np.exp(np.where(right, -self, self))
    return np.where(right, 1, small) / (1 + small)


def exp2(self: Array) -> Array:
    """2 ** self; NumPy's has no complex loop."""
    return np.exp(self * LOG_2) if self.dtype.kind == "c" else np.exp2(self)


def log1p(self: Array) -> Array:
    """log(1 + self); NumPy's complex loop loses small arguments, SciPy's does not."""
    if self.dtype.kind != "c":
        return np.log1p(self)
    return special.log1p(self)


def complex_logaddexp(self: Array, other: Array) -> Array:
    """log(exp(a) + exp(b)) = m + log1p(exp(n - m)), m the one with the larger real part."""
    first = self.real >= other.real
    large: Array = np.where(first, self, other)
    small: Array = np.where(first, other, self)
    infinite = np.isinf(large.real)  # both infinite (then n - m is NaN), or only the large one
    total = large + log1p(np.exp(np.where(infinite, 0, small - large)))
    both = infinite & (small.real == large.real)
    return np.where(infinite, np.where(both, small, large), total)


def logaddexp(self: Array, other: Array) -> Array:
    """log(exp(self) + exp(other)), complex numbers included."""
    if self.dtype.kind == "c":
        return complex_logaddexp(self, other)
    return in_float32(np.logaddexp, self, other)


def logaddexp2(self: Array, other: Array) -> Array:
    """log2(2**self + 2**other), complex numbers included."""
    if self.dtype.kind == "c":
        return complex_logaddexp(self * LOG_2, other * LOG_2) / LOG_2
    return in_float32(np.logaddexp2, self, other)


def share(self: Array, other: Array, binary: bool) -> Array:
    """eᵃ / (eᵃ + eᵇ), or with powers of 2."""
    if self.dtype.kind == "c":
        difference = np.where(_same_infinity(self, other), 0, self - other)
        return complex_sigmoid(difference * LOG_2 if binary else difference)
    small, below = _fallen(self, other, binary)
    return np.where(self < other, small, self.dtype.type(1)) / below


def share_slope(self: Array, other: Array, binary: bool) -> Array:
    """The product of both shares."""
    if self.dtype.kind == "c":
        return share(self, other, binary) * share(other, self, binary)
    small, below = _fallen(self, other, binary)
    return small / (below * below)


def _fallen(a: Array, b: Array, binary: bool) -> tuple[Array, Array]:
    """e = exp(-|a - b|) and 1 + e; the difference to twice the precision, since exp turns its
    digits into magnitude."""
    difference, rest = _two_difference(a, b)
    difference = np.where(a == b, a.dtype.type(0), difference)
    small = np.exp2(-np.abs(difference)) if binary else np.exp(-np.abs(difference))
    small -= small * ((LOG_2 if binary else 1.0) * np.sign(difference) * rest)
    return small, 1 + small


def _same_infinity(a: Array, b: Array) -> Array:
    return (a == b) & np.isinf(a)


def ldexp(self: Array, other: Array) -> Array:
    """self * 2**other without overflow on the way: the whole part of `other` moves the exponent."""
    if self.dtype.kind == "c":
        return self * exp2(other)
    return real_ldexp(self, other)


def inverse_power(self: Array, other: Array, n: int, sine: bool) -> Array:
    """cos(nθ)/rⁿ or sin(nθ)/rⁿ of (x, y) = (other, self), 0 at the origin and at infinity: the
    n-th power of the direction (x + iy)/r, of which no part overflows, over rⁿ.
    """
    if not 1 <= n <= MOST_DERIVATIVES:
        raise ValueRangeError(f"_inverse_power: n is {n}; it is from 1 to {MOST_DERIVATIVES}.")
    y, x = self, other
    idle = ((y == 0) & (x == 0)) | np.isinf(y) | np.isinf(x)
    one, zero = y.dtype.type(1), y.dtype.type(0)
    length = np.hypot(np.where(idle, one, y), np.where(idle, one, x))
    c, s = np.where(idle, zero, x) / length, np.where(idle, zero, y) / length
    real, imaginary = c, s
    for _ in range(n - 1):
        real, imaginary = real * c - imaginary * s, real * s + imaginary * c
    result = imaginary if sine else real
    for _ in range(n):
        result = result / length
    return result


def hypot_slope(factor: Array, self: Array, other: Array) -> Array:
    """factor · x / r, and 0 at the origin."""
    r = np.hypot(self, other)
    return factor * (self / np.where(r == 0, r.dtype.type(1), r))


def nothing(self: Array, other: Array) -> Array:
    """Zeros, of the shape and dtype that both have together."""
    return np.zeros(np.broadcast_shapes(self.shape, other.shape), np.result_type(self, other))


# --- slopes ------------------------------------------------------------------------------------


def one_less_square(self: Array) -> Array:
    """1 - x²."""
    return (1 - self) * (1 + self)


def atan_slope(self: Array) -> Array:
    """1 / (1 + x²)."""
    if self.dtype.kind == "c":
        return 1 / (1 + self * self)
    far = np.abs(self) > 1
    near = np.where(far, np.reciprocal(self), self)
    near *= near
    return np.where(far, near, self.dtype.type(1)) / (1 + near)


def atan_decay(self: Array) -> Array:
    """x / (1 + x²), which is equal for x and 1/x."""
    if self.dtype.kind == "c":
        return self / (1 + self * self)
    near = np.where(np.abs(self) > 1, np.reciprocal(self), self)
    return near / (1 + near * near)


def asinh_slope(self: Array) -> Array:
    """1 / √(1 + x²), far out 1/|x|."""
    if self.dtype.kind == "c":
        return 1 / np.sqrt(1 + self * self)
    size = np.abs(self)
    return np.reciprocal(np.where(size < FAR, np.sqrt(1 + size * size), size))


def tanh_slope(self: Array) -> Array:
    """1 / cosh²; of complex numbers 1 - tanh²."""
    if self.dtype.kind == "c":
        y = np.tanh(self)
        return 1 - y * y
    height = np.cosh(self)  # whose square leaves the range of numbers before its inverse does
    return np.reciprocal(height) / height


def real_ldexp(self: Array, other: Array) -> Array:
    whole = np.clip(np.floor(other), -EXPONENT_LIMIT, EXPONENT_LIMIT)
    fraction = np.exp2(other - whole)  # in [1, 2), or NaN, or 0 and infinity beyond the limit
    return np.ldexp(self * fraction, np.nan_to_num(whole).astype(np.int32))


def frexp(self: Array) -> tuple[Array, Array]:
    """Mantissa in [1/2, 1) and exponent: self = mantissa * 2**exponent."""
    if self.dtype.kind in "iubc":
        raise DtypeError(
            f"frexp: got a {dtypes.of(self.dtype)} tensor; it needs a real floating point dtype."
        )
    mantissa, exponent = np.frexp(self)
    return mantissa, exponent


# --- rounding, sign and parts ------------------------------------------------------------------


def round_to_integer(self: Array) -> Array:
    """The nearest integer, halves to even; integers are unchanged and stay integers."""
    return self.copy() if self.dtype.kind in "iub" else np.rint(self)


def round_decimals(self: Array, decimals: int) -> Array:
    """Round to `decimals` decimal places, halves to even."""
    if decimals == 0 or self.dtype.kind in "iub":
        return round_to_integer(self) if decimals == 0 else np.round(self, decimals)
    scale = 10.0 ** abs(decimals)
    if decimals > 0:
        return in_float32(lambda x: np.rint(x * scale) / scale, self)
    return in_float32(lambda x: np.rint(x / scale) * scale, self)


def sign(self: Array) -> Array:
    """The sign as -1, 0 or 1; booleans are their own sign."""
    if self.dtype.kind == "c":
        raise DtypeError("sign: complex numbers have no sign; use sgn, which is z / |z|.")
    return sgn(self)


def sgn(self: Array) -> Array:
    """The sign, which is z / |z| for complex numbers."""
    return self.copy() if self.dtype.kind == "b" else np.sign(self)


def shift_left(self: Array | int, other: Array | int) -> Array:
    """self · 2^other, for whole numbers that are no booleans."""
    return _of_whole("bitwise_left_shift", np.left_shift(self, other), self, other)


def shift_right(self: Array | int, other: Array | int) -> Array:
    """self / 2^other rounded down, for whole numbers that are no booleans."""
    return _of_whole("bitwise_right_shift", np.right_shift(self, other), self, other)


def _of_whole(what: str, result: Array, *operands: Array | int) -> Array:
    """The result; refused if all operands are booleans, which NumPy takes for 8-bit numbers."""
    if result.dtype == np.int8 and all(np.asarray(x).dtype == np.bool_ for x in operands):
        raise DtypeError(f"{what}: booleans have no binary digits to shift; convert them first.")
    return result


def angle(self: Array) -> Array:
    """The argument of complex numbers; 0 or pi for reals, NaN for NaN."""
    if self.dtype.kind == "c":
        return np.arctan2(self.imag, self.real)
    turned = np.where(self < 0, np.array(np.pi, self.dtype), np.array(0, self.dtype))
    return np.where(np.isnan(self), self, turned)


def times(self: Array, other: Array) -> Array:
    """a · b, but 0 where a is 0, even if b is infinite."""
    with np.errstate(invalid="ignore"):
        result = np.asarray(self * other)
    return np.where(self == 0, result.dtype.type(0), result)


def positive(self: Array) -> Array:
    """The tensor itself, as a view."""
    if self.dtype.kind == "b":
        raise DtypeError(
            "positive: the + operator does not take booleans; convert the tensor first."
        )
    return self.view()


def heaviside(self: Array, values: Array) -> Array:
    """0 for negative, 1 for positive elements, `values` at 0."""
    if self.dtype.kind in "iub":
        step = (self > 0).astype(self.dtype)
        return np.where(self == 0, values, step)
    return np.heaviside(self, values)


# --- limits ------------------------------------------------------------------------------------


def clamp(self: Array, low: Any, high: Any) -> Array:
    """min(max(self, low), high): `high` wins where low > high, and NaN is kept."""
    if low is None and high is None:
        raise ValueRangeError("clamp: at least one of min and max must be given.")
    if low is not None:
        self = np.maximum(self, low)
    return self if high is None else np.minimum(self, high)


def nan_to_num(self: Array, nan: float | None, posinf: float | None, neginf: float | None) -> Array:
    """Replace NaN by 0 and infinities by the largest finite numbers, or by what was given."""
    if self.dtype.kind in "iub":
        return self.copy()
    if self.dtype.kind == "c":
        result = np.empty_like(self)
        result.real = nan_to_num(self.real, nan, posinf, neginf)
        result.imag = nan_to_num(self.imag, nan, posinf, neginf)
        return result
    limits = ml_dtypes.finfo(self.dtype)
    result = np.array(self)
    result[np.isnan(self)] = 0.0 if nan is None else nan
    result[self == np.inf] = limits.max if posinf is None else posinf
    result[self == -np.inf] = limits.min if neginf is None else neginf
    return result


def isclose(self: Array, other: Array, rtol: float, atol: float, equal_nan: bool) -> Array:
    """|self - other| <= atol + rtol * |other|, or equal."""
    if rtol < 0 or atol < 0:
        raise ValueRangeError(f"isclose(rtol={rtol}, atol={atol}): tolerances cannot be negative.")

    close = np.equal(self, other)
    if self.dtype.kind not in "iub":
        self, other = widen(self), widen(other)
    elif rtol == 0 and atol == 0:
        return close
    else:
        self, other = self.astype(np.float64), other.astype(np.float64)
    gap = np.abs(self - other)
    close = close | (np.isfinite(gap) & (gap <= atol + np.abs(rtol * other)))
    return close | (np.isnan(self) & np.isnan(other)) if equal_nan else close
