"""Distributions that are formulas: classes made from the rows of doors/torch/distributions.txt.

The head of the table explains the rows; the home of a class is a file of this folder.
"""

from __future__ import annotations

import ast
import builtins
import math
import os
import textwrap
from collections.abc import Iterator, Mapping, Sequence, Set
from itertools import takewhile
from typing import Any, ClassVar

from adjoint import doors, ops
from adjoint.core.dtypes import finfo
from adjoint.core.records import record
from adjoint.distributions import constraints
from adjoint.distributions.constraints import Constraint
from adjoint.distributions.distribution import noise_like, uniform_like
from adjoint.distributions.narrow import in_double
from adjoint.doors.classes import Classes, on_line
from adjoint.doors.rows import DoorRow
from adjoint.tensor.modes import no_grad
from adjoint.tensor.tensor import Tensor

TABLE = os.path.join(os.path.dirname(doors.__file__), "torch", "distributions.txt")
HALF_LOG_2PI = math.log(2 * math.pi) / 2
# The words of all rows; a file has those of its own rows.
WORDS: Mapping[str, Any] = {
    "Any": Any,
    "ClassVar": ClassVar,
    "Constraint": Constraint,
    "Sequence": Sequence,
    "Tensor": Tensor,
    "HALF_LOG_2PI": HALF_LOG_2PI,
    "constraints": constraints,
    "finfo": finfo,
    "in_double": in_double,
    "inf": math.inf,
    "math": math,
    "nan": math.nan,
    "no_grad": no_grad,
    "noise_like": noise_like,
    "ops": ops,
    "pi": math.pi,
    "uniform_like": uniform_like,
}
_DRAWN = "self, sample_shape: Sequence[int] = ()"
# The arguments of methods that PyTorch names, and what comes before their rows.
_METHODS = {
    "log_prob": ("self, value: Tensor", "value = self._checked(value)"),
    "cdf": ("self, value: Tensor", "value = self._checked(value)"),
    "sample": (_DRAWN, "shape = self._extended_shape(sample_shape)"),
    "rsample": (_DRAWN, "shape = self._extended_shape(sample_shape)"),
    "enumerate_support": ("self, expand: bool = True", ""),
}
# What comes after a row, whose value takes the place of {}.
_RESULTS = {
    "sample": "with no_grad():\n    return ({}).detach()",
    "enumerate_support": "return self._enumerated({}, expand=expand)",
}
_HAS = {"rsample": "has_rsample", "enumerate_support": "has_enumerate_support"}


class Distributions(Classes):
    """The table of distributions: a section for each class, which its first row begins."""

    def rows(self, home: str) -> Mapping[str, DoorRow]:
        sections = (s.partition(".") for s in doors.read(TABLE))
        return {
            name: doors.read(TABLE)[f"{file}.{name}"][name]
            for file, _, name in sections
            if file == home
        }

    def bases(self, row: DoorRow) -> list[str]:
        return (row.signature or "").partition(")")[0].split(", ")

    def definition(self, row: DoorRow, words: Mapping[str, Any]) -> ast.ClassDef:
        members = {n: r for n, r in doors.read(TABLE)[row.section].items() if n != row.name}
        others = self.rows(row.section.partition(".")[0])
        return _Definition(row, self.bases(row), members, _Scope(words, others.keys())).node()


door = Distributions(TABLE, globals(), WORDS).door


@record
class _Scope:
    """What a row finds in the home of its class."""

    words: Mapping[str, Any]
    classes: Set[str]  # those made when asked for: {"Exponential", "Weibull"}


class _Definition:
    """The text of one class."""

    def __init__(
        self,
        row: DoorRow,
        bases: list[str],
        members: Mapping[str, DoorRow],
        scope: _Scope,
    ) -> None:
        self.row, self.bases, self.members, self.scope = row, bases, members, scope
        _, constructs, signature = (row.signature or "").partition(")(")
        self.arguments = _arguments(signature) if constructs else None
        kinds = {a.arg: a.annotation for a in _arguments(signature).args if a.annotation}
        self.constraints = {n: k for n, k in kinds.items() if _root(k) in constraints.__all__}
        self.held = [n for n in self.constraints if n not in members]
        self.kept = [n for n in kinds if n not in self.constraints]
        inherited = {name for base in bases for name in _names_of(scope.words[base])}
        self.known = {*members, *self.held, *self.kept, *inherited}

    def node(self) -> ast.ClassDef:
        """The class, each member on the line of its row."""
        (made,) = ast.parse(f"class {self.row.name}({', '.join(self.bases)}): ...").body
        assert isinstance(made, ast.ClassDef)
        rows = [(self.row, text) for text in (*self._facts(), *self._constructor())]
        rows += [(row, self._member(row)) for row in self.members.values()]
        body = [on_line(node, row.line) for row, text in rows for node in ast.parse(text).body]
        made = on_line(made, self.row.line)
        made.body = body or made.body
        return made

    def _facts(self) -> Iterator[str]:
        """The types of parameters, the constraints, and what the class has."""
        for name in self.held:
            yield f"{name}: Tensor"
        if self.constraints and "arg_constraints" not in self.members:
            parts = ", ".join(f"{n!r}: {ast.unparse(k)}" for n, k in self.constraints.items())
            yield self._constraint("arg_constraints", f"{{{parts}}}")
        if self.row.returns != "Tensor":
            yield self._constraint("support", self.row.returns)
        for name in self.members:
            if name in _HAS:
                yield f"{_HAS[name]}: Any = True"

    def _constraint(self, name: str, text: str) -> str:
        """Constraints as a constant of the class, or as a property where they know an instance."""
        names = _Names(self.known, self.scope, constraints.__all__)
        found = names.text(text)
        if not names.of_instance:
            return f"{name}: {'ClassVar[Any]' if name == 'arg_constraints' else 'Any'} = {found}"
        if name == "arg_constraints":
            return f"@property\ndef {name}(self) -> dict[str, Constraint]:\n    return {found}"
        region = found.partition("(")[0]
        facts = f"is_discrete={region}.is_discrete, event_dim={region}.event_dim"
        head = f"@constraints.dependent_property({facts})\ndef {name}(self) -> Constraint:"
        return f"{head}\n    return {found}"

    def _constructor(self) -> Iterator[str]:
        """The text of `__init__`, if the row has one."""
        if self.arguments is None:
            return
        lines = [f"self.{name} = {name}" for name in self.kept]
        if self.held:
            lines.append(f"self._hold(validate_args, {', '.join(f'{n}={n}' for n in self.held)})")
        if self.row.expression:
            given = {a.arg for a in self.arguments.args} - {*self.held} | {"validate_args"}
            call = f"super().__init__({self.row.expression}, validate_args)"
            lines.append(_Names(self.known, self.scope).text(call, given))
        for argument in self.arguments.args[1:]:
            if argument.arg not in self.kept:
                argument.annotation = ast.Name("Any")
        signature = f"{ast.unparse(self.arguments)}, validate_args: bool | None = None"
        yield "\n    ".join([f"def __init__({signature}) -> None:", *lines])

    def _member(self, row: DoorRow) -> str:
        """A constant of the class, a property, or a method where the row has brackets."""
        if row.name == "arg_constraints":
            return self._constraint(row.name, row.expression)
        own, names = _arguments(row.signature or ""), _Names(self.known, self.scope)
        head, text = _split(row.expression)
        *lines, result = names.text(text, {a.arg for a in own.args}).split("\n")
        if row.signature is None and not names.of_instance:
            return f"{row.name} = {result}"
        for argument in own.args[1:]:
            argument.annotation = argument.annotation or ast.Name("Tensor")
        arguments, before = _METHODS.get(row.name, (ast.unparse(own), ""))
        before = before if row.signature in ("shape", "value") else ""
        result = _RESULTS.get(row.name, "return {}").format(result)
        kinds = [*["@property"] * (row.signature is None), *["@in_double"] * ("in_double" in head)]
        said = [part for part in head if part != "in_double"]
        body = textwrap.indent("\n".join([*said, before, *lines, result]), "    ")
        return "\n".join([*kinds, f"def {row.name}({arguments}) -> {row.returns}:", body])


class _Names(ast.NodeTransformer):
    """Names as what they mean: arguments, attributes of the instance, words, constraints where such
    are meant, operators.
    """

    def __init__(self, known: Set[str], scope: _Scope, constraints: Sequence[str] = ()) -> None:
        self.known, self.scope, self.constraints = known, scope, constraints
        self.given: set[str] = set()
        self.of_instance = False

    def text(self, text: str, given: Set[str] = frozenset()) -> str:
        """A text in which names are written out, one statement a line."""
        tree = ast.parse(text)
        self.given = {n.arg for n in ast.walk(tree) if isinstance(n, ast.arg)} | given
        names = (n for n in ast.walk(tree) if isinstance(n, ast.Name))
        self.given.update(n.id for n in names if isinstance(n.ctx, ast.Store))
        return "\n".join(ast.unparse(self.visit(statement)) for statement in tree.body)

    def visit_Name(self, node: ast.Name) -> ast.expr:
        name = node.id
        if name in self.given:
            return node
        if name in self.known:
            self.of_instance = True
            return ast.Attribute(ast.Name("self"), name)
        if name in self.constraints:
            return ast.Attribute(ast.Name("constraints"), name)
        if name in self.scope.classes:
            return ast.Call(ast.Name("__getattr__"), [ast.Constant(name)], [])
        if name in self.scope.words or hasattr(builtins, name):
            return node
        return ast.Attribute(ast.Name("ops"), name)


def _split(expression: str) -> tuple[list[str], str]:
    """What a row says before its statements, `in_double` or a docstring, and the statements."""
    body = ast.parse(expression).body
    before = list(takewhile(_stands_before, body[:-1]))
    rest = body[len(before) :]
    return [ast.unparse(part) for part in before], "\n".join(map(ast.unparse, rest))


def _stands_before(statement: ast.stmt) -> bool:
    value = statement.value if isinstance(statement, ast.Expr) else None
    return isinstance(value, ast.Constant) or getattr(value, "id", None) == "in_double"


def _arguments(text: str) -> ast.arguments:
    """The arguments of a method, self among them."""
    (found,) = ast.parse(f"def method(self, {text}): ...").body
    assert isinstance(found, ast.FunctionDef)
    return found.args


def _root(kind: ast.expr) -> str:
    """The name that a type or a constraint begins with: "less_than" of less_than(high)."""
    return ast.unparse(kind).partition("(")[0]


def _names_of(base: type) -> set[str]:
    """The attributes of the instances of a class that it names."""
    return {
        *dir(base),
        *(n for kind in base.__mro__ for n in vars(kind).get("__annotations__", ())),
    }
