"""Doors: functions under another library's names, by a table of signatures and expressions.

A row of the table is `signature = expression`; lines that are indented go on with the line above,
`[section]` starts the rows of another module. In an expression, a name that is no parameter is of
the door's own words, else an operator. A function is compiled when it is first asked for: it has
the signature that is written, and a traceback through it shows its row.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from types import CodeType, FunctionType
from typing import Any

from adjoint.absent import absent
from adjoint.core.errors import TableError
from adjoint.ops.operator import exists, packet

_BUILTINS: Mapping[str, Any] = {"list": list, "slice": slice, "tuple": tuple}
_START = re.compile(r"(\w+)\((.*?)\) =\s*(.*)", re.DOTALL)


@dataclass(frozen=True)
class Row:
    """One function of a door."""

    name: str  # "vecdot"
    signature: str  # "x1, x2, /, *, axis=-1"
    expression: str  # "linalg_vecdot(*common(x1, x2), dim=axis)"
    path: str  # "/…/array_api/functions.txt"
    line: int  # 97

    def function(self, module: str, words: Mapping[str, Any]) -> FunctionType:
        """The function, whose names are of `words` or operators."""
        tree = ast.parse(f"def _({self.signature}): return ({self.expression})", self.path)
        known = {name: self._meaning(name, words) for name in _free_names(tree)}
        known["__name__"] = module  # ours: errors and graphs name the line of the caller
        outer = compile(ast.increment_lineno(tree, self.line - 1), self.path, "exec")
        code = next(c for c in outer.co_consts if isinstance(c, CodeType))
        defined: dict[str, Any] = {}
        exec(outer, known, defined)
        made: FunctionType = defined["_"]
        made.__code__ = code.replace(co_name=self.name, co_qualname=self.name)
        made.__name__ = made.__qualname__ = self.name
        made.__module__ = module
        made.__doc__ = f"{self.name}({self.signature})\n\nIn operators: `{self.expression}`."
        return made

    def _meaning(self, name: str, words: Mapping[str, Any]) -> Any:
        if name in words:
            return words[name]
        if name in _BUILTINS:
            return _BUILTINS[name]
        if exists(name):
            return packet(name).function
        raise TableError(
            f"{self.path}:{self.line}: {name} is no operator and no word of this table"
        )


def _free_names(tree: ast.Module) -> set[str]:
    arguments = {node.arg for node in ast.walk(tree) if isinstance(node, ast.arg)}
    return {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)} - arguments


@lru_cache
def read(path: str) -> dict[str, dict[str, Row]]:
    """The rows of a table by section and name; those before the first section are of "".

    >>> import adjoint.array_api as xp
    >>> read(xp.TABLE)["linalg"]["det"].expression
    'linalg_det(x)'
    """
    with open(path, encoding="utf-8") as file:
        lines = file.read().splitlines()
    section: dict[str, Row] = {}
    sections = {"": section}
    starts = [i for i, line in enumerate(lines) if line and line[0] not in " #"]
    for start, end in zip(starts, [*starts[1:], len(lines)], strict=True):
        if lines[start].startswith("["):
            section = sections.setdefault(lines[start].strip("[]"), {})
            continue
        text = "\n".join(line for line in lines[start:end] if not line.startswith("#")).strip()
        found = _START.fullmatch(text)
        if found is None or found[1] in section:
            raise TableError(f"{path}:{start + 1}: not `signature = expression`, or written twice")
        expression = " ".join(found[3].split())
        section[found[1]] = Row(found[1], found[2], expression, path, start + 1)
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
