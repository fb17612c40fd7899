"""Pullbacks: the reverse derivative of one evaluation of a function, to be applied to cotangents.

Outside any other transform the function runs on variables of the eager tape, which is safe to nest
and several times faster; inside one, on tensors of a `GradLevel`. `pullback` chooses.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from adjoint.core import pytrees
from adjoint.core.state import OFF, changed, current
from adjoint.ops import runtime
from adjoint.tensor import engine, views
from adjoint.tensor.levels import GradLevel, GradTensor
from adjoint.tensor.tape import CLOSED, ENDED, Leaf, Node, Rule, reaches
from adjoint.tensor.tensor import Tensor, alias


def _pass_on(node: Node, grad: Any, needs: Any, graph: bool) -> tuple[Any]:
    return (grad,)


_INPUT = Rule("Input", _pass_on, holds=False)


def variable(tensor: Tensor) -> Tensor:
    """The same tensor as a new variable of the eager tape, connected to its history."""
    made = alias(tensor)
    if tensor.edge is not None and current().recording:
        made.edge = Node(_INPUT, (tensor.edge,), (), tensor.value.shape, tensor.value.dtype)
    else:
        made.edge = Leaf(made)
    return made


class Pullback:
    """The reverse derivative of one evaluation of a function; can be applied many times."""

    __slots__ = ("inputs", "keep", "level", "outputs")

    def __init__(
        self, level: GradLevel | None, inputs: list[Any], outputs: list[Any], keep: bool
    ) -> None:
        self.level = level
        self.inputs = inputs
        self.outputs = outputs
        self.keep = keep  # whether the eager tape of the function goes on to leaves outside it

    def __call__(
        self, cotangents: Sequence[Any], retain: bool = True, settle: bool = True
    ) -> list[Any]:
        """Jᴴ applied to one cotangent per output; None for inputs that nothing depends on.

        `settle`: the result is a derivative, and not a step on the way to one.
        """
        pairs = [
            (o, c)
            for o, c in zip(self.outputs, cotangents, strict=True)
            if o is not None and c is not None
        ]
        if not pairs:
            return [None] * len(self.inputs)
        roots, grads = [o for o, _ in pairs], [c for _, c in pairs]
        if self.level is not None:
            found = engine.gradients(
                roots,
                grads,
                self.inputs,
                create_graph=False,
                retain_graph=retain,
                level=self.level,
                whole=True,
            )
            return [runtime.settle(g, True) for g in found] if settle else found
        keep = self.keep and current().recording != 0
        linear = current().recording != 0 and any(
            c.edge is not None or c.interpreter is not None for c in grads
        )
        return engine.gradients(
            roots,
            grads,
            self.inputs,
            create_graph=keep,
            retain_graph=retain,
            linear=linear,
            whole=not self.keep,
        )

    def outside(self, value: Any) -> Any:
        """What a tensor made by the function is outside it: the same, without the history of this
        call.
        """
        if not isinstance(value, Tensor):
            return value
        if self.level is not None:
            return runtime.settle(self.level.below(value), False)
        return (
            value
            if value.edge is None
            or self.keep
            or (value.interpreter is not None and not runtime.is_limit(value))
            else alias(value)
        )


def pullback(
    function: Callable[..., Any], inputs: Sequence[Tensor], on_level: bool = False
) -> tuple[Any, Pullback]:
    """Run `function(*inputs)`, which returns a list of tensors and something else (a pytree); and
    its pullback.

    The outputs are given back on the level of the caller, without history of this call.
    Note [Closed leaves]: on the eager tape nothing tells a tensor of the function from one outside,
    so the variables
    are closed when it ends; a later backward that arrives there comes from a tensor that was kept,
    and raises.
    Where the tape goes on to other leaves they only end, since what is returned has the same
    history: gradients that
    arrive there are dropped.
    A tensor from outside that was written to inside has such a history, too: it keeps the values,
    and the history only where that goes on to other leaves.
    `on_level`: not on the eager tape, though nothing else is open.
    """
    if on_level or current().levels or any(t.interpreter is not None for t in inputs):
        return _pullback_on_level(function, inputs)
    before = current()
    variables = [variable(t) for t in inputs]
    starts, written = [v.edge for v in variables], list[Any]()
    try:
        with changed(
            recording=before.when_on(), variables=(*before.variables, *starts), written=written
        ):
            outputs, rest = function(*variables)
    except BaseException:
        _forget(written, starts)
        raise
    live = [
        (alias(o, o.edge) if written else o)
        if isinstance(o, Tensor) and o.edge is not None
        else None
        for o in outputs
    ]
    others = [] if rest is None else [v for v in pytrees.leaves(rest) if isinstance(v, Tensor)]
    others += [t for r in written if (t := r()) is not None]
    edges = [o.edge for o in (*live, *others) if o is not None and o.edge is not None]
    keep = before.recording != OFF and _goes_on(edges, starts)
    if not keep:
        _forget(written, starts)
    for made in variables:
        if type(made.edge) is Leaf:
            made.edge.closed = ENDED if keep else CLOSED
    pull = Pullback(None, variables, live, keep)
    return ([pull.outside(o) for o in outputs], rest), pull


def _forget(written: list[Any], starts: list[Any]) -> None:
    """Cut tensors that were written to inside a transform off the history that ends there."""
    for reference in written:
        tensor = reference()
        if tensor is not None and tensor.edge is not None and reaches(tensor.edge, starts):
            views.forget(tensor)


def _goes_on(edges: list[Any], starts: list[Any]) -> bool:
    return any(type(e) is Node for e in starts) or engine.reaches_other_leaves(edges, starts)


def _pullback_on_level(
    function: Callable[..., Any], inputs: Sequence[Tensor]
) -> tuple[Any, Pullback]:
    with GradLevel() as level:
        variables = []
        for tensor in inputs:
            variable = level.lift(tensor)
            variable.edge = Leaf(variable)
            variables.append(variable)
        outputs, rest = function(*variables)
    live = [
        o if isinstance(o, GradTensor) and o.home is level and o.edge is not None else None
        for o in outputs
    ]
    pull = Pullback(level, variables, live, True)
    return ([pull.outside(o) for o in outputs], rest), pull
