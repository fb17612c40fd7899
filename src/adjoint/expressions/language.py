"""The language of the column `c`: an element of the result as a C expression.

In `1 / (1 + exp@(-self))` the names of arguments are operands, converted to the type in which the
operator computes; `@` is the suffix of that type's functions and constants (`expf`, `0.5f`). There
are numbers, calls, C operators without side effects, and `a ? b : c`; no types, assignments or
addresses. So a user's text computes a number and does nothing else: `check` parses it completely,
and knows all functions that it calls. Our own rows may also name a function of `variants.py`, if
the text depends on arguments that are known beforehand.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import lru_cache

from adjoint.core.errors import TableError, did_you_mean
from adjoint.expressions import variants
from adjoint.expressions.c_numbers import COMPLEX, REAL
from adjoint.expressions.functions import FUNCTIONS, SCALARS, VECTORS, text_of
from adjoint.expressions.variants import Arguments
from adjoint.table import FAMILIES
from adjoint.table.rows import Row, is_reference

_WORD = re.compile(r"\b[A-Za-z_]\w*\b(?!@?\()")
_CALL = re.compile(r"(\w+)(?:{@})?\(")
FUNCTION = 20  # additions that a function call costs
_QUICK = frozenset((
    "fabs", "copysign", "rint", "ceil", "floor", "trunc", "fma", "ad_max", "ad_min", "ad_fmax",
    "ad_fmin", "ad_sign", "ad_bend", "ad_lerp", "ad_whole_int", "ad_whole_long", "__builtin_inf",
    "__builtin_nan",
))  # fmt: skip


def expression(row: Row, dtype: str, given: Arguments) -> str | None:
    """The C text of an operator for a dtype, or None: `{self}` is an operand, `{@}` the suffix."""
    text: str | None = row.c.get(_kind(dtype))
    if text is None:
        return None
    if (maker := _maker(text)) is not None:
        text = maker(given, dtype)
    return None if text is None else _template(text, row.schema.names)


def _kind(dtype: str) -> str:
    """The kind of numbers that a dtype has: "real", "whole", "complex" or "bool"."""
    if dtype in COMPLEX:
        return "complex"
    return "real" if dtype in REAL else "bool" if dtype == "bool" else "whole"


def _maker(text: str) -> Callable[[Arguments, str], str | None] | None:
    """The function of `variants` that a column names, or None."""
    return getattr(variants, text.partition(".")[2]) if text.startswith("variants.") else None


@lru_cache(4096)
def _template(text: str, names: tuple[str, ...]) -> str:
    marked = _WORD.sub(lambda word: f"{{{word[0]}}}" if word[0] in names else word[0], text)
    return marked.replace("@", "{@}")


@lru_cache(4096)
def weight(template: str) -> int:
    """The cost of an expression in additions: that of its most expensive function or quotient."""
    called = {*_CALL.findall(template)} - _QUICK
    if called - {"sqrt"} or "%" in template:
        return FUNCTION
    return 4 if called or "/" in template else 1


# -- what a text may say --------------------------------------------------------------------------


def check(row: Row) -> Iterator[str]:
    """The mistakes in the column `c` of a row, each with its place."""
    if row.c and not row.archetype.promotes and not _is_ours(row):
        yield f"{row.place('c')}: c is for operators that are like: pointwise"
    if row.c and (len(row.schema.returns) != 1 or row.schema.returns[0].type.is_list):
        yield f"{row.place('c')}: c is for operators with one result"
    for kind, text in row.c.items():
        if kind == "complex":
            if not _is_ours(row):
                yield f"{row.place('c')}: c: complex numbers have texts in our own rows alone"
                continue
            if not is_reference(text):
                continue
        if _is_ours(row) and is_reference(text):
            if not hasattr(variants, text.removeprefix("variants.")):
                yield f"{row.place('c').of(text)}: c: there is no {text!r}"
            continue
        try:
            _ElementParser(row, kind, text).whole()
        except TableError as error:
            yield str(error)


def _is_ours(row: Row) -> bool:
    return row.family in FAMILIES


_TOKEN = re.compile(
    r"\s*(?:(?P<number>(?:0|[1-9]\d{0,17})(?:\.\d+)?(?:e[+-]?\d{1,3})?(?![\w.]))"
    r"|(?P<name>[A-Za-z_]\w*)|(?P<sign>[<>=!]=|&&|\|\||[-+*/%<>&|^~!?:(),@]))"
)
_TWICE = re.compile(r"\+\+|--|//|/\*")  # C reads each of these as one token
_LEVELS = {
    "||": 1, "&&": 2, "|": 3, "^": 4, "&": 5, "==": 6, "!=": 6, "<": 7, ">": 7, "<=": 7, ">=": 7,
    "+": 8, "-": 8, "*": 9, "/": 9, "%": 9,
}  # fmt: skip
_BITS = frozenset(("&", "|", "^", "%", "~"))
_COMBINING = frozenset(("+", "-", "*", "/"))
_NUMBERS = frozenset(("Tensor", "Scalar", "float", "int", "bool"))
_LONGEST, _DEEPEST = 2000, 40
_COUNTS = {**VECTORS, **SCALARS, "__builtin_inf": 0}


class _ElementParser:
    """Checks one text; it knows for each part whether it is a real or a whole number."""

    def __init__(self, row: Row, kind: str, text: str) -> None:
        self.row, self.text = row, text
        self.is_real = kind == "real"
        self.depth = 0
        if len(text) > _LONGEST or not text.isascii():
            raise self.mistake(f"a text is ASCII and has at most {_LONGEST} characters")
        if odd := _TWICE.search(text):
            raise self.mistake(f"{odd[0]!r} is no sign here", odd[0])
        self.tokens = list(self.cut())
        self.place = 0

    def mistake(self, what: str, word: str = "") -> TableError:
        where = self.row.place("c")
        return TableError(f"{where.of(word) if word else where}: c: {what}: {self.text!r}")

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

    def whole(self) -> None:
        self.choice()
        if self.next:
            raise self.mistake(f"{self.next!r} is left over", self.next)

    def choice(self) -> bool:
        """Parse `a ? b : c` or a single value; return whether it is a real number."""
        self.depth += 1
        if self.depth > _DEEPEST:
            raise self.mistake("nested too deeply")
        real = self.binary(1)
        if self.next == "?":
            self.take()
            real = self.choice()
            self.take(":")
            real |= self.choice()
        self.depth -= 1
        return real

    def binary(self, level: int) -> bool:
        real = self.unary()
        while _LEVELS.get(self.next, 0) >= level:
            sign = self.take()
            other = self.binary(_LEVELS[sign] + 1)
            if sign in _BITS and (real or other):
                raise self.mistake(f"{sign!r} is for whole numbers and conditions", sign)
            if sign in "/%" and not (real or other) and not _is_ours(self.row):
                raise self.mistake(f"{sign!r} of whole numbers: a division by 0 ends the program")
            real = (real or other) and sign in _COMBINING
        return real

    def unary(self) -> bool:
        signs = []
        while self.next in ("-", "!", "~"):
            signs.append(self.take())
        real = self.operand(self.take())
        for sign in reversed(signs):
            if sign == "~" and real:
                raise self.mistake("'~' is for whole numbers", sign)
            real &= sign == "-"
        return real

    def operand(self, token: str) -> bool:
        if token == "(":
            real = self.choice()
            self.take(")")
            return real
        if token[0].isdigit():
            return self.number(token)
        if not (token[0].isalpha() or token[0] == "_"):
            raise self.mistake(f"{token!r} is no operand", token)
        return self.call(token) if self.next in ("(", "@") else self.argument(token)

    def number(self, token: str) -> bool:
        real = not token.isdigit()
        if self.next == "@":
            self.take()
            if not real:
                raise self.mistake(f"{token}@ needs a point: {token}.0@", token)
        if real and not self.is_real:
            raise self.mistake(f"{token} in a text for whole numbers", token)
        return real

    def argument(self, name: str) -> bool:
        known = [
            a.name
            for a in self.row.schema.arguments
            if a.type.base in _NUMBERS and not a.type.is_list
        ]
        if name not in known:
            hint = did_you_mean(name, known)
            raise self.mistake(f"{name!r} is no argument that is a number{hint}", name)
        return self.is_real

    def call(self, name: str) -> bool:
        typed = self.next == "@"
        if typed:
            self.take()
        count, real = _signature(name, typed=typed)
        if count is None:
            hint = did_you_mean(name, (*_COUNTS, *FUNCTIONS))
            raise self.mistake(f"there is no function {name}{'@' if typed else ''}(){hint}", name)
        if real != self.is_real:
            raise self.mistake(f"{name}() is for {'real' if real else 'whole'} numbers", name)
        self.take("(")
        given = 0
        while self.next != ")":
            if given:
                self.take(",")
            self.choice()
            given += 1
        self.take(")")
        if given != count:
            raise self.mistake(f"{name}() takes {count} arguments, got {given}", name)
        return real


def _signature(name: str, *, typed: bool) -> tuple[int | None, bool]:
    """(number of arguments, whether the function is for real numbers); (None, True) if it is
    unknown.

    With `typed` it must exist for both real types; `name` lacks the suffix.
    """
    if name in _COUNTS:
        return _COUNTS[name], True
    text = "" if name.endswith("_bits") else text_of(name)
    if not text or (typed and f"{name}f" not in FUNCTIONS):
        return None, True
    result, _, given = text.partition(")")[0].partition("(")
    types = {word.split()[0] for word in given.split(",")}
    if name not in FUNCTIONS and (types != {"double"} or not result.startswith("double ")):
        return None, True  # users cannot call functions with numbers of terms or tables
    return given.count(",") + 1, not text.startswith("long long")
