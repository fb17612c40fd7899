"""C text to trees: one function or one table, in the part of C that special functions need.

There are whole and real numbers, arrays, pointers to one number, `if`, `for`, `while`, `return`,
`break`, `continue`, and expressions whose only effects are assignments that are statements.
"""

from __future__ import annotations

import re
from typing import Any

from adjoint.kernels.from_c.tree import (
    CAssign,
    CBinary,
    CBreak,
    CCall,
    CCast,
    CChoice,
    CContinue,
    CDeclare,
    CDo,
    CFor,
    CFunction,
    CIf,
    CIndex,
    CName,
    CNumber,
    CParameter,
    CReturn,
    CTable,
    CUnary,
)

_COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)
_TOKEN = re.compile(
    r"\s*(?:(0x[0-9a-fA-F]+p[+-]?\d+|(?:\d+\.\d*|\.?\d+)(?:e[+-]?\d+)?)|([A-Za-z_]\w*)"
    r'|("[^"]*"|\+\+|--|&&|\|\||<<=|>>=|<<|>>|[-+*/%|<>=!]=|[-+*/%<>=!~&|?:;,(){}\[\]]))'
)
_LEVELS = {
    "||": 1, "&&": 2, "|": 3, "&": 5, "==": 6, "!=": 6, "<": 7, ">": 7, "<=": 7, ">=": 7,
    "<<": 8, ">>": 8, "+": 9, "-": 9, "*": 10, "/": 10, "%": 10,
}  # fmt: skip
_ASSIGNING = frozenset(("=", "+=", "-=", "*=", "/=", "%=", "|=", "<<=", ">>="))
_KINDS = frozenset(("double", "int"))


def read(text: str) -> CFunction | CTable:
    """The tree of a function or of a table.

    >>> read("double twice(double x) { return 2 * x; }").name
    'twice'
    """
    reader = _CReader(_tokens(text))
    return reader.table() if text.startswith("const ") else reader.function()


def _tokens(text: str) -> list[str]:
    text = _COMMENT.sub(" ", text).rstrip()
    found: list[str] = []
    place = 0
    while place < len(text):
        match = _TOKEN.match(text, place)
        if match is None:
            raise SyntaxError(f"no C of special functions: {text[place : place + 40]!r}")
        found.append(match[0].strip())
        place = match.end()
    return found


class _CReader:
    def __init__(self, tokens: list[str]) -> None:
        self.tokens, self.place = tokens, 0

    def next(self, ahead: int = 0) -> str:
        place = self.place + ahead
        return self.tokens[place] if place < len(self.tokens) else ""

    def take(self, wanted: str = "") -> str:
        token = self.next()
        if wanted and token != wanted:
            around = " ".join(self.tokens[max(self.place - 12, 0) : self.place + 3])
            raise SyntaxError(f"{wanted!r} is missing in C text: … {around} …")
        self.place += 1
        return token

    def passed(self, token: str) -> bool:
        """Whether a token comes next; it is taken then."""
        if self.next() != token:
            return False
        self.place += 1
        return True

    # -- functions and tables ----------------------------------------------------------------

    def table(self) -> CTable:
        for word in ("const", "double"):
            self.take(word)
        name = self.take()
        while self.passed("["):
            self.expression()
            self.take("]")
        self.take("=")
        return CTable(name, self.numbers())

    def numbers(self) -> Any:
        if not self.passed("{"):
            negative = self.passed("-")
            value = float(_number(self.take()))
            return -value if negative else value
        found: list[Any] = []
        while not self.passed("}"):
            found.append(self.numbers())
            self.passed(",")
        return found

    def function(self) -> CFunction:
        self.passed("inline")
        kind, name = self.take(), self.take()
        self.take("(")
        parameters: list[CParameter] = []
        while not self.passed(")"):
            parameters.append(self.parameter())
            self.passed(",")
        return CFunction(name, kind, tuple(parameters), self.block())

    def parameter(self) -> CParameter:
        self.passed("const")
        kind = self.take()
        rank = int(self.passed("*"))
        name = self.take()
        while self.passed("["):
            rank += 1
            if self.next() != "]":
                self.expression()
            self.take("]")
        return CParameter(kind, name, rank)

    # -- statements --------------------------------------------------------------------------

    def block(self) -> tuple[Any, ...]:
        """The statements between braces, or one without them."""
        if not self.passed("{"):
            return self.statement()
        found: list[Any] = []
        while not self.passed("}"):
            found += self.statement()
        return tuple(found)

    def statement(self) -> tuple[Any, ...]:
        word = self.next()
        if word == "{":
            return self.block()
        known = {"if": self.conditional, "for": self.loop, "while": self.repetition}
        if word in known:
            self.take()
            return (known[word](),)
        found = self.simple()
        self.take(";")
        return found

    def simple(self) -> tuple[Any, ...]:
        """What ends with a semicolon."""
        word = self.next()
        if word in ("break", "continue"):
            self.take()
            return (CBreak() if word == "break" else CContinue(),)
        if word == "return":
            self.take()
            return (CReturn(None if self.next() == ";" else self.expression()),)
        return self.effects()

    def effects(self) -> tuple[Any, ...]:
        """Declarations, or assignments and calls with commas between them."""
        if self.next() in (";", ")"):
            return ()
        if self.next() == "const" or self.next() in _KINDS:
            return self.declarations()
        found = [self.effect()]
        while self.passed(","):
            found.append(self.effect())
        return tuple(found)

    def declarations(self) -> tuple[Any, ...]:
        self.passed("const")
        kind = self.take()
        found: list[Any] = []
        while True:
            name = self.take()
            sizes: list[Any] = []
            while self.passed("["):
                sizes.append(self.expression())
                self.take("]")
            start = self.initial() if self.passed("=") else None
            found.append(CDeclare(kind, name, tuple(sizes), start))
            if not self.passed(","):
                return tuple(found)

    def initial(self) -> Any:
        if not self.passed("{"):
            return self.expression()
        found: list[Any] = []
        while not self.passed("}"):
            found.append(self.initial())
            self.passed(",")
        return tuple(found)

    def effect(self) -> Any:
        if self.next() in ("++", "--"):
            sign = self.take()[0]
            return CAssign(self.postfix(), f"{sign}=", CNumber(1))
        target = self.expression()
        if self.next() in _ASSIGNING:
            sign = self.take()
            return CAssign(target, sign, self.chain())
        if self.next() in ("++", "--"):
            return CAssign(target, f"{self.take()[0]}=", CNumber(1))
        return CDo(target)

    def chain(self) -> Any:
        """The value of an assignment, which may be one itself: a = b = 0."""
        value = self.expression()
        if self.next() in _ASSIGNING:
            return CAssign(value, self.take(), self.chain())
        return value

    def conditional(self) -> CIf:
        self.take("(")
        condition = self.expression()
        self.take(")")
        then = self.block()
        return CIf(condition, then, self.block() if self.passed("else") else ())

    def loop(self) -> CFor:
        self.take("(")
        start = self.effects()
        self.take(";")
        condition = None if self.next() == ";" else self.expression()
        self.take(";")
        step = self.effects()
        self.take(")")
        return CFor(start, condition, step, self.block())

    def repetition(self) -> CFor:
        self.take("(")
        condition = self.expression()
        self.take(")")
        return CFor((), condition, (), self.block())

    # -- expressions -------------------------------------------------------------------------

    def expression(self) -> Any:
        condition = self.binary(1)
        if not self.passed("?"):
            return condition
        then = self.expression()
        self.take(":")
        return CChoice(condition, then, self.expression())

    def binary(self, level: int) -> Any:
        left = self.unary()
        while _LEVELS.get(self.next(), 0) >= level:
            sign = self.take()
            left = CBinary(sign, left, self.binary(_LEVELS[sign] + 1))
        return left

    def unary(self) -> Any:
        word = self.next()
        if word in ("-", "!", "~", "&", "*"):
            self.take()
            return CUnary(word, self.unary())
        if word == "(" and self.next(1) in _KINDS and self.next(2) == ")":
            self.place += 3
            return CCast(self.tokens[self.place - 2], self.unary())
        return self.postfix()

    def postfix(self) -> Any:
        found = self.primary()
        while self.passed("["):
            found = CIndex(found, self.expression())
            self.take("]")
        return found

    def primary(self) -> Any:
        word = self.take()
        if word == "(":
            found = self.expression()
            self.take(")")
            return found
        if word[0].isdigit() or word[0] in '."':
            return CNumber(0) if word[0] == '"' else CNumber(_number(word))
        if not self.passed("("):
            return CName(word)
        arguments: list[Any] = []
        while not self.passed(")"):
            arguments.append(self.expression())
            self.passed(",")
        return CCall(word, tuple(arguments))


def _number(text: str) -> float | int:
    if text.startswith("0x"):
        return float.fromhex(text)
    return int(text) if text.isdigit() else float(text)
