"""The C type of each dtype, and halves in C: the one table, and the one text."""

from __future__ import annotations

from typing import Any

import numpy as np

from adjoint.core import dtypes

C_TYPES = {  # of an element in memory; halves are bits there
    "float32": "float",
    "float64": "double",
    "bool": "unsigned char",
    "int64": "long long",
    "int32": "int",
    "int16": "short",
    "int8": "signed char",
    "uint8": "unsigned char",
    "complex64": "float _Complex",
    "complex128": "double _Complex",
    "float16": "half_bits",
    "bfloat16": "bfloat_bits",
}
COMPUTED = {name: C_TYPES[dtypes.named(name).wide.name] for name in C_TYPES}  # in expressions
LETTERS = {"float": "s", "double": "d"}  # that the names of LAPACK's functions begin with

# What the names of our C functions for arrays of a dtype end in: a type as one word.
_WORDS = {"long long": "long", "signed char": "schar", "unsigned char": "uchar"}
KINDS: dict[np.dtype[Any], str] = {
    dtypes.named(name).np: _WORDS.get(c_type, c_type)
    for name, c_type in C_TYPES.items()
    if not c_type.endswith(("_Complex", "_bits"))
}
REAL_KINDS = {dtype: kind for dtype, kind in KINDS.items() if dtype.kind == "f"}

HALF_TYPES = "typedef unsigned short half_bits, bfloat_bits;\n"
# Exactly, and rounded to nearest, ties to even; a NaN keeps its bits, as by the processor. Unions,
# since in vectors gcc 12 puts variables whose address is taken at places that are not aligned.
PUN = "union { float x; unsigned bits; }"
HALF_FUNCTIONS = {
    "ad_from_bfloat_bits": f"""float ad_from_bfloat_bits(bfloat_bits h) {{
  const {PUN} as = {{.bits = (unsigned)h << 16}};
  return as.x;
}}""",
    "ad_to_bfloat_bits": f"""bfloat_bits ad_to_bfloat_bits(float x) {{
  const {PUN} as = {{.x = x}};
  const unsigned rounded = (as.bits + 0x7fffu + (as.bits >> 16 & 1)) >> 16;
  return (bfloat_bits)(x == x ? rounded : (as.bits >> 16 | 0x40u));
}}""",
    # numbers below 2^-14 are multiples of 2^-24, which a product by 2^112 makes of their bits
    "ad_from_half_bits": f"""float ad_from_half_bits(half_bits h) {{
  const unsigned rest = (unsigned)(h & 0x7fff) << 13, sign = (unsigned)(h & 0x8000) << 16;
  const {PUN} as = {{.bits = rest}}, made = {{.x = as.x * 5.192296858534828e33f}};
  const {PUN} found = {{
    .bits = (rest >= 0x0f800000u ? rest | 0x7f800000u : made.bits) | sign
  }};
  return found.x;
}}""",
    "ad_to_half_bits": f"""half_bits ad_to_half_bits(float x) {{
  const {PUN} as = {{.x = x}}, whole = {{.bits = as.bits & 0x7fffffffu}};
  const {PUN} small = {{.x = whole.x + 0.5f}}; /* rounded to 2^-24 */
  const unsigned sign = as.bits >> 16 & 0x8000u, size = whole.bits;
  const unsigned normal = (size - 0x38000000u + 0xfffu + (size >> 13 & 1)) >> 13;
  const unsigned finite = size < 0x38800000u ? small.bits - 0x3f000000u : normal;
  const unsigned large = size > 0x7f800000u ? 0x7e00u | (size >> 13 & 0x3ffu) : 0x7c00u;
  return (half_bits)(sign | (size >= 0x47800000u ? large : finite));
}}""",
}
