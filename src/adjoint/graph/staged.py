"""Control flow in a graph: nodes that run graphs of their own (`cond`, `scan`, `while_loop`).

While a trace is open, a branch or a body is traced once (`stage`) into a graph that is closed: tensors that it uses from
outside become further inputs. `bind` then hands the call to the topmost transform among its operands. A trace adds
a node; every other transform runs another call below it, whose bodies are the derivative (`pullback`, `pushforward`) or
the batched version of the first ones. So a region needs no rules of its own beyond these few, and all orders follow.

Reverse mode of a loop keeps the carries, stacked, and computes each step again on the way back. How often a
`while_loop` runs is not known beforehand: what it stacks has the leading dimension `UNKNOWN`, and is used by regions only.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from adjoint.core.errors import DtypeError, GradError, ShapeError
from adjoint.graph.interpret import run_flat
from adjoint.graph.ir import Graph, Node, Region, Type
from adjoint.graph.passes.dead_code import eliminate_dead
from adjoint.graph.regions import REGIONS, register
from adjoint.graph.trace import TraceLevel, place
from adjoint.ops import operator as operators
from adjoint.tensor import dispatch, levels
from adjoint.tensor.levels import GradLevel, stack
from adjoint.tensor.modes import modes
from adjoint.tensor.tape import Node as TapeNode
from adjoint.tensor.tape import Output, Rule
from adjoint.tensor.tensor import Tensor
from adjoint.transforms.batch import BatchLevel
from adjoint.transforms.forward import JvpLevel, pushforward

UNKNOWN = -1  # a leading dimension that is known when the graph runs

Flat = list[Any]  # of tensors


def is_tracing() -> bool:
    """Whether a trace is open."""
    return any(level.creates for level in stack.levels)


# --- staging -----------------------------------------------------------------------------------------


def stage(function: Callable[..., Flat], types: Sequence[Type]) -> tuple[Graph, Flat]:
    """Trace a flat function; return its closed graph and the tensors for its further inputs."""
    with TraceLevel(Graph()) as level:
        inputs = [level.lift(level.graph.add_input(t)) for t in types]
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
    """Whether a tensor is the same for all transforms, so that the body may hold it as a constant."""
    return type(tensor) is Tensor and tensor.edge is None


def _reorder(graph: Graph, *groups: int) -> Graph:
    """Move what was captured behind the first group of inputs: a body has (constants, carry, x)."""
    first, rest = groups[0], sum(groups)
    graph.inputs = graph.inputs[:first] + graph.inputs[rest:] + graph.inputs[first:rest]
    return graph


def type_of(tensor: Any, needs: bool = False) -> Type:
    """The type of an operand; those with a derivative require one if any of them does."""
    return Type(tuple(tensor.shape), tensor.dtype, needs and tensor.is_differentiable_dtype())


def _needs(operands: Flat) -> bool:
    return bool(modes.recording) and any(t.requires_grad for t in operands)


def floats(tensors: Sequence[Any]) -> list[int]:
    """The positions of tensors (or types) that have a derivative."""
    return [i for i, t in enumerate(tensors) if t.dtype.is_differentiable]


def zeros(like: Any) -> Any:
    """Zeros of the shape and dtype of a tensor or type."""
    return operators.packet("zeros")(tuple(like.shape), dtype=like.dtype)


def check_alike(what: str, before: Sequence[Any], after: Sequence[Any], paths: Sequence[str]) -> None:
    """Raise unless a step leaves every part of the carry with the shape and dtype that it had."""
    for a, b, path in zip(before, after, paths, strict=True):
        if tuple(a.shape) == tuple(b.shape) and a.dtype is b.dtype:
            continue
        was, now = str(type_of(a)), str(type_of(b))
        shapes = tuple(a.shape) != tuple(b.shape)
        raise (ShapeError if shapes else DtypeError)(
            f"{what}: {path} is {was} before a step and {now} after it. A loop needs the same type in every step: "
            f"{'give the start the shape of the result' if shapes else f'convert the start, or the result, to {b.dtype.name}'}"
        )


# --- calls -------------------------------------------------------------------------------------------


class Call(ABC):
    """One use of a region: its graphs and numbers; its operands come with every rule."""

    name: str
    graphs: dict[str, Graph]

    @abstractmethod
    def args(self, operands: Flat) -> tuple[Any, ...]:
        """The arguments of the node, the operands in groups."""

    @abstractmethod
    def types(self, operands: Flat, needs: bool) -> list[Type]:
        """The types of the results."""

    @abstractmethod
    def push(self, primals: Flat, tangents: Flat) -> tuple[Flat, Flat]:
        """Results and their tangents (None where zero)."""

    @abstractmethod
    def forward(self, primals: Flat) -> tuple[Flat, Flat]:
        """Results, and what `pull` needs of this run."""

    @abstractmethod
    def pull(self, primals: Flat, kept: Flat, grads: Flat, wanted: list[bool]) -> Flat:
        """The gradient of each operand, None where not wanted."""

    @abstractmethod
    def batch(self, level: BatchLevel, operands: Flat) -> Flat:
        """Results on a level of vmap."""


def bind(call: Call, operands: Flat) -> Flat:
    """Let the topmost transform among the operands carry out the call."""
    level = dispatch.topmost(operands)
    if isinstance(level, GradLevel):
        return _reverse(level, call, operands)
    if isinstance(level, JvpLevel):
        return _forward(level, call, operands)
    if isinstance(level, BatchLevel):
        return call.batch(level, operands)
    trace = level if isinstance(level, TraceLevel) else next(t for t in reversed(stack.levels) if t.creates)
    return _node(trace, call, operands)


def _node(level: Any, call: Call, operands: Flat) -> Flat:
    needs = _needs(operands)
    values = [level.value(t) for t in operands]
    node = level.graph.add(
        REGIONS[call.name], call.args(values), call.types(operands, needs), graphs=dict(call.graphs)
    )
    node.place = place()
    return [level.lift(v) for v in node.outputs]


def _forward(level: JvpLevel, call: Call, operands: Flat) -> Flat:
    primals, tangents = [level.below(t) for t in operands], [level.tangent(t) for t in operands]
    with level.outside():
        if all(t is None for t in tangents):
            outputs = bind(call, primals)
            return [level.lift(o) for o in outputs]
        outputs, found = call.push(primals, tangents)
    return [level.lift(o, t) for o, t in zip(outputs, found, strict=True)]


def _reverse(level: GradLevel, call: Call, operands: Flat) -> Flat:
    primals = [level.below(t) for t in operands]
    edges = tuple(t.edge if level.owns(t) and t.is_differentiable_dtype() else None for t in operands)
    with level.outside():
        if not modes.recording or not any(e is not None for e in edges):
            return [level.lift(o) for o in bind(call, primals)]
        outputs, kept = call.forward(primals)

    def general(node: Any, grads: Any, needs: Any, graph: bool) -> tuple[Any, ...]:
        if node.saved is None:
            raise GradError(f"backward a second time through {call.name}; use retain_graph=True the first time")
        wanted = [bool(n) and e is not None for n, e in zip(needs, edges, strict=True)]
        given = grads if isinstance(grads, list) else [grads]
        return tuple(call.pull(node.saved[0], node.saved[1], given, wanted))

    node = TapeNode(Rule(f"{call.name.title().replace('_', '')}Backward", general), edges, (primals, kept), None, None)
    node.home = level
    lifted = [level.lift(o) for o in outputs]
    node.outputs = tuple((o.value.shape, o.value.dtype) for o in lifted)
    for number, out in enumerate(lifted):
        if out.is_differentiable_dtype():
            out.edge = Output(node, number)
    return lifted


def _pair(tangents: Flat, primals: Flat, wanted: list[int]) -> Flat:
    """The tangents at some places, zeros where there is none."""
    return [zeros(primals[i]) if tangents[i] is None else tangents[i] for i in wanted]


def _put(values: Sequence[Any], places: Sequence[int], new: Sequence[Any]) -> Flat:
    found = list(values)
    for i, v in zip(places, new, strict=True):
        found[i] = v
    return found


def _pulled(function: Callable[[Flat], Flat], inputs: Flat, places: list[int], cotangents: Flat) -> Flat:
    """Pull cotangents (one per result) back to some inputs of a flat function; zeros where nothing comes."""
    _, pull = levels.pullback(lambda *v: (function(_put(inputs, places, v)), None), [inputs[i] for i in places])
    found = pull(cotangents, retain=False)
    return [zeros(inputs[i]) if g is None else g for g, i in zip(found, places, strict=True)]


# --- vmap of graphs ----------------------------------------------------------------------------------


def _again(graph: Graph, level: BatchLevel, has: Sequence[bool], values: Sequence[Any], out: Sequence[bool] | None) -> Any:
    """Run a graph over a batch in front of some inputs; results as `out` says, or which of them are batched."""
    with BatchLevel(level.size, level.randomness) as inner:
        results = run_flat(graph, [inner.lift(v, 0) if h else v for v, h in zip(values, has, strict=True)])
        if out is None:
            return [inner.is_batched(r) for r in results]
    return [inner.result(r) if wanted else inner.below(r) for r, wanted in zip(results, out, strict=True)]


def batched_results(graph: Graph, level: BatchLevel, has: Sequence[bool]) -> list[bool]:
    """Which results of a graph differ from sample to sample, when these inputs do."""
    flags: list[bool] = []

    def look(*values: Any) -> Flat:
        flags[:] = _again(graph, level, has, values, None)
        return []

    sizes = [(level.size, *v.shape) if h else v.shape for v, h in zip(graph.inputs, has, strict=True)]
    stage(look, [Type(tuple(s), v.dtype) for s, v in zip(sizes, graph.inputs, strict=True)])
    return flags


def _fronts(level: BatchLevel, operands: Flat) -> tuple[Flat, list[bool]]:
    with level.outside():
        return [level.front(t) for t in operands], [level.is_batched(t) for t in operands]


def _spread(level: BatchLevel, values: Flat, has: Sequence[bool], wanted: Sequence[bool]) -> Flat:
    """Give a batch in front to those values that need one and have none."""
    return [
        v.expand((level.size, *v.shape)) if w and not h else v
        for v, h, w in zip(values, has, wanted, strict=True)
    ]


def choose(predicate: Any, chosen: Sequence[Any], others: Sequence[Any]) -> Flat:
    """One by one, `chosen` where the predicate holds."""
    where = operators.packet("where")
    return [a if a is b else where(predicate, a, b) for a, b in zip(chosen, others, strict=True)]


def shielded(predicate: Any, values: Sequence[Any]) -> Flat:
    """The same values; where the predicate does not hold no derivative passes, not even 0·∞."""
    where = operators.packet("where")
    return [where(predicate, v, v.detach()) if v.is_differentiable_dtype() else v for v in values]


# --- cond --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Cond(Call):
    """operands: predicate, then what both branches get."""

    graphs: dict[str, Graph]  # "true", "false"
    name = "cond"

    def args(self, operands: Flat) -> tuple[Any, ...]:
        return operands[0], tuple(operands[1:])

    def types(self, operands: Flat, needs: bool) -> list[Type]:
        return [type_of_output(o, needs) for o in self.graphs["true"].outputs]

    def _branches(self) -> list[Callable[[Flat], Flat]]:
        return [_runner(self.graphs[k]) for k in ("true", "false")]

    def push(self, primals: Flat, tangents: Flat) -> tuple[Flat, Flat]:
        rest = primals[1:]
        places = [i for i in floats(rest) if tangents[i + 1] is not None]
        outputs = floats(self.graphs["true"].outputs)

        def pushed(branch: Callable[[Flat], Flat]) -> Callable[[Flat], Flat]:
            return lambda v: _push_flat(branch, v[: len(rest)], places, v[len(rest) :], outputs)

        more = [tangents[i + 1] for i in places]
        results = cond_flat(primals[0], *map(pushed, self._branches()), [*rest, *more])
        return _split_tangents(results, len(self.graphs["true"].outputs), outputs)

    def forward(self, primals: Flat) -> tuple[Flat, Flat]:
        return bind(self, primals), []

    def pull(self, primals: Flat, kept: Flat, grads: Flat, wanted: list[bool]) -> Flat:
        rest = primals[1:]
        places = [i for i in range(len(rest)) if wanted[i + 1]]
        present = [i for i, g in enumerate(grads) if g is not None]

        def pulled(branch: Callable[[Flat], Flat]) -> Callable[[Flat], Flat]:
            def run(v: Flat) -> Flat:
                def some(inputs: Flat) -> Flat:
                    results = branch(inputs)
                    return [results[i] for i in present]

                return _pulled(some, v[: len(rest)], places, v[len(rest) :])

            return run

        found = cond_flat(primals[0], *map(pulled, self._branches()), [*rest, *(grads[i] for i in present)])
        return _put([None] * len(primals), [i + 1 for i in places], found)

    def batch(self, level: BatchLevel, operands: Flat) -> Flat:
        if level.is_batched(operands[0]):
            return both_branches(operands[0], *self._branches(), operands[1:])
        fronts, has = _fronts(level, operands)
        flags = [batched_results(self.graphs[k], level, has[1:]) for k in ("true", "false")]
        out = [a or b for a, b in zip(*flags, strict=True)]

        def mapped(key: str) -> Callable[[Flat], Flat]:
            return lambda v: _again(self.graphs[key], level, has[1:], v, out)

        with level.outside():
            results = cond_flat(fronts[0], mapped("true"), mapped("false"), fronts[1:])
        return [level.lift(r, 0 if h else None) for r, h in zip(results, out, strict=True)]


def both_branches(predicate: Any, true: Callable[[Flat], Flat], false: Callable[[Flat], Flat], operands: Flat) -> Flat:
    """A predicate that differs from sample to sample: run both, and choose."""
    chosen = true(shielded(predicate, operands))
    others = false(shielded(predicate.logical_not(), operands))
    return choose(predicate, chosen, others)


def cond_flat(predicate: Any, true: Callable[[Flat], Flat], false: Callable[[Flat], Flat], operands: Flat, paths: Any = None) -> Flat:
    """`cond` of flat functions of a list, eager or traced."""
    if not is_tracing():
        known = known_truth(predicate)
        if known is None:
            return both_branches(predicate, true, false, operands)
        return true(operands) if known else false(operands)
    needs = _needs(operands)
    types = [type_of(t, needs) for t in operands]
    count = len(operands)
    first, more = stage(lambda *v: true(list(v)), types)
    second, others = stage(lambda *v: false(list(v)), types)
    _check_branches(first, second, paths)
    # each branch gets what the other has captured too, and ignores it
    for value in [*first.inputs[count:]]:
        second.add_input(value.type, "w")
    late = [first.add_input(v.type, "w") for v in second.inputs[count : count + len(others)]]
    mine, ours = second.inputs[count : count + len(others)], second.inputs[count + len(others) :]
    second.inputs = second.inputs[:count] + ours + mine
    first.inputs = first.inputs[: count + len(more)] + late
    return bind(Cond({"true": first, "false": second}), [predicate, *operands, *more, *others])


def _check_branches(first: Graph, second: Graph, paths: Any) -> None:
    if len(first.outputs) != len(second.outputs):
        raise ShapeError(f"cond: one branch returns {len(first.outputs)} tensors, the other {len(second.outputs)}")
    for i, (a, b) in enumerate(zip(first.outputs, second.outputs, strict=True)):
        if a.shape != b.shape or a.dtype is not b.dtype:
            where = paths()[i] if callable(paths) else f"result {i}"
            raise (ShapeError if a.shape != b.shape else DtypeError)(
                f"cond: {where} is {a.type} from the first function and {b.type} from the second; both must return the same types"
            )


def known_truth(predicate: Any) -> bool | None:
    """Whether a condition holds; None if it differs from sample to sample of a vmap."""
    while isinstance(predicate, levels.LevelTensor):
        if isinstance(predicate.home, BatchLevel) and predicate.axis is not None:
            return None
        predicate = predicate.value
    return bool(predicate)


def any_truth(predicate: Any) -> bool:
    """Whether a condition holds for any sample of any vmap."""
    while isinstance(predicate, levels.LevelTensor):
        predicate = predicate.value
    return bool(predicate.array.any()) if isinstance(predicate, Tensor) else bool(predicate)


def _runner(graph: Any) -> Callable[[Flat], Flat]:
    return lambda values: run_flat(graph, values)


def type_of_output(output: Any, needs: bool) -> Type:
    return Type(output.shape, output.dtype, needs and output.dtype.is_differentiable)


def _push_flat(function: Callable[[Flat], Flat], primals: Flat, places: list[int], tangents: Flat, outputs: list[int]) -> Flat:
    """Results, then the tangents of some of them."""
    given = _put([None] * len(primals), places, tangents)
    results, found, _ = pushforward(lambda *v: (function(list(v)), None), primals, given)
    return [*results, *_pair(found, results, outputs)]


def _split_tangents(results: Flat, count: int, places: list[int]) -> tuple[Flat, Flat]:
    return results[:count], _put([None] * count, places, results[count:])


# --- scan --------------------------------------------------------------------------------------------

Step = Callable[[Flat, Flat, Flat], tuple[Flat, Flat]]  # constants, carry, x -> carry, y


@dataclass(frozen=True)
class Scan(Call):
    """operands: constants, the carry at the start, and what is scanned."""

    graphs: dict[str, Graph]  # "body": constants, carry, x -> carry, y
    sizes: tuple[int, int, int]  # how many constants, carries, xs
    length: int  # or UNKNOWN
    backwards: bool
    name = "scan"

    def groups(self, operands: Flat) -> tuple[Flat, Flat, Flat]:
        a, b, _ = self.sizes
        return operands[:a], operands[a : a + b], operands[a + b :]

    def args(self, operands: Flat) -> tuple[Any, ...]:
        return (*map(tuple, self.groups(operands)), self.length, self.backwards)

    def types(self, operands: Flat, needs: bool) -> list[Type]:
        types = [type_of_output(o, needs) for o in self.graphs["body"].outputs]
        count = self.sizes[1]
        return types[:count] + [Type((self.length, *t.shape), t.dtype, t.requires_grad) for t in types[count:]]

    def step(self, constants: Flat, carry: Flat, x: Flat) -> tuple[Flat, Flat]:
        results = run_flat(self.graphs["body"], [*constants, *carry, *x])
        return results[: self.sizes[1]], results[self.sizes[1] :]

    def push(self, primals: Flat, tangents: Flat) -> tuple[Flat, Flat]:
        groups = self.groups(primals)
        first, last = self.groups(tangents)[0], self.groups(tangents)[2]
        p, q, r = ([i for i, t in enumerate(first) if t is not None], floats(groups[1]), [i for i, t in enumerate(last) if t is not None])
        a, b, c = self.sizes
        ys = floats(self.graphs["body"].outputs[b:])
        places = [*p, *(a + i for i in q), *(a + b + i for i in r)]

        def pushed(constants: Flat, carry: Flat, x: Flat) -> tuple[Flat, Flat]:
            def both(values: Flat) -> Flat:
                new, y = self.step(values[:a], values[a : a + b], values[a + b :])
                return [*new, *y]

            count = b + len(self.graphs["body"].outputs[b:])
            given = [*constants[a:], *carry[b:], *x[c:]]
            results = _push_flat(both, [*constants[:a], *carry[:b], *x[:c]], places, given, [*q, *(b + i for i in ys)])
            values, found = results[:count], results[count:]
            return [*values[:b], *found[: len(q)]], [*values[b:], *found[len(q) :]]

        results = scan_flat(
            pushed,
            [*groups[0], *(first[i] for i in p)],
            [*groups[1], *_pair(self.groups(tangents)[1], groups[1], q)],
            [*groups[2], *(last[i] for i in r)],
            self.length,
            self.backwards,
        )
        count = len(self.graphs["body"].outputs) - b
        carry, carry_t, y, y_t = _cut(results, b, len(q), count, len(ys))
        return [*carry, *y], [*_put([None] * b, q, carry_t), *_put([None] * count, ys, y_t)]

    def forward(self, primals: Flat) -> tuple[Flat, Flat]:
        def keeping(constants: Flat, carry: Flat, x: Flat) -> tuple[Flat, Flat]:
            new, y = self.step(constants, carry, x)
            return new, [*y, *carry]

        results = scan_flat(keeping, *self.groups(primals), self.length, self.backwards)
        count = len(self.graphs["body"].outputs)
        return results[:count], results[count:]

    def pull(self, primals: Flat, kept: Flat, grads: Flat, wanted: list[bool]) -> Flat:
        return pull_loop(self.step, self.groups(primals), kept, grads, wanted, self.length, not self.backwards)

    def batch(self, level: BatchLevel, operands: Flat) -> Flat:
        a, b, _ = self.sizes
        fronts, has = _fronts(level, operands[: a + b])
        last = [level.is_batched(x) for x in operands[a + b :]]
        first, carries, body = has[:a], has[a:], self.graphs["body"]
        carries, flags = settle(lambda h: batched_results(body, level, [*first, *h, *last]), carries)

        def mapped(constants: Flat, carry: Flat, x: Flat) -> tuple[Flat, Flat]:
            out = [*carries, *flags[b:]]
            results = _again(body, level, [*first, *carries, *last], [*constants, *carry, *x], out)
            return results[:b], results[b:]

        with level.outside():
            start = _spread(level, fronts[a:], has[a:], carries)
            xs = [_second(level, x) for x in operands[a + b :]]
            results = scan_flat(mapped, fronts[:a], start, xs, self.length, self.backwards)
        return _lifted(level, results, carries, flags[b:])


def _second(level: BatchLevel, tensor: Any) -> Any:
    """What is below, with the batch behind the dimension that is scanned; a stack of a loop has it there already."""
    if not level.is_batched(tensor) or tensor.axis == 1:
        return level.below(tensor)
    return level.front(tensor).movedim(0, 1)


def _lifted(level: BatchLevel, results: Flat, carries: list[bool], stacks: list[bool]) -> Flat:
    carried = [level.lift(r, 0 if h else None) for r, h in zip(results, carries, strict=False)]
    rest = results[len(carries) :]
    return carried + [level.lift(r, 1 if h else None) for r, h in zip(rest, stacks, strict=True)]


def _cut(values: Flat, *counts: int) -> list[Flat]:
    found, start = [], 0
    for count in counts:
        found.append(values[start : start + count])
        start += count
    return found


def settle(flags_of: Callable[[list[bool]], list[bool]], carries: list[bool]) -> tuple[list[bool], list[bool]]:
    """Which parts of a carry are batched in the end: those that ever become so."""
    while True:
        flags = flags_of(carries)
        grown = [a or b for a, b in zip(carries, flags, strict=False)]
        if grown == carries:
            return carries, flags
        carries = grown


def pull_loop(
    step: Step, groups: tuple[Flat, Flat, Flat], kept: Flat, grads: Flat, wanted: list[bool], length: int, backwards: bool
) -> Flat:
    """Reverse mode of a loop: another one the other way round, over the carries that it kept.

    c̄ ← pull of the step at (constants, cᵢ, xᵢ) from (c̄, ȳᵢ); the gradients of the constants add up, those of xᵢ come out.
    """
    constants, start, xs = groups
    a, b = len(constants), len(start)
    q = floats(start)
    p = [i for i in range(a) if wanted[i]]
    r = [i for i in range(len(xs)) if wanted[a + b + i]]
    present = [j for j, g in enumerate(grads[b:]) if g is not None]
    places = [*p, *(a + i for i in q), *(a + b + i for i in r)]

    def back(fixed: Flat, carry: Flat, x: Flat) -> tuple[Flat, Flat]:
        bars, sums = carry[: len(q)], carry[len(q) :]
        x_in, c_in, y_bars = _cut(x, len(xs), b, len(present))

        def run(values: Flat) -> Flat:
            new, y = step(values[:a], values[a : a + b], values[a + b :])
            return [*(new[i] for i in q), *(y[j] for j in present)]

        found = _pulled(run, [*fixed, *c_in, *x_in], places, [*bars, *y_bars])
        more, new, x_bars = _cut(found, len(p), len(q), len(r))
        return [*new, *(s + m for s, m in zip(sums, more, strict=True))], x_bars

    bars = [zeros(start[i]) if grads[i] is None else grads[i] for i in q]
    scanned = [*xs, *kept, *(grads[b + j] for j in present)]
    results = scan_flat(back, constants, [*bars, *(zeros(constants[i]) for i in p)], scanned, length, backwards)
    new, sums, x_bars = _cut(results, len(q), len(p), len(r))
    return _put([None] * (a + b + len(xs)), [*p, *(a + i for i in q), *(a + b + i for i in r)], [*sums, *new, *x_bars])


def scan_flat(step: Step, constants: Flat, start: Flat, xs: Flat, length: int, backwards: bool, paths: Any = None) -> Flat:
    """`scan` of a flat step, eager or traced: the last carry, then the stacked results."""
    if not is_tracing():
        return _scan_eagerly(step, constants, start, xs, length, backwards, paths)
    operands = [*constants, *start, *xs]
    body, captured = _stage_step(step, constants, start, xs, _needs(operands))
    check_alike("scan", start, body.outputs[: len(start)], _paths(paths, len(start)))
    sizes = len(constants) + len(captured), len(start), len(xs)
    call = Scan({"body": body}, sizes, length, backwards)
    return bind(call, [*constants, *captured, *start, *xs])


def _paths(paths: Any, count: int) -> list[str]:
    return paths() if callable(paths) else [f"carry {i}" for i in range(count)]


def _stage_step(step: Step, constants: Flat, start: Flat, xs: Flat, needs: bool) -> tuple[Graph, Flat]:
    a, b = len(constants), len(start)

    def flat(*values: Any) -> Flat:
        v = list(values)
        new, y = step(v[:a], v[a : a + b], v[a + b :])
        return [*new, *y]

    slices = [Type(t.shape[1:], t.dtype, t.requires_grad) for t in (type_of(x, needs) for x in xs)]
    types = [type_of(t, needs) for t in (*constants, *start)] + slices
    body, captured = stage(flat, types)
    return _reorder(body, a, b, len(xs)), captured


def _scan_eagerly(step: Step, constants: Flat, start: Flat, xs: Flat, length: int, backwards: bool, paths: Any) -> Flat:
    count = int(xs[0].shape[0]) if length == UNKNOWN else length
    if not count:
        body, _ = _stage_step(step, constants, start, xs, False)
        check_alike("scan", start, body.outputs[: len(start)], _paths(paths, len(start)))
        return [*start, *(zeros(Type((0, *o.shape), o.dtype)) for o in body.outputs[len(start) :])]
    columns = [operators.packet("unbind")(x, 0) for x in xs]
    carry, rows = list(start), []
    for i in reversed(range(count)) if backwards else range(count):
        carry, y = step(constants, carry, [column[i] for column in columns])
        check_alike("scan", start, carry, _paths(paths, len(start)) if paths is None else _Lazy(paths))
        rows.append(y)
    if backwards:
        rows.reverse()
    return [*carry, *(operators.packet("stack")([row[j] for row in rows]) for j in range(len(rows[0])))]


class _Lazy(Sequence[str]):
    """Names that are made when one is asked for."""

    def __init__(self, make: Callable[[], list[str]]) -> None:
        self.make = make

    def __getitem__(self, i: Any) -> Any:
        return self.make()[i]

    def __len__(self) -> int:
        return len(self.make())


# --- while_loop --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class While(Call):
    """operands: constants of the condition, constants of the body, the carry at the start."""

    graphs: dict[str, Graph]  # "condition": constants, carry -> bool; "body": constants, carry -> carry
    sizes: tuple[int, int, int]
    keep: bool  # whether to stack the carry of each step
    name = "while_loop"

    def groups(self, operands: Flat) -> tuple[Flat, Flat, Flat]:
        a, b, _ = self.sizes
        return operands[:a], operands[a : a + b], operands[a + b :]

    def args(self, operands: Flat) -> tuple[Any, ...]:
        return (*map(tuple, self.groups(operands)), self.keep)

    def types(self, operands: Flat, needs: bool) -> list[Type]:
        types = [type_of_output(o, needs) for o in self.graphs["body"].outputs]
        return types + [Type((UNKNOWN, *t.shape), t.dtype, t.requires_grad) for t in types] if self.keep else types

    def condition(self, constants: Flat, carry: Flat) -> Any:
        return run_flat(self.graphs["condition"], [*constants, *carry])[0]

    def body(self, constants: Flat, carry: Flat) -> Flat:
        return run_flat(self.graphs["body"], [*constants, *carry])

    def push(self, primals: Flat, tangents: Flat) -> tuple[Flat, Flat]:
        first, constants, start = self.groups(primals)
        given = self.groups(tangents)[1]
        a, b = len(constants), len(start)
        p, q = [i for i, t in enumerate(given) if t is not None], floats(start)

        def pushed(values: Flat, carry: Flat) -> Flat:
            places = [*p, *(a + i for i in q)]
            return _push_flat(
                lambda v: self.body(v[:a], v[a:]), [*values[:a], *carry[:b]], places, [*values[a:], *carry[b:]], q
            )

        results = while_flat(
            lambda values, carry: self.condition(values, carry[:b]),
            pushed,
            first,
            [*constants, *(given[i] for i in p)],
            [*start, *_pair(self.groups(tangents)[2], start, q)],
            self.keep,
        )
        carry, carry_t, stacks, stacks_t = _cut(results, b, len(q), b if self.keep else 0, len(q) if self.keep else 0)
        found = _put([None] * b, q, carry_t)
        return [*carry, *stacks], [*found, *_put([None] * b, q, stacks_t)] if self.keep else found

    def forward(self, primals: Flat) -> tuple[Flat, Flat]:
        keeping = While(self.graphs, self.sizes, True)
        results = bind(keeping, primals)
        stacks = results[self.sizes[2] :]
        return (results if self.keep else results[: self.sizes[2]]), stacks

    def pull(self, primals: Flat, kept: Flat, grads: Flat, wanted: list[bool]) -> Flat:
        first, constants, start = self.groups(primals)

        def step(values: Flat, carry: Flat, x: Flat) -> tuple[Flat, Flat]:
            return self.body(values, carry), carry if self.keep else []

        found = pull_loop(step, (constants, start, []), kept, grads, wanted[len(first) :], UNKNOWN, True)
        return [*[None] * len(first), *found]

    def batch(self, level: BatchLevel, operands: Flat) -> Flat:
        fronts, has = _fronts(level, operands)
        a, b, _ = self.sizes
        first, second, before = has[:a], has[a : a + b], has[a + b :]

        def flags_of(carries: list[bool]) -> list[bool]:
            if batched_results(self.graphs["condition"], level, [*first, *carries])[0]:
                return [True] * len(carries)
            return batched_results(self.graphs["body"], level, [*second, *carries])

        carries, _ = settle(flags_of, before)
        masked = batched_results(self.graphs["condition"], level, [*first, *carries])[0]
        groups = self.groups(fronts)

        def holds(values: Flat, carry: Flat) -> Any:
            return _again(self.graphs["condition"], level, [*first, *carries], [*values, *carry], [masked])[0]

        def body(values: Flat, carry: Flat) -> Flat:
            if not masked:
                return _again(self.graphs["body"], level, [*second, *carries], [*values, *carry], carries)
            predicate = holds(values[:a], carry)
            inputs = [_along(shielded_along, predicate, c) for c in carry]
            new = _again(self.graphs["body"], level, [*second, *carries], [*values[a:], *inputs], carries)
            return [_along(choose_along, predicate, n, c) for n, c in zip(new, carry, strict=True)]

        with level.outside():
            start = _spread(level, groups[2], before, carries)
            values = [*groups[0], *groups[1]] if masked else groups[1]
            test = (lambda v, c: holds(v, c).any()) if masked else holds
            results = while_flat(test, body, groups[0], values, start, self.keep)
        return _lifted(level, results, carries, carries if self.keep else [])


def _along(function: Callable[..., Any], predicate: Any, *values: Any) -> Any:
    """Apply to values with the batch in front, the predicate having one entry for each sample."""
    return function(predicate.reshape((-1, *[1] * (values[0].ndim - 1))), *values)


def choose_along(predicate: Any, chosen: Any, other: Any) -> Any:
    return choose(predicate, [chosen], [other])[0]


def shielded_along(predicate: Any, value: Any) -> Any:
    return shielded(predicate, [value])[0]


def while_flat(
    condition: Callable[[Flat, Flat], Any],
    body: Callable[[Flat, Flat], Flat],
    first: Flat,
    constants: Flat,
    start: Flat,
    keep: bool = False,
    paths: Any = None,
) -> Flat:
    """`while_loop` of flat functions, eager or traced: the last carry, then, if asked for, the stacked carries."""
    if not is_tracing():
        return _while_eagerly(condition, body, first, constants, start, keep, paths)
    needs = _needs([*first, *constants, *start])
    test, tested = _stage_step(lambda v, c, _: ([condition(v, c)], []), first, start, [], needs)
    if test.outputs[0].shape != () or test.outputs[0].dtype.name != "bool":
        raise DtypeError(f"while_loop: the condition must return one bool, got {test.outputs[0].type}")
    graph, captured = _stage_step(lambda v, c, _: (body(v, c), []), constants, start, [], needs)
    check_alike("while_loop", start, graph.outputs, _paths(paths, len(start)))
    sizes = len(first) + len(tested), len(constants) + len(captured), len(start)
    call = While({"condition": test, "body": graph}, sizes, keep)
    return bind(call, [*first, *tested, *constants, *captured, *start])


def _while_eagerly(condition: Any, body: Any, first: Flat, constants: Flat, start: Flat, keep: bool, paths: Any) -> Flat:
    carry, kept = list(start), []
    while True:
        predicate = condition(first, carry)
        known = known_truth(predicate)
        if known is False or (known is None and not any_truth(predicate)):
            break
        kept.append(carry)
        if known:
            new = body(constants, carry)
        else:
            new = body(constants, shielded(predicate, carry))
        check_alike("while_loop", start, new, _Lazy(paths) if callable(paths) else _paths(paths, len(start)))
        carry = new if known else choose(predicate, new, carry)
    if not keep:
        return carry
    return [*carry, *(_stacked([c[i] for c in kept], s) for i, s in enumerate(start))]


def _stacked(rows: Flat, like: Any) -> Any:
    return operators.packet("stack")(rows) if rows else zeros(Type((0, *like.shape), like.dtype))


# --- nodes -------------------------------------------------------------------------------------------


def cond(predicate: Any, operands: Sequence[Any], *, true: Any, false: Any) -> tuple[Any, ...]:
    """Run the region `cond`; branches are graphs or functions of flat arguments. What a printed graph calls."""
    return tuple(cond_flat(predicate, _runner(true), _runner(false), list(operands)))


def scan(constants: Sequence[Any], start: Sequence[Any], xs: Sequence[Any], length: int, reverse: bool, *, body: Any) -> tuple[Any, ...]:
    """Run the region `scan`. What a printed graph calls."""
    count = len(start)

    def step(fixed: Flat, carry: Flat, x: Flat) -> tuple[Flat, Flat]:
        results = run_flat(body, [*fixed, *carry, *x])
        return results[:count], results[count:]

    return tuple(scan_flat(step, list(constants), list(start), list(xs), length, reverse))


def while_loop(
    first: Sequence[Any], constants: Sequence[Any], start: Sequence[Any], keep: bool, *, condition: Any, body: Any
) -> tuple[Any, ...]:
    """Run the region `while_loop`. What a printed graph calls."""
    return tuple(
        while_flat(
            lambda fixed, carry: run_flat(condition, [*fixed, *carry])[0],
            lambda fixed, carry: run_flat(body, [*fixed, *carry]),
            list(first), list(constants), list(start), keep,
        )
    )  # fmt: skip


def call_of(node: Node) -> Call:
    """The call that a node stands for."""
    if node.op.name == "cond":
        return Cond(node.graphs)
    sizes: Any = tuple(len(group) for group in node.args[:3])
    if node.op.name == "scan":
        return Scan(node.graphs, sizes, node.args[3], node.args[4])
    return While(node.graphs, sizes, node.args[3])


def types(node: Node) -> list[Type]:
    """The types that the results of a region have."""
    return call_of(node).types([], any(v.type.requires_grad for v in node.inputs()))


for _name, _function in {"cond": cond, "scan": scan, "while_loop": while_loop}.items():
    register(Region(_name, lambda node, args, run=_function: run(*args, **node.graphs)), types)
