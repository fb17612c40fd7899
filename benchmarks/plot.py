"""A bar chart as SVG text: each tool's time over ours, on a logarithmic scale."""

from __future__ import annotations

import math

from adjoint.graph.svg import document, element
from benchmarks.runner import Options, Result

COLOURS = ("#4269d0", "#efb118", "#ff725c", "#6cc5b0", "#a463f2", "#97bbf5", "#9c6b4e")
LEFT, RIGHT, TOP = 290, 780, 56  # of the area with bars, in pixels
BAR, GAP, LEGEND = 11, 12, 96  # height of a bar, between workloads, width of a name
LOW, HIGH = -1.5, 3.5  # powers of ten
STYLE = "text{font:11px sans-serif;fill:#222}.n{font-size:9px;fill:#555}.t{font-size:14px}"
TITLE = "Time of value and gradient over adjoint's; right of 1×: adjoint is faster"


def place(ratio: float) -> float:
    """Where a ratio lies, in pixels."""
    power = min(max(math.log10(ratio), LOW), HIGH)
    return LEFT + (power - LOW) / (HIGH - LOW) * (RIGHT - LEFT)


def text(x: float, y: float, words: str, **attributes: str) -> str:
    return element("text", words, x=x, y=y, **attributes)


def rectangle(x: float, y: float, width: float, height: float, colour: str) -> str:
    return element("rect", x=x, y=y, width=width, height=height, fill=colour)


def group(result: Result, shown: list[str], top: float) -> tuple[list[str], float]:
    """The bars of one case, and where they end."""
    ours = result.tools["adjoint"].gradient
    ratios = {
        tool: measured.gradient / ours
        for tool in shown
        if (measured := result.tools.get(tool)) and measured.gradient and not measured.error
    }
    label = ", ".join(filter(None, (result.title, result.case)))
    lines = [text(LEFT - 8, top + BAR * len(ratios) / 2 + 4, label, text_anchor="end")]
    for tool, ratio in ratios.items():
        start, end = sorted((place(1), place(ratio)))
        colour = COLOURS[shown.index(tool) % len(COLOURS)]
        lines.append(rectangle(start, top, max(end - start, 1), BAR - 2, colour))
        lines.append(text(end + 4, top + BAR - 3, f"{ratio:.2g}×", class_="n"))
        top += BAR
    return lines, top + GAP


def grid(bottom: float) -> list[str]:
    lines = []
    for power in range(math.ceil(LOW), math.floor(HIGH) + 1):
        x, colour = place(10.0**power), "#333" if power == 0 else "#ddd"
        lines.append(element("line", x1=x, x2=x, y1=TOP - 6, y2=bottom, stroke=colour))
        lines.append(text(x, bottom + 14, f"{10.0**power:g}×", text_anchor="middle"))
    return lines


def bars(results: list[Result], options: Options) -> str:
    """The chart."""
    shown = [t for t in options.tools if t != "adjoint"]
    body: list[str] = []
    bottom: float = TOP
    for result in results:
        ours = result.tools.get("adjoint")
        if ours is not None and ours.gradient and not ours.error:
            lines, bottom = group(result, shown, bottom)
            body += lines
    legend = []
    for i, tool in enumerate(shown):
        legend.append(rectangle(LEFT + LEGEND * i, 28, 10, 10, COLOURS[i % len(COLOURS)]))
        legend.append(text(LEFT + LEGEND * i + 14, 37, tool))
    width, height = max(RIGHT, LEFT + LEGEND * len(shown)) + 60, bottom + 26
    named = text(12, 18, TITLE, class_="t")
    return document(width, height, STYLE, [named, *legend, *grid(bottom), *body])
