"""How trees are spelled in C."""

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
        match tree:
            case Number(value, dtype):
                return literal(value, C_TYPES[dtype.name])
            case Variable(name):
                return name
            case Operand(name):
                return self.names.get(name, f"{{{name}}}")
            case Call(_, arguments):
                return f"{tree.called}({', '.join(self.text(a, _CHOICE) for a in arguments)})"
            case Convert():
                return self.converted(tree)
            case Unary(sign, operand):
                inner = self.text(operand, _UNARY)
                spelled = f"{sign}({inner})" if inner.startswith(sign) else f"{sign}{inner}"
                return _within(spelled, _UNARY, level)
            case Binary(sign, left, right):
                own = LEVELS[sign]
                sides = self.side(left, own, sign), self.side(right, own + 1, sign)
                return _within(f"{sides[0]} {sign} {sides[1]}", own, level)
            case Choose(condition, one, other):
                first, *rest = self.text(condition, 1), *(self.text(p, 0) for p in (one, other))
                return _within(f"{first} ? {rest[0]} : {rest[1]}", _CHOICE, level)
            case _:
                raise AssertionError(f"{tree} has no C text")

    def side(self, tree: Expression, level: int, around: str) -> str:
        """The text of one side of a sign; in brackets if not everybody knows what binds more."""
        clear = not isinstance(tree, Binary) or {tree.sign, around} <= _CLEAR
        return self.text(tree, level if clear else _SINGLE)

    def converted(self, tree: Convert) -> str:
        inner, source = self.text(tree.operand, _UNARY), tree.operand.dtype
        if tree.dtype is dtypes.bool_:
            return f"({inner} != 0)"
        if tree.called:
            inner = f"{tree.called}({self.text(tree.operand, _CHOICE)})"
        if not {source, tree.dtype}.isdisjoint(HALVES):
            return inner
        return f"(({C_TYPES[tree.dtype.name]}){inner})"


def _within(text: str, own: int, level: int) -> str:
    return text if own >= level else f"({text})"
