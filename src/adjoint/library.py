"""Tables of users' own: `ad.library("my_ops.yaml", kernels=module)` adds rows to the table.

Such rows get all that the built-in ones have: functions, methods, both modes of differentiation,
gradients of gradients, in-place variants, shape rules and checks. A library adds operators and
changes none. docs/library_files.md says what a file can and cannot do.
"""

from __future__ import annotations

import math
import os
from collections import Counter
from typing import Any

import adjoint
from adjoint.calls import checking
from adjoint.core.errors import TableError
from adjoint.expressions import rows as elements
from adjoint.ops import operator as operators
from adjoint.ops.operator import Packet, packet
from adjoint.table import FAMILIES, TABLE, read
from adjoint.table import formula as language
from adjoint.table.reading import Mistakes, Source, load
from adjoint.table.rows import Row
from adjoint.tensor.tensor import Offer, Tensor, offer


def library(path: str | os.PathLike[str], kernels: Any = None) -> list[Any]:
    """Add the rows of a YAML file; returns their operators.

    In the rows, `<file name>.<function>` means a function of the module (or any object) `kernels`,
    in the columns `kernel`, `shape`, `batch` and `decompose` alike. All rows are parsed and checked
    at once; mistakes raise one `TableError` that tells each with `file:line:column`, and nothing is
    added.
    """
    file = os.fspath(path)
    family, _ = os.path.splitext(os.path.basename(file))
    if family == "xp" or family in FAMILIES:
        raise TableError(f"{file}: {family!r} is a family of adjoint's own; rename the file")
    taken = _taken()
    added = TABLE.add_file(file, family, read(file), kernels)
    try:
        _check(added, taken)
    except BaseException:
        TABLE.remove(added)
        for source in added:
            if (
                source.name not in TABLE
            ):  # a row that took the name of one of ours leaves ours alone
                operators.forget(source.name)
        raise
    offer(s.name for s in added)
    return [packet(name) for name in dict.fromkeys(s.name for s in added)]


def _taken() -> frozenset[str]:
    """Names that mean something already: operators, attributes of tensors, functions of adjoint."""
    own = (vars(kind).items() for kind in Tensor.__mro__)
    of_tensors = (name for items in own for name, what in items if type(what) is not Offer)
    return frozenset((*TABLE.names(), *of_tensors, *dir(adjoint)))


def _check(added: list[Source], taken: frozenset[str]) -> None:
    mistakes = Mistakes()
    rows: list[Row] = []
    for source in added:
        with mistakes.gathered():
            _check_name(source, taken)
        with mistakes.gathered():
            rows.append(load(source))
        if mistakes.enough:
            break
    mistakes.found += _circles(rows)
    for row in rows:
        with mistakes.gathered():
            _check_derived_name(row, taken)
        with mistakes.gathered():
            checking.check_text(row)
        mistakes.found += elements.check(row)
        if mistakes.enough:
            break
    mistakes.told()
    for row in rows:
        with mistakes.gathered():
            checking.check_functions(TABLE.row(row.name, row.schema.overload))
    mistakes.told()


def _check_name(source: Source, taken: frozenset[str]) -> None:
    where = f"{source.where}:9"
    follows = source.name.endswith("_") and source.name[:-1] in taken  # sin_ follows from sin
    if source.name in taken or follows:
        raise TableError(
            f"{where}: {source.name!r} has a meaning already; call the operator something else"
        )
    if source.overload == "default" or source.overload in dir(Packet("")):
        raise TableError(f"{where}: an overload cannot be called {source.overload!r}")


def _check_derived_name(row: Row, taken: frozenset[str]) -> None:
    name = f"{row.name}_"
    if row.inplace and name in taken:
        raise TableError(
            f"{row.place('name')}: {name!r}, the in-place variant, has a meaning already; write "
            "`inplace: False`, or call the operator something else"
        )


def _circles(rows: list[Row]) -> list[str]:
    """Operators that are decomposed into themselves, or through too many others.

    Several overloads of a name may be made of one another, and are told apart when they are called.
    """
    counts = Counter(r.name for r in rows)
    uses = {r.name: _operators_in(r) for r in rows if r.decompose and counts[r.name] == 1}
    heights: dict[str, float] = {}
    for name in uses:
        waiting = [name]
        while waiting:
            top = waiting[-1]
            inner = [n for n in uses.get(top, ()) if n in uses]
            if top not in heights:
                heights[top] = math.inf  # until its parts are known: they are below it
                waiting += [n for n in inner if n not in heights]
            else:
                waiting.pop()
                heights[top] = 1 + max((heights[n] for n in inner), default=0.0)
    return [
        f"{row.place('decompose')}: {row.name} is decomposed into itself, or through more than "
        f"{_HIGHEST} operators"
        for row in rows
        if heights.get(row.name, 0) > _HIGHEST
    ]


_HIGHEST = 50


def _operators_in(row: Row) -> frozenset[str]:
    if row.names_decomposition:
        return frozenset((row.maps,))
    mistakes = Mistakes()
    with mistakes.gathered():
        tree = language.expression(row.decompose, row.place("decompose"))
        return language.names_used(tree, row.schema.names) | language.methods_used(tree)
    return frozenset()
