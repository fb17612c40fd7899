"""Functions of elements, written in the language of elements: `function_texts/*.txt`.

    # NaN wins, as in NumPy
    ad_max@(a, b):
      let larger = a > b ? a : b
      a != a ? a : larger

A function with `@` behind its name is written for both real types, and `@` marks numbers, constants
and functions of that type; without it a function computes in float64, or in float32 if it says
`in float`. Parameters and results are real if nothing else is said: `ad_conj@(complex z) ->
complex:`. Its steps are

- `let name = value`: a name for a value, which may hide an earlier one;
- `repeat k from 1 to 6:` and steps that are indented, once for each whole number k;
- `if condition: value`: that is the result then, and what follows is not computed. A choice
  `a ? b : c` on the other hand may compute both sides, and vectors do;

and the last line is the result. `for n from 1 to 8` behind a name makes a function for each n, with
`{n}` and `{n+1}` in its text. Capitals are constants of `coefficients.py`. `horner(x, C)` is
Σ Cₖ xᵏ, `halves(x, s, C)` the same with s = x² by two independent sums, `power(x, 3)` is
x * x * x. `bits(x)` is the whole number with the bits of x, `from_bits` its inverse, `word@(n)` a
whole number of that size; `int`, `long`, `float` and `double` convert as C does; `re`, `im` and
`complex` take complex numbers apart and make them.
"""

from __future__ import annotations

import glob
import math
import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache, lru_cache
from typing import Any

from adjoint.core import dtypes
from adjoint.core.dtypes import DType
from adjoint.core.errors import TableError
from adjoint.core.promotion import element
from adjoint.core.records import record
from adjoint.expressions import coefficients, special_functions
from adjoint.expressions.grammar import NAME, NUMBER, Grammar
from adjoint.expressions.trees import (
    Binary,
    Call,
    Cast,
    EarlyResult,
    ElementFunction,
    Expression,
    Intrinsic,
    Named,
    Number,
    Variable,
    common,
)
from adjoint.table.formula import Location

# Every target has these. The numbers are numbers of arguments; C compilers have vector versions of
# the first ones.
VECTORS = dict.fromkeys(
    (
        "exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sin", "cos", "tan", "asin",
        "acos", "atan", "sinh", "cosh", "tanh", "asinh", "acosh", "atanh", "erf", "erfc",
    ),
    1,
) | {"pow": 2, "atan2": 2, "hypot": 2}  # fmt: skip
SCALARS = {
    "sqrt": 1, "ceil": 1, "floor": 1, "trunc": 1, "rint": 1, "fabs": 1, "copysign": 2, "fma": 3,
    "fmod": 2, "nextafter": 2,
}  # fmt: skip
_COUNTS = VECTORS | SCALARS | {"lgamma": 1}

_HEAD = re.compile(
    r"^(ad_\w+?(?:\{n\})?)(@?)\((.*?)\)(?: -> (\w+))?(?: in (float))?"
    r"(?: for n (from \d+ to \d+|in [\d, ]+))?:$"
)
_HOLE = re.compile(r"\{n([+-]\d+)?\}")
_REAL = {"": dtypes.float64, "f": dtypes.float32}
_TYPES = {
    "bool": dtypes.bool_, "int": dtypes.int32, "long": dtypes.int64, "double": dtypes.float64,
    "float": dtypes.float32, "unsigned": dtypes.uint32, "half": dtypes.uint16,
}  # fmt: skip
_WORDS = {"": dtypes.uint64, "f": dtypes.uint32}  # whole numbers as large as a real number
# Names that mean something in C, C++, CUDA or OpenCL C.
_RESERVED = frozenset((
    "auto", "bool", "break", "case", "char", "class", "complex", "const", "constant", "default",
    "delete", "double", "else", "enum", "extern", "float", "for", "friend", "generic", "global",
    "goto", "half", "if", "image", "inline", "int", "kernel", "local", "long", "new", "operator",
    "pipe", "private", "public", "real", "register", "restrict", "return", "sampler", "short",
    "signed", "sizeof", "static", "struct", "switch", "template", "this", "typedef", "union",
    "unsigned", "using", "virtual", "void", "volatile", "while",
))  # fmt: skip


@record
class _Text:
    """The text of a function, for one of both real types."""

    name: str  # "ad_maxf"
    suffix: str  # of what `@` marks: "f"
    head: tuple[str, str]  # parameters and type of the result: ("a, b", "")
    body: tuple[tuple[int, str], ...]  # its lines, each with its number in the file
    where: Location


@record
class _Statement:
    """A statement of a function, perhaps of several lines."""

    depth: int  # of its indentation
    line: int  # in the file
    text: str


def find(name: str) -> ElementFunction | None:
    """The function with a name as in C: `ad_maxf` for float32."""
    text = _texts().get(name)
    return None if text is None else parsed(text)


@lru_cache(None)
def parsed(text: _Text) -> ElementFunction:
    """The function that a text defines."""
    return _FunctionParser(text).function()


def names() -> frozenset[str]:
    """The names of all functions."""
    return frozenset(_texts())


@cache
def _texts() -> dict[str, _Text]:
    found: dict[str, _Text] = {}
    folder = os.path.join(os.path.dirname(__file__), "function_texts")
    for path in sorted(glob.glob(os.path.join(folder, "*.txt"))):
        with open(path, encoding="utf-8") as file:
            for text in read(file.read().splitlines(), path):
                if text.name in found:
                    raise TableError(f"{text.where}: there is another {text.name}")
                found[text.name] = text
    return found


def read(lines: list[str], path: str) -> Iterator[_Text]:
    """The texts in a file: a line that is not indented begins one."""
    starts = [k for k, line in enumerate(lines) if line and line[0] not in " #"]
    for start, end in zip(starts, [*starts[1:], len(lines)], strict=True):
        where = Location(path, start + 1)
        head = _HEAD.match(lines[start])
        if head is None:
            raise TableError(f"{where}: this begins no function: {lines[start]!r}")
        own = [(k + 1, lines[k]) for k in range(start + 1, end) if lines[k].startswith(" ")]
        for n in _numbers(head[6]):
            yield from _of_both_types(head, own, n, where)


def _numbers(text: str | None) -> list[int | None]:
    """The numbers of a list `in 1, 3` or of a range `from 1 to 8`."""
    if text is None:
        return [None]
    way, _, listed = text.partition(" ")
    if way == "in":
        return [*map(int, listed.split(","))]
    first, _, last = listed.partition(" to ")
    return [*range(int(first), int(last) + 1)]


def _of_both_types(
    head: re.Match[str], lines: list[tuple[int, str]], n: int | None, where: Location
) -> Iterator[_Text]:
    def number(hole: re.Match[str]) -> str:
        return str((n or 0) + int(hole[1] or 0))

    def filled(text: str) -> str:
        return _HOLE.sub(number, text)

    body = tuple((number, filled(line)) for number, line in lines)
    for suffix in ("", "f") if head[2] else ("f" if head[5] else "",):
        name = filled(head[1]) + (suffix if head[2] else "")
        yield _Text(name, suffix, (head[3], head[4] or ""), body, where)


class _FunctionParser(Grammar):
    """Parses the text of a function."""

    token = re.compile(
        rf"\s*(?:(?P<hex>0x[0-9a-f]+)|{NUMBER}|{NAME}"
        r"|(?P<sign>[<>=!]=|&&|\|\||<<|>>|[-+*/%<>&|^~!?:(),@=\[\]]))"
    )
    what = "function"
    deepest = 100

    def __init__(self, text: _Text) -> None:
        self.name, self.suffix = text.name, text.suffix
        self.real, self.head = _REAL[text.suffix], text.head
        self.scope: dict[str, Expression] = {}
        self.steps: list[Named | EarlyResult] = []
        self.used: dict[str, int] = {}  # how often a name was given
        self.result: Expression | None = None
        self.lines = text.body
        super().__init__("", text.where)

    def function(self) -> ElementFunction:
        parameters = []
        for given in self.head[0].split(", "):
            kind, _, name = given.rpartition(" ")
            parameters.append(self.named(name, _typed(kind, self.real)))
        self.block(_statements(self.lines))
        if self.result is None:
            raise self.mistake(f"{self.name} has no result")
        dtype = _typed(self.head[1], self.real)
        steps = _used(self.steps, self.result)
        return ElementFunction(self.name, tuple(parameters), steps, self.result, dtype)

    def named(self, name: str, dtype: DType) -> Variable:
        """A new variable; a name that was given before hides the earlier variable."""
        if name in _RESERVED:
            raise self.mistake(f"{name!r} means something in other languages", name)
        count = self.used[name] = self.used.get(name, 0) + 1
        found = Variable(name if count == 1 else f"{name}_{count}", dtype)
        self.scope[name] = found
        return found

    # -- statements -------------------------------------------------------------------------------

    def block(self, statements: list[_Statement]) -> None:
        while statements:
            own, inner = statements.pop(0), list[_Statement]()
            while statements and statements[0].depth > own.depth:
                inner.append(statements.pop(0))
            self.text, self.place = own.text, 0
            self.where = Location(self.where.path, own.line)
            self.tokens = list(self.cut())
            self.statement(inner)

    def statement(self, inner: list[_Statement]) -> None:
        if self.result is not None:
            raise self.mistake("this stands behind the result")
        if self.took("let"):
            self.lets()
        elif self.took("repeat"):
            self.repeated(inner)
        elif self.took("if"):
            condition = self.choice()
            self.take(":")
            self.steps.append(EarlyResult(condition, self.whole()))
        else:
            self.result = self.whole()

    def lets(self) -> None:
        while True:
            name = self.take()
            self.take("=")
            value = self.choice()
            self.steps.append(Named(self.named(name, value.dtype), value))
            if not self.took(","):
                break
        if self.next:
            raise self.mistake(f"{self.next!r} is left over", self.next)

    def repeated(self, inner: list[_Statement]) -> None:
        name = self.take()
        self.take("from")
        first = int(self.take())
        self.take("to")
        sign = -1 if self.took("-") else 1
        last = sign * int(self.take())
        for k in range(first, last + 1):
            self.scope[name] = Number(k, dtypes.int32)
            self.block([*inner])

    # -- operands ---------------------------------------------------------------------------------

    def number(self, token: str) -> Expression:
        typed = self.took("@")
        if token.startswith("0x"):
            value = int(token, 16)
            return Number(value, dtypes.uint64 if value >> 32 else dtypes.uint32)
        if token.isdigit():
            return Number(int(token), dtypes.int32)
        return _real(float(token), self.real if typed else dtypes.float64)

    def operand(self, token: str) -> Expression:
        return self.coefficient(token) if token.isupper() else super().operand(token)

    def argument(self, name: str) -> Expression:
        if name not in self.scope:
            raise self.mistake(f"there is no {name!r} here", name)
        return self.scope[name]

    def coefficient(self, name: str) -> Number:
        value, dtype = self.constant(name)
        return Number(value, dtypes.int32) if isinstance(value, int) else _real(value, dtype)

    def constant(self, name: str) -> tuple[Any, DType]:
        """A constant or a list of `coefficients.py`, and the dtype of its numbers."""
        found, typed = getattr(coefficients, name, None), self.took("@")
        if found is None:
            raise self.mistake(f"there is no constant {name}", name)
        if isinstance(found, dict):
            found = found[self.suffix if typed else ""]
        while self.took("["):
            found = found[int(self.take())]
            self.take("]")
        return found, self.real if typed or self.took("@") else dtypes.float64

    def call(self, name: str) -> Expression:
        typed = self.took("@")
        if name in ("horner", "halves"):
            return self.polynomial(name)
        given = self.arguments()
        if name in _SPECIAL:
            return _SPECIAL[name](self, *given)
        real = self.real if typed else dtypes.float64
        if name in ("inf", "nan"):
            return Number(math.inf if name == "inf" else math.nan, real)
        if (count := _COUNTS.get(name)) is None:
            text = _texts().get(name + self.suffix if typed else name)
            if text is None:
                return self.of_c(name, given)
            count, real = text.head[0].count(",") + 1, _typed(text.head[1], _REAL[text.suffix])
        if len(given) != count:
            raise self.mistake(f"{name}() takes {count} arguments, got {len(given)}", name)
        return Call(name, tuple(given), real)

    def of_c(self, name: str, given: list[Expression]) -> Expression:
        """A call of a function with loops, which is written in C."""
        if name not in special_functions.called():
            raise self.mistake(f"there is no function {name}()", name)
        return Call(name, tuple(given), dtypes.float64)

    def polynomial(self, name: str) -> Expression:
        """`horner(x, C)` or `halves(x, s, C)`"""
        self.take("(")
        x = square = self.choice()
        self.take(",")
        if name == "halves":
            square = self.choice()
            self.take(",")
        numbers, dtype = self.constant(self.take())
        self.take(")")
        terms = [_real(c, dtype) for c in numbers]
        if name == "horner":
            return _horner(terms, lambda total, c: Binary("+", Binary("*", total, x), c))

        def step(total: Expression, c: Expression) -> Expression:
            return Call("ad_times_plus", (total, square, c), dtype)

        even, odd = _horner(terms[::2], step), _horner(terms[1::2], step)
        return Call("ad_times_plus", (x, odd, even), dtype)


def _used(
    steps: Sequence[Named | EarlyResult], result: Expression
) -> tuple[Named | EarlyResult, ...]:
    """The steps without names that nothing uses."""
    used, kept = {*result.variables}, list[Named | EarlyResult]()
    for step in reversed(steps):
        if isinstance(step, EarlyResult):
            used.update(step.condition.variables)
        elif step.variable not in used:
            continue
        used.update(step.value.variables)
        kept.append(step)
    return tuple(kept[::-1])


def _typed(kind: str, real: DType) -> DType:
    """The dtype that the name of a type means; "" is a real number."""
    if kind == "complex":
        return real.to_complex()
    return _TYPES[kind] if kind else real


def _statements(lines: Iterable[tuple[int, str]]) -> list[_Statement]:
    """The statements of some lines; a line that is indented by four more goes on."""
    found: list[_Statement] = []
    for number, line in lines:
        text = line.strip()
        depth = len(line) - len(text)
        if found and depth >= found[-1].depth + 4:
            last = found[-1]
            found[-1] = _Statement(last.depth, last.line, f"{last.text} {text}")
        else:
            found.append(_Statement(depth, number, text.removesuffix(":")))
    return found


def _horner(
    terms: Sequence[Expression], step: Callable[[Expression, Expression], Expression]
) -> Expression:
    total = terms[-1]
    for c in terms[-2::-1]:
        total = step(total, c)
    return total


def _real(value: float, dtype: DType) -> Number:
    return Number(element(value, dtype), dtype)


def _power(parser: _FunctionParser, x: Expression, n: Expression) -> Expression:
    if not isinstance(n, Number):
        raise parser.mistake("power() takes a whole number")
    total = x
    for _ in range(n.value - 1):
        total = Binary("*", total, x)
    return total


def _bits(parser: _FunctionParser, x: Expression) -> Expression:
    wide = common(x.dtype) is dtypes.float64
    return Intrinsic("bits", (x,), dtypes.uint64 if wide else dtypes.uint32)


def _from_bits(parser: _FunctionParser, x: Expression) -> Expression:
    wide = common(x.dtype) is dtypes.uint64
    return Intrinsic("from_bits", (x,), dtypes.float64 if wide else dtypes.float32)


def _complex(parser: _FunctionParser, x: Expression, y: Expression) -> Expression:
    parts = [p if p.dtype is parser.real else Cast(p, parser.real) for p in (x, y)]
    return Intrinsic("complex", tuple(parts), parser.real.to_complex())


def _part(name: str) -> Callable[..., Expression]:
    return lambda parser, z: Intrinsic(name, (z,), z.dtype.to_real())


def _cast(kind: str) -> Callable[..., Expression]:
    return lambda parser, x: Cast(x, _TYPES[kind])


_SPECIAL: dict[str, Callable[..., Expression]] = {
    "power": _power,
    "bits": _bits,
    "from_bits": _from_bits,
    "word": lambda parser, x: Cast(x, _WORDS[parser.suffix]),
    "complex": _complex,
    "re": _part("re"),
    "im": _part("im"),
    **{kind: _cast(kind) for kind in ("int", "long", "float", "double", "unsigned", "half")},
}
