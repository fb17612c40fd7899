"""checkpoint: compute again what a derivative needs, in place of keeping it.

On the eager tape a checkpoint is one node. Its inputs are the arguments, and the *frontier*:
whatever else of the tape the function reached (parameters that it closes over). Inside other
transforms it is a `Function` of its arguments; a function that closes over differentiated tensors
there runs as it is, which is right but saves no memory (see Note [Closures]).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from adjoint.core.errors import InplaceError
from adjoint.core.generator import fork_rng, get_rng_state, set_rng_state
from adjoint.core.state import current
from adjoint.tensor import dispatch, engine, levels
from adjoint.tensor.function import Function
from adjoint.tensor.modes import enable_grad
from adjoint.tensor.tape import Leaf, Node, Output, Refusal, Rule, Watch, next_sequence
from adjoint.tensor.tensor import alias
from adjoint.transforms import arguments, forward, reverse
from adjoint.transforms.custom import Call, UsesOutsideTensor, pull_some


def checkpoint(f: Callable[..., Any]) -> Callable[..., Any]:
    """Return `f` without its intermediate values, which derivatives compute again.

    Memory for time, in both modes; nests. Random operators repeat the numbers of the first run.

    >>> import adjoint as ad
    >>> ad.grad(ad.checkpoint(lambda x: x.sin().exp()))(0.0)
    tensor(1.)
    """

    def checkpointed(*args: Any, **keywords: Any) -> Any:
        if any(level.creates for level in current().levels):
            return f(
                *args, **keywords
            )  # in a trace: what a graph keeps or computes again is decided there
        call = Call("checkpoint", args, keywords)
        tensors = call.tensors
        again = _replayed(f, get_rng_state())
        if not current().levels and dispatch.topmost(tensors) is None:
            return _on_the_tape(call, f, again) if current().recording else f(*args, **keywords)
        try:
            return call.result(_Checkpoint.apply(call, f, again, *tensors))
        except UsesOutsideTensor:
            return again(*args, **keywords)

    return arguments.keeps_signature(f, checkpointed, "checkpoint")


def _replayed(f: Callable[..., Any], state: Any) -> Callable[..., Any]:
    def again(*args: Any, **keywords: Any) -> Any:
        with fork_rng():
            set_rng_state(state)
            return f(*args, **keywords)

    return again


# On the eager tape


class _Edge:
    """Stands for a tensor where only its edge matters."""

    __slots__ = ("edge",)

    def __init__(self, edge: Any) -> None:
        self.edge = edge


class _CheckpointRule(Rule):
    """Runs the function again, and pulls the gradients back through it."""

    __slots__ = ("again", "call", "frontier", "watches")

    def __init__(self, call: Call, again: Callable[..., Any], frontier: list[Any]) -> None:
        self.name, self.raw, self.saved_names, self.holds = "CheckpointBackward", None, (), True
        self.call, self.again, self.frontier = call, again, frontier
        self.watches = [Watch(t) for t in call.tensors]

    def general(  # type: ignore[override] - a bound method in the slot would be a cycle
        self, node: Node, grads: Any, needs: Any, graph: bool
    ) -> tuple[Any, ...]:
        """Run the function again, and pull the gradients back."""
        tensors = self.call.tensors
        for watch in self.watches:
            if watch.changed() is not None:
                raise InplaceError(
                    "an argument of checkpoint was changed in place before backward, which runs "
                    "the function again; "
                    "clone() it first"
                )
        with enable_grad():
            variables = [
                levels.variable(t if graph else t.detach()) if t.edge is not None else t
                for t in tensors
            ]
            outputs = _tensors(self.call, _run(self.call, self.again, variables))
        pairs = [
            (o, g)
            for o, g in zip(outputs, grads, strict=True)
            if g is not None and o.edge is not None
        ]
        wanted = [v for v in variables if v.edge is not None] + [_Edge(e) for e in self.frontier]
        if not pairs:
            return (None,) * len(wanted)
        roots, given = [o for o, _ in pairs], [g for _, g in pairs]
        linear = current().recording != 0 and not graph
        found = engine.gradients(
            roots,
            given,
            wanted,
            create_graph=graph,
            retain_graph=graph,
            linear=linear,
            stops=self.frontier,
        )
        return tuple(found)


def _run(call: Call, function: Callable[..., Any], tensors: Sequence[Any]) -> Any:
    positional, named = call.rebuild(tensors)
    return function(*positional, **named)


def _tensors(call: Call, tree: Any) -> list[Any]:
    return list(call.outputs(tree))


def _on_the_tape(call: Call, f: Callable[..., Any], again: Callable[..., Any]) -> Any:
    tensors = call.tensors
    start = next_sequence()
    variables = [levels.variable(t.detach()) if t.edge is not None else t for t in tensors]
    outputs = _tensors(call, _run(call, f, variables))
    edges = [o.edge for o in outputs if o.edge is not None]
    own = [v.edge for v, t in zip(variables, tensors, strict=True) if t.edge is not None]
    frontier = _frontier(edges, own, start)
    following = (*(t.edge for t in tensors if t.edge is not None), *frontier)
    if not edges or not following:
        return call.result(tuple(alias(o) if o.edge is not None else o for o in outputs))
    node = Node(_CheckpointRule(call, again, frontier), following, (), None, None)
    node.outputs = tuple((o.value.shape, o.value.dtype) for o in outputs)
    results = []
    for number, output in enumerate(outputs):
        results.append(output if output.edge is None else alias(output, Output(node, number)))
    return call.result(tuple(results))


def _frontier(edges: list[Any], own: list[Any], start: int) -> list[Any]:
    """The edges at which a piece of tape, begun at `start`, continues outside it. Iterative."""
    known: set[Any] = set(own)
    found: dict[Any, Any] = {}
    stack = list(edges)
    while stack:
        edge = stack.pop()
        node, number = (edge.node, edge.number) if type(edge) is Output else (edge, 0)
        if node is None or node in known:
            continue
        if type(node) is Leaf or (isinstance(node, Node) and node.sequence < start):
            found.setdefault((node, number), edge)
        elif isinstance(node, (Node, Refusal)):
            known.add(node)
            stack.extend(node.next)
    return list(found.values())


# Inside transforms


class _Checkpoint(Function):
    """The function of its arguments; both derivatives run it again."""

    @staticmethod
    def forward(call: Any, f: Any, again: Any, *tensors: Any) -> Any:
        return call.outputs(call.run(f, tensors)[0])

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        ctx.call, _, ctx.again = inputs[:3]
        ctx.save_for_backward(*inputs[3:])
        ctx.save_for_forward(*inputs[3:])

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        call, again = ctx.call, ctx.again
        found = pull_some(
            lambda tensors: _tensors(call, _run(call, again, tensors)), ctx.saved_tensors, grads
        )
        return (None, None, None, *found)

    @staticmethod
    def jvp(ctx: Any, *tangents: Any) -> Any:
        call, again, saved = ctx.call, ctx.again, ctx.saved_tensors
        places = [i for i, t in enumerate(saved) if t.is_differentiable_dtype()]

        def flat(*variables: Any) -> tuple[list[Any], None]:
            tensors = list(saved)
            for place, variable in zip(places, variables, strict=True):
                tensors[place] = variable
            return _tensors(call, _run(call, again, tensors)), None

        directions = [tangents[3:][i] for i in places]
        outputs, found, _ = forward.pushforward(flat, [saved[i] for i in places], directions)
        return tuple(reverse.filled(found, outputs))
