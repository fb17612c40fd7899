"""Pictures of graphs as SVG, without other programs.

Nodes are in layers, each below the nodes that it uses; within a layer they are ordered by the
positions of their inputs. The colour shows the family of the operator. A node of a backward (one
with a block) has a dashed frame. Values that a backward takes from the forward are drawn dashed,
with their sizes.
"""

from __future__ import annotations

import math
import os
from typing import Any

from adjoint.core.lazy import Lazy
from adjoint.graph.ir import Constant, Graph, Node, Value
from adjoint.graph.statistics import size
from adjoint.ops.operator import Operator

html = Lazy("html")

_COLOURS = {
    "creation": "#e8e8e8", "pointwise": "#cfe3f7", "activation": "#cfe3f7", "special": "#d8d4f2",
    "reduction": "#fbe0c3", "scan": "#fbe0c3", "shape": "#e3f1d5", "indexing": "#f6efc0",
    "sorting": "#f6efc0", "matmul": "#f7cdcd", "linalg": "#f2c6dc", "random": "#d9f0ee",
}  # fmt: skip
_OTHER, _INPUT, _OUTPUT = "#ffffff", "#444444", "#444444"
_WIDTH, _HEIGHT, _GAP, _LAYER = 150, 34, 18, 64
_MOST = 2000  # most nodes in a picture
_MOST_SHOWN = 200  # most nodes in a picture that a notebook shows by itself


class _Box:
    """A node of the picture."""

    __slots__ = ("below", "colour", "dashed", "layer", "lines", "text_colour", "x")

    def __init__(
        self,
        lines: tuple[str, str],
        colour: str,
        *,
        dashed: bool = False,
        text_colour: str = "#111111",
    ) -> None:
        self.lines, self.colour, self.dashed, self.text_colour = lines, colour, dashed, text_colour
        self.layer = 0
        self.x = 0.0
        self.below: list[tuple[_Box, str, bool]] = []  # (user, label, whether it is a capture)


def svg(graph: Graph) -> str:
    """The picture as a text."""
    return _drawing(graph, len(graph.inputs))[0]


def svg_of_pair(pair: Any) -> str:
    """The picture of a gradient: `f` on the left, `df` on the right, captured values dashed."""
    left, width, height = _drawing(pair.f, len(pair.f.inputs))
    right, more, other = _drawing(pair.df, len(pair.output_grads))
    placed = right.replace("<svg ", f'<svg x="{width + _GAP}" ', 1)
    size_text = f'width="{width + _GAP + more}" height="{max(height, other)}"'
    return "\n".join(
        [f'<svg xmlns="http://www.w3.org/2000/svg" {size_text}>', left, placed, "</svg>"]
    )


def _drawing(graph: Graph, given: int) -> tuple[str, int, int]:
    """(text, width, height) of a picture; inputs from number `given` on are captures."""
    boxes = _boxes(graph, given)
    layers = _layered(boxes)
    width = max((len(layer) for layer in layers), default=1) * (_WIDTH + _GAP) + _GAP
    height = len(layers) * _LAYER + _GAP
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
        f'width="{width}" height="{height}" '
        'font-family="sans-serif" font-size="11">',
        f"<title>{html.escape(graph.signature.name)}</title>",
        '<defs><marker id="arrow" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="6" '
        'markerHeight="6" orient="auto">'
        '<path d="M0,0 L8,4 L0,8 z" fill="#888888"/></marker></defs>',
    ]
    for box in boxes:
        parts += [_edge(box, user, label, captured) for user, label, captured in box.below]
    parts += [_drawn(box) for box in boxes]
    return "\n".join([*parts, "</svg>"]), width, height


def show(graph: Graph, path: str | os.PathLike[str] | None = None) -> Any:
    """Write the picture to a file, or give something that notebooks display."""
    return _given(svg(graph), path)


def show_pair(pair: Any, path: str | os.PathLike[str] | None = None) -> Any:
    """As `show`, of a gradient: forward and backward side by side."""
    return _given(svg_of_pair(pair), path)


def _given(text: str, path: str | os.PathLike[str] | None) -> Any:
    if path is None:
        return Picture(text)
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    return None


def page(graph: Graph) -> str:
    """A graph in notebooks: its picture, and its text folded; of a large graph the text."""
    text = f"<pre>{html.escape(str(graph))}</pre>"
    if len(graph) > _MOST_SHOWN:
        return f"<div>{html.escape(repr(graph))}</div>{text}"
    folded = f"<details><summary>{html.escape(repr(graph))}</summary>{text}</details>"
    return f'<div style="overflow:auto;max-height:40em">{svg(graph)}</div>{folded}'


class Picture:
    """An SVG that notebooks display."""

    def __init__(self, text: str) -> None:
        self.text = text

    def _repr_svg_(self) -> str:
        return self.text

    def __str__(self) -> str:
        return self.text


def _boxes(graph: Graph, given: int) -> list[_Box]:
    boxes: list[_Box] = []
    makers: dict[Value, tuple[_Box, Node | None]] = {}
    for number, value in enumerate(graph.inputs):
        captured = number >= given
        label = f"{value.type}, {_bytes(value)}" if captured else str(value.type)
        box = _Box((value.name, label), _INPUT, dashed=captured, text_colour="#ffffff")
        makers[value] = (box, None)
        boxes.append(box)
    for number, node in enumerate(graph.nodes):
        if number == _MOST:
            boxes.append(_Box((f"… {len(graph) - _MOST} more nodes", ""), _OTHER))
            break
        types = ", ".join(str(v.type) for v in node.outputs[:2]) + (
            ", …" if len(node.outputs) > 2 else ""
        )
        box = _Box((node.op.name, types), _colour(node), dashed=node.block is not None)
        for value in dict.fromkeys(node.inputs()):
            source, maker = makers[value]
            captured = node.block is not None and maker is not None and maker.block is None
            source.below.append((box, _bytes(value) if captured else "", captured))
            box.layer = max(box.layer, source.layer + 1)
        makers |= dict.fromkeys(node.outputs, (box, node))
        boxes.append(box)
    for number, output in enumerate(graph.outputs):
        if isinstance(output, Value) and output in makers:
            source = makers[output][0]
            box = _Box((f"output {number}", str(output.type)), _OUTPUT, text_colour="#ffffff")
            box.layer = source.layer + 1
            source.below.append((box, "", False))
            boxes.append(box)
    return boxes


def _colour(node: Node) -> str:
    if isinstance(node.op, Constant):
        return _COLOURS["creation"]
    return _COLOURS.get(node.op.row.family, _OTHER) if isinstance(node.op, Operator) else _OTHER


def _bytes(value: Value) -> str:
    count = size(value.type)
    return (
        f"{count} B"
        if count < 1000
        else f"{count / 1000:.3g} kB"
        if count < 1e6
        else f"{count / 1e6:.3g} MB"
    )


def _layered(boxes: list[_Box]) -> list[list[_Box]]:
    """The layers, each ordered by the mean position of the boxes that a box uses."""
    layers: list[list[_Box]] = [[] for _ in range(max((b.layer for b in boxes), default=0) + 1)]
    for box in boxes:
        layers[box.layer].append(box)
    middle: dict[_Box, list[float]] = {b: [] for b in boxes}
    widest = max((len(layer) for layer in layers), default=1)
    for layer in layers:
        layer.sort(key=lambda b: sum(middle[b]) / len(middle[b]) if middle[b] else math.inf)
        start = (widest - len(layer)) / 2
        for place, box in enumerate(layer):
            box.x = _GAP + (start + place) * (_WIDTH + _GAP)
            for user, _, _ in box.below:
                middle[user].append(box.x)
    return layers


def _top(box: _Box) -> float:
    return _GAP / 2 + box.layer * _LAYER


def _edge(box: _Box, user: _Box, label: str, captured: bool) -> str:
    x, y = box.x + _WIDTH / 2, _top(box) + _HEIGHT
    to_x, to_y = user.x + _WIDTH / 2, _top(user)
    bend = (to_y - y) / 2
    dash = ' stroke-dasharray="4 3"' if captured else ""
    line = (
        f'<path d="M{x:.0f},{y:.0f} C{x:.0f},{y + bend:.0f} '
        f'{to_x:.0f},{to_y - bend:.0f} {to_x:.0f},{to_y:.0f}" '
        f'fill="none" stroke="#888888"{dash} marker-end="url(#arrow)"/>'
    )
    if not label:
        return line
    return (
        line + f'<text x="{(x + to_x) / 2:.0f}" y="{(y + to_y) / 2:.0f}" font-size="9" '
        f'fill="#666666">{label}</text>'
    )


def _drawn(box: _Box) -> str:
    top = _top(box)
    dash = ' stroke-dasharray="4 3"' if box.dashed else ""
    middle = box.x + _WIDTH / 2
    return (
        f'<rect x="{box.x:.0f}" y="{top:.0f}" width="{_WIDTH}" height="{_HEIGHT}" rx="5" '
        f'fill="{box.colour}" '
        f'stroke="{"#ffffff" if box.dashed and box.colour == _INPUT else "#555555"}"{dash}/>'
        f'<text x="{middle:.0f}" y="{top + 14:.0f}" text-anchor="middle" fill="{box.text_colour}">'
        f"{html.escape(box.lines[0])}</text>"
        f'<text x="{middle:.0f}" y="{top + 27:.0f}" text-anchor="middle" font-size="9" '
        f'fill="{box.text_colour}">'
        f"{html.escape(box.lines[1])}</text>"
    )
