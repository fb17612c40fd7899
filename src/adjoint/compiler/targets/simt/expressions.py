"""How expressions and functions of elements are spelled for many threads.

The text is OpenCL C, CUDA C++ and C99 at the same time (`headers.py` has what differs). Complex
numbers are pairs of real numbers. Functions of C's library take numbers of their type: OpenCL C and
C++ have several of a name.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

from adjoint.compiler.targets.simt.headers import Header
from adjoint.core import dtypes
from adjoint.core.dtypes import DType
from adjoint.expressions import definitions, special_functions
from adjoint.expressions.c_text import TYPES, CSpelling
from adjoint.expressions.definitions import SCALARS, VECTORS
from adjoint.expressions.trees import (
    Binary,
    Call,
    Cast,
    Choose,
    Convert,
    Expression,
    Intrinsic,
    Number,
    Unary,
    common,
)

_TYPES = TYPES | {
    "complex64": "pairf", "complex128": "pair", "int64": "i64", "uint32": "u32", "uint64": "u64",
    "float16": "unsigned short", "bfloat16": "unsigned short",
}  # fmt: skip
_LIBRARY = VECTORS | SCALARS | {"lgamma": 1}
_OF_PAIRS = {"+": "plus", "-": "minus", "*": "times", "/": "over"}


def printed(tree: Expression, names: Mapping[str, str]) -> str:
    """The text of a tree."""
    return SimtSpelling(names).text(tree)


def type_of(dtype: DType) -> str:
    """The type of a number in an expression."""
    return _TYPES[dtype.name]


def declared(called: Iterable[str], header: Header) -> str:
    """The header, and the functions and tables that are called, with all that they call."""
    found: dict[str, str] = {}
    for name in called:
        _add(name, header, found)
    tables = [text for text in found.values() if text.startswith("TABLE")]
    functions = [text for text in found.values() if text and not text.startswith("TABLE")]
    heads = [text.partition(" {\n")[0].partition(" { ")[0] + ";" for text in functions]
    return "\n".join([header.text, *tables, *heads, *functions, ""])


def _add(name: str, header: Header, found: dict[str, str]) -> None:
    """Add the text of a function, and of those that it calls."""
    if name in found:
        return
    text, needed = _text(name, header)
    if text or needed:
        found[name] = text
        for each in sorted(needed):
            _add(each, header, found)


def _text(name: str, header: Header) -> tuple[str, Iterable[str]]:
    """The text of a function or table, and what it calls; "" if the target has the function."""
    if name in header.missing:
        return header.missing[name]
    function = definitions.find(name)
    if function is not None:
        return f"INLINE {SimtSpelling().function(function)}", function.calls
    text = special_functions.called().get(name, "")
    if text.startswith("const double "):
        return f"TABLE {text.removeprefix('const double ')}", ()
    if text.startswith("inline "):
        return f"INLINE {text.removeprefix('inline ')}", special_functions.named_in(text)
    return text and f"FUNCTION {text}", special_functions.named_in(text)


class SimtSpelling(CSpelling):
    """Spells trees for many threads."""

    types = _TYPES

    def number(self, tree: Number, level: int) -> str:
        value, dtype = tree.value, tree.dtype
        if dtype.is_complex:
            parts = (complex(value).real, complex(value).imag)
            given = [self.number(Number(part, dtype.to_real()), level) for part in parts]
            return f"ad_pair{_suffix(dtype)}({', '.join(given)})"
        if dtype.is_floating_point and not math.isfinite(value):
            word = "nan" if math.isnan(value) else "inf"
            return f"({'-' if value < 0 else ''}{word}{_suffix(dtype)}())"
        if dtype is dtypes.uint64:
            return f"((u64){value:#x})"
        if dtype is dtypes.int64:
            least = value == -(1 << 63)
            return "((i64)(-9223372036854775807 - 1))" if least else f"((i64)({value}))"
        return super().number(tree, level)

    def call(self, tree: Call, level: int) -> str:
        given = tree.arguments
        if tree.name in _LIBRARY:
            given = tuple([converted(each, tree.dtype) for each in given])
        elif found := definitions.find(tree.called):
            given = tuple(
                [
                    converted(each, p.dtype) if p.dtype.is_complex else each
                    for p, each in zip(found.parameters, given, strict=True)
                ]
            )
        return f"{tree.called}({', '.join([self.text(each) for each in given])})"

    def intrinsic(self, tree: Intrinsic, level: int) -> str:
        given = [self.text(each) for each in tree.arguments]
        if tree.name in ("re", "im"):
            return f"({given[0]}).{'x' if tree.name == 're' else 'y'}"
        if tree.name == "complex":
            return f"ad_pair{_suffix(tree.dtype)}({', '.join(given)})"
        return super().intrinsic(tree, level)

    def cast(self, tree: Cast, level: int) -> str:
        if tree.dtype.is_complex:
            return self.text(converted(tree.operand, tree.dtype))
        return super().cast(tree, level)

    def convert(self, tree: Convert, level: int) -> str:
        source = tree.operand.dtype
        if source.is_complex and tree.dtype is dtypes.bool_:
            zero = self.number(Number(0, source), level)
            return f"(!pair_equal{_suffix(source)}({self.text(tree.operand)}, {zero}))"
        if tree.dtype.is_complex:
            return self.text(converted(tree.operand, tree.dtype))
        if source.is_complex:
            part = Intrinsic("re", (tree.operand,), source.to_real())
            return self.text(part if part.dtype is tree.dtype else Convert(part, tree.dtype))
        return super().convert(tree, level)

    def unary(self, tree: Unary, level: int) -> str:
        if tree.dtype.is_complex:
            return f"pair_negative{_suffix(tree.dtype)}({self.text(tree.operand)})"
        return super().unary(tree, level)

    def choose(self, tree: Choose, level: int) -> str:
        if tree.dtype.is_complex:
            one, other = (converted(each, tree.dtype) for each in (tree.one, tree.other))
            given = [self.text(each) for each in (tree.condition, one, other)]
            return f"pair_choose{_suffix(tree.dtype)}({', '.join(given)})"
        return super().choose(tree, level)

    def binary(self, tree: Binary, level: int) -> str:
        both = (tree.left.dtype, tree.right.dtype)
        if not any(each.is_complex for each in both):
            return super().binary(tree, level)
        wide = common(*both)
        sides = [
            converted(each, wide if each.dtype.is_complex else wide.to_real())
            for each in tree.parts
        ]
        return self.of_pairs(tree.sign, sides, wide)

    def of_pairs(self, sign: str, sides: list[Expression], wide: DType) -> str:
        """Two numbers, of which one or both are complex, joined by a sign."""
        suffix = _suffix(wide)
        left, right = (each.dtype.is_complex for each in sides)
        one, two = (self.text(each) for each in sides)
        if sign in ("==", "!="):
            one, two = (self.text(converted(each, wide)) for each in sides)
            return f"({'!' if sign == '!=' else ''}pair_equal{suffix}({one}, {two}))"
        word = _OF_PAIRS[sign]
        if left and right and sign in "+-":
            return f"pair_{word}{suffix}({one}, {two})"
        if left and not right:
            return f"pair_{word}_real{suffix}({one}, {two})"
        if right and sign in "+*":
            return f"pair_{word}_real{suffix}({two}, {one})"
        if right and not left and sign == "-":
            return f"real_minus_pair{suffix}({one}, {two})"
        return f"ad_{word}{suffix}({one}, {two})"


def _suffix(dtype: DType) -> str:
    """The suffix of functions of a real or complex dtype."""
    return "f" if dtype.to_real() is dtypes.float32 else ""


def converted(tree: Expression, dtype: DType) -> Expression:
    """A tree as a number of another dtype."""
    if tree.dtype is dtype:
        return tree
    if not dtype.is_complex:
        return Number(float(tree.value), dtype) if isinstance(tree, Number) else Cast(tree, dtype)
    part = dtype.to_real()
    if not tree.dtype.is_complex:
        return Intrinsic("complex", (converted(tree, part), Number(0.0, part)), dtype)
    parts = [converted(Intrinsic(p, (tree,), tree.dtype.to_real()), part) for p in ("re", "im")]
    return Intrinsic("complex", tuple(parts), dtype)
