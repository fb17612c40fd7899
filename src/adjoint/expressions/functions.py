"""C functions that expressions call: those of the C library, and our own.

Our own are inlined, so that a loop around them is vectorised: they have no branches, and no calls
under a condition. They are written once for both types: `real` is the type, and `@` the suffix of
its functions and constants (`exp@` is `exp` or `expf`). A function without `@` in its name computes
in double, for float too. Functions that need branches and loops are in
`expressions/special_functions.py`. A source declares the functions that it calls and no others.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Sequence
from fractions import Fraction
from functools import lru_cache

import numpy as np

from adjoint.core.activations import (
    EXACT_CUBE,
    EXACT_RATE,
    TANHSHRINK,
    TANHSHRINK_FLOAT,
    gate_sides,
)
from adjoint.core.c_types import HALF_FUNCTIONS, HALF_TYPES, PUN
from adjoint.core.threads import TEAM
from adjoint.expressions import special_functions

# glibc has vector versions of these (libmvec); a declaration lets the compiler use them in loops.
# The numbers are numbers of arguments.
VECTORS = dict.fromkeys(
    (
        "exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sin", "cos", "tan", "asin",
        "acos", "atan", "sinh", "cosh", "tanh", "asinh", "acosh", "atanh", "erf", "erfc",
    ),
    1,
) | {"pow": 2, "atan2": 2, "hypot": 2}  # fmt: skip
SCALARS = {
    "sqrt": 1, "ceil": 1, "floor": 1, "trunc": 1, "rint": 1, "fabs": 1, "copysign": 2, "fma": 3,
    "fmod": 2, "nextafter": 2,
}  # fmt: skip


def _horner(variable: str, coefficients: Iterable[float]) -> str:
    """Σ cₖ xᵏ as C text."""
    first, *rest = reversed(list(coefficients))
    text = repr(first)
    for c in rest:
        text = f"({text}) * {variable} + {c!r}"
    return text


def _in_halves(variable: str, square: str, coefficients: Sequence[float], suffix: str = "f") -> str:
    """Σ cₖ xᵏ with even and odd powers computed at the same time; x² is given."""
    halves = []
    for part in (coefficients[::2], coefficients[1::2]):
        first, *rest = reversed(part)
        text = f"{first!r}{suffix}"
        for c in rest:
            text = f"ad_times_plus{suffix}({text}, {square}, {c!r}{suffix})"
        halves.append(text)
    return f"ad_times_plus{suffix}({variable}, {halves[1]}, {halves[0]})"


# artanh(s) / s in s², |s| ≤ 1/3: errors are 1.3e-18, and 1e-10
_ARTANH = {
    "": (
        1.0, 0.33333333333333065, 0.2000000000009516, 0.14285714272462707, 0.11111112055879485,
        0.09090869894072096, 0.0769331772330622, 0.06650051298641038, 0.06056124197792847,
        0.04157843242406799, 0.08530029508837253,
    ),
    "f": (
        0.9999999999014166, 0.33333339653551897, 0.19999345457388648, 0.14310360973445904,
        0.10696625711115781, 0.12206533869652024,
    ),
}  # fmt: skip


def _logit(suffix: str) -> str:
    """log(x / (1-x)); in the middle 2 artanh(2x-1), where 2x-1 is exact."""
    real = "float" if suffix else "double"
    return f"""{real} ad_logit{suffix}({real} x) {{
  const {real} s = 2 * x - 1, q = s * s, r = q * q, far = log{suffix}(x / (1 - x));
  const {real} near = 2 * s * ({_in_halves("q", "r", _ARTANH[suffix], suffix)});
  return q < {1 / 9!r}{suffix} ? near : far;
}}"""


def _ldexp(suffix: str) -> str:
    """x 2^p. 2ⁿ for whole n has three factors, since it may overflow before the product does.

    Adding 1.5 · 2^digits to p rounds it, and leaves n in the last bits.
    """
    real, bits, digits, most, far = (
        ("float", "unsigned", 23, 127, 378)
        if suffix
        else ("double", "unsigned long long", 52, 1023, 2202)
    )
    pun = f"union {{ {real} x; {bits} bits; }}"
    magic = f"{1.5 * 2.0**digits + most!r}{suffix}"
    return f"""{real} ad_ldexp{suffix}({real} x, {real} power) {{
  const {real} whole = ad_bend{suffix}(floor{suffix}(power), 5000);
  const {real} n = ad_bend{suffix}(whole, {far});
  const {real} third = floor{suffix}(n * (1.0{suffix} / 3)), rest = n - 2 * third;
  const {pun} a = {{.x = third + {magic}}}, b = {{.x = rest + {magic}}};
  const {pun} two = {{.bits = a.bits << {digits}}}, last = {{.bits = b.bits << {digits}}};
  return x * exp2{suffix}(power - whole) * two.x * two.x * last.x;
}}"""


def _short_exponential(name: str, suffix: str) -> str:
    """e^x = 2ⁿ e^r with whole n, times 2^spare, for x below 40 and not far below where e^x is 0.

    Adding 1.5 · 2^digits to x log₂ e rounds it, and leaves n in the last bits, which become the
    exponent of a power of two. That power is too large by some digits, so that no intermediate
    number underflows. `ad_long_exp_of_product` takes x = a b with all digits of the product.
    """
    real, bits, digits, most, spare = (
        ("float", "unsigned", 23, 127, _SPARE[suffix])
        if suffix
        else ("double", "unsigned long long", 52, 1023, _SPARE[suffix])
    )
    first, rest = (f"{part!r}{suffix}" for part in _LOG_2[suffix])
    magic = f"{1.5 * 2.0**digits + most + spare!r}{suffix}"
    given, x, near = (
        (f"{real} a, {real} b", "(a * b)", f"fma{suffix}(a, b, -(n * {first}))")
        if name == "ad_long_exp_of_product"
        else (f"{real} x", "x", f"ad_times_plus{suffix}(n, -{first}, x)")
    )
    return f"""{real} {name}{suffix}({given}) {{
  const union {{ {real} x; {bits} bits; }} z = {{
    .x = ad_times_plus{suffix}({x}, 1.4426950408889634{suffix}, {magic})
  }}, scale = {{.bits = z.bits << {digits}}};
  const {real} n = z.x - {magic}, near = {near};
  const {real} r = ad_times_plus{suffix}(n, -{rest}, near), s = r * r;
  const {real} p = {_in_halves("r", "s", _EXPONENTIAL[suffix], suffix)};
  const {real} e = ad_times_plus{suffix}(p, s, r) + 1;
  return e * scale.x;
}}"""


def _with_spare(suffix: str) -> str:
    """e^x times the spared power of two, for x below 40; not 0 yet where e^x is."""
    real, low = ("float", -125.0) if suffix else ("double", -1050.0)
    return f"""{real} ad_spared_exp{suffix}({real} x) {{
  return ad_long_exp{suffix}(ad_from{suffix}(x, {low!r}{suffix}));
}}"""


def _without_spare(suffix: str) -> str:
    """e^x for x below 40."""
    real, low = ("float", -104.0) if suffix else ("double", -746.0)
    return f"""{real} ad_short_exp{suffix}({real} x) {{
  const {real} long_exp = ad_long_exp{suffix}(ad_from{suffix}(x, {low!r}{suffix}));
  return long_exp * {2.0 ** -_SPARE[suffix]!r}{suffix};
}}"""


def _exponential(suffix: str) -> str:
    """e^x = 2ⁿ 2ⁿ e^r for every x, without overflow or underflow on the way.

    If it chose between powers, gcc would make two copies of all the code after the choice.
    """
    real, bits, digits, most, low, high = (
        ("float", "unsigned", 23, 127, -104.0, 89.0)
        if suffix
        else ("double", "unsigned long long", 52, 1023, -746.0, 710.0)
    )  # it is 0 below `low`, and infinite above `high`
    first, rest = (f"{2 * part!r}{suffix}" for part in _LOG_2[suffix])
    magic = f"{1.5 * 2.0**digits + most!r}{suffix}"
    return f"""{real} ad_exp{suffix}({real} given) {{
  const {real} x = ad_upto{suffix}(ad_from{suffix}(given, {low!r}{suffix}), {high!r}{suffix});
  const union {{ {real} x; {bits} bits; }} z = {{
    .x = ad_times_plus{suffix}(x, 0.7213475204444817{suffix}, {magic})
  }}, scale = {{.bits = z.bits << {digits}}};
  const {real} n = z.x - {magic}, near = ad_times_plus{suffix}(n, -{first}, x);
  const {real} r = ad_times_plus{suffix}(n, -{rest}, near), s = r * r;
  const {real} p = {_in_halves("r", "s", _WIDE_EXPONENTIAL[suffix], suffix)};
  const {real} e = ad_times_plus{suffix}(p, s, r) + 1;
  return e * scale.x * scale.x;
}}"""


def _tanh(suffix: str) -> str:
    """|d| / (2 + d) with d = e^(-2 |x|) - 1 = 2ⁿ (e^r - 1) + (2ⁿ - 1), where nothing cancels.

    Its error is three ulp, in half the time of the library's function with two.
    """
    real, bits, digits, most, low = (
        ("float", "unsigned", 23, 127, -20.0)
        if suffix
        else ("double", "unsigned long long", 52, 1023, -40.0)
    )  # d is -1 below `low`
    first, rest = (f"{part!r}{suffix}" for part in _LOG_2[suffix])
    magic = f"{1.5 * 2.0**digits + most!r}{suffix}"
    return f"""{real} ad_tanh{suffix}({real} given) {{
  const {real} x = ad_from{suffix}(-2 * fabs{suffix}(given), {low!r}{suffix});
  const union {{ {real} x; {bits} bits; }} z = {{
    .x = ad_times_plus{suffix}(x, 1.4426950408889634{suffix}, {magic})
  }}, scale = {{.bits = z.bits << {digits}}};
  const {real} n = z.x - {magic}, near = ad_times_plus{suffix}(n, -{first}, x);
  const {real} r = ad_times_plus{suffix}(n, -{rest}, near), s = r * r;
  const {real} p = {_in_halves("r", "s", _EXPONENTIAL[suffix], suffix)};
  const {real} d = ad_times_plus{suffix}(scale.x, ad_times_plus{suffix}(p, s, r), scale.x - 1);
  return copysign{suffix}(d / (2 + d), given);
}}"""


def _tanhshrink(suffix: str) -> str:
    """x - tanh(x); near 0 as x k/(1 + k), where nothing cancels."""
    real = "float" if suffix else "double"
    above, below = TANHSHRINK_FLOAT if suffix else TANHSHRINK
    return f"""{real} ad_tanhshrink{suffix}({real} x) {{
  const {real} size = fabs{suffix}(x), n = size < 1 ? x : 1, s = n * n, q = s * s;
  const {real} above = s * ({_in_halves("s", "q", above, suffix)});
  const {real} below = {_in_halves("s", "q", below, suffix)};
  return size < 1 ? n * (above / (above + below)) : x - ad_tanh{suffix}(x);
}}"""


def _gelu_tanh(suffix: str) -> dict[str, str]:
    """Functions for gelu's approximation x σ(v) with v = a x + b x³ = x t.

    t has twice the precision, and e⁻ᵛ uses all digits of the product, since rounding v would cost v
    ulp in the tail. Where e⁻ᵛ is 0 even with the spared power of two, x is replaced by a smaller
    number.
    """
    real, far, kind = ("float", 11.4, np.float32) if suffix else ("double", 22.5, np.float64)
    parts = {}
    for name, exact in (("a", EXACT_RATE), ("b", EXACT_CUBE)):
        parts[name] = first = float(kind(float(exact)))
        parts[f"{name}_rest"] = float(exact - Fraction(first))
    a, a_rest, b, b_rest = (f"{parts[k]!r}{suffix}" for k in ("a", "a_rest", "b", "b_rest"))
    spare, triple = f"{2.0 ** -_SPARE[suffix]!r}{suffix}", f"{3 * parts['b']!r}{suffix}"
    start = f"""  const {real} y = ad_upto{suffix}(fabs{suffix}(x), {far}{suffix});
  const {real} long_e = ad_gelu_fallen{suffix}(y);
  const {real} e = long_e * {spare}, d = 1 / (1 + e);"""
    slope = f"const {real} n = ad_bend{suffix}(x, 40), rate = {a} + {triple} * (n * n);"
    return {
        # e⁻ᵛ times the spared power of two
        "ad_gelu_fallen": f"""{real} ad_gelu_fallen{suffix}({real} y) {{
  const {real} s = y * y, lost = fma{suffix}(y, y, -s), p = {b} * s;
  const {real} more = fma{suffix}({b}, s, -p) + ({b} * lost + {b_rest} * s) + {a_rest};
  const {real} t = {a} + p, large = p > {a} ? p : {a}, rest = (large - t) + (p > {a} ? {a} : p);
  const {real} e = ad_long_exp_of_product{suffix}(-y, t);
  return e - e * (y * (rest + more));
}}""",
        "ad_gelu_gate": f"""{real} ad_gelu_gate{suffix}({real} x) {{
{start}
  return x < 0 ? e * d : x >= 0 ? d : x;
}}""",
        "ad_gelu_gate_slope": f"""{real} ad_gelu_gate_slope{suffix}({real} x) {{
{start}
  return x == x ? e * d * d : x;
}}""",
        "ad_gelu_tanh": f"""{real} ad_gelu_tanh{suffix}({real} x) {{
{start}
  const {real} left = (x < -40 ? -40 : x) * long_e * d * {spare};
  return x < 0 ? left : x * d;
}}""",
        "ad_gelu_tanh_slope": f"""{real} ad_gelu_tanh_slope{suffix}({real} x) {{
{start}
  {slope}
  const {real} left = (1 + n * d * rate) * d * long_e * {spare};
  return x < 0 ? left : d * (1 + n * (e * d) * rate);
}}""",
    }


def _bell(name: str, factor: float, suffix: str) -> str:
    """exp(-factor x²) with all digits of x², whose rounding alone would cost x² ulp.

    Where the result is 0 anyway, x is replaced by a smaller number.
    """
    real = "float" if suffix else "double"
    far = _far(factor, suffix)
    return f"""{real} {name}{suffix}({real} x) {{
  const {real} y = ad_upto{suffix}(fabs{suffix}(x), {far}), h = -{factor!r}{suffix} * y;
  return ad_long_exp_of_product{suffix}(h, y) * {2.0 ** -_SPARE[suffix]!r}{suffix};
}}"""


def _far(factor: float, suffix: str) -> str:
    """The x from which exp(-factor x²) is 0."""
    return f"{math.sqrt((104.05 if suffix else 745.3) / factor):.6g}{suffix}"


def _erf(suffix: str) -> str:
    """erf(x), given bell = exp(-x²): one quotient and no exponential.

    Divisions of doubles are slow, so a quotient of floats is refined to three times as many digits.
    """
    real = "float" if suffix else "double"
    near, far = _ERF_NEAR[suffix], _ERF_FAR[suffix]
    quotient = "t = 1 / ad_times_plusf(z, 0.3f, 1)"
    if not suffix:
        quotient = """b = ad_times_plus(ad_upto(z, 6), 0.3, 1), r = 1 / (float)b;
  const double e = ad_times_plus(-b, r, 1), t = ad_times_plus(ad_times_plus(e, e, e), r, r)"""
    return f"""{real} ad_erf_beside{suffix}({real} x, {real} bell) {{
  const {real} z = fabs{suffix}(x), s = x * x, q = s * s;
  const {real} {quotient}, u = t - 0.5625{suffix}, v = u * u;
  const {real} p = {_in_halves("s", "q", near, suffix)};
  const {real} c = {_in_halves("u", "v", far, suffix)};
  const {real} outer = ad_times_plus{suffix}(-bell * t, c, 1);
  return z < 1 ? ad_times_plus{suffix}(x, p, x) : copysign{suffix}(outer, x);
}}"""


def _next_after(suffix: str) -> str:
    """The next number from x towards y: the bits of x as a whole number, plus or minus one."""
    real, bits = ("float", "unsigned") if suffix else ("double", "unsigned long long")
    return f"""{real} ad_nextafter{suffix}({real} x, {real} y) {{
  const union {{ {real} x; {bits} bits; }} as = {{.x = x}}, least = {{.bits = 1}},
    next = {{.bits = (y > x) == (x > 0) ? as.bits + 1 : as.bits - 1}};
  const {real} step = x == 0 ? copysign{suffix}(least.x, y) : next.x;
  const {real} near = x == y ? y : step;
  return (x != x) | (y != y) ? x + y : near;
}}"""


def _when(suffix: str) -> str:
    """x where a condition holds, else 0, by bit operations."""
    real, bits = ("float", "int") if suffix else ("double", "long long")
    return f"""{real} ad_when{suffix}(int holds, {real} x) {{
  const union {{ {real} x; {bits} bits; }} given = {{.x = x}};
  const union {{ {bits} bits; {real} x; }} found = {{.bits = given.bits & -({bits})holds}};
  return found.x;
}}"""


def _repeated(count: int, text: str) -> str:
    """An unrolled loop: loops are vectorised only if they contain no loops."""
    return "\n".join(f"  {text.replace('#', str(k))}" for k in range(count))


# Σ tᵏ / (k! (k + n)!) is (x/2)⁻ⁿ Iₙ(x) with t = x²/4, and of one sign: for |x| below 8.
def _bessel_series(order: int, terms: int = 25) -> str:
    return _horner("t", (1 / (math.factorial(k) * math.factorial(k + order)) for k in range(terms)))


# √x e⁻ˣ Iₙ(x), n = 0 and 1, x from 8 on, in powers of 16/x - 1: our own fits in Chebyshev's points,
# relative errors 7e-17
_BESSEL_FAR = (
    (
        0.4021765094450081, 0.0033605519836677504, 0.00013621607438984735,
        1.1143033800708978e-05, 1.4838476651250266e-06, 2.973596046562712e-07,
        8.872034383314144e-08, 3.932889375114634e-08, 2.1566251453104354e-08,
        7.534355843803342e-09, -6.8493381882867694e-09, -1.3326094405766387e-08,
        -5.0381064879032845e-09, 7.3359687108161536e-09, 6.560138746917057e-09,
        -3.1346276429240787e-09, -4.575553424534973e-09, 1.1050558794424347e-09,
        2.1968921378829006e-09, -2.8033819978869995e-10, -6.633287112547084e-10,
        3.629355229718733e-11, 9.36508689281819e-11
    ),
    (
        0.38939845902587233, -0.009749577193235635, -0.0002192357638317243,
        -1.5038547209501858e-05, -1.8349102358955385e-06, -3.4838534380376333e-07,
        -1.000109565963654e-07, -4.313196489977733e-08, -2.339250374801858e-08,
        -8.409182040442918e-09, 6.8401389977069586e-09, 1.3958551001385955e-08,
        5.59337010179061e-09, -7.44444147719727e-09, -6.983839624895866e-09,
        3.086886736722725e-09, 4.810597405089944e-09, -1.0594544160443166e-09,
        -2.297004161885201e-09, 2.6340771095136483e-10, 6.917089294193807e-10,
        -3.365431853180176e-11, -9.752397204138195e-11
    ),
)  # fmt: skip


def _digamma_near(side: str) -> str:
    """Its Taylor series at a zero, which two numbers give to twice the precision."""
    root, rest, *coefficients = _ROOTS[side]
    return (
        f"double ad_digamma_{side}(double x) "
        f"{{\n  const double t = (x - ({root!r})) - ({rest!r});\n"
        f"  return t * ({_horner('t', coefficients)});\n}}"
    )


# ψ(x) ~ log x - 1/(2x) - Σ B₂ₖ / (2k x²ᵏ)
_DIGAMMA_TAIL = (
    1 / 12, -1 / 120, 1 / 252, -1 / 240, 1 / 132, -691 / 32760, 1 / 12, -3617 / 8160,
)  # fmt: skip
# ψ(x) / (x - 1.46…) on [1, 2] in powers of x - 1.5: our own fit in Chebyshev's points, relative
# error 6e-17
_DIGAMMA_NEAR = (
    0.951055876031833, -0.4236274212814606, 0.2405424842407739, -0.14840492305388006,
    0.09498872445498366, -0.06192213327556183, 0.04076083381023946,
    -0.02697579665686472, 0.017907252496345213, -0.011908220169786002,
    0.007926943794456376, -0.0052799364178857415, 0.0035190141649363805,
    -0.0023455016279107115, 0.0015565879761797945, -0.0010364227247828023,
    0.0007234757252061551, -0.00048606417050412354, 0.00022695205071257896,
    -0.00014460384609240088, 0.0002599100450715037, -0.00017837342400462423
)  # fmt: skip
# ψ⁽ᵏ⁾/k! at its zero -0.504…, from k = 1 on
_ROOTS = {
    "left": (
        -0.5040830082644554, -8.15428206243813e-18,
        8.939798558792134, -0.8093454625306507, 32.258572064915505, -2.761011648790828,
        128.27342343090902, -14.70672173553036, 513.2704629562862, -75.37700066344631,
        2055.5357119463315, -368.5783503832191, 8234.667099203069, -1743.364608867363,
        32997.785655255044, -8051.818155363498, 132262.95480834588, -36529.94596948565,
        530280.3912420176, -163451.79342700253, 2126602.3725968753, -723318.8861804305,
        8530604.878543982, -3172131.3155744765, 34228316.69580112, -13807481.997263888,
    ),
}  # fmt: skip
_SINE_OF_PI = tuple(
    (-1) ** k * math.pi ** (2 * k + 1) / math.factorial(2 * k + 1) for k in range(13)
)
# Quotients of polynomials: erfinv(x) / x in 0.7225 - x², x up to 0.85, and the inverse of erfc at
# exp(-s²) beyond. Our own fits in Chebyshev's nodes, relative errors 8e-17 and 2e-16.
_INVERSE_NEAR = (
    (1.1975323115670913, 11.77098006467041, 43.58922360493988, 75.9231890003033,
     63.501978970391036, 23.2653324469975, 2.892274165684294, 0.054302561458690383),
    (1.0, 10.580677527849971, 42.969994704526584, 84.35147630755404, 82.96313104128558,
     38.448152989392064, 7.0287039388040435, 0.3198511109032851),
)  # fmt: skip
_INVERSE_FAR = (
    (-0.0003365145153174718, 0.005340629318368742, 0.8515358743606135, 2.1359655718516244,
     3.099533487933535, 3.5133344859175377, 1.472569910838184, 0.2829212570842868,
     0.03133536119885706, 0.0018823195737121931, 4.673623439969464e-05, 3.197442055886026e-07),
    (1.0, 2.265336838908987, 4.3392506028286295, 4.5726413389886575, 3.8774887669384857,
     1.5205734866670786, 0.2864784311566302, 0.0314480108827947, 0.001883353149407449,
     4.673677277742467e-05, 3.197435206043283e-07),
)  # fmt: skip
# erfinv(x) / x in powers of w - 3.125, w = -log(1 - x²) up to 6.25: our own fit, error 2e-17
_INVERSE_MIDDLE = (
    1.6536545626831027, 0.2401581824255883, -0.00603367087142785, -0.000740702534154477,
    0.00018673420802464837, -1.3882523394405316e-05, -1.3654691850603575e-06,
    4.234788173782339e-07, -2.9070382262927266e-08, -4.11266082002324e-09, 1.0512181539804126e-09,
    -5.414287198084716e-11, -1.2976885526532075e-11, 2.6304834740560442e-12,
    -8.118399443074353e-14, -4.001237735091896e-14, 6.596407712420834e-15,
    -4.0282154327661744e-17, -1.3016928016796445e-16, 1.557432024623325e-17,
    1.150022252066253e-18, -3.4996044354754177e-19, -1.113483769832702e-21, 3.240704459379902e-21,
)  # fmt: skip
# exp(z²) erfc(z) / t in powers of t = 1 / (1 + 0.3 z), z up to 11: our own fit, relative error 2e-8
_TAIL = (
    0.169187414, 0.170723835, 0.148286112, 0.215107815, -0.0950296344,
    0.548213085, -0.5126698, 0.48573719, -0.129556036,
)  # fmt: skip
# log Γ(x) ~ (x - ½) log x - x + ½ log 2π + Σ B₂ₖ / (2k (2k-1) x²ᵏ⁻¹)
_STIRLING = (1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188, -691 / 360360)
# erfinv(x) / x in powers of w - 2.5, w = -log(1 - x²) < 5, and of √w - 3 beyond: our own fits for
# float, relative errors 6e-9 and 1e-8
_INVERSE_FLOAT = (
    (1.50140936, 0.246640286, -0.00417738678, -0.00125274188, 0.000218344438,
     -4.96334528e-06, -3.46270449e-06, 4.66170101e-07, 2.32326228e-08, -8.79101568e-09),
    (2.83297681, 1.0016749, 0.00944495536, -0.00763620062, 0.00568983937,
     -0.00360248597, 0.00147757515, -4.71900992e-05, -0.000303556758, 0.000109174864),
)  # fmt: skip
# (e^r - 1 - r) / r² for |r| ≤ ½ log 2, in float and in double: Chebyshev's fits, errors of e^r 8e-9
# and 1e-17
_EXPONENTIAL = {
    "f": (0.5, 0.16666576266288757, 0.041666556149721146, 0.008363203145563602,
          0.0013926213141530752),
    "": (0.5000000000000001, 0.16666666666666669, 0.04166666666662399, 0.008333333333330051,
         0.0013888888917281794, 0.00019841269863105968, 2.480152119021773e-05,
         2.7557268378684192e-06, 2.7620138719733994e-07, 2.5100424157005067e-08),
}  # fmt: skip
# the same for |r| ≤ log 2: our own minimax fits, errors of e^r 1e-8 and 1e-17
_WIDE_EXPONENTIAL = {
    "f": (
        0.500000346, 0.16666614, 0.0416612713, 0.008336112, 0.00141044399, 0.000196105542,
    ),
    "": (
        0.4999999999999993, 0.16666666666666938, 0.041666666666702185, 0.008333333333269771,
        0.0013888888883564483, 0.0001984126989286825, 2.4801590836418783e-05,
        2.7557300628935864e-06, 2.755615659213156e-07, 2.5055035180504497e-08,
        2.1062449084897846e-09, 1.5935610320321215e-10,
    ),
}  # fmt: skip
_SPARE = {"f": 64, "": 512}  # digits that make powers of two on the way large
# log 2 in two parts, the first with few digits
_LOG_2 = {
    "f": (0.693145751953125, 1.428606765330187e-06),
    "": (0.6931471803691238, 1.9082149292705877e-10),
}
# erf(x) / x - 1 in powers of x², x up to 1, and exp(z²) erfc(z) / t in powers of t - 0.5625,
# t = 1 / (1 + 0.3 z), beyond: our own minimax fits, errors of erf 7e-18 and 1e-17, of float 1e-9
_ERF_NEAR = {
    "f": (
        0.128379166, -0.376126258, 0.112835852, -0.0268538146, 0.00518833048, -0.00080102027,
        7.85384983e-05,
    ),
    "": (
        0.12837916709551257, -0.3761263890318352, 0.112837916709442, -0.026866170643113415,
        0.005223977606130842, -0.0008548325929766244, 0.0001205529358693695,
        -1.4924712439534814e-05, 1.6447132699786621e-06, -1.6206318752969208e-07,
        1.3710988704190523e-08, -7.779462971761597e-10,
    ),
}  # fmt: skip
_ERF_FAR = {
    "f": (0.362897624, 0.664520571, 0.995865524, 1.20942504, 1.09469305, 0.895975398),
    "": (
        0.36289773896402955, 0.6645089438656624, 0.9962199332080776, 1.204439775099161,
        1.1313995414516478, 0.7537044598402519, 0.2541189715210732, -0.0912693112335959,
        -0.14715981461782818, -0.026281672901600984, 0.06549154733537295,
    ),
}  # fmt: skip
# of the derivative of sin(y) / y, over y
_SINC_SLOPE = tuple((-1) ** k * 2 * k / math.factorial(2 * k + 1) for k in range(1, 14))
# B₂ⱼ / (2j)!
_BERNOULLI = (
    1 / 12, -1 / 720, 1 / 30240, -1 / 1209600, 1 / 47900160, -691 / 1307674368000,
    1 / 74724249600, -3617 / 10670622842880000,
)  # fmt: skip


def _sparing(name: str, body: str, power: str = "-fabs@(x)") -> dict[str, str]:
    """A function of x and of `long_e`, a power of e times the large power of two 1/SPARE."""
    return {
        name: f"""real {name}@(real x) {{
  const real long_e = ad_spared_exp@({power});
{body}
}}"""
    }


MISH_DERIVATIVES = range(2, 7)


def _mish_derivatives() -> dict[str, str]:
    """The n-th derivative of x g(x): quotients of polynomials in u = exp(-|x|)."""
    return {
        name: text
        for n in MISH_DERIVATIVES
        for name, text in _sparing(
            f"ad_mish_derivative{n}",
            f"""  const real u = long_e * SPARE, b = ad_bend@(x, 800);
  const real below = x < 0 ? (u + 2) * u + 2 : (2 * u + 2) * u + 1;
  const real before = x < 0 ? {" : ".join(map(_whole_horner, gate_sides(n - 1)))};
  const real gate = x < 0 ? {" : ".join(map(_whole_horner, gate_sides(n)))};
  const real result = before * {n}{" / below" * n} + b * (gate{" / below" * (n + 1)});
  return x < 0 ? result * long_e * SPARE : result;""",
        ).items()
    }


def _whole_horner(coefficients: Iterable[int]) -> str:
    """Σ cₖ uᵏ with whole coefficients, as a text for both types."""
    highest, *rest = reversed(list(coefficients))
    text = f"{highest}.0@"
    for c in rest:
        text = f"({text} * u + {c}.0@)"
    return text


INVERSE_POWERS = range(1, 9)


def _inverse_powers() -> dict[str, str]:
    """cos(nθ)/rⁿ and sin(nθ)/rⁿ of a point (x, y), by powers of its direction without overflow."""
    return {
        f"ad_inverse_{part}{n}": f"""real ad_inverse_{part}{n}@(real y, real x) {{
  const int none = (y == 0) & (x == 0), idle = none | (fabs@(y) == (real)__builtin_inf())
      | (fabs@(x) == (real)__builtin_inf());
  const real r = hypot@(idle ? 1 : y, idle ? 1 : x);
  const real c1 = (idle ? 0 : x) / r, s1 = (idle ? 0 : y) / r;
{_repeated_from(2, n, "const real c# = c@ * c1 - s@ * s1, s# = c@ * s1 + s@ * c1;")}
  return {part[0]}{n}{" / r" * n};
}}"""
        for n in INVERSE_POWERS
        for part in ("cosine", "sine")
    }


def _repeated_from(first: int, last: int, text: str) -> str:
    """Unrolled statements that compute the next iteration's values (`c#`) from the last `c@`."""
    turns = range(first, last + 1)
    return "\n".join(
        "  " + re.sub(r"\b([cs])@", rf"\g<1>{k - 1}", text).replace("#", str(k)) for k in turns
    )


_REALS = {
    # a b + c, rounded once where that is quick
    "ad_times_plus": """real ad_times_plus@(real a, real b, real c) {
#ifdef __FP_FAST_FMA
  return fma@(a, b, c);
#else
  return a * b + c;
#endif
}""",
    # NaN wins, as in NumPy; gcc does not vectorise nested choices with two conditions in one
    "ad_max": """real ad_max@(real a, real b) {
  const real larger = a > b ? a : b;
  return a != a ? a : larger;
}""",
    "ad_min": """real ad_min@(real a, real b) {
  const real smaller = a < b ? a : b;
  return a != a ? a : smaller;
}""",
    # the other number wins
    "ad_fmax": """real ad_fmax@(real a, real b) {
  const real larger = a > b ? a : b;
  return b != b ? a : larger;
}""",
    "ad_fmin": """real ad_fmin@(real a, real b) {
  const real smaller = a < b ? a : b;
  return b != b ? a : smaller;
}""",
    "ad_sign": "real ad_sign@(real x) {"
    " return x > 0 ? (real)1 : x < 0 ? (real)-1 : x != x ? x : (real)0; }",
    "ad_huber": """real ad_huber@(real x, real most) {
  const real bent = ad_bend@(x, most);
  return bent * (x - 0.5@ * bent);
}""",
    # one instruction each; they keep NaN in x
    "ad_from": "real ad_from@(real x, real low) { return low > x ? low : x; }",
    "ad_upto": "real ad_upto@(real x, real high) { return high < x ? high : x; }",
    "ad_bend": "real ad_bend@(real x, real most) {"
    " return x > most ? most : x < -most ? -most : x; }",
    "ad_expit": """real ad_expit@(real x) {
  const real e = ad_short_exp@(-fabs@(x));
  return (x < 0 ? e : 1) / (1 + e);
}""",
    "ad_expit_slope": """real ad_expit_slope@(real x) {
  const real e = ad_short_exp@(-fabs@(x)), y = (x < 0 ? e : 1) / (1 + e);
  return y * (x < 0 ? 1 - y : e * y);
}""",
    # y (1 - y) up to ¾, where the difference loses two bits; beyond, 1 - y is e⁻ˣ y
    "ad_expit_back": """real ad_expit_back@(real g, real x, real y) {
  const real e = ad_short_exp@(-fabs@(x)), far = e * (y * y), near = y * (1 - y);
  return g * (y <= 0.75@ ? near : far);
}""",
    "ad_near_expit_back": """real ad_near_expit_back@(real g, real x, real y) {
  return g * (y * (1 - y));
}""",
    "ad_is_flat": "real ad_is_flat@(real g, real x, real y) { return !(y <= 0.75@); }",
    # a product with e⁻ˣ that uses a power of two where e⁻ˣ alone would underflow
    **_sparing(
        "ad_silu",
        """  const real e = long_e * SPARE, d = 1 / (1 + e);
  const real left = (x < -800 ? -800 : x) * long_e * d * SPARE;
  return x < 0 ? left : x * d;""",
    ),
    **_sparing(
        "ad_silu_slope",
        """  const real e = long_e * SPARE, d = 1 / (1 + e), b = ad_bend@(x, 800);
  const real left = (1 + b * d) * long_e * d * SPARE;
  return x < 0 ? left : d * (1 + b * (e * d));""",
    ),
    "ad_softplus_of_product": """real ad_softplus_of_product@(real x, real factor) {
  const real z = x * factor, rest = fma@(x, factor, -z), e = ad_short_exp@(-fabs@(z));
  const real more = (rest - rest == 0 ? rest : 0) * ((z < 0 ? e : 1) / (1 + e));
  return log1p@(e) + (z < 0 ? 0 : z) + more;
}""",
    # exp(-|x factor|) with all digits of the product
    "ad_fallen_product": """real ad_fallen_product@(real x, real factor) {
  const real z = x * factor, rest = copysign@(1, z) * fma@(x, factor, -z);
  const real e = ad_short_exp@(-fabs@(z));
  return e - e * (rest - rest == 0 ? rest : 0);
}""",
    "ad_expit_of_product": """real ad_expit_of_product@(real x, real factor) {
  const real e = ad_fallen_product@(x, factor);
  return (x * factor < 0 ? e : 1) / (1 + e);
}""",
    "ad_expit_slope_of_product": """real ad_expit_slope_of_product@(real x, real factor) {
  const real e = ad_fallen_product@(x, factor), below = 1 + e;
  return e / (below * below);
}""",
    "ad_exp_of_quotient": """real ad_exp_of_quotient@(real x, real divisor) {
  const real q = x / divisor, rest = fma@(-q, divisor, x) / divisor, e = ad_exp@(q);
  const real more = e * rest;
  return more - more == 0 ? e + more : e;
}""",
    "ad_softplus": """real ad_softplus@(real x) {
  return log1p@(ad_short_exp@(-fabs@(x))) + (x < 0 ? 0 : x);
}""",
    "ad_log_sigmoid": """real ad_log_sigmoid@(real x) {
  return (x > 0 ? 0 : x) - log1p@(ad_short_exp@(-fabs@(x)));
}""",
    "ad_logistic_loss_slope": """real ad_logistic_loss_slope@(real x, real t) {
  const real e = ad_short_exp@(-fabs@(x));
  return (x < 0 ? (1 - t) * e - t : (1 - t) - t * e) / (1 + e);
}""",
    # (p - t) / (p (1 - p)), bounded by the largest number; log p ends at -100
    "ad_cross_entropy_slope": """real ad_cross_entropy_slope@(real p, real t) {
  const real most = (real)(sizeof(real) == 4 ? 3.4028234663852886e38 : 1.7976931348623157e308);
  const int low = p <= (real)3.720075976020836e-44, high = p == 1;
  const real hit = low ? 1 : p, miss = high ? 1 : 1 - p;
  const real inner = ad_bend@((p - t) / hit / miss, most);
  const real at_zero = (1 - t) / miss - t * 1e12@, at_one = (1 - t) * 1e12@ - t / hit;
  return low ? at_zero : high ? at_one : inner;
}""",
    "ad_logistic_loss": """real ad_logistic_loss@(real x, real t) {
  const real linear = (x > 0 ? 1 - t : -t) * x;
  return log1p@(ad_short_exp@(-fabs@(x))) + linear;
}""",
    # tanh(log(1 + n)) = w / (w + 2), w = n (n + 2)
    **_sparing(
        "ad_mish",
        """  const real n = long_e * SPARE, w = n * (n + 2), part = (n + 2) / (w + 2);
  const real left = (x < -800 ? -800 : x) * long_e * part * SPARE;
  return x < 0 ? left : x * (w / (w + 2));""",
        "ad_upto@(x, 40)",
    ),
    **_sparing(
        "ad_mish_slope",
        """  const real n = long_e * SPARE, below = n * (n + 2) + 2;
  const real part = (n + 2) / below + ad_bend@(x, 800) * (4 * ((1 + n) / below / below));
  return x < 0 ? part * long_e * SPARE : part * n;""",
        "ad_upto@(x, 40)",
    ),
    # erfc(z) / 2 at z = -x / √2, corrected for the rounding of z, which costs x² ulp in the tail
    "ad_ndtr": """real ad_ndtr@(real x) {
  const real root = 0.70710678118654752440@, z = -x * root;
  const real rest = fma@(-x, root, -z) - x * (real)(0.70710678118654752440L - root);
  const real lost = 1.1283791670955126@ * ad_half_bell@(x) * (rest - rest == 0 ? rest : 0);
  return 0.5@ * (erfc@(z) - lost);
}""",
    "ad_gelu": "real ad_gelu@(real x) { return (x < -40 ? -40 : x) * ad_ndtr@(x); }",
    "ad_gelu_slope": """real ad_gelu_slope@(real x) {
  const real b = ad_bend@(x, 40);
  return ad_ndtr@(x) + b * (ad_half_bell@(x) * 0.3989422804014327@);
}""",
    "ad_logaddexp": """real ad_logaddexp@(real a, real b) {
  const real d = a == b ? 0 : fabs@(a - b);
  return ad_max@(a, b) + log1p@(ad_short_exp@(-d));
}""",
    "ad_logaddexp2": """real ad_logaddexp2@(real a, real b) {
  const real d = a == b ? 0 : fabs@(a - b);
  return ad_max@(a, b) + log1p@(exp2@(-d)) * 1.4426950408889634@;
}""",
    # two equal infinities give 0 if negative and 1 if positive
    "ad_exp_difference": """real ad_exp_difference@(real a, real b) {
  const real plain = ad_exp@(a - b), rest = plain * ad_left_out@(a, b);
  const real e = rest - rest == 0 ? plain + rest : plain;
  return (a == b) & (fabs@(b) == __builtin_inf@()) ? (b > 0 ? (real)1 : (real)0) : e;
}""",
    "ad_xlogy": """real ad_xlogy@(real x, real y) {
  const real l = x * log@(y);
  return (x == 0) & (y == y) ? 0 : l;
}""",
    "ad_xlog1py": """real ad_xlog1py@(real x, real y) {
  const real l = x * log1p@(y);
  return (x == 0) & (y == y) ? 0 : l;
}""",
    "ad_entr": """real ad_entr@(real x) {
  const real l = -x * log@(x);
  return x > 0 ? l : x == 0 ? 0 : x < 0 ? -__builtin_inf@() : x;
}""",
    "ad_lerp": """real ad_lerp@(real a, real b, real w) {
  const real step = b - a;
  return w < 0.5@ ? a + w * step : b - step * (1 - w);
}""",
    # exp(factor x²) for a power of two `factor`: rounding x² alone costs x² ulp
    "ad_exp_square": """real ad_exp_square@(real x, real factor) {
  const real square = x * x, rest = fma@(x, x, -square);
  return exp@(factor * square) * (1 + factor * (rest - rest == 0 ? rest : 0));
}""",
    **_inverse_powers(),
    **_mish_derivatives(),
    "ad_hypot_slope": """real ad_hypot_slope@(real factor, real x, real y) {
  const real r = hypot@(x, y);
  return factor * (x / (r == 0 ? 1 : r));
}""",
    # the rounding error of a - b (Knuth); 0 where the difference is infinite
    "ad_left_out": """real ad_left_out@(real a, real b) {
  const real d = a - b, moved = d - a, rest = (a - (d - moved)) - (b + moved);
  return rest - rest == 0 ? rest : 0;
}""",
    # x to the power p + rest, times a factor
    "ad_power_derivative": """real ad_power_derivative@(real x, real factor, real p, real rest) {
  const real turns = p - 2 * floor@(0.5@ * p);
  const int whole = (turns == 0) | (turns == 1);
  const real part = pow@(fabs@(x), whole ? p : 0.5@ * p), y = factor * part * (whole ? 1 : part);
  const real near = y * (1 + rest * log@(x));
  const real left = turns == 0 ? y : turns == 1 ? -y : (real)__builtin_nan("");
  const real right = (rest != 0) & (x > 0) & (x < (real)__builtin_inf()) ? near : y;
  return factor == 0 ? 0 : x < 0 ? left : right;
}""",
    # x to the power p - n, times a factor
    "ad_tensor_power": """real ad_tensor_power@(real x, real p, real n, real factor) {
  return ad_power_derivative@(x, factor, p - n, ad_left_out@(p, n));
}""",
    "ad_tanh_slope": """real ad_tanh_slope@(real x) {
  const real e = ad_short_exp@(-2 * fabs@(x)), below = 1 + e;
  return 4 * e / (below * below);
}""",
    # 1 / (1 + x²), by 1/x beyond 1
    "ad_atan_slope": """real ad_atan_slope@(real x) {
  const int far = fabs@(x) > 1;
  const real y = far ? 1 / x : x, s = y * y;
  return (far ? s : 1) / (1 + s);
}""",
    # x / (1 + x²), which is the same for x and 1/x
    "ad_atan_decay": """real ad_atan_decay@(real x) {
  const real y = fabs@(x) > 1 ? 1 / x : x;
  return y / (1 + y * y);
}""",
    "ad_asinh_slope": """real ad_asinh_slope@(real x) {
  const real size = fabs@(x), near = sqrt@(1 + x * x);
  return 1 / (size < 1e8@ ? near : size);
}""",
    # exp(-|a - b|) with the difference in twice the precision, as exp turns its digits into
    # magnitude
    "ad_fallen": """real ad_fallen@(real a, real b) {
  const real d = a == b ? 0 : a - b, small = ad_short_exp@(-fabs@(d));
  return small - small * (copysign@(1, d) * ad_left_out@(a, b));
}""",
    "ad_fallen2": """real ad_fallen2@(real a, real b) {
  const real d = a == b ? 0 : a - b, small = exp2@(-fabs@(d));
  return small - small * (0.6931471805599453@ * copysign@(1, d) * ad_left_out@(a, b));
}""",
    **{
        f"ad_share{base}": f"""real ad_share{base}@(real a, real b) {{
  const real e = ad_fallen{base}@(a, b);
  return (a < b ? e : 1) / (1 + e);
}}"""
        for base in ("", "2")
    },
    **{
        f"ad_share_slope{base}": f"""real ad_share_slope{base}@(real a, real b) {{
  const real e = ad_fallen{base}@(a, b), below = 1 + e;
  return e / (below * below);
}}"""
        for base in ("", "2")
    },
    # whether the quotient may have more digits than a number: then fmod() needs its own loop
    "ad_is_far": """real ad_is_far@(real a, real b) {
  return !(fabs@(a / b) < (sizeof(real) == 4 ? 0x1p23 : 0x1p52)) | (b - b != 0);
}""",
    # a - q b is exact; if a / b was rounded up to q, it is negative and one b too small
    "ad_near_fmod": """real ad_near_fmod@(real a, real b) {
  const real r = fma@(-trunc@(a / b), b, a), up = r + copysign@(b, a);
  return copysign@(((r < 0) & (a > 0)) | ((r > 0) & (a < 0)) ? up : r, a);
}""",
    "ad_fmod": """real ad_fmod@(real a, real b) {
  return ad_is_far@(a, b) ? fmod@(a, b) : ad_near_fmod@(a, b);
}""",
    "ad_remainder": """real ad_remainder@(real a, real b) {
  const real r = ad_fmod@(a, b);
  return b == 0 ? r : r == 0 ? copysign@(0, b) : copysign@(1, b) * r < 0 ? r + b : r;
}""",
    "ad_whole_int": """int ad_whole_int@(real x) {
  const real end = 2147483648.0@;
  return (int)((x >= -end) & (x < end) ? x : -end);
}""",
    "ad_whole_long": """long long ad_whole_long@(real x) {
  const real end = 9.223372036854775808e18@;
  return (long long)((x >= -end) & (x < end) ? x : -end);
}""",
    # gcc does not vectorise conditions on b alone, if b is one number: so its sign is in a product,
    # and 0 depends on a
    "ad_floor_divide": """real ad_floor_divide@(real a, real b) {
  const real r = ad_fmod@(a, b), q = a / b;
  const real d = (a - r) / b - (copysign@(1, b) * r < 0 ? 1 : 0), whole = floor@(d);
  const real nearest = d - whole > 0.5@ ? whole + 1 : whole;
  const real zero = a == a ? 0 : 1;
  return b == zero ? q : d == 0 ? copysign@(0, q) : nearest;
}""",
}

# complex numbers: arithmetic by definition, as in NumPy; other functions from the C library
_COMPLEX = {
    "ad_complex": "real _Complex ad_complex@(real x, real y) { return __builtin_complex(x, y); }",
    "ad_conj": "real _Complex ad_conj@(real _Complex z) {"
    " return __builtin_complex(__real__ z, -__imag__ z); }",
    "ad_times": """real _Complex ad_times@(real _Complex a, real _Complex b) {
  const real x = __real__ a, y = __imag__ a, u = __real__ b, v = __imag__ b;
  return __builtin_complex(x * u - y * v, x * v + y * u);
}""",
    # Smith's method: no overflow unless the quotient overflows
    "ad_over": """real _Complex ad_over@(real _Complex a, real _Complex b) {
  const real x = __real__ a, y = __imag__ a, u = __real__ b, v = __imag__ b;
  const int wide = fabs@(u) >= fabs@(v);
  const real ratio = wide ? v / u : u / v, below = wide ? u + v * ratio : u * ratio + v;
  const real re = wide ? x + y * ratio : x * ratio + y, im = wide ? y - x * ratio : y * ratio - x;
  const int zero = (u == 0) & (v == 0);
  return zero ? __builtin_complex(x / fabs@(u), y / fabs@(u))
              : __builtin_complex(re / below, im / below);
}""",
    "ad_inverse_of": """real _Complex ad_inverse_of@(real _Complex z) {
  const real u = __real__ z, v = __imag__ z;
  const int wide = fabs@(u) >= fabs@(v);
  const real ratio = wide ? v / u : u / v, below = wide ? u + v * ratio : u * ratio + v;
  return __builtin_complex((wide ? 1 : ratio) / below, (wide ? -ratio : -1) / below);
}""",
    "ad_modulus": "real ad_modulus@(real _Complex z) { return hypot@(__real__ z, __imag__ z); }",
    "ad_argument": "real ad_argument@(real _Complex z) {"
    " return atan2@(__imag__ z, __real__ z); }",
    # whole powers by products, as in NumPy, also of infinite numbers
    "ad_cwhole": """real _Complex ad_cwhole@(real _Complex z, int n) {
  real _Complex result = 1, square = z;
  int some = 0;
  for (int left = n < 0 ? -n : n; left; left >>= 1, square = ad_times@(square, square))
    if (left & 1) result = some ? ad_times@(result, square) : square, some = 1;
  return n < 0 ? ad_over@(1, result) : result;
}""",
    "ad_cpow": """real _Complex ad_cpow@(real _Complex z, real _Complex w) {
  extern real _Complex cpow@(real _Complex, real _Complex);
  const real n = __real__ w, none = (real)__builtin_nan("");
  const int is_real = __imag__ w == 0, is_zero = (__real__ z == 0) & (__imag__ z == 0);
  if (is_zero & !(is_real & (n == 0))) return n > 0 ? 0 : __builtin_complex(none, none);
  if (is_real & (n == rint@(n)) & (fabs@(n) < 100)) return ad_cwhole@(z, (int)n);
  return cpow@(z, w);
}""",
    **{
        f"ad_c{name}": f"""real _Complex ad_c{name}@(real _Complex z) {{
  extern real _Complex c{name}@(real _Complex);
  return c{name}@(z);
}}"""
        for name in (
            "exp", "log", "sqrt", "sin", "cos", "tan", "sinh", "cosh", "tanh", "asin", "acos",
            "atan", "asinh", "acosh", "atanh",
        )
    },
}  # fmt: skip

_DOUBLES = {
    # n-th derivative of exp(-a x²): gₙ₊₁ = -2a (x gₙ + n gₙ₋₁). All underflow beyond 100; before,
    # the exponential may underflow where its products do not
    **{
        f"ad_bell{n}": f"""double ad_bell{n}(double x, double a) {{
  const double y = fabs(x) > 100 ? 0 : x, square = y * y, rest = fma(y, y, -square);
  const double power = a * square, shift = power > 600 ? 100 : 0;
  double before = 0, now = exp(shift - power) * (1 - a * rest);
{_repeated(n, "const double g# = -2 * a * (y * now + # * before); before = now; now = g#;")}
  const double back = power > 600 ? {math.exp(-100)!r} : 1;
  return fabs(x) > 100 ? 0 : now * back;
}}"""
        for n in range(9)
    },
    # e^{x²} erfc(x); from 25 on its asymptotic series in 1/(2x²)
    "ad_erfcx": """double ad_erfcx(double x) {
  const double n = x > 25 ? 25 : x < -27 ? -27 : x, far = x > 25 ? x : 25, u = -0.5 / (far * far);
  const double near = ad_exp_square(n, 1) * erfc(n);
  const double s = 1 + u * (1 + 3 * u * (1 + 5 * u * (1 + 7 * u * (1 + 9 * u * (1 + 11 * u * (1 + 13
  * u))))));
  return x > 25 ? 0.5641895835477563 / far * s : near;
}""",
    "ad_log_ndtr": """double ad_log_ndtr(double x) {
  const double z = (x < -1 ? -x : 1) * 0.7071067811865476, left = log(0.5 * ad_erfcx(z));
  const double p = ad_ndtr(-fabs(x)), right = log1p(x > 0 ? -p : p - 1);
  return x < -1 ? left - 0.5 * x * x : right;
}""",
    "ad_log_ndtr_slope": """double ad_log_ndtr_slope(double x) {
  const double l = x > 0 ? 0 : x, r = x > 0 ? (x > 100 ? 100 : x) : 0;
  const double left = 0.7978845608028654 / ad_erfcx(-l * 0.7071067811865476);
  const double right = 0.3989422804014327 * ad_exp_square(r, -0.5) / ad_ndtr(r);
  return x > 100 ? 0 : x > 0 ? right : x <= 0 ? left : x;
}""",
    # erf(y) = centre and erfc(y) = tail
    "ad_inverse_erf": f"""double ad_inverse_erf(double centre, double tail) {{
  const int near = tail > 0.15;
  const double c = near ? centre : 0, v = 0.7225 - c * c, w = v * v;
  const double s = sqrt(-log(near ? 0.15 : tail)), q = s * s;
  const double above = {_in_halves("v", "w", _INVERSE_NEAR[0], "")};
  const double below = {_in_halves("v", "w", _INVERSE_NEAR[1], "")};
  const double far_above = {_in_halves("s", "q", _INVERSE_FAR[0], "")};
  const double far_below = {_in_halves("s", "q", _INVERSE_FAR[1], "")};
  const double y = (near ? c * above : far_above) / (near ? below : far_below);
  return tail == 0 ? __builtin_inf() : y;
}}""",
    # by a single logarithm: of 1 - x² in the middle, of 1 - |x| near the ends
    "ad_erfinv": f"""double ad_erfinv(double x) {{
  const double size = fabs(x), both = (1 - x) * (1 + x), tail = 1 - size;
  const double w = -log(both > 0.002 ? both : tail), middle = x * ad_erfinv_middle(w);
  const double s = sqrt(w);
  const double above = {_in_halves("s", "w", _INVERSE_FAR[0], "")};
  const double below = {_in_halves("s", "w", _INVERSE_FAR[1], "")};
  const double end = copysign(tail == 0 ? __builtin_inf() : above / below, x);
  return both > 0.002 ? middle : size <= 1 ? end : __builtin_nan("");
}}""",
    "ad_erfinv_middle": f"""double ad_erfinv_middle(double w) {{
  const double c = w - 3.125, d = c * c;
  return {_in_halves("c", "d", _INVERSE_MIDDLE, "")};
}}""",
    "ad_near_erfinv": """double ad_near_erfinv(double x) {
  return x * ad_erfinv_middle(-log((1 - x) * (1 + x)));
}""",
    "ad_is_end": "double ad_is_end(double x) { return !((1 - x) * (1 + x) > 0.002); }",
    "ad_erfinv_slope": """double ad_erfinv_slope(double x) {
  const double size = fabs(x), y = ad_inverse_erf(size, 1 - size);
  const double outer = ad_erfcx(y) / (1 - size), inner = exp(y * y);
  const double slope = 0.8862269254527580 * (size < 0.5 ? inner : outer);
  return size < 1 ? slope : size == 1 ? __builtin_inf() : __builtin_nan("");
}""",
    "ad_ndtri": """double ad_ndtri(double p) {
  const double q = 2 * (p < 0.5 ? p : 1 - p), y = 1.4142135623730951 * ad_inverse_erf(1 - q, q);
  return (p >= 0) & (p <= 1) ? (p < 0.5 ? -y : y) : __builtin_nan("");
}""",
    "ad_ndtri_slope": """double ad_ndtri_slope(double p) {
  const double q = p < 0.5 ? p : 1 - p, y = ad_inverse_erf(1 - 2 * q, 2 * q);
  const double slope = ad_erfcx(y) / (q * 0.7978845608028654);
  return (p > 0) & (p < 1) ? slope : (p == 0) | (p == 1) ? __builtin_inf() : __builtin_nan("");
}""",
    "ad_sine_of_pi": f"""double ad_sine_of_pi(double x) {{
  const double t = x * x;
  return x * ({_horner("t", _SINE_OF_PI)});
}}""",
    "ad_sinc": """double ad_sinc(double x) {
  const double n = rint(x), h = 0.5 * n, sign = 1 - 4 * fabs(h - rint(h));
  const double y = sign * ad_sine_of_pi(x - n) / (3.141592653589793 * x);
  return x == 0 ? 1 : fabs(x) == __builtin_inf() ? 0 : y;
}""",
    "ad_sinc_slope": f"""double ad_sinc_slope(double x) {{
  const double n = rint(x), h = 0.5 * n, sign = 1 - 4 * fabs(h - rint(h)), rest = x - n;
  const double sine = sign * ad_sine_of_pi(rest), cosine = sign * ad_sine_of_pi(0.5 - fabs(rest));
  const double y = 3.141592653589793 * x, t = y * y, far = (cosine - sine / y) / y;
  const double near = y * ({_horner("t", _SINC_SLOPE)});
  const double slope = fabs(y) < 2.5 ? near : fabs(x) == __builtin_inf() ? 0 : far;
  return 3.141592653589793 * slope;
}}""",
    "ad_spherical_j0": """double ad_spherical_j0(double x) {
  const double y = sin(x) / x;
  return x == 0 ? 1 : fabs(x) == __builtin_inf() ? 0 : y;
}""",
    "ad_spherical_j0_slope": f"""double ad_spherical_j0_slope(double x) {{
  const double t = x * x, far = (cos(x) - sin(x) / x) / x;
  const double near = x * ({_horner("t", _SINC_SLOPE)});
  return fabs(x) < 2.5 ? near : fabs(x) == __builtin_inf() ? 0 : far;
}}""",
    # -2 J₁, where J₁ / J₀ is a continued fraction: 2x erfcx(x) - 2/√π cancels on the right
    "ad_erfcx_slope": f"""double ad_erfcx_slope(double x) {{
  const double z = x > 2 ? x : 2, value = ad_erfcx(x);
  double ratio = 1 / (z + sqrt(z * z + 120));
{_repeated(59, "ratio = 1 / (2 * z + 2 * (60 - #) * ratio);")}
  return x > 2 ? -2 * ratio * value : 2 * x * value - 1.1283791670955126;
}}""",
    **{
        f"ad_{name}": f"""double ad_{name}(double x) {{
  extern double {name}(double);
  return {name}(x);
}}"""
        for name in ("j0", "j1", "y0", "y1")
    },
    "ad_j1_slope": """double ad_j1_slope(double x) {
  const double size = fabs(x), slope = ad_j0(x) - ad_j1(x) / x;
  return size < 1e-150 ? 0.5 : size == __builtin_inf() ? 0 : slope;
}""",
    "ad_y1_slope": "double ad_y1_slope(double x) {"
    " return x == 0 ? __builtin_inf() : ad_y0(x) - ad_y1(x) / x; }",
    # e^{-|x|} I₀(x) and e^{-|x|} I₁(x)
    "ad_i0e": f"""double ad_i0e(double x) {{
  const double s = fabs(x), n = s < 8 ? s : 8, t = 0.25 * n * n, u = 1 / (s > 8 ? s : 8);
  const double near = exp(-n) * ({_bessel_series(0)}), v = 16 * u - 1;
  const double far = sqrt(u) * ({_horner("v", _BESSEL_FAR[0])});
  return s < 8 ? near : s >= 8 ? far : x;
}}""",
    "ad_i1e": f"""double ad_i1e(double x) {{
  const double s = fabs(x), n = s < 8 ? s : 8, t = 0.25 * n * n, u = 1 / (s > 8 ? s : 8);
  const double near = 0.5 * n * exp(-n) * ({_bessel_series(1)}), v = 16 * u - 1;
  const double far = sqrt(u) * ({_horner("v", _BESSEL_FAR[1])});
  return s < 8 ? copysign(near, x) : s >= 8 ? copysign(far, x) : x;
}}""",
    # e^x as two halves where it overflows before the product does
    "ad_i0": f"""double ad_i0(double x) {{
  const double s = fabs(x), n = s < 8 ? s : 8, t = 0.25 * n * n, most = s > 720 ? 720 : s;
  const double u = 1 / (most > 8 ? most : 8), v = 16 * u - 1, part = most > 700 ? 0.5 * most : most;
  const double near = {_bessel_series(0)}, e = exp(part), rest = most > 700 ? e : 1;
  const double far = sqrt(u) * ({_horner("v", _BESSEL_FAR[0])}) * e * rest;
  return s < 8 ? near : s >= 8 ? far : x;
}}""",
    "ad_i1": f"""double ad_i1(double x) {{
  const double s = fabs(x), n = s < 8 ? s : 8, t = 0.25 * n * n, most = s > 720 ? 720 : s;
  const double u = 1 / (most > 8 ? most : 8), v = 16 * u - 1, part = most > 700 ? 0.5 * most : most;
  const double near = 0.5 * n * ({_bessel_series(1)}), e = exp(part), rest = most > 700 ? e : 1;
  const double far = sqrt(u) * ({_horner("v", _BESSEL_FAR[1])}) * e * rest;
  return s < 8 ? copysign(near, x) : s >= 8 ? copysign(far, x) : x;
}}""",
    # on [1, 2] a fit, to which (0, 4) is reduced; beyond, up to 10 and the asymptotic series; on
    # the left ψ(1-x) - π cot πx, and next to a zero, where these cancel, a Taylor series
    "ad_digamma": f"""double ad_digamma(double x) {{
  const double start = x > 0 ? x : 1 - x, low = start < 4 ? start : 1;
  const double up = low < 2 ? low : low - 1, z = low < 1 ? low + 1 : low < 3 ? up : low - 2;
  const double one = low < 1 ? -low : low < 2 ? __builtin_inf() : low - 1;
  const double two = low < 3 ? __builtin_inf() : low - 2, v = z - 1.5;
  const double fit = {_horner("v", _DIGAMMA_NEAR)};
  const double fitted = ((z - 1.4616321449683622) - 9.549995429965697e-17) * fit;
  const double near = 1 / one + 1 / two + fitted;
  double y = start < 4 ? 4 : start, above = 0;
{_repeated(6, "above += y < 10 ? 1 / y : 0; y += y < 10 ? 1 : 0;")}
  const double u = 1 / (y * y);
  const double tail = u * ({_horner("u", _DIGAMMA_TAIL)});
  const double right = start < 4 ? near : log(y) - 0.5 / y - tail - above;
  const double n = rint(x), f = x - n, turned = 3.141592653589793 / tan(3.141592653589793 * f);
  const double away = x > 0 ? right : right - (fabs(f) == 0.5 ? 0 : turned);
  const double value = fabs(x + 0.504) < 0.1 ? ad_digamma_left(x) : away;
  const double pole = x == 0 ? -copysign(__builtin_inf(), x) : __builtin_nan("");
  return (x <= 0) & (f == 0) ? pole : x == __builtin_inf() ? x : value;
}}""",
    "ad_lgamma": """double ad_lgamma(double x) {
  extern double lgamma_r(double, int *);
  int sign;
  return lgamma_r(x, &sign);
}""",
    "ad_power": """long long ad_power(long long base, long long exponent) {
  long long result = 1, left = exponent;
  for (long long square = base; left > 0; left >>= 1, square *= square)
    if (left & 1) result *= square;
  const long long inverse = base == 1 ? 1 : base == -1 ? (exponent & 1 ? -1 : 1) : 0;
  return exponent < 0 ? inverse : result;
}""",
    "ad_gcd": """long long ad_gcd(long long a, long long b) {
  unsigned long long x = a < 0 ? -a : a, y = b < 0 ? -b : b;
  while (x) { const unsigned long long r = y % x; y = x; x = r; }
  return y;
}""",
    "ad_lcm": """long long ad_lcm(long long a, long long b) {
  const unsigned long long x = a < 0 ? -a : a, y = b < 0 ? -b : b, g = ad_gcd(a, b);
  return g ? x / g * y : 0;
}""",
}


def _power(base: str, n: int) -> str:
    return " * ".join([base] * n)


def _zeta(n: int) -> str:
    """n! Σ (x+k)⁻ⁿ⁻¹, x ≥ 0, by Euler–Maclaurin summation."""
    corrections = [b * math.prod(range(n + 1, n + 2 + 2 * j)) for j, b in enumerate(_BERNOULLI)]
    return f"""double ad_zeta{n}(double x) {{
  double total = 0;
{_repeated(11, f"const double y# = x + (11 - #); total += 1 / ({_power('y#', n + 1)});")}
  const double end = x + 12, u = 1 / end, t = u * u, moved = u > 0 ? end - x : 12;
  const double lost = (12 - moved) * u;
  const double tail = (({_horner("t", corrections)}) * u + 0.5) * u + {1 / n!r};
  const double far = tail * (1 - {n} * lost) / ({_power("end", n)});
  const double y = x + 0, first = 1 / ({_power("y", n + 1)});
  const double less = far < first ? far : first, more = far < first ? first : far;
  return {math.factorial(n)}.0 * ((total + less) + more);
}}"""


def _polygamma(n: int) -> str:
    """For x < 0 the terms left and right of 0 are added separately: x = -m - f, 0 ≤ f < 1."""
    sign = 1 if n % 2 else -1
    both = f"f == 0.5 ? 0 : {sign} * own + other" if sign < 0 else "own + other"
    return f"""double ad_polygamma{n}(double x) {{
  const double f = x < 0 ? -x - floor(-x) : 0.5, upper = ad_zeta{n}(x < 0 ? 1 - x : x);
  const double own = ad_zeta{n}(f), other = ad_zeta{n}(1 - f), both = {both};
  const double near = f < 0.5 ? {sign} * own : other, left = both - {sign} * upper;
  const double inside = (near - near != 0) & (f != 0.5) ? near : left;
  return {sign} * (x < 0 ? (f == 0 ? __builtin_inf() : inside) : upper);
}}"""


POLYGAMMAS = range(1, 9)
_MADE = {
    **{f"ad_digamma_{side}": _digamma_near(side) for side in _ROOTS},
    **{f"ad_zeta{n}": _zeta(n) for n in POLYGAMMAS},
    **{f"ad_polygamma{n}": _polygamma(n) for n in POLYGAMMAS},
}


def _both(name: str, text: str) -> dict[str, str]:
    real = re.compile(r"\breal\b")
    return {
        name + suffix: real.sub(c_type, text.replace("@", suffix)).replace(
            "SPARE", f"{2.0 ** -_SPARE[suffix]!r}{suffix}"
        )
        for c_type, suffix in (("double", ""), ("float", "f"))
    }


# Functions with a rare case that cannot be vectorised: the function for common elements, which can
# be, and the condition of the rare case, with the same arguments.
COMMON = {
    name: (name.replace("ad_", "ad_near_"), "ad_is_far")
    for name in ("ad_fmod", "ad_remainder", "ad_floor_divide")
} | {
    "ad_lgamma": ("ad_near_lgamma", "ad_is_low"),
    "ad_expit_back": ("ad_near_expit_back", "ad_is_flat"),
    "ad_erfinv": ("ad_near_erfinv", "ad_is_end"),
}
_NEAR = {
    near: _REALS[name].replace(f"{name}@", f"{near}@").replace("ad_fmod@", "ad_near_fmod@")
    for name, (near, _) in COMMON.items()
    if name in _REALS and near not in _REALS
}
FUNCTIONS = {
    **{k: v for n, t in (_REALS | _NEAR | _COMPLEX).items() for k, v in _both(n, t).items()},
    **HALF_FUNCTIONS,
    **{f"ad_when{suffix}": _when(suffix) for suffix in ("f", "")},
    **{f"ad_exp{suffix}": _exponential(suffix) for suffix in ("f", "")},
    **{f"ad_short_exp{suffix}": _without_spare(suffix) for suffix in ("f", "")},
    **{f"ad_spared_exp{suffix}": _with_spare(suffix) for suffix in ("f", "")},
    **{f"ad_tanhshrink{suffix}": _tanhshrink(suffix) for suffix in ("f", "")},
    **{f"{k}{suffix}": v for suffix in ("f", "") for k, v in _gelu_tanh(suffix).items()},
    **{f"ad_tanh{suffix}": _tanh(suffix) for suffix in ("f", "")},
    **{
        name + suffix: _short_exponential(name, suffix)
        for name in ("ad_long_exp", "ad_long_exp_of_product")
        for suffix in ("f", "")
    },
    **{f"ad_nextafter{suffix}": _next_after(suffix) for suffix in ("f", "")},
    **{
        f"{name}{suffix}": _bell(name, factor, suffix)
        for name, factor in (("ad_bell", 1.0), ("ad_half_bell", 0.5))
        for suffix in ("f", "")
    },
    **{f"ad_erf_beside{suffix}": _erf(suffix) for suffix in ("f", "")},
    **{f"ad_logit{suffix}": _logit(suffix) for suffix in ("f", "")},
    **{f"ad_ldexp{suffix}": _ldexp(suffix) for suffix in ("f", "")},
    **_DOUBLES,
    **_MADE,
    "ad_lgammaf": "float ad_lgammaf(float x) { return (float)ad_lgamma(x); }",
    "ad_is_lowf": "float ad_is_lowf(float x) { return !(x > 0) | (x == __builtin_inff()); }",
    # Stirling's series from 7 on; below, that of x + 7 minus the logarithm of x (x + 1) … (x + 6)
    "ad_near_lgammaf": f"""float ad_near_lgammaf(float x) {{
  const double z = x, s = z < 7 ? z : 7, y = z < 7 ? z + 7 : z, u = 1 / (y * y);
  const double p = s * (s + 1) * (s + 2) * ((s + 3) * (s + 4)) * ((s + 5) * (s + 6));
  const double series = ({_horner("u", _STIRLING)}) / y;
  const double value = (y - 0.5) * log(y) - y + 0.9189385332046727 + series - (z < 7 ? log(p) : 0);
  return (x == 1) | (x == 2) ? 0 : (float)value;
}}""",
    "ad_erfinvf": f"""float ad_erfinvf(float x) {{
  const float w = -logf((1 - x) * (1 + x)), c = w < 5 ? w - 2.5f : 0, s = w < 5 ? 0 : sqrtf(w) - 3;
  const float d = c * c, t = s * s;
  const float near = {_in_halves("c", "d", _INVERSE_FLOAT[0])};
  const float far = {_in_halves("s", "t", _INVERSE_FLOAT[1])};
  const float y = x * (w < 5 ? near : far);
  return fabsf(x) == 1 ? copysignf(__builtin_inff(), x) : y;
}}""",
    # 1 / x for normal numbers to an ulp, faster than a division: a subtraction inverts the
    # exponent, and two steps of Newton's method follow, the first fitted to the error of 1.5 %
    "ad_inversef": """float ad_inversef(float x) {
  const union { float x; unsigned bits; } as = {.x = x}, turned = {.bits = 0x7eb50000u - as.bits};
  const float q = turned.x * x;
  const float near = turned.x * ad_times_plusf(q, -1.9412877432726918f, 2.786757715355344f);
  return ad_times_plusf(near, ad_times_plusf(-x, near, 1), near);
}""",
    # Φ(-y) for y ≥ 0: one exponential and one inverse instead of erfcf(), which has no fast vectors
    "ad_ndtr_tailf": f"""float ad_ndtr_tailf(float y) {{
  const float t = ad_inversef(ad_times_plusf(y, 0.212132037f, 1)), u = t * t;
  const float p = {_in_halves("t", "u", [c * 2.0 ** (-1 - _SPARE["f"]) for c in _TAIL])};
  return ad_long_exp_of_productf(-0.5f * y, y) * (t * p);
}}""",
    "ad_ndtrf": f"""float ad_ndtrf(float x) {{
  const float tail = ad_ndtr_tailf(ad_uptof(fabsf(x), {_far(0.5, "f")}));
  return x < 0 ? tail : 1 - tail;
}}""",
    # max(x, 0) - |x| Φ(-|x|); the bits of positive numbers are ordered as the numbers, and NaN wins
    "ad_geluf": f"""float ad_geluf(float x) {{
  const {PUN} size = {{.x = fabsf(x)}}, far = {{.x = {_far(0.5, "f")}}};
  const {PUN} near = {{.bits = size.bits < far.bits ? size.bits : far.bits}};
  return ad_times_plusf(-near.x, ad_ndtr_tailf(near.x), x < 0 ? -0.0f : x);
}}""",
}
# functions that are fast only in vectors
VECTORIZED = frozenset((*VECTORS, *(f"{name}f" for name in VECTORS), *FUNCTIONS))
# gcc does not vectorise a loop with choices that calls sin() or cos(), which must not be builtins
# then; next to these, exponentials are the library's, too
_SINES = frozenset(("sin", "cos", "sinf", "cosf"))
_BESIDE_SINES = {
    f"ad_{name}{suffix}": f"{real} ad_{name}{suffix}({real} x) {{ return {name}{suffix}(x); }}"
    for name in ("exp", "tanh")
    for real, suffix in (("double", ""), ("float", "f"))
}
_INLINE = "static inline __attribute__((always_inline)) "
_CALL = re.compile(r"\b(\w+)\(")
_OURS = re.compile(r"\bad_\w+")


def text_of(name: str) -> str:
    """The C text of one of our functions or tables; "" for an unknown name."""
    return FUNCTIONS.get(name) or special_functions.called().get(name, "")


def _needed(called: Iterable[str]) -> tuple[dict[str, str], set[str]]:
    """(texts of our functions among those called, and of those that they call, in the order that C
    needs; the names of all of these).
    """
    names, ours = [*called], dict[str, str]()
    _add_called(names, _BESIDE_SINES if _SINES.intersection(names) else {}, ours)
    return ours, {*names, *(name for text in ours.values() for name in _CALL.findall(text))}


def _add_called(names: Iterable[str], replaced: dict[str, str], ours: dict[str, str]) -> None:
    """Add the texts of our functions among some names, each after the functions that it calls."""
    for name in dict.fromkeys(names):
        if name not in ours and (found := replaced.get(name) or text_of(name)):
            ours[name] = found  # now, since it may call itself
            _add_called(_OURS.findall(found.partition("{")[2]), replaced, ours)
            ours[name] = ours.pop(name)


def counts_digits(called: Iterable[str]) -> bool:
    """Whether functions depend on the digits of their type: a wider type gives other values."""
    return not {"ad_nextafter", "ad_nextafterf"}.isdisjoint(called)


def rounds_alike(called: Iterable[str]) -> bool:
    """Whether functions have the same values in vectors and outside: they use none of libmvec."""
    return not any(map(_is_in_libmvec, called))


@lru_cache(1 << 10)
def _is_in_libmvec(name: str) -> bool:
    """Whether a function, or one that it calls, has a vector version in libmvec."""
    vectors = {each + suffix for each in VECTORS for suffix in ("", "f")}
    return not vectors.isdisjoint(_needed([name])[1])


def declared(called: Iterable[str]) -> list[str]:
    """The declarations of functions that are called, in the order that C needs."""
    ours, used = _needed(called)
    return [*_of_library(used), *_texts(ours)]


def _of_library(used: set[str]) -> Iterator[str]:
    """The declarations of the C library's functions."""
    for name, count in (VECTORS | SCALARS).items():
        for c_type, suffix in (("double", ""), ("float", "f")):
            if name + suffix in used:
                if name in VECTORS:
                    yield "#pragma omp declare simd notinbranch"
                yield f"extern {c_type} {name}{suffix}({', '.join([c_type] * count)});"


def _texts(ours: dict[str, str]) -> list[str]:
    """The texts of our functions."""
    lines = [special_functions.head(text) for name, text in ours.items() if name not in FUNCTIONS]
    for name, text in ours.items():
        lines += [_INLINE + text] if name in FUNCTIONS else special_functions.definition(text)
    return lines


def prelude(called: Iterable[str], data_offset: int) -> str:
    """The declarations at the start of a source: no header, and only functions that are called.

    Arguments are NumPy's array objects, whose first field after the header is the address of the
    data: reading it here is much faster than asking for it in Python.
    """
    lines = [
        "/* written by adjoint: all memory is given by the caller */",
        f"#define DATA(objects, slot) (*(void **)((char *)(objects)[slot] + {data_offset}))",
        "#define INF_double __builtin_inf()",
        "#define INF_float __builtin_inff()",
        '#define NAN_double __builtin_nan("")',
        '#define NAN_float __builtin_nanf("")',
        "#define HUGE_VAL __builtin_inf()",
    ]
    return "\n".join([*lines, *_COMMON, *declared(called)]) + "\n"


def standalone_prelude(called: Iterable[str]) -> str:
    """The same for a source with C's headers, whose arguments are addresses of data."""
    lines = [
        "#include <math.h>",
        "#include <stddef.h>",
        "#define DATA(objects, slot) ((objects)[slot])",
        "#define INF_double HUGE_VAL",
        "#define INF_float HUGE_VALF",
        "#define NAN_double ((double)NAN)",
        "#define NAN_float NAN",
    ]
    return "\n".join([*lines, *_COMMON, *_texts(_needed(called)[0])]) + "\n"


_COMMON = (
    HALF_TYPES.rstrip(),
    "#define LEAST (-9223372036854775807LL - 1)",
    "#define SMALLER(a, b) ((a) < (b) ? (a) : (b))",
    "#define LARGER(a, b) ((a) > (b) ? (a) : (b))",
    TEAM,
    "#define THREADS SMALLER(TEAM, 16)",
    "#ifdef _OPENMP",
    "extern int omp_get_thread_num(void), omp_get_num_threads(void);",
    "#define THREAD omp_get_thread_num()",
    "#define COUNT omp_get_num_threads()",
    "#else",
    "#define THREAD 0",
    "#define COUNT 1",
    "#endif",
)
