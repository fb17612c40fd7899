"""Optimisers that are one formula: classes made from the rows of doors/torch/optimizers.txt.

The head of the table explains the rows; the home of a class is a file of this folder.
"""

from __future__ import annotations

import ast
import os
import textwrap
from collections.abc import Iterator, Mapping
from typing import Any

from adjoint import doors, ops
from adjoint.doors.classes import Door, Names, Sections, arguments_of
from adjoint.doors.rows import DoorRow
from adjoint.optim.formulas import FormulaOptimizer, Numbers, Scalars, decoupled, filled
from adjoint.optim.options import Options

TABLE = os.path.join(os.path.dirname(doors.__file__), "torch", "optimizers.txt")
# The words of all rows; a file has those of its own rows.
WORDS: Mapping[str, Any] = {
    "Any": Any,
    "FormulaOptimizer": FormulaOptimizer,
    "Numbers": Numbers,
    "Options": Options,
    "Scalars": Scalars,
    "decoupled": decoupled,
    "filled": filled,
    "ops": ops,
}


class Optimizers(Sections):
    """The table of optimisers."""

    def texts(self, row: DoorRow, words: Mapping[str, Any]) -> Iterator[tuple[DoorRow, str]]:
        written = _Text(row, self.members(row), words)
        others = self.rows(row.section.partition(".")[0])
        yield row, written.constructor([base for base in self.bases(row) if base in others])
        if row.expression:
            yield row, written.checks()
        for member in written.members.values():
            yield member, written.of_member(member)


door: Door = Optimizers(TABLE, globals(), WORDS).door


class _Text:
    """The text of one class."""

    def __init__(
        self, row: DoorRow, members: Mapping[str, DoorRow], words: Mapping[str, Any]
    ) -> None:
        self.row, self.members, self.words = row, members, words
        _, _, self.signature = (row.signature or "").partition(")(")
        arguments = arguments_of(self.signature)
        options = (*arguments.args[2:], *arguments.kwonlyargs)  # without self and params
        self.options = [argument.arg for argument in options]

    def constructor(self, made: list[str]) -> str:
        """The text of `__init__`, which passes over that of a base that is `made` of a row, too."""
        head = f"def __init__(self, {self.signature}) -> None:"
        above = f"super({made[0]}, self)" if made else "super()"
        return f"{head}\n    {above}.__init__(params, locals())"

    def checks(self) -> str:
        """The rules of the options: `condition or message` of the class's row."""
        pairs: list[str] = []
        for rule in ast.parse(self.row.expression).body:
            assert isinstance(rule, ast.Expr)
            assert isinstance(rule.value, ast.BoolOp)
            *conditions, message = map(ast.unparse, rule.value.values)
            condition = self._of_options("options").text(" or ".join(conditions), ("options",))
            pairs.append(f"(lambda options: {condition}, {message})")
        return f"checks = ({', '.join(pairs)},)"

    def of_member(self, row: DoorRow) -> str:
        """A method, or a constant of the class."""
        if row.name == "numbers":
            return self._numbers(row)
        if row.name == "formula":
            return self._formula(row)
        names = self._of_options("group")
        arguments = "group: Options" if row.signature is None else row.signature
        *lines, result = names.text(row.expression, _names_in(arguments)).split("\n")
        if row.signature is not None or names.used:
            return _method(
                row.name, f"self, {arguments}", row.returns, [*lines, f"return {result}"]
            )
        name = "slot_names" if row.name == "slots" else row.name
        return f"{name}: Any = {result}"

    def _numbers(self, row: DoorRow) -> str:
        """The method `numbers`, whose arguments in the row are the scalar state."""
        state = f"({row.signature},)" if row.signature else "()"
        names = self._of_options("group")
        *lines, result = names.text(row.expression, _names_in(f"group, {row.signature}")).split(
            "\n"
        )
        scalars = self.members.get("initial_scalars")
        kept = "()" if scalars is not None and scalars.expression == "{}" else state
        body = [f"{state} = scalars", *lines, f"return {result}, {kept}"]
        arguments = "self, group: Options, scalars: Scalars"
        return _method(row.name, arguments, "tuple[Numbers, Scalars]", body)

    def _formula(self, row: DoorRow) -> str:
        """The method `formula`, whose arguments in the row are the state of each element."""
        *_, made = ast.parse(self.members["numbers"].expression).body
        assert isinstance(made, ast.Expr)
        assert isinstance(made.value, ast.Call)
        places = {k.arg: f"n.{k.arg}" for k in made.value.keywords if k.arg}
        arguments = "xp: Any, n: Any, p: Any, g: Any, *state: Any"
        given = _names_in(f"xp, n, p, g, {row.signature}")
        *lines, result = Names(places, self.words, "xp").text(row.expression, given).split("\n")
        body = [f"[{row.signature}] = state", *lines, f"return {result}"]
        return f"@staticmethod\n{_method(row.name, arguments, 'tuple[Any, ...]', body)}"

    def _of_options(self, group: str) -> Names:
        """Names of options as entries of a group."""
        return Names({name: f"{group}[{name!r}]" for name in self.options}, self.words, "ops")


def _names_in(arguments: str) -> list[str]:
    """The names of arguments, self among them."""
    return [n.arg for n in ast.walk(arguments_of(arguments)) if isinstance(n, ast.arg)]


def _method(name: str, arguments: str, returns: str, lines: list[str]) -> str:
    body = textwrap.indent("\n".join(lines), "    ")
    return f"def {name}({arguments}) -> {returns}:\n{body}"
