"""The table of results in docs/benchmarks.md as a chart, drawn as `make bench` draws its own."""

from __future__ import annotations

import itertools
import re

from benchmarks import plot
from benchmarks.runner import Measured, Options, Result

TOOLS = ("adjoint", "JAX", "torch.compile", "hand-written C")
PICTURE = "pictures/benchmarks.svg"


def results(page: str) -> list[Result]:
    """The lines of the first table, as a run of the benchmarks has them.

    >>> page = "| value and gradient | adjoint |\\n| --- | --- |\\n| RK4, 1000 steps | 2 |"
    >>> [(r.title, r.case, r.tools["adjoint"].gradient) for r in results(page)]
    [('RK4', '1000 steps', 2.0)]
    """
    lines = page.splitlines()
    start = next(i for i, line in enumerate(lines) if line.startswith("| value and gradient"))
    heads = _cells(lines[start])[1:]
    rows = itertools.takewhile(lambda line: line.startswith("|"), lines[start + 2 :])
    return [_result(heads, *_cells(line)) for line in rows]


def _result(heads: list[str], name: str, *cells: str) -> Result:
    title, _, case = name.partition(", ")
    times = zip(heads, cells, strict=True)
    known = {tool: float(time) for tool, time in times if re.fullmatch(r"[\d.]+", time)}
    measured = {tool: Measured(gradient=known[tool]) for tool in TOOLS if tool in known}
    return Result("", title, case, None, measured)


def _cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip("|").split("|")]


def chart(page: str) -> str:
    """The picture."""
    return plot.bars(results(page), Options(TOOLS))


def with_chart(page: str) -> str:
    """The page with the picture before its table of results."""
    image = f'<img src="{PICTURE}" alt="Each tool\'s time over ours">'
    figure = f'```{{raw}} html\n<figure class="chart">{image}</figure>\n```\n'
    return page.replace("## Results\n", f"## Results\n\n{figure}", 1)
