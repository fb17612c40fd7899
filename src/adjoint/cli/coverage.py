"""How much of the table is written down and how much follows: `adjoint coverage`.

Every row has a value, a derivative in both modes, a shape and a batch, from one of a few sources.
This counts which, by family, and names the rows where the answer is a slow way or none.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

from adjoint.cli.parser import FAMILY, add_command, completes
from adjoint.core.errors import MissingOperator
from adjoint.table import TABLE
from adjoint.table.rows import Row
from adjoint.transforms.batch import rule_of


def _value(row: Row) -> str:
    if row.kernel:
        return "kernel and decomposition" if row.decompose else "kernel"
    return "decomposition"


def _reverse(row: Row) -> str:
    if any(r.word == "not_implemented" for r in row.reverse):
        return "not written yet"
    if any(r.formula for r in row.reverse):
        return "formula"
    if row.forward:
        return "derived from forward"
    return _without_formula(row)


def _forward(row: Row) -> str:
    if row.forward:
        return "formula"
    if any(r.formula for r in row.reverse):
        return "derived from reverse"
    return _without_formula(row)


def _without_formula(row: Row) -> str:
    """Rows of a kernel alone make integers, truth values or new tensors."""
    return "decomposition" if row.decompose and not row.reverse else "not differentiable"


def _shape(row: Row) -> str:
    if row.shape:
        return "own rule"
    if row.archetype.shape:
        return "archetype"
    return "decomposition" if row.decompose else "missing"


def _batching(row: Row) -> str:
    kind, _ = rule_of(row)
    return {"own": "own rule"}.get(kind, kind)


# What a row has, and from where: in the order in which it is printed.
QUESTIONS: dict[str, Callable[[Row], str]] = {
    "value": _value,
    "reverse": _reverse,
    "forward": _forward,
    "shape": _shape,
    "batching": _batching,
}

# Answers that ask for work; the rows that give them are named.
WANTING = ("not written yet", "missing", "loop")


def add_coverage(commands: Any) -> None:
    """Describe `adjoint coverage`."""
    made = add_command(
        commands, "coverage", "count what the rows have, by family",
        examples=("adjoint coverage", "adjoint coverage --family linalg"),
    )  # fmt: skip
    completes(made.add_argument("--family", help="only this family, for instance linalg"), FAMILY)
    made.set_defaults(run=lambda args: report(args.family))


def report(family: str | None = None) -> Iterator[str]:
    """Print the table of counts, and the rows that want work."""
    rows = [r for r in TABLE.rows() if family in (None, r.family)]
    if not rows:
        known = ", ".join(dict.fromkeys(r.family for r in TABLE.rows()))
        raise MissingOperator(f"there is no family {family!r}; there are {known}")
    families = list(dict.fromkeys(r.family for r in rows))
    columns = [*families, "total"] if len(families) > 1 else families
    lines: list[list[Any]] = [["", *columns], ["rows", *_counts([r.family for r in rows], columns)]]
    for question, answer in QUESTIONS.items():
        found = [(answer(r), r.family) for r in rows]
        lines.append([question, *[""] * len(columns)])
        for kind, _ in Counter(a for a, _ in found).most_common():
            lines.append([f"  {kind}", *_counts([f for a, f in found if a == kind], columns)])
    widths = [max(len(str(line[i])) for line in lines) for i in range(len(columns) + 1)]
    for first, *rest in lines:
        cells = [f"{cell:>{width}}" for cell, width in zip(rest, widths[1:], strict=True)]
        yield f"{first:{widths[0]}}  {'  '.join(cells)}".rstrip()
    yield ""
    yield from _wanting(rows)


def _counts(families: list[str], columns: list[str]) -> list[int | str]:
    count = Counter(families)
    return [(count.total() if c == "total" else count[c]) or "·" for c in columns]


def _wanting(rows: list[Row]) -> Iterator[str]:
    complete = True
    for question, answer in QUESTIONS.items():
        for kind in WANTING:
            if names := [r.full_name for r in rows if answer(r) == kind]:
                complete = False
                yield f"{question}: {kind}: {', '.join(names)}"
    if complete:
        yield "every row has all of them, and none runs as a loop"
