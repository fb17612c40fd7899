"""Writing in place: the operator's result is written over `self`, and the history moves.

Whatever `name_` does to memory, its derivative is the derivative of `name`: compute, write back,
and let `self` (and the base it views, and that base's other views) continue from the new node.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from adjoint.c_kernels.copies import write
from adjoint.calls import dispatch
from adjoint.core.dtypes import REDUCED
from adjoint.core.errors import ArgumentError, InplaceError, ShapeError
from adjoint.core.promotion import WEAK, check_inplace_cast, promotion_of
from adjoint.core.shapes import show
from adjoint.core.state import changed, current, seeing
from adjoint.core.storage import is_expanded
from adjoint.homes import forward, overrides, tangents
from adjoint.loops import row_loops
from adjoint.loops.gate import LARGE
from adjoint.ops import arguments, former
from adjoint.ops.documentation import Documentation
from adjoint.ops.operator import HINTS, Operator, packet
from adjoint.tape import narrow
from adjoint.tape.saving import RESULT, TENSOR, all_saves
from adjoint.tensor import overlaps, views
from adjoint.tensor.nodes import Node, before_write, count_write
from adjoint.tensor.tensor import Tensor, is_plain, make


def build(op: Operator, functional: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function of an operator that writes to its first argument."""
    saves = narrow.saves(op.row) if op.row.reverse else all_saves(op.row)
    of_self = [s for s in saves if s.kind == TENSOR and s.source == "self"]
    keeps_narrow, keeps_self = bool(of_self), any(not s.narrow for s in of_self)
    # if only derivatives in other arguments need the result, it gets its own memory, as a copy of
    # self would: the tensor may be written to again
    keeps_result = any(s.kind == RESULT and "self" in s.users for s in saves)
    is_view = op.row.archetype.name == "inplace_view"
    what, most = op.schema.name, op.positional
    loops = row_loops.RowLoops(op.row) if row_loops.can_write(op.row) else None

    def write_in_place(*args: Any, **keywords: Any) -> Tensor:
        if seeing and (now := current()).seen:  # Note [Seen calls]; autocast leaves writes alone
            if now.function_modes:
                return overrides.ask_mode(overrides.function_of(op), args, keywords)
            with changed(seen=False):
                return write_in_place(*args, **keywords)
        if (
            loops is not None
            and args
            and is_plain(args[0])
            and args[0].value.size >= LARGE
            and len(args) <= most
        ) and _write_at_once(op, loops, args, keywords):
            return args[0]
        if not (keywords or is_view or len(args) > most) and _is_plain_write(args):
            written = _write_plainly(what, functional, args)
            if written is not None:
                return written
        values = _bind(op, args, keywords)
        tensor = values[0]
        windows = overlaps.is_view_of_windows(tensor)
        top = dispatch.topmost(values)
        if top is not None and top is not forward.DUALS:
            top = dispatch.region_of_write(top, tensor) if dispatch.regions else top
            return top.process_inplace(op, functional, values)
        if is_view:
            return _swap_view(op, functional, values)
        check_writable(tensor, what, one_number=bool(op.row.fills))
        if windows:
            if not overlaps.overwrites(op.row):
                return _write_in_turns(op, functional, values)
            if any(map(_has_history, values[1:])):
                overlaps.refuse(what)
        keeps = keeps_self or (keeps_narrow and tensor.value.dtype in REDUCED)
        values[0] = before = _before(tensor, keeps)
        result = _call(op, functional, values)
        if current().recording and result.edge is None and before.edge is not None:
            result = _without_derivative(result, before)
        if result.edge is not None and before.edge is None:
            views.check_recorded_write(tensor, what, with_history=True)
        _write(what, tensor, result)
        if forward.is_dual(result) or forward.is_dual(tensor):
            forward.DUALS.write_tangent(tensor, forward.DUALS.tangent(result))
        if current().recording and result.edge is not None:
            if keeps_result and result.edge is not before.edge:
                _share_result(result, tensor)
            views.rebase(tensor, result.edge)
        return tensor

    write_in_place.__name__ = write_in_place.__qualname__ = what
    write_in_place.__wrapped__ = op  # type: ignore[attr-defined] - inspect.signature asks it
    write_in_place.__annotations__ = HINTS
    write_in_place.__doc__ = Documentation(op.name, lambda: (op,))
    return write_in_place


def _write_in_turns(op: Operator, functional: Callable[..., Any], values: list[Any]) -> Tensor:
    """Write to a view whose elements share places."""
    what = op.schema.name
    if not overlaps.is_of_elements(op.row) or not _is_plain_write(values):
        overlaps.refuse(what)
    overlaps.write_in_turns(what, lambda v: _call(op, functional, v), values)
    count_write(values[0], what)
    return values[0]


def _write_at_once(
    op: Operator, loops: row_loops.RowLoops, args: tuple[Any, ...], keywords: dict[str, Any]
) -> bool:
    """Let native code write a large result without history straight over the tensor, if it can."""
    values = _bind(op, args, keywords)
    if not _is_plain_write(values) or overlaps.is_view_of_windows(values[0]):
        return False
    tensor = values[0]
    check_writable(tensor, op.schema.name)
    arrays = [v.value if type(v) is Tensor else v for v in values]
    if tensor.value.dtype not in WEAK and not _fit_numbers(op, arrays):
        return False
    if loops(*arrays, out=tensor.value) is None:
        return False
    count_write(tensor, op.schema.name)
    return True


def _fit_numbers(op: Operator, arrays: list[Any]) -> bool:
    """Round the numbers among the operands to the tensor's dtype, in the list; False if the
    operator computes in another dtype.
    """
    row, names = op.row, op.schema.names
    given = dict(zip(names, arrays, strict=True))
    dtype = row.computes_in(given)
    if dtype is None:
        return True
    if dtype.np != arrays[0].dtype:
        return False
    operands = tuple([given[a.name] for a in row.promoted])
    for argument, value in zip(row.promoted, promotion_of(row.texts)(operands, False), strict=True):
        arrays[names.index(argument.name)] = value
    return True


def _has_history(value: Any) -> bool:
    return isinstance(value, Tensor) and (value.edge is not None or value.home is not None)


def _is_plain_write(values: Sequence[Any]) -> bool:
    """Whether a write is not recorded: the tape is off, or no operand has a history."""
    if not values or not is_plain(values[0]):
        return False
    if not current().recording:
        return True
    for value in values:
        if isinstance(value, Tensor):
            if not is_plain(value) or value.edge is not None:
                return False
        elif type(value) in (list, tuple):  # may hold tensors
            return False
    extra = values[0].extra
    return extra is None or extra.view is None or extra.view.base.edge is None


def _write_plainly(
    what: str, functional: Callable[..., Any], args: tuple[Any, ...]
) -> Tensor | None:
    """The common case, an update without a history; None if the general way must be taken."""
    tensor = args[0]
    if overlaps.is_view_of_windows(tensor):
        return None
    before_write(tensor, what)
    result = functional(*args)
    array = tensor.value
    if (
        not is_plain(result)
        or result.value.dtype is not array.dtype
        or result.value.shape != array.shape
    ):
        return None
    if not array.flags.writeable or (0 in array.strides and is_expanded(array)):
        return None
    write(array, result.value)
    count_write(tensor, what)
    return tensor


def _bind(op: Operator, args: tuple[Any, ...], keywords: dict[str, Any]) -> list[Any]:
    what, schema = op.schema.name, op.schema
    if len(args) > op.positional and (found := former.reordered(op.row, schema, args)) is not None:
        args, keywords = tuple(found[0]), {**found[1], **keywords}
    if len(args) > op.positional:
        raise ArgumentError(
            f"{what}() takes {op.positional} positional arguments, got {len(args)}: {schema}"
        )
    given = [*args, *[arguments.MISSING] * (len(schema.arguments) - len(args))]
    if keywords:
        named = dict(zip(schema.names, args, strict=False)) | arguments.rename(schema, keywords)
        unknown = named.keys() - set(schema.names)
        if unknown:
            raise ArgumentError(
                f"{what}() has no argument {unknown.pop()!r}; its signature is {schema}"
            )
        given = [named.get(name, arguments.MISSING) for name in schema.names]
    values = arguments.bind(op, given)
    if values[0] is not given[0]:
        raise ArgumentError(
            f"{what}: the tensor that is written to must be a tensor, got "
            f"{arguments.describe(given[0])}"
        )
    return values


def _call(op: Operator, functional: Callable[..., Any], values: list[Any]) -> Tensor:
    count = op.positional
    return functional(
        *values[:count], **dict(zip(op.schema.names[count:], values[count:], strict=True))
    )


def _before(tensor: Tensor, keeps_self: bool) -> Tensor:
    """The tensor as it was: a copy of its memory if the tape will need it."""
    recording = current().recording != 0
    edge = views.edge_without_hooks(tensor) if recording else tensor.edge
    if forward.is_dual(tensor):
        tangents.before_write(tensor.companion)
    before = make(tensor.value.copy() if keeps_self and recording else tensor.value, edge=edge)
    return forward.dual(before, forward.DUALS.tangent(tensor))


def _without_derivative(result: Tensor, before: Tensor) -> Tensor:
    """Give a result without a derivative in `self` (eq_, logical_not_) a history with gradient 0.

    `self` must not keep the history of the overwritten values.
    """
    everywhere = make(np.array(True))
    return packet("where")(everywhere, result.to(before.dtype), before)


def check_writable(tensor: Tensor, what: str, *, one_number: bool = False) -> None:
    """Raise if `tensor` cannot be written to; an expanded tensor takes only a single number."""
    before_write(tensor, what)
    views.check_recorded_write(tensor, what)
    array = tensor.value
    if not one_number and 0 in array.strides and is_expanded(array):
        raise InplaceError(
            f"{what}: several elements of the tensor share one place in memory (it was "
            "expanded); clone() it first"
        )
    if not array.flags.writeable:
        raise InplaceError(f"{what}: the tensor's memory is read-only; clone() it first")


def _write(what: str, tensor: Tensor, result: Tensor) -> None:
    if result.shape != tensor.shape:
        raise ShapeError(
            f"{what}: the result has shape {show(result.shape)}, but the tensor written to has "
            f"{show(tensor.shape)}"
        )
    check_inplace_cast(what, result.dtype, tensor.dtype)
    np.copyto(tensor.value, result.value, casting="unsafe")
    count_write(tensor, what)


def _share_result(result: Tensor, tensor: Tensor) -> None:
    """Let the node keep the tensor's memory as its result instead of a second array."""
    node = result.edge
    if type(node) is Node and node.saved is not None and result.value.dtype == tensor.value.dtype:
        node.saved = tuple(tensor.value if s is result.value else s for s in node.saved)
        node.counters, node.more().expected = (tensor.counter,), (tensor.counter.count,)


def _swap_view(op: Operator, functional: Callable[..., Any], values: list[Any]) -> Tensor:
    """squeeze_, t_, …: the tensor becomes a view of a new tensor for its former value."""
    tensor, what = values[0], op.name
    before_write(tensor, what)
    views.check_recorded_write(tensor, what)
    outer = make(tensor.value, edge=tensor.edge)
    forward.dual(outer, forward.DUALS.tangent(tensor))
    view = packet(what.removesuffix("_")) if views.is_shared(tensor) else functional

    def take(source: Tensor) -> Tensor:
        viewed = _call(op, view, [source, *values[1:]])
        if forward.is_dual(tensor):
            tensor.companion = viewed.companion
        return viewed

    views.become_view(tensor, outer, take)
    count_write(tensor, what)
    return tensor
