"""The table of results in docs/benchmarks.md as a chart: each tool's time over ours.

`make bench` draws its own results (benchmarks/plot.py); the page shows the numbers that it quotes.
"""

from __future__ import annotations

import math
import re
from html import escape

from adjoint.core.svg import element

COLOURS = {"JAX": "#3b6ad8", "torch.compile": "#e08a1e", "hand-written C": "#2aa172"}
LEFT, RIGHT, TOP, BAR = 230.0, 700.0, 44.0, 12.0
LOW, HIGH = -0.7, 1.5  # powers of ten: from 0.2 to 30 times our time
Line = tuple[str, dict[str, float]]


def results(page: str) -> list[Line]:
    """The lines of the table: ("RK4, 1000 steps", {"adjoint": 0.052, "JAX": 1.1, …}).

    >>> results("| value and gradient | adjoint | JAX |\\n| --- | --- | --- |\\n| RK4 | 2 | – |")
    [('RK4', {'adjoint': 2.0})]
    """
    lines = [line for line in page.splitlines() if line.startswith("|")]
    start = next(i for i, line in enumerate(lines) if line.startswith("| value and gradient"))
    heads = _cells(lines[start])[1:]
    found: list[Line] = []
    for line in lines[start + 2 :]:
        name, *cells = _cells(line)
        times = {h: _number(c) for h, c in zip(heads, cells, strict=True) if _number(c) is not None}
        found.append((name, {h: t for h, t in times.items() if t is not None and "/" not in h}))
    return found


def _cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip("|").split("|")]


def _number(text: str) -> float | None:
    return float(text) if re.fullmatch(r"[\d.]+", text) else None


def chart(lines: list[Line]) -> str:
    """Bars to the right of 1: we are faster. Bars to the left: the other one is."""
    parts, top = [], TOP
    for name, times in lines:
        others = {tool: times[tool] / times["adjoint"] for tool in COLOURS if tool in times}
        middle = top + BAR * len(others) / 2 + 4
        parts.append(element("text", name, x=LEFT - 10, y=middle, text_anchor="end"))
        for tool, ratio in others.items():
            start, end = sorted((_place(1.0), _place(ratio)))
            width = max(end - start, 1.5)
            parts.append(
                element("rect", x=start, y=top, width=width, height=BAR - 2, fill=COLOURS[tool])
            )
            at, anchor = (end + 5, "start") if ratio >= 1 else (start - 5, "end")
            parts.append(
                element(
                    "text",
                    f"{ratio:.2g}×",
                    x=at,
                    y=top + BAR - 2,
                    text_anchor=anchor,
                    class_="note",
                )
            )
            top += BAR
        top += BAR
    return _whole(parts, top)


def _whole(parts: list[str], bottom: float) -> str:
    frame: list[str] = []
    for ratio in (0.3, 1.0, 3.0, 10.0, 30.0):
        x, kind = _place(ratio), "one" if ratio == 1 else "grid"
        frame.append(element("line", x1=x, x2=x, y1=TOP - 8, y2=bottom, class_=kind))
        frame.append(element("text", f"{ratio:g}×", x=x, y=bottom + 14, text_anchor="middle"))
    for number, (tool, colour) in enumerate(COLOURS.items()):
        left = LEFT + 130 * number
        frame.append(element("rect", x=left, y=12.0, width=10, height=10, fill=colour))
        frame.append(element("text", tool, x=left + 15, y=21.0))
    box = f"0 0 {RIGHT + 50:g} {bottom + 24:g}"
    label = escape("Time of value and gradient over ours")
    head = f'<svg viewBox="{box}" role="img" aria-label="{label}">'
    return "\n".join([head, *frame, *parts, "</svg>"])


def _place(ratio: float) -> float:
    power = min(max(math.log10(ratio), LOW), HIGH)
    return LEFT + (power - LOW) / (HIGH - LOW) * (RIGHT - LEFT)


def with_chart(page: str) -> str:
    """The page with a chart before its table of results."""
    mark = "## Results\n"
    figure = f'```{{raw}} html\n<figure class="chart">{chart(results(page))}</figure>\n```\n'
    remark = "Each tool's time for value and gradient over ours. Right of 1×: adjoint is faster.\n"
    return page.replace(mark, f"{mark}\n{remark}\n{figure}", 1)
