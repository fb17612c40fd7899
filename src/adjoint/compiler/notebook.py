"""Compiled functions in notebooks: their stages as sections that unfold."""

from __future__ import annotations

from typing import Any

from adjoint.compiler.stages import Stages
from adjoint.core.lazy import Lazy
from adjoint.graph import show

html = Lazy("html")


def page(title: str, stages: Stages | None) -> str:
    """A compiled function's title, and the stages of the program compiled last, as HTML."""
    heading = f"<div><code>{html.escape(title)}</code></div>"
    return heading if stages is None else heading + stages_page(stages)


def stages_page(stages: Stages) -> str:
    """The cost, the time of each stage, the graphs and the C source, as HTML."""
    took = ", ".join(f"{name} {1e3 * spent:.1f} ms" for name, spent in stages.seconds.items())
    parts = [
        f"<div>{html.escape(str(stages.cost()))}</div><div>{html.escape(took)}</div>",
        _folded(f"graph: {len(stages.graph)} operators", show.page(stages.graph)),
        _folded(f"lowered: {len(stages.lowered)} operators", show.page(stages.lowered)),
        _folded(f"C: {stages.source.count(chr(10))} lines", _text(stages.source)),
    ]
    return "".join(parts)


def _folded(title: str, inner: str) -> str:
    return f"<details><summary>{html.escape(title)}</summary>{inner}</details>"


def _text(text: Any) -> str:
    return f"<pre>{html.escape(str(text))}</pre>"
