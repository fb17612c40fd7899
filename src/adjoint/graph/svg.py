"""Elements of SVG as text."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape


def element(name: str, words: str | None = None, /, **attributes: object) -> str:
    """One element; `stroke_width=2` is its attribute stroke-width, `class_` its class, None none.

    >>> element("text", "a < b", x=1.25, text_anchor="end")
    '<text x="1.2" text-anchor="end">a &lt; b</text>'
    >>> element("line", x1=0, x2=5, stroke="#333", stroke_dasharray=None)
    '<line x1="0" x2="5" stroke="#333"/>'
    """
    given = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{escape(_text(value))}"'
        for key, value in attributes.items()
        if value is not None
    )
    return f"<{name}{given}/>" if words is None else f"<{name}{given}>{escape(words)}</{name}>"


def document(width: float, height: float, style: str, parts: Iterable[str]) -> str:
    """A whole picture on white ground, with a style sheet.

    >>> print(document(4, 2, "text{fill:#222}", [element("circle", r=1)]))
    <svg xmlns="http://www.w3.org/2000/svg" width="4" height="2" viewBox="0 0 4 2">
    <style>text{fill:#222}</style>
    <rect width="4" height="2" fill="#fff"/>
    <circle r="1"/>
    </svg>
    """
    size = f'width="{_text(width)}" height="{_text(height)}"'
    box = f"0 0 {_text(width)} {_text(height)}"
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {size} viewBox="{box}">'
    ground = element("rect", width=width, height=height, fill="#fff")
    return "\n".join([head, f"<style>{style}</style>", ground, *parts, "</svg>"]) + "\n"


def _text(value: object) -> str:
    """The text of an attribute's value; lengths are rounded to a tenth of a pixel."""
    return f"{value:.1f}".removesuffix(".0") if isinstance(value, float) else str(value)
