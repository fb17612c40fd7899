"""Arithmetic and elementary functions by Python's `math` and `cmath`, one number at a time."""

from __future__ import annotations

import cmath
import math
import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from adjoint.testing.references.elements import each

Number = Any
NAN, INF = math.nan, math.inf


def both(
    real: Callable[[float], Number], complex_: Callable[[complex], Number]
) -> Callable[..., Any]:
    """One function for real numbers, another for complex ones."""
    return each(lambda x: complex_(x) if isinstance(x, complex) else real(x))


# -- arithmetic ------------------------------------------------------------------------------------


def divided(x: Number, y: Number) -> Number:
    """x / y, with infinities at 0."""
    if y != 0:
        return x / y
    if isinstance(x, complex) or isinstance(y, complex) or x == 0 or math.isnan(x):
        return NAN
    return math.copysign(INF, x) * math.copysign(1.0, y)


def rounded_quotient(x: float, y: float, rounding_mode: str | None = None) -> Number:
    quotient = divided(x, y)
    if rounding_mode is None or not math.isfinite(quotient):
        return quotient
    return float(math.trunc(quotient) if rounding_mode == "trunc" else x // y)


def power(x: Number, y: Number) -> Number:
    if x == 0 and not isinstance(x, complex) and not isinstance(y, complex) and y < 0:
        odd = y == math.trunc(y) and y % 2 == 1
        return math.copysign(INF, x) if odd else INF
    result = x**y
    is_real = not (isinstance(x, complex) or isinstance(y, complex))
    return NAN if is_real and isinstance(result, complex) else result


def inverse_power(y: float, x: float, n: int, sine: bool) -> float:
    """A part of (x - iy)⁻ⁿ, 0 at the origin."""
    value = complex(x, -y) ** -n if x or y else 0j
    return value.imag if sine else value.real


def logarithm(base: float) -> Callable[..., Any]:
    """To a base; the bases 2 and 10 have functions of their own for real numbers."""
    real = math.log2 if base == 2 else math.log10 if base == 10 else math.log
    scale = 1.0 if base == math.e else math.log(base)
    return both(
        lambda x: -INF if x == 0 else real(x),
        lambda x: NAN if x == 0 else cmath.log(x) / scale,
    )


def exponential(x: Number) -> Number:
    return cmath.exp(x) if isinstance(x, complex) else math.exp(x)


def hyperbolic_sine(x: float) -> float:
    return math.copysign(INF, x) if abs(x) > 800 else math.sinh(x)


def complex_sinh(x: complex) -> complex:
    return cmath.sinh(x) if x.imag else complex(hyperbolic_sine(x.real), x.imag)


def complex_expm1(x: complex) -> complex:
    """2 sinh(x/2) exp(x/2), which is exact near 0; far to the left exp(x) - 1."""
    return cmath.exp(x) - 1 if x.real < -1 else 2 * cmath.sinh(x / 2) * cmath.exp(x / 2)


def log_of_sum(x: Number, y: Number, base: float = math.e) -> Number:
    if isinstance(x, complex) or isinstance(y, complex):
        scale, top = math.log(base), complex(x).real
        top = max(top, complex(y).real) if math.isfinite(complex(y).real) else top
        top = top if math.isfinite(top) else 0.0
        powers = cmath.exp((x - top) * scale) + cmath.exp((y - top) * scale)
        return top + cmath.log(powers) / scale
    if math.isinf(x) and x == y:
        return x
    return max(x, y) + math.log1p(base ** -abs(x - y)) / math.log(base)


def logistic(x: Number) -> Number:
    if isinstance(x, complex):
        return 1 / (1 + cmath.exp(-x)) if x.real > -700 else 0.0
    return 1 / (1 + math.exp(-x)) if x > -700 else 0.0


# -- order -----------------------------------------------------------------------------------------


def sign(x: Number) -> Number:
    return (x > 0) - (x < 0)


def complex_sign(x: Number) -> Number:
    if not isinstance(x, complex):
        return sign(x)
    return x / abs(x) if x else 0j


def bounded(x: float, min: float | None = None, max: float | None = None) -> float:
    if math.isnan(x):
        return x
    above = x if min is None or x > min else min
    return above if max is None or above < max else max


def larger(x: float, y: float) -> float:
    return NAN if math.isnan(x) or math.isnan(y) else max(x, y)


def smaller(x: float, y: float) -> float:
    return NAN if math.isnan(x) or math.isnan(y) else min(x, y)


def ignoring_nan(choose: Callable[..., float]) -> Callable[..., float]:
    return lambda x, y: y if math.isnan(x) else x if math.isnan(y) else choose(x, y)


def angle(x: Number) -> float:
    if isinstance(x, complex):
        return cmath.phase(x)
    return x if math.isnan(x) else math.pi if x < 0 else 0.0


def is_close(
    x: Number, y: Number, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False
) -> bool:
    if x != x or y != y:
        return equal_nan and x != x and y != y
    return x == y or abs(x - y) <= atol + rtol * abs(y) < INF


def without_nan(
    x: Any, nan: float | None = None, posinf: float | None = None, neginf: float | None = None
) -> Any:
    largest = float(np.finfo(x.dtype).max)
    replaced = [
        (nan or 0.0) if v != v
        else (largest if posinf is None else posinf) if v == INF
        else (-largest if neginf is None else neginf) if v == -INF
        else v
        for v in x.ravel().tolist()
    ]  # fmt: skip
    return np.array(replaced).reshape(x.shape)


def rounded(x: Number, decimals: int = 0) -> Number:
    if isinstance(x, complex):
        return complex(rounded(x.real, decimals), rounded(x.imag, decimals))
    return float(round(x, decimals)) if math.isfinite(x) else x


def whole(function: Callable[[float], int]) -> Callable[..., Any]:
    return each(lambda x: float(function(x)) if math.isfinite(x) else x)


def truth(function: Callable[[Number, Number], Any]) -> Callable[..., Any]:
    return each(lambda x, y: bool(function(x, y)))


add = each(lambda x, y, alpha=1: x + alpha * y)
sub = each(lambda x, y, alpha=1: x - alpha * y)
mul = each(operator.mul)
div = each(rounded_quotient)
clamp = each(bounded)
maximum, minimum = each(larger), each(smaller)

REFERENCES: dict[str, Callable[..., Any]] = {
    "add": add, "sub": sub, "subtract": sub, "mul": mul, "multiply": mul,
    "rsub": each(lambda x, y, alpha=1: y - alpha * x),
    "div.Tensor": each(divided), "div.Scalar": each(divided), "div": div,
    "divide.Tensor": each(divided), "divide.Scalar": each(divided), "divide": div,
    "true_divide": each(divided), "_over": each(divided),
    "floor_divide": each(lambda x, y: rounded_quotient(x, y, "floor")),
    "remainder": each(operator.mod), "fmod": each(math.fmod),
    "addcmul": each(lambda x, y, z, value=1: x + value * (y * z)),
    "addcdiv": each(lambda x, y, z, value=1: x + divided(value * y, z)),
    "lerp": each(lambda x, y, weight: (1 - weight) * x + weight * y),
    "neg": each(operator.neg), "negative": each(operator.neg), "positive": each(operator.pos),
    "reciprocal": each(lambda x: divided(1.0, x)),
    "pow": each(power), "float_power": each(power), "square": each(lambda x: x * x),
    "sqrt": both(math.sqrt, cmath.sqrt),
    "rsqrt": both(lambda x: INF if x == 0 else 1 / math.sqrt(x), lambda x: 1 / cmath.sqrt(x)),
    "hypot": each(math.hypot),
    "exp": each(exponential), "exp2": each(lambda x: exponential(x * math.log(2))),
    "expm1": both(math.expm1, complex_expm1),
    "log": logarithm(math.e), "log2": logarithm(2), "log10": logarithm(10),
    "log1p": both(math.log1p, lambda x: 2 * cmath.atanh(x / (2 + x))),
    "logaddexp": each(log_of_sum), "logaddexp2": each(lambda x, y: log_of_sum(x, y, 2.0)),
    "sigmoid": each(logistic), "ldexp": each(lambda x, y: x * 2.0**y),
    "sin": both(math.sin, cmath.sin), "cos": both(math.cos, cmath.cos),
    "tan": both(math.tan, cmath.tan), "asin": both(math.asin, cmath.asin),
    "acos": both(math.acos, cmath.acos), "atan": both(math.atan, cmath.atan),
    "sinh": both(hyperbolic_sine, complex_sinh), "cosh": both(math.cosh, cmath.cosh),
    "tanh": both(math.tanh, cmath.tanh), "asinh": both(math.asinh, cmath.asinh),
    "acosh": both(math.acosh, cmath.acosh), "atanh": both(math.atanh, cmath.atanh),
    "arcsin": both(math.asin, cmath.asin), "arccos": both(math.acos, cmath.acos),
    "arctan": both(math.atan, cmath.atan), "arcsinh": both(math.asinh, cmath.asinh),
    "arccosh": both(math.acosh, cmath.acosh), "arctanh": both(math.atanh, cmath.atanh),
    "atan2": each(math.atan2), "arctan2": each(math.atan2),
    "_inverse_power": each(inverse_power),
    "_hypot_slope": each(lambda f, x, y: f * math.cos(math.atan2(y, x)) if x or y else 0.0),
    "_one_less_square": each(lambda x: 1 - x * x), "_atan_slope": each(lambda x: 1 / (1 + x * x)),
    "_atan_decay": each(lambda x: x / (1 + x * x)),
    "_asinh_slope": both(lambda x: math.cos(math.atan(x)), lambda x: 1 / cmath.sqrt(1 + x * x)),
    "_tanh_slope": both(lambda x: math.cosh(x) ** -2 if abs(x) < 300 else 0.0,
                        lambda x: 1 - cmath.tanh(x) ** 2),
    "_share": each(lambda a, b, binary: logistic((a - b) * (math.log(2) if binary else 1))),
    "_share_slope": each(
        lambda a, b, binary: logistic((a - b) * (math.log(2) if binary else 1))
        * logistic((b - a) * (math.log(2) if binary else 1))
    ),
    "_power_derivative": each(
        lambda x, p, n: math.prod(p - k for k in range(n)) * power(x, p - n)
    ),
    "_over_power": each(lambda x, y, n: x * power(y, -n)),
    "_exponential_derivative": each(lambda x, base, n: math.log(base) ** n * base**x),
    "deg2rad": each(math.radians), "rad2deg": each(math.degrees),
    "abs": each(abs), "absolute": each(abs), "sign": each(sign), "sgn": each(complex_sign),
    "angle": each(angle), "copysign": each(math.copysign),
    "ceil": whole(math.ceil), "floor": whole(math.floor), "trunc": whole(math.trunc),
    "fix": whole(math.trunc), "round": each(rounded),
    "frac": each(lambda x: math.modf(x)[0]),
    "clamp": clamp, "clip": clamp, "clamp_min": clamp,
    "clamp_max": each(lambda x, max: bounded(x, None, max)),
    "relu": each(lambda x: bounded(x, 0.0)),
    "maximum": maximum, "minimum": minimum,
    "fmax": each(ignoring_nan(max)), "fmin": each(ignoring_nan(min)),
    "nan_to_num": without_nan,
    "heaviside": each(lambda x, y: x if math.isnan(x) else y if x == 0 else float(x > 0)),
    "eq": truth(operator.eq), "ne": truth(operator.ne), "not_equal": truth(operator.ne),
    "lt": truth(operator.lt), "less": truth(operator.lt),
    "le": truth(operator.le), "less_equal": truth(operator.le),
    "gt": truth(operator.gt), "greater": truth(operator.gt),
    "ge": truth(operator.ge), "greater_equal": truth(operator.ge),
    "isclose": each(is_close),
    "isnan": each(lambda x: x != x), "isfinite": each(cmath.isfinite), "isinf": each(cmath.isinf),
    "isposinf": each(lambda x: x == INF), "isneginf": each(lambda x: x == -INF),
    "isreal": each(lambda x: x.imag == 0), "signbit": each(lambda x: math.copysign(1.0, x) < 0),
    "logical_and": truth(lambda x, y: x and y), "logical_or": truth(lambda x, y: x or y),
    "logical_xor": truth(lambda x, y: bool(x) != bool(y)), "logical_not": each(operator.not_),
    "bitwise_and": each(operator.and_), "bitwise_or": each(operator.or_),
    "bitwise_xor": each(operator.xor), "bitwise_left_shift": each(operator.lshift),
    "bitwise_right_shift": each(operator.rshift),
    "gcd": each(math.gcd), "lcm": each(math.lcm),
}  # fmt: skip
