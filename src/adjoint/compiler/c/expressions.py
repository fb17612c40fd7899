"""Pointwise rows as C expressions.

The renderer is a table from an operator to text. In it `{self}`, `{other}`, … stand for the
operands, already of the type
that the operator computes in, and `{f}` for the suffix of that type's functions (`sinf`). An
operator that is not here
runs its decomposition, or calls back to its eager kernel.
"""

from __future__ import annotations

import math
import re
from typing import Any

C_TYPES = {
    "float32": "float",
    "float64": "double",
    "bool": "unsigned char",
    "int64": "long long",
    "int32": "int",
}

_UNARY = (
    "exp",
    "exp2",
    "expm1",
    "log",
    "log2",
    "log10",
    "log1p",
    "sin",
    "cos",
    "tan",
    "asin",
    "acos",
    "atan",
    "sinh",
    "cosh",
    "tanh",
    "asinh",
    "acosh",
    "atanh",
    "sqrt",
    "ceil",
    "floor",
    "trunc",
    "erf",
    "erfc",
)
_COMPARISONS = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}
_NAN_FIRST = "({a} != {a} ? {a} : {b} != {b} ? {b} : {a} {sign} {b} ? {a} : {b})"

EXPRESSIONS: dict[str, str] = {
    "mul.Tensor": "{self} * {other}",
    "mul.Scalar": "{self} * {other}",
    "div.Tensor": "{self} / {other}",
    "div.Scalar": "{self} / {other}",
    "add.Tensor": "{self} + {alpha} * {other}",
    "add.Scalar": "{self} + {alpha} * {other}",
    "sub.Tensor": "{self} - {alpha} * {other}",
    "sub.Scalar": "{self} - {alpha} * {other}",
    "rsub.Scalar": "{other} - {alpha} * {self}",
    "neg.default": "-{self}",
    "reciprocal.default": "1 / {self}",
    "rsqrt.default": "1 / sqrt{f}({self})",
    "square.default": "{self} * {self}",
    "abs.default": "fabs{f}({self})",
    "sigmoid.default": "1 / (1 + exp{f}(-{self}))",
    "relu.default": "({self} > 0 || {self} != {self} ? {self} : 0)",
    "sign.default": "({self} != {self} ? {self} : ({self} > 0) - ({self} < 0))",
    "sgn.default": "({self} != {self} ? {self} : ({self} > 0) - ({self} < 0))",
    "atan2.default": "atan2{f}({self}, {other})",
    "hypot.default": "hypot{f}({self}, {other})",
    "pow.Tensor_Tensor": "pow{f}({self}, {exponent})",
    "pow.Tensor_Scalar": "pow{f}({self}, {exponent})",
    "pow.Scalar": "pow{f}({self}, {exponent})",
    "where.self": "({condition} ? {self} : {other})",
    "where.ScalarSelf": "({condition} ? {self} : {other})",
    "where.ScalarOther": "({condition} ? {self} : {other})",
    "maximum.default": _NAN_FIRST.replace("{a}", "{self}")
    .replace("{b}", "{other}")
    .replace("{sign}", ">"),
    "minimum.default": _NAN_FIRST.replace("{a}", "{self}")
    .replace("{b}", "{other}")
    .replace("{sign}", "<"),
    "clamp_min.default": "({self} < {min} ? {min} : {self})",
    "clamp_max.default": "({self} > {max} ? {max} : {self})",
    "isnan.default": "({self} != {self})",
    "isinf.default": "({self} == HUGE_VAL || {self} == -HUGE_VAL)",
    "isfinite.default": "({self} - {self} == 0)",
    "clamp.default": "({self} < {min} ? ({min} > {max} ? {max} : {min})"
    " : {self} > {max} ? {max} : {self})",
    "logical_and.default": "({self} && {other})",
    "logical_or.default": "({self} || {other})",
    "logical_not.default": "(!{self})",
    "bitwise_and.Tensor": "({self} & {other})",
    "bitwise_or.Tensor": "({self} | {other})",
    "addcmul.default": "{self} + {value} * {tensor1} * {tensor2}",
    "_to_copy.default": "{self}",
    "clone.default": "{self}",
    "copy.default": "{src}",
    "detach.default": "{self}",
    **{f"{name}.default": f"{name}{{f}}({{self}})" for name in _UNARY},
    **{
        f"{name}.{o}": f"({{self}} {sign} {{other}})"
        for name, sign in _COMPARISONS.items()
        for o in ("Tensor", "Scalar")
    },
}

# Vector versions of these come with glibc (libmvec); declaring them lets the compiler use them in a
# loop.
VECTORIZED = {name: 1 for name in _UNARY if name not in ("sqrt", "ceil", "floor", "trunc")} | {
    "pow": 2,
    "atan2": 2,
    "hypot": 2,
}
SCALAR = {"sqrt": 1, "ceil": 1, "floor": 1, "trunc": 1, "fabs": 1}

# What an accumulator starts with, how it takes one more value in, and how two of them join.
IDENTITY = {
    "double": {"sum": "0", "mean": "0", "amax": "-HUGE_VAL", "amin": "HUGE_VAL", "prod": "1"},
    "long long": {"sum": "0", "amax": "LEAST", "amin": "(-1 - LEAST)", "prod": "1", "any": "0"},
}
COMBINE = {
    "sum": "{acc} += {v};",
    "mean": "{acc} += {v};",
    "prod": "{acc} *= {v};",
    "any": "{acc} |= {v} != 0;",
    "amax": "{acc} = {v} > {acc} || {v} != {v} ? {v} : {acc};",
    "amin": "{acc} = {v} < {acc} || {v} != {v} ? {v} : {acc};",
}

# What an operator costs, in additions; 1 where nothing is said.
WEIGHTS = {
    **dict.fromkeys(_UNARY, 20),
    **dict.fromkeys(("ceil", "floor", "trunc"), 1),
    **dict.fromkeys(("sigmoid", "pow", "atan2", "hypot", "logaddexp"), 30),
    **dict.fromkeys(("div", "reciprocal", "rsqrt", "sqrt", "remainder", "fmod"), 4),
}


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
    return f"({int(value)}LL)"


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
    called = set(re.findall(r"\b(\w+)\(", body))
    for name, count in (VECTORIZED | SCALAR).items():
        for c_type, suffix in (("double", ""), ("float", "f")):
            if name + suffix in called:
                if name in VECTORIZED:
                    lines.append("#pragma omp declare simd notinbranch")
                lines.append(f"extern {c_type} {name}{suffix}({', '.join([c_type] * count)});")
    return "\n".join(lines) + "\n"
