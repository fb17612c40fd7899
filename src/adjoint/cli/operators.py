"""What the table says of an operator: `adjoint ops`, `adjoint show`, `adjoint where`."""

from __future__ import annotations

import ast
import fnmatch
import importlib
import inspect
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from adjoint.core.errors import MissingOperator
from adjoint.table import TABLE
from adjoint.table.rows import Row
from adjoint.testing.samples import automatic, samplers_of

Place = tuple[str, str]  # ("kernel", "src/adjoint/kernels/matmul.py:31 mm")

# Columns that name functions, and the layer the functions live in. All others are formulas.
_LAYERS = {
    "kernel": "kernels",
    "shape": "shapes",
    "decompose": "decompositions",
    "batch": "batching",
}
_PLAIN = frozenset(("name", "like", "promote", "inplace", "doc", "domain", "dispatch"))


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
        yield from (f"  # {fact}" for fact in _facts(row))


def _facts(row: Row) -> Iterator[str]:
    """Say what a row gets without writing it down."""
    if row.decompose and not row.reverse:
        yield "derivatives in both modes follow from the decomposition"
    elif row.reverse and not row.forward:
        yield "forward mode is derived from the reverse formulas"
    elif row.forward and not row.reverse:
        yield "reverse mode is derived from the forward formula"
    if row.inplace:
        yield f"{row.name}_ follows"


# -- where -----------------------------------------------------------------------------------------


def where(name: str) -> Iterator[str]:
    """Print every place an operator lives: row, kernel, formulas, shape rule, samples."""
    for number, row in enumerate(rows_of(name)):
        if number:
            yield ""
        yield row.full_name
        places = list(places_of(row))
        width = max(len(what) for what, _ in places)
        yield from (f"  {what:{width}}  {place}" for what, place in places)


def places_of(row: Row) -> Iterator[Place]:
    """Yield what a row consists of and where each part is."""
    yield "row", f"{relative(row.where.path)}:{row.where.line}"
    for column, text in row.texts.items():
        if column in _PLAIN:
            continue
        layer = _LAYERS.get(column, "formulas")
        line = f"{relative(row.where.path)}:{row.lines.get(column, row.where.line)}"
        named = dict.fromkeys(_functions(text, layer))
        yield from ((column, place) for place in named or [f"{line} {text}"])
    if row.archetype.shape and not row.shape:
        yield "shape", f"archetype {row.archetype.name}"
    yield from (("samples", place) for place in _samples(row))


def _functions(text: str, layer: str) -> Iterator[str]:
    """Yield the places of the functions that a column names: `matmul.mm`, `xp.tanh`."""
    try:
        tree = ast.parse(text.strip(), mode="eval")
    except SyntaxError:
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            if node.value.id == "xp":
                function = getattr(np, node.attr, None)
                yield f"NumPy: np.{node.attr}{' (ufunc)' if isinstance(function, np.ufunc) else ''}"
            elif function := _find(f"adjoint.{layer}.{node.value.id}", node.attr):
                yield function


def _find(module: str, name: str) -> str:
    """Return 'path:line name' of a function of ours, or ''."""
    try:
        function = getattr(importlib.import_module(module), name, None)
    except ModuleNotFoundError:
        return ""
    return f"{_line_of(function)} {name}" if function is not None else ""


def _line_of(function: Any) -> str:
    function = inspect.unwrap(function)
    try:
        path, (_, line) = inspect.getfile(function), inspect.getsourcelines(function)
    except (TypeError, OSError):  # a ufunc or a partial has no source
        return repr(function)
    return f"{relative(path)}:{line}"


def _samples(row: Row) -> Iterator[str]:
    if row.archetype.promotes:
        yield f"{_line_of(automatic.samples)} samples (of every {row.archetype.name} row)"
    for entry in samplers_of(row):
        yield f"{_line_of(entry.function)} {entry.function.__name__}"


def relative(path: str) -> str:
    """Write a path relative to here if that is shorter."""
    relative = os.path.relpath(path)
    return relative if len(relative) < len(path) else str(Path(path))
