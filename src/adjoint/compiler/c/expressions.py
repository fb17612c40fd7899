"""Pointwise rows as C expressions.

The renderer is a table from an operator to text. In it `{self}`, `{other}`, … stand for the
operands, already of the type that the operator computes in, and `{f}` for the suffix of that type's
functions and constants (`sinf`, `0.5f`). Whole numbers and booleans have texts of their own where
their arithmetic differs. Where the text depends on an argument that is known beforehand (a power, a
mode), a function makes it. An operator that is not here runs its decomposition, or calls back to
its eager kernel.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from adjoint.compiler.c.functions import FUNCTIONS, VECTORS, declared

C_TYPES = {
    "float32": "float",
    "float64": "double",
    "bool": "unsigned char",
    "int64": "long long",
    "int32": "int",
    "int16": "short",
    "int8": "signed char",
    "uint8": "unsigned char",
}
_REAL = ("float32", "float64")
_BITS = {"int": 32, "short": 16, "signed char": 8, "unsigned char": 8}
_MOST = {"float32": 3.4028234663852886e38, "float64": 1.7976931348623157e308}

Arguments = Mapping[str, Any]

_COMPARISONS = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}
_SHIFTS = ("Tensor", "Tensor_Scalar", "Scalar_Tensor")
_BITWISE = {
    f"bitwise_{name}.{o}": f"({{self}} {sign} {{other}})"
    for name, sign in (("and", "&"), ("or", "|"), ("xor", "^"))
    for o in ("Tensor", "Scalar", "Scalar_Tensor")
}

# The same for numbers of every kind
_NUMBERS = {
    "mul.Tensor": "{self} * {other}",
    "mul.Scalar": "{self} * {other}",
    "add.Tensor": "{self} + {alpha} * {other}",
    "add.Scalar": "{self} + {alpha} * {other}",
    "sub.Tensor": "{self} - {alpha} * {other}",
    "sub.Scalar": "{self} - {alpha} * {other}",
    "rsub.Scalar": "{other} - {alpha} * {self}",
    "rsub.Tensor": "{other} - {alpha} * {self}",
    "addcmul.default": "{self} + {value} * {tensor1} * {tensor2}",
    "neg.default": "-{self}",
    "square.default": "{self} * {self}",
    "relu.default": "({self} <= 0 ? 0 : {self})",
    "threshold.default": "({self} <= {threshold} ? {value} : {self})",
    "heaviside.default": "({self} == 0 ? {values} : {self} > 0 ? 1 : {self} < 0 ? 0 : {self})",
}
# and of booleans too
_ALL = {
    "where.self": "({condition} ? {self} : {other})",
    "where.ScalarSelf": "({condition} ? {self} : {other})",
    "where.ScalarOther": "({condition} ? {self} : {other})",
    "logical_and.default": "(({self} != 0) & ({other} != 0))",
    "logical_or.default": "(({self} != 0) | ({other} != 0))",
    "logical_xor.default": "(({self} != 0) ^ ({other} != 0))",
    "logical_not.default": "({self} == 0)",
    "_to_copy.default": "{self}",
    "clone.default": "{self}",
    "copy.default": "{src}",
    "detach.default": "{self}",
    "_settle.default": "{self}",
    **{
        f"{name}.{o}": f"({{self}} {sign} {{other}})"
        for name, sign in _COMPARISONS.items()
        for o in ("Tensor", "Scalar")
    },
}
_FUNCTIONS_OF_ONE = (
    "exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sin", "cos", "tan", "asin", "acos",
    "atan", "sinh", "cosh", "tanh", "asinh", "acosh", "atanh", "erf", "erfc", "sqrt", "ceil",
    "floor", "trunc",
)  # fmt: skip
_REALS = {
    **{f"{name}.default": f"{name}{{f}}({{self}})" for name in _FUNCTIONS_OF_ONE},
    "round.default": "rint{f}({self})",
    "frac.default": "{self} - trunc{f}({self})",
    "abs.default": "fabs{f}({self})",
    "sign.default": "ad_sign{f}({self})",
    "sgn.default": "ad_sign{f}({self})",
    "signbit.default": "(copysign{f}(1, {self}) < 0)",
    "angle.default": "({self} != {self} ? {self} : {self} < 0 ? 3.141592653589793{f} : 0)",
    "copysign.Tensor": "copysign{f}({self}, {other})",
    "copysign.Scalar": "copysign{f}({self}, {other})",
    "nextafter.default": "nextafter{f}({self}, {other})",
    "ldexp.Tensor": "ad_ldexp({self}, {other})",
    "deg2rad.default": "{self} * 0.017453292519943295{f}",
    "rad2deg.default": "{self} * 57.29577951308232{f}",
    # quotients and powers
    "div.Tensor": "{self} / {other}",
    "div.Scalar": "{self} / {other}",
    "floor_divide.default": "ad_floor_divide{f}({self}, {other})",
    "floor_divide.Scalar": "ad_floor_divide{f}({self}, {other})",
    "remainder.Tensor": "ad_remainder{f}({self}, {other})",
    "remainder.Scalar": "ad_remainder{f}({self}, {other})",
    "remainder.Scalar_Tensor": "ad_remainder{f}({self}, {other})",
    "fmod.Tensor": "fmod{f}({self}, {other})",
    "fmod.Scalar": "fmod{f}({self}, {other})",
    "reciprocal.default": "1 / {self}",
    "rsqrt.default": "1 / sqrt{f}({self})",
    "addcdiv.default": "{self} + {value} * {tensor1} / {tensor2}",
    "lerp.Tensor": "ad_lerp{f}({self}, {end}, {weight})",
    "_quotient.default": "({other} == 0 ? 0 : {self} / {other})",
    "atan2.default": "atan2{f}({self}, {other})",
    "hypot.default": "hypot{f}({self}, {other})",
    "pow.Tensor_Tensor": "pow{f}({self}, {exponent})",
    "pow.Scalar": "pow{f}({self}, {exponent})",
    # limits
    "maximum.default": "ad_max{f}({self}, {other})",
    "minimum.default": "ad_min{f}({self}, {other})",
    "fmax.default": "ad_fmax{f}({self}, {other})",
    "fmin.default": "ad_fmin{f}({self}, {other})",
    "clamp_min.Tensor": "ad_max{f}({self}, {min})",
    "clamp_max.Tensor": "ad_min{f}({self}, {max})",
    "isnan.default": "({self} != {self})",
    "isinf.default": "(fabs{f}({self}) == __builtin_inf{f}())",
    "isposinf.default": "({self} == __builtin_inf{f}())",
    "isneginf.default": "({self} == -__builtin_inf{f}())",
    "isfinite.default": "({self} - {self} == 0)",
    # exponentials
    "sigmoid.default": "1 / (1 + exp{f}(-{self}))",
    "_expit_slope.default": "ad_expit_slope{f}({self})",
    "logaddexp.default": "ad_logaddexp{f}({self}, {other})",
    "logaddexp2.default": "ad_logaddexp2{f}({self}, {other})",
    "_exp_difference.default": "ad_exp_difference{f}({self}, {other})",
    **{
        f"{prefix}.{o}": f"ad_{name}{{f}}({{self}}, {{other}})"
        for prefix, name, overloads in (
            ("xlogy", "xlogy", ("Tensor", "Scalar_Self", "Scalar_Other")),
            ("special_xlog1py", "xlog1py", ("default", "self_scalar", "other_scalar")),
        )
        for o in overloads
    },
    "special_entr.default": "ad_entr{f}({self})",
    # activations
    "silu.default": "({self} < -800 ? -800 : {self}) / (1 + exp{f}(-{self}))",
    "silu_backward.default": "{grad_output} * ad_silu_slope{f}({self})",
    "mish.default": "ad_mish{f}({self})",
    "mish_backward.default": "{grad_output} * ad_mish_slope{f}({self})",
    "softplus.default": "({self} * {beta} > {threshold} ? {self}"
    " : ad_softplus{f}({self} * {beta}) / {beta})",
    "softplus_backward.default": "({self} * {beta} > {threshold} ? {grad_output}"
    " : {grad_output} / (1 + exp{f}(-{beta} * {self})))",
    "log_sigmoid.default": "ad_log_sigmoid{f}({self})",
    "sigmoid_backward.default": "{grad_output} * ({output} * (1 - {output}))",
    "tanh_backward.default": "{grad_output} * (1 - {output} * {output})",
    "elu.default": "({self} > 0 ? {scale} * {self}"
    " : {alpha} * {scale} * expm1{f}({input_scale} * ({self} > 0 ? 0 : {self})))",
    "leaky_relu.default": "({self} > 0 ? {self} : {self} * {negative_slope})",
    "leaky_relu_backward.default": "({self} > 0 ? {grad_output} : {grad_output} * {negative_slope})",
    "_prelu_kernel.default": "({self} > 0 ? {self} : {self} * {weight})",
    "hardtanh.default": "ad_min{f}(ad_max{f}({self}, {min_val}), {max_val})",
    "hardtanh_backward.default": "(({self} <= {min_val}) | ({self} >= {max_val}) ? 0 : {grad_output})",
    "hardsigmoid.default": "ad_min{f}(ad_max{f}({self} + 3, 0), 6) / 6",
    "hardsigmoid_backward.default": "(({self} > -3) & ({self} < 3) ? {grad_output} / 6 : 0)",
    "hardswish.default": "ad_max{f}({self}, -3) * (ad_min{f}(ad_max{f}({self} + 3, 0), 6) / 6)",
    "hardswish_backward.default": "({self} <= -3 ? 0 : {self} >= 3 ? {grad_output}"
    " : {grad_output} * ({self} / 3 + 0.5{f}))",
    "hardshrink.default": "(({self} >= -{lambd}) & ({self} <= {lambd}) ? 0 : {self})",
    "hardshrink_backward.default": "(({self} >= -{lambd}) & ({self} <= {lambd}) ? 0 : {grad_out})",
    "softshrink_backward.default": "(({self} >= -{lambd}) & ({self} <= {lambd}) ? 0 : {grad_output})",
    "threshold_backward.default": "({self} <= {threshold} ? 0 : {grad_output})",
    # special functions, in double
    "special_ndtr.default": "ad_ndtr{f}({self})",
    "special_log_ndtr.default": "ad_log_ndtr({self})",
    "special_erfcx.default": "ad_erfcx({self})",
    "erfinv.default": "ad_erfinv({self})",
    "_erfinv_slope.default": "ad_erfinv_slope({self})",
    "special_ndtri.default": "ad_ndtri({self})",
    "_ndtri_slope.default": "ad_ndtri_slope({self})",
    "sinc.default": "ad_sinc({self})",
    "lgamma.default": "ad_lgamma({self})",
    "digamma.default": "ad_digamma({self})",
    "i0.default": "ad_i0({self})",
    "special_i0e.default": "ad_i0e({self})",
    "special_i1.default": "ad_i1({self})",
    "special_i1e.default": "ad_i1e({self})",
}
_WHOLE = {
    **_BITWISE,
    **{f"bitwise_left_shift.{o}": "ad_shift_left" for o in _SHIFTS},
    **{f"bitwise_right_shift.{o}": "ad_shift_right" for o in _SHIFTS},
    "bitwise_not.default": "(~{self})",
    **{f"{n}.default": "{self}" for n in ("round", "ceil", "floor", "trunc", "nan_to_num")},
    "abs.default": "({self} < 0 ? -{self} : {self})",
    "sign.default": "(({self} > 0) - ({self} < 0))",
    "sgn.default": "(({self} > 0) - ({self} < 0))",
    "signbit.default": "({self} < 0)",
    "maximum.default": "({self} > {other} ? {self} : {other})",
    "minimum.default": "({self} < {other} ? {self} : {other})",
    "fmax.default": "({self} > {other} ? {self} : {other})",
    "fmin.default": "({self} < {other} ? {self} : {other})",
    "clamp_min.Tensor": "({self} < {min} ? {min} : {self})",
    "clamp_max.Tensor": "({self} > {max} ? {max} : {self})",
    "pow.Tensor_Tensor": "ad_power({self}, {exponent})",
    "pow.Scalar": "ad_power({self}, {exponent})",
    "gcd.default": "ad_gcd({self}, {other})",
    "lcm.default": "ad_lcm({self}, {other})",
    "isnan.default": "0",
    "isinf.default": "0",
    "isfinite.default": "1",
}
_BOOLEAN = {
    **_BITWISE,
    "bitwise_not.default": "(!{self})",
    "add.Tensor": "({self} | {other})",
    "mul.Tensor": "({self} & {other})",
    "mul.Scalar": "({self} & {other})",
    "maximum.default": "({self} | {other})",
    "minimum.default": "({self} & {other})",
    "abs.default": "{self}",
    "sign.default": "{self}",
    "sgn.default": "{self}",
    "isnan.default": "0",
    "isinf.default": "0",
    "isfinite.default": "1",
}


# -- texts that depend on arguments ---------------------------------------------------------------


def _power(given: Arguments, dtype: str) -> str | None:
    """Whole powers and square roots without pow()."""
    exponent = given["exponent"]
    if dtype not in _REAL:
        if dtype == "bool" or not isinstance(exponent, int) or exponent < 0:
            return None  # NumPy refuses negative powers
        return _product(exponent) if 0 < exponent <= 4 else "ad_power({self}, {exponent})"
    if not isinstance(exponent, (int, float)):
        return None
    if abs(exponent) in (1, 2, 3, 4):
        product = _product(int(abs(exponent)))
        return product if exponent > 0 else f"1 / ({product})"
    roots = {0: "1", 0.5: "sqrt{f}({self})"}
    return roots.get(exponent, "pow{f}({self}, {exponent})")


def _product(count: int) -> str:
    if count == 4:
        return "({self} * {self}) * ({self} * {self})"
    return " * ".join(["{self}"] * count)


def _divided(given: Arguments, dtype: str) -> str | None:
    mode = given["rounding_mode"]
    if dtype not in _REAL:
        return {"floor": _whole_floor, "trunc": _whole_trunc}.get(mode, _none)(given, dtype)
    return {
        None: "{self} / {other}",
        "trunc": "trunc{f}({self} / {other})",
        "floor": "ad_floor_divide{f}({self}, {other})",
    }.get(mode)


def _none(given: Arguments, dtype: str) -> None:
    """No text: for what only the eager kernel can answer, or refuse."""


def _divides(given: Arguments) -> bool:
    """Whether a divisor is known and not 0: dividing whole numbers by 0 is an error."""
    return isinstance(given["other"], int) and given["other"] != 0


def _whole_floor(given: Arguments, dtype: str) -> str | None:
    if not _divides(given):
        return None
    return "({self} / {other} - (({self} % {other} != 0) & (({self} < 0) != ({other} < 0))))"


def _whole_trunc(given: Arguments, dtype: str) -> str | None:
    return "{self} / {other}" if _divides(given) else None


def _whole_remainder(given: Arguments, dtype: str) -> str | None:
    if not _divides(given):
        return None
    rest = "({self} % {other})"
    return f"({rest} + (({rest} != 0) & (({{self}} < 0) != ({{other}} < 0)) ? {{other}} : 0))"


def _whole_fmod(given: Arguments, dtype: str) -> str | None:
    return "{self} % {other}" if _divides(given) else None


def _clamp(given: Arguments, dtype: str) -> str | None:
    """max first, then min; NaN is kept, and wins where it is a bound."""
    low, high = given.get("min"), given.get("max")
    if any(isinstance(b, float) and math.isnan(b) for b in (low, high)) or low is high is None:
        return None
    if dtype == "bool" or (dtype not in _REAL and any(isinstance(b, float) for b in (low, high))):
        return None
    if isinstance(low, (int, float)) or low is None:  # bounds that are numbers
        text = "{self}" if low is None else "({self} < {min} ? {min} : {self})"
        if high is None:
            return text
        if low is None:
            return "({self} > {max} ? {max} : {self})"
        if isinstance(high, (int, float)):
            text = "({self} < {min} ? {min} : {self} > {max} ? {max} : {self})"
            low, high = (b if dtype in _REAL else _wrapped(b, C_TYPES[dtype]) for b in (low, high))
            return "({self} != {self} ? {self} : {max})" if low > high else text
    text = "{self}" if low is None else _WHOLE_OR(dtype, "max").format(a="{self}", b="{min}")
    return text if high is None else _WHOLE_OR(dtype, "min").format(a=text, b="{max}")


def _WHOLE_OR(dtype: str, which: str) -> str:
    if dtype in _REAL:
        return f"ad_{which}{{{{f}}}}({{a}}, {{b}})"
    sign = ">" if which == "max" else "<"
    return f"({{a}} {sign} {{b}} ? {{a}} : {{b}})"


def _rounded(given: Arguments, dtype: str) -> str | None:
    decimals = given["decimals"]
    if dtype not in _REAL:
        return "{self}" if decimals == 0 else None
    scale = f"{10.0 ** abs(decimals)!r}{{f}}"
    if decimals == 0 or abs(decimals) > 30:
        return "rint{f}({self})" if decimals == 0 else None
    if decimals > 0:
        return f"rint{{f}}({{self}} * {scale}) / {scale}"
    return f"rint{{f}}({{self}} / {scale}) * {scale}"


def _lerp(given: Arguments, dtype: str) -> str | None:
    if abs(given["weight"]) < 0.5:
        return "{self} + {weight} * ({end} - {self})"
    return "{end} - ({end} - {self}) * (1 - {weight})"


def _finite(given: Arguments, dtype: str) -> str | None:
    """nan_to_num."""
    most = _MOST[dtype]
    for_nan, above, below = (
        literal(default if given[k] is None else given[k], C_TYPES[dtype])
        for k, default in (("nan", 0.0), ("posinf", most), ("neginf", -most))
    )
    infinity = "__builtin_inf{f}()"
    return (
        f"({{self}} != {{self}} ? {for_nan} : {{self}} == {infinity} ? {above}"
        f" : {{self}} == -{infinity} ? {below} : {{self}})"
    )


def _close(given: Arguments, dtype: str) -> str | None:
    rtol, atol = given["rtol"], given["atol"]
    if not (rtol >= 0 and atol >= 0):
        return None
    gap = "fabs{f}({self} - {other})"
    text = f"({{self}} == {{other}}) | ({gap} - {gap} == 0) & ({gap} <= {{atol}} + fabs{{f}}({{rtol}} * {{other}}))"
    if given["equal_nan"]:
        text += " | (({self} != {self}) & ({other} != {other}))"
    return f"({text})"


def _gelu(given: Arguments, dtype: str) -> str | None:
    names = {"none": "ad_gelu{f}({self})", "tanh": "ad_gelu_tanh{f}({self})"}
    return names.get(given["approximate"])


def _gelu_backward(given: Arguments, dtype: str) -> str | None:
    names = {"none": "ad_gelu_slope{f}({self})", "tanh": "ad_gelu_tanh_slope{f}({self})"}
    slope = names.get(given["approximate"])
    return slope and f"{{grad_output}} * {slope}"


def _elu_backward(given: Arguments, dtype: str) -> str | None:
    if given["is_result"]:
        if given["alpha"] < 0:
            return None
        slope = "({self_or_result} + {alpha} * {scale}) * {input_scale}"
    else:
        left = "({self_or_result} > 0 ? 0 : {self_or_result})"
        slope = f"exp{{f}}({left} * {{input_scale}}) * ({{alpha}} * {{scale}} * {{input_scale}})"
    return f"{{grad_output}} * ({{self_or_result}} <= 0 ? {slope} : {{scale}})"


def _softshrink(given: Arguments, dtype: str) -> str | None:
    return "{self} - ad_bend{f}({self}, {lambd})" if given["lambd"] >= 0 else None


def _logit(given: Arguments, dtype: str) -> str | None:
    if given["eps"] is None:
        return "ad_logit({self})"
    low, high = (literal(b, C_TYPES[dtype]) for b in (given["eps"], 1 - given["eps"]))
    return f"ad_logit(ad_min{{f}}(ad_max{{f}}({{self}}, {low}), {high}))"


def _logit_slope(given: Arguments, dtype: str) -> str | None:
    eps = given["eps"]
    low, high, outside = (0.0, 1.0, '__builtin_nan("")') if eps is None else (eps, 1 - eps, "0")
    x = "((double){self})"
    return f"(({x} < {low!r}) | ({x} > {high!r}) ? {outside} : 1 / ({x} * (1 - {x})))"


def _bell(given: Arguments, dtype: str) -> str | None:
    """A derivative of exp(-a x²)."""
    n, a = given["n"], float(given["a"])
    return f"ad_bell({{self}}, {n}, {a!r})" if n <= 8 and a in (0.5, 1.0) else None


def _polygamma(given: Arguments, dtype: str) -> str | None:
    n = given["n"]
    if not 0 <= n <= 20:
        return None
    return f"ad_polygamma({n}, {{self}})" if n else "ad_digamma({self})"


def _log_ndtr_derivative(given: Arguments, dtype: str) -> str | None:
    return "ad_log_ndtr_slope({self})" if given["n"] == 1 else None


_Maker = Callable[[Arguments, str], str | None]

_MADE: dict[str, _Maker] = {
    "pow.Tensor_Scalar": _power,
    "div.Tensor_mode": _divided,
    "div.Scalar_mode": _divided,
    "clamp.default": _clamp,
    "clamp.Tensor": _clamp,
    "clamp_min.default": _clamp,
    "clamp_max.default": _clamp,
    "round.decimals": _rounded,
}
_MADE_REAL: dict[str, _Maker] = {
    "lerp.Scalar": _lerp,
    "nan_to_num.default": _finite,
    "isclose.default": _close,
    "gelu.default": _gelu,
    "gelu_backward.default": _gelu_backward,
    "elu_backward.default": _elu_backward,
    "softshrink.default": _softshrink,
    "logit.default": _logit,
    "_logit_slope.default": _logit_slope,
    "_gaussian_derivative.default": _bell,
    "polygamma.default": _polygamma,
    "_log_ndtr_derivative.default": _log_ndtr_derivative,
}
_MADE_WHOLE: dict[str, _Maker] = {
    **{f"floor_divide.{o}": _whole_floor for o in ("default", "Scalar")},
    **{f"remainder.{o}": _whole_remainder for o in ("Tensor", "Scalar")},
    **{f"fmod.{o}": _whole_fmod for o in ("Tensor", "Scalar")},
}

# Operators that have an expression for some type.
EXPRESSIONS = frozenset(
    name
    for table in (_ALL, _NUMBERS, _REALS, _WHOLE, _BOOLEAN, _MADE, _MADE_REAL, _MADE_WHOLE)
    for name in table
)


def expression(name: str, dtype: str, given: Arguments) -> str | None:
    """The text of an operator that computes in a dtype; None where there is none."""
    made = _MADE.get(name) or (_MADE_REAL if dtype in _REAL else _MADE_WHOLE).get(name)
    if made is not None:
        return None if dtype == "bool" else made(given, dtype)
    if name in _ALL:
        return _ALL[name]
    if dtype == "bool":
        return _BOOLEAN.get(name)
    if dtype not in _REAL and name.startswith("bitwise_") and "shift" in name:
        return _shift(name, dtype)
    return _NUMBERS.get(name) or (_REALS if dtype in _REAL else _WHOLE).get(name)


def _shift(name: str, dtype: str) -> str:
    """Shifts by as many bits as there are, or more, leave nothing (or the sign)."""
    bits = _BITS.get(C_TYPES[dtype], 64)
    inside = f"({{other}} >= 0) & ({{other}} < {bits})"
    if "left" in name:
        return f"({inside} ? {{self}} << ({{other}} & {bits - 1}) : 0)"
    return (
        f"({{self}} >> ({inside} ? {{other}} : {bits - 1}))"
        if dtype != "uint8"
        else (f"({inside} ? {{self}} >> ({{other}} & 7) : 0)")
    )


def cast(text: str, dtype: str) -> str:
    """A value as one of another dtype."""
    return f"({text} != 0)" if dtype == "bool" else f"(({C_TYPES[dtype]}){text})"


# Functions that are quick in vectors only, and how many arguments they have.
VECTORIZED = VECTORS | dict.fromkeys(FUNCTIONS, 1)

# What an accumulator starts with, how it takes one more value in, and how two of them join.
IDENTITY = {
    "double": {"sum": "0", "mean": "0", "amax": "-HUGE_VAL", "amin": "HUGE_VAL", "prod": "1"},
    "long long": {
        "sum": "0",
        "amax": "LEAST",
        "amin": "(-1 - LEAST)",
        "prod": "1",
        "any": "0",
        "all": "1",
    },
}
COMBINE = {
    "sum": "{acc} += {v};",
    "mean": "{acc} += {v};",
    "prod": "{acc} *= {v};",
    "any": "{acc} |= {v} != 0;",
    "all": "{acc} &= {v} != 0;",
    "amax": "{acc} = {v} > {acc} || {v} != {v} ? {v} : {acc};",
    "amin": "{acc} = {v} < {acc} || {v} != {v} ? {v} : {acc};",
}

# What an operator costs, in additions; 1 where nothing is said.
WEIGHTS = {
    **dict.fromkeys(_FUNCTIONS_OF_ONE, 20),
    **dict.fromkeys(("ceil", "floor", "trunc"), 1),
    **dict.fromkeys(
        (
            "sigmoid", "pow", "atan2", "hypot", "logaddexp", "logaddexp2", "silu", "silu_backward",
            "mish", "mish_backward", "softplus", "softplus_backward", "log_sigmoid", "elu",
            "elu_backward", "_exp_difference", "_expit_slope", "xlogy", "special_xlog1py",
            "special_entr", "logit", "sinc", "_gaussian_derivative", "fmod", "remainder",
            "floor_divide", "nextafter", "ldexp", "gcd", "lcm",
        ),
        30,
    ),
    **dict.fromkeys(("gelu", "gelu_backward", "special_ndtr", "special_erfcx"), 50),
    **dict.fromkeys(
        (
            "special_log_ndtr", "_log_ndtr_derivative", "erfinv", "_erfinv_slope", "special_ndtri",
            "_ndtri_slope", "lgamma", "digamma", "polygamma", "i0", "special_i0e", "special_i1",
            "special_i1e",
        ),
        200,
    ),
    **dict.fromkeys(("div", "reciprocal", "rsqrt", "sqrt", "addcdiv", "_quotient"), 4),
}  # fmt: skip


def literal(value: Any, c_type: str) -> str:
    """A Python number as a C constant of a type."""
    if isinstance(value, bool):
        return "1" if value else "0"
    if c_type in ("float", "double"):
        number = float(value)
        suffix = "f" if c_type == "float" else ""
        if math.isnan(number):
            return f"NAN_{c_type}"
        if math.isinf(number):
            return f"({'-' if number < 0 else ''}INF_{c_type})"
        return (
            f"({number!r}{suffix})"
            if number < 0 or math.copysign(1, number) < 0
            else f"{number!r}{suffix}"
        )
    if c_type in _BITS:
        return f"({_wrapped(int(value), c_type)})"
    return "LEAST" if value == -(1 << 63) else f"({int(value)}LL)"


def _wrapped(value: int, c_type: str) -> int:
    """A whole number in the bits of a type."""
    bits = _BITS.get(c_type, 64)
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> (bits - 1) and c_type != "unsigned char" else value


def prelude(body: str, data_offset: int) -> str:
    """Declarations that a source starts with: no header is needed, and only what it calls is
    declared.

    Arguments are NumPy's array objects, whose first field after the header is the address of the
    data: reading it here is much quicker than asking for it in Python.
    """
    lines = [
        "/* written by adjoint: all memory is given by the caller */",
        f"#define DATA(objects, slot) (*(void **)((char *)(objects)[slot] + {data_offset}))",
        "#define INF_double __builtin_inf()",
        "#define INF_float __builtin_inff()",
        '#define NAN_double __builtin_nan("")',
        '#define NAN_float __builtin_nanf("")',
        "#define HUGE_VAL __builtin_inf()",
        "#define LEAST (-9223372036854775807LL - 1)",
        "#define SMALLER(a, b) ((a) < (b) ? (a) : (b))",
        "#define LARGER(a, b) ((a) > (b) ? (a) : (b))",
        "#ifdef _OPENMP",
        "extern int omp_get_max_threads(void), omp_get_thread_num(void);",
        "#define THREADS SMALLER(omp_get_max_threads(), 16)",
        "#define THREAD omp_get_thread_num()",
        "#else",
        "#define THREADS 1",
        "#define THREAD 0",
        "#endif",
    ]
    return "\n".join([*lines, *declared(body)]) + "\n"
