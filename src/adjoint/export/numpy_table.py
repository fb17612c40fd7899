"""The table from operators to NumPy text.

Shapes and dtypes are known in a graph, so a view is a `reshape` to what comes out, and a cast is
written only where one is needed. In a template `{self}` is an argument in the operator's common
dtype, `{!shape}` and `{!dtype}` are those of the result. Operators that are here, or whose row
names a NumPy function, are written as they are; others are decomposed.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np

from adjoint.core.shapes import wrap_dim, wrap_dims
from adjoint.export.numpy_text import ExportError, Scope, cast, dtype_text, promoted
from adjoint.graph.ir import Value
from adjoint.ops.operator import Operator

TEMPLATES: dict[str, str] = {
    "mul.Tensor": "{self} * {other}",
    "mul.Scalar": "{self} * {other}",
    "div.Tensor": "{self} / {other}",
    "div.Scalar": "{self} / {other}",
    "neg.default": "-{self}",
    "eq.Tensor": "{self} == {other}",
    "eq.Scalar": "{self} == {other}",
    "ne.Tensor": "{self} != {other}",
    "ne.Scalar": "{self} != {other}",
    "lt.Tensor": "{self} < {other}",
    "lt.Scalar": "{self} < {other}",
    "le.Tensor": "{self} <= {other}",
    "le.Scalar": "{self} <= {other}",
    "gt.Tensor": "{self} > {other}",
    "gt.Scalar": "{self} > {other}",
    "ge.Tensor": "{self} >= {other}",
    "ge.Scalar": "{self} >= {other}",
    "bitwise_and.Tensor": "{self} & {other}",
    "bitwise_or.Tensor": "{self} | {other}",
    "bitwise_xor.Tensor": "{self} ^ {other}",
    "bitwise_not.default": "~{self}",
    "remainder.Tensor": "np.remainder({self}, {other})",
    "remainder.Scalar": "np.remainder({self}, {other})",
    "remainder.Scalar_Tensor": "np.remainder({self}, {other})",
    "fmod.Tensor": "np.fmod({self}, {other})",
    "fmod.Scalar": "np.fmod({self}, {other})",
    "pow.Tensor_Scalar": "np.power({self}, {exponent})",
    "pow.Tensor_Tensor": "np.power({self}, {exponent})",
    "pow.Scalar": "np.power({self}, {exponent})",
    "ldexp.Tensor": "{self} * np.exp2({other}).astype({!dtype})",
    "sign.default": "np.sign({self})",
    "round.default": "np.rint({self})",
    "round.decimals": "np.round({self}, {decimals})",
    "frexp.Tensor": "np.frexp({self})",
    "full.default": "np.full({!shape}, {fill_value}, {!dtype})",
    "scalar_tensor.default": "np.array({s}, {!dtype})",
    "zeros.default": "np.zeros({!shape}, {!dtype})",
    "ones.default": "np.ones({!shape}, {!dtype})",
    "zeros_like.default": "np.zeros({!shape}, {!dtype})",
    "ones_like.default": "np.ones({!shape}, {!dtype})",
    "empty.memory_format": "np.empty({!shape}, {!dtype})",
    "empty_like.default": "np.empty({!shape}, {!dtype})",
    "new_empty.default": "np.empty({!shape}, {!dtype})",
    "eye.default": "np.eye({n}, dtype={!dtype})",
    "eye.m": "np.eye({n}, {m}, dtype={!dtype})",
    "arange.start_step": "np.arange({start}, {end}, {step}, {!dtype})",
    "linspace.default": "np.linspace({start}, {end}, {steps}, dtype={!dtype})",
    "where.self": "np.where({condition}, {self}, {other})",
    "where.ScalarSelf": "np.where({condition}, {self}, {other})",
    "where.ScalarOther": "np.where({condition}, {self}, {other})",
    "masked_fill.Scalar": "np.where({mask}, {value}, {self}).astype({!dtype})",
    "mm.default": "{self} @ {mat2}",
    "bmm.default": "{self} @ {mat2}",
    "matmul.default": "{self} @ {other}",
    "mv.default": "{self} @ {vec}",
    "dot.default": "{self} @ {tensor}",
    "sum.default": "np.sum({self}, dtype={!dtype})",
    "mean.default": "np.mean({self}, dtype={!dtype})",
    "permute.default": "{self}.transpose({dims})",
    "expand.default": "np.broadcast_to({self}, {!shape})",
    "flip.default": "np.flip({self}, {dims})",
    "clone.default": "{self}.copy()",
    "copy.default": "np.broadcast_to({src}, {!shape}).astype({!dtype})",
    "complex.default": "({real} + 1j * {imag}).astype({!dtype})",
    "real.default": "{self}.real",
    "imag.default": "{self}.imag",
    "_conj.default": "{self}.conj()",
    "_conj_physical.default": "{self}.conj()",
    "conj_physical.default": "{self}.conj()",
    "_neg_view.default": "-{self}",
    "view_as_real.default": "np.stack([{self}.real, {self}.imag], axis=-1)",
    "view_as_complex.default": "({self}[..., 0] + 1j * {self}[..., 1]).astype({!dtype})",
    "view.dtype": "np.ascontiguousarray({self}).view({!dtype}).reshape({!shape})",
    "diagonal.default": "np.diagonal({self}, {offset}, {dim1}, {dim2})",
    "sort.default": "_sort({self}, {dim}, {descending})",
    "_linear_recurrence.default": "_recurrence({a}, {b}, {dim}, {reverse})",
}


def fill(template: str, s: Scope) -> str:
    """Write a template with the arguments of a node."""

    def piece(match: re.Match[str]) -> str:
        name = match.group(1)
        if name == "!shape":
            return repr(s.out.shape)
        return dtype_text(s.out.dtype) if name == "!dtype" else promoted(s, name)

    return re.sub(r"\{(!?\w+)\}", piece, template)


# --- where a template is not enough -----------------------------------------------------------


def _scaled(sign: str, a: str = "{self}", b: str = "{other}") -> Callable[[Scope], str]:
    def render(s: Scope) -> str:
        factor = "" if s.values["alpha"] == 1 else " * {alpha}"
        return fill(f"{a} {sign} {b}{factor}", s)

    return render


def _logcumsumexp(s: Scope) -> str:
    if s.out.dtype.is_complex:
        raise ExportError("NumPy has no logaddexp of complex numbers")
    return fill("np.logaddexp.accumulate({self}, axis={dim})" if s.out.shape else "{self}", s)


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
        return f"np.{function}({s('self')}, axis={_axes(s)!r}{dtype}{keep})"

    return render


def _along(function: str) -> Callable[[Scope], str]:
    def render(s: Scope) -> str:
        x, dtype = s("self"), dtype_text(s.out.dtype)
        if not s.type("self").shape:
            return f"{x}.astype({dtype})"
        return f"np.{function}({x}, axis={s.values['dim']}, dtype={dtype})"

    return render


def _place(s: Scope, dim: int, item: str) -> str:
    """x[:, :, item]."""
    return ", ".join([":"] * dim + [item])


def _slice_text(s: Scope) -> str:
    size = s.type("self").shape[wrap_dim("slice", s.values["dim"], len(s.type("self").shape))]
    start, end, _ = slice(s.values["start"], s.values["end"]).indices(size)
    step = s.values["step"]
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
    return f"np.concatenate([{', '.join(texts)}], axis={dim})"


def _split(s: Scope) -> str:
    ends = np.cumsum(s.values["split_sizes"])[:-1].tolist()
    return f"np.split({s('self')}, {ends!r}, axis={s.values['dim']})"


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
        return f"_extreme(np.arg{which}, {s('self')}, {dim}, {keep})"

    return render


def _arg(which: str) -> Callable[[Scope], str]:
    def render(s: Scope) -> str:
        keep = ", keepdims=True" if s.values["keepdim"] else ""
        return f"np.{which}({s('self')}, axis={s.values['dim']}{keep})"

    return render


def _divide(s: Scope) -> str:
    mode, both = s.values["rounding_mode"], f"{promoted(s, 'self')}, {promoted(s, 'other')}"
    if mode == "floor":
        return f"np.floor_divide({both})"
    if mode == "trunc":
        return f"np.trunc(np.divide({both})).astype({dtype_text(s.out.dtype)})"
    return f"np.divide({both})"


def _angle(s: Scope) -> str:
    x = promoted(s, "self")
    if s.type("self").dtype.is_complex:
        return f"np.angle({x})"
    dtype = dtype_text(s.out.dtype)
    return f"np.where(np.isnan({x}), {x}, np.where({x} < 0, np.pi, 0)).astype({dtype})"


def _truth(function: str) -> Callable[[Scope], str]:
    reduce = _reduce(function)
    return lambda s: f"{s('self')}.astype(np.bool_)" if s.values["dim"] == () else reduce(s)


def _gather(s: Scope) -> str:
    if not s.type("self").shape:
        return f"np.broadcast_to({s('self')}, {s.out.shape!r})"
    return f"{s('self')}[_along({s('index')}, {s.values['dim']})]"


def _unfold(s: Scope) -> str:
    if not s.type("self").shape:
        return _reshape(s)
    dim = wrap_dim("unfold", s.values["dimension"], len(s.type("self").shape))
    step = f"[{_place(s, dim, '::' + str(s.values['step']))}]" if s.values["step"] != 1 else ""
    window = f"{s('self')}, {s.values['size']}, {dim}"
    return f"np.lib.stride_tricks.sliding_window_view({window}){step}"


def _fold(s: Scope) -> str:
    dim = wrap_dim("unfold", s.values["dim"], len(s.out.shape))
    size, step = s.values["size"], s.values["step"]
    return f"_fold({s('grad_in')}, {s.out.shape!r}, {dim}, {size}, {step})"


def _unreduce(s: Scope) -> str:
    shape, dim = s.values["shape"], s.values["dim"]
    gone = set(wrap_dims("sum", dim, len(shape))) if dim else set(range(len(shape)))
    middle = tuple(1 if i in gone else n for i, n in enumerate(shape))
    return f"np.broadcast_to({s('self')}.reshape({middle!r}), {tuple(shape)!r})"


RENDERERS: dict[str, Callable[[Scope], str]] = {
    "add.Tensor": _scaled("+"),
    "add.Scalar": _scaled("+"),
    "sub.Tensor": _scaled("-"),
    "sub.Scalar": _scaled("-"),
    "rsub.Scalar": _scaled("-", "{other}", "{self}"),
    "div.Tensor_mode": _divide,
    "div.Scalar_mode": _divide,
    "angle.default": _angle,
    "positive.default": _first,
    "alias.default": _first,
    "detach.default": _first,
    "lift_fresh.default": _first,
    "view.default": _reshape,
    "reshape.default": _reshape,
    "squeeze.dims": _reshape,
    "unsqueeze.default": _reshape,
    "_to_copy.default": _to,
    "cat.default": _cat,
    "split_with_sizes.default": _split,
    "unfold.default": _unfold,
    "unfold_backward.default": _fold,
    "select.int": _select,
    "slice.Tensor": _slice,
    "slice_scatter.default": _slice_scatter,
    "index.Tensor": lambda s: f"{s('self')}[{_indexed(s)}]",
    "index_put.default": _index_put,
    "gather.default": _gather,
    "scatter.src": _scatter("_put"),
    "scatter_add.default": _scatter("_add_at"),
    "sum.dim_IntList": _reduce("sum", typed=True),
    "mean.dim": _reduce("mean", typed=True),
    "prod.dim_int": _reduce("prod", typed=True),
    "amax.default": _reduce("amax"),
    "amin.default": _reduce("amin"),
    "any.dims": _truth("any"),
    "all.dims": _truth("all"),
    "max.dim": _extreme("max"),
    "min.dim": _extreme("min"),
    "argmax.default": _arg("argmax"),
    "argmin.default": _arg("argmin"),
    "_unreduce.default": _unreduce,
    "cumsum.default": _along("cumsum"),
    "cumprod.default": _along("cumprod"),
    "logcumsumexp.default": _logcumsumexp,
}


def text_of(s: Scope) -> str | None:
    """The text of an operator that the table has."""
    name = s.node.name
    if name in TEMPLATES:
        return fill(TEMPLATES[name], s)
    return RENDERERS[name](s) if name in RENDERERS else None


def has_text(op: Operator) -> bool:
    """Whether an operator is written as it is, without being decomposed."""
    if op.full_name in TEMPLATES or op.full_name in RENDERERS:
        return True
    kernel = op.row.kernel
    return "xp." in kernel and "pointwise." not in kernel and op.row.archetype.promotes
