"""The language of elements: text to trees.

In `1 / (1 + exp@(-self))` the names of arguments are operands, and `@` marks functions and numbers
of the dtype in which the operator computes; without it a function computes in float64. There are
numbers, calls, C's signs without side effects, and `a ? b : c`; no types, assignments or addresses.
So a text from outside computes a number and does nothing else: it is parsed completely, and all
functions that it calls are known.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from functools import lru_cache

from adjoint.core import dtypes
from adjoint.core.dtypes import DType
from adjoint.core.errors import did_you_mean
from adjoint.expressions import definitions, special_functions
from adjoint.expressions.definitions import SCALARS, VECTORS
from adjoint.expressions.grammar import Grammar
from adjoint.expressions.trees import Call, Expression, Number, Operand, Unary
from adjoint.table.formula import Location

_TWICE = re.compile(r"\+\+|--|//|/\*")  # C reads each of these as one token
_BITS = frozenset(("&", "|", "^", "%", "~", "<<", ">>"))
_OF_OURS = frozenset(("/", "%", "<<", ">>"))  # of whole numbers: C leaves some cases undefined
_LONGEST = 2000
_CONSTANTS = {"inf": math.inf, "nan": math.nan}
_COUNTS = {**VECTORS, **SCALARS, **dict.fromkeys(_CONSTANTS, 0)}
_RESULTS = {"double": dtypes.float64, "i64": dtypes.int64}


@lru_cache(1 << 12)
def known(text: str, operands: tuple[tuple[str, DType], ...], dtype: DType) -> Expression:
    """The tree of a text that has been checked."""
    return parse(text, dict(operands), dtype, Location("", 0), ours=True)


def parse(
    text: str, operands: Mapping[str, DType], dtype: DType, where: Location, *, ours: bool
) -> Expression:
    """The tree of a text in a table file; `dtype` is that in which it computes.

    Texts of `ours` may say more: divisions and shifts of whole numbers, and functions with numbers
    of terms.
    """
    return _ElementParser(text, operands, dtype, where, ours=ours).whole()


class _ElementParser(Grammar):
    """Parses one text."""

    def __init__(
        self,
        text: str,
        operands: Mapping[str, DType],
        dtype: DType,
        where: Location,
        *,
        ours: bool,
    ) -> None:
        self.operands, self.dtype, self.ours = operands, dtype, ours
        super().__init__(text, where)

    def check_text(self) -> None:
        if len(self.text) > _LONGEST or not self.text.isascii():
            raise self.mistake(f"a text is ASCII and has at most {_LONGEST} characters")
        if odd := _TWICE.search(self.text):
            raise self.mistake(f"{odd[0]!r} is no sign here", odd[0])

    def check_sign(self, sign: str, left: Expression, right: Expression) -> None:
        is_real = left.dtype.is_differentiable or right.dtype.is_differentiable
        if sign in _BITS and is_real:
            raise self.mistake(f"{sign!r} is for whole numbers and conditions", sign)
        if sign in _OF_OURS and not is_real and not self.ours:
            raise self.mistake(f"{sign!r} of whole numbers: a division by 0 ends the program")

    def signed(self, sign: str, operand: Expression) -> Expression:
        if sign == "~" and operand.dtype.is_differentiable:
            raise self.mistake("'~' is for whole numbers", sign)
        return Unary(sign, operand)

    def number(self, token: str) -> Number:
        typed = self.took("@")
        if token.isdigit():
            if typed:
                raise self.mistake(f"{token}@ needs a point: {token}.0@", token)
            return Number(int(token), dtypes.int32 if int(token) < 1 << 31 else dtypes.int64)
        if not self.dtype.is_differentiable:
            raise self.mistake(f"{token} in a text for whole numbers", token)
        return Number(float(token), self.dtype.to_real() if typed else dtypes.float64)

    def argument(self, name: str) -> Operand:
        if name not in self.operands:
            hint = did_you_mean(name, [*self.operands])
            raise self.mistake(f"{name!r} is no argument that is a number{hint}", name)
        return Operand(name, self.operands[name])

    def call(self, name: str) -> Expression:
        typed = self.took("@")
        count, result = self.signature(name, typed=typed)
        if count is None:
            hint = did_you_mean(name, (*_COUNTS, *definitions.names()))
            raise self.mistake(f"there is no function {name}{'@' if typed else ''}(){hint}", name)
        if result.is_differentiable != self.dtype.is_differentiable:
            kind = "real" if result.is_differentiable else "whole"
            raise self.mistake(f"{name}() is for {kind} numbers", name)
        given = self.arguments()
        if len(given) != count:
            raise self.mistake(f"{name}() takes {count} arguments, got {len(given)}", name)
        if typed and self.dtype.to_real() is dtypes.float32:
            result = dtypes.complex64 if result.is_complex else dtypes.float32
        return (
            Number(_CONSTANTS[name], result)
            if name in _CONSTANTS
            else Call(name, tuple(given), result)
        )

    def signature(self, name: str, *, typed: bool) -> tuple[int | None, DType]:
        """(number of arguments, dtype of the result in float64); (None, float64) of an unknown one.

        With `typed` the function must exist for both real types; `name` lacks the suffix.
        """
        if name in _COUNTS:
            return _COUNTS[name], dtypes.float64
        found = definitions.find(name)
        if found is None:
            return (None, dtypes.float64) if typed else _of_c(name, ours=self.ours)
        if typed and definitions.find(f"{name}f") is None:
            return None, dtypes.float64
        return len(found.parameters), found.dtype


def _of_c(name: str, *, ours: bool) -> tuple[int | None, DType]:
    """The signature of a function with loops; those with numbers of terms or tables are ours."""
    head, _, given = special_functions.called().get(name, "").partition(")")[0].partition("(")
    dtype = _RESULTS.get(head.removeprefix("inline ").rpartition(" ")[0])
    plain = dtype is dtypes.float64 and {word.split()[0] for word in given.split(",")} == {"double"}
    return (given.count(",") + 1, dtype) if dtype and (ours or plain) else (None, dtypes.float64)
