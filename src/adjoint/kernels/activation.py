"""Kernels of activation functions and softmax.

Arrays in, arrays out, real numbers only (except silu). float16 and bfloat16 are computed in float32
and rounded once. Nothing overflows: exponentials are taken of negative numbers, or are harmless as
infinities inside a reciprocal.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np

from adjoint.c_kernels import rows
from adjoint.c_kernels.conversions import astype
from adjoint.checks import activation
from adjoint.core import dtypes
from adjoint.core.activations import CUBE, EXACT_CUBE, RATE, TANHSHRINK, gate_sides
from adjoint.core.choosing import MANY, choose, limited
from adjoint.core.dtypes import DType
from adjoint.core.errors import DtypeError, ValueRangeError
from adjoint.core.promotion import element
from adjoint.core.shapes import wrap_dim
from adjoint.kernels.halves import in_float32, widen
from adjoint.kernels.pieces import by_pieces
from adjoint.kernels.pointwise import complex_sigmoid, real_sigmoid
from adjoint.kernels.reduction.common import require_inexact
from adjoint.kernels.special.common import exact_product, horner, in_double
from adjoint.kernels.special.normal import gaussian_derivative, ndtr

Array = np.ndarray[Any, Any]

GAUSS_HEIGHT = 0.3989422804014327  # 1/√(2π)
FLAT = 40.0  # beyond it gelu is straight
STRAIGHT = 800.0  # beyond it silu and mish are
# gelu's v = x (a + b x²): b, and its rounding error
CUBIC = float(EXACT_CUBE), float(EXACT_CUBE - Fraction(float(EXACT_CUBE)))


def _widely(compute: Callable[..., Any], *arrays: Array) -> Array:
    """Compute a function of elements, in float32 if the arrays are narrower."""
    return in_float32(partial(by_pieces, compute), *arrays)


def _require_real(what: str, array: Array) -> None:
    if array.dtype.kind not in "fV":
        raise DtypeError(
            f"{what}: needs a real floating point dtype, got {dtypes.of(array.dtype)}; convert it."
        )


def _sigmoid(x: Array) -> Array:
    if x.dtype.kind == "c":
        return complex_sigmoid(x)
    return real_sigmoid(x)


# --- smooth --------------------------------------------------------------------------------------


def _bend(x: Array) -> Array:
    """x cut off where it is multiplied by 0, so that infinity gives no NaN."""
    return x if x.dtype.kind == "c" else limited(x, -STRAIGHT, STRAIGHT)


def _not_far_left(x: Array) -> Array:
    """x, but -infinity cut off: it would give NaN times 0, where the limit is 0."""
    return x if x.dtype.kind == "c" else limited(x, -STRAIGHT, None)


def silu(self: Array) -> Array:
    """x σ(x)."""
    require_inexact("silu", self)

    def compute(x: Array) -> Array:
        if x.dtype.kind == "c":
            return x * complex_sigmoid(x)
        x = _not_far_left(x)
        half = _fallen(0.5 * x)  # exp(-|x|) would leave the range before the product does
        right = x / (1 + half * half)
        return choose(np.asarray(x < 0), np.asarray(right * half * half), right)

    return by_pieces(compute, self)


def gated(self: Array, gate: Array) -> Array:
    """x σ(gate)."""
    return by_pieces(lambda x, y: x * _sigmoid(y), self, gate)


def silu_backward(grad_output: Array, self: Array) -> Array:
    """σ(x) (1 + x σ(-x))."""
    require_inexact("silu_backward", self)

    def compute(grad: Array, x: Array) -> Array:
        if x.dtype.kind == "c":
            return grad * np.conj(_sigmoid(x) * (1 + x * _sigmoid(-x)))
        half = _fallen(0.5 * x)
        small = half * half
        tail = 1 / (1 + small)  # σ(|x|)
        left = np.asarray(x < 0)
        slope = tail * (1 + _bend(x) * choose(left, tail, small * tail))
        return grad * choose(left, slope * half * half, slope)

    return by_pieces(compute, grad_output, self)


def _fallen(x: Array) -> Array:
    """exp(-|x|), in new memory."""
    e = np.asarray(np.abs(x))
    np.negative(e, out=e)
    return np.exp(e, out=e)


def _softplus(x: Array) -> Array:
    e = _fallen(x)
    np.log1p(e, out=e)
    e += limited(x, 0, None)
    return e


def mish(self: Array) -> Array:
    """x tanh(softplus(x))."""
    _require_real("mish", self)

    def compute(x: Array) -> Array:
        x = _not_far_left(x)
        half, rest, u = _mish_parts(x)
        w = u * (u + 2)
        left = np.asarray(x * half * half * rest)
        return choose(np.asarray(x < 0), left, np.asarray(x * (w / (w + 2))))

    return by_pieces(compute, self)


def _mish_parts(x: Array) -> tuple[Array, Array, Array]:
    """h, a and u with tanh(log(1 + u)) = h² a, where u = h² = eˣ, or e⁴⁰ if that is less.

    A product with h on either side stays in range where the result does.
    """
    half = np.exp(0.5 * limited(x, None, FLAT))
    u = half * half
    return half, (u + 2) / (u * (u + 2) + 2), u


def mish_backward(grad_output: Array, self: Array) -> Array:
    """t + x σ (1 - t²)."""
    _require_real("mish_backward", self)

    def compute(grad: Array, x: Array) -> Array:
        half, gate, u = _mish_parts(x)
        w = u * (u + 2)
        rate = 4 * ((1 + u) / (w + 2) / (w + 2))  # the slope of the gate, over u
        left = np.asarray(half * (gate + _bend(x) * rate) * half)
        right = np.asarray(w / (w + 2) + _bend(x) * (rate * u))
        return grad * choose(np.asarray(x < 0), left, right)

    return by_pieces(compute, grad_output, self)


def mish_derivative(self: Array, n: int) -> Array:
    """n g⁽ⁿ⁻¹⁾ + x g⁽ⁿ⁾, g = tanh(log(1 + eˣ))."""
    _require_real("_mish_derivative", self)
    activation.check_order("_mish_derivative", n)

    def compute(x: Array) -> Array:
        x = limited(x, -STRAIGHT, STRAIGHT)
        half, left = _fallen(0.5 * x), np.asarray(x < 0)
        u = half * half
        below = choose(left, np.asarray((u + 2) * u + 2), np.asarray((2 * u + 2) * u + 1))
        before, gate = (
            choose(left, *(np.asarray(horner(u, p)) for p in gate_sides(k))) for k in (n - 1, n)
        )
        for _ in range(n):
            before, gate = before / below, gate / below
        result = n * before + x * (gate / below)
        return choose(left, half * result * half, result)

    return in_double(compute, self)


def _approximates(what: str, self: Array, approximate: str) -> bool:
    _require_real(what, self)
    if approximate not in ("none", "tanh"):
        raise ValueRangeError(
            f"{what}(approximate={approximate!r}): there are 'none' (exact) and 'tanh'."
        )
    return approximate == "tanh"


def gelu_gate(self: Array, slope: bool) -> Array:
    """σ(v) or σ'(v), v = √(8/π) (x + 0.044715 x³)."""
    _require_real("_gelu_gate", self)

    def compute(x: Array) -> Array:
        half, tail = _gelu_tail(x)
        gate = tail * tail if slope else tail
        falls = np.asarray(x < 0) | np.asarray(slope)
        return choose(falls, np.asarray(gate * half * half), gate)

    return in_double(compute, self)


def _gelu_tail(x: Array) -> tuple[Array, Array]:
    """exp(-|v|/2) and σ(|v|), from v to twice the precision: rounding costs v ulp in the tail.

    v = x t, t = a + b x², with a and b as the sum of two numbers.
    """
    x = limited(np.abs(x), None, FLAT)
    square, lost = exact_product(x, x)
    part, more = exact_product(square, np.float64(CUBIC[0]))
    more += CUBIC[0] * lost + CUBIC[1] * square
    rate = RATE + part
    larger = np.maximum(part, RATE)
    more += (larger - rate) + np.minimum(part, RATE)
    v, lost = exact_product(x, rate)
    half = np.exp(-0.5 * v) * (1 - 0.5 * (lost + x * more))
    return half, 1 / (1 + half * half)


def gelu(self: Array, approximate: str) -> Array:
    """x Φ(x), or its approximation."""
    if _approximates("gelu", self, approximate):
        return in_double(_gelu_tanh, self)
    return _widely(_gelu_single if _many_single(self) else _gelu_double, self)


def gelu_backward(grad_output: Array, self: Array, approximate: str) -> Array:
    """Φ + x φ, or that of the approximation."""
    if _approximates("gelu_backward", self, approximate):
        return in_double(lambda grad, x: grad * _gelu_tanh_slope(x), grad_output, self)
    slope = _gelu_slope_single if _many_single(self) else _gelu_slope_double
    return _widely(lambda grad, x: grad * slope(x), grad_output, self)


def _many_single(x: Array) -> bool:
    """Whether many passes over memory are faster than SciPy's function, which has all digits."""
    return x.size >= MANY and x.dtype.itemsize < 8


def _gelu_double(x: Array) -> Array:
    return limited(x, -FLAT, None) * ndtr(np.asarray(x))


def _gelu_slope_double(x: Array) -> Array:
    bend = limited(x, -FLAT, FLAT)
    bell = gaussian_derivative(np.asarray(bend), 0, 0.5)
    return ndtr(np.asarray(x)) + bend * (bell * GAUSS_HEIGHT)


# Φ(-t) exp(t²/2) = P(t)/Q(t) for 0 ≤ t ≤ 14.5, relative error 6e-9: our own least squares, with
# weights raised where the error was largest. Positive coefficients: nothing cancels.
TAIL_ABOVE = (0.004116397383969658, 0.04063409756246368, 0.18323811872911078, 0.43829957063758096,
              0.5000000029282153)  # fmt: skip
TAIL_BELOW = (0.010318158401654443, 0.1018610219619484, 0.4694783717588095, 1.2025164851991856,
              1.6744841208346672, 1.0)  # fmt: skip


def _polynomial(coefficients: tuple[float, ...], t: Array) -> Array:
    """Horner's rule in one piece of memory."""
    result = t * coefficients[0]
    result += coefficients[1]
    for coefficient in coefficients[2:]:
        result *= t
        result += coefficient
    return result


def _tail_single(x: Array) -> tuple[Array, Array, Array]:
    """t = |x|, Φ(-t) exp(t²/2) and exp(-t²/2) in float32; SciPy's ndtr takes five times as long."""
    t = limited(np.abs(x), None, FLAT)
    ratio = np.asarray(_polynomial(TAIL_ABOVE, t))
    ratio /= _polynomial(TAIL_BELOW, t)
    wide = t.astype(np.float64)  # rounding t² alone would cost t² ulp
    wide *= wide
    wide *= -0.5
    return t, ratio, np.exp(wide).astype(x.dtype)


def _gelu_single(x: Array) -> Array:
    """max(x, 0) - t Φ(-t) with t = |x|."""
    t, ratio, falling = _tail_single(x)
    ratio *= t
    ratio *= falling
    return limited(x, 0, None) - ratio


def _gelu_slope_single(x: Array) -> Array:
    """d = Φ(-t) - t φ(t) on the left, 1 - d on the right."""
    t, ratio, falling = _tail_single(x)
    t *= GAUSS_HEIGHT
    ratio -= t
    ratio *= falling
    right = np.asarray(x > 0).astype(x.dtype)
    return right + ratio * (1 - 2 * right)


def _gelu_tanh(x: Array) -> Array:
    half, tail = _gelu_tail(x)
    right = limited(x, -FLAT, None) * tail
    return choose(np.asarray(x < 0), np.asarray(right * half * half), right)


def _gelu_tanh_slope(x: Array) -> Array:
    """σ(v) + x σ'(v) v'."""
    half, tail = _gelu_tail(x)
    bend = limited(x, -FLAT, FLAT)
    rate = bend * ((1 + 3 * CUBE * bend * bend) * RATE)
    small, left = half * half, np.asarray(x < 0)
    slope = tail * (1 + rate * choose(left, tail, small * tail))
    return choose(left, np.asarray(slope * half * half), slope)


def softplus(self: Array, beta: float, threshold: float) -> Array:
    """log(1 + exp(beta·x)) / beta, and x itself beyond the threshold."""
    _require_real("softplus", self)
    beta = _factor(beta, self)

    def compute(x: Array) -> Array:
        z = np.asarray(x * beta)
        return choose(np.asarray(z > threshold), x, np.asarray(_softplus(z) / beta))

    def exactly(x: Array) -> Array:
        z, rest = _product(x, beta)
        value = (_softplus(z) + rest * _sigmoid(z)) / beta
        return choose(np.asarray(z > threshold), x, np.asarray(value))

    is_exact = math.frexp(beta)[0] in (0.5, -0.5)
    return _widely(compute, self) if is_exact else in_double(exactly, self)


def logistic(self: Array, beta: float, slope: bool) -> Array:
    """σ(beta·x) or σ'(beta·x)."""
    _require_real("_logistic", self)
    beta = _factor(beta, self)

    def compute(x: Array) -> Array:
        z, rest = _product(x, beta)
        small = _fallen(z)
        small -= small * (np.sign(z) * rest)
        below = 1 + small
        if slope:
            return small / (below * below)
        return choose(np.asarray(z < 0), small, np.ones((), x.dtype)) / below

    return in_double(compute, self)


def exp_of_quotient(self: Array, divisor: float) -> Array:
    """exp(x / divisor): the quotient to twice the precision, since exp turns its digits into
    magnitude."""
    _require_real("_exp_of_quotient", self)

    def compute(x: Array) -> Array:
        quotient = np.asarray(x / divisor)
        back, lost = _product(quotient, divisor)
        rest = ((x - back) - lost) / divisor
        # a rest beyond 1 is of a quotient whose exponential is 0 or infinite
        return np.exp(quotient) * (1 + np.where(np.abs(rest) < 1, rest, 0))

    return in_double(compute, self)


def _product(x: Array, number: float) -> tuple[Array, Array]:
    """A product and its rounding error, which is 0 where the product is infinite."""
    product, rest = exact_product(x, np.float64(number))
    return product, np.where(np.isfinite(rest), rest, 0.0)


def _factor(number: float, array: Array) -> float:
    """A number in the precision that is computed in: float32 for halves."""
    return element(number, dtypes.of(array.dtype).wide)


def log_sigmoid_forward(self: Array) -> tuple[Array, Array]:
    """log σ(x) = min(x, 0) - log(1 + exp(-|x|)), and exp(-|x|)."""
    _require_real("log_sigmoid", self)
    x = widen(self)
    buffer = _fallen(x)
    value = np.asarray(limited(x, None, 0) - np.log1p(buffer))
    return value.astype(self.dtype, copy=False), buffer.astype(self.dtype, copy=False)


# --- with kinks ----------------------------------------------------------------------------------
#
# The sides are added up rather than chosen: np.where is slow on masks without a pattern.


def elu(self: Array, alpha: float, scale: float, input_scale: float) -> Array:
    """scale·x, and scale·alpha·(exp(input_scale·x) - 1) for negative x."""
    _require_real("elu", self)

    def compute(x: Array) -> Array:
        part = np.asarray(limited(x, None, 0))
        part *= input_scale
        result = _expm1(part)
        result *= alpha * scale
        limited(x, 0, None, out=part)  # memory that is written again is faster than new memory
        part *= scale
        result += part
        return result

    return by_pieces(compute, self)


def elu_backward(
    grad_output: Array,
    alpha: float,
    scale: float,
    input_scale: float,
    is_result: bool,
    self_or_result: Array,
) -> Array:
    """The slope from the input, or from the result."""
    _require_real("elu_backward", self_or_result)
    height = alpha * scale
    if is_result and alpha < 0:
        raise ValueRangeError(
            f"elu_backward(alpha={alpha}, is_result=True): with a negative alpha the result does "
            "not say which side the input was on; pass the input."
        )

    def compute(grad: Array, x: Array) -> Array:
        left = np.fmin(x, 0)  # NaN counts as the right side, as in PyTorch
        if is_result:
            slope = (left + height) * input_scale
        else:
            slope = np.exp(left * input_scale) * (height * input_scale)
        if height * input_scale != scale:  # else the sides meet with the same slope
            flat = np.asarray(scale, slope.dtype)
            slope = choose(np.asarray(x <= 0), np.asarray(slope), flat)
        return grad * slope

    return by_pieces(compute, grad_output, self_or_result)


def celu(self: Array, alpha: float) -> Array:
    """x on the right, alpha·(exp(x/alpha) - 1) on the left."""
    activation.check_alpha(alpha)
    _require_real("celu", self)

    def compute(x: Array) -> Array:
        result = _expm1(np.asarray(limited(x, None, 0) / alpha))
        result *= alpha
        result += limited(x, 0, None)
        return result

    return by_pieces(compute, self)


def softsign(self: Array) -> Array:
    """x / (1 + |x|)."""
    _require_real("softsign", self)
    return by_pieces(lambda x: x / (1 + np.abs(x)), self)


def tanhshrink(self: Array) -> Array:
    """x - tanh(x); near 0, where that would cancel, as x k/(1 + k)."""
    _require_real("tanhshrink", self)

    def compute(x: Array) -> Array:
        near = limited(x, -1, 1)
        square = near * near
        above, below = (horner(square, part) for part in TANHSHRINK)
        above = above * square
        small = near * (above / (above + below))
        return choose(np.asarray(np.abs(x) < 1), np.asarray(small), np.asarray(x - np.tanh(x)))

    return by_pieces(compute, self)


def _expm1(x: Array) -> Array:
    """exp(x) - 1; of many negative numbers as 2t/(1 - t), t = tanh(x/2), which is faster."""
    if x.size < MANY or not x.max() <= 0:
        return np.asarray(np.expm1(x))
    t = x * 0.5
    np.tanh(t, out=t)
    below = 1 - t
    t *= 2
    t /= below
    return t


def leaky_relu(self: Array, negative_slope: float) -> Array:
    """x, and negative_slope·x for negative x."""
    _require_real("leaky_relu", self)
    if 0 < negative_slope <= 1:
        return by_pieces(lambda x: np.maximum(x, x * negative_slope), self)
    return by_pieces(lambda x: choose(np.asarray(x > 0), x, np.asarray(x * negative_slope)), self)


def hardtanh(self: Array, min_val: float, max_val: float) -> Array:
    """x between two limits; the upper one wins."""
    if self.dtype.kind not in "fViu":
        raise DtypeError(f"hardtanh: needs real numbers, got {dtypes.of(self.dtype)}.")
    low, high = (self.dtype.type(v) for v in (min_val, max_val))
    return limited(self, low, high)


def hardsigmoid(self: Array) -> Array:
    """(x + 3) / 6 between 0 and 1."""
    _require_real("hardsigmoid", self)
    return _widely(lambda x: limited(x + 3, 0, 6) / 6, self)


def hardswish(self: Array) -> Array:
    """x · hardsigmoid(x)."""
    _require_real("hardswish", self)
    return by_pieces(lambda x: limited(x, -3, None) * (limited(x + 3, 0, 6) / 6), self)


def hardswish_backward(grad_output: Array, self: Array) -> Array:
    """ḡ times the slope of hardswish: 0, x/3 + ½, and 1 from 3 on."""
    _require_real("hardswish_backward", self)

    def compute(grad: Array, x: Array) -> Array:
        inner = choose(np.asarray(x >= 3), grad, np.asarray(grad * (x / 3 + 0.5)))
        return choose(np.asarray(x <= -3), np.zeros((), inner.dtype), inner)

    return by_pieces(compute, grad_output, self)


def softshrink(self: Array, lambd: float) -> Array:
    """Nearer to 0 by lambd, and 0 within lambd of it."""
    _require_real("softshrink", self)
    activation.check_lambd(lambd, dtypes.of(self.dtype))
    return _widely(lambda x: x - limited(x, -lambd, lambd), self)


def threshold(self: Array, threshold: float, value: float) -> Array:
    """x, and `value` for x up to the threshold."""
    if self.dtype.kind not in "fViu":
        raise DtypeError(f"threshold: needs real numbers, got {dtypes.of(self.dtype)}.")
    return choose(self <= threshold, np.asarray(value).astype(self.dtype), self)


def hardshrink(self: Array, lambd: float) -> Array:
    """x, and 0 within lambd of 0."""
    _require_real("hardshrink", self)
    return choose((self >= -lambd) & (self <= lambd), np.zeros((), self.dtype), self)


# --- softmax -------------------------------------------------------------------------------------


def _prepared(what: str, self: Array, dim: int, half_to_float: bool) -> tuple[Array, int, Any]:
    """The array in the dtype to compute in, the axis, and the dtype of the result."""
    _require_real(what, self)
    axis = wrap_dim(what, dim, self.ndim)
    return widen(self), axis, np.float32 if half_to_float else self.dtype


def _less_largest(x: Array, axis: int) -> Array:
    """A new array, at most 0."""
    return np.asarray(x - x.max(axis=axis, keepdims=True) if x.size and x.ndim else x - x)


def _total(x: Array, axis: int) -> Array:
    return x.sum(axis=axis, keepdims=True) if x.ndim else x


def _powers(x: Array, axis: int) -> Array:
    """exp(x - max x), in float64: of float32 the difference is exact, of float64 it is taken to
    twice the precision, since exp turns its digits into magnitude."""
    if x.dtype != np.float64:
        wide = _less_largest(x.astype(np.float64), axis)
        return np.exp(wide, out=wide)
    difference = _less_largest(x, axis)
    if not x.size or not x.ndim:
        return np.exp(difference)
    top = x.max(axis=axis, keepdims=True)
    moved = difference - x
    lost = np.asarray((x - (difference - moved)) - (top + moved))
    powers = np.exp(difference)
    lost *= powers
    powers += np.where(np.isfinite(lost) | np.isnan(powers), lost, 0)
    return powers


def softmax(self: Array, dim: int, half_to_float: bool) -> Array:
    """exp(xᵢ) / Σ exp(xⱼ)."""
    x, axis, target = _prepared("softmax", self, dim, half_to_float)
    powers = rows.softmax(x, axis, logarithm=False)
    if powers is None:
        powers = _powers(x, axis)
        powers /= _total(powers, axis)
    return astype(powers, target, copy=False)


def log_softmax(self: Array, dim: int, half_to_float: bool) -> Array:
    """xᵢ - log Σ exp(xⱼ)."""
    x, axis, target = _prepared("log_softmax", self, dim, half_to_float)
    shifted = rows.softmax(x, axis, logarithm=True)
    if shifted is None:
        shifted = _less_largest(x, axis)
        logarithm = _logarithm(_powers(x, axis), shifted == 0, axis)
        shifted -= astype(logarithm, x.dtype, copy=False)
    return astype(shifted, target, copy=False)


def _logarithm(terms: Array, largest: Array, axis: int) -> Array:
    """log Σ of terms whose largest is 1: log1p of the other terms, since small ones would vanish
    when added to 1.
    """
    total = _total(terms, axis)
    if not terms.ndim or not terms.size or np.minimum.reduce(total, None) >= _ALONE:
        return np.log(total)
    terms[largest] = 0  # a single one, where the sum is so small
    return np.where(total < _ALONE, np.log1p(_total(terms, axis)), np.log(total))


_ALONE = 1.5  # a sum of terms up to 1 below which the largest is more than the others together


_LOG_HALF = -0.6931471805599453


def softmax_backward_data(grad_output: Array, output: Array, dim: int, input_dtype: DType) -> Array:
    """s (ḡ - Σ s ḡ), of any numbers s."""
    axis = wrap_dim("softmax_backward_data", dim, output.ndim)
    grad, result = widen(grad_output), widen(output)
    weighted = grad * result
    found = weighted - result * _total(weighted, axis)
    return astype(found, input_dtype.np, copy=False)


def log_softmax_backward_data(
    grad_output: Array, output: Array, dim: int, input_dtype: DType
) -> Array:
    """ḡ - exp(result) Σ ḡ, of any numbers."""
    axis = wrap_dim("log_softmax_backward_data", dim, output.ndim)
    grad, result = widen(grad_output), widen(output)
    found = grad - np.exp(result) * _total(grad, axis)
    return astype(found, input_dtype.np, copy=False)


def softmax_gradient(grad: Array, result: Array, dim: int, input_dtype: DType) -> Array:
    """s (ḡ - Σ s ḡ); an s of 0 has no gradient, whatever ḡ is there."""
    axis = wrap_dim("softmax", dim, result.ndim)
    g, s = widen(grad), widen(result)
    found = rows.softmax_back(g, s, axis)
    if found is None:
        weighted = g * s
        total = _total(weighted, axis)
        if not np.isfinite(total).all():
            weighted = np.where(s == 0, s.dtype.type(0), weighted)
            total = _total(weighted, axis)
        found = weighted - s * total
        if _is_large(s, 0.5):
            found = _balanced(found, s > 0.5, axis)
    return astype(found, input_dtype.np, copy=False)


def log_softmax_gradient(
    grad: Array, self: Array, result: Array, dim: int, input_dtype: DType
) -> Array:
    """ḡ - s Σ ḡ with the shares s = exp(result)."""
    axis = wrap_dim("log_softmax", dim, result.ndim)
    g, r = widen(grad), widen(result)
    x = widen(self).astype(r.dtype, copy=False)
    found = rows.softmax_back(g, r, axis, x)
    if found is None:
        found = g - _shares(r, x, axis) * _total(g, axis)
        if _is_large(r, _LOG_HALF):
            found = _balanced(found, r > _LOG_HALF, axis)
    return astype(found, input_dtype.np, copy=False)


def _shares(result: Array, x: Array, axis: int) -> Array:
    """exp(result) for `result`, the logarithms of shares, corrected by their rounding errors, which
    are found from x: the difference from the largest, and the logarithm of the largest share.
    """
    shares = np.exp(result)
    if not result.ndim or not result.size or np.minimum.reduce(result, None) >= _FEW_DIGITS:
        return shares
    top, most = x.max(axis=axis, keepdims=True), result.max(axis=axis, keepdims=True)
    with np.errstate(invalid="ignore"):
        away = x - top
        moved = away - x
        more = ((away - result) + most) + ((x - (away - moved)) - (top + moved))
    bound = 4 * np.finfo(result.dtype).eps * (-result - most)
    more *= shares
    np.add(shares, more, out=shares, where=np.abs(more) <= bound * shares)
    return shares


_FEW_DIGITS = -16  # the logarithm of a share below which it keeps few digits of the share


def _is_large(result: Array, most: float) -> bool:
    """Whether a share is more than all others together."""
    return bool(result.ndim and result.size and np.maximum.reduce(result, None) > most)


def _balanced(grad: Array, large: Array, axis: int) -> Array:
    """Gradients that add up to 0, written to: with minus the sum of the others for a share above
    1/2, whose own formula cancels.
    """
    grad[large] = 0
    np.copyto(grad, -_total(grad, axis), where=large)
    return grad
