"""Forward mode: tensors that carry a tangent, and how operators push it forward.

`Forward` is the mode. An operator runs on the values, and the tangents of its results come from the
row's forward formula, on the values too. There are two homes of such tensors:

- `JvpLevel`, one for each call of `jvp`. Its tensors hold a tensor one level below. Several nest,
  each with its own tangents, so forward over forward does not mix them up.
- `DUALS`, for PyTorch's dual tensors (`forward_ad.py`). They hold arrays, and become plain tensors
  when their level ends. The node of an operator saves the dual tensors, so backward through it
  gives gradients with tangents (forward over reverse); tangents are computed by recorded operators,
  so they can be differentiated (reverse over forward).
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from contextvars import ContextVar
from typing import Any

from adjoint.core.errors import NotDifferentiable
from adjoint.core.state import State, state
from adjoint.homes import derive, fans, limits, tangents
from adjoint.homes.levels import Level
from adjoint.ops import binding, runtime
from adjoint.ops.branches import from_above, run_asked
from adjoint.ops.operator import Operator
from adjoint.table.rows import Row
from adjoint.tensor import views
from adjoint.tensor.home import Height, Home
from adjoint.tensor.nodes import Node, Output, count_write, own_counter
from adjoint.tensor.tensor import Tensor, alias, make


class Forward(Home):
    """Runs operators on tensors with tangents; None stands for a tangent that is zero."""

    def tangent(self, value: Any) -> Any:
        """The tangent of a tensor here, or None."""
        return tangents.clean(self._tangent(value))

    def _tangent(self, value: Any) -> Any:
        """The tangent, with possible NaN at structural zeros: see tangents.py."""
        return value.companion if isinstance(value, Tensor) and value.home is self else None

    def primal(self, value: Any) -> Any:
        """A tensor without its tangent; lists entry by entry, other values unchanged."""
        raise AssertionError(f"{type(self).__name__} defines primal")

    def set_tangent(self, tensor: Tensor, tangent: Any) -> None:
        """Give a tensor another tangent."""
        raise AssertionError(f"{type(self).__name__} defines set_tangent")

    def pushed(self, row: Row, values: list[Any], primals: list[Any], results: Any) -> list[Any]:
        """The tangents of an operator's results, in their shapes and dtypes; None for zero."""
        outputs = list(results) if isinstance(results, (tuple, list)) else [results]
        named = dict(zip(row.schema.names, values, strict=True))
        given = {a.name: self._tangents(named[a.name]) for a in row.differentiable}
        self._refuse(row, named, outputs)
        if (
            not any(_is_present(t) for t in given.values())
            or not any(row.differentiable_outputs)
            or row.archetype.result == "bool"
        ):
            return [None] * len(outputs)
        scope = dict(zip(row.schema.names, primals, strict=True))
        per_return = [results] if isinstance(results, list) else outputs
        noted = tangents.any_noted(given)
        if noted:
            given = tangents.for_formulas(row, given)
        found = derive.forward_all(row, scope, given, per_return)
        if row.random:  # a draw that does not depend on its parameters gets a tangent of zeros
            found = [_zeros(o) if t is None else t for t, o in zip(found, outputs, strict=True)]
        fitted = [_fitted(t, o) for t, o in zip(found, outputs, strict=True)]
        if noted or tangents.starts(row):
            return tangents.noted(row, scope, given, fitted, per_return)
        return fitted

    def _tangents(self, value: Any) -> Any:
        return [self._tangent(v) for v in value] if type(value) is list else self._tangent(value)

    def _refuse(self, row: Row, named: dict[str, Any], outputs: list[Any]) -> None:
        """Raise where a tangent arrives at an input without a derivative."""
        for name in row.refused:
            if _is_present(self._tangents(named[name])) and any(
                isinstance(o, Tensor) and o.is_differentiable_dtype() for o in outputs
            ):
                raise NotDifferentiable(
                    f"{row.full_name} is not differentiable in {name}, and {name} has a tangent"
                )

    def write_tangent(self, target: Tensor, tangent: Any) -> None:
        """After a write in place: set the tangents of a tensor, its base and the base's views."""
        if tangent is not None and tangent.dtype is not target.dtype:
            tangent = tangent.to(target.dtype)  # converted like the value: abs_ of complex numbers
        view = None if target.extra is None else target.extra.view
        base = target if view is None else view.base
        known = self.tangent(base)
        if view is None:
            if tangent is not None and views.has_living_views(target):  # to be viewed like it
                tangent = views.in_memory_order_of(tangent, self.primal(target))
            self.set_tangent(target, tangent)
        elif tangent is not None or known is not None:
            whole = self.primal(base)
            new = whole.zeros_like() if known is None else views.in_memory_order_of(known, whole)
            part = views.replay(view.path, new)
            part.copy_(part.zeros_like() if tangent is None else tangent)
            self.set_tangent(base, new)
        whole = self.tangent(base)
        for living in views.living_views(base):
            path = living.extra.view.path
            self.set_tangent(living, None if whole is None else views.replay(path, whole))


def _is_present(tangent: Any) -> bool:
    return any(t is not None for t in tangent) if type(tangent) is list else tangent is not None


def _zeros(output: Any) -> Any:
    return output.zeros_like() if isinstance(output, Tensor) else None


def _fitted(tangent: Any, output: Any) -> Any:
    wanted = isinstance(output, Tensor) and output.is_differentiable_dtype()
    return fit_tangent(tangent, output) if wanted and tangent is not None else None


def fit_tangent(tangent: Any, like: Tensor) -> Any:
    """Broadcast and cast a tangent to the shape and dtype of its tensor."""
    if tangent.dtype is not like.dtype:
        tangent = tangent.real if tangent.is_complex() and not like.is_complex() else tangent
        tangent = tangent.to(like.dtype)
    return tangent if tangent.shape == like.shape else tangent.expand(like.shape)


class JvpLevel(Forward, Level):
    """One call of `jvp`."""

    name = "jvp"
    differentiates = True

    def primal(self, value: Any) -> Any:
        return self.below(value)

    def set_tangent(self, tensor: Tensor, tangent: Any) -> None:
        tensor.companion = tangent

    def process(self, op: Operator, values: list[Any]) -> Any:
        if not self.open:
            self.check_open(op.name)
        row = op.row
        if row.decompose and not row.reverse and not row.forward:
            return binding.decomposition(row)(*values)
        values = from_above(op, values)
        before = self.go_below()
        try:
            return self._push(op, row, values, before)
        finally:
            state.set(before)

    def _push(self, op: Operator, row: Row, values: list[Any], before: State) -> Any:
        primals = [self.below(v) for v in values]
        if "kink" in row.texts:
            results = run_asked(op, primals, values, before)
        else:
            results = runtime.again(op, primals)
        if row.archetype.result == "bool" or not isinstance(results, (Tensor, tuple, list)):
            return results
        pushed = self.pushed(row, values, primals, results)
        outputs = list(results) if isinstance(results, (tuple, list)) else [results]
        outs = [
            self.lift(o, t) if isinstance(o, Tensor) else o
            for o, t in zip(outputs, pushed, strict=True)
        ]
        if op.schema.is_view:
            self.attach_views(op, values, outs if isinstance(results, list) else outs[0])
        return type(results)(outs) if isinstance(results, (tuple, list)) else outs[0]

    def is_idle(self, value: Any) -> bool:
        return not self.owns(value) or value.companion is None

    def cloned(self, tensor: Any) -> Any:
        return self.lift(tensor.value.clone(), tensor.companion)

    def write(self, op: Operator, target: Any, result: Any) -> None:
        """Write the value below, and the tangent here."""
        with self.outside():
            tangents.before_write(target.companion)
            target.value.copy_(self.below(result))
            self.write_tangent(target, self.tangent(result))
        count_write(target, op.name)

    def direction(self, tensor: Tensor) -> Any:
        return super().direction(tensor) if tensor.companion is None else tensor.companion

    def rate(self, tensor: Any, direction: Any) -> Any:
        own, below = direction.along_tangent(tensor.companion, self), direction.rate(tensor.value)
        found = own if below is None else below if own is None else own + below
        return None if found is None else self.lift(found)


# weak references to the dual tensors of the level that is open in this context
duals: ContextVar[list[Any] | None] = ContextVar("adjoint duals", default=None)


class DualTensors(Forward):
    """The home of dual tensors, and of the nodes recorded on them."""

    height = Height.DUAL
    name = "dual_level"
    takes_out = False  # an error, as in PyTorch

    def primal(self, value: Any) -> Any:
        """The same tensor without its tangent, on the same memory, with the same history."""
        if isinstance(value, Tensor):
            if value.home is not self:
                return value
            made = alias(value, value.edge)
            made.extra = value.extra
            return made
        return [self.primal(v) for v in value] if type(value) is list else value

    def set_tangent(self, tensor: Tensor, tangent: Any) -> None:
        """Make a tensor a dual one until its level ends; with None a plain one again."""
        if tangent is None:
            tensor.home = None if tensor.home is self else tensor.home
            return
        if tensor.home is not self:
            tensor.home = self
            living = duals.get()
            if living is not None:
                living.append(weakref.ref(tensor))
        tensor.companion = tangent

    def process(self, op: Operator, values: list[Any]) -> Any:
        row = op.row
        if op.schema.replaces:
            return op.call(values)
        if row.decompose and not row.reverse and not row.forward:
            return binding.decomposition(row)(*values)
        if fans.is_wanted(op):
            return fans.approached(op, values, self._run)
        if limits.at_kink(op, values):
            return limits.approached(op, values, self._run)
        return self._run(op, values)

    def _run(self, op: Operator, values: list[Any]) -> Any:
        if op.schema.is_view:
            share_extras(values)
        primals = [self.primal(v) for v in values]
        results = op.call(primals)
        outputs = list(results) if isinstance(results, (tuple, list)) else [results]
        if op.schema.is_view:
            _rebase_views(outputs, primals, values)
        _keep_duals(outputs, primals, values)
        for number, tangent in enumerate(self.pushed(op.row, values, primals, results)):
            if tangent is not None:
                attach_tangent(outputs[number], number, tangent)
        return results

    def below(self, value: Any) -> Any:
        """The form in which a node's rule sees a saved tensor: with its tangent."""
        return value

    def result(self, value: Any, edge: Any, node: Node, number: int) -> Any:
        """A result that a node saved, with the tangent that the operator computed."""
        tangent = node.extra.tangents.get(number) if node.extra is not None else None
        return dual(make(value, edge=edge), tangent)

    def after_detach(self, tensor: Tensor) -> None:
        self.write_tangent(tensor, None)

    def direction(self, tensor: Tensor) -> Any:
        return tensor.companion

    def rate(self, tensor: Tensor, direction: Any) -> Any:
        found = direction.along_tangent(tensor.companion, None)
        return direction.rate(self.primal(tensor)) if found is None else found

    def text(self, tensor: Tensor) -> str:
        return f"{super().text(tensor)[:-1]}, tangent={tensor.companion!r})"


DUALS = DualTensors()


def dual(tensor: Tensor, tangent: Any) -> Any:
    """Give a tensor a tangent; with None it stays as it is."""
    if tangent is not None:
        DUALS.set_tangent(tensor, tangent)
    return tensor


def is_dual(value: Any) -> bool:
    """Whether this is a dual tensor."""
    return isinstance(value, Tensor) and value.home is DUALS


def attach_tangent(output: Tensor, number: int, tangent: Any) -> None:
    """Make a result a dual tensor, and tell its node, which may have saved its array."""
    dual(output, tangent)
    node = output.edge.node if type(output.edge) is Output else output.edge
    if isinstance(node, Node):
        node.more().tangents[number] = tangent


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
    node.home = DUALS


def share_extras(values: Sequence[Any]) -> None:
    """Before a dual tensor is viewed: let its primal know the base, for the view."""
    for value in values:
        if is_dual(value):
            value.more()
            own_counter(value)


def _rebase_views(outputs: list[Any], primals: list[Any], values: list[Any]) -> None:
    """Make a dual tensor the base of its views, in place of the tensor without its tangent."""
    for output in outputs:
        view = (
            output.extra.view if isinstance(output, Tensor) and output.extra is not None else None
        )
        if view is not None:
            view.base = next(
                (v for p, v in zip(primals, values, strict=True) if p is view.base), view.base
            )
