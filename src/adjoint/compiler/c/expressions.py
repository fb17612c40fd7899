"""Pointwise rows as C expressions.

The renderer is a table from an operator to text. In it `{self}`, `{other}`, … stand for the
operands, already of the type that the operator computes in, and `{f}` for the suffix of that type's
functions and constants (`sinf`, `0.5f`). Whole numbers and booleans have texts of their own where
their arithmetic differs. Where the text depends on an argument that is known beforehand (a power, a
mode), a function makes it. An operator that is not here runs its decomposition, or calls back to
its eager kernel.
"""

from __future__ import annotations

from adjoint.compiler.c import variants
from adjoint.compiler.c.functions import FUNCTIONS, VECTORS, declared
from adjoint.compiler.c.numbers import BITS, C_TYPES, REAL, cast, literal
from adjoint.compiler.c.variants import Arguments

__all__ = [
    "CLAUSES",
    "COMBINE",
    "C_TYPES",
    "DECLARED",
    "EXPRESSIONS",
    "IDENTITY",
    "VECTORIZED",
    "WEIGHTS",
    "cast",
    "expression",
    "literal",
    "prelude",
]

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
    "_neg_view.default": "-{self}",
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
    "_conj_physical.default": "{self}",
    "conj_physical.default": "{self}",
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
    "elu.default": "{alpha} * {scale} * expm1{f}({input_scale} * ({self} > 0 ? 0 : {self}))"
    " + {scale} * ({self} > 0 ? {self} : 0)",
    "leaky_relu.default": "({self} > 0 ? {self} : {self} * {negative_slope})",
    "leaky_relu_backward.default": "({self} > 0 ? {grad_output}"
    " : {grad_output} * {negative_slope})",
    "_prelu_kernel.default": "({self} > 0 ? {self} : {self} * {weight})",
    "hardtanh.default": "ad_min{f}(ad_max{f}({self}, {min_val}), {max_val})",
    "hardtanh_backward.default": "(({self} <= {min_val}) | ({self} >= {max_val}) ? 0"
    " : {grad_output})",
    "hardsigmoid.default": "ad_min{f}(ad_max{f}({self} + 3, 0), 6) / 6",
    "hardsigmoid_backward.default": "(({self} > -3) & ({self} < 3) ? {grad_output} / 6 : 0)",
    "hardswish.default": "ad_max{f}({self}, -3) * (ad_min{f}(ad_max{f}({self} + 3, 0), 6) / 6)",
    "hardswish_backward.default": "({self} <= -3 ? 0 : {self} >= 3 ? {grad_output}"
    " : {grad_output} * ({self} / 3 + 0.5{f}))",
    "hardshrink.default": "(({self} >= -{lambd}) & ({self} <= {lambd}) ? 0 : {self})",
    "hardshrink_backward.default": "(({self} >= -{lambd}) & ({self} <= {lambd}) ? 0 : {grad_out})",
    "softshrink_backward.default": "(({self} >= -{lambd}) & ({self} <= {lambd}) ? 0"
    " : {grad_output})",
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
    "special_spherical_bessel_j0.default": "ad_spherical_j0({x})",
    "special_bessel_j0.default": "ad_j0({self})",
    "special_bessel_j1.default": "ad_j1({self})",
    "special_bessel_y0.default": "ad_y0({self})",
    "special_bessel_y1.default": "ad_y1({self})",
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

# Operators that have an expression for some type.
EXPRESSIONS = frozenset(
    name
    for table in (
        _ALL,
        _NUMBERS,
        _REALS,
        _WHOLE,
        _BOOLEAN,
        variants.NUMBERS,
        variants.REALS,
        variants.WHOLE,
    )
    for name in table
)


def expression(name: str, dtype: str, given: Arguments) -> str | None:
    """The text of an operator that computes in a dtype; None where there is none."""
    made = variants.NUMBERS.get(name) or (variants.REALS if dtype in REAL else variants.WHOLE).get(
        name
    )
    if made is not None:
        return None if dtype == "bool" else made(given, dtype)
    if name in _ALL:
        return _ALL[name]
    if dtype == "bool":
        return _BOOLEAN.get(name)
    if dtype not in REAL and name.startswith("bitwise_") and "shift" in name:
        return _shift(name, dtype)
    return _NUMBERS.get(name) or (_REALS if dtype in REAL else _WHOLE).get(name)


def _shift(name: str, dtype: str) -> str:
    """Shifts by as many bits as there are, or more, leave nothing (or the sign)."""
    bits = BITS[C_TYPES[dtype]]
    inside = f"({{other}} >= 0) & ({{other}} < {bits})"
    if "left" in name:
        return f"({inside} ? {{self}} << ({{other}} & {bits - 1}) : 0)"
    return (
        f"({{self}} >> ({inside} ? {{other}} : {bits - 1}))"
        if dtype != "uint8"
        else (f"({inside} ? {{self}} >> ({{other}} & 7) : 0)")
    )


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
    "amax": "{acc} = ({v} > {acc}) | ({v} != {v}) ? {v} : {acc};",
    "amin": "{acc} = ({v} < {acc}) | ({v} != {v}) ? {v} : {acc};",
}
# The same for OpenMP; those with names of their own keep NaN, and are declared where they are used.
CLAUSES = {
    "double": {"sum": "+", "mean": "+", "prod": "*", "amax": "most", "amin": "fewest"},
    "long long": {"sum": "+", "prod": "*", "amax": "max", "amin": "min", "any": "|", "all": "&"},
}
DECLARED = """#pragma omp declare reduction(most : double : omp_out = omp_in > omp_out \\
  || omp_in != omp_in ? omp_in : omp_out) initializer(omp_priv = -HUGE_VAL)
#pragma omp declare reduction(fewest : double : omp_out = omp_in < omp_out \\
  || omp_in != omp_in ? omp_in : omp_out) initializer(omp_priv = HUGE_VAL)
"""

# What an operator costs, in additions; 1 where nothing is said.
FUNCTION = 20
WEIGHTS = {
    **dict.fromkeys(_FUNCTIONS_OF_ONE, FUNCTION),
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
            "_ndtri_slope", "_erfcx_derivative", "special_bessel_j0", "special_bessel_j1",
            "special_bessel_y0", "special_bessel_y1", "_bessel_j_derivative",
            "_bessel_y_derivative", "lgamma", "digamma", "polygamma", "i0", "special_i0e",
            "special_i1", "special_i1e",
        ),
        200,
    ),
    **dict.fromkeys(("div", "reciprocal", "rsqrt", "sqrt", "addcdiv", "_quotient"), 4),
}  # fmt: skip


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
        "extern int omp_get_max_threads(void), omp_get_thread_num(void),"
        " omp_get_num_threads(void);",
        "#define THREADS SMALLER(omp_get_max_threads(), 16)",
        "#define THREAD omp_get_thread_num()",
        "#define COUNT omp_get_num_threads()",
        "#else",
        "#define THREADS 1",
        "#define THREAD 0",
        "#define COUNT 1",
        "#endif",
    ]
    return "\n".join([*lines, *declared(body)]) + "\n"
