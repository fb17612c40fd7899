"""Operators as NumPy text: a table from operators to expressions.

Shapes and dtypes are known in a graph, so a view is a `reshape` to what comes out, and a cast is written only where
one is needed. An operator whose kernel is a NumPy function, or an expression with one, needs no entry: its row says it.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from adjoint.core import dtypes
from adjoint.core.dtypes import DType
from adjoint.core.errors import AdjointError
from adjoint.core.promotion import result_type
from adjoint.core.shapes import wrap_dim, wrap_dims
from adjoint.graph.ir import Node, Value
from adjoint.ops.operator import Operator
from adjoint.table.rows import Row, is_reference

MODULE = "np"


class ExportError(AdjointError, NotImplementedError):
    """A graph with something that cannot be written in the language asked for."""


class Scope:
    """The arguments of a node by name, as text, with what is known of them."""

    def __init__(self, node: Node, name_of: Callable[[Value], str]) -> None:
        self.node = node
        self.values = dict(zip(node.op.schema.names, node.args, strict=True))
        self.name_of = name_of

    def __call__(self, name: str) -> str:
        """An argument as text."""
        return self.text(self.values[name])

    def text(self, value: Any) -> str:
        if isinstance(value, Value):
            return self.name_of(value)
        if isinstance(value, (tuple, list)):
            return (
                f"[{', '.join(map(self.text, value))}]"
                if any(isinstance(v, Value) for v in value)
                else repr(tuple(value))
            )
        return number_text(value)

    def type(self, name: str) -> Any:
        return self.values[name].type

    @property
    def out(self) -> Any:
        """The type of the first result."""
        return self.node.outputs[0].type


def number_text(value: Any) -> str:
    """A number as Python text; infinities too."""
    if isinstance(value, float) and not math.isfinite(value):
        return f"{MODULE}.nan" if math.isnan(value) else f"{'-' if value < 0 else ''}{MODULE}.inf"
    if isinstance(value, DType):
        return dtype_text(value)
    if isinstance(value, float) and value < 0 or isinstance(value, int) and value < 0:
        return f"({value!r})"
    return repr(value)


def dtype_text(dtype: DType) -> str:
    """np.float32."""
    if dtype.name == "bfloat16":
        raise ExportError("NumPy has no bfloat16; convert to float32 before tracing")
    return f"{MODULE}.bool_" if dtype.name == "bool" else f"{MODULE}.{dtype.name}"


# --- the table -----------------------------------------------------------------------------------------------


def _reshape(s: Scope) -> str:
    return f"{_first(s)}.reshape({s.out.shape!r})"


def _first(s: Scope) -> str:
    return s.text(next(v for v in s.node.args if isinstance(v, Value)))


def _axes(s: Scope, name: str = "dim") -> Any:
    """The dimensions of a reduction, None for all."""
    dim = s.values[name]
    ndim = len(s.type("self").shape)
    if dim is None or dim == ():
        return None
    wrapped = wrap_dims(s.node.name, dim if isinstance(dim, tuple) else (dim,), ndim)
    return tuple(d for d in wrapped if d < ndim) if ndim else None


def _reduce(function: str, *, typed: bool = False) -> Callable[[Scope], str]:
    def render(s: Scope) -> str:
        keep = ", keepdims=True" if s.values.get("keepdim") else ""
        dtype = f", dtype={dtype_text(s.out.dtype)}" if typed else ""
        return f"{MODULE}.{function}({s('self')}, axis={_axes(s)!r}{dtype}{keep})"

    return render


def _along(function: str) -> Callable[[Scope], str]:
    def render(s: Scope) -> str:
        if not s.type("self").shape:
            return f"{s('self')}.astype({dtype_text(s.out.dtype)})"
        return f"{MODULE}.{function}({s('self')}, axis={s.values['dim']}, dtype={dtype_text(s.out.dtype)})"

    return render


def _permute(s: Scope) -> str:
    return f"{s('self')}.transpose({s.values['dims']!r})"


def _place(s: Scope, dim: int, item: str) -> str:
    """x[:, :, item]."""
    return ", ".join([":"] * dim + [item])


def _slice_text(s: Scope) -> str:
    size = s.type("self").shape[wrap_dim("slice", s.values["dim"], len(s.type("self").shape))]
    start, end, step = slice(s.values["start"], s.values["end"]).indices(size)[:2] + (
        s.values["step"],
    )
    return f"{start}:{max(start, end)}" + (f":{step}" if step != 1 else "")


def _slice(s: Scope) -> str:
    dim = wrap_dim("slice", s.values["dim"], len(s.type("self").shape))
    return f"{s('self')}[{_place(s, dim, _slice_text(s))}]"


def _select(s: Scope) -> str:
    dim = wrap_dim("select", s.values["dim"], len(s.type("self").shape))
    return f"{s('self')}[{_place(s, dim, str(s.values['index']))}]"


def _slice_scatter(s: Scope) -> str:
    dim = wrap_dim("slice", s.values["dim"], len(s.type("self").shape))
    return f"_put({s('self')}, ({_index(s, dim, _slice_object(s))}), {s('src')})"


def _slice_object(s: Scope) -> str:
    start, end, *step = _slice_text(s).split(":")
    return f"slice({start}, {end}{', ' + step[0] if step else ''})"


def _index(s: Scope, dim: int, item: str) -> str:
    return ", ".join(["slice(None)"] * dim + [item]) + ","


def _cat(s: Scope) -> str:
    parts = [v for v in s.values["tensors"] if v.type.shape != (0,) or len(s.out.shape) == 1]
    texts = [cast(s.name_of(v), v.type.dtype, s.out.dtype) for v in parts]
    dim = wrap_dim("cat", s.values["dim"], len(s.out.shape))
    return f"{MODULE}.concatenate([{', '.join(texts)}], axis={dim})"


def _split(s: Scope) -> str:
    ends = np.cumsum(s.values["split_sizes"])[:-1].tolist()
    return f"{MODULE}.split({s('self')}, {ends!r}, axis={s.values['dim']})"


def _full(s: Scope) -> str:
    return f"{MODULE}.full({s.out.shape!r}, {s('fill_value')}, {dtype_text(s.out.dtype)})"


def _diagonal(s: Scope) -> str:
    v = s.values
    return f"{MODULE}.diagonal({s('self')}, {v['offset']}, {v['dim1']}, {v['dim2']})"


def _to(s: Scope) -> str:
    if s.type("self").dtype.is_complex and not s.out.dtype.is_complex:
        return f"{s('self')}.real.astype({dtype_text(s.out.dtype)})"
    return f"{s('self')}.astype({dtype_text(s.out.dtype)})"


def _indexed(s: Scope) -> str:
    items = ["slice(None)" if i is None else s.text(i) for i in s.values["indices"]]
    return f"({', '.join(items)},)"


def _index_put(s: Scope) -> str:
    function = "_add_at" if s.values["accumulate"] else "_put"
    return f"{function}({s('self')}, {_indexed(s)}, {s('values')})"


def _scatter(function: str) -> Callable[[Scope], str]:
    def render(s: Scope) -> str:
        if not s.type("self").shape:
            raise ExportError("its first argument is 0-d")
        if s.type("index").shape != s.type("src").shape and s.type("index").shape:
            part = ", ".join(f":{n}" for n in s.type("index").shape)
            source = f"{s('src')}[{part}]"
        else:
            source = s("src")
        return f"{function}({s('self')}, _along({s('index')}, {s.values['dim']}), {source})"

    return render


def _extreme(which: str) -> Callable[[Scope], str]:
    def render(s: Scope) -> str:
        dim, keep = s.values["dim"], bool(s.values["keepdim"])
        return f"_extreme({MODULE}.arg{which}, {s('self')}, {dim}, {keep})"

    return render


def _arg(which: str) -> Callable[[Scope], str]:
    def render(s: Scope) -> str:
        keep = ", keepdims=True" if s.values["keepdim"] else ""
        return f"{MODULE}.{which}({s('self')}, axis={s.values['dim']}{keep})"

    return render


def _scaled(sign: str) -> Callable[[Scope], str]:
    def render(s: Scope) -> str:
        a, b = promoted(s, "self"), promoted(s, "other")
        return f"{a} {sign} {b}" if s.values["alpha"] == 1 else f"{a} {sign} {b} * {s('alpha')}"

    return render


def _infix(sign: str, first: str = "self", second: str = "other") -> Callable[[Scope], str]:
    return lambda s: f"{promoted(s, first)} {sign} {promoted(s, second)}"


def _two(function: str, first: str = "self", second: str = "other") -> Callable[[Scope], str]:
    return lambda s: f"{MODULE}.{function}({promoted(s, first)}, {promoted(s, second)})"


def _one(function: str) -> Callable[[Scope], str]:
    return lambda s: f"{MODULE}.{function}({promoted(s, 'self')})"


def _divide(s: Scope) -> str:
    mode, both = s.values["rounding_mode"], f"{promoted(s, 'self')}, {promoted(s, 'other')}"
    if mode == "floor":
        return f"{MODULE}.floor_divide({both})"
    if mode == "trunc":
        return f"{MODULE}.trunc({MODULE}.divide({both})).astype({dtype_text(s.out.dtype)})"
    return f"{MODULE}.divide({both})"


def _angle(s: Scope) -> str:
    x = promoted(s, "self")
    if s.type("self").dtype.is_complex:
        return f"{MODULE}.angle({x})"
    return f"{MODULE}.where({MODULE}.isnan({x}), {x}, {MODULE}.where({x} < 0, {MODULE}.pi, 0)).astype({dtype_text(s.out.dtype)})"


def _truth(function: str) -> Callable[[Scope], str]:
    reduce = _reduce(function)
    return lambda s: f"{s('self')}.astype({MODULE}.bool_)" if s.values["dim"] == () else reduce(s)


def _gather(s: Scope) -> str:
    if not s.type("self").shape:
        return f"{MODULE}.broadcast_to({s('self')}, {s.out.shape!r})"
    return f"{s('self')}[_along({s('index')}, {s.values['dim']})]"


def _unfold(s: Scope) -> str:
    if not s.type("self").shape:
        return _reshape(s)
    dim = wrap_dim("unfold", s.values["dimension"], len(s.type("self").shape))
    step = f"[{_place(s, dim, '::' + str(s.values['step']))}]" if s.values["step"] != 1 else ""
    return f"{MODULE}.lib.stride_tricks.sliding_window_view({s('self')}, {s.values['size']}, {dim}){step}"


def _fold(s: Scope) -> str:
    dim = wrap_dim("unfold", s.values["dim"], len(s.out.shape))
    return f"_fold({s('grad_in')}, {s.out.shape!r}, {dim}, {s.values['size']}, {s.values['step']})"


def _sort(s: Scope) -> str:
    return f"_sort({s('self')}, {s.values['dim']}, {bool(s.values['descending'])})"


def _unreduce(s: Scope) -> str:
    shape, dim = s.values["shape"], s.values["dim"]
    gone = set(wrap_dims("sum", dim, len(shape))) if dim else set(range(len(shape)))
    middle = tuple(1 if i in gone else n for i, n in enumerate(shape))
    return f"{MODULE}.broadcast_to({s('self')}.reshape({middle!r}), {tuple(shape)!r})"


TABLE: dict[str, Callable[[Scope], str]] = {
    "add.Tensor": _scaled("+"), "add.Scalar": _scaled("+"), "sub.Tensor": _scaled("-"), "sub.Scalar": _scaled("-"),
    "rsub.Scalar": lambda s: f"{s('other')} - {promoted(s, 'self')}" + ("" if s.values["alpha"] == 1 else f" * {s('alpha')}"),
    "mul.Tensor": _infix("*"), "mul.Scalar": _infix("*"), "div.Tensor": _infix("/"), "div.Scalar": _infix("/"),
    "neg.default": lambda s: f"-{promoted(s, 'self')}",
    "eq.Tensor": _infix("=="), "eq.Scalar": _infix("=="), "ne.Tensor": _infix("!="), "ne.Scalar": _infix("!="),
    "lt.Tensor": _infix("<"), "lt.Scalar": _infix("<"), "le.Tensor": _infix("<="), "le.Scalar": _infix("<="),
    "gt.Tensor": _infix(">"), "gt.Scalar": _infix(">"), "ge.Tensor": _infix(">="), "ge.Scalar": _infix(">="),
    "bitwise_and.Tensor": _infix("&"), "bitwise_or.Tensor": _infix("|"), "bitwise_xor.Tensor": _infix("^"),
    "bitwise_not.default": lambda s: f"~{s('self')}",
    "div.Tensor_mode": _divide, "div.Scalar_mode": _divide,
    "remainder.Tensor": _two("remainder"), "remainder.Scalar": _two("remainder"),
    "remainder.Scalar_Tensor": _two("remainder"),
    "fmod.Tensor": _two("fmod"), "fmod.Scalar": _two("fmod"),
    "pow.Tensor_Scalar": _two("power", "self", "exponent"), "pow.Scalar": _two("power", "self", "exponent"),
    "pow.Tensor_Tensor": _two("power", "self", "exponent"),
    "ldexp.Tensor": lambda s: f"{s('self')} * {MODULE}.exp2({s('other')}).astype({dtype_text(s.out.dtype)})",
    "sign.default": _one("sign"), "round.default": _one("rint"), "angle.default": _angle, "frexp.Tensor": _one("frexp"),
    "positive.default": lambda s: s("self"),
    "round.decimals": lambda s: f"{MODULE}.round({promoted(s, 'self')}, {s.values['decimals']})",
    "full.default": _full, "scalar_tensor.default": lambda s: f"{MODULE}.array({s('s')}, {dtype_text(s.out.dtype)})",
    "zeros.default": lambda s: f"{MODULE}.zeros({s.out.shape!r}, {dtype_text(s.out.dtype)})",
    "ones.default": lambda s: f"{MODULE}.ones({s.out.shape!r}, {dtype_text(s.out.dtype)})",
    "zeros_like.default": lambda s: f"{MODULE}.zeros({s.out.shape!r}, {dtype_text(s.out.dtype)})",
    "ones_like.default": lambda s: f"{MODULE}.ones({s.out.shape!r}, {dtype_text(s.out.dtype)})",
    "empty.memory_format": lambda s: f"{MODULE}.empty({s.out.shape!r}, {dtype_text(s.out.dtype)})",
    "empty_like.default": lambda s: f"{MODULE}.empty({s.out.shape!r}, {dtype_text(s.out.dtype)})",
    "new_empty.default": lambda s: f"{MODULE}.empty({s.out.shape!r}, {dtype_text(s.out.dtype)})",
    "eye.default": lambda s: f"{MODULE}.eye({s.values['n']}, dtype={dtype_text(s.out.dtype)})",
    "eye.m": lambda s: f"{MODULE}.eye({s.values['n']}, {s.values['m']}, dtype={dtype_text(s.out.dtype)})",
    "arange.start_step": lambda s: f"{MODULE}.arange({s('start')}, {s('end')}, {s('step')}, {dtype_text(s.out.dtype)})",
    "linspace.default": lambda s: f"{MODULE}.linspace({s('start')}, {s('end')}, {s.values['steps']}, dtype={dtype_text(s.out.dtype)})",
    "where.self": lambda s: f"{MODULE}.where({s('condition')}, {promoted(s, 'self')}, {promoted(s, 'other')})",
    "where.ScalarSelf": lambda s: f"{MODULE}.where({s('condition')}, {promoted(s, 'self')}, {promoted(s, 'other')})",
    "where.ScalarOther": lambda s: f"{MODULE}.where({s('condition')}, {promoted(s, 'self')}, {promoted(s, 'other')})",
    "masked_fill.Scalar": lambda s: f"{MODULE}.where({s('mask')}, {s('value')}, {s('self')}).astype({dtype_text(s.out.dtype)})",
    "mm.default": lambda s: f"{s('self')} @ {s('mat2')}", "bmm.default": lambda s: f"{s('self')} @ {s('mat2')}",
    "matmul.default": lambda s: f"{s('self')} @ {s('other')}", "mv.default": lambda s: f"{s('self')} @ {s('vec')}",
    "dot.default": lambda s: f"{s('self')} @ {s('tensor')}",
    "sum.default": lambda s: f"{MODULE}.sum({s('self')}, dtype={dtype_text(s.out.dtype)})",
    "mean.default": lambda s: f"{MODULE}.mean({s('self')}, dtype={dtype_text(s.out.dtype)})",
    "sum.dim_IntList": _reduce("sum", typed=True), "mean.dim": _reduce("mean", typed=True),
    "prod.dim_int": _reduce("prod", typed=True), "amax.default": _reduce("amax"), "amin.default": _reduce("amin"),
    "any.dims": _truth("any"), "all.dims": _truth("all"),
    "max.dim": _extreme("max"), "min.dim": _extreme("min"), "argmax.default": _arg("argmax"), "argmin.default": _arg("argmin"),
    "_unreduce.default": _unreduce,
    "cumsum.default": _along("cumsum"), "cumprod.default": _along("cumprod"),
    "alias.default": _first, "detach.default": _first, "lift_fresh.default": _first,
    "view.default": _reshape, "reshape.default": _reshape, "squeeze.dims": _reshape, "unsqueeze.default": _reshape,
    "permute.default": _permute, "expand.default": lambda s: f"{MODULE}.broadcast_to({s('self')}, {s.out.shape!r})",
    "cat.default": _cat, "split_with_sizes.default": _split, "flip.default": lambda s: f"{MODULE}.flip({s('self')}, {s.values['dims']!r})",
    "clone.default": lambda s: f"{s('self')}.copy()", "_to_copy.default": _to,
    "copy.default": lambda s: f"{MODULE}.broadcast_to({s('src')}, {s.out.shape!r}).astype({dtype_text(s.out.dtype)})",
    "complex.default": lambda s: f"({s('real')} + 1j * {s('imag')}).astype({dtype_text(s.out.dtype)})",
    "real.default": lambda s: f"{s('self')}.real", "imag.default": lambda s: f"{s('self')}.imag",
    "_conj.default": lambda s: f"{s('self')}.conj()", "_conj_physical.default": lambda s: f"{s('self')}.conj()",
    "conj_physical.default": lambda s: f"{s('self')}.conj()", "_neg_view.default": lambda s: f"-{s('self')}",
    "view_as_real.default": lambda s: f"{MODULE}.stack([{s('self')}.real, {s('self')}.imag], axis=-1)",
    "view_as_complex.default": lambda s: f"({s('self')}[..., 0] + 1j * {s('self')}[..., 1]).astype({dtype_text(s.out.dtype)})",
    "select.int": _select, "slice.Tensor": _slice, "slice_scatter.default": _slice_scatter, "diagonal.default": _diagonal,
    "index.Tensor": lambda s: f"{s('self')}[{_indexed(s)}]", "index_put.default": _index_put,
    "gather.default": _gather, "unfold.default": _unfold,
    "unfold_backward.default": _fold,
    "_linear_recurrence.default": lambda s: f"_recurrence({s('a')}, {s('b')}, {s.values['dim']}, {bool(s.values['reverse'])})",
    "sort.default": _sort,
    "logcumsumexp.default": lambda s: f"{MODULE}.logaddexp.accumulate({s('self')}, axis={s.values['dim']})" if s.out.shape else s("self"),
    "view.dtype": lambda s: f"{MODULE}.ascontiguousarray({s('self')}).view({dtype_text(s.out.dtype)}).reshape({s.out.shape!r})",
    "scatter.src": _scatter("_put"), "scatter_add.default": _scatter("_add_at"),
}  # fmt: skip

# What the expressions above call; written to the file where one is used.
HELPERS: dict[str, str] = {
    "_put": '''
def _put(array, index, values):
    """A copy of `array` with `values` at `index`."""
    result = array.copy()
    result[index] = values
    return result
''',
    "_add_at": '''
def _add_at(array, index, values):
    """A copy of `array` with `values` added at `index`, as often as a place occurs there."""
    result = array.copy()
    np.add.at(result, index, values)
    return result
''',
    "_along": '''
def _along(index, axis):
    """The index of the elements that `index` names along one dimension."""
    if not index.ndim:
        return (index,)
    grid = list(np.indices(index.shape, sparse=True))
    grid[axis] = index
    return tuple(grid)
''',
    "_fold": '''
def _fold(windows, shape, axis, size, step):
    """Add windows up where they were taken from."""
    places = np.arange(int(np.prod(shape))).reshape(shape)
    taken = np.moveaxis(np.lib.stride_tricks.sliding_window_view(places, size, axis), axis, 0)[::step]
    result = np.zeros(places.size, windows.dtype)
    np.add.at(result, np.moveaxis(taken, 0, axis), windows)
    return result.reshape(shape)
''',
    "_recurrence": '''
def _recurrence(a, b, axis, backwards):
    """y[k] = a[k] y[k-1] + b[k], from the other end if backwards."""
    a, b = np.broadcast_arrays(a, b)
    if not b.ndim or not b.size:
        return b.copy()
    a, b = np.moveaxis(a, axis, 0), np.moveaxis(b, axis, 0)
    result, y = np.empty_like(b), 0
    for k in reversed(range(len(b))) if backwards else range(len(b)):
        y = result[k] = a[k] * y + b[k]
    return np.moveaxis(result, 0, axis)
''',
    "_sort": '''
def _sort(array, axis, descending):
    """Sorted elements and where they were; equal ones keep their order."""
    if not array.ndim:
        return array, np.zeros((), np.int64)
    if descending:
        last = array.shape[axis] - 1
        order = np.flip(last - np.argsort(np.flip(array, axis), axis, kind="stable"), axis)
    else:
        order = np.argsort(array, axis, kind="stable")
    return np.take_along_axis(array, order, axis), order
''',
    "_extreme": '''
def _extreme(where, array, axis, keepdims):
    """The largest or smallest elements along a dimension, and where they are."""
    if not array.ndim:
        return array, np.zeros((), np.int64)
    place = where(array, axis=axis, keepdims=True)
    value = np.take_along_axis(array, place, axis)
    return (value, place) if keepdims else (value.squeeze(axis), place.squeeze(axis))
''',
    "_scan": '''
def _scan(body, constants, start, xs, length, backwards, types):
    """Run a step for each x; return the last carry, then the stacked results (types: for no steps)."""
    carry, rows = list(start), []
    count = len(xs[0]) if length < 0 else length
    for i in reversed(range(count)) if backwards else range(count):
        results = body(*constants, *carry, *(x[i] for x in xs))
        carry, row = list(results[: len(start)]), results[len(start) :]
        rows.append(row)
    if backwards:
        rows.reverse()
    stacks = [np.stack([row[j] for row in rows]) if rows else np.zeros((0, *s), t) for j, (s, t) in enumerate(types)]
    return (*carry, *stacks)
''',
    "_while": '''
def _while(condition, body, first, constants, start, keep):
    """Run a step as long as the condition holds; return the last carry, and with `keep` the carries of all steps."""
    carry, kept = list(start), []
    while condition(*first, *carry)[0]:
        kept.append(carry)
        carry = list(body(*constants, *carry))
    if not keep:
        return tuple(carry)
    stacks = [np.stack([c[i] for c in kept]) if kept else np.zeros((0, *np.shape(s)), s.dtype) for i, s in enumerate(start)]
    return (*carry, *stacks)
''',
}


# --- from rows ------------------------------------------------------------------------------------------------


def cast(text: str, have: DType, wanted: DType) -> str:
    """An array in the dtype wanted."""
    return text if have is wanted else f"{text}.astype({dtype_text(wanted)})"


def common_dtype(s: Scope) -> DType | None:
    """What the arguments of an elementwise operator are brought to."""
    row = s.node.op.row
    operands = [s.values[a.name] for a in row.promoted if s.values[a.name] is not None]
    if not operands:
        return None
    dtype = result_type(*[v.type.spec if isinstance(v, Value) else v for v in operands])
    return dtypes.DEFAULT.dtype if row.archetype.to_float and not dtype.is_differentiable else dtype


def promoted(s: Scope, name: str) -> str:
    """An argument in the common dtype of its operator."""
    value = s.values[name]
    common = common_dtype(s)
    if (
        not isinstance(value, Value)
        or common is None
        or name not in {a.name for a in s.node.op.row.promoted}
    ):
        return s.text(value)
    return cast(s.text(value), value.type.dtype, common)


class _Known:
    """A tensor argument of which a kernel asks the dtype."""

    def __init__(self, dtype: Any) -> None:
        self.dtype = dtype


class _Fill(ast.NodeTransformer):
    """Put arguments in place of names, and take the branch that the dtypes decide."""

    def __init__(self, s: Scope) -> None:
        self.s = s
        common = common_dtype(s)
        self.known: dict[str, Any] = {
            n: _Known((common or v.type.dtype).np) if isinstance(v, Value) else v
            for n, v in s.values.items()
        }

    def visit_IfExp(self, node: ast.IfExp) -> Any:  # noqa: N802
        test = eval(
            compile(ast.Expression(node.test), "kernel", "eval"), {"__builtins__": {}}, self.known
        )  # noqa: S307
        return self.visit(node.body if test else node.orelse)

    def visit_Name(self, node: ast.Name) -> Any:  # noqa: N802
        if node.id == "xp":
            return ast.Name(MODULE)
        if node.id in self.s.values:
            return ast.parse(promoted(self.s, node.id), mode="eval").body
        raise ExportError(f"its kernel uses {node.id}")


def from_row(s: Scope) -> str | None:
    """The kernel of a row as text; None if it is a function of ours."""
    row: Row = s.node.op.row
    if is_reference(row.kernel, row.schema.names):
        family, _, function = row.kernel.partition(".")
        if family != "xp":
            return None
        return f"{MODULE}.{function}({', '.join(promoted(s, n) for n in row.schema.names)})"
    if not row.kernel:
        return None
    try:
        tree = ast.fix_missing_locations(_Fill(s).visit(ast.parse(row.kernel, mode="eval")))
    except ExportError:
        return None
    return ast.unparse(tree)


def has_text(op: Operator) -> bool:
    """Whether an operator is written as it is, without being decomposed; a kernel may yet refuse a dtype."""
    if op.full_name in TABLE:
        return True
    return (
        "xp." in op.row.kernel and op.row.archetype.promotes and "pointwise." not in op.row.kernel
    )
