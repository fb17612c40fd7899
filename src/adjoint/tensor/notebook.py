"""Tensors in notebooks: `_repr_html_`, a table with the values in colours.

Negative values are blue, positive ones red, stronger near the largest magnitude. A large tensor
shows its edges, one with more than two dimensions its first matrix. The colours are transparent, so
that they suit a dark page too.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from adjoint.core.lazy import Lazy
from adjoint.core.shapes import show

html = Lazy("html")

_MOST = 12  # rows or columns that are shown whole
_EDGE = 5  # rows or columns at each edge of a larger tensor
_CELL = "padding:1px 7px;text-align:right;font-family:monospace"
_BLUE, _RED, _ODD = "33,102,172", "178,24,43", "255,193,7"


def page(tensor: Any) -> str:
    """The HTML of a tensor; inside a transform, where it has no numbers, its text."""
    if tensor.home is not None:
        return f"<pre>{html.escape(repr(tensor))}</pre>"
    array = tensor.array
    matrix, title = array, ""
    if array.ndim > 2 and array.size:
        first = (0,) * (array.ndim - 2)
        matrix, title = array[first], f" — [{', '.join('0' * len(first))}, :, :]"
    lines = [f"<div><b>tensor</b> {html.escape(_facts(tensor))}{title}</div>"]
    if array.size:
        lines.append(_table(np.atleast_2d(matrix)))
    return f'<div style="overflow-x:auto">{"".join(lines)}</div>'


def _facts(tensor: Any) -> str:
    """The line of facts: size, dtype, requires_grad, and the range of many values."""
    array = tensor.array
    facts = [show(tensor.shape) if tensor.ndim else "scalar", tensor.dtype.name]
    if tensor.requires_grad:
        facts.append(f"grad_fn={tensor.grad_fn.name()}" if tensor.grad_fn else "requires_grad")
    if array.size > _MOST and array.dtype.kind in "iuf":
        facts.append(f"from {_number(array.min())} to {_number(array.max())}")
    return ", ".join(facts)


def _table(matrix: Any) -> str:
    rows, columns = (_shown(n) for n in matrix.shape)
    part = matrix[np.ix_(*([i for i in shown if i is not None] for shown in (rows, columns)))]
    finite = np.abs(part[np.isfinite(part)])
    largest = float(finite.max()) if finite.size else 0.0
    body: list[str] = []
    for row in rows:
        cells = (
            _cell("⋮" if row is None else "⋯")
            if row is None or column is None
            else _cell(_number(matrix[row, column]), _colour(matrix[row, column], largest))
            for column in columns
        )
        body.append(f"<tr>{''.join(cells)}</tr>")
    return f'<table style="border-collapse:collapse">{"".join(body)}</table>'


def _shown(count: int) -> list[int | None]:
    """The indices of the rows shown, with None in place of rows left out."""
    if count <= _MOST:
        return list(range(count))
    return [*range(_EDGE), None, *range(count - _EDGE, count)]


def _cell(text: str, colour: str = "") -> str:
    return f'<td style="{_CELL}{colour}">{html.escape(text)}</td>'


def _colour(value: Any, largest: float) -> str:
    if not np.isfinite(value):
        return f";background:rgba({_ODD},.6)"
    if np.iscomplexobj(value) or largest == 0:
        return ""
    number = float(value)
    return f";background:rgba({_RED if number > 0 else _BLUE},{0.55 * abs(number) / largest:.2f})"


def _number(value: Any) -> str:
    """A number in a few digits.

    >>> [_number(v) for v in (np.float64(1 / 3), np.int64(7), np.bool_(True), np.complex64(1 + 2j))]
    ['0.3333', '7', 'True', '1+2j']
    """
    kind = np.asarray(value).dtype.kind
    if kind in "iub":
        return str(value)
    return f"{complex(value):.4g}" if kind == "c" else f"{float(value):.4g}"
