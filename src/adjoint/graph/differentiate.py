"""Differentiate graphs: a graph in, a pair of graphs out.

`differentiate` traces the graph's pullback: the interpreter runs the graph on a level of reverse
mode, and a gradient comes in for each output. Forward and backward are then one joint graph, which
`partition` cuts in two: `f` computes the outputs and the values that the backward needs, `df` the
gradients. The engine reports each node of the tape that it passes, so each node of the backward
knows its *linear block*, the operator to which it belongs. `jvp` traces the pushforward.
"""

from __future__ import annotations

from bisect import bisect
from collections.abc import Sequence
from typing import Any

from adjoint.core.errors import ArgumentError
from adjoint.core.records import record
from adjoint.core.remembering import remembered
from adjoint.graph import partition
from adjoint.graph.control.staging import UNKNOWN
from adjoint.graph.facts import acts
from adjoint.graph.interpret import run_flat
from adjoint.graph.ir import (
    Block,
    Constant,
    Graph,
    GraphError,
    Node,
    Signature,
    Type,
    Value,
)
from adjoint.graph.passes import prune_loops, simplified
from adjoint.graph.passes.absent import without_absent
from adjoint.graph.trace import TraceLevel
from adjoint.homes.levels import GradLevel
from adjoint.homes.pullback import pullback_on
from adjoint.tape import engine
from adjoint.tape.backward_passes import BackwardRequest
from adjoint.tape.edges import GradientEdge
from adjoint.tensor import nodes
from adjoint.tensor.tensor import Tensor
from adjoint.transforms.forward import pushforward


@record
class Gradient:
    """A function and its reverse derivative as two graphs, and how to call them.

    `f` takes the inputs of the original graph. It returns the `real_outputs` original outputs, then
    temporaries that `df` needs. `df` takes, in this order: a gradient for each output of `f` listed
    in `output_grads`; the inputs of `f` listed in `captured_inputs`; the outputs of `f` listed in
    `captured_outputs`. It returns a gradient for each input of `f` listed in `input_grads`.
    """

    f: Graph
    df: Graph
    real_outputs: int
    output_grads: tuple[int, ...]
    captured_inputs: tuple[int, ...]
    captured_outputs: tuple[int, ...]
    input_grads: tuple[int, ...]

    def specialised(self, absent: tuple[int, ...]) -> Graph:
        """`df` without the gradients at these positions, which are zero; remembered."""
        known = _specialised(self)
        if absent not in known:
            gradients = range(len(self.output_grads))
            known[absent] = simplified(without_absent(self.df, gradients, absent))
        return known[absent]

    def run(self, *inputs: Any) -> tuple[list[Any], list[Any]]:
        """Run `f`; return the real outputs, and the values for `pull`."""
        outputs = run_flat(self.f, list(inputs))
        captured = [inputs[i] for i in self.captured_inputs] + [
            outputs[i] for i in self.captured_outputs
        ]
        return outputs[: self.real_outputs], captured

    def pull(self, captured: Sequence[Any], grads: Sequence[Any]) -> list[Any]:
        """Run `df` on a gradient for each real output; return each input's. None is zero."""
        if len(grads) != self.real_outputs:
            raise ArgumentError(f"pull: {len(grads)} gradients for {self.real_outputs} outputs")
        given = [grads[i] if i < self.real_outputs else None for i in self.output_grads]
        absent = tuple(i for i, g in enumerate(given) if g is None)
        found = run_flat(
            self.specialised(absent), [g for g in given if g is not None] + list(captured)
        )
        spread: list[Any] = [None] * len(self.f.inputs)
        for position, value in zip(self.input_grads, found, strict=True):
            spread[position] = value
        return spread


@remembered
def _specialised(pair: Gradient) -> dict[tuple[int, ...], Graph]:
    """The backward graphs of a pair, by the positions of absent gradients."""
    return {(): pair.df}


class _Retrace(TraceLevel):
    """A trace that runs a graph."""

    def __init__(self, graph: Graph, name: str) -> None:
        super().__init__(Graph(Signature(name=name)))
        self.source = graph
        self.inputs = [self.input(v, v.name) for v in graph.inputs]
        for node in graph.nodes:
            if isinstance(node.op, Constant):  # a trace would copy its array
                made = self.graph.add(node.op, (), (node.output.type,)).output
                self.constants[id(node.op.tensor)] = (node.op.tensor, made)

    def input(self, like: Any, name: str) -> Tensor:
        """A new input with the shape and dtype of a value or tensor."""
        return self.lift(self.graph.add_input(Type(tuple(like.shape), like.dtype), name))

    def output(self, result: Any) -> Any:
        """A result as an output of the graph; numbers and None are unchanged."""
        return self.value(result) if isinstance(result, Tensor) else result


class _TraceTape(GradLevel):
    """A reverse-mode level that notes the edge of each value of the trace that it has seen."""

    halved = True

    def __init__(self, trace: TraceLevel) -> None:
        super().__init__()
        self.trace = trace
        self.edges: dict[Value, GradientEdge | None] = {}
        self.fresh: list[Tensor] = []  # tensors made since the last look

    def lift(self, value: Any, edge: Any = None) -> Tensor:
        made = super().lift(value, edge)
        self.fresh.append(made)
        return made

    def look(self) -> None:
        """Note the edges of the tensors made since the last look, and let go of the tensors."""
        for tensor in self.fresh:
            if self.trace.owns(tensor.value):
                value = tensor.value.value
                if tensor.edge is not None:
                    self.edges[value] = GradientEdge(*nodes.key(tensor.edge))
                else:
                    self.edges.setdefault(value, None)
        self.fresh.clear()


class _Joint(_Retrace):
    """The forward and the backward of a graph as one graph."""

    def __init__(self, graph: Graph) -> None:
        super().__init__(graph, graph.signature.name)
        self.grads: list[Tensor] = []  # also inputs: the gradients that come in at the roots
        self.nodes: list[Node] = []  # of the source, in the order in which they run
        self.starts: list[int] = []  # the tape's next sequence number when each of them ran
        self.block: Block | None = None  # of the nodes traced now
        self.marked: Node | None = None  # the last node that has a block
        # nodes that print or draw, of forward and of backward
        self.acting: list[list[Node]] = [[], []]

    def forward(self, wanted: Sequence[int]) -> None:
        """Run the source graph, with variables for the inputs at the positions `wanted`."""
        self.tape = _TraceTape(self)

        def run(*variables: Any) -> tuple[list[Any], None]:
            given: list[Any] = list(self.inputs)
            for position, variable in zip(wanted, variables, strict=True):
                given[position] = variable
            return run_flat(self.source, given, self._runs), None

        (outputs, _), self.pull = pullback_on(self.tape, run, [self.inputs[i] for i in wanted])
        self.outputs = [self.output(o) for o in outputs]
        self.computed = [v for node in self.graph.nodes for v in node.outputs]
        self.acting[0] = [node for node in self.graph.nodes if acts(node)]
        self.tape.look()

    def backward(self, roots: Sequence[Value]) -> list[Any]:
        """The gradients of the variables, None for missing ones, given a gradient for each root."""
        for root in roots[len(self.grads) :]:
            self.grads.append(self.input(root, f"grad_{root.name}"))
        if not roots:
            return [None] * len(self.pull.inputs)
        self.marked = start = self.graph.last
        how = BackwardRequest(retain_graph=True, level=self.tape, whole=True, observer=self._passes)
        edges = [self.tape.edges[v] for v in roots]
        found = self.pull.settled(engine.gradients(edges, self.grads, self.pull.inputs, how))
        self._mark()
        self.acting[1] = [node for node in self.graph.after(start) if acts(node)]
        return [None if g is None else self.value(g) for g in found]

    def _runs(self, node: Node) -> None:
        self.tape.look()
        self.nodes.append(node)
        self.starts.append(nodes.next_sequence())

    def _passes(self, node: nodes.Node) -> None:
        self._mark()
        number = bisect(self.starts, node.sequence) - 1
        self.block = Block(len(self.nodes) - 1 - number, self.nodes[number].name)

    def _mark(self) -> None:
        """Set the block of the nodes added since the last call."""
        for node in self.graph.after(self.marked):
            node.block = self.block
        self.marked, self.block = self.graph.last, None

    def cut(self, results: Sequence[Any]) -> partition.Cut:
        """The joint graph with these gradients, ready to be cut."""
        present = [g for g in results if g is not None]
        present += [v for node in self.acting[1] for v in node.inputs()]
        inputs, grads = ([t.value for t in some] for some in (self.inputs, self.grads))
        return partition.Cut(self.graph, inputs, self.outputs, grads, present)

    def keepable(self) -> set[Value]:
        """The values that the forward may hand to the backward.

        The tape must know values with a derivative, so that gradients of the backward with respect
        to them can be passed on.
        """
        known = self.tape.edges
        return {
            v
            for v in self.computed
            if (v in known or not v.dtype.is_differentiable) and UNKNOWN not in v.shape
        }


def _wanted_inputs(graph: Graph, wrt: Sequence[int] | None) -> list[int]:
    """The inputs to differentiate: those named, else marked, else all of a suitable dtype."""
    if wrt is not None:
        return list(wrt)
    marked = [i for i, v in enumerate(graph.inputs) if v.type.requires_grad]
    return marked or [i for i, v in enumerate(graph.inputs) if v.dtype.is_differentiable]


def differentiate(
    graph: Graph, *, wrt: Sequence[int] | None = None, recompute: Any = "auto"
) -> Gradient:
    """Return the reverse derivative of a graph as a pair of graphs.

    Gradients are given for the inputs `wrt` (positions), else for those marked requires_grad, else
    for all of a differentiable dtype. `recompute` names the values that `df` computes again instead
    of getting them from `f`: "auto" keeps the fewest bytes given that cheap operators may run
    twice; "nothing"; "everything"; or a number of bytes to stay under.

    >>> import adjoint as ad
    >>> graph = ad.trace(lambda x: (x.sin() * x).sum(), ad.ShapeDtype(2, ad.float64))
    >>> pair = ad.differentiate(graph)
    >>> outputs, captured = pair.run(ad.tensor([0.0, 1.0], dtype=ad.float64))
    >>> pair.pull(captured, [ad.tensor(1.0, dtype=ad.float64)])
    [tensor([0.0000, 1.3818], dtype=ad.float64)]
    """
    if not isinstance(graph, Graph):
        raise ArgumentError(
            f"differentiate: needs a graph, got {type(graph).__name__}; "
            "make one with ad.trace(f, x), or use ad.grad(f)"
        )
    joint, wanted = _Joint(graph), _wanted_inputs(graph, wrt)
    with joint:
        joint.forward(wanted)
        outputs = [o.value.value for o in joint.pull.outputs if o is not None]
        results = joint.backward(outputs)
        cut = joint.cut(results)
        kept = cut.kept_values(joint.keepable(), recompute)
        # Kept temporaries are outputs of f, so that df takes gradients for them, too, and can
        # itself be differentiated.
        known = {*joint.graph.inputs, *joint.outputs}
        temporaries = [v for v in kept if joint.tape.edges.get(v) and v not in known]
        if temporaries:
            results = joint.backward([*outputs, *temporaries])
            cut = joint.cut(results)
    found = _pair(joint, wanted, results, cut.floor(set(kept)), temporaries)
    joint.tape.edges.clear()  # the nodes of these edges refer to the tape
    return found


def _pair(
    joint: _Joint,
    wanted: Sequence[int],
    results: Sequence[Any],
    kept: Sequence[Value],
    temporaries: Sequence[Value],
) -> Gradient:
    """The two halves of a joint graph, and how to call them."""
    inputs = {t.value: i for i, t in enumerate(joint.inputs)}
    outputs = list(joint.outputs)
    places: dict[Value, int] = {}
    for i, output in enumerate(outputs):
        if isinstance(output, Value):
            places.setdefault(output, i)
    for value in (*kept, *temporaries):
        if value not in inputs and value not in places:
            places[value] = len(outputs)
            outputs.append(value)
    captured = [v for v in kept if v in inputs] + [v for v in kept if v not in inputs]
    rooted = [i for i, o in enumerate(joint.pull.outputs) if o is not None]
    source = joint.source.signature
    forward = Signature(name=source.name, names=source.names)
    given = [t.value for t in joint.grads] + captured
    grads = [g for g in results if g is not None]
    backward = Signature(name=f"d{source.name}")
    halves = (
        partition.extract(joint.graph, list(inputs), outputs, forward, joint.acting[0]),
        partition.extract(joint.graph, given, grads, backward, joint.acting[1]),
    )
    return Gradient(
        f=prune_loops(simplified(halves[0])),
        df=simplified(halves[1]),
        real_outputs=len(joint.outputs),
        output_grads=(*rooted, *(places[v] for v in temporaries)),
        captured_inputs=tuple(inputs[v] for v in captured if v in inputs),
        captured_outputs=tuple(places[v] for v in captured if v not in inputs),
        input_grads=tuple(i for i, g in zip(wanted, results, strict=True) if g is not None),
    )


def jvp(graph: Graph) -> Graph:
    """Return the forward derivative of a graph: (inputs, tangents) to (outputs, tangents).

    Only inputs and outputs of a differentiable dtype have tangents. An output that depends on no
    input has zeros.
    """
    with _Retrace(graph, f"jvp_{graph.signature.name}") as level:
        tangents = [
            level.input(v, f"{v.name}_t") if v.dtype.is_differentiable else None
            for v in graph.inputs
        ]
        run = lambda *values: (run_flat(graph, values), None)
        outputs, found, _ = pushforward(run, level.inputs, tangents)
        pushed = [
            o.zeros_like() if t is None else t
            for o, t in zip(outputs, found, strict=True)
            if isinstance(o, Tensor) and o.is_differentiable_dtype()
        ]
        level.graph.outputs = [level.output(o) for o in (*outputs, *pushed)]
    return simplified(level.graph)


def transpose(graph: Graph) -> Graph:
    """Return the transpose of a linear graph: cotangents of outputs to cotangents of inputs.

    >>> import adjoint as ad
    >>> graph = ad.trace(lambda x: x.cumsum(0), ad.ShapeDtype(3))
    >>> ad.graph.transpose(graph)(ad.tensor([1.0, 0.0, 0.0]))
    tensor([1., 0., 0.])
    """
    pair = differentiate(graph, recompute="everything")
    if pair.captured_inputs or pair.captured_outputs:
        names = [graph.inputs[i].name for i in pair.captured_inputs]
        raise GraphError(
            "transpose: the graph is not linear in its inputs "
            f"({', '.join(names) or 'it keeps values'})"
        )
    if len(pair.input_grads) != len(graph.inputs):
        raise GraphError("transpose: an output does not depend linearly on every input")
    return pair.df
