"""Differentiating graphs: a graph in, a pair of graphs out, with the table as the only source of
derivatives.

`differentiate` walks the nodes backwards with a map from values to their gradients, and evaluates
each row's reverse
formula on traced tensors; what that writes down is the node's *linear block*. Forward and backward
stand in one joint
graph then, which `partition` cuts in two: `f` computes the outputs and what the backward needs,
`df` the gradients.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from adjoint.core.errors import ArgumentError, NotDifferentiable
from adjoint.graph import interpret, partition, typing
from adjoint.graph.ir import (
    Block,
    Constant,
    Graph,
    GraphError,
    Node,
    Region,
    Signature,
    Type,
    Value,
    substitute,
)
from adjoint.graph.passes import simplified
from adjoint.graph.trace import TraceLevel, TraceTensor
from adjoint.ops.operator import Operator, operator
from adjoint.table.rows import Row
from adjoint.tensor import binding, derive, fitting
from adjoint.tensor.forward import fit_tangent
from adjoint.tensor.pullback import pullback
from adjoint.tensor.saving import grad_names, result_names
from adjoint.transforms.forward import pushforward


@dataclass(frozen=True)
class Gradient:
    """A function and its reverse derivative as two graphs, and how to call them.

    `f` takes the inputs of the original graph. It returns the `real_outputs` original outputs, then
    temporaries that
    `df` needs. `df` takes, in this order: a gradient for each output of `f` listed in
    `output_grads`; the inputs
    of `f` listed in `captured_inputs`; the outputs of `f` listed in `captured_outputs`. It returns
    a gradient for
    each input of `f` listed in `input_grads`.
    """

    f: Graph
    df: Graph
    real_outputs: int
    output_grads: tuple[int, ...]
    captured_inputs: tuple[int, ...]
    captured_outputs: tuple[int, ...]
    input_grads: tuple[int, ...]

    def specialised(self, absent: tuple[int, ...]) -> Graph:
        """`df` without the gradients at these positions, which are zero; kept for the next time."""
        cache = self.__dict__.setdefault("_specialised", {})
        if absent not in cache:
            cache[absent] = (
                without_absent(self.df, len(self.output_grads), absent) if absent else self.df
            )
        return cache[absent]

    def run(self, *inputs: Any) -> tuple[list[Any], list[Any]]:
        """Run `f`: the real outputs, and what `pull` needs."""
        outputs = interpret.run_flat(self.f, list(inputs))
        captured = [inputs[i] for i in self.captured_inputs] + [
            outputs[i] for i in self.captured_outputs
        ]
        return outputs[: self.real_outputs], captured

    def pull(self, captured: Sequence[Any], grads: Sequence[Any]) -> list[Any]:
        """Run `df` on one gradient per real output (None: zero); one per input, None where there is
        none.
        """
        if len(grads) != self.real_outputs:
            raise ArgumentError(f"pull: {len(grads)} gradients for {self.real_outputs} outputs")
        given = [grads[i] if i < self.real_outputs else None for i in self.output_grads]
        absent = tuple(i for i, g in enumerate(given) if g is None)
        found = interpret.run_flat(
            self.specialised(absent), [g for g in given if g is not None] + list(captured)
        )
        spread: list[Any] = [None] * len(self.f.inputs)
        for position, value in zip(self.input_grads, found, strict=True):
            spread[position] = value
        return spread


def without_absent(df: Graph, count: int, absent: Sequence[int]) -> Graph:
    """`df` for the case that some of the gradients, its first `count` inputs, are zero: they are no
    inputs any more.

    Every value that depends on gradients is linear in them. So a node all of whose gradients are
    absent gives nothing,
    and its whole block goes; where only some are absent, they become zeros. An output that is zero
    becomes None.
    """
    made = Graph(Signature(name=df.signature.name))
    gone = {df.inputs[i] for i in absent}
    mapping: dict[Value, Any] = {
        v: made.add_input(v.type, v.name) for v in df.inputs if v not in gone
    }
    dependent = set(df.inputs[:count])
    for node in df.nodes:
        missing = [v for v in node.inputs() if v in gone]
        gradients = [v for v in node.inputs() if v in dependent]
        dependent.update(node.outputs if gradients else ())
        if missing and len(missing) == len(gradients):
            gone.update(node.outputs)
            continue
        for value in missing:
            if value not in mapping:
                args = (value.shape, value.dtype, None, None, None)
                mapping[value] = made.add(operator("zeros"), args, (value.type,)).output
        graphs = {k: g.clone() for k, g in node.graphs.items()}
        copied = made.add(
            node.op,
            substitute(node.args, lambda v: mapping[v]),
            [v.type for v in node.outputs],
            graphs=graphs,
        )
        copied.block, copied.place = node.block, node.place
        mapping.update(zip(node.outputs, copied.outputs, strict=True))
    made.outputs = [
        (None if o in gone else mapping[o]) if isinstance(o, Value) else o for o in df.outputs
    ]
    return simplified(made)


class _JointLevel(TraceLevel):
    """A trace that marks what it writes with the block of the node under differentiation."""

    block: Block | None = None

    def _node(self, op: Operator, args: Any, kind: Any, types: Any, values: Any) -> Any:
        out = super()._node(op, args, kind, types, values)
        node = self.graph.last
        if node is not None:
            node.block = self.block
        return out


class _Walk:
    """One differentiation: the joint graph under construction."""

    def __init__(self, graph: Graph, wanted: Sequence[int]) -> None:
        self.graph = graph
        self.level = _JointLevel(Graph())
        self.here: dict[
            Value, Any
        ] = {}  # a value of the original -> its traced tensor in the joint graph
        self.needs: set[Value] = {graph.inputs[i] for i in wanted}
        self.grads: dict[Value, Any] = {}
        self.incoming: list[Value] = []  # gradient inputs of the joint graph

    def choose(self, wanted: Sequence[int], recompute: Any) -> list[Value]:
        """The values of the original graph that the backward half gets from the forward half."""
        joint = self.level.graph
        count = len(self.graph.inputs)
        received = [i for i in wanted if self.graph.inputs[i] in self.grads]
        outputs = [self.here[o].value for o in self.graph.outputs if isinstance(o, Value)]
        back = {t.value: v for v, t in self.here.items()}
        kept = partition.choose(
            joint,
            joint.inputs[:count],
            joint.inputs[count:],
            outputs,
            self.results(received),
            set(back),
            recompute,
        )
        return [back[v] for v in kept]

    def results(self, received: Sequence[int]) -> list[Value]:
        """The gradients of the inputs at these positions."""
        return [_value_of(self.level, self.grads[self.graph.inputs[i]]) for i in received]

    def copy_forward(self) -> None:
        """Put the original into the joint graph, and note which values need a gradient."""
        joint = self.level.graph
        for value in self.graph.inputs:
            self.here[value] = self.level.lift(joint.add_input(value.type, value.name))
        for node in self.graph.nodes:
            args = substitute(node.args, lambda v: self.here[v].value)
            graphs = {k: g.clone() for k, g in node.graphs.items()}
            made = joint.add(node.op, args, [v.type for v in node.outputs], graphs=graphs)
            made.place = node.place
            for old, new in zip(node.outputs, made.outputs, strict=True):
                self.here[old] = self.level.lift(new)
            self.needs.update(_needing(node, self.needs))

    def accumulate(self, value: Value, grad: Any) -> None:
        """Add to the gradient of a value; a sum of blocks belongs to none of them."""
        like = self.here[value]
        grad = fitting.fit_tensor(grad, like.shape, like.dtype)
        known = self.grads.get(value)
        block, self.level.block = self.level.block, None
        self.grads[value] = grad if known is None else known + grad
        self.level.block = block

    def walk_back(self) -> None:
        for number, node in enumerate(self.graph.reversed_nodes()):
            grads = [self.grads.get(v) for v in node.outputs]
            if all(g is None for g in grads) or not any(v in self.needs for v in node.inputs()):
                continue
            self.level.block = Block(number, node.name)
            self._node_back(node, grads)
            self.level.block = None

    def _node_back(self, node: Node, grads: list[Any]) -> None:
        if isinstance(node.op, Constant):
            return
        args = [_traced(a, self.here) for a in node.args]
        if isinstance(node.op, Region) or _through_decomposition(node.op.row):
            self._by_pullback(node, args, grads)
            return
        row = node.op.row
        _refuse(node, self.needs)
        wanted = {
            a.name: True for a in row.differentiable if _wants(_argument(node, a.name), self.needs)
        }
        if not wanted:
            return
        results = [self.here[v] for v in node.outputs]
        found = _reverse(row, args, results, grads, wanted)
        for target, grad in zip(_targets(node, row), found, strict=True):
            if isinstance(target, Value) and target in self.needs and grad is not None:
                self.accumulate(target, grad)

    def _by_pullback(self, node: Node, args: list[Any], grads: list[Any]) -> None:
        """The derivative of what the node does, for a region or an operator without a formula of
        its own.
        """
        inputs = list(dict.fromkeys(v for v in node.inputs() if v in self.needs))

        def run(*variables: Any) -> tuple[list[Any], None]:
            mapping = dict(zip(inputs, variables, strict=True))
            given = [_traced(a, {**self.here, **mapping}) for a in node.args]
            result = _call(node, given)
            return list(result) if isinstance(result, (tuple, list)) else [result], None

        _, pull = pullback(run, [self.here[v] for v in inputs])
        for value, grad in zip(inputs, pull.last(grads), strict=True):
            if grad is not None:
                self.accumulate(value, grad)


def _call(node: Node, args: list[Any]) -> Any:
    if isinstance(node.op, Region):
        return node.op.run(node, args)
    return binding.decomposition(node.op.row)(*args)


def _through_decomposition(row: Row) -> bool:
    return bool(row.decompose and not row.reverse and not row.forward)


def _reverse(
    row: Row, args: list[Any], results: list[Any], grads: list[Any], wanted: dict[str, Any]
) -> Iterable[Any]:
    """The gradients of a row's differentiable arguments, lists flattened."""
    listed = len(row.schema.returns) == 1 and row.schema.returns[0].type.is_list
    per_return: list[Any] = [results] if listed else results
    scope = dict(zip(row.schema.names, args, strict=True)) | {
        n: per_return[i] for n, i in result_names(row).items()
    }
    if not any(entry.formula for entry in row.reverse):
        needs = [a.name in wanted for a in row.differentiable]
        return derive.reverse_from_forward(
            row, scope, grads if len(row.schema.returns) > 1 else grads[0], needs
        )
    several = listed or len(row.schema.returns) > 1
    for name, number in grad_names(row).items():
        scope[name] = grads if number < 0 else grads[number] if several else grads[0]
    return derive.reverse_all(row, derive.with_facts(row, scope), wanted)


def _traced(argument: Any, here: dict[Value, Any]) -> Any:
    if isinstance(argument, Value):
        return here[argument]
    if isinstance(argument, tuple) and any(isinstance(a, Value) for a in argument):
        return [_traced(a, here) for a in argument]
    return argument


def _argument(node: Node, name: str) -> Any:
    return node.args[node.op.row.schema.names.index(name)]


def _wants(argument: Any, needs: set[Value]) -> bool:
    if isinstance(argument, tuple):
        return any(_wants(a, needs) for a in argument)
    return isinstance(argument, Value) and argument in needs


def _targets(node: Node, row: Row) -> list[Any]:
    """The arguments that the gradients of a row belong to, lists flattened."""
    found: list[Any] = []
    for argument in row.differentiable:
        value = _argument(node, argument.name)
        found.extend(value) if argument.type.is_list else found.append(value)
    return found


def _refuse(node: Node, needs: set[Value]) -> None:
    for name, entry in node.op.row.refused.items():
        if _wants(_argument(node, name), needs):
            reason = f": {entry.reason}" if entry.reason else ""
            raise NotDifferentiable(
                f"{node.name} is not differentiable in {name}{reason} "
                f"({node.place or 'in the graph'})"
            )


def _needing(node: Node, needs: set[Value]) -> list[Value]:
    """The outputs of a node that depend on values in `needs` by a derivative."""
    if isinstance(node.op, Constant) or not any(v in needs for v in node.inputs()):
        return []
    if isinstance(node.op, Region):
        return [v for v in node.outputs if v.dtype.is_differentiable]
    row = node.op.row
    names = typing.differentiable_names(row)
    if not any(
        _wants(a, needs) for n, a in zip(row.schema.names, node.args, strict=True) if n in names
    ):
        return []
    listed = len(row.schema.returns) == 1 and row.schema.returns[0].type.is_list
    flags = row.differentiable_outputs * len(node.outputs) if listed else row.differentiable_outputs
    return [
        v for v, flag in zip(node.outputs, flags, strict=True) if flag and v.dtype.is_differentiable
    ]


def _wanted_inputs(graph: Graph, wrt: Sequence[int] | None) -> list[int]:
    """Which inputs get a gradient: those named, those marked, or all that can."""
    if wrt is not None:
        return list(wrt)
    marked = [i for i, v in enumerate(graph.inputs) if v.type.requires_grad]
    return marked or [i for i, v in enumerate(graph.inputs) if v.dtype.is_differentiable]


def differentiate(
    graph: Graph, *, wrt: Sequence[int] | None = None, recompute: Any = "auto"
) -> Gradient:
    """Return the reverse derivative of a graph as a pair of graphs.

    Gradients are given for the inputs `wrt` (positions), else for those marked requires_grad, else
    for all of a
    differentiable dtype. `recompute` says what `df` computes again instead of getting it from `f`:
    "auto" keeps the fewest
    bytes given that cheap operators may run twice; "nothing"; "everything"; or a number of bytes to
    stay under.

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
    wanted = _wanted_inputs(graph, wrt)
    outputs = [o for o in graph.outputs if isinstance(o, Value)]
    first = _walked(graph, wanted, outputs)
    kept = first.choose(wanted, recompute)
    known = set(graph.inputs) | set(outputs)
    temporaries = [v for v in kept if v not in known]
    # Kept temporaries are outputs of f, so df takes gradients for them too: it can then be
    # differentiated itself.
    rooted = [v for v in temporaries if v in first.needs]
    walk = _walked(graph, wanted, [*outputs, *rooted]) if rooted else first
    return _cut(walk, graph, wanted, kept, rooted)


def _walked(graph: Graph, wanted: Sequence[int], roots: Sequence[Value]) -> _Walk:
    """The joint graph, with a gradient coming in at each root that needs one."""
    walk = _Walk(graph, wanted)
    with walk.level as level:
        walk.copy_forward()
        for root in roots:
            if root in walk.needs:
                given = level.graph.add_input(_gradient_type(root), f"grad_{root.name}")
                walk.incoming.append(given)
                walk.accumulate(root, level.lift(given))
        walk.walk_back()
    return walk


def _gradient_type(value: Value) -> Type:
    return Type(value.shape, value.dtype)


def _cut(
    walk: _Walk, graph: Graph, wanted: Sequence[int], kept: Sequence[Value], rooted: Sequence[Value]
) -> Gradient:
    joint = walk.level.graph
    count = len(graph.inputs)
    received = [i for i in wanted if graph.inputs[i] in walk.grads]
    grads = walk.results(received)
    here = {v: walk.here[v].value for v in kept}
    chosen = partition.floor(
        joint, joint.inputs[count:], grads, set(joint.inputs[:count]) | set(here.values())
    )
    back = {new: old for old, new in here.items()}
    kept = [back.get(v, v) for v in chosen]
    inputs_at = {v: i for i, v in enumerate(graph.inputs)}
    outputs = list(graph.outputs)
    outputs_at: dict[Value, int] = {}
    for i, output in enumerate(outputs):
        if isinstance(output, Value):
            outputs_at.setdefault(output, i)
    inputs_back = dict(zip(joint.inputs[:count], graph.inputs, strict=True))
    kept = [inputs_back.get(v, v) for v in kept]
    for value in (*kept, *rooted):
        if value not in inputs_at and value not in outputs_at:
            outputs_at[value] = len(outputs)
            outputs.append(value)
    captured_inputs = [v for v in kept if v in inputs_at]
    captured_outputs = [v for v in kept if v not in inputs_at]
    positions = [i for i, o in enumerate(graph.outputs) if isinstance(o, Value) and o in walk.needs]
    positions += [outputs_at[v] for v in rooted]
    values = [walk.here[o].value if isinstance(o, Value) else o for o in outputs]
    captures = [walk.here[v].value for v in (*captured_inputs, *captured_outputs)]
    name = graph.signature.name
    f = partition.extract(
        joint, joint.inputs[:count], values, Signature(name=name, names=graph.signature.names)
    )
    df = partition.extract(
        joint, [*joint.inputs[count:], *captures], grads, Signature(name=f"d{name}")
    )
    return Gradient(
        f=simplified(f),
        df=simplified(df),
        real_outputs=len(graph.outputs),
        output_grads=tuple(positions),
        captured_inputs=tuple(inputs_at[v] for v in captured_inputs),
        captured_outputs=tuple(outputs_at[v] for v in captured_outputs),
        input_grads=tuple(received),
    )


def _value_of(level: TraceLevel, tensor: Any) -> Value:
    return tensor.value if isinstance(tensor, TraceTensor) else level.constant(tensor)


def jvp(graph: Graph) -> Graph:
    """Return the forward derivative of a graph: inputs, then their tangents, to outputs, then
    theirs.

    Only inputs and outputs of a differentiable dtype have tangents. An output that depends on no
    input has zeros.
    """
    level = _JointLevel(Graph(Signature(name=f"jvp_{graph.signature.name}")))
    with level:
        here = {v: level.lift(level.graph.add_input(v.type, v.name)) for v in graph.inputs}
        tangents: dict[Value, Any] = {
            v: level.lift(level.graph.add_input(_gradient_type(v), f"{v.name}_t"))
            for v in graph.inputs
            if v.dtype.is_differentiable
        }
        for node in graph.nodes:
            _push_node(level, node, here, tangents)
        outputs = [here[o].value if isinstance(o, Value) else o for o in graph.outputs]
        for output in graph.outputs:
            if isinstance(output, Value) and output.dtype.is_differentiable:
                tangent = tangents.get(output)
                outputs.append(
                    _value_of(level, here[output].zeros_like() if tangent is None else tangent)
                )
    level.graph.outputs = outputs
    return simplified(level.graph)


def _push_node(
    level: TraceLevel, node: Node, here: dict[Value, Any], tangents: dict[Value, Any]
) -> None:
    args = substitute(node.args, lambda v: here[v].value)
    graphs = {k: g.clone() for k, g in node.graphs.items()}
    made = level.graph.add(node.op, args, [v.type for v in node.outputs], graphs=graphs)
    made.place = node.place
    here.update(zip(node.outputs, map(level.lift, made.outputs), strict=True))
    if isinstance(node.op, Constant) or not any(v in tangents for v in node.inputs()):
        return
    if isinstance(node.op, Region) or _through_decomposition(node.op.row):
        found = _push_through(node, here, tangents)
    else:
        found = _push_row(node, here, tangents)
    for value, tangent in zip(node.outputs, found, strict=True):
        if tangent is not None and value.dtype.is_differentiable:
            tangents[value] = fit_tangent(tangent, here[value])


def _push_row(node: Node, here: dict[Value, Any], tangents: dict[Value, Any]) -> list[Any]:
    row = node.op.row
    _refuse(node, set(tangents))
    given: dict[str, Any] = {}
    for argument in row.differentiable:
        value = _argument(node, argument.name)
        given[argument.name] = (
            [tangents.get(v) for v in value] if argument.type.is_list else tangents.get(value)
        )
    if not any(
        t is not None and (not isinstance(t, list) or any(e is not None for e in t))
        for t in given.values()
    ):
        return [None] * len(node.outputs)
    args = [_traced(a, here) for a in node.args]
    results = [here[v] for v in node.outputs]
    listed = len(row.schema.returns) == 1 and row.schema.returns[0].type.is_list
    return derive.forward_all(
        row, dict(zip(row.schema.names, args, strict=True)), given, [results] if listed else results
    )


def _push_through(node: Node, here: dict[Value, Any], tangents: dict[Value, Any]) -> list[Any]:
    inputs = list(dict.fromkeys(v for v in node.inputs() if v in tangents))

    def run(*variables: Any) -> tuple[list[Any], None]:
        mapping = dict(zip(inputs, variables, strict=True))
        result = _call(node, [_traced(a, {**here, **mapping}) for a in node.args])
        return list(result) if isinstance(result, (tuple, list)) else [result], None

    _, found, _ = pushforward(run, [here[v] for v in inputs], [tangents[v] for v in inputs])
    return found


def transpose(graph: Graph) -> Graph:
    """Return the transpose of a linear graph: from cotangents of its outputs to cotangents of its
    inputs.

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
