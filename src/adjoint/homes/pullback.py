"""Pullbacks: the reverse derivative of one evaluation of a function, to be applied to cotangents.

Outside any other transform the function runs on variables of the eager tape, which is safe to nest
and several times faster; inside one, on tensors of a `GradLevel`. `pullback` chooses.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import Any

from adjoint.core import pytrees
from adjoint.core.state import OFF, current, state
from adjoint.homes import limits
from adjoint.homes.levels import GradLevel
from adjoint.ops.kinks import is_limit
from adjoint.ops.operator import packet
from adjoint.tape import engine, paths
from adjoint.tape.backward_passes import BackwardRequest, request
from adjoint.tape.fitting import dense
from adjoint.tensor import views
from adjoint.tensor.nodes import CLOSED, ENDED, KEEPS, Leaf, Node, Rule, reaches
from adjoint.tensor.tensor import Tensor, alias

_EDGE, _HOME = attrgetter("edge"), attrgetter("home")


def _pass_on(node: Node, grad: Any, needs: Any, graph: bool) -> tuple[Any]:
    return (grad,)


_INPUT = Rule("Input", _pass_on, holds=False, zeros=KEEPS)


def variable(tensor: Tensor) -> Tensor:
    """The same tensor as a new variable of the eager tape, connected to its history."""
    made = alias(tensor)
    if tensor.edge is not None and current().recording:
        made.edge = Node(_INPUT, (tensor.edge,), (), tensor.value.shape, tensor.value.dtype)
    else:
        made.edge = Leaf(made)
    return made


class Pullback(ABC):
    """The reverse derivative of one evaluation of a function."""

    __slots__ = ("inputs", "outputs")

    def __init__(self, inputs: list[Any], outputs: list[Any]) -> None:
        self.inputs = inputs  # the variables that the function ran on
        self.outputs = outputs  # its outputs; None for one that depends on no variable

    def __call__(self, cotangents: Sequence[Any]) -> list[Any]:
        """Jᴴ applied to one cotangent per output; None for an input on which no output depends."""
        return self.settled(self.passed(cotangents, retain=True))

    def last(self, cotangents: Sequence[Any]) -> list[Any]:
        """Like a call, for the last time: saved values are released on the way."""
        return self.settled(self.passed(cotangents, retain=False))

    def passed(self, cotangents: Sequence[Any], *, retain: bool) -> list[Any]:
        """Like a call, without settling, for a step of a derivative: Note [Kinks] in limits.py."""
        roots: list[Any] = []
        grads: list[Any] = []
        for output, cotangent in zip(self.outputs, cotangents, strict=True):
            if output is not None and cotangent is not None:
                roots.append(output)
                grads.append(cotangent)
        if not roots:
            return [None] * len(self.inputs)
        return self.run(roots, grads, retain)

    @abstractmethod
    def run(self, roots: list[Any], grads: list[Any], retain: bool) -> list[Any]:
        """One backward pass, from outputs that have a gradient."""

    def settled(self, found: list[Any]) -> list[Any]:
        """The gradients of a pass as ordinary tensors: a sparse one made dense."""
        return list(map(dense, found))

    @abstractmethod
    def outside(self, value: Any) -> Any:
        """A tensor made by the function, without the history of this call."""


class TapePullback(Pullback):
    """The pullback of a function that ran on the eager tape."""

    __slots__ = ("goes_on",)

    def __init__(self, inputs: list[Any], outputs: list[Any], goes_on: bool) -> None:
        self.inputs, self.outputs = inputs, outputs
        self.goes_on = goes_on  # whether the function's tape leads to leaves outside

    def run(self, roots: list[Any], grads: list[Any], retain: bool) -> list[Any]:
        recording = current().recording != OFF
        carried = any(map(_EDGE, grads)) or any(map(_HOME, grads))
        how = request(
            self.goes_on and recording, retain, recording and carried, None, not self.goes_on
        )
        return engine.gradients(roots, grads, self.inputs, how)

    def outside(self, value: Any) -> Any:
        if not isinstance(value, Tensor) or value.edge is None or self.goes_on:
            return value
        on_level = value.home is not None and not is_limit(value)
        if on_level:
            return value
        return alias(value) if type(value) is Tensor else value.detach()


class LevelPullback(Pullback):
    """The pullback of a function that ran on a level: gradients are tensors of the level below."""

    __slots__ = ("level",)

    def __init__(self, inputs: list[Any], outputs: list[Any], level: GradLevel) -> None:
        super().__init__(inputs, outputs)
        self.level = level

    def run(self, roots: list[Any], grads: list[Any], retain: bool) -> list[Any]:
        how = BackwardRequest(retain_graph=retain, level=self.level, whole=True)
        return engine.gradients(roots, grads, self.inputs, how)

    def settled(self, found: list[Any]) -> list[Any]:
        return [limits.settle(dense(g), True) for g in found]

    def outside(self, value: Any) -> Any:
        return limits.settle(self.level.below(value), False)


def pullback(function: Callable[..., Any], inputs: Sequence[Tensor]) -> tuple[Any, Pullback]:
    """Run `function(*inputs)`, which returns a list of tensors and something else (a pytree).

    Returns both (the tensors on the caller's level, without the history of this call) and the
    pullback.

    Note [Closed leaves]: on the eager tape nothing tells a tensor of the function from one outside,
    so the variables are closed when it ends; a later backward that arrives there comes from a
    tensor that was kept, and raises. If the tape also leads to other leaves, the variables only
    end, since the result has the same history: gradients that arrive there are dropped. A tensor
    from outside that was written to inside has such a history, too: it keeps the values, and the
    history only where that goes on to other leaves.
    """
    before = current()
    if before.levels or any(map(_HOME, inputs)):
        return pullback_on(GradLevel(), function, inputs)
    variables = list(map(variable, inputs))
    starts = list(map(_EDGE, variables))
    written: list[Any] = []
    inside = (*before.variables, *starts)
    changes = {"variables": inside, "written": written, "orders": before.orders + 1}
    state.set(before.but(recording=before.when_on(), **changes))
    try:
        outputs, rest = function(*variables)
    except BaseException:
        state.set(before)
        _forget(written, starts)
        raise
    state.set(before)
    live: list[Any] = []
    edges: list[Any] = []
    for output in outputs:
        edge = output.edge if isinstance(output, Tensor) else None
        live.append(None if edge is None else alias(output, edge) if written else output)
        edges.append(edge)
    if written:
        edges += [t.edge for r in written if (t := r()) is not None]
    if rest is not None:
        edges += [v.edge for v in pytrees.leaves(rest) if isinstance(v, Tensor)]
    goes_on = before.recording != OFF and (
        Node in map(type, starts) or paths.reaches_other_leaves(edges, starts)
    )
    if written and not goes_on:
        _forget(written, starts)
    for edge in starts:
        if type(edge) is Leaf:
            edge.closed = ENDED if goes_on else CLOSED
    pull = TapePullback(variables, live, goes_on)
    return (list(map(pull.outside, outputs)), rest), pull


def gradients(
    function: Callable[..., Any], inputs: list[Tensor], cotangents: Sequence[Tensor | None]
) -> list[Any]:
    """The gradients of a function's results in its arguments; zeros where nothing depends on one.

    It is for decompositions, which know operators alone.
    """
    _, pull = pullback(lambda *given: (list(function(*given)), None), inputs)
    found = pull.last(cotangents)
    return [packet("zeros_like")(t) if g is None else g for g, t in zip(found, inputs, strict=True)]


def _forget(written: list[Any], starts: list[Any]) -> None:
    """Drop the history, which ends with this transform, of tensors written to inside it."""
    for reference in written:
        tensor = reference()
        if tensor is not None and tensor.edge is not None and reaches(tensor.edge, starts):
            views.forget(tensor)


def pullback_on(
    level: GradLevel, function: Callable[..., Any], inputs: Sequence[Tensor]
) -> tuple[Any, Pullback]:
    """Like `pullback`, always on a level."""
    with level:
        variables = []
        for tensor in inputs:
            variable = level.lift(tensor)
            variable.edge = Leaf(variable)
            variables.append(variable)
        outputs, rest = function(*variables)
    live = [
        o if isinstance(o, Tensor) and o.home is level and o.edge is not None else None
        for o in outputs
    ]
    pull = LevelPullback(variables, live, level)
    return ([pull.outside(o) for o in outputs], rest), pull
