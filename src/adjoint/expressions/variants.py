"""Elements that depend on arguments known beforehand: a power, a mode, a bound.

A row names such a function in its column `element`: `variants.power`. The function takes the
arguments of a node and the dtype in which it computes. It returns a text in the language of the
column (`parsing.py`), perhaps with numbers computed from the arguments, or None if only the eager
kernel can compute, or refuse, the call.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from adjoint.core import dtypes
from adjoint.core.c_types import C_TYPES
from adjoint.core.dtypes import DType
from adjoint.core.powers import falling_power
from adjoint.core.records import record
from adjoint.expressions import definitions
from adjoint.expressions.c_numbers import wrapped
from adjoint.expressions.special_functions import MOST

Arguments = Mapping[str, Any]

_MOST_TERMS = 10_000  # most terms of polygamma's sums


@record
class WithNumbers:
    """A text, and the numbers that some names in it stand for."""

    text: str  # "self + most"
    numbers: Mapping[str, Any]  # {"most": 2.5}


Element = str | WithNumbers | None  # None if only the eager kernel can compute the call
Variant = Callable[[Arguments, DType], Element]


def _exists(function: str) -> bool:
    """Whether there is a function for a number that is part of its name."""
    return function in definitions.names()


# -- arithmetic -----------------------------------------------------------------------------------


def plus(given: Arguments, dtype: DType) -> Element:
    """self + alpha * other; two numbers are multiplied before they are rounded."""
    if given["alpha"] == 1:
        return "self + other"
    return WithNumbers("self + product", {"product": given["alpha"] * given["other"]})


def minus(given: Arguments, dtype: DType) -> Element:
    if given["alpha"] == 1:
        return "self - other"
    return WithNumbers("self - product", {"product": given["alpha"] * given["other"]})


def complex_plus(given: Arguments, dtype: DType) -> str:
    return _complex_sum(given, "+")


def complex_minus(given: Arguments, dtype: DType) -> str:
    return _complex_sum(given, "-")


def _complex_sum(given: Arguments, sign: str) -> str:
    return f"self {sign} other" if given["alpha"] == 1 else f"self {sign} ad_times@(alpha, other)"


def power(given: Arguments, dtype: DType) -> str | None:
    """Whole powers and square roots without pow()."""
    exponent = given["exponent"]
    if not dtype.is_floating_point:
        if not isinstance(exponent, int) or exponent < 0:
            return None  # NumPy refuses negative powers of whole numbers
        return _product(exponent) if 0 < exponent <= 4 else "ad_power(self, exponent)"
    if not isinstance(exponent, (int, float)):
        return None
    if abs(exponent) in (1, 2, 3, 4):
        product = _product(int(abs(exponent)))
        # inverses first, as the product overflows before its inverse underflows
        return product if exponent > 0 else product.replace("self", "(1 / self)")
    roots = {0: "1", 0.5: "sqrt@(self)"}
    return roots.get(exponent, "pow@(self, exponent)")


def power_derivative(given: Arguments, dtype: DType) -> Element:
    """A factor between two halves of a power, with the digits that rounding of p - n loses."""
    n, exponent = given["n"], given["exponent"]
    if not dtype.is_floating_point or not 0 <= n <= MOST:
        return None
    if not isinstance(exponent, (int, float, np.generic)):
        factors = " * ".join(["1", *(f"(exponent - {k})" for k in range(n))])
        return f"ad_tensor_power@(self, exponent, {n}, {factors})"
    numbers = falling_power(float(given["exponent"]), n, dtype.type)
    names = ("factor", "power", "rest")
    return WithNumbers(
        f"ad_power_derivative@(self, {', '.join(names)})", dict(zip(names, numbers, strict=True))
    )


def over_power(given: Arguments, dtype: DType) -> str | None:
    n = given["n"]
    if not dtype.is_floating_point or not 0 <= n <= MOST:
        return None
    return " / ".join(["self", *["other"] * n])


def complex_power(given: Arguments, dtype: DType) -> str:
    """Squares, roots and inverses without cpow(), as in NumPy."""
    ways = {
        1: "self",
        2: "ad_times@(self, self)",
        0.5: "ad_csqrt@(self)",
        -1: "ad_inverse_of@(self)",
    }
    return ways.get(given["exponent"], "ad_cpow@(self, exponent)")


def _product(count: int) -> str:
    return "(self * self) * (self * self)" if count == 4 else " * ".join(["self"] * count)


def lerp(given: Arguments, dtype: DType) -> str | None:
    if isinstance(given["weight"], complex):
        return None
    if given["weight"] < 0.5:
        return "self + weight * (end - self)"
    return "end - (end - self) * (1 - weight)"


def quotient(given: Arguments, dtype: DType) -> str | None:
    mode = given["rounding_mode"]
    if dtype.is_floating_point:
        floor, trunc = "ad_floor_divide@(self, other)", "trunc@(self / other)"
        return {None: "self / other", "floor": floor, "trunc": trunc}.get(mode)
    if mode == "floor":
        return whole_quotient(given, dtype)
    return _by(_divisor(given, dtype), "self / other", "-self") if mode == "trunc" else None


def _divisor(given: Arguments, dtype: DType) -> int:
    """The divisor of whole numbers if it is known, else 0; division by 0 is an error."""
    divisor = given["other"]
    return wrapped(divisor, C_TYPES[dtype.name]) if isinstance(divisor, int) else 0


def _by(divisor: int, usual: str, by_minus_one: str) -> str | None:
    """A division of whole numbers.

    The least number divided by -1 overflows, which stops the program; 0 - x wraps around.
    """
    if divisor == 0:
        return None
    return by_minus_one if divisor == -1 else usual


def whole_quotient(given: Arguments, dtype: DType) -> str | None:
    divisor = _divisor(given, dtype)
    sign = "<" if divisor > 0 else ">"  # the sign of a remainder to be corrected
    return _by(divisor, f"(self / other - (self % other {sign} 0))", "-self")


def whole_remainder(given: Arguments, dtype: DType) -> str | None:
    divisor = _divisor(given, dtype)
    sign = "<" if divisor > 0 else ">"
    return _by(divisor, f"(self % other + (self % other {sign} 0 ? other : 0))", "(self & 0)")


def whole_fmod(given: Arguments, dtype: DType) -> str | None:
    return _by(_divisor(given, dtype), "self % other", "(self & 0)")


def shift_left(given: Arguments, dtype: DType) -> str:
    """Shifts by the width of the type, or more, give 0."""
    bits = 8 * dtype.itemsize
    return f"((other >= 0) & (other < {bits}) ? self << (other & {bits - 1}) : 0)"


def shift_right(given: Arguments, dtype: DType) -> str:
    """Shifts by the width of the type, or more, leave the sign only."""
    bits = 8 * dtype.itemsize
    inside = f"(other >= 0) & (other < {bits})"
    if dtype is dtypes.uint8:
        return f"({inside} ? self >> (other & 7) : 0)"
    return f"(self >> ({inside} ? other : {bits - 1}))"


def rounded(given: Arguments, dtype: DType) -> str | None:
    decimals = given["decimals"]
    if not dtype.is_floating_point:
        return "self" if decimals == 0 else None
    scale = f"{10.0 ** abs(decimals)!r}@"
    if decimals == 0 or abs(decimals) > 30:
        return "rint@(self)" if decimals == 0 else None
    if decimals > 0:
        return f"rint@(self * {scale}) / {scale}"
    return f"rint@(self / {scale}) * {scale}"


# -- bounds ---------------------------------------------------------------------------------------


def clamp(given: Arguments, dtype: DType) -> str | None:
    """The lower bound first, then the upper one; NaN in values and bounds is kept."""
    low, high = given.get("min"), given.get("max")
    if any(isinstance(b, float) and math.isnan(b) for b in (low, high)) or low is high is None:
        return None
    if not dtype.is_floating_point and any(isinstance(b, float) for b in (low, high)):
        return None
    if isinstance(low, (int, float)) or low is None:  # lower bound is a number or absent
        text = "self" if low is None else "(self < min ? min : self)"
        if high is None:
            return text
        if low is None and isinstance(high, (int, float)):
            return "(self > max ? max : self)"
        if isinstance(low, (int, float)) and isinstance(high, (int, float)):
            text = "(self < min ? min : self > max ? max : self)"
            if dtype.is_floating_point:
                text = "ad_upto@(ad_from@(self, min), max)"
            else:
                low, high = (wrapped(int(b), C_TYPES[dtype.name]) for b in (low, high))
            return "(self != self ? self : max)" if low > high else text
    text = "self" if low is None else _extreme(dtype, "max", "self", "min")
    return text if high is None else _extreme(dtype, "min", text, "max")


def _extreme(dtype: DType, which: str, a: str, b: str) -> str:
    if dtype.is_floating_point:
        return f"ad_{which}@({a}, {b})"
    return f"({a} {'>' if which == 'max' else '<'} {b} ? {a} : {b})"


def finite(given: Arguments, dtype: DType) -> Element:
    """nan_to_num."""
    most = float(np.finfo(dtype.np).max)
    defaults = {"nan": 0.0, "posinf": most, "neginf": -most}
    numbers = {k: default if given[k] is None else given[k] for k, default in defaults.items()}
    if numbers["nan"] == 0 and all(abs(number) <= most for number in numbers.values()):
        # sums of products with comparisons take fewer steps than nested choices
        other = "((self > 0) * posinf + (self < 0) * neginf)"
    else:
        other = "(self > 0 ? posinf : self < 0 ? neginf : nan)"
    return WithNumbers(f"(self - self == 0 ? self : {other})", numbers)


def is_close(given: Arguments, dtype: DType) -> str | None:
    if not (given["rtol"] >= 0 and given["atol"] >= 0):
        return None
    gap = "fabs@(self - other)"
    near = f"({gap} - {gap} == 0) & ({gap} <= atol + fabs@(rtol * other))"
    both = " | ((self != self) & (other != other))" if given["equal_nan"] else ""
    return f"((self == other) | ({near}){both})"


# -- activations ----------------------------------------------------------------------------------


def gelu(given: Arguments, dtype: DType) -> str | None:
    return {"none": "ad_gelu@(self)", "tanh": "ad_gelu_tanh@(self)"}.get(given["approximate"])


def gelu_backward(given: Arguments, dtype: DType) -> str | None:
    names = {"none": "ad_gelu_slope", "tanh": "ad_gelu_tanh_slope"}
    slope = names.get(given["approximate"])
    return slope and f"grad_output * {slope}@(self)"


def elu_backward(given: Arguments, dtype: DType) -> str | None:
    if given["is_result"]:
        if given["alpha"] < 0:
            return None
        slope = "(self_or_result + alpha * scale) * input_scale"
    else:
        left = "(self_or_result > 0 ? 0 : self_or_result)"
        slope = f"ad_exp@({left} * input_scale) * (alpha * scale * input_scale)"
    return f"grad_output * (self_or_result <= 0 ? {slope} : scale)"


def celu(given: Arguments, dtype: DType) -> str | None:
    left = "alpha * expm1@((self > 0 ? 0 : self) / alpha)"
    return f"{left} + (self > 0 ? self : 0)" if given["alpha"] else None


def mish_derivative(given: Arguments, dtype: DType) -> str | None:
    n = given["n"]
    if n == 1:
        return "ad_mish_slope@(self)"
    return f"ad_mish_derivative{n}@(self)" if _exists(f"ad_mish_derivative{n}") else None


def gelu_gate(given: Arguments, dtype: DType) -> str:
    return "ad_gelu_gate_slope@(self)" if given["slope"] else "ad_gelu_gate@(self)"


def softplus(given: Arguments, dtype: DType) -> str:
    """softplus of an exact product, or of a product computed with all its digits."""
    if _is_exact_factor(given["beta"]):
        near = "ad_softplus@(self * beta)"
    else:
        near = "ad_softplus_of_product@(self, beta)"
    return f"(self * beta > threshold ? self : {near} / beta)"


def softplus_backward(given: Arguments, dtype: DType) -> str:
    gate = logistic({"beta": given["beta"], "slope": False}, dtype)
    return f"(self * beta > threshold ? grad_output : grad_output * {gate})"


def logistic(given: Arguments, dtype: DType) -> str:
    which = "_slope" if given["slope"] else ""
    if _is_exact_factor(given["beta"]):
        return f"ad_expit{which}@(beta * self)"
    return f"ad_expit{which}_of_product@(self, beta)"


def _is_exact_factor(number: float) -> bool:
    """Whether multiplication by a number is exact: a power of two."""
    return math.frexp(number)[0] in (0.5, -0.5)


def softshrink(given: Arguments, dtype: DType) -> str | None:
    ordinary = 0 <= given["lambd"] <= 65504  # the kernel checks other values
    return "self - ad_bend@(self, lambd)" if ordinary else None


# -- special functions ----------------------------------------------------------------------------


def logit(given: Arguments, dtype: DType) -> Element:
    if given["eps"] is None:
        return "ad_logit@(self)"
    return WithNumbers(
        "ad_logit@(ad_min@(ad_max@(self, low), high))",
        {"low": given["eps"], "high": 1 - given["eps"]},
    )


def logit_slope(given: Arguments, dtype: DType) -> str:
    """1 / (x (1 - x)), in double: numbers without @ are doubles."""
    eps = given["eps"]
    low, high, outside = (0.0, 1.0, "nan()") if eps is None else (eps, 1 - eps, "0")
    return f"((self < {low!r}) | (self > {high!r}) ? {outside} : 1 / (self * (1.0 - self)))"


def exponential_derivative(given: Arguments, dtype: DType) -> Element:
    """log(b)ⁿ · bˣ, with the power as two factors, so that no part overflows early."""
    base, n = float(given["base"]), given["n"]
    if not dtype.is_floating_point or not base > 0 or not 0 <= n <= MOST:
        return None
    half = "exp2@(0.5@ * self)" if base == 2 else "pow@(basis, 0.5@ * self)"
    numbers = {"factor": math.log(base) ** n, "basis": base}
    return WithNumbers(f"factor * {half} * {half}", numbers)


def share(given: Arguments, dtype: DType) -> str:
    return f"ad_share{'2' if given['binary'] else ''}@(self, other)"


def share_slope(given: Arguments, dtype: DType) -> str:
    return f"ad_share_slope{'2' if given['binary'] else ''}@(self, other)"


def inverse_power(given: Arguments, dtype: DType) -> str | None:
    """A derivative of the angle of a point."""
    n, part = given["n"], "sine" if given["sine"] else "cosine"
    return f"ad_inverse_{part}{n}@(self, other)" if _exists(f"ad_inverse_sine{n}") else None


def bell(given: Arguments, dtype: DType) -> str | None:
    """A derivative of exp(-a x²)."""
    n, a = given["n"], float(given["a"])
    if n == 0 and a in (0.5, 1.0):
        return "ad_bell@(self)" if a == 1 else "ad_half_bell@(self)"
    return f"ad_bell{n}(self, {a!r})" if n <= 8 and a in (0.5, 1.0) else None


def polygamma(given: Arguments, dtype: DType) -> str | None:
    n = given["n"]
    if n == 0:
        return "ad_digamma(self)"
    if _exists(f"ad_polygamma{n}"):
        return f"ad_polygamma{n}(self)"
    return f"ad_polygamma(self, {n})" if 0 < n <= _MOST_TERMS else None


def _at_order(call: str, *orders: int) -> str | None:
    """A call of a C function with the orders of a derivative; None for orders that the kernel
    refuses or that are beyond the functions' tables.
    """
    fits = min(orders) >= 0 and max(orders) <= MOST - 1
    return f"{call}, {', '.join(map(str, orders))})" if fits else None


def sinc_derivative(given: Arguments, dtype: DType) -> str | None:
    n = given["n"]
    quick = {0: "ad_sinc(self)", 1: "ad_sinc_slope(self)"}
    return quick.get(n) or _at_order("ad_sinc_derivative(self", n)


def spherical_derivative(given: Arguments, dtype: DType) -> str | None:
    n = given["n"]
    quick = {0: "ad_spherical_j0(x)", 1: "ad_spherical_j0_slope(x)"}
    return quick.get(n) or _at_order("ad_spherical_derivative(x", n)


def erfcx_derivative(given: Arguments, dtype: DType) -> str | None:
    n = given["n"]
    quick = {0: "ad_erfcx(self)", 1: "ad_erfcx_slope(self)"}
    return quick.get(n) or _at_order("ad_erfcx_derivative(self", n)


def log_ndtr_derivative(given: Arguments, dtype: DType) -> str | None:
    n = given["n"]
    if n < 1:
        return None
    return "ad_log_ndtr_slope(self)" if n == 1 else _at_order("ad_log_ndtr_derivative(self", n)


def half_step(given: Arguments, dtype: DType) -> str | None:
    return _at_order("ad_half_step(self", given["n"])


def zeta_derivative(given: Arguments, dtype: DType) -> str | None:
    return _at_order("ad_hurwitz_derivative(self, other", given["n"], given["m"])


def igamma_derivative(given: Arguments, dtype: DType) -> str | None:
    return _at_order("ad_igamma_derivative(self, other", given["n"]) if given["n"] else None


def gamma_density(given: Arguments, dtype: DType) -> str | None:
    return _at_order("ad_gamma_density(self, other", given["n"], given["m"])


def polygamma_difference(given: Arguments, dtype: DType) -> str | None:
    return _at_order("ad_polygamma_difference(self, other", given["n"])


def betainc_derivative(given: Arguments, dtype: DType) -> str | None:
    orders = given["i"], given["j"]
    return _at_order("ad_betainc_derivative(a, b, x", *orders) if any(orders) else None


def beta_density(given: Arguments, dtype: DType) -> str | None:
    return _at_order("ad_beta_density(a, b, x", given["i"], given["j"], given["m"])


def gamma_slope(given: Arguments, dtype: DType) -> str | None:
    return _at_order("ad_gamma_slope(self, output", given["order"])


def beta_slope(given: Arguments, dtype: DType) -> str | None:
    return _at_order("ad_beta_slope(self, a, b", given["order"], given["order_other"])


def bessel_j_derivative(given: Arguments, dtype: DType) -> str | None:
    return _bessel_slope("j", given) or _bessel_derivative(given, 2)


def bessel_y_derivative(given: Arguments, dtype: DType) -> str | None:
    return _bessel_slope("y", given) or _bessel_derivative(given, 3)


def _bessel_slope(kind: str, given: Arguments) -> str | None:
    """J or Y of order 0 or 1, or its slope, by the C library: C₀' = -C₁, C₁' = C₀ - C₁/x."""
    known = {(0, 0): "ad_{}0", (0, 1): "-ad_{}1", (1, 0): "ad_{}1", (1, 1): "ad_{}1_slope"}
    name = known.get((given["order"], given["n"]))
    return name and f"{name.format(kind)}(self)"


def bessel_i_derivative(given: Arguments, dtype: DType) -> str | None:
    quick = {(0, 0): "ad_i0(self)", (0, 1): "ad_i1(self)", (1, 0): "ad_i1(self)"}
    return quick.get((given["order"], given["n"])) or _bessel_derivative(given, 0)


def bessel_k_derivative(given: Arguments, dtype: DType) -> str | None:
    return _bessel_derivative(given, 1)


def _bessel_derivative(given: Arguments, kind: int) -> str | None:
    call = _at_order("ad_bessel_derivative(self", given["order"], given["n"])
    return call and f"{call[:-1]}, {kind})"


def modified_k0(given: Arguments, dtype: DType) -> str:
    return "ad_bessel_k(self, 0, 0, 0)"


def modified_k1(given: Arguments, dtype: DType) -> str:
    return "ad_bessel_k(self, 1, 0, 0)"


def scaled_k0(given: Arguments, dtype: DType) -> str:
    return "ad_bessel_k(x, 0, 0, 1)"


def scaled_k1(given: Arguments, dtype: DType) -> str:
    return "ad_bessel_k(x, 1, 0, 1)"


def scaled_k_derivative(given: Arguments, dtype: DType) -> str | None:
    return _at_order("ad_scaled_k_derivative(x", given["order"], given["n"])


def i0e_derivative(given: Arguments, dtype: DType) -> str | None:
    return _at_order("ad_scaled_i(self, 0", given["n"])


def i1e_derivative(given: Arguments, dtype: DType) -> str | None:
    return _at_order("ad_scaled_i(self, 1", given["n"])


def airy(given: Arguments, dtype: DType) -> str:
    return "ad_airy(x, 0)"


def airy_derivative(given: Arguments, dtype: DType) -> str | None:
    return _at_order("ad_airy(x", given["n"])


# -- orthogonal polynomials, in the order of the table ad_polynomial_starts -----------------------

_KINDS = (
    "chebyshev_t", "chebyshev_u", "chebyshev_v", "chebyshev_w", "shifted_chebyshev_t",
    "shifted_chebyshev_u", "shifted_chebyshev_v", "shifted_chebyshev_w", "hermite_h", "hermite_he",
    "laguerre_l", "legendre_p",
)  # fmt: skip


def polynomial(given: Arguments, dtype: DType) -> str | None:
    """A derivative of an orthogonal polynomial."""
    if given["kind"] not in _KINDS:
        return None
    return _at_order("ad_polynomial(x, n", _KINDS.index(given["kind"]), given["k"])


def _of_kind(kind: str) -> Variant:
    return lambda given, dtype: polynomial({**given, "kind": kind, "k": 0}, dtype)


chebyshev_t = _of_kind("chebyshev_t")
chebyshev_u = _of_kind("chebyshev_u")
chebyshev_v = _of_kind("chebyshev_v")
chebyshev_w = _of_kind("chebyshev_w")
shifted_chebyshev_t = _of_kind("shifted_chebyshev_t")
shifted_chebyshev_u = _of_kind("shifted_chebyshev_u")
shifted_chebyshev_v = _of_kind("shifted_chebyshev_v")
shifted_chebyshev_w = _of_kind("shifted_chebyshev_w")
hermite_h = _of_kind("hermite_h")
hermite_he = _of_kind("hermite_he")
laguerre_l = _of_kind("laguerre_l")
legendre_p = _of_kind("legendre_p")
