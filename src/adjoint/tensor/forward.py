"""Forward mode in eager: dual tensors, which carry a tangent beside their value.

A dual tensor is an ordinary one whose home is `FORWARD`, so that the fast path does not see it. An
operator on dual tensors computes its value and its node as usual, and its tangent by the row's
forward formula on the tensors without their tangents. What the node saves is dual, so backward
through it gives gradients with tangents (forward over reverse); the tangent is computed by recorded
operators, so it can be differentiated (reverse over forward).
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from contextvars import ContextVar
from typing import Any

from adjoint.core.errors import NotDifferentiable
from adjoint.ops.operator import Operator
from adjoint.table.rows import Row
from adjoint.tensor import binding, derive, limits, views
from adjoint.tensor.home import Home
from adjoint.tensor.tape import Node, Output, own_counter
from adjoint.tensor.tensor import Tensor, alias, make

# weak references to the dual tensors of the level that is open in this context
duals: ContextVar[list[Any] | None] = ContextVar("adjoint duals", default=None)


class ForwardInterpreter(Home):
    """Runs operators on dual tensors. It is also the home of the nodes recorded there."""

    level = 0.5
    name = "dual_level"
    takes_out = False  # PyTorch's users expect an error

    def process(self, op: Operator, values: list[Any]) -> Any:
        row = op.row
        if op.schema.replaces:
            return op.call(values)
        if row.decompose and not row.reverse and not row.forward:
            return binding.decomposition(row)(*values)
        if limits.at_kink(op, values):
            return limits.approached(op, values, self._run)
        return self._run(op, values)

    def _run(self, op: Operator, values: list[Any]) -> Any:
        row = op.row
        if op.schema.is_view:
            share_extras(values)
        primals = [primal(v) for v in values]
        results = op.call(primals)
        outputs = list(results) if isinstance(results, (tuple, list)) else [results]
        if op.schema.is_view:
            _rebase_views(outputs, primals, values)
        _keep_duals(outputs, primals, values)
        if any(d for d in row.differentiable_outputs) and row.archetype.result != "bool":
            tangents = _tangents(row, values)
            if any(_present(t) for t in tangents.values()):
                scope = dict(zip(row.schema.names, primals, strict=True))
                per_return = [results] if isinstance(results, list) else outputs
                _attach(outputs, derive.forward_all(row, scope, tangents, per_return))
            _refuse(row, values, outputs)
        return results

    def below(self, value: Any) -> Any:
        return value

    def result(self, value: Any, edge: Any, node: Node, number: int) -> Any:
        made = make(value, edge=edge)
        tangent = node.extra.tangents.get(number) if node.extra is not None else None
        return made if tangent is None else dual(made, tangent)

    def after_detach(self, tensor: Tensor) -> None:
        write_tangent(tensor, None)

    def direction(self, tensor: Tensor) -> Any:
        return tensor.beside

    def text(self, tensor: Tensor) -> str:
        return f"{super().text(tensor)[:-1]}, tangent={tensor.beside!r})"


FORWARD = ForwardInterpreter()


def dual(tensor: Tensor, tangent: Any) -> Any:
    """Give a tensor a tangent: it becomes a dual tensor, until its level ends."""
    if tensor.home is not FORWARD:
        tensor.home = FORWARD
        living = duals.get()
        if living is not None:
            living.append(weakref.ref(tensor))
    tensor.beside = tangent
    return tensor


def is_dual(value: Any) -> bool:
    """Whether this is a tensor with a tangent."""
    return isinstance(value, Tensor) and value.home is FORWARD


def primal(value: Any) -> Any:
    """The same tensor without its tangent; lists entry by entry."""
    if is_dual(value):
        made = alias(value, value.edge)
        made.extra = value.extra
        return made
    return [primal(v) for v in value] if type(value) is list else value


def without_history(tensor: Tensor) -> Tensor:
    """The same tensor, with its tangent, cut off the tape."""
    made = alias(tensor)
    return dual(made, tensor.beside) if is_dual(tensor) else made


def tangent_of(value: Any) -> Any:
    """The tangent, or None."""
    return value.beside if is_dual(value) else None


def _tangents(row: Row, values: list[Any]) -> dict[str, Any]:
    named = dict(zip(row.schema.names, values, strict=True))
    found: dict[str, Any] = {}
    for argument in row.differentiable:
        value = named[argument.name]
        if argument.type.is_list:
            found[argument.name] = [tangent_of(v) for v in value]
        else:
            found[argument.name] = tangent_of(value)
    return found


def _present(tangent: Any) -> bool:
    return any(t is not None for t in tangent) if isinstance(tangent, list) else tangent is not None


def _keep_duals(outputs: list[Any], primals: list[Any], values: list[Any]) -> None:
    """Let the node save the dual tensors in place of their values."""
    edges = [o.edge for o in outputs if isinstance(o, Tensor) and o.edge is not None]
    if not edges:
        return
    node = edges[0].node if type(edges[0]) is Output else edges[0]
    if type(node) is not Node or node.saved is None:
        return
    originals = {id(p): v for p, v in zip(primals, values, strict=True) if p is not v}
    for p, v in zip(primals, values, strict=True):
        if type(p) is list:
            originals |= {id(a): b for a, b in zip(p, v, strict=True)}
    node.saved = tuple(
        [originals.get(id(e), e) for e in s] if type(s) is list else originals.get(id(s), s)
        for s in node.saved
    )
    node.home = FORWARD


def _attach(outputs: list[Any], tangents: list[Any]) -> None:
    for number, (output, tangent) in enumerate(zip(outputs, tangents, strict=True)):
        if (
            tangent is None
            or not isinstance(output, Tensor)
            or not output.is_differentiable_dtype()
        ):
            continue
        tangent = fit_tangent(tangent, output)
        dual(output, tangent)
        edge = output.edge
        node = edge.node if type(edge) is Output else edge
        if isinstance(node, Node):
            node.more().tangents[number] = tangent


def fit_tangent(tangent: Any, like: Tensor) -> Any:
    """Broadcast and cast a tangent to the shape and dtype of its tensor."""
    if tangent.dtype is not like.dtype:
        tangent = tangent.real if tangent.is_complex() and not like.is_complex() else tangent
        tangent = tangent.to(like.dtype)
    return tangent if tangent.shape == like.shape else tangent.expand(like.shape)


def _refuse(row: Row, values: list[Any], outputs: list[Any]) -> None:
    """Raise where a tangent arrives at an input without a derivative."""
    for name, value in zip(row.schema.names, values, strict=True):
        if (
            name in row.refused
            and any(is_dual(v) for v in (value if type(value) is list else [value]))
            and any(isinstance(o, Tensor) and o.is_differentiable_dtype() for o in outputs)
        ):
            raise NotDifferentiable(
                f"{row.full_name} is not differentiable in {name}, and {name} has a tangent"
            )


def share_extras(values: Sequence[Any]) -> None:
    """Before a view is made of a dual tensor: what the view will need to know of its base."""
    for value in values:
        if is_dual(value):
            value.more()
            own_counter(value)


def _rebase_views(outputs: list[Any], primals: list[Any], values: list[Any]) -> None:
    """Views of a dual tensor have it as their base, and not the tensor without its tangent."""
    for output in outputs:
        view = (
            output.extra.view if isinstance(output, Tensor) and output.extra is not None else None
        )
        if view is not None:
            view.base = next(
                (v for p, v in zip(primals, values, strict=True) if p is view.base), view.base
            )


def write_tangent(tensor: Tensor, tangent: Any) -> None:
    """After a write in place: the tangent of a tensor, its base and the base's views; None is
    zero.
    """
    if tangent is not None and tangent.dtype is not tensor.dtype:
        tangent = tangent.to(tensor.dtype)  # as the value was: abs_ of complex numbers
    view = None if tensor.extra is None else tensor.extra.view
    base = tensor if view is None else view.base
    if view is None:
        if tangent is not None and views.has_living_views(tensor):
            tangent = views.laid_out(
                tangent, tensor
            )  # so that it can be viewed where the tensor can
        _set_tangent(tensor, tangent)
    elif tangent is not None or is_dual(base):
        old = tangent_of(base)
        new = make(base.value).zeros_like() if old is None else old.clone()
        part = views.replay(view.path, new)
        part.zero_() if tangent is None else part.copy_(tangent)
        dual(base, new)
    for reference in [] if base.extra is None else base.extra.views:
        living = reference()
        if living is not None:
            new = tangent_of(base)
            _set_tangent(living, None if new is None else views.replay(living.extra.view.path, new))


def _set_tangent(tensor: Tensor, tangent: Any) -> None:
    if tangent is not None:
        dual(tensor, tangent)
    elif is_dual(tensor):
        tensor.home = None
