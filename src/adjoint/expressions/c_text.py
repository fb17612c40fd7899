"""How trees are spelled in C."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from adjoint.core import dtypes
from adjoint.core.c_types import C_TYPES
from adjoint.core.dtypes import HALVES
from adjoint.expressions.c_numbers import literal
from adjoint.expressions.trees import (
    Binary,
    Call,
    Choose,
    Convert,
    Expression,
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


def printed(tree: Expression, names: Mapping[str, str] = _NO_NAMES) -> str:
    """The C text of a tree. An operand without a name in `names` is spelled `{self}`."""
    return _Spelling(names).text(tree, _CHOICE)


class _Spelling:
    def __init__(self, names: Mapping[str, str]) -> None:
        self.names = names

    def text(self, tree: Expression, level: int) -> str:
        """The text of a tree at a place for what binds at least as tightly as `level`."""
        return _WAYS[type(tree)](self, tree, level)

    def number(self, tree: Number, level: int) -> str:
        return literal(tree.value, C_TYPES[tree.dtype.name])

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


_WAYS: Mapping[type, Callable[[_Spelling, Any, int], str]] = {
    Number: _Spelling.number,
    Operand: _Spelling.operand,
    Variable: _Spelling.variable,
    Unary: _Spelling.unary,
    Binary: _Spelling.binary,
    Choose: _Spelling.choose,
    Call: _Spelling.call,
    Convert: _Spelling.convert,
}


def _within(text: str, own: int, level: int) -> str:
    return text if own >= level else f"({text})"
