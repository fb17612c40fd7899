"""How trees, and functions of elements, are spelled in C."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from adjoint.core import dtypes
from adjoint.core.c_types import C_TYPES
from adjoint.core.dtypes import HALVES
from adjoint.expressions.c_numbers import literal
from adjoint.expressions.trees import (
    Binary,
    Call,
    Cast,
    Choose,
    Convert,
    EarlyResult,
    ElementFunction,
    Expression,
    Intrinsic,
    Named,
    Number,
    Operand,
    Unary,
    Variable,
)

# How tightly C's signs bind; a choice binds least, then these, then signs before a single operand.
LEVELS = {
    "||": 1, "&&": 2, "|": 3, "^": 4, "&": 5, "==": 6, "!=": 6, "<": 7, ">": 7, "<=": 7, ">=": 7,
    "<<": 8, ">>": 8, "+": 9, "-": 9, "*": 10, "/": 10, "%": 10,
}  # fmt: skip
_CHOICE, _UNARY, _SINGLE = 0, 11, 12
_CLEAR = frozenset(("+", "-", "*", "/"))  # signs whose order everybody knows
_NO_NAMES: Mapping[str, str] = MappingProxyType({})
# The type of a number in an expression; conditions are int there.
TYPES = C_TYPES | {
    "bool": "int", "uint16": "unsigned short", "uint32": "unsigned int",
    "uint64": "unsigned long long",
}  # fmt: skip
_PARTS = {"re": "(__real__ {0})", "im": "(__imag__ {0})", "complex": "__builtin_complex({0}, {1})"}


def printed(tree: Expression, names: Mapping[str, str] = _NO_NAMES) -> str:
    """The C text of a tree. An operand without a name in `names` is spelled `{self}`."""
    return CSpelling(names).text(tree, _CHOICE)


def function_text(function: ElementFunction) -> str:
    """The C text of a function."""
    return CSpelling().function(function)


def called(function: ElementFunction) -> frozenset[str]:
    """The functions that the C text of a function calls."""
    parts = [part for tree in function.trees for part in tree.walk()]
    return function.calls | {
        intrinsic_name(part)
        for part in parts
        if isinstance(part, Intrinsic) and part.name not in _PARTS
    }


def intrinsic_name(tree: Intrinsic) -> str:
    """The function of an intrinsic: `ad_bitsf`."""
    return f"ad_{tree.name}{'f' if tree.dtype.itemsize == 4 else ''}"


class CSpelling:
    """How C spells trees; another target spells some of them in its own way."""

    types: Mapping[str, str] = TYPES

    def __init__(self, names: Mapping[str, str] = _NO_NAMES) -> None:
        self.names = names

    def text(self, tree: Expression, level: int = _CHOICE) -> str:
        """The text of a tree at a place for what binds at least as tightly as `level`."""
        return getattr(self, _WAYS[type(tree)])(tree, level)

    def head(self, function: ElementFunction) -> str:
        """The declaration of a function, without a semicolon."""
        given = ", ".join([f"{self.types[p.dtype.name]} {p.name}" for p in function.parameters])
        return f"{self.types[function.dtype.name]} {function.name}({given})"

    def function(self, function: ElementFunction) -> str:
        lines = [self.step(step) for step in function.steps]
        lines.append(f"  return {self.result(function.result, function)};")
        return "\n".join([f"{self.head(function)} {{", *lines, "}"])

    def step(self, step: Named | EarlyResult) -> str:
        value = self.text(step.value)
        if isinstance(step, EarlyResult):
            return f"  if ({self.text(step.condition)}) return {value};"
        return f"  const {self.types[step.variable.dtype.name]} {step.variable.name} = {value};"

    def result(self, tree: Expression, function: ElementFunction) -> str:
        return self.text(tree)

    def number(self, tree: Number, level: int) -> str:
        return literal(tree.value, TYPES[tree.dtype.name])

    def cast(self, tree: Cast, level: int) -> str:
        return f"(({self.types[tree.dtype.name]}){self.text(tree.operand, _UNARY)})"

    def intrinsic(self, tree: Intrinsic, level: int) -> str:
        given = [self.text(each, _CHOICE) for each in tree.arguments]
        if form := _PARTS.get(tree.name):
            return form.format(*given)
        return f"{intrinsic_name(tree)}({given[0]})"

    def variable(self, tree: Variable, level: int) -> str:
        return tree.name

    def operand(self, tree: Operand, level: int) -> str:
        return self.names.get(tree.name, f"{{{tree.name}}}")

    def call(self, tree: Call, level: int) -> str:
        return f"{tree.called}({', '.join([self.text(a, _CHOICE) for a in tree.arguments])})"

    def convert(self, tree: Convert, level: int) -> str:
        inner, source = self.text(tree.operand, _UNARY), tree.operand.dtype
        if tree.dtype is dtypes.bool_:
            return f"({inner} != 0)"
        if tree.called:
            inner = f"{tree.called}({self.text(tree.operand, _CHOICE)})"
        if source in HALVES or tree.dtype in HALVES:
            return inner
        if source is dtypes.bool_ and not tree.dtype.is_complex:
            # a cast would make vectors of bytes of what processors keep as masks
            kind = C_TYPES[tree.dtype.name]
            return f"({inner} ? {literal(1, kind)} : {literal(0, kind)})"
        return f"(({C_TYPES[tree.dtype.name]}){inner})"

    def unary(self, tree: Unary, level: int) -> str:
        sign, inner = tree.sign, self.text(tree.operand, _UNARY)
        spelled = f"{sign}({inner})" if inner.startswith(sign) else f"{sign}{inner}"
        return _within(spelled, _UNARY, level)

    def binary(self, tree: Binary, level: int) -> str:
        own = LEVELS[tree.sign]
        left, right = (
            self.side(tree.left, own, tree.sign),
            self.side(tree.right, own + 1, tree.sign),
        )
        return _within(f"{left} {tree.sign} {right}", own, level)

    def side(self, tree: Expression, level: int, around: str) -> str:
        """The text of one side of a sign; in brackets if not everybody knows what binds more."""
        if isinstance(tree, Binary) and not {tree.sign, around} <= _CLEAR:
            level = _SINGLE
        return self.text(tree, level)

    def choose(self, tree: Choose, level: int) -> str:
        condition, one = self.text(tree.condition, 1), self.text(tree.one, 1)
        spelled = f"{condition} ? {one} : {self.text(tree.other, _CHOICE)}"
        return _within(spelled, _CHOICE, level)


_WAYS: Mapping[type, str] = {
    Number: "number",
    Operand: "operand",
    Variable: "variable",
    Unary: "unary",
    Binary: "binary",
    Choose: "choose",
    Call: "call",
    Cast: "cast",
    Convert: "convert",
    Intrinsic: "intrinsic",
}


def _within(text: str, own: int, level: int) -> str:
    return text if own >= level else f"({text})"
