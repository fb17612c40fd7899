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
from collections.abc import Iterator, Mapping
from functools import lru_cache

from adjoint.core import dtypes
from adjoint.core.dtypes import DType
from adjoint.core.errors import TableError, did_you_mean
from adjoint.expressions.c_text import LEVELS
from adjoint.expressions.functions import FUNCTIONS, SCALARS, VECTORS, text_of
from adjoint.expressions.trees import (
    Binary,
    Call,
    Choose,
    Expression,
    Number,
    Operand,
    Unary,
)
from adjoint.table.formula import Location

_TOKEN = re.compile(
    r"\s*(?:(?P<number>(?:0|[1-9]\d{0,17})(?:\.\d+)?(?:e[+-]?\d{1,3})?(?![\w.]))"
    r"|(?P<name>[A-Za-z_]\w*)|(?P<sign>[<>=!]=|&&|\|\||<<|>>|[-+*/%<>&|^~!?:(),@]))"
)
_TWICE = re.compile(r"\+\+|--|//|/\*")  # C reads each of these as one token
_BITS = frozenset(("&", "|", "^", "%", "~", "<<", ">>"))
_OF_OURS = frozenset(("/", "%", "<<", ">>"))  # of whole numbers: C leaves some cases undefined
_LONGEST, _DEEPEST = 2000, 40
_CONSTANTS = {"inf": math.inf, "nan": math.nan, "__builtin_inf": math.inf}
_COUNTS = {**VECTORS, **SCALARS, **dict.fromkeys(_CONSTANTS, 0)}
_RESULTS = {
    "double": dtypes.float64,
    "double _Complex": dtypes.complex128,
    "long long": dtypes.int64,
}


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


class _ElementParser:
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
        self.text, self.operands, self.dtype = text, operands, dtype
        self.where, self.ours = where, ours
        self.depth = 0
        if len(text) > _LONGEST or not text.isascii():
            raise self.mistake(f"a text is ASCII and has at most {_LONGEST} characters")
        if odd := _TWICE.search(text):
            raise self.mistake(f"{odd[0]!r} is no sign here", odd[0])
        self.tokens = list(self.cut())
        self.place = 0

    def mistake(self, what: str, word: str = "") -> TableError:
        where = self.where.of(word) if word else self.where
        return TableError(f"{where}: element: {what}: {self.text!r}")

    def cut(self) -> Iterator[str]:
        place, end = 0, len(self.text.rstrip())
        while place < end:
            found = _TOKEN.match(self.text, place)
            if found is None:
                rest = self.text[place:].split()[0]
                raise self.mistake(f"{rest[:20]!r} is nothing that may stand here", rest)
            yield found[0].strip()
            place = found.end()

    @property
    def next(self) -> str:
        return self.tokens[self.place] if self.place < len(self.tokens) else ""

    def take(self, wanted: str = "") -> str:
        token = self.next
        if not token or (wanted and token != wanted):
            raise self.mistake(
                f"{wanted or 'an operand'!r} is missing before {token or 'the end'!r}"
            )
        self.place += 1
        return token

    def whole(self) -> Expression:
        found = self.choice()
        if self.next:
            raise self.mistake(f"{self.next!r} is left over", self.next)
        return found

    def choice(self) -> Expression:
        """Parse `a ? b : c` or a single value."""
        self.depth += 1
        if self.depth > _DEEPEST:
            raise self.mistake("nested too deeply")
        found = self.binary(1)
        if self.next == "?":
            self.take()
            one = self.choice()
            self.take(":")
            found = Choose(found, one, self.choice())
        self.depth -= 1
        return found

    def binary(self, level: int) -> Expression:
        left = self.unary()
        while LEVELS.get(self.next, 0) >= level:
            sign = self.take()
            right = self.binary(LEVELS[sign] + 1)
            self.check(sign, left, right)
            left = Binary(sign, left, right)
        return left

    def check(self, sign: str, left: Expression, right: Expression) -> None:
        is_real = left.dtype.is_differentiable or right.dtype.is_differentiable
        if sign in _BITS and is_real:
            raise self.mistake(f"{sign!r} is for whole numbers and conditions", sign)
        if sign in _OF_OURS and not is_real and not self.ours:
            raise self.mistake(f"{sign!r} of whole numbers: a division by 0 ends the program")

    def unary(self) -> Expression:
        signs = []
        while self.next in ("-", "!", "~"):
            signs.append(self.take())
        found = self.operand(self.take())
        for sign in reversed(signs):
            if sign == "~" and found.dtype.is_differentiable:
                raise self.mistake("'~' is for whole numbers", sign)
            found = Unary(sign, found)
        return found

    def operand(self, token: str) -> Expression:
        if token == "(":
            found = self.choice()
            self.take(")")
            return found
        if token[0].isdigit():
            return self.number(token)
        if not (token[0].isalpha() or token[0] == "_"):
            raise self.mistake(f"{token!r} is no operand", token)
        return self.call(token) if self.next in ("(", "@") else self.argument(token)

    def number(self, token: str) -> Number:
        typed = self.next == "@"
        if typed:
            self.take()
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
        typed = self.next == "@"
        if typed:
            self.take()
        count, result = self.signature(name, typed=typed)
        if count is None:
            hint = did_you_mean(name, (*_COUNTS, *FUNCTIONS))
            raise self.mistake(f"there is no function {name}{'@' if typed else ''}(){hint}", name)
        if result.is_differentiable != self.dtype.is_differentiable:
            kind = "real" if result.is_differentiable else "whole"
            raise self.mistake(f"{name}() is for {kind} numbers", name)
        self.take("(")
        given: list[Expression] = []
        while self.next != ")":
            if given:
                self.take(",")
            given.append(self.choice())
        self.take(")")
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
        text = "" if name.endswith("_bits") else text_of(name)
        if not text or (typed and f"{name}f" not in FUNCTIONS):
            return None, dtypes.float64
        head, _, given = text.partition(")")[0].partition("(")
        dtype = _RESULTS.get(head.removeprefix("inline ").rpartition(" ")[0])
        types = {word.split()[0] for word in given.split(",")}
        plain = name in FUNCTIONS or (types == {"double"} and dtype is dtypes.float64)
        if dtype is None or not (plain or self.ours):
            return None, dtypes.float64  # functions with numbers of terms or tables are ours
        return given.count(",") + 1, dtype
