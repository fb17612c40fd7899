"""Modules that are one function: classes made from the rows of doors/torch/modules.txt.

The head of the table explains the rows; the home of a class is a file in nn/modules.
"""

from __future__ import annotations

import ast
import builtins
import inspect
import os
import re
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from typing import Any

from adjoint import doors
from adjoint.core.errors import ArgumentError, ValueRangeError
from adjoint.core.records import record
from adjoint.doors.classes import Classes, Door, on_line
from adjoint.doors.rows import DoorRow
from adjoint.nn import functional
from adjoint.nn.modules.module import Module
from adjoint.nn.modules.utils import each
from adjoint.tensor.tensor import Tensor

TABLE = os.path.join(os.path.dirname(doors.__file__), "torch", "modules.txt")
Sizes = int | Sequence[int]
# The words of all rows; a file has those of its own rows.
WORDS: Mapping[str, Any] = {
    "Any": Any,
    "ArgumentError": ArgumentError,
    "Callable": Callable,
    "Module": Module,
    "Sequence": Sequence,
    "Sizes": Sizes,
    "Tensor": Tensor,
    "ValueRangeError": ValueRangeError,
    "each": each,
    "functional": functional,
}
_CLASSES = re.compile(r"(_?[A-Z]\w*(?:, _?[A-Z]\w*)*)(?:\)|$)")
_TEXTS = (ast.JoinedStr, ast.Constant, ast.IfExp)  # a statement that is one is the extra_repr


class Modules(Classes):
    """The table of modules."""

    def rows(self, home: str) -> Mapping[str, DoorRow]:
        return doors.read(TABLE)[home]

    def bases(self, row: DoorRow) -> list[str]:
        return _base(row).split(", ")

    def definition(self, row: DoorRow, words: Mapping[str, Any]) -> ast.ClassDef:
        others = self.rows(words["__name__"].rpartition(".")[2])
        (made,) = ast.parse(_row(row).source(words, others)).body
        assert isinstance(made, ast.ClassDef)
        return on_line(made, row.line)


door: Door = Modules(TABLE, globals(), WORDS).door


@record
class ModuleRow:
    """One class of the table."""

    name: str  # "LPPool2d"
    base: str  # "_LPPoolNd"; of several, "LazyConvolution, Conv1d"
    arguments: ast.arguments | None  # norm_type: float, kernel_size: Sizes; None: those of the base
    inputs: ast.arguments  # input
    returns: str  # "Tensor"
    call: ast.expr | None  # lp_pool2d(input, float(norm_type), kernel_size); None: that of the base
    statements: list[ast.stmt]  # norm_type != 0 or "(norm_type=0): there is no such norm."
    facts: list[ast.Assign]  # cls.dims = 1
    text: ast.expr | None  # f"{norm_type}"

    def source(self, words: Mapping[str, Any], others: Container[str]) -> str:
        """The text of the class; `others` at home in its file are made when asked for."""
        lines = [f"class {self.name}({self.base}):"]
        for fact in self.facts:
            name = ast.unparse(fact.targets[0]).removeprefix("cls.")
            value = ast.unparse(_Classes(others).visit(fact.value))
            lines.append(f"    {name}: Any = {value}")
        if self.arguments is not None:
            lines += self._constructor(self.arguments, words[self.base])
        if self.call is not None:
            call = _Attributes({a.arg for a in self.inputs.args}, words).visit(self.call)
            lines.append(f"    def forward({ast.unparse(self.inputs)}) -> {self.returns}:")
            lines.append(f"        return {ast.unparse(call)}")
        if shown := self._shown(words):
            lines += ["    def extra_repr(self) -> str:", f"        return {shown}"]
        return "\n".join(lines)

    def _constructor(self, arguments: ast.arguments, base: Any) -> Iterator[str]:
        """The lines of `__init__`, and the types of buffers before it."""
        types = {a.arg: a.annotation for a in (*arguments.args[1:], *arguments.kwonlyargs)}
        lines: list[str] = []
        for statement in self.statements:
            if isinstance(statement, ast.Delete):
                types = {n: t for n, t in types.items() if n not in _names(statement.targets)}
                continue
            if isinstance(statement, ast.Assign):
                types |= dict.fromkeys(_names(statement.targets))
            lines.append(_checked(statement))
        passed = types.keys() & inspect.signature(base.__init__).parameters.keys()
        lines.append(f"super().__init__({', '.join(f'{n}={n}' for n in types if n in passed)})")
        for name, kind in types.items():
            annotation = f": {ast.unparse(kind)}" if kind is not None else ""
            if annotation.startswith(": Tensor") and name not in passed:
                yield f"    {name}: Tensor"
                lines.append(f"self.register_buffer({name!r}, {name})")
            elif name not in passed:
                lines.append(f"self.{name}{annotation} = {name}")
        yield f"    def __init__({ast.unparse(arguments)}) -> None:"
        yield from (f"        {line}" for part in lines for line in part.split("\n"))

    def _shown(self, words: Mapping[str, Any]) -> str:
        """The expression of the module's extra_repr; "" if that of the base holds."""
        if self.text is not None:
            return ast.unparse(_Attributes({"self"}, words).visit(self.text))
        if self.arguments is None or self.base != "Module":
            return ""
        gone = {n for s in self.statements if isinstance(s, ast.Delete) for n in _names(s.targets)}
        names = [a.arg for a in self.arguments.args[1:] if a.arg not in gone]
        parts = [f'f"{name}={{self.{name}}}"' for name in names if name != "inplace"]
        if "inplace" in names:
            parts.append('*["inplace=True"] * bool(self.inplace)')
        return f'", ".join([{", ".join(parts)}])'


class _Attributes(ast.NodeTransformer):
    """Names that are no inputs as attributes of the module, names that are called as functions of
    the file, of Python or of `functional`.
    """

    def __init__(self, inputs: set[str], words: Mapping[str, Any]) -> None:
        self.inputs, self.words = inputs, words

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return node if node.id in self.inputs else ast.Attribute(ast.Name("self"), node.id)

    def visit_Call(self, node: ast.Call) -> ast.expr:
        function = node.func
        if not isinstance(function, ast.Name):
            function = self.visit(function)
        elif function.id not in self.words and not hasattr(builtins, function.id):
            function = ast.Attribute(ast.Name("functional"), function.id)
        keywords = [ast.keyword(k.arg, self.visit(k.value)) for k in node.keywords]
        return ast.Call(function, [self.visit(a) for a in node.args], keywords)


class _Classes(ast.NodeTransformer):
    """Names of classes that are made when they are asked for, as calls that ask."""

    def __init__(self, classes: Container[str]) -> None:
        self.classes = classes

    def visit_Name(self, node: ast.Name) -> ast.expr:
        if node.id not in self.classes:
            return node
        return ast.Call(ast.Name("__getattr__"), [ast.Constant(node.id)], [])


def _names(targets: list[ast.expr]) -> list[str]:
    return [n.id for target in targets for n in ast.walk(target) if isinstance(n, ast.Name)]


def _checked(statement: ast.stmt) -> str:
    """A statement of a constructor; `condition or message` as a condition that raises."""
    value = _value(statement)
    if not isinstance(value, ast.BoolOp):
        return ast.unparse(statement)
    *conditions, said = value.values
    error: ast.expr = ast.Name("ValueRangeError")
    if isinstance(said, ast.Call):
        error, said = said.func, said.args[0]
    condition = " or ".join(f"({ast.unparse(c)})" for c in conditions)
    message = f"type(self).__name__ + {ast.unparse(said)}"
    return f"if not ({condition}):\n    raise {ast.unparse(error)}({message})"


def _value(statement: ast.stmt) -> ast.expr | None:
    return statement.value if isinstance(statement, ast.Expr) else None


# -- reading ---------------------------------------------------------------------------------------


def _row(given: DoorRow) -> ModuleRow:
    """The parts of a row."""
    groups = (given.signature or "").split(")(")
    expression = given.expression or "..."
    base = _base(given)
    if groups[0] == base:
        del groups[0]
    constructor = groups.pop(0) if groups and ":" in groups[0] else None
    inputs = _arguments(next(iter(groups), "") or "input")
    for argument in inputs.args[1:]:
        argument.annotation = argument.annotation or ast.Name("Tensor")
    call, *body = ast.parse(expression).body
    texts = [s for s in body if isinstance(_value(s), _TEXTS)]
    facts = [s for s in body if isinstance(s, ast.Assign) and _is_of_class(s.targets[0])]
    return ModuleRow(
        given.name,
        base,
        None if constructor is None else _arguments(constructor),
        inputs,
        given.returns,
        None if expression.startswith("...") else _value(call),
        [s for s in body if s not in texts and s not in facts],
        facts,
        _value(texts[0]) if texts else None,
    )


def _is_of_class(target: ast.expr) -> bool:
    return ast.unparse(target).startswith("cls.")


def _base(given: DoorRow) -> str:
    """The name of a row's base."""
    found = _CLASSES.match(given.signature or "")
    return found[1] if found else "Module"


def _arguments(text: str) -> ast.arguments:
    """The arguments of a method, self among them."""
    (found,) = ast.parse(f"def method(self, {text}): ...").body
    assert isinstance(found, ast.FunctionDef)
    return found.args
