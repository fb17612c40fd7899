"""The rows of a door's table: one reader and one dialect for all tables.

A row gives a function its name, its signature and an expression that computes it:

    [section]                                     the rows of another module begin
    matmul(x1, x2, /) = matmul(*common(x1, x2))   signature = expression
    unstack(x, /, *, axis=0) -> list[Tensor]      the type of a result that is not one tensor;
        = unbind(x, axis)                         a line that begins with a blank continues a row
    max, amax(a, axis=None) = amax(a, axis)       several names of one function
    cov(m, y=None)                                calls the door's word of that name
    abs, absolute = abs                           the operator or word itself, under these names
    acos, sin                                     operators or words under their own names
    pool{1,2}d(x) = pool({}, x)                   pool1d(x) = pool(1, x), pool2d(x) = pool(2, x)

A name in an expression is, in this order: a parameter, a word of the door, a class of Python, an
operator, a function of Python. `ad.sum` is the operator, whatever else has its name. Lines that
begin with # are comments. A function is compiled when somebody asks for it, and a traceback through
it shows its row. Its docstring begins with the sentence and the example of its name in a file
examples/TABLE.txt beside the table, if there is one, which is written as those of table/examples.
"""

from __future__ import annotations

import ast
import builtins
import inspect
import os
import re
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from types import FunctionType
from typing import Any

from adjoint.absent import absent
from adjoint.core.errors import TableError
from adjoint.core.records import record
from adjoint.ops.documentation import runs
from adjoint.ops.operator import exists, packet
from adjoint.table import examples
from adjoint.tensor.tensor import Tensor


class Operators:
    """The functions of operators by name, found when first asked for: `ad.sin`."""

    def __getattr__(self, name: str) -> Any:
        function = packet(name).function
        setattr(self, name, function)
        return function


ad = Operators()
# words of every door
_ALWAYS: Mapping[str, Any] = {"Any": Any, "Sequence": Sequence, "Tensor": Tensor, "ad": ad}


@record
class DoorRow:
    """One name of a door."""

    name: str  # "vecdot"
    section: str  # "linalg"; "" before the first section
    signature: str | None  # "x1, x2, /, *, axis=-1"; None if the row has no brackets
    returns: str  # "Tensor"
    expression: str  # "dot_products(*common(x1, x2), axis)"; "" if the row has none
    path: str  # "/…/array_api/functions.txt"
    line: int  # 97

    def function(self, module: str, words: Mapping[str, Any]) -> Any:
        """The function of this row, as one of `module`."""
        if self.signature is None:
            return self.found(self.expression or self.name, words)
        expression = self.expression or self.call()
        head = f"def {self.name}({self.signature}) -> {self.returns}"
        text = f"{head}: return ({expression})"
        made = compiled(text, self.where, module, lambda name: self.found(name, words))
        said = in_operators(expression)
        if not self.expression:
            said = self.found(self.name, words).__doc__
        example = examples.found(self.examples, self.name)
        head = example.sentence or f"{self.name}({self.signature})"
        made.__doc__ = "\n\n".join(part for part in (head, runs(example), said) if part)
        return made

    @property
    def examples(self) -> str:
        """The path of the file with this row's sentence and example; it need not be there."""
        return os.path.join(os.path.dirname(self.path), "examples", os.path.basename(self.path))

    @property
    def where(self) -> str:
        """The place of the row: "/…/array_api/functions.txt:97"."""
        return f"{self.path}:{self.line}"

    def found(self, name: str, words: Mapping[str, Any]) -> Any:
        """The object that a name of the expression means."""
        for known in (words, _ALWAYS):
            if name in known:
                return known[name]
        of_python = getattr(builtins, name, None)
        if exists(name) and not isinstance(of_python, type):
            return packet(name).function
        if of_python is None:
            raise TableError(f"{self.where}: {name} is no operator and no word of the door")
        return of_python

    def parameters(self) -> ast.arguments:
        """The parameters of the signature."""
        (head,) = ast.parse(f"def {self.name}({self.signature}): pass").body
        assert isinstance(head, ast.FunctionDef)
        return head.args

    def call(self, but: frozenset[str] = frozenset()) -> str:
        """The call of the word with this row's name: with all parameters `but` some."""
        given = self.parameters()
        parts = [a.arg for a in (*given.posonlyargs, *given.args) if a.arg not in but]
        parts += [f"*{given.vararg.arg}"] if given.vararg else []
        parts += [f"{a.arg}={a.arg}" for a in given.kwonlyargs if a.arg not in but]
        parts += [f"**{given.kwarg.arg}"] if given.kwarg else []
        return f"{self.name}({', '.join(parts)})"


@lru_cache
def read(path: str) -> dict[str, dict[str, DoorRow]]:
    """The rows of a table by section and name.

    >>> from adjoint.doors.array_api.rows import TABLE
    >>> read(TABLE)["linalg"]["det"].expression
    'linalg_det(x)'
    """
    section, rows = "", dict[str, DoorRow]()
    sections = {section: rows}
    for number, line in _lines(path):
        if line.startswith("["):
            section = line.strip("[]")
            rows = sections.setdefault(section, {})
            continue
        left, equals, expression = line.partition(" = ")
        while left.count("(") != left.count(")") and equals:  # `p: float = 0.5` in the signature
            more, equals, expression = expression.partition(" = ")
            left = f"{left} = {more}"
        left, _, returns = left.partition(" -> ")
        names, bracket, signature = left.strip().partition("(")
        for name in names.split(", "):
            if not name.isidentifier() or name in rows or (bracket and signature[-1:] != ")"):
                raise TableError(f"{path}:{number}: {name!r} is no name, or stands twice")
            rows[name] = DoorRow(
                name,
                section,
                signature[:-1] if bracket else None,
                returns.strip() or "Tensor",
                expression.strip(),
                path,
                number,
            )
    return sections


def _lines(path: str) -> list[tuple[int, str]]:
    """The rows of a file as one line each, with the number of their first; without comments."""
    found: list[tuple[int, str]] = []
    with open(path, encoding="utf-8") as file:
        for number, line in enumerate(file, 1):
            if line.startswith(" "):
                start, row = found[-1]
                found[-1] = (start, f"{row}{' ' * (row[-1] != '(')}{line.strip()}")
            elif line.strip() and not line.startswith("#"):
                found.append((number, line.strip()))
    return [(number, each) for number, line in found for each in _written_out(line)]


def _written_out(line: str) -> list[str]:
    """The rows that a row stands for: one for each part in the braces of its name."""
    several = re.match(r"(\w*)\{([\w,]+)\}", line)
    if several is None:
        return [line]
    rest = line[several.end() :]
    return [f"{several[1]}{part}{rest.replace('{}', part)}" for part in several[2].split(",")]


def compiled(text: str, where: str, module: str, found: Callable[[str], Any]) -> FunctionType:
    """The function that a text defines; `found` gives the objects of its free names.

    >>> double = compiled("def double(x): return two * x", "rows.txt:7", "rows", {"two": 2}.get)
    >>> double(3), double.__module__
    (6, 'rows')
    """
    path, _, line = where.rpartition(":")
    tree = ast.increment_lineno(ast.parse(text), int(line) - 1)
    bound = {node.arg for node in ast.walk(tree) if isinstance(node, ast.arg)}
    names = [node for node in ast.walk(tree) if isinstance(node, ast.Name)]
    bound.update(node.id for node in names if isinstance(node.ctx, ast.Store))
    free = {node.id for node in names} - bound
    # __name__ is of a module of ours, so that errors and graphs name the line of the caller
    scope = {"__name__": module, **{name: found(name) for name in free}}
    defined: dict[str, Any] = {}  # apart from the scope: a function may use an operator of its name
    typed = any(node.annotation for node in ast.walk(tree) if isinstance(node, ast.arg))
    flags = annotations.compiler_flag if typed else 0  # a whole signature is short as text
    exec(compile(tree, path, "exec", flags, dont_inherit=True), scope, defined)
    (made,) = defined.values()
    return made


def in_operators(expression: str) -> str:
    """The line of a docstring that shows a function's expression."""
    return f"In operators: `{expression}`."


def with_signature(made: FunctionType, theirs: Callable[..., Any]) -> FunctionType:
    """Our function with the signature of another library's function, if that has one."""
    try:
        made.__signature__ = inspect.signature(theirs)  # type: ignore[attr-defined]
    except ValueError:  # some builtin functions have none
        return made
    return made


def door(
    module: dict[str, Any], path: str, section: str, words: Mapping[str, Any]
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """The `__getattr__` and `__dir__` of a module whose functions are the rows of a section."""
    rows = read(path)[section]

    def find(name: str) -> Any:
        if name not in rows:
            raise absent(module["__name__"], name, names())
        made = rows[name].function(module["__name__"], words)
        return module.setdefault(name, made)  # another thread may have made it meanwhile

    def names() -> list[str]:
        return sorted({*rows, *(n for n in module if n[0].isalpha())})

    return find, names
