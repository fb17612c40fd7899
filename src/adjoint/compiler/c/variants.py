"""Expressions whose text depends on arguments that are known beforehand: a power, a mode, a bound.

A maker takes the arguments of a node and the dtype that it computes in. It returns None where only
the eager kernel can answer, or refuse.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from adjoint.compiler.c.functions import POLYGAMMAS
from adjoint.compiler.c.numbers import C_TYPES, REAL, literal, wrapped

Arguments = Mapping[str, Any]
Maker = Callable[[Arguments, str], str | None]

_MOST = {"float32": 3.4028234663852886e38, "float64": 1.7976931348623157e308}


def _power(given: Arguments, dtype: str) -> str | None:
    """Whole powers and square roots without pow()."""
    exponent = given["exponent"]
    if dtype not in REAL:
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
    if dtype not in REAL:
        return {"floor": _whole_floor, "trunc": _whole_trunc}.get(mode, _none)(given, dtype)
    return {
        None: "{self} / {other}",
        "trunc": "trunc{f}({self} / {other})",
        "floor": "ad_floor_divide{f}({self}, {other})",
    }.get(mode)


def _none(given: Arguments, dtype: str) -> None:
    """No text: for what only the eager kernel can answer, or refuse."""


def _divisor(given: Arguments, dtype: str) -> int:
    """What whole numbers are divided by, if it is known; by 0 it is an error."""
    divisor = given["other"]
    return wrapped(divisor, C_TYPES[dtype]) if isinstance(divisor, int) else 0


def _whole_floor(given: Arguments, dtype: str) -> str | None:
    divisor = _divisor(given, dtype)
    sign = "<" if divisor > 0 else ">"  # of a remainder that was rounded the other way
    return f"({{self}} / {{other}} - ({{self}} % {{other}} {sign} 0))" if divisor else None


def _whole_trunc(given: Arguments, dtype: str) -> str | None:
    return "{self} / {other}" if _divisor(given, dtype) else None


def _whole_remainder(given: Arguments, dtype: str) -> str | None:
    divisor = _divisor(given, dtype)
    sign = "<" if divisor > 0 else ">"
    text = f"({{self}} % {{other}} + ({{self}} % {{other}} {sign} 0 ? {{other}} : 0))"
    return text if divisor else None


def _whole_fmod(given: Arguments, dtype: str) -> str | None:
    return "{self} % {other}" if _divisor(given, dtype) else None


def _clamp(given: Arguments, dtype: str) -> str | None:
    """max first, then min; NaN is kept, and wins where it is a bound."""
    low, high = given.get("min"), given.get("max")
    if any(isinstance(b, float) and math.isnan(b) for b in (low, high)) or low is high is None:
        return None
    if dtype == "bool" or (dtype not in REAL and any(isinstance(b, float) for b in (low, high))):
        return None
    if isinstance(low, (int, float)) or low is None:  # bounds that are numbers
        text = "{self}" if low is None else "({self} < {min} ? {min} : {self})"
        if high is None:
            return text
        if low is None:
            return "({self} > {max} ? {max} : {self})"
        if isinstance(high, (int, float)):
            text = "({self} < {min} ? {min} : {self} > {max} ? {max} : {self})"
            if dtype not in REAL:
                low, high = (wrapped(int(b), C_TYPES[dtype]) for b in (low, high))
            return "({self} != {self} ? {self} : {max})" if low > high else text
    text = "{self}" if low is None else _extreme(dtype, "max").format(a="{self}", b="{min}")
    return text if high is None else _extreme(dtype, "min").format(a=text, b="{max}")


def _extreme(dtype: str, which: str) -> str:
    if dtype in REAL:
        return f"ad_{which}{{{{f}}}}({{a}}, {{b}})"
    sign = ">" if which == "max" else "<"
    return f"({{a}} {sign} {{b}} ? {{a}} : {{b}})"


def _rounded(given: Arguments, dtype: str) -> str | None:
    decimals = given["decimals"]
    if dtype not in REAL:
        return "{self}" if decimals == 0 else None
    scale = f"{10.0 ** abs(decimals)!r}{{f}}"
    if decimals == 0 or abs(decimals) > 30:
        return "rint{f}({self})" if decimals == 0 else None
    if decimals > 0:
        return f"rint{{f}}({{self}} * {scale}) / {scale}"
    return f"rint{{f}}({{self}} / {scale}) * {scale}"


def _moved(sign: str) -> Maker:
    """A tensor plus or minus alpha * other: two numbers, multiplied before they are rounded."""

    def text(given: Arguments, dtype: str) -> str:
        number = literal(given["alpha"] * given["other"], C_TYPES[dtype])
        return f"{{self}} {sign} {number}"

    return text


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
    near = f"({gap} - {gap} == 0) & ({gap} <= {{atol}} + fabs{{f}}({{rtol}} * {{other}}))"
    text = f"({{self}} == {{other}}) | ({near})"
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
    if n == 0 and a in (0.5, 1.0):
        return f"ad_exp_square{{f}}({{self}}, {-a!r}{{f}})"
    return f"ad_bell{n}({{self}}, {a!r})" if n <= 8 and a in (0.5, 1.0) else None


def _polygamma(given: Arguments, dtype: str) -> str | None:
    n = given["n"]
    if n == 0:
        return "ad_digamma({self})"
    return f"ad_polygamma{n}({{self}})" if n in POLYGAMMAS else None


def _sinc_derivative(given: Arguments, dtype: str) -> str | None:
    return {0: "ad_sinc({self})", 1: "ad_sinc_slope({self})"}.get(given["n"])


def _spherical_derivative(given: Arguments, dtype: str) -> str | None:
    return {0: "ad_spherical_j0({x})", 1: "ad_spherical_j0_slope({x})"}.get(given["n"])


def _erfcx_derivative(given: Arguments, dtype: str) -> str | None:
    return {0: "ad_erfcx({self})", 1: "ad_erfcx_slope({self})"}.get(given["n"])


def _bessel_derivative(kind: str) -> Maker:
    """J or Y of order 0 or 1, and their slopes: C₀' = -C₁, C₁' = C₀ - C₁/x."""
    known = {
        (0, 0): f"ad_{kind}0({{self}})",
        (0, 1): f"-ad_{kind}1({{self}})",
        (1, 0): f"ad_{kind}1({{self}})",
        (1, 1): f"ad_{kind}1_slope({{self}})",
    }
    return lambda given, dtype: known.get((given["order"], given["n"]))


def _log_ndtr_derivative(given: Arguments, dtype: str) -> str | None:
    return "ad_log_ndtr_slope({self})" if given["n"] == 1 else None


NUMBERS: dict[str, Maker] = {
    "pow.Tensor_Scalar": _power,
    "div.Tensor_mode": _divided,
    "div.Scalar_mode": _divided,
    "clamp.default": _clamp,
    "clamp.Tensor": _clamp,
    "clamp_min.default": _clamp,
    "clamp_max.default": _clamp,
    "round.decimals": _rounded,
}
REALS: dict[str, Maker] = {
    "add.Scalar": _moved("+"),
    "sub.Scalar": _moved("-"),
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
    "_sinc_derivative.default": _sinc_derivative,
    "_spherical_bessel_j0_derivative.default": _spherical_derivative,
    "_erfcx_derivative.default": _erfcx_derivative,
    "_bessel_j_derivative.default": _bessel_derivative("j"),
    "_bessel_y_derivative.default": _bessel_derivative("y"),
}
WHOLE: dict[str, Maker] = {
    **{f"floor_divide.{o}": _whole_floor for o in ("default", "Scalar")},
    **{f"remainder.{o}": _whole_remainder for o in ("Tensor", "Scalar")},
    **{f"fmod.{o}": _whole_fmod for o in ("Tensor", "Scalar")},
}
