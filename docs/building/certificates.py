"""Certificates on the site: a section on the page of each operator, and the table of all of them.

`python -m docs.building.certificates` writes the table into docs/certificates.md, from the ledger.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Sequence
from html import escape
from pathlib import Path

import numpy as np

from adjoint.graph.svg import element
from adjoint.testing.certificates import ledger, measuring
from adjoint.testing.certificates.subjects import Subject

ROOT = Path(__file__).parents[2]
LEDGER = ROOT / "tests" / "stored" / "certificates.txt"
PAGE = ROOT / "docs" / "certificates.md"
BEGIN, END = "<!-- table -->\n", "<!-- end of table -->"
BOUNDS = (4.0, 16.0, 1000.0, math.inf)
ORDERS = ("value", "first", "second", "third")
SHOWN = {
    "float64": "adjoint", "float64 torch": "PyTorch", "float64 jax": "JAX",
    "float32": "adjoint, float32", "float32 torch": "PyTorch, float32",
    "float32 jax": "JAX, float32", "float16": "adjoint, float16", "bfloat16": "adjoint, bfloat16",
    "float64 condition": "vectors and matrices, ε κ", "float32 condition": "the same, float32",
    "symbols": "formula and definition, by SymPy",
}  # fmt: skip
Lines = dict[ledger.Key, ledger.Line]


# -- the table of all ------------------------------------------------------------------------------


def summary(lines: Lines) -> str:
    """How many cells are how good, as a table in Markdown.

    >>> entry = ledger.Entry(2.0, "eager reverse", 0.5)
    >>> print(summary({("tanh(x)", "float64"): (entry, entry)}).splitlines()[2])
    | adjoint | value | 1 | 0 | 0 | 0 |
    """
    head = (
        "| | order | ≤ 4 ulp | ≤ 16 | ≤ 1000 | worse |\n| --- | --- | ---: | ---: | ---: | ---: |"
    )
    return "\n".join([head, *_counts(lines)]) + "\n"


def _counts(lines: Lines) -> Iterator[str]:
    for what, shown in SHOWN.items():
        mine = [line for (_, w), line in lines.items() if w == what]
        for number, order in enumerate(ORDERS):
            errors = [line[number].error for line in mine if len(line) > number]
            if errors:
                counts = " | ".join(map(str, counted(errors)))
                yield f"| {shown if not number else ''} | {order} | {counts} |"


def counted(errors: Iterable[float]) -> list[int]:
    """How many errors are within each bound and beyond the one before.

    >>> counted([0.5, 5.0, 1e9, float("inf")])
    [1, 1, 0, 2]
    """
    counts = [0] * len(BOUNDS)
    for error in errors:
        counts[next(i for i, bound in enumerate(BOUNDS) if error <= bound)] += 1
    return counts


def with_table(page: str, lines: Lines) -> str:
    """The page with a new table between its marks."""
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}{summary(lines)}{END}{after}"


# -- the section of an operator --------------------------------------------------------------------


def section(operator: str, lines: Lines) -> str:
    """What the page of an operator says of its certificates, as HTML; empty if it has none."""
    mine = [one for one in ledger.everything().values() if one.operator == operator]
    rows = [row for one in mine for row in _rows(one, lines)]
    if not rows:
        return ""
    head = ("function", "", *ORDERS, "worst at")
    cells = "".join(f"<tr>{''.join(f'<td>{c}</td>' for c in row)}</tr>" for row in rows)
    heads = "".join(f"<th>{cell}</th>" for cell in head)
    table = f'<table class="docutils numbers"><tr>{heads}</tr>{cells}</table>'
    said = (
        "<p>Largest error in ulp against proven enclosures, over all ways of computing; of vectors "
        "and matrices in units of ε times the condition; of formulas without rounding, 0 where "
        'SymPy proves them (<a href="../certificates.html">how</a>).</p>'
    )
    box = f'{said}<div class="table-wrapper docutils container">{table}</div>'
    scalar = [one for one in mine if isinstance(one, Subject)]
    return "\n".join([box, *(plot(subject) for subject in scalar[:1])])


def _rows(one: ledger.Certified, lines: Lines) -> Iterator[Sequence[str]]:
    name = f"<code>{escape(one.title)}</code>"
    for what, shown in SHOWN.items():
        line = lines.get((one.title, what))
        if line:
            worst = max(line, key=lambda entry: entry.error)
            numbers = [_number(entry.error) for entry in line]
            yield name, shown, *numbers, *[""] * (4 - len(numbers)), _place(worst.at)
            name = ""


def _place(at: float | str) -> str:
    return escape(at) if isinstance(at, str) else f"{at:.6g}"


def _number(error: float) -> str:
    return "NaN or ∞" if math.isinf(error) else f"{error:.1f}" if error < 1000 else f"{error:.0e}"


# -- the plot --------------------------------------------------------------------------------------

WIDTH, HEIGHT, LEFT, BOTTOM = 560.0, 200.0, 44.0, 24.0
TOP_ULP, LOW_ULP = 1e4, 0.05  # errors that are drawn; larger ones lie at the top
BUCKETS = 120


def plot(subject: Subject) -> str:
    """Errors in ulp over the argument, eagerly in reverse mode: one curve for each order."""
    measured = measuring.measure(subject, "float64", ["eager reverse"], search=False)
    if measured is None or not measured.profile:
        return ""
    places = {order: _places(points) for order, points in measured.profile.items()}
    parts = [*_frame()]
    for order in reversed(places):
        line = " ".join(f"{x:.1f},{y:.1f}" for x, y in places[order])
        parts.append(element("polyline", points=line, class_=f"curve c{order}"))
    for order, name in enumerate(ORDERS[: len(places)]):
        left = LEFT + 8 + 70 * order
        parts.append(
            element("line", x1=left, x2=left + 16, y1=12.0, y2=12.0, class_=f"curve c{order}")
        )
        parts.append(element("text", name, x=left + 20, y=16.0))
    label = f"errors of {subject.title} in ulp"
    head = f'<svg class="function" viewBox="0 0 {WIDTH:g} {HEIGHT:g}" role="img" aria-label="{escape(label)}">'  # fmt: skip # noqa: E501
    return "\n".join(['<figure class="function">', head, *parts, "</svg></figure>"])


def _places(points: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """The largest error of each stretch of arguments, on a scale of signed logarithms."""
    found: dict[int, float] = {}
    for x, error in points:
        bucket = round(_across(x) * BUCKETS)
        found[bucket] = max(found.get(bucket, LOW_ULP), min(error, TOP_ULP))
    span = HEIGHT - BOTTOM - 24.0
    scale = math.log(TOP_ULP / LOW_ULP)
    return [
        (
            LEFT + bucket / BUCKETS * (WIDTH - LEFT - 8),
            24 + span * math.log(TOP_ULP / error) / scale,
        )
        for bucket, error in sorted(found.items())
    ]


def _across(x: float) -> float:
    """Where an argument lies between 0 and 1: signed logarithms, 1 in the middle of each half.

    >>> [round(_across(x), 2) for x in (-1e308, -1.0, 0.0, 1.0, 1e308)]
    [0.0, 0.25, 0.5, 0.75, 1.0]
    """
    size = 0.0 if x == 0 else (1 + np.clip(math.log10(abs(x)) / 308, -1, 1)) / 2
    return 0.5 + math.copysign(size / 2, x)


def _frame() -> Iterator[str]:
    span = HEIGHT - BOTTOM - 24.0
    scale = math.log(TOP_ULP / LOW_ULP)
    for ulp in (0.5, 4.0, 16.0, 1000.0):
        y = 24 + span * math.log(TOP_ULP / ulp) / scale
        yield element("line", x1=LEFT, x2=WIDTH - 8, y1=y, y2=y, class_="grid")
        yield element("text", f"{ulp:g}", x=LEFT - 5, y=y + 4, text_anchor="end")
    for x in (-1e308, -1e100, -1.0, -1e-100, 0.0, 1e-100, 1.0, 1e100, 1e308):
        across = LEFT + _across(x) * (WIDTH - LEFT - 8)
        yield element("line", x1=across, x2=across, y1=24.0, y2=HEIGHT - BOTTOM, class_="grid")
        yield element("text", f"{x:g}", x=across, y=HEIGHT - BOTTOM + 14, text_anchor="middle")


def main() -> None:
    """Write the table into the page."""
    PAGE.write_text(with_table(PAGE.read_text(encoding="utf-8"), ledger.read(LEDGER)))
    marks = re.findall(r"^\| .*worse", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    print(f"{PAGE.relative_to(ROOT)}: {len(marks)} table")


if __name__ == "__main__":
    main()
