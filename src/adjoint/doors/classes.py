"""Classes that are rows of a table: a package says how its rows read, the rest is here.

A class is made when somebody first asks for it: its Python text is compiled, once for all
processes, and run with the names of the file that is its home, where pickles, type hints and errors
look for it. A traceback through it shows its row.
"""

from __future__ import annotations

import ast
import builtins
import os
from collections.abc import Callable, Iterable, Mapping
from functools import update_wrapper
from types import CodeType, FunctionType
from typing import Any, TypeVar

from adjoint.absent import absent
from adjoint.core.threads import lock
from adjoint.doors.rows import DoorRow, read
from adjoint.ops.documentation import runs
from adjoint.table import examples
from adjoint.table.prepared import PREPARED

Tree = TypeVar("Tree", bound=ast.AST)
# What a file of classes calls: its globals and its own names give __getattr__, __dir__, __all__.
Door = Callable[..., tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]]
_making = lock()


def _stamp(path: str) -> tuple[int, int]:
    """The size and the time of a file on which code depends."""
    status = os.stat(path)
    return status.st_size, status.st_mtime_ns


class Classes:
    """A table of classes; a subclass says how to read it.

    `words` are the words of all rows, and stand in `module`, the module of the subclass; the file
    that is the home of a row has the words of its own rows.
    """

    def __init__(self, path: str, module: Mapping[str, Any], words: Mapping[str, Any]) -> None:
        self.path, self.module, self.words = path, module["__name__"], words
        self._stamps = tuple(_stamp(p) for p in (path, module["__file__"], __file__))
        _TABLES.append(self)

    def rows(self, home: str) -> Mapping[str, DoorRow]:
        """The rows of the classes at home in nn/modules/<home>.py, say."""
        raise NotImplementedError

    def bases(self, row: DoorRow) -> list[str]:
        """The names of a row's bases."""
        raise NotImplementedError

    def definition(self, row: DoorRow, words: Mapping[str, Any]) -> ast.ClassDef:
        """The class of a row, whose names mean the `words` of its home; nodes have lines."""
        raise NotImplementedError

    def door(
        self, module: dict[str, Any], *own: str
    ) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
        """The `__getattr__`, `__dir__` and `__all__` of a file of classes: those of its rows of the
        table, and its `own`.
        """
        stamps = (*self._stamps, _stamp(module["__file__"]))
        rows = self.rows(module["__name__"].rpartition(".")[2])
        public = sorted([*own, *(name for name in rows if not name.startswith("_"))])
        module.update((name, word) for name, word in self.words.items() if name not in module)

        def find(name: str) -> Any:
            if name not in rows:
                raise absent(module["__name__"], name, public)
            with _making:  # two threads get the same class
                if name not in module:
                    row = rows[name]
                    for base in self.bases(row):
                        if base not in module:
                            find(base)
                    key = f"{module['__name__']}.{name} {stamps}"
                    code = PREPARED.once(key, lambda: self._code(row, module))
                    module[name] = _run(code, module, documentation(row))
            return module[name]

        return find, public.copy, public

    def _code(self, row: DoorRow, words: Mapping[str, Any]) -> CodeType:
        annotations = ast.parse("from __future__ import annotations").body
        tree = ast.Module([*annotations, self.definition(row, words)], [])
        return compile(tree, self.path, "exec", dont_inherit=True)


class Sections(Classes):
    """A table with a section for each class, [file.Name]: the row Name(Bases)(constructor) begins
    it, the others are its members.
    """

    def rows(self, home: str) -> Mapping[str, DoorRow]:
        sections = (s.partition(".") for s in read(self.path))
        return {name: read(self.path)[f"{h}.{name}"][name] for h, _, name in sections if h == home}

    def bases(self, row: DoorRow) -> list[str]:
        return (row.signature or "").partition(")")[0].split(", ")

    def members(self, row: DoorRow) -> dict[str, DoorRow]:
        """The other rows of a class."""
        return {name: r for name, r in read(self.path)[row.section].items() if name != row.name}

    def texts(self, row: DoorRow, words: Mapping[str, Any]) -> Iterable[tuple[DoorRow, str]]:
        """The Python text of each part of a class, and the row that says it."""
        raise NotImplementedError

    def definition(self, row: DoorRow, words: Mapping[str, Any]) -> ast.ClassDef:
        (made,) = ast.parse(f"class {row.name}({', '.join(self.bases(row))}): ...").body
        assert isinstance(made, ast.ClassDef)
        texts = list(self.texts(row, words))
        body = [on_line(node, part.line) for part, text in texts for node in ast.parse(text).body]
        made = on_line(made, row.line)
        made.body = body or made.body
        return made


class Names(ast.NodeTransformer):
    """Names in a row as what they mean: `places` say it of some, {"rate": "self.rate"}, those that
    the row binds and the `words` of its home stay, the others are attributes of `rest`.
    """

    def __init__(self, places: Mapping[str, str], words: Mapping[str, Any], rest: str) -> None:
        self.places, self.words, self.rest = places, words, rest
        self.given: set[str] = set()
        self.used: set[str] = set()  # the names of places that were met

    def text(self, text: str, given: Iterable[str] = ()) -> str:
        """A text in which names are written out, one statement a line."""
        tree = ast.parse(text)
        self.given = {*given, *(n.arg for n in ast.walk(tree) if isinstance(n, ast.arg))}
        names = (n for n in ast.walk(tree) if isinstance(n, ast.Name))
        self.given.update(n.id for n in names if isinstance(n.ctx, ast.Store))
        return "\n".join(ast.unparse(self.visit(statement)) for statement in tree.body)

    def visit_Name(self, node: ast.Name) -> ast.expr:
        name = node.id
        if name in self.given:
            return node
        if name in self.places:
            self.used.add(name)
            return ast.parse(self.places[name], mode="eval").body
        if name in self.words or hasattr(builtins, name):
            return node
        return ast.Attribute(ast.Name(self.rest), name)


def arguments_of(text: str) -> ast.arguments:
    """The arguments of a method, self among them."""
    (found,) = ast.parse(f"def method(self, {text}): ...").body
    assert isinstance(found, ast.FunctionDef)
    return found.args


_TABLES: list[Classes] = []


def table_of(value: type) -> tuple[Classes, DoorRow] | None:
    """The table that a class was made from, and its row; None of another class."""
    package, _, home = value.__module__.rpartition(".")
    for table in _TABLES:
        within = package.startswith(table.module.rpartition(".")[0])
        if within and value.__name__ in table.rows(home):
            return table, table.rows(home)[value.__name__]
    return None


def _run(code: CodeType, home: dict[str, Any], docstring: str) -> Any:
    """The class that a row's code defines."""
    defined: dict[str, Any] = {}
    exec(code, home, defined)
    made = defined.popitem()[1]
    made.__doc__ = docstring or None
    if "__init__" not in vars(made) and isinstance(made.__init__, FunctionType):
        made.__init__ = _constructor_of(made)
    return made


def _constructor_of(made: type) -> Any:
    """The constructor that a class inherits, under its own name, which Python's errors show."""
    inherited: Any = made.__init__
    code, home = inherited.__code__, inherited.__globals__
    own: Any = FunctionType(
        code, home, argdefs=inherited.__defaults__, closure=inherited.__closure__
    )
    update_wrapper(own, inherited)
    del own.__wrapped__
    own.__kwdefaults__ = inherited.__kwdefaults__
    own.__qualname__ = f"{made.__qualname__}.__init__"
    return own


def documentation(row: DoorRow) -> str:
    """The docstring of a class: a sentence, more text perhaps, and an example."""
    found = examples.found(row.examples, row.name)
    more, shown, lines = found.lines.partition(">>> ")
    example = runs(examples.Example(row.name, "", shown + lines))
    return "\n\n".join(part for part in (found.sentence, more.strip(), example) if part)


def on_line(tree: Tree, line: int) -> Tree:
    """A tree all of whose nodes stand on the line of a row."""
    for node in ast.walk(tree):
        if isinstance(node, (ast.stmt, ast.expr, ast.arg, ast.keyword)):
            node.lineno = node.end_lineno = line
            node.col_offset = node.end_col_offset = 0
    return tree
