"""Pictures of functions of one real argument, with their first two derivatives, as SVG text.

Only rows with one tensor and numbers with defaults have one. Derivatives are ours: `ad.grad` twice.
Curves are cut where they leave the picture and where they jump; colours come from the style sheet
of the site, so that pictures follow its light and dark modes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

import numpy as np

import adjoint as ad
from adjoint.core.errors import AdjointError
from adjoint.graph.svg import element
from adjoint.table import TABLE
from adjoint.table.rows import Row

WIDTH, HEIGHT, MARGIN = 560.0, 280.0, 34.0
POINTS = 481
# The range that is drawn, by the domain of the row.
DOMAINS = {
    "": (-4.0, 4.0), "own": (-4.0, 4.0), "positive": (0.02, 5.0), "above_one": (1.005, 5.0),
    "unit": (-0.995, 0.995), "probability": (0.005, 0.995),
}  # fmt: skip
NAMES = ("f", "f′", "f″")
FAMILIES = ("pointwise", "special", "activation")
Array = np.ndarray[tuple[int], np.dtype[np.float64]]
Scale = Callable[[float], float]
Point = tuple[float, float]


def picture(name: str) -> str:
    """The picture of an operator; empty if it is no function of one real number."""
    row = TABLE.row(name, TABLE.overloads(name)[0])
    if not drawable(row):
        return ""
    x = np.linspace(*DOMAINS.get(row.domain, DOMAINS[""]), POINTS)
    try:
        curves = values(name, x)
    except (AdjointError, TypeError, ValueError):
        return ""
    return drawing(name, x, curves) if np.isfinite(curves[0]).sum() > POINTS // 4 else ""


def drawable(row: Row) -> bool:
    """Whether a row is a function of one tensor, element by element."""
    arguments = row.schema.arguments
    others = [a for a in arguments if not a.type.is_tensor]
    return (
        row.family in FAMILIES
        and not row.name.startswith("_")
        and not row.schema.mutates
        and len(arguments) - len(others) == 1
        and all(a.has_default for a in others)
        and len(row.schema.returns) == 1
        and not row.random
        and row.archetype.result != "bool"
    )


def values(name: str, x: Array) -> list[Array]:
    """A function and its first two derivatives; those that are 0 everywhere are left out."""
    point = ad.from_numpy(x.copy()).requires_grad_()
    result = getattr(ad.ops, name)(point)
    if result.shape != point.shape or not result.dtype.is_floating_point:
        raise ValueError(f"{name} is no function of one number")
    found = [result]
    while len(found) < 3 and found[-1].requires_grad:
        (slope,) = ad.autograd.grad(found[-1].sum(), point, create_graph=True)
        if not bool((slope != 0).any()):
            break
        found.append(slope)
    return [f.detach().numpy() for f in found]


# -- drawing --------------------------------------------------------------------------------------


def drawing(name: str, x: Array, curves: list[Array]) -> str:
    """Curves with axes and a legend."""
    low, high = _range(curves)
    across = lambda v: MARGIN + (v - x[0]) / (x[-1] - x[0]) * (WIDTH - 2 * MARGIN)
    down = lambda v: HEIGHT - MARGIN - (v - low) / (high - low) * (HEIGHT - 2 * MARGIN)
    parts = [*_axes(x, low, high, across, down)]
    for number, curve in reversed(list(enumerate(curves))):
        for piece in _pieces(x, curve, low, high):
            shown = _without_straights([(across(a), down(b)) for a, b in piece])
            places = " ".join(f"{a:.1f},{b:.1f}" for a, b in shown)
            parts.append(element("polyline", points=places, class_=f"curve c{number}"))
    for number in range(len(curves)):
        left = MARGIN + 8 + 52 * number
        parts.append(
            element("line", x1=left, x2=left + 18, y1=14.0, y2=14.0, class_=f"curve c{number}")
        )
        parts.append(element("text", NAMES[number], x=left + 23, y=18.0))
    box = f"0 0 {WIDTH:g} {HEIGHT:g}"
    label = f"{name} and its derivatives"
    head = f'<svg class="function" viewBox="{box}" role="img" aria-label="{label}">'
    return "\n".join([head, *parts, "</svg>"])


def _range(curves: list[Array]) -> tuple[float, float]:
    """The heights that are shown: all of a tame function, the middle of a wild one."""
    known = np.concatenate([c[np.isfinite(c)] for c in curves])
    low, high = np.percentile(known, [3, 97])
    low, high = max(low, -8.0), min(high, 8.0)
    low, high = max(known.min(), low - 1.2), min(known.max(), high + 1.2)
    low, high = min(low, 0.0), max(high, 0.0)
    room = 0.06 * (high - low) or 1.0
    return float(low - room), float(high + room)


def _pieces(x: Array, curve: Array, low: float, high: float) -> Iterator[list[Point]]:
    """The connected parts of a curve inside the picture."""
    piece: list[Point] = []
    before = None
    for a, b in zip(x, curve, strict=True):
        inside = np.isfinite(b) and low <= b <= high
        jumps = before is not None and abs(b - before) > 0.35 * (high - low)
        if (not inside or jumps) and piece:
            yield piece
            piece = []
        if inside:
            piece.append((float(a), float(b)))
        before = b if inside else None
    if piece:
        yield piece


def _without_straights(points: list[Point]) -> list[Point]:
    """The points of a line without those that lie a tenth of a pixel from it (Douglas–Peucker)."""
    (a, b), (c, d) = points[0], points[-1]
    length = math.hypot(c - a, d - b) or 1.0
    away = [abs((c - a) * (y - b) - (x - a) * (d - b)) / length for x, y in points]
    far = max(range(len(points)), key=away.__getitem__)
    if len(points) < 3 or away[far] <= 0.1:
        return [points[0], points[-1]]
    return _without_straights(points[: far + 1])[:-1] + _without_straights(points[far:])


def _axes(x: Array, low: float, high: float, across: Scale, down: Scale) -> Iterator[str]:
    """Axes, and lines at round numbers."""
    left, right, bottom, top = across(x[0]), across(x[-1]), down(low), down(high)
    for v in _ticks(float(x[0]), float(x[-1])):
        yield element("line", x1=across(v), x2=across(v), y1=top, y2=bottom, class_="grid")
        yield element("text", f"{v:g}", x=across(v), y=bottom + 15, text_anchor="middle")
    for v in _ticks(low, high):
        yield element("line", x1=left, x2=right, y1=down(v), y2=down(v), class_="grid")
        yield element("text", f"{v:g}", x=left - 5, y=down(v) + 4, text_anchor="end")
    yield element("line", x1=left, x2=right, y1=down(0.0), y2=down(0.0), class_="axis")
    if x[0] <= 0 <= x[-1]:
        yield element("line", x1=across(0.0), x2=across(0.0), y1=top, y2=bottom, class_="axis")


def _ticks(low: float, high: float) -> list[float]:
    """Round numbers in a range, five to nine of them."""
    step = 10.0 ** np.floor(np.log10((high - low) / 4))
    step *= next(k for k in (1, 2, 5, 10) if (high - low) / (step * k) <= 9)
    first = np.ceil(low / step)
    return [float(round(step * k, 10)) + 0.0 for k in np.arange(first, np.floor(high / step) + 1)]
