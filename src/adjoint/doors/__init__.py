"""Doors: functions under another library's names, by a table of signatures and expressions.

A row of the table is `signature = expression`; `signature -> type = expression` says that it does
not return one tensor. Lines that start with a blank go on with the line above, `[section]` starts
the rows of another module. In an expression, a name that is no parameter is one of the door's own
words, else an operator. A function is compiled when it is first asked for: it has the signature
that is written, and a traceback through it shows its row.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from types import FunctionType
from typing import Any

from adjoint.absent import absent
from adjoint.core.errors import TableError
from adjoint.ops.operator import exists, packet

_BUILTINS: Mapping[str, Any] = {"list": list, "slice": slice, "tuple": tuple}


@dataclass(frozen=True)
class Row:
    """One function of a door."""

    name: str  # "vecdot"
    signature: str  # "x1, x2, /, *, axis=-1"
    returns: str  # "Tensor"
    expression: str  # "dot_products(*common(x1, x2), axis)"
    path: str  # "/…/array_api/functions.txt"
    line: int  # 97

    def function(self, module: str, words: Mapping[str, Any]) -> FunctionType:
        """The function, whose names are of `words` or operators."""
        head = f"def {self.name}({self.signature}) -> {self.returns}"
        text = f"{head}: return ({self.expression})"
        made = compiled(text, f"{self.path}:{self.line}", module, lambda n: self._found(n, words))
        made.__doc__ = f"{self.name}({self.signature})\n\n{in_operators(self.expression)}"
        return made

    def _found(self, name: str, words: Mapping[str, Any]) -> Any:
        if name in words or name in _BUILTINS:
            return words.get(name) or _BUILTINS[name]
        if exists(name):
            return packet(name).function
        raise TableError(f"{self.path}:{self.line}: {name} is no operator and no word of the door")


def in_operators(expression: str) -> str:
    """The line of a docstring that shows what a function is."""
    return f"In operators: `{expression}`."


def with_signature(made: FunctionType, theirs: Callable[..., Any]) -> FunctionType:
    """Our function with the signature of another library's; what is built in may have none."""
    try:
        made.__signature__ = inspect.signature(theirs)  # type: ignore[attr-defined]
    except ValueError:
        return made
    return made


def compiled(text: str, where: str, module: str, found: Callable[[str], Any]) -> FunctionType:
    """The function that a text defines; `found` says what its free names are.

    >>> double = compiled("def double(x): return two * x", "rows.txt:7", "rows", {"two": 2}.get)
    >>> double(3), double.__module__
    (6, 'rows')
    """
    path, _, line = where.rpartition(":")
    tree = ast.increment_lineno(ast.parse(text), int(line) - 1)
    arguments = {node.arg for node in ast.walk(tree) if isinstance(node, ast.arg)}
    used = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)} - arguments
    # __name__ is of a module of ours, so that errors and graphs name the line of the caller
    scope = {"__name__": module, **{name: found(name) for name in used}}
    defined: dict[str, Any] = {}  # apart from the scope: a function may use an operator of its name
    exec(compile(tree, path, "exec", dont_inherit=True), scope, defined)
    (made,) = defined.values()
    return made


def lines(path: str) -> list[tuple[int, str]]:
    """The lines of a table, numbered, each with those that go on with it; without comments."""
    found: list[tuple[int, str]] = []
    with open(path, encoding="utf-8") as file:
        for number, line in enumerate(file, 1):
            if line.startswith(" "):
                found[-1] = (found[-1][0], f"{found[-1][1]} {line.strip()}")
            elif line.strip() and not line.startswith("#"):
                found.append((number, line.strip()))
    return found


@lru_cache
def read(path: str) -> dict[str, dict[str, Row]]:
    """The rows of a table by section and name; those before the first section are of "".

    >>> from adjoint.array_api.rows import TABLE
    >>> read(TABLE)["linalg"]["det"].expression
    'linalg_det(x)'
    """
    section: dict[str, Row] = {}
    sections = {"": section}
    for number, line in lines(path):
        if line.startswith("["):
            section = sections.setdefault(line.strip("[]"), {})
            continue
        left, equals, expression = line.partition(" = ")
        left, _, returns = left.partition(" -> ")
        name, _, signature = left.partition("(")
        if not equals or name in section:
            raise TableError(f"{path}:{number}: not `signature = expression`, or written twice")
        signature = signature.removesuffix(")")
        section[name] = Row(name, signature, returns or "Tensor", expression, path, number)
    return sections


def door(
    module: dict[str, Any], path: str, section: str, words: Mapping[str, Any]
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """The `__getattr__` and `__dir__` of a module whose functions are the rows of a section."""
    rows = read(path)[section]

    def find(name: str) -> Any:
        if name not in rows:
            raise absent(module["__name__"], name, rows)
        made = module[name] = rows[name].function(module["__name__"], words)
        return made

    def names() -> list[str]:
        return sorted({*rows, *(n for n in module if not n.startswith("_"))})

    return find, names
