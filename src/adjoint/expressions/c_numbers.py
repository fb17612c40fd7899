"""C constants, and the C functions that convert between dtypes."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from adjoint.core import dtypes
from adjoint.core.c_types import C_TYPES
from adjoint.core.dtypes import HALVES, INTEGER, DType
from adjoint.core.promotion import element
from adjoint.core.symbolic_sizes import is_open

BITS = {"int": 32, "short": 16, "signed char": 8, "unsigned char": 8, "long long": 64}


def suffix(c_type: str) -> str:
    """The suffix of a C type's functions and constants: "f" for float."""
    return "f" if c_type.startswith("float") else ""


def conversion(source: DType, dtype: DType) -> str:
    """The C function that converts numbers; "" where a cast does.

    A number that a whole type cannot hold is undefined in C, and gcc would take (double)(signed
    char)x for trunc(x). As in eager mode it becomes the least number of the type that processors
    convert to.
    """
    if source in HALVES:
        return f"ad_from_{C_TYPES[source.name]}"
    if dtype in HALVES:
        return f"ad_to_{C_TYPES[dtype.name]}"
    if not source.is_differentiable or dtype.category != INTEGER:
        return ""
    wide = "long" if dtype.itemsize == 8 else "int"
    return f"ad_whole_{wide}{'' if source.to_real() is dtypes.float64 else 'f'}"


def _bits_of_half(value: Any, c_type: str) -> int:
    dtype = {"half_bits": dtypes.float16, "bfloat_bits": dtypes.bfloat16}[c_type]
    return int(np.asarray(element(value, dtype), dtype.np).view(np.uint16))


def literal(value: Any, c_type: str) -> str:
    """A Python number as a C constant of a C type."""
    if isinstance(value, bool):
        return "1" if value else "0"
    if is_open(value):
        return f"(({c_type}){value})"
    if c_type.endswith("_bits"):
        return f"(({c_type}){_bits_of_half(value, c_type)})"
    if c_type.endswith("_Complex"):
        part = c_type.partition(" ")[0]
        number = complex(value)
        real, imaginary = (literal(x, part) for x in (number.real, number.imag))
        return f"__builtin_complex({real}, {imaginary})"
    if c_type in ("float", "double"):
        # 0.1f is the float nearest to 0.1, which may differ from the float nearest to the double
        # 0.1
        number = element(value, dtypes.named("float32" if c_type == "float" else "float64"))
        ending = suffix(c_type)
        if math.isnan(number):
            return f"NAN_{c_type}"
        if math.isinf(number):
            return f"({'-' if number < 0 else ''}INF_{c_type})"
        return (
            f"({number!r}{ending})"
            if number < 0 or math.copysign(1, number) < 0
            else f"{number!r}{ending}"
        )
    if c_type.startswith("unsigned ") and c_type != "unsigned char":
        return f"{value:#x}u" + ("ll" if c_type.endswith("long") else "")
    whole = wrapped(int(value), c_type)
    if c_type != "long long":
        return f"({whole})" if whole < 0 else f"{whole}"
    if whole == -(1 << 63):
        return "LEAST"
    return f"({whole}LL)" if whole < 0 else f"{whole}LL"


def wrapped(value: int, c_type: str) -> int:
    """A whole number wrapped to the range of a C type."""
    bits = BITS[c_type]
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> (bits - 1) and c_type != "unsigned char" else value
