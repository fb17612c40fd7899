"""`scan` in a graph: a region with the graph of one step.

Forward mode carries tangents along. Reverse mode is a scan in the other direction, over the carries
that were kept.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from adjoint.core.records import record
from adjoint.graph.control.regions import register
from adjoint.graph.control.replays import Redrawing, Rerun, with_states
from adjoint.graph.control.staging import (
    UNKNOWN,
    Back,
    Flat,
    Paths,
    RegionCall,
    batched,
    batched_results,
    bind,
    captured_first,
    check_alike,
    cut,
    filled,
    floats,
    fronts_of,
    is_tracing,
    mapped_over,
    needs_gradient,
    pulled_back,
    pushed_forward,
    put,
    stage,
    type_of,
    type_of_output,
    zeros,
)
from adjoint.graph.interpret import run_flat
from adjoint.graph.ir import Graph, Node, Region, Type
from adjoint.ops import operator as operators
from adjoint.ops import stepping
from adjoint.ops.stepping import Step
from adjoint.transforms.batch import BatchLevel

Groups = tuple[Flat, Flat, Flat]  # constants, carry, rows


class LoopCall(RegionCall):
    """A call of a loop, whose operands are in three groups: the base of scan and while_loop."""

    sizes: tuple[int, int, int]

    def groups(self, operands: Flat) -> Groups:
        a, b, _ = self.sizes
        return operands[:a], operands[a : a + b], operands[a + b :]

    def halved(self) -> Back:
        """The way back as a graph of its own. A loop of unknown length that draws is run again."""
        keeping, drawn = self.keeping(), self.draws()
        if drawn and any(UNKNOWN in t.shape for t in keeping.types([], False)):
            return Rerun(self.graphs, self, tuple(drawn))
        return keeping


@record
class Scan(LoopCall):
    """The operands are the constants, the initial carry, and the tensors to scan."""

    graphs: dict[str, Graph]  # "body": constants, carry, x -> carry, y
    sizes: tuple[int, int, int]  # number of constants, carries, xs
    length: int  # or UNKNOWN
    backwards: bool
    generators: tuple[Any, ...] = ()  # generators whose states each step keeps
    name = "scan"

    def args(self, operands: Flat) -> tuple[Any, ...]:
        return (*map(tuple, self.groups(operands)), self.length, self.backwards)

    def types(self, operands: Flat, needs: bool) -> list[Type]:
        types = [type_of_output(o, needs) for o in self.graphs["body"].outputs]
        count = self.sizes[1]
        return types[:count] + [
            Type((self.length, *t.shape), t.dtype, t.requires_grad) for t in types[count:]
        ]

    def step(self, constants: Flat, carry: Flat, x: Flat) -> tuple[Flat, Flat]:
        results = run_flat(self.graphs["body"], [*constants, *carry, *x])
        return results[: self.sizes[1]], results[self.sizes[1] :]

    def push(self, primals: Flat, tangents: Flat) -> tuple[Flat, Flat]:
        b = self.sizes[1]
        made = self.graphs["body"].outputs[b:]
        loop = PushedLoop(self.step, self.groups(primals), self.groups(tangents), floats(made))
        results = scan_flat(
            loop.step, loop.constants, loop.start, loop.xs, self.length, self.backwards
        )
        carry, carry_t, y, y_t = cut(results, b, len(loop.carried), len(made), len(loop.made))
        found = [*put([None] * b, loop.carried, carry_t), *put([None] * len(made), loop.made, y_t)]
        return [*carry, *y], found

    @property
    def count(self) -> int:
        return len(self.graphs["body"].outputs)

    def keeping(self) -> Scan:
        """A scan that also returns each step's inputs: the carry and generators' states."""
        drawn = tuple(self.draws())
        body = self.graphs["body"].clone()
        _, carry, _ = self.groups(body.inputs)
        body.outputs += carry
        body = with_states(body, drawn)
        return replace(self, graphs={"body": body}, generators=drawn)

    def kept(self, results: Flat) -> Flat:
        return results[self.count - self.sizes[1] - len(self.generators) :]

    def pull(self, primals: Flat, kept: Flat, grads: Flat, wanted: list[bool]) -> Flat:
        turns = LoopHistory(kept, self.generators, self.length, not self.backwards)
        return pull_loop(self.step, self.groups(primals), turns, grads, wanted)

    def batch(self, level: BatchLevel, operands: Flat) -> Flat:
        a, b, _ = self.sizes
        fronts, has = fronts_of(level, operands[: a + b])
        last = [level.is_batched(x) for x in operands[a + b :]]
        first, carries, body = has[:a], has[a:], self.graphs["body"]
        carries, flags = settle(
            lambda h: batched_results(body, level, [*first, *h, *last]), carries
        )

        def mapped(constants: Flat, carry: Flat, x: Flat) -> tuple[Flat, Flat]:
            out = [*carries, *flags[b:]]
            results = mapped_over(
                body, level, [*first, *carries, *last], [*constants, *carry, *x], out
            )
            return results[:b], results[b:]

        with level.outside():
            start = batched(level, fronts[a:], has[a:], carries)
            xs = [_second(level, x) for x in operands[a + b :]]
            results = scan_flat(mapped, fronts[:a], start, xs, self.length, self.backwards)
        return lifted_stacks(level, results, carries, flags[b:])


def _second(level: BatchLevel, tensor: Any) -> Any:
    """The tensor below with its batch behind the scanned dimension, as in a loop's stack."""
    if not level.is_batched(tensor) or tensor.companion == 1:
        return level.below(tensor)
    return level.front(tensor).movedim(0, 1)


def lifted_stacks(
    level: BatchLevel, results: Flat, carries: list[bool], stacks: list[bool]
) -> Flat:
    carried = [level.lift(r, 0 if h else None) for r, h in zip(results, carries, strict=False)]
    rest = results[len(carries) :]
    return carried + [level.lift(r, 1 if h else None) for r, h in zip(rest, stacks, strict=True)]


def settle(
    flags_of: Callable[[list[bool]], list[bool]], carries: list[bool]
) -> tuple[list[bool], list[bool]]:
    """Which parts of a carry are batched in the end: those that become batched in any step."""
    while True:
        flags = flags_of(carries)
        grown = [a or b for a, b in zip(carries, flags, strict=False)]
        if grown == carries:
            return carries, flags
        carries = grown


class PushedLoop:
    """A loop that computes tangents, too: its step, and its initial operands.

    Tangents follow the values of their group: those of constants and rows that have a tangent, of
    carries with a differentiable dtype, and of the step's results `made`.
    """

    def __init__(self, step: Step, primals: Groups, tangents: Groups, made: list[int]) -> None:
        self.inner, self.made = step, made
        self.sizes = a, b, _ = len(primals[0]), len(primals[1]), len(primals[2])
        first, last = ([i for i, t in enumerate(g) if t is not None] for g in tangents[::2])
        self.carried = floats(primals[1])
        self.places = [*first, *(a + i for i in self.carried), *(a + b + i for i in last)]
        self.constants = [*primals[0], *(tangents[0][i] for i in first)]
        self.start = [*primals[1], *filled(tangents[1], primals[1], self.carried)]
        self.xs = [*primals[2], *(tangents[2][i] for i in last)]

    def step(self, constants: Flat, carry: Flat, x: Flat) -> tuple[Flat, Flat]:
        """A step with its tangents."""
        a, b, _ = self.sizes

        def both(values: Flat) -> Flat:
            new, y = self.inner(values[:a], values[a : a + b], values[a + b :])
            return [*new, *y]

        primals: Flat = []
        tangents: Flat = []
        for group, size in zip((constants, carry, x), self.sizes, strict=True):
            primals += group[:size]
            tangents += group[size:]
        wanted = [*self.carried, *(b + i for i in self.made)]
        results = pushed_forward(both, primals, self.places, tangents, wanted)
        count = len(results) - len(wanted)
        values, found = results[:count], results[count:]
        turn = len(self.carried)
        return [*values[:b], *found[:turn]], [*values[b:], *found[turn:]]


@record
class LoopHistory:
    """The iterations of a loop that has run, for the loop back over them."""

    kept: Flat  # the inputs of the iterations: carries, then states of generators
    generators: tuple[Any, ...]
    length: int  # or UNKNOWN
    backwards: bool


def pull_loop(
    step: Step, groups: Groups, turns: LoopHistory, grads: Flat, wanted: list[bool]
) -> Flat:
    """Reverse mode of a loop: a loop in the other direction, over the carries that it kept.

    c̄ ← pull of the step at (constants, cᵢ, xᵢ) from (c̄, ȳᵢ). The gradients of the constants add
    up, those of the xᵢ are stacked.
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
        x_in, c_in, states, y_bars = cut(x, len(xs), b, len(turns.generators), len(present))
        turn, inputs = Redrawing(turns.generators, tuple(states)), [*fixed, *c_in, *x_in]

        def run(values: Flat) -> Flat:
            new, y = step(values[:a], values[a : a + b], values[a + b :])
            return [*(new[i] for i in q), *(y[j] for j in present)]

        def pulled(values: Flat) -> Flat:
            count = len(inputs)
            return pulled_back(run, values[:count], places, values[count:], turn.ended)

        found = turn.run(pulled, [*inputs, *bars, *y_bars])
        more, new, x_bars = cut(found, len(p), len(q), len(r))
        return [*new, *(s + m for s, m in zip(sums, more, strict=True))], x_bars

    bars = [zeros(start[i]) if grads[i] is None else grads[i] for i in q]
    scanned = [*xs, *turns.kept, *(grads[b + j] for j in present)]
    begin = [*bars, *(zeros(constants[i]) for i in p)]
    results = scan_flat(back, constants, begin, scanned, turns.length, turns.backwards)
    new, sums, x_bars = cut(results, len(q), len(p), len(r))
    return put(
        [None] * (a + b + len(xs)),
        [*p, *(a + i for i in q), *(a + b + i for i in r)],
        [*sums, *new, *x_bars],
    )


def scan_flat(
    step: Step,
    constants: Flat,
    start: Flat,
    xs: Flat,
    length: int,
    backwards: bool,
    paths: Paths = None,
) -> Flat:
    """`scan` of a flat step, eager or traced; returns the last carry, then the stacked results."""
    if not is_tracing():
        return _scan_eagerly(step, constants, start, xs, length, backwards, paths)
    operands = [*constants, *start, *xs]
    body, captured = stage_step(step, constants, start, xs, needs_gradient(operands))
    check_alike("scan", start, body.outputs[: len(start)], paths)
    sizes = len(constants) + len(captured), len(start), len(xs)
    call = Scan({"body": body}, sizes, length, backwards)
    return bind(call, [*constants, *captured, *start, *xs])


def stage_step(
    step: Step, constants: Flat, start: Flat, xs: Flat, needs: bool
) -> tuple[Graph, Flat]:
    a, b = len(constants), len(start)

    def flat(*values: Any) -> Flat:
        v = list(values)
        new, y = step(v[:a], v[a : a + b], v[a + b :])
        return [*new, *y]

    slices = [Type(t.shape[1:], t.dtype, t.requires_grad) for t in (type_of(x, needs) for x in xs)]
    types = [type_of(t, needs) for t in (*constants, *start)] + slices
    names = ["w"] * a + ["c"] * b + ["x"] * len(xs)
    body, captured = stage(flat, types, names)
    return captured_first(body, a, b, len(xs)), captured


def _scan_eagerly(
    step: Step, constants: Flat, start: Flat, xs: Flat, length: int, backwards: bool, paths: Paths
) -> Flat:
    count = int(xs[0].shape[0]) if length == UNKNOWN else length
    if not count:
        body, _ = stage_step(step, constants, start, xs, False)
        check_alike("scan", start, body.outputs[: len(start)], paths)
        return [*start, *(zeros(Type((0, *o.shape), o.dtype)) for o in body.outputs[len(start) :])]

    return stepping.stepwise(checked(step, start, paths), constants, start, xs, count, backwards)


def checked(step: Step, start: Flat, paths: Paths) -> Step:
    """The step, raising if it changes the type of the carry."""

    def run(constants: Flat, carry: Flat, x: Flat) -> tuple[Flat, Flat]:
        new, y = step(constants, carry, x)
        check_alike("scan", start, new, paths)
        return new, y

    return run


def unrolled(
    step: Step, start: Flat, xs: Flat, length: int, backwards: bool, turn: int, paths: Paths
) -> Flat:
    """`scan_flat` with `turn` steps in each iteration of its node; remaining steps are unrolled."""
    if turn == 1 or not is_tracing():
        return scan_flat(step, [], start, xs, length, backwards, paths)
    one, count = checked(step, start, paths), len(start)
    rest = length % turn if length > turn else length
    whole = length - rest
    carry, stacks = list(start), []
    if whole:

        def several(_: Flat, carry: Flat, rows: Flat) -> tuple[Flat, Flat]:
            results = stepping.stepwise(one, [], carry, rows, turn, backwards)
            return results[:count], results[count:]

        rows = [x.narrow(0, rest if backwards else 0, whole) for x in xs]
        cut_rows = [r.reshape((whole // turn, turn, *r.shape[1:])) for r in rows]
        results = scan_flat(several, [], carry, cut_rows, whole // turn, backwards, paths)
        carry = results[:count]
        stacks.append([y.reshape((whole, *y.shape[2:])) for y in results[count:]])
    if rest:
        rows = [x.narrow(0, 0 if backwards else whole, rest) for x in xs]
        results = stepping.stepwise(one, [], carry, rows, rest, backwards)
        carry = results[:count]
        stacks.append(results[count:])
    if backwards:
        stacks.reverse()
    joined = [
        ys[0] if len(ys) == 1 else operators.packet("cat")(list(ys), 0) for ys in zip(*stacks)
    ]
    return [*carry, *joined]


def scan(
    constants: Sequence[Any],
    start: Sequence[Any],
    xs: Sequence[Any],
    length: int,
    reverse: bool,
    *,
    body: Any,
) -> tuple[Any, ...]:
    """Run the region `scan`; printed graphs call this. The body is a graph or a flat function."""
    call = Scan({"body": body}, (len(constants), len(start), len(xs)), length, reverse)
    if is_tracing() and isinstance(body, Graph):
        return tuple(bind(call, [*constants, *start, *xs]))
    return tuple(scan_flat(call.step, list(constants), list(start), list(xs), length, reverse))


def _types(node: Node) -> list[Type]:
    call = Scan(node.graphs, sizes_of(node), node.args[3], node.args[4])
    return call.types([], any(v.type.requires_grad for v in node.inputs()))


def sizes_of(node: Node) -> tuple[int, int, int]:
    """The number of operands in each of a loop's three groups."""
    first, second, third = node.args[:3]
    return len(first), len(second), len(third)


stepping.scan = scan_flat
register(Region("scan", lambda node, args: scan(*args, **node.graphs)), _types)
