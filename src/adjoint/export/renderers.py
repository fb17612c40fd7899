"""Operators as NumPy text, where an expression in the row is not enough.

Shapes and dtypes are known in a graph, so a view is a `reshape` to the result's shape, and casts
are written only where needed. `from_facts` writes operators whose facts suffice (`fills`, `moves`,
`reduces`, …). The column `numpy` of a row may name another function of this file: `numpy:
renderers.cat`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from adjoint.core.shapes import wrap_dim, wrap_dims
from adjoint.export.numpy_text import ExportError, Scope, cast, dtype_text, promoted
from adjoint.graph.facts import filled
from adjoint.graph.ir import Value
from adjoint.table.rows import Row


def is_told(row: Row) -> bool:
    """Whether the facts of a row suffice to write it."""
    moved = row.schema.is_view and (row.keeps_order or row.moves == "nothing")
    return bool(row.fills or row.reduces or row.accumulates or moved or row.is_product)


def from_facts(s: Scope) -> str | None:
    """The text of an operator from the facts of its row; None if they do not suffice."""
    row = s.node.op.row
    if row.fills:
        return _filled(s)
    if row.reduces:
        return _reduced(s)
    if row.accumulates:
        return _accumulated(s)
    if row.is_product:
        return " @ ".join(promoted(s, name) for name in row.product.split(" @ "))
    if not is_told(row):
        return None
    return _first(s) if row.moves == "nothing" else f"{_first(s)}.reshape({s.out.shape!r})"


def _filled(s: Scope) -> str:
    number, dtype = filled(s.node), dtype_text(s.out.dtype)
    if s.node.op.row.fills in ("0", "1"):
        return f"np.{'ones' if number else 'zeros'}({s.out.shape!r}, {dtype})"
    return f"np.full({s.out.shape!r}, {s.text(number)}, {dtype})"


def _first(s: Scope) -> str:
    return s.text(next(v for v in s.node.args if isinstance(v, Value)))


def _axes(s: Scope) -> Any:
    """The dimensions of a reduction; None for all."""
    dim, ndim = s.values["dim"], len(s.type("self").shape)
    if dim is None or dim == ():
        return None
    wrapped = wrap_dims(s.node.name, dim if isinstance(dim, tuple) else (dim,), ndim)
    return tuple(d for d in wrapped if d < ndim) if ndim else None


def _reduced(s: Scope) -> str:
    kind, x, dtype = s.node.op.row.reduces, s("self"), dtype_text(s.out.dtype)
    if s.out.dtype.name == "bool" and s.values["dim"] == ():
        return f"{x}.astype({dtype})"
    axis = f", axis={_axes(s)!r}" if "dim" in s.values else ""
    kept = ", keepdims=True" if s.values.get("keepdim") else ""
    wanted = f", dtype={dtype}" if "dtype" in s.values else ""
    return f"np.{kind}({x}{axis}{wanted}{kept})"


def _accumulated(s: Scope) -> str:
    x, dtype = s("self"), dtype_text(s.out.dtype)
    if not s.type("self").shape:
        return f"{x}.astype({dtype})"
    return f"np.cum{s.node.op.row.accumulates}({x}, axis={s.values['dim']}, dtype={dtype})"


# -- functions that rows name ---------------------------------------------------------------------


def _place(s: Scope, dim: int, item: str) -> str:
    """The text of an index along a dimension: x[:, :, item]."""
    return ", ".join([":"] * dim + [item])


def _slice_text(s: Scope) -> str:
    size = s.type("self").shape[wrap_dim("slice", s.values["dim"], len(s.type("self").shape))]
    start, end, _ = slice(s.values["start"], s.values["end"]).indices(size)
    step = s.values["step"]
    return f"{start}:{max(start, end)}" + (f":{step}" if step != 1 else "")


def slice_(s: Scope) -> str:
    dim = wrap_dim("slice", s.values["dim"], len(s.type("self").shape))
    return f"{s('self')}[{_place(s, dim, _slice_text(s))}]"


def select(s: Scope) -> str:
    dim = wrap_dim("select", s.values["dim"], len(s.type("self").shape))
    return f"{s('self')}[{_place(s, dim, str(s.values['index']))}]"


def slice_scatter(s: Scope) -> str:
    dim = wrap_dim("slice", s.values["dim"], len(s.type("self").shape))
    return f"_put({s('self')}, ({_index(s, dim, _slice_object(s))}), {s('src')})"


def _slice_object(s: Scope) -> str:
    start, end, *step = _slice_text(s).split(":")
    return f"slice({start}, {end}{', ' + step[0] if step else ''})"


def _index(s: Scope, dim: int, item: str) -> str:
    return ", ".join(["slice(None)"] * dim + [item]) + ","


def cat(s: Scope) -> str:
    parts = [v for v in s.values["tensors"] if v.type.shape != (0,) or len(s.out.shape) == 1]
    texts = [cast(s.name_of(v), v.type.dtype, s.out.dtype) for v in parts]
    dim = wrap_dim("cat", s.values["dim"], len(s.out.shape))
    return f"np.concatenate([{', '.join(texts)}], axis={dim})"


def split(s: Scope) -> str:
    ends = np.cumsum(s.values["split_sizes"])[:-1].tolist()
    return f"np.split({s('self')}, {ends!r}, axis={s.values['dim']})"


def _indexed(s: Scope) -> str:
    items = ["slice(None)" if i is None else s.text(i) for i in s.values["indices"]]
    return f"({', '.join(items)},)"


def index(s: Scope) -> str:
    return f"{s('self')}[{_indexed(s)}]"


def index_put(s: Scope) -> str:
    function = "_add_at" if s.values["accumulate"] else "_put"
    return f"{function}({s('self')}, {_indexed(s)}, {s('values')})"


def gather(s: Scope) -> str:
    if not s.type("self").shape:
        return f"np.broadcast_to({s('self')}, {s.out.shape!r})"
    return f"{s('self')}[_along({s('index')}, {s.values['dim']})]"


def unfold(s: Scope) -> str:
    if not s.type("self").shape:
        return f"{_first(s)}.reshape({s.out.shape!r})"
    dim = wrap_dim("unfold", s.values["dimension"], len(s.type("self").shape))
    step = f"[{_place(s, dim, '::' + str(s.values['step']))}]" if s.values["step"] != 1 else ""
    window = f"{s('self')}, {s.values['size']}, {dim}"
    return f"np.lib.stride_tricks.sliding_window_view({window}){step}"


def fold(s: Scope) -> str:
    dim = wrap_dim("unfold", s.values["dim"], len(s.out.shape))
    size, step = s.values["size"], s.values["step"]
    return f"_fold({s('grad_in')}, {s.out.shape!r}, {dim}, {size}, {step})"


def unreduce(s: Scope) -> str:
    shape, dim = s.values["shape"], s.values["dim"]
    gone = set(wrap_dims("sum", dim, len(shape))) if dim else set(range(len(shape)))
    middle = tuple(1 if i in gone else n for i, n in enumerate(shape))
    return f"np.broadcast_to({s('self')}.reshape({middle!r}), {tuple(shape)!r})"


def scatter(s: Scope) -> str:
    return _scattered(s, "_put")


def scatter_add(s: Scope) -> str:
    return _scattered(s, "_add_at")


def _scattered(s: Scope, function: str) -> str:
    if not s.type("self").shape:
        raise ExportError("its first argument is 0-d")
    source = s("src")
    if s.type("index").shape != s.type("src").shape and s.type("index").shape:
        source += f"[{', '.join(f':{n}' for n in s.type('index').shape)}]"
    return f"{function}({s('self')}, _along({s('index')}, {s.values['dim']}), {source})"


def maximum_along(s: Scope) -> str:
    return _extreme(s, "argmax")


def minimum_along(s: Scope) -> str:
    return _extreme(s, "argmin")


def _extreme(s: Scope, function: str) -> str:
    dim, keep = s.values["dim"], bool(s.values["keepdim"])
    return f"_extreme(np.{function}, {s('self')}, {dim}, {keep})"


def logcumsumexp(s: Scope) -> str:
    if s.out.dtype.is_complex:
        raise ExportError("NumPy has no logaddexp of complex numbers")
    x = promoted(s, "self")
    return f"np.logaddexp.accumulate({x}, axis={s.values['dim']})" if s.out.shape else x


def running_maxima(s: Scope) -> str:
    return _running(s, "maximum")


def running_minima(s: Scope) -> str:
    return _running(s, "minimum")


def _running(s: Scope, function: str) -> str:
    rank = max(len(s.out.shape), 1)
    return f"_running_extreme(np.{function}, {s('self')}, {s.values['dim'] % rank})"


def sort(s: Scope) -> str:
    return f"_sort({s('self')}, {s.values['dim']}, {s.values['descending']})"


def linear_recurrence(s: Scope) -> str:
    return f"_recurrence({s('a')}, {s('b')}, {s.values['dim']}, {s.values['reverse']})"


def view_dtype(s: Scope) -> str:
    x, dtype = s("self"), dtype_text(s.out.dtype)
    return f"np.ascontiguousarray({x}).view({dtype}).reshape({s.out.shape!r})"


def quotient(s: Scope) -> str:
    mode, both = s.values["rounding_mode"], f"{promoted(s, 'self')}, {promoted(s, 'other')}"
    if mode == "floor":
        return f"np.floor_divide({both})"
    if mode == "trunc":
        return f"np.trunc(np.divide({both})).astype({dtype_text(s.out.dtype)})"
    return f"np.divide({both})"


def angle(s: Scope) -> str:
    x = promoted(s, "self")
    if s.type("self").dtype.is_complex:
        return f"np.angle({x})"
    dtype = dtype_text(s.out.dtype)
    return f"np.where(np.isnan({x}), {x}, np.where({x} < 0, np.pi, 0)).astype({dtype})"


def to_copy(s: Scope) -> str:
    real = ".real" if s.type("self").dtype.is_complex and not s.out.dtype.is_complex else ""
    return f"{s('self')}{real}.astype({dtype_text(s.out.dtype)})"
