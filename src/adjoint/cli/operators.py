"""The table's words on an operator: `adjoint ops`, `adjoint show`."""

from __future__ import annotations

import fnmatch
import os
from collections.abc import Iterator
from pathlib import Path

from adjoint.core.errors import MissingOperator
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
        yield f"{name:{width}}  {TABLE.family(name):14} {overloads}"
    yield f"{len(names)} operators"


# -- show ------------------------------------------------------------------------------------------


def show(name: str) -> Iterator[str]:
    """Print the rows of an operator as they are written, and what follows for them."""
    for number, row in enumerate(rows_of(name)):
        if number:
            yield ""
        yield f"# {relative(row.where.path)}:{row.where.line}"
        yield from (
            f"{'- ' if column == 'name' else '  '}{column}: {text}"
            for column, text in row.texts.items()
        )
        yield from (f"  # {fact}" for fact in follows(row))


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
