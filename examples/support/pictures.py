"""Pictures in SVG: panels of lines, points or images side by side; nothing is to be installed."""

from __future__ import annotations

import base64
import math
import struct
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from adjoint.graph.svg import document, element

COLOURS = ("#4269d0", "#ff725c", "#3ca951", "#efb118", "#a463f2", "#6cc5b0", "#9c6b4e", "#97bbf5")
WIDTH, HEIGHT = 340, 280  # of a panel
LEFT, RIGHT, TOP, BOTTOM = 52, 14, 34, 56  # of what surrounds the area with data
MOST = 250  # points of a curve without x
STYLE = "text{font:11px sans-serif;fill:#222}.t{font-size:13px}.n{font-size:9px;fill:#555}"

Curves = Mapping[str, Any]  # name -> values, or (x, y)
Panel = Callable[[float], list[str]]  # drawn with its left edge at x


def write(path: str | Path, *panels: Panel) -> None:
    """Write panels, from left to right, into a file."""
    parts = [part for i, panel in enumerate(panels) for part in panel(float(i * WIDTH))]
    Path(path).write_text(document(len(panels) * WIDTH, HEIGHT, STYLE, parts), encoding="utf-8")
    print(f"picture: {path}")


@dataclass(frozen=True)
class Axis:
    """A range of values on a range of pixels."""

    low: float
    high: float
    start: float  # pixel of `low`
    end: float
    logarithmic: bool = False

    @staticmethod
    def around(values: list[Any], start: float, end: float, *, logarithmic: bool = False) -> Axis:
        """The axis on which all values have room."""
        found = np.concatenate([np.ravel(v) for v in values])
        found = np.log10(found[found > 0]) if logarithmic else found
        low, high = float(found.min()), float(found.max())
        room = 0.04 * (high - low) or 0.5
        return Axis(low - room, high + room, start, end, logarithmic)

    def place(self, values: Any) -> Any:
        """Pixels of values."""
        values = np.log10(np.maximum(values, 1e-300)) if self.logarithmic else np.asarray(values)
        return self.start + (values - self.low) / (self.high - self.low) * (self.end - self.start)

    def ticks(self) -> list[tuple[float, str]]:
        """Round values with their pixels."""
        raw = (self.high - self.low) / 6
        power = 10.0 ** math.floor(math.log10(raw))
        step = next(power * s for s in (1, 2, 5, 10) if power * s >= raw)
        if self.logarithmic:
            step = max(1.0, step)
        marks = np.arange(math.ceil(self.low / step), math.floor(self.high / step) + 1) * step
        shown = 10.0**marks if self.logarithmic else marks
        return [(float(p), f"{v:.4g}") for p, v in zip(self.place(shown), shown)]


def lines(
    title: str,
    curves: Curves,
    *,
    x: str = "",
    y: str = "",
    logarithmic: bool = False,
    dotted: Sequence[Any] = (),
) -> Panel:
    """Curves with the names of those that have one, and dotted ones to compare with."""
    pairs = {name: _pair(curve) for name, curve in curves.items()}
    others = [_pair(curve) for curve in dotted]

    def draw(left: float) -> list[str]:
        across, up = _axes([*pairs.values(), *others], left, logarithmic=logarithmic)

        def line(pair: Any, **attributes: Any) -> str:
            places = zip(across.place(pair[0]), up.place(pair[1]))
            through = " ".join(f"{p:.1f},{q:.1f}" for p, q in places)
            return element("polyline", points=through, fill="none", **attributes)

        parts = [*_frame(title, across, up, x, y), *_legend(pairs, across)]
        parts += [line(pair, stroke=colour) for colour, pair in zip(COLOURS, pairs.values())]
        parts += [line(pair, stroke="#222", stroke_dasharray="1 3") for pair in others]
        return parts

    return draw


def points(title: str, clouds: Curves, *, x: str = "", y: str = "") -> Panel:
    """Points of the plane: each cloud an array of shape (n, 2)."""
    pairs = {name: tuple(np.asarray(cloud).T) for name, cloud in clouds.items()}

    def draw(left: float) -> list[str]:
        across, up = _axes(list(pairs.values()), left)
        parts = [*_frame(title, across, up, x, y), *_legend(pairs, across)]
        for colour, (a, b) in zip(COLOURS, pairs.values()):
            # One path for a cloud: a dot is a line of no length with a round end.
            dots = "".join(f"M{p:.1f},{q:.1f}h0" for p, q in zip(across.place(a), up.place(b)))
            parts.append(element("path", d=dots, stroke=colour, stroke_width=3,
                                 stroke_linecap="round", stroke_opacity=0.5))  # fmt: skip
        return parts

    return draw


def images(title: str, pictures: Any, *, columns: int) -> Panel:
    """Grey pictures, an array of shape (n, height, width) from 0 to 1, in rows of `columns`."""
    pictures = np.asarray(pictures)
    rows = -(-len(pictures) // columns)
    height, width = pictures.shape[1:]
    sheet = np.zeros((rows * height, columns * width))
    for i, picture in enumerate(pictures):
        top, left = i // columns * height, i % columns * width
        sheet[top : top + height, left : left + width] = picture
    return field(title, sheet, colours=_GREY, frame=None)


def field(
    title: str,
    values: Any,
    *,
    x: str = "",
    y: str = "",
    frame: tuple[float, float, float, float] | None = (0, 1, 0, 1),
    colours: Any = None,
) -> Panel:
    """A function of the plane as colours: an array whose first row is the top of the picture.

    `frame` is (left, right, bottom, top) of the area in the axes' units.
    """
    values = np.asarray(values, dtype=float)
    scale = np.ptp(values) or 1.0
    table = _WARM if colours is None else colours
    shades = table[np.round((values - values.min()) / scale * (len(table) - 1)).astype(int)]
    data = f"data:image/png;base64,{base64.b64encode(png(shades)).decode()}"

    def draw(left: float) -> list[str]:
        wide, high = WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM
        size = dict(x=left + LEFT, y=TOP, width=wide, height=high)
        if frame is None:  # pictures keep their proportions
            picture = element("image", href=data, **size, style="image-rendering:pixelated")
            return [_title(title, left), picture]
        picture = element("image", href=data, **size, preserveAspectRatio="none")
        across = Axis(frame[0], frame[1], left + LEFT, left + LEFT + wide)
        up = Axis(frame[2], frame[3], TOP + high, TOP)
        return [*_frame(title, across, up, x, y), picture]

    return draw


def png(shades: Any) -> bytes:
    """An array of bytes of shape (height, width, 3) as a PNG file."""
    height, width, _ = shades.shape

    def chunk(kind: bytes, data: bytes) -> bytes:
        check = struct.pack(">I", zlib.crc32(kind + data))
        return struct.pack(">I", len(data)) + kind + data + check

    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)  # 8 bits, red green blue
    rows = b"".join(b"\0" + row.astype(np.uint8).tobytes() for row in shades)
    body = chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(rows, 9)) + chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + body


def _shades(count: int, *stops: tuple[int, int, int]) -> Any:
    """Colours that lead from stop to stop."""
    places = np.linspace(0, 1, len(stops))
    return np.stack([np.interp(np.linspace(0, 1, count), places, c) for c in zip(*stops)], -1)


_GREY = _shades(16, (255, 255, 255), (20, 20, 30))  # few shades make small files
_WARM = _shades(64, (33, 60, 140), (120, 170, 220), (245, 245, 240), (240, 150, 90), (150, 20, 40))


def _pair(curve: Any) -> tuple[Any, Any]:
    if isinstance(curve, tuple):
        return np.asarray(curve[0]), np.asarray(curve[1])
    values = np.asarray(curve)
    piece = 1 + len(values) // MOST  # long curves are shown by means of pieces
    values = values[: len(values) // piece * piece].reshape(-1, piece).mean(1)
    return np.arange(1, len(values) + 1) * piece, values


def _axes(pairs: list[Any], left: float, *, logarithmic: bool = False) -> tuple[Axis, Axis]:
    across = Axis.around([a for a, _ in pairs], left + LEFT, left + WIDTH - RIGHT)
    height = HEIGHT - BOTTOM
    up = Axis.around([b for _, b in pairs], height, TOP, logarithmic=logarithmic)
    return across, up


def _title(title: str, left: float) -> str:
    return element("text", title, x=left + LEFT, y=TOP - 12, class_="t")


def _frame(title: str, across: Axis, up: Axis, x: str, y: str) -> list[str]:
    """Title, grid, numbers and names of the axes."""
    middle = (across.start + across.end) / 2
    parts = [
        _title(title, across.start - LEFT),
        element("text", x, x=middle, y=up.start + 30, text_anchor="middle"),
        element("text", y, x=across.start - LEFT + 6, y=TOP - 12, class_="n"),
    ]
    for p, label in across.ticks():
        parts.append(element("line", x1=p, x2=p, y1=up.end, y2=up.start, stroke="#eee"))
        parts.append(element("text", label, x=p, y=up.start + 14, text_anchor="middle", class_="n"))
    for q, label in up.ticks():
        parts.append(element("line", x1=across.start, x2=across.end, y1=q, y2=q, stroke="#eee"))
        parts.append(
            element("text", label, x=across.start - 5, y=q + 3, text_anchor="end", class_="n")
        )
    return parts


def _legend(pairs: Mapping[str, Any], across: Axis) -> list[str]:
    """The names of curves in their colours, below everything."""
    parts, left = [], across.start
    for name, colour in zip(pairs, COLOURS):
        if name:
            parts.append(element("rect", x=left, y=HEIGHT - 17, width=9, height=9, fill=colour))
            parts.append(element("text", name, x=left + 12, y=HEIGHT - 8))
            left += 24 + 6 * len(name)
    return parts
