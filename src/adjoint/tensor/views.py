"""Views: tensors that share memory with a base, and whose history follows the base's.

A view remembers its base and the path of view operators that leads to it. After a write in
place, the base's history is new, and the edges of all its living views are made again by walking
their paths from the base. Writes pay for this; reads cost nothing.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import numpy as np

from adjoint.checks import shape as layout
from adjoint.core.errors import InplaceError
from adjoint.core.state import current
from adjoint.ops.kinks import is_limit
from adjoint.ops.operator import Operator, packet
from adjoint.tensor.modes import enable_grad
from adjoint.tensor.nodes import (
    SELECTS,
    Leaf,
    Node,
    Output,
    Refusal,
    Rule,
    is_inference,
    mark_inference,
    move,
    next_sequence,
    own_counter,
)
from adjoint.tensor.tensor import Tensor, TensorExtra, alias

Step = tuple[
    Operator, tuple[Any, ...], int | None
]  # operator, arguments after the tensor, which output


class View:
    """The base of a view and the path to it. A plain class: one is made for every view."""

    __slots__ = ("base", "function", "path", "recorded", "several")

    def __init__(
        self,
        base: Tensor,
        path: tuple[Step, ...],
        several: bool,
        recorded: bool,
        function: str = "",
    ) -> None:
        self.base = base
        self.path = path
        self.several = several  # from an operator with several outputs: must not be written to
        self.recorded = recorded  # made while the tape was on
        self.function = function  # the user's Function that returned it, or the tensor it views


def attach(op: Operator, source: Tensor, outs: Any, rest: tuple[Any, ...]) -> None:
    """Note that `outs` (a tensor or a list of them) view `source`; reshape may have copied."""
    if type(outs) is not list and not _shares(outs.value, source.value):
        mark_inference(outs)
        return
    counter = own_counter(source)
    extra = source.extra
    if extra is None:
        extra = source.extra = TensorExtra()
    view = extra.view
    base, path, several, function = (
        (source, (), False, "")
        if view is None
        else (view.base, view.path, view.several, view.function)
    )
    now = current()
    recorded = now.recording != 0 and (view is None or view.recorded)
    registry = base.more().views
    if type(outs) is list:
        for i, out in enumerate(outs):
            made = View(base, (*path, (op, rest, i)), True, recorded, function)
            _attach(out, counter, made, registry)
    else:
        made = View(base, (*path, (op, rest, None)), several, recorded, function)
        _attach(outs, counter, made, registry)
    if now.inference and source.edge is not None and not is_inference(source):
        # it is an ordinary tensor, and requires a gradient if the tensor that it views does
        listed: list[Any] = outs if type(outs) is list else [outs]
        for out in listed:
            out.edge = Leaf(out)


def attach_level(op: Operator, source: Any, outs: Any, rest: tuple[Any, ...]) -> None:
    """Like `attach`, for tensors of a transform, whose memory is on a level below."""
    if type(outs) is list or _share_memory(outs, source):
        link(op, source, outs, rest)


def link(op: Operator, source: Any, outs: Any, rest: tuple[Any, ...]) -> None:
    """Note that tensors of a transform view another one, without checking their memory."""
    view = None if source.extra is None else source.extra.view
    base, path, function = (
        (source, (), "") if view is None else (view.base, view.path, view.function)
    )
    counter = own_counter(source)
    registry = base.more().views
    listed = type(outs) is list
    for i, out in enumerate(outs if listed else [outs]):
        step = (op, rest, i if listed else None)
        _attach(out, counter, View(base, (*path, step), listed, True, function), registry)


def link_function(name: str, source: Any, out: Any) -> None:
    """Note that the result of a user's function inside a transform views one of its inputs."""
    base = base_of(source)
    _attach(out, own_counter(source), View(base, (), False, False, name), base.more().views)


def _share_memory(view: Any, source: Any) -> bool:
    """Whether two tensors of a transform share memory below it; a trace's memory is imagined."""
    while isinstance(source.value, Tensor) and isinstance(view.value, Tensor):
        source, view = source.value, view.value
    if isinstance(source.value, np.ndarray) and isinstance(view.value, np.ndarray):
        return _shares(view.value, source.value)
    return base_of(view) is base_of(source)


def base_of(tensor: Any) -> Any:
    """The tensor whose memory a tensor uses: itself, or the base that it views."""
    return tensor if tensor.extra is None or tensor.extra.view is None else tensor.extra.view.base


def path_of(tensor: Any) -> tuple[Step, ...]:
    """How a tensor views its base."""
    return () if tensor.extra is None or tensor.extra.view is None else tensor.extra.view.path


def is_one_of_several(tensor: Any) -> bool:
    """Whether a tensor is a view that an operator with several outputs made."""
    return tensor.extra is not None and tensor.extra.view is not None and tensor.extra.view.several


def _shares(view: Any, array: Any) -> bool:
    owner = array if array.base is None else array.base
    return view.base is owner or view is array or bool(np.may_share_memory(view, array))


def _attach(out: Any, counter: Any, view: View, registry: list[Any]) -> None:
    out.counter = counter
    extra = out.extra
    if extra is None:  # a tensor from a kink has one already
        extra = out.extra = TensorExtra()
    extra.view = view
    registry.append(weakref.ref(out))
    count = len(registry)
    if count >= 16 and count & (count - 1) == 0:  # at powers of two, drop the dead
        registry[:] = [r for r in registry if r() is not None]


def is_shared(tensor: Any) -> bool:
    """Whether a tensor is a view, or has living views."""
    return has_living_views(tensor) or (tensor.extra is not None and tensor.extra.view is not None)


def become_view(tensor: Any, outer: Any, take: Callable[[Any], Any]) -> None:
    """Make `tensor` a view of `outer`, a new tensor for its former value; `take(outer)` is the
    view.

    `outer` views the base that `tensor` viewed, and becomes the base of its views. Changing a shape
    computes nothing, so an existing history follows even without recording.
    """
    outer.counter = own_counter(tensor)
    extra = tensor.extra
    if extra is not None:
        outer.more().view, outer.more().views = extra.view, extra.views
        extra.view, extra.views = None, []
    known = outer.extra is not None and outer.extra.view is not None  # in the registry of the base
    if not known:
        for reference in [] if outer.extra is None else outer.extra.views:
            if (living := reference()) is not None:
                living.extra.view.base = outer
    with enable_grad() if isinstance(tensor.edge, (Node, Output)) else nullcontext():
        viewed = take(outer)
    tensor.value = viewed.value
    move(tensor, tensor.edge if viewed.edge is None else viewed.edge)
    if viewed.extra is not None and viewed.extra.view is not None:
        tensor.more().view = view = viewed.extra.view
        if not known:
            view.base.more().views.append(weakref.ref(tensor))


def history_base(tensor: Any) -> Any:
    """The tensor whose history a write to `tensor` changes: its base; or, if a detached tensor lies
    between them on the path, that one, which becomes the base of its own views.
    """
    view = None if tensor.extra is None else tensor.extra.view
    if view is None:
        return tensor
    count = max((i + 1 for i, step in enumerate(view.path) if step[0].name == "detach"), default=0)
    if not count:
        return view.base
    group = [
        t
        for t in living_views(view.base)
        if len(t.extra.view.path) >= count and t.extra.view.path[count - 1] is view.path[count - 1]
    ]
    found = next((t for t in group if len(t.extra.view.path) == count), None)
    if found is None:
        found = replay(view.path[:count], view.base)
    for t in group:
        if t is not found:
            known = t.extra.view
            t.extra.view = View(found, known.path[count:], known.several, known.recorded)
            found.more().views.append(weakref.ref(t))
    _forget_others(view.base)
    return found


def hand_over(tensor: Any, other: Any) -> None:
    """Let `other` become the view that `tensor` is; `tensor` is then no view."""
    if tensor.extra is not None and tensor.extra.view is not None:
        other.more().view, tensor.extra.view = tensor.extra.view, None
        base = other.extra.view.base
        base.more().views.append(weakref.ref(other))
        _forget_others(base)


def _forget_others(base: Any) -> None:
    """Keep the views of this base alone in its registry."""
    known = [(r, t) for r in base.extra.views if (t := r()) is not None and t.extra is not None]
    base.extra.views[:] = [r for r, t in known if t.extra.view and t.extra.view.base is base]


def replay(path: tuple[Step, ...], base: Any) -> Any:
    """Walk a path of views from another base of the same shape."""
    for op, rest, number in path:
        schema = op.schema
        positional = sum(not a.keyword_only for a in schema.arguments) - 1
        keywords = dict(
            zip(
                (a.name for a in schema.arguments[positional + 1 :]), rest[positional:], strict=True
            )
        )
        base = op(base, *rest[:positional], **keywords)
        if number is not None:
            base = base[number]
    return base


def check_recorded_write(tensor: Tensor, by: str, *, with_history: bool = False) -> None:
    """Raise if a recorded write to `tensor` would corrupt derivatives.

    `with_history`: the written value requires a gradient, so the tensor and its base will, too.
    """
    view = None if tensor.extra is None else tensor.extra.view
    if current().recording == 0:
        return
    if type(tensor.edge) is Leaf:
        raise InplaceError(
            f"{by}: a leaf tensor that requires a gradient cannot be changed in place; "
            "do it under no_grad(), or use the out-of-place operator"
        )
    if view is None:
        return
    base_needs = view.base.edge is not None or with_history
    if type(view.base.edge) is Leaf:
        raise InplaceError(
            f"{by}: a view of a leaf tensor that requires a gradient cannot be changed in place; "
            "do it under no_grad(), or clone() the leaf first"
        )
    if view.function and (base_needs or tensor.edge is not None):
        raise InplaceError(
            f"{by}: this is a view that {view.function} returned, a custom Function (or it returned"
            " an input as it is), and a write would need a derivative that only its backward "
            "knows; clone() the view in forward, or after it"
        )
    if view.several and (base_needs or tensor.edge is not None):
        raise InplaceError(
            f"{by}: this view is one of several outputs of {view.path[-1][0].name}, and such "
            "views cannot be changed in place while gradients are recorded; clone() it first"
        )
    if not view.recorded and (base_needs or type(tensor.edge) is Node):
        raise InplaceError(
            f"{by}: this view was made under no_grad() and is changed in place with gradients "
            "on, so its history is unclear; make the view with gradients on, or clone() it"
        )


def _copy_slices(node: Node, grad: Any, needs: Any, graph: bool) -> tuple[Any, Any]:
    """Split a base's gradient: the part outside the view goes on to the old base, the view's part
    to the written value.
    """
    path, order = node.saved if node.saved else ((), ())
    in_memory_order_of = _in_order(grad, order)
    inside = replay(path, in_memory_order_of).clone() if needs[1] else None
    return _without(path, in_memory_order_of, order) if needs[0] else None, inside


def _without(path: tuple[Step, ...], grad: Any, order: tuple[int, ...]) -> Any:
    """A gradient with 0 in place of a view; out of place near a kink, as writes reach the value
    alone.
    """
    if not is_limit(grad):
        replay(path, grad).zero_()
        return grad
    inside = _in_order(packet("zeros")(tuple(grad.shape), dtype=grad.dtype), order)
    written = replay(path, inside)  # of a complex base perhaps the real parts alone
    written.fill_(1 + 1j if written.is_complex() else 1)
    if not grad.is_complex():
        return grad.masked_fill(inside != 0, 0)
    parts = ((grad.real, inside.real), (grad.imag, inside.imag))
    return packet("complex")(*(part.masked_fill(here != 0, 0) for part, here in parts))


def _in_order(grad: Any, order: tuple[int, ...]) -> Any:
    """A copy of `grad` with its dimensions in this memory order."""
    if order == tuple(range(len(order))):
        return grad.clone(memory_format=0)
    return grad.permute(order).clone(memory_format=0).permute(layout.inverse(order))


def in_memory_order_of(tangent: Any, like: Tensor) -> Any:
    """A copy of `tangent` in the memory order of `like`."""
    return _in_order(tangent, _memory_order(like.value))


def _memory_order(base: Any) -> tuple[int, ...]:
    """The dimensions of an array, outermost in memory first.

    A gradient laid out in that order can be viewed wherever the array could.
    """
    strides = getattr(base, "strides", None)
    dims = range(len(base.shape))  # a traced value, too, which has no strides
    return tuple(dims if strides is None else sorted(dims, key=lambda d: -strides[d]))


COPY_SLICES = Rule("CopySlices", _copy_slices, holds=False, zeros=SELECTS)


def rebase(tensor: Tensor, edge: Any) -> None:
    """Give `tensor`, just written to, the history `edge`; its base and the base's views follow."""
    view = None if tensor.extra is None else tensor.extra.view
    base = tensor
    if view is None:
        move(tensor, edge)
    else:
        base = view.base
        node = Node(
            COPY_SLICES,
            (base.edge, edge),
            (view.path, _memory_order(base.value)),
            base.value.shape,
            base.value.dtype,
        )
        node.sequence = next_sequence()
        move(base, node)
    written = current().written
    if written is not None:
        written.append(weakref.ref(base))
    refresh(base)


def forget(base: Tensor) -> None:
    """Drop the history of a tensor and its views, which belongs to a transform that ended."""
    base.edge = None
    for reference in [] if base.extra is None else base.extra.views:
        living = reference()
        if living is not None:
            living.edge = None


def refresh(base: Tensor) -> None:
    """Compute the edges of all living views of `base` again."""
    if base.extra is None or not base.extra.views:
        return
    living = [t for r in base.extra.views if (t := r()) is not None]
    base.extra.views[:] = [weakref.ref(t) for t in living]
    with enable_grad():
        for tensor in living:
            view = tensor.extra.view
            if not view.recorded and tensor.edge is not None:
                tensor.edge = Refusal(_stale(view))
            if base.edge is None or not view.recorded:
                continue
            move(tensor, replay(view.path, _stand_in(base)).edge)


def _stale(view: View) -> str:
    """The reason why a view cannot follow the history of its base, for an error."""
    if view.function:
        return (
            f"a view that {view.function} returned, a custom Function, was changed through its "
            "base: what its gradient is, only its backward knows; clone() it before"
        )
    return (
        "a view made in no_grad or inference_mode was changed through its base with gradients on, "
        "so its history is not known; make the view with gradients on, or clone() it before"
    )


def edge_without_hooks(tensor: Tensor) -> Any:
    """The edge of a tensor that is about to be written to.

    The write replaces the view, so the hooks of its earlier version do not run.
    """
    edge = tensor.edge
    view = None if tensor.extra is None else tensor.extra.view
    node = edge.node if type(edge) is Output else edge
    hooked = isinstance(node, Node) and node.extra is not None and node.extra.tensor_hooks
    if view is None or not hooked or not view.recorded:
        return edge
    with enable_grad():
        return replay(view.path, _stand_in(view.base)).edge


def living_views(base: Any) -> list[Any]:
    """The living views of a tensor; a view comes before the views of itself."""
    found = [] if base.extra is None else [r() for r in base.extra.views]
    return sorted((t for t in found if t is not None), key=lambda t: len(t.extra.view.path))


def has_living_views(tensor: Tensor) -> bool:
    """Whether other tensors view this one."""
    return tensor.extra is not None and any(r() is not None for r in tensor.extra.views)


def _stand_in(base: Tensor) -> Tensor:
    """The base without its registry, so that replayed views do not enter it."""
    if isinstance(base.value, np.ndarray):
        return alias(base, base.edge)
    return base.home.lift(base.value, base.edge)
