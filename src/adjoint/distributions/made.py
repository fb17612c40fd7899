"""Distributions that are formulas: classes made from the rows of doors/torch/distributions.txt.

The head of the table explains the rows; the home of a class is a file of this folder.
"""

from __future__ import annotations

import ast
import math
import os
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from itertools import takewhile
from typing import Any, ClassVar

from adjoint import doors, ops
from adjoint.core.dtypes import finfo
from adjoint.distributions import constraints
from adjoint.distributions.constraints import Constraint
from adjoint.distributions.distribution import noise_like, uniform_like
from adjoint.distributions.narrow import in_double
from adjoint.doors.classes import Door, Names, Sections, arguments_of
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


class Distributions(Sections):
    """The table of distributions."""

    def texts(self, row: DoorRow, words: Mapping[str, Any]) -> Iterator[tuple[DoorRow, str]]:
        others = self.rows(row.section.partition(".")[0])
        classes = {name: f"__getattr__({name!r})" for name in others}  # made when asked for
        bases = [words[base] for base in self.bases(row)]
        written = _Text(row, bases, self.members(row), words, classes)
        yield from ((row, text) for text in written.of_class())
        yield from ((member, written.of_member(member)) for member in written.members.values())


door: Door = Distributions(TABLE, globals(), WORDS).door


class _Text:
    """The text of one class."""

    def __init__(
        self,
        row: DoorRow,
        bases: list[type],
        members: Mapping[str, DoorRow],
        words: Mapping[str, Any],
        classes: Mapping[str, str],
    ) -> None:
        self.row, self.members, self.words, self.classes = row, members, words, classes
        _, constructs, signature = (row.signature or "").partition(")(")
        self.arguments = arguments_of(signature) if constructs else None
        kinds = {a.arg: a.annotation for a in arguments_of(signature).args if a.annotation}
        self.constraints = {n: k for n, k in kinds.items() if _root(k) in constraints.__all__}
        self.held = [n for n in self.constraints if n not in members]
        self.kept = [n for n in kinds if n not in self.constraints]
        known = {*members, *self.held, *self.kept}.union(*map(_names_of, bases))
        self.attributes = {name: f"self.{name}" for name in known}

    def of_class(self) -> Iterator[str]:
        """What the row of the class itself says."""
        yield from self._facts()
        if self.arguments is not None:
            yield self._constructor(self.arguments)

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
        places = {n: f"constraints.{n}" for n in constraints.__all__} | self.attributes
        names = Names(places, self.words, "ops")
        found = names.text(text)
        if not names.used & self.attributes.keys():
            return f"{name}: {'ClassVar[Any]' if name == 'arg_constraints' else 'Any'} = {found}"
        if name == "arg_constraints":
            return f"@property\ndef {name}(self) -> dict[str, Constraint]:\n    return {found}"
        region = found.partition("(")[0]
        facts = f"is_discrete={region}.is_discrete, event_dim={region}.event_dim"
        head = f"@constraints.dependent_property({facts})\ndef {name}(self) -> Constraint:"
        return f"{head}\n    return {found}"

    def _constructor(self, arguments: ast.arguments) -> str:
        """The text of `__init__`."""
        lines = [f"self.{name} = {name}" for name in self.kept]
        if self.held:
            lines.append(f"self._hold(validate_args, {', '.join(f'{n}={n}' for n in self.held)})")
        if self.row.expression:
            given = {a.arg for a in arguments.args} - {*self.held} | {"validate_args"}
            call = f"super().__init__({self.row.expression}, validate_args)"
            lines.append(self._names().text(call, given))
        for argument in arguments.args[1:]:
            if argument.arg not in self.kept:
                argument.annotation = ast.Name("Any")
        signature = f"{ast.unparse(arguments)}, validate_args: bool | None = None"
        return "\n    ".join([f"def __init__({signature}) -> None:", *lines])

    def of_member(self, row: DoorRow) -> str:
        """A constant of the class, a property, or a method where the row has brackets."""
        if row.name in ("arg_constraints", "domain", "codomain"):
            return self._constraint(row.name, row.expression)
        own, names = arguments_of(row.signature or ""), self._names()
        head, text = _split(row.expression)
        *lines, result = names.text(text, (a.arg for a in own.args)).split("\n")
        if row.signature is None and not names.used & self.attributes.keys():
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

    def _names(self) -> Names:
        return Names({**self.classes, **self.attributes}, self.words, "ops")


def _split(expression: str) -> tuple[list[str], str]:
    """What a row says before its statements, `in_double` or a docstring, and the statements."""
    body = ast.parse(expression).body
    before = list(takewhile(_stands_before, body[:-1]))
    rest = body[len(before) :]
    return [ast.unparse(part) for part in before], "\n".join(map(ast.unparse, rest))


def _stands_before(statement: ast.stmt) -> bool:
    value = statement.value if isinstance(statement, ast.Expr) else None
    return isinstance(value, ast.Constant) or getattr(value, "id", None) == "in_double"


def _root(kind: ast.expr) -> str:
    """The name that a type or a constraint begins with: "less_than" of less_than(high)."""
    return ast.unparse(kind).partition("(")[0]


def _names_of(base: type) -> set[str]:
    """The attributes of the instances of a class that it names."""
    return {
        *dir(base),
        *(n for kind in base.__mro__ for n in vars(kind).get("__annotations__", ())),
    }
