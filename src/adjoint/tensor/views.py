"""Views: tensors that share memory with a base, and how their history follows it.

A view remembers its base and the path of view operators that leads to it. After a write in
place, the base's history is new, and the edges of all its living views are made again by walking
their paths from the base. Writes pay for this; reads cost nothing.
"""

from __future__ import annotations

import weakref
from dataclasses import dataclass
from typing import Any

import numpy as np

from adjoint.core.errors import InplaceError
from adjoint.ops.operator import Operator
from adjoint.tensor.modes import enable_grad, modes
from adjoint.tensor.tape import Leaf, Node, Rule, next_sequence, own_counter
from adjoint.tensor.tensor import Tensor, TensorExtra, make

Step = tuple[Operator, tuple[Any, ...], int | None]  # operator, arguments after the tensor, which output


@dataclass(frozen=True)
class View:
    """How a view comes from its base."""

    base: Tensor
    path: tuple[Step, ...]
    several: bool  # made by an operator with several outputs: may not be written to
    recorded: bool  # made while the tape was on


def attach(op: Operator, source: Tensor, outs: Any, rest: tuple[Any, ...]) -> None:
    """Note that `outs` (a tensor, or a list of them) view `source`; reshape may also have copied."""
    if type(outs) is not list and not _shares(outs.value, source.value):
        return
    counter = own_counter(source)
    extra = source.extra
    if extra is None:
        extra = source.extra = TensorExtra()
    view = extra.view
    base, path, several = (source, (), False) if view is None else (view.base, view.path, view.several)
    recorded = modes.recording != 0
    registry = base.more().views
    if type(outs) is list:
        for i, out in enumerate(outs):
            _attach(out, counter, View(base, (*path, (op, rest, i)), True, recorded), registry)
    else:
        _attach(outs, counter, View(base, (*path, (op, rest, None)), several, recorded), registry)


def _shares(view: Any, array: Any) -> bool:
    owner = array if array.base is None else array.base
    return view.base is owner or view is array or bool(np.may_share_memory(view, array))


def _attach(out: Tensor, counter: Any, view: View, registry: list[Any]) -> None:
    out.counter = counter
    out.extra = extra = TensorExtra()
    extra.view = view
    registry.append(weakref.ref(out))
    count = len(registry)
    if count >= 16 and count & (count - 1) == 0:  # at powers of two, drop the dead
        registry[:] = [r for r in registry if r() is not None]


def replay(path: tuple[Step, ...], base: Any) -> Any:
    """Walk a path of views from another base of the same shape."""
    for op, rest, number in path:
        schema = op.schema
        positional = sum(not a.keyword_only for a in schema.arguments) - 1
        keywords = dict(zip((a.name for a in schema.arguments[positional + 1 :]), rest[positional:], strict=True))
        base = op(base, *rest[:positional], **keywords)
        if number is not None:
            base = base[number]
    return base


def check_writable(tensor: Tensor, by: str) -> None:
    """Raise if a recorded write to `tensor` would corrupt derivatives."""
    view = None if tensor.extra is None else tensor.extra.view
    if modes.recording == 0:
        return
    if type(tensor.edge) is Leaf:
        raise InplaceError(
            f"{by}: a leaf tensor that requires a gradient cannot be changed in place; "
            "do it under no_grad(), or use the out-of-place operator"
        )
    if view is None:
        return
    base_needs = view.base.edge is not None
    if type(view.base.edge) is Leaf:
        raise InplaceError(
            f"{by}: a view of a leaf tensor that requires a gradient cannot be changed in place; "
            "do it under no_grad(), or clone() the leaf first"
        )
    if view.several and (base_needs or tensor.edge is not None):
        raise InplaceError(
            f"{by}: this view is one of several outputs of {view.path[-1][0].name}, and such views cannot be "
            "changed in place while gradients are recorded; clone() it first"
        )
    if not view.recorded and base_needs:
        raise InplaceError(
            f"{by}: this view was made under no_grad() and is changed in place with gradients on, so its "
            "history is unclear; make the view with gradients on, or clone() it"
        )


def _copy_slices(node: Node, grad: Any, needs: Any, graph: bool) -> tuple[Any, Any]:
    """The base outside the view keeps its gradient; what was written to the view gets the rest."""
    path = node.saved[0] if node.saved else ()
    outside = None
    if needs[0]:
        outside = grad.clone()
        replay(path, outside).zero_()
    return outside, replay(path, grad) if needs[1] else None


COPY_SLICES = Rule("CopySlices", _copy_slices)


def rebase(tensor: Tensor, edge: Any) -> None:
    """Give `tensor`, just written to, the history `edge`; its base and the base's views follow."""
    view = None if tensor.extra is None else tensor.extra.view
    base = tensor
    if view is None:
        tensor.edge = edge
    else:
        base = view.base
        node = Node(COPY_SLICES, (base.edge, edge), (view.path,), base.value.shape, base.value.dtype)
        node.sequence = next_sequence()
        base.edge = node
    refresh(base)


def refresh(base: Tensor) -> None:
    """Make the edges of all living views of `base` again."""
    if base.extra is None or not base.extra.views:
        return
    living = [t for r in base.extra.views if (t := r()) is not None]
    base.extra.views[:] = [weakref.ref(t) for t in living]
    with enable_grad():
        for tensor in living:
            view = tensor.extra.view
            if base.edge is None or not view.recorded:
                continue
            tensor.edge = replay(view.path, _stand_in(base)).edge


def _stand_in(base: Tensor) -> Tensor:
    """The base without its registry, so that replayed views do not enter it."""
    return make(base.value, edge=base.edge)
