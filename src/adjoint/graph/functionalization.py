"""Writes in place and views, made functional while tracing.

A write gives the written tensor a new value. If the tensor is a view, its base gets a new value,
too, found by walking the path of views backwards: a view with all elements of its source is
inverted by the row's reverse formula, other views by `select_scatter` and its like. Then the base's
other views are taken again.

Memory is imagined: see `strides.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from adjoint.core.errors import InplaceError, ShapeError
from adjoint.core.promotion import check_inplace_cast
from adjoint.core.remembering import remembered
from adjoint.core.shapes import show
from adjoint.graph.strides import seen, view_of
from adjoint.homes import derive
from adjoint.homes.levels import swap_view, twin
from adjoint.ops import operator as operators
from adjoint.ops.operator import Operator
from adjoint.tape import fitting
from adjoint.tensor import views
from adjoint.tensor.nodes import count_write
from adjoint.tensor.tensor import Tensor, is_plain, make

Prepare = Callable[[Operator, list[Any]], tuple[Operator, list[Any]]]


@remembered
def preparation(op: Operator) -> Prepare | None:
    """A function that rewrites calls of an operator that read values or memory; None if none is
    needed.

    The rewritten call reads only shapes, since a run may have other strides than the trace.
    """
    if any(a.type.holds_none for a in op.schema.tensors):
        return _without_masks
    if op.row.moves == "shape" and op.schema.is_view and "size" in op.schema.names:
        return lambda _, values: (operators.operator("reshape"), values[:2])
    return _of_base if op.name == "as_strided" else None


def _without_masks(op: Operator, values: list[Any]) -> tuple[Operator, list[Any]]:
    """Replace masks of known values in index lists by whole numbers, so that the shape is known."""
    return op, [_indices(v) if type(v) is list else v for v in values]


def _of_base(op: Operator, values: list[Any]) -> tuple[Operator, list[Any]]:
    """Apply `as_strided` to the base, in whose memory the strides count."""
    source, size, stride, start = values
    if view_of(source) is None:
        return op, values
    start = seen(source).offset if start is None else start
    return op, [view_of(source).base, size, stride, start]


def _indices(indices: list[Any]) -> list[Any]:
    found: list[Any] = []
    for index in indices:
        if is_plain(index) and index.dtype.name in ("bool", "uint8"):
            found.extend(make(a) for a in np.nonzero(index.value))
        else:
            found.append(index)
    return found


# --- writing --------------------------------------------------------------------------------------


def write(level: Any, op: Operator, function: Callable[..., Any], values: list[Any]) -> Any:
    """Carry out `op`, which writes to its first argument in place."""
    if op.row.archetype.name == "inplace_view":
        return swap_view(op, values, twin(values[0]))
    target = values[0]
    count = op.positional
    keywords = dict(zip(op.schema.names[count:], values[count:], strict=True))
    result = function(*values[:count], **keywords)
    if tuple(result.shape) != target.shape:
        raise ShapeError(
            f"{op.name}: the result has shape {show(result.shape)}, but the tensor written to has "
            f"{show(target.shape)}"
        )
    check_inplace_cast(op.name, result.dtype, target.dtype)
    if result.dtype is not target.dtype:
        result = result.to(target.dtype)
    _rebind(level, op.name, target, level.value(result))
    count_write(target, op.name)
    return target


def _rebind(level: Any, what: str, target: Any, value: Any) -> None:
    """Give a tensor a new value, and update its base and the base's other views."""
    target.value = value
    base = views.history_base(target)
    if base is not target:
        base.value = _rebuilt(level, what, view_of(target), value).value
    _refresh(level, base, target)
    if (view := view_of(base)) is not None:  # the tensor from which the base was detached
        new = _rebuilt(level, what, view, base.value).detach()
        if view.base.requires_grad:  # new values with the same history
            old = level.lift(view.base.value)
            new = new + (old - old.detach())
        view.base.value = level.value(new)
        _refresh(level, view.base, base)


def _refresh(level: Any, base: Any, written: Any) -> None:
    """Take the living views of a base again, except for the written one."""
    for living in views.living_views(base):
        if living is not written:
            living.value = views.replay(living.extra.view.path, level.lift(base.value)).value


def _rebuilt(level: Any, what: str, view: Any, value: Any) -> Any:
    """The new value of the base, after `value` was written to a view of it."""
    path, new = view.path, level.lift(value)
    sources = [level.lift(view.base.value)]
    for step in path:
        sources.append(views.replay((step,), sources[-1]))
    cut = next((k for k, (op, _, _) in enumerate(path) if op.name == "expand"), len(path))
    if cut < len(path) and sources[cut].dtype is new.dtype:  # the write goes to one of the copies
        new = level.lift(level.value(_by_position(what, path[cut:], sources[cut], new)))
        path = path[:cut]
    for step, source in reversed(list(zip(path, sources, strict=False))):
        new = level.lift(level.value(_undo(what, step, source, new)))
    return new


def _undo(what: str, step: views.Step, source: Any, new: Any) -> Any:
    """`source` after `new` was written to the view that `step` takes of it."""
    op, rest, number = step
    if op.name == "unbind":
        return source.select_scatter(new, rest[0], number)
    if number is not None:
        return _undo_split(op, rest, number, source, new)
    if op.name in ("real", "imag") and source.is_complex():
        parts = (new, source.imag) if op.name == "real" else (source.real, new)
        return operators.packet("complex")(*parts)
    if operators.exists(f"{op.name}_scatter"):
        return operators.packet(f"{op.name}_scatter")(source, new, *rest)
    if op.name in ("view_as_real", "view_as_complex") or (
        new.numel() == source.numel() and new.dtype is source.dtype
    ):
        return _by_formula(op, rest, source, new)
    takes_geometry = any(isinstance(a, Tensor) for a in rest)  # slice_inverse of a part
    if takes_geometry or new.dtype is not source.dtype:
        raise InplaceError(f"{what}: a graph cannot write through {op.name}; clone() it first")
    return _by_position(what, (step,), source, new)


def _undo_split(op: Operator, rest: tuple[Any, ...], number: int, source: Any, new: Any) -> Any:
    sizes, dim = rest[0], rest[1]
    start = number * sizes if isinstance(sizes, int) else sum(sizes[:number])
    return source.slice_scatter(new, dim, start, start + new.shape[dim], 1)


def _by_formula(op: Operator, rest: tuple[Any, ...], source: Any, new: Any) -> Any:
    """Invert a view of all elements: its transpose is its inverse."""
    row = op.row
    entry = next((r for r in row.reverse if r.formula is not None), None)
    if entry is None:  # detach
        return new
    scope = derive.with_facts(row, dict(zip(row.schema.names, (source, *rest), strict=True))) | {
        "grad": new
    }
    found = derive.call_formula(row, entry, f"{row.schema.symbol}_{'_'.join(entry.inputs)}", scope)
    return fitting.fit_like(found, source)


def _by_position(what: str, path: tuple[views.Step, ...], source: Any, new: Any) -> Any:
    """Invert any other view, such as unfold or expand, by the positions of its elements."""
    places = make(np.arange(source.numel()).reshape(source.shape))
    taken = views.replay(path, places).value
    if np.unique(taken).size != taken.size:
        raise InplaceError(
            f"{what}: several elements of the tensor share one place in memory (it was expanded, "
            "say); clone() it first"
        )
    flat = source.reshape((-1,)).index_put([make(taken.reshape(-1))], new.reshape((-1,)))
    return flat.reshape(source.shape)
