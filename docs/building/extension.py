"""What the site asks of Sphinx: formulas as MathML, HTML that is not searched, a font, links."""

from __future__ import annotations

import builtins
import shutil
from pathlib import Path
from typing import Any

import latex2mathml.converter
import ziamath
from docutils import nodes
from docutils.parsers.rst import Directive
from sphinx import addnodes


class fragment(nodes.General, nodes.Element):  # noqa: N801 - as docutils names nodes
    """HTML that the search does not look into, unlike `raw`: what every page of operators has."""


class Fragment(Directive):
    """A block of such HTML on a page."""

    has_content = True

    def run(self) -> list[nodes.Node]:
        return [fragment(html="\n".join(self.content))]


def show(translator: Any, node: Any) -> None:
    """Write such HTML."""
    translator.body.append(f"{node['html']}\n")
    raise nodes.SkipNode


def mathml(translator: Any, node: Any) -> None:
    """Write a formula in the text of a page: TeX, made MathML when the site is built."""
    display = "block" if node.tagname == "math_block" else "inline"
    translator.body.append(latex2mathml.converter.convert(node.astext(), display=display))
    raise nodes.SkipNode


def leave_builtins(app: Any, doctree: Any) -> None:
    """A type of Python's in a signature is no link to something of ours with its name."""
    for node in list(doctree.findall(addnodes.pending_xref)):
        if node.get("refdomain") == "py" and hasattr(builtins, node.get("reftarget", "")):
            node.replace_self(node.children)


def add_font(app: Any, exception: Exception | None) -> None:
    """Formulas look the same everywhere: STIX Two Math (SIL Open Font License), from ziamath."""
    if exception is None:
        font = Path(ziamath.__file__).parent / "fonts" / "STIXTwoMath-Regular.ttf"
        shutil.copy(font, Path(app.outdir) / "_static" / "math.ttf")


def setup(app: Any) -> dict[str, bool]:
    """Tell Sphinx."""
    app.add_node(fragment, html=(show, None))
    app.add_directive("fragment", Fragment)
    app.add_html_math_renderer("mathml", (mathml, None), (mathml, None))
    app.connect("doctree-read", leave_builtins)
    app.connect("build-finished", add_font)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
