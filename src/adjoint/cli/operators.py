"""The table's words on an operator: `adjoint ops`, `adjoint show`."""

from __future__ import annotations

import argparse
import fnmatch
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import adjoint as ad
from adjoint.cli import functions
from adjoint.cli.parser import FAMILY, OPERATOR, add_command, completes
from adjoint.cli.terminal import paint
from adjoint.core.errors import MissingOperator
from adjoint.graph.ir import Graph
from adjoint.ops.operator import Operator
from adjoint.table import TABLE
from adjoint.table.rows import Row


def rows_of(name: str) -> list[Row]:
    """Return the rows of `tanh`, of one overload `add.Tensor`, or of the row behind `add_`."""
    base, _, overload = name.partition(".")
    if base not in TABLE and base.endswith("_") and base[:-1] in TABLE:
        base = base[:-1]
    rows = [TABLE.row(base, o) for o in TABLE.overloads(base)]
    return [TABLE.row(base, overload)] if overload else rows


# -- ops -------------------------------------------------------------------------------------------


def add_ops(commands: Any) -> None:
    """Describe `adjoint ops`."""
    made = add_command(
        commands, "ops", "list the operators",
        examples=("adjoint ops norm", "adjoint ops 'linalg_*'", "adjoint ops --family fft"),
    )  # fmt: skip
    completes(
        made.add_argument(
            "pattern", nargs="?", default="*", help="a part of the name, or with * and ?"
        ),
        OPERATOR,
    )
    completes(made.add_argument("--family", help="only this family, for instance linalg"), FAMILY)
    completes(
        made.add_argument(
            "--show", metavar="NAME", help="print the rows of NAME, as `adjoint show`"
        ),
        OPERATOR,
    )
    made.add_argument("--names", action="store_true", help="print the names alone")
    made.add_argument("--families", action="store_true", help="print the families alone")
    made.set_defaults(run=run_ops)


def run_ops(args: argparse.Namespace) -> Iterator[str]:
    """List operators, or what there is of them."""
    if args.show:
        return show(args.show)
    if args.names:
        return iter(TABLE.names())
    if args.families:
        return iter(dict.fromkeys(map(TABLE.family, TABLE.names())))
    return listing(args.pattern, args.family)


def listing(pattern: str, family: str | None) -> Iterator[str]:
    """List operators whose name contains or matches `pattern`, with their overloads and family."""
    if not any(c in pattern for c in "*?["):
        pattern = f"*{pattern}*"
    names = [
        name
        for name in sorted(TABLE.names())
        if fnmatch.fnmatch(name, pattern) and family in (None, TABLE.family(name))
    ]
    if not names:
        raise MissingOperator(
            f"no operator matches {pattern!r}" + (f" in {family}" if family else "")
        )
    width = min(max(map(len, names)), 40)
    for name in names:
        overloads = " ".join(o or "default" for o in TABLE.overloads(name))
        family_text = paint(f"{TABLE.family(name):14}", "dim")
        yield f"{paint(f'{name:{width}}', 'bold')}  {family_text} {overloads}"
    yield f"{len(names)} operators"


# -- show ------------------------------------------------------------------------------------------


def add_show(commands: Any) -> None:
    """Describe `adjoint show`."""
    made = add_command(
        commands, "show", "print the rows of an operator, or of those that a function uses",
        examples=(
            "adjoint show tanh",
            "adjoint show add.Tensor",
            "adjoint show model.py:loss --at 'f32[3]'",
        ),
    )  # fmt: skip
    completes(
        made.add_argument("name", metavar="NAME", help="or FILE:FUNCTION, with --at"), OPERATOR
    )
    functions.add_point(made)
    made.set_defaults(run=run_show)


def run_show(args: argparse.Namespace) -> Iterator[str]:
    """Print the rows of an operator, or of those that a function in a file calls."""
    if not functions.is_function(args.name):
        return show(args.name)
    rows = (node.op.row for node in traced(args).nodes if isinstance(node.op, Operator))
    return show_rows({row.full_name: row for row in rows}.values())


def traced(args: argparse.Namespace) -> Graph:
    """The graph of a function in a file that stands where an operator could."""
    args.function = args.name
    function, point = functions.given(args)
    return ad.trace(function, *point)


def show(name: str) -> Iterator[str]:
    """Print the rows of an operator as they are written, and what follows for them."""
    return show_rows(rows_of(name))


def show_rows(rows: Iterable[Row]) -> Iterator[str]:
    """Print rows."""
    for number, row in enumerate(rows):
        if number:
            yield ""
        yield paint(f"# {relative(row.where.path)}:{row.where.line}", "dim")
        yield from (
            f"{'- ' if column == 'name' else '  '}{paint(column, 'blue')}: {text}"
            for column, text in row.texts.items()
        )
        yield from (paint(f"  # {fact}", "dim") for fact in follows(row))


def follows(row: Row) -> Iterator[str]:
    """Say what a row gets without writing it down."""
    if row.decompose and not row.reverse:
        yield "derivatives in both modes follow from the decomposition"
    elif row.reverse and not row.forward:
        yield "forward mode is derived from the reverse formulas"
    elif row.forward and not row.reverse:
        yield "reverse mode is derived from the forward formula"
    if row.inplace:
        yield f"{row.name}_ follows"


def relative(path: str) -> str:
    """Write a path relative to here if that is shorter."""
    relative = os.path.relpath(path)
    return relative if len(relative) < len(path) else str(Path(path))
