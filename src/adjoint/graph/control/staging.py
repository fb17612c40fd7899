"""Control flow in a graph: nodes that run graphs of their own (`cond`, `scan`, `while_loop`).

While a trace is active, a branch or a body is traced once (`stage`) into a graph; the tensors that
it uses from outside become further inputs. `bind` then hands the call to the topmost transform
among its operands. A trace adds a node. Any other transform runs another call one level below,
whose bodies are the derivatives (`pullback`, `pushforward`) or the batched version of the original
bodies. So a region needs no rules beyond these few, and all orders follow.

Reverse mode of a loop keeps the carries, stacked, and recomputes each step on the way back. The
number of steps of a `while_loop` is not known beforehand: its stacks have the leading dimension
`UNKNOWN`, and only regions use them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from adjoint.calls import dispatch
from adjoint.core.errors import DtypeError, GradError, ShapeError
from adjoint.core.generator import drawn
from adjoint.core.source_lines import user_line
from adjoint.core.state import current
from adjoint.graph.control.regions import REGIONS
from adjoint.graph.facts import generators, has_effect
from adjoint.graph.interpret import run_flat
from adjoint.graph.ir import Graph, Region, Type
from adjoint.graph.passes.dead_code import eliminate_dead
from adjoint.graph.trace import TraceLevel
from adjoint.homes.forward import JvpLevel
from adjoint.homes.levels import GradLevel, Level, wrap
from adjoint.homes.pullback import pullback
from adjoint.ops import operator as operators
from adjoint.ops import streams
from adjoint.tape import observe
from adjoint.tensor.nodes import Node as TapeNode
from adjoint.tensor.nodes import Output, Rule, Watch
from adjoint.tensor.tensor import Tensor, is_plain
from adjoint.transforms.batch import BatchLevel
from adjoint.transforms.forward import pushforward

UNKNOWN = -1  # a leading dimension that is known only when the graph runs

Flat = list[Any]  # of tensors
FlatFunction = Callable[[Flat], Flat]
Paths = Callable[[], list[str]] | None  # returns the names of leaves, for an error message


def is_tracing() -> bool:
    """Whether a trace is active."""
    return any(level.creates for level in current().levels)


class RegionLevel(TraceLevel):
    """A trace of a loop's body. Operators on tensors from outside alone run outside, once."""

    of_what = "branch or body of a loop"

    def __enter__(self) -> Any:
        dispatch.regions.append(self)
        return super().__enter__()

    def __exit__(self, *error: Any) -> None:
        dispatch.regions.remove(self)
        super().__exit__(*error)


class BranchLevel(RegionLevel):
    """A trace of a branch. The branch may never run, so all its operators stay inside."""

    encloses = True

    def created(self, tensor: Tensor) -> Tensor:
        return super().created(tensor) if is_plain(tensor) else self.enclosed(tensor)


def stage(
    function: Callable[..., Flat],
    types: Sequence[Type],
    names: Sequence[str] = (),
    kind: type[RegionLevel] = RegionLevel,
) -> tuple[Graph, Flat]:
    """Trace a flat function; return its graph, and the tensors for its further inputs."""
    named = names or ["x"] * len(types)
    with kind(Graph()) as level:
        inputs = [
            level.lift(level.graph.add_input(t, n)) for t, n in zip(types, named, strict=True)
        ]
        outputs = function(*inputs)
        level.graph.outputs = [level.value(o) for o in outputs]
    graph = eliminate_dead(level.graph)
    captured: Flat = []
    for tensor, value in level.constants.values():
        if value.node is None or value.node.graph is None or _is_plain(tensor):
            continue
        captured.append(tensor)
        graph.replace_uses(value, graph.add_input(value.type, "w"))
        graph.remove(value.node)
    return graph, captured


def _is_plain(tensor: Any) -> bool:
    """Whether a tensor is a constant for all transforms, so that a body may hold it."""
    return is_plain(tensor) and tensor.edge is None


def captured_first(graph: Graph, *groups: int) -> Graph:
    """Move captured inputs behind the first group: a body has (constants, carry, x)."""
    first, rest = groups[0], sum(groups)
    graph.inputs = graph.inputs[:first] + graph.inputs[rest:] + graph.inputs[first:rest]
    return graph


def type_of(tensor: Any, needs: bool = False) -> Type:
    """The type of an operand, which requires a gradient if `needs` and its dtype allows one."""
    return Type(tuple(tensor.shape), tensor.dtype, needs and tensor.is_differentiable_dtype())


def needs_gradient(operands: Flat) -> bool:
    return bool(current().recording) and any(t.requires_grad for t in operands)


def floats(tensors: Sequence[Any]) -> list[int]:
    """The positions of tensors or types with a differentiable dtype."""
    return [i for i, t in enumerate(tensors) if t.dtype.is_differentiable]


def zeros(like: Any) -> Any:
    """Zeros with the shape and dtype of a tensor or type."""
    return operators.packet("zeros")(tuple(like.shape), dtype=like.dtype)


def check_alike(what: str, before: Flat, after: Sequence[Any], paths: Paths) -> None:
    """Raise unless a step keeps the shape and dtype of each part of the carry."""
    for i, (a, b) in enumerate(zip(before, after, strict=True)):
        same_shape = tuple(a.shape) == tuple(b.shape)
        if same_shape and a.dtype is b.dtype:
            continue
        path = f"carry {i}" if paths is None else paths()[i]
        convert = f"convert the start, or the result, to {b.dtype.name}"
        advice = convert if same_shape else "start with the shape of the result"
        raise (DtypeError if same_shape else ShapeError)(
            f"{what}: {path} is {type_of(a)} before a step and {type_of(b)} after it. A loop needs "
            f"the same type in every step: {advice}"
        )


# --- calls ----------------------------------------------


class Back(ABC):
    """The way back through a call that has run."""

    graphs: dict[str, Graph]
    before: tuple[Any, ...] = ()  # generators whose states before the run `pull` needs

    @property
    @abstractmethod
    def run(self) -> RegionCall:
        """The call to run; `kept` selects from its results."""

    @abstractmethod
    def kept(self, results: Flat) -> Flat:
        """The results of the call that `pull` needs, which no user can write to."""

    @abstractmethod
    def pull(self, primals: Flat, kept: Flat, grads: Flat, wanted: list[bool]) -> Flat:
        """The gradient of each operand, None where not wanted; `kept`: results, then states."""


class RegionCall(Back):
    """A use of a region: its graphs and numbers. The operands are arguments of the methods."""

    name: str

    @property
    def run(self) -> RegionCall:
        return self

    def draws(self) -> list[Any]:
        """The generators from which it draws."""
        found = {id(g): g for graph in self.graphs.values() for g in generators(graph)}
        return list(found.values())

    @property
    @abstractmethod
    def count(self) -> int:
        """The number of results."""

    @abstractmethod
    def args(self, operands: Flat) -> tuple[Any, ...]:
        """The arguments of the node, with the operands in groups."""

    @abstractmethod
    def types(self, operands: Flat, needs: bool) -> list[Type]:
        """The types of the results."""

    @abstractmethod
    def push(self, primals: Flat, tangents: Flat) -> tuple[Flat, Flat]:
        """The results and their tangents; None stands for a zero tangent."""

    @abstractmethod
    def keeping(self) -> RegionCall:
        """A call with the same results, followed by those that its `pull` needs."""

    def halved(self) -> Back:
        """The way back as a graph of its own, which takes only values of known shape."""
        return self.keeping()

    @abstractmethod
    def batch(self, level: BatchLevel, operands: Flat) -> Flat:
        """The results on a level of vmap."""


def bind(call: RegionCall, operands: Flat) -> Flat:
    """Let the topmost transform among the operands carry out a call."""
    is_placed = bool(call.draws()) or not call.graphs
    level = _innermost() if is_placed else _carrying_out(operands)
    if isinstance(level, GradLevel):
        return _reverse(level, call, operands)
    if isinstance(level, JvpLevel):
        return _forward(level, call, operands)
    if isinstance(level, BatchLevel):
        return call.batch(level, operands)
    return _node(level, call, operands)


def _innermost() -> Any:
    """The innermost level, which carries out calls that draw: it decides how samples draw."""
    carrying = (GradLevel, JvpLevel, BatchLevel, TraceLevel)
    return next(v for v in reversed(current().levels) if isinstance(v, carrying))


def _carrying_out(operands: Flat) -> Any:
    """The level that carries out a call: the topmost transform among the operands.

    The innermost trace, if the operands have no transform, or none above a trace: a body is traced
    once for its types, even if its loop runs eagerly.
    """
    traces = [t for t in current().levels if t.creates]
    top = dispatch.topmost(operands)
    carries = isinstance(top, (GradLevel, JvpLevel, BatchLevel, TraceLevel))
    if not carries or top.height < traces[0].height:
        return traces[-1]
    return dispatch.enclosing(top) if dispatch.regions else top


def _node(level: Any, call: RegionCall, operands: Flat) -> Flat:
    if call.graphs:
        for generator in call.draws():
            drawn(generator, level, streams.read)
    needs = needs_gradient(operands)
    values = [level.value(t) for t in operands]
    graphs = {k: g.clone() for k, g in call.graphs.items()}  # passes change the graphs of a node
    types = call.types(operands, needs)
    node = level.graph.add(REGIONS[call.name], call.args(values), types, graphs=graphs)
    node.place = user_line()
    return [level.lift(v) for v in node.outputs]


def _forward(level: JvpLevel, call: RegionCall, operands: Flat) -> Flat:
    primals, tangents = [level.below(t) for t in operands], [level.tangent(t) for t in operands]
    with level.outside():
        if all(t is None for t in tangents):
            outputs = bind(call, primals)
            return [level.lift(o) for o in outputs]
        outputs, found = call.push(primals, tangents)
    return [level.lift(o, t) for o, t in zip(outputs, found, strict=True)]


def _frozen(tensor: Any) -> Any:
    """The same value as a tensor that writes cannot reach, as values in a graph never change."""
    if not isinstance(tensor, Tensor) or not isinstance(tensor.home, Level):
        return tensor
    if isinstance(tensor.home, TraceLevel):
        return tensor.home.lift(tensor.value)
    below, companion = _frozen(tensor.value), _frozen(tensor.companion)
    return wrap(tensor.home, below, tensor.edge, companion)


def _reverse(level: GradLevel, call: RegionCall, operands: Flat) -> Flat:
    primals = [_frozen(level.below(t)) for t in operands]
    edges = tuple(
        t.edge if level.owns(t) and t.is_differentiable_dtype() else None for t in operands
    )
    recorded = current().recording and any(e is not None for e in edges)
    with level.outside():
        if not recorded:
            return [level.lift(o) for o in bind(call, primals)]
        back = call.halved() if level.halved else call.keeping()
        states = [streams.read(generator) for generator in back.before]
        results = bind(back.run, primals)
    graphs = {name: without_effects(graph) for name, graph in back.graphs.items()}
    silent: Back = replace(back, graphs=graphs)  # type: ignore[type-var] - they are records
    watches = [Watch(t) for t in primals if is_plain(t)]

    def general(node: Any, grads: Any, needs: Any, graph: bool) -> tuple[Any, ...]:
        if node.saved is None:
            raise GradError(
                f"backward a second time through {call.name}; use retain_graph=True the first time"
            )
        for watch in watches:
            if (counter := watch.changed()) is not None:
                observe.raise_changed(node, counter)
        wanted = [bool(n) and e is not None for n, e in zip(needs, edges, strict=True)]
        given = grads if isinstance(grads, list) else [grads]
        return tuple(silent.pull(node.saved[0], node.saved[1], given, wanted))

    node = TapeNode(
        Rule(f"{call.name.title().replace('_', '')}Backward", general),
        edges,
        (primals, [*back.kept(results), *states]),
        None,
        None,
    )
    node.home = level
    lifted = [level.lift(r) for r in results]
    node.outputs = tuple((o.value.shape, o.value.dtype) for o in lifted)
    for number, out in enumerate(lifted):
        if out.is_differentiable_dtype():
            out.edge = Output(node, number)
    return lifted[: call.count]


def without_effects(graph: Graph) -> Graph:
    """The graph without nodes that run for their effect: a backward pass only recomputes."""
    if not any(map(has_effect, graph.nodes)):
        return graph
    made = graph.clone()
    for node in made.reversed_nodes():
        if isinstance(node.op, Region) and node.op.effect:
            made.discard(node)
        else:
            node.graphs = {name: without_effects(inner) for name, inner in node.graphs.items()}
    return made


def filled(tangents: Flat, primals: Flat, wanted: list[int]) -> Flat:
    """The tangents at some positions, with zeros for missing ones."""
    return [zeros(primals[i]) if tangents[i] is None else tangents[i] for i in wanted]


def put(values: Sequence[Any], places: Sequence[int], new: Sequence[Any]) -> Flat:
    found = list(values)
    for i, v in zip(places, new, strict=True):
        found[i] = v
    return found


def pulled_back(
    function: FlatFunction,
    inputs: Flat,
    places: list[int],
    cotangents: Flat,
    between: Callable[[], None] = lambda: None,
) -> Flat:
    """Pull cotangents, one per result, back to the inputs at `places`; missing gradients are zeros.

    `between` is called after the function has run.
    """
    _, pull = pullback(
        lambda *v: (function(put(inputs, places, v)), None), [inputs[i] for i in places]
    )
    between()
    found = pull.last(cotangents)
    return [zeros(inputs[i]) if g is None else g for g, i in zip(found, places, strict=True)]


def type_of_output(output: Any, needs: bool) -> Type:
    return Type(output.shape, output.dtype, needs and output.dtype.is_differentiable)


def runner(graph: Any) -> FlatFunction:
    return lambda values: run_flat(graph, values)


def pushed_forward(
    function: FlatFunction,
    primals: Flat,
    places: list[int],
    tangents: Flat,
    outputs: list[int],
) -> Flat:
    """The results, then the tangents of the results at `outputs`."""
    given = put([None] * len(primals), places, tangents)
    results, found, _ = pushforward(lambda *v: (function(list(v)), None), primals, given)
    return [*results, *filled(found, results, outputs)]


def cut(values: Flat, *counts: int) -> list[Flat]:
    found, start = [], 0
    for count in counts:
        found.append(values[start : start + count])
        start += count
    return found


# --- vmap of graphs ----------------------------------------------


def mapped_over(
    graph: Graph,
    level: BatchLevel,
    has: Sequence[bool],
    values: Sequence[Any],
    out: Sequence[bool] | None,
) -> Any:
    """Run a graph over a batch, which is the first dimension of some inputs.

    The results have a batch dimension where `out` says so. Without `out`, return which results are
    batched.
    """
    with BatchLevel(level.size, level.randomness) as inner:
        results = run_flat(
            graph, [inner.lift(v, 0) if h else v for v, h in zip(values, has, strict=True)]
        )
        if out is None:
            return [inner.is_batched(r) for r in results]
    return [
        inner.result(r) if wanted else inner.below(r)
        for r, wanted in zip(results, out, strict=True)
    ]


def batched_results(graph: Graph, level: BatchLevel, has: Sequence[bool]) -> list[bool]:
    """Which results of a graph are batched when the inputs in `has` are."""
    flags: list[bool] = []

    def look(*values: Any) -> Flat:
        flags[:] = mapped_over(graph, level, has, values, None)
        return []

    sizes = [
        (level.size, *v.shape) if h else v.shape for v, h in zip(graph.inputs, has, strict=True)
    ]
    stage(look, [Type(tuple(s), v.dtype) for s, v in zip(sizes, graph.inputs, strict=True)])
    return flags


def fronts_of(level: BatchLevel, operands: Flat) -> tuple[Flat, list[bool]]:
    with level.outside():
        return [level.front(t) for t in operands], [level.is_batched(t) for t in operands]


def batched(level: BatchLevel, values: Flat, has: Sequence[bool], wanted: Sequence[bool]) -> Flat:
    """Give values a leading batch dimension where they need one and have none."""
    return [
        v.expand((level.size, *v.shape)) if w and not h else v
        for v, h, w in zip(values, has, wanted, strict=True)
    ]


def where_each(predicate: Any, chosen: Sequence[Any], others: Sequence[Any]) -> Flat:
    """For each pair, the chosen tensor where the predicate holds, else the other one."""
    where = operators.packet("where")
    return [a if a is b else where(predicate, a, b) for a, b in zip(chosen, others, strict=True)]


def shielded(predicate: Any, values: Sequence[Any]) -> Flat:
    """The same values without derivatives where the predicate is false, so that no 0·∞ arises."""
    where = operators.packet("where")
    return [where(predicate, v, v.detach()) if v.is_differentiable_dtype() else v for v in values]
