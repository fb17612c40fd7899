"""The grammar of expressions: signs, brackets, choices, calls. Text to trees.

Rows (`parsing.py`) and functions (`definitions.py`) say which names, numbers and calls there are.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from adjoint.core.errors import TableError
from adjoint.expressions.c_text import LEVELS
from adjoint.expressions.trees import Binary, Choose, Expression, Unary
from adjoint.table.formula import Location

NUMBER = r"(?P<number>(?:0|[1-9]\d{0,17})(?:\.\d+)?(?:e[+-]?\d{1,3})?(?![\w.]))"
NAME = r"(?P<name>[A-Za-z_]\w*)"
SIGN = r"(?P<sign>[<>=!]=|&&|\|\||<<|>>|[-+*/%<>&|^~!?:(),@])"


class Grammar:
    """Parses one text."""

    token = re.compile(rf"\s*(?:{NUMBER}|{NAME}|{SIGN})")
    what = "element"  # is parsed here
    deepest = 40

    def __init__(self, text: str, where: Location) -> None:
        self.text, self.where, self.depth, self.place = text, where, 0, 0
        self.check_text()
        self.tokens = list(self.cut())

    def mistake(self, what: str, word: str = "") -> TableError:
        where = self.where.of(word) if word else self.where
        return TableError(f"{where}: {self.what}: {what}: {self.text!r}")

    def cut(self) -> Iterator[str]:
        place, end = 0, len(self.text.rstrip())
        while place < end:
            found = self.token.match(self.text, place)
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

    def took(self, token: str) -> bool:
        """Take the next token if it is this one; whether it was."""
        found = self.next == token
        self.place += found
        return found

    def whole(self) -> Expression:
        found = self.choice()
        if self.next:
            raise self.mistake(f"{self.next!r} is left over", self.next)
        return found

    def choice(self) -> Expression:
        """Parse `a ? b : c` or a single value."""
        self.depth += 1
        if self.depth > self.deepest:
            raise self.mistake("nested too deeply")
        found = self.binary(1)
        if self.took("?"):
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
            self.check_sign(sign, left, right)
            left = Binary(sign, left, right)
        return left

    def unary(self) -> Expression:
        signs = []
        while self.next in ("-", "!", "~"):
            signs.append(self.take())
        found = self.operand(self.take())
        for sign in reversed(signs):
            found = self.signed(sign, found)
        return found

    def signed(self, sign: str, operand: Expression) -> Expression:
        return Unary(sign, operand)

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

    def arguments(self) -> list[Expression]:
        """What stands in the brackets of a call."""
        self.take("(")
        given: list[Expression] = []
        while self.next != ")":
            if given:
                self.take(",")
            given.append(self.choice())
        self.take(")")
        return given

    # -- what texts of different kinds differ in ------------------------------------------------

    def check_text(self) -> None:
        """Refuse a text as a whole."""

    def check_sign(self, sign: str, left: Expression, right: Expression) -> None:
        """Refuse a sign between two operands."""

    def number(self, token: str) -> Expression:
        raise NotImplementedError

    def argument(self, name: str) -> Expression:
        raise NotImplementedError

    def call(self, name: str) -> Expression:
        raise NotImplementedError
