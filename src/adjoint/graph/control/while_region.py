"""`while_loop` in a graph: a region with the graphs of the condition and of one step.

Reverse mode is a scan over the carries that the loop stacked as it ran.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from adjoint.core.errors import DtypeError
from adjoint.core.records import record
from adjoint.graph.control.cond_region import any_truth, cond_flat, known_truth
from adjoint.graph.control.regions import register
from adjoint.graph.control.replays import with_states
from adjoint.graph.control.scan_region import (
    LoopCall,
    LoopHistory,
    PushedLoop,
    lifted_stacks,
    pull_loop,
    settle,
    sizes_of,
    stage_step,
)
from adjoint.graph.control.staging import (
    UNKNOWN,
    Flat,
    Paths,
    batched,
    batched_results,
    bind,
    check_alike,
    cut,
    fronts_of,
    is_tracing,
    mapped_over,
    needs_gradient,
    put,
    shielded,
    type_of_output,
    where_each,
    zeros,
)
from adjoint.graph.facts import generators
from adjoint.graph.interpret import run_flat
from adjoint.graph.ir import Graph, Node, Region, Type
from adjoint.ops import operator as operators
from adjoint.transforms.batch import BatchLevel


@record
class While(LoopCall):
    """The operands are constants of the condition, constants of the body, and the initial carry."""

    graphs: dict[
        str, Graph
    ]  # "condition": constants, carry -> bool; "body": constants, carry -> carry, y
    sizes: tuple[int, int, int]
    keep: bool  # whether to stack the carry and the y of each step
    generators: tuple[Any, ...] = ()  # generators whose states are stacked as y
    name = "while_loop"

    def args(self, operands: Flat) -> tuple[Any, ...]:
        return (*map(tuple, self.groups(operands)), self.keep)

    def types(self, operands: Flat, needs: bool) -> list[Type]:
        types = [type_of_output(o, needs) for o in self.graphs["body"].outputs]
        carry, b = types[: self.sizes[2]], self.sizes[2]
        turns = [*carry, *types[b:]] if self.keep else []
        return carry + [Type((UNKNOWN, *t.shape), t.dtype, t.requires_grad) for t in turns]

    def condition(self, constants: Flat, carry: Flat) -> Any:
        return run_flat(self.graphs["condition"], [*constants, *carry])[0]

    def body(self, constants: Flat, carry: Flat) -> Flat:
        return run_flat(self.graphs["body"], [*constants, *carry])

    def push(self, primals: Flat, tangents: Flat) -> tuple[Flat, Flat]:
        first, constants, start = self.groups(primals)
        _, constants_t, start_t = self.groups(tangents)
        b, made = len(start), self.graphs["body"].outputs[len(start) :]

        def step(values: Flat, carry: Flat, _: Flat) -> tuple[Flat, Flat]:
            results = self.body(values, carry)
            return results[:b], results[b:]

        loop = PushedLoop(step, (constants, start, []), (constants_t, start_t, []), [])

        def pushed(values: Flat, carry: Flat) -> Flat:
            new, y = loop.step(values, carry, [])
            return [*new, *y]

        results = while_flat(
            lambda values, carry: self.condition(values, carry[:b]),
            pushed,
            first,
            loop.constants,
            loop.start,
            self.keep,
        )
        q = loop.carried
        found = put([None] * b, q, results[b : b + len(q)])
        if not self.keep:
            return results[:b], found
        carry, _, stacks, stacks_t, y = cut(results, b, len(q), b, len(q), len(made))
        found_t = [*found, *put([None] * b, q, stacks_t), *[None] * len(made)]
        return [*carry, *stacks, *y], found_t

    @property
    def count(self) -> int:
        return self.sizes[2] + self.keep * len(self.graphs["body"].outputs)

    def keeping(self) -> While:
        drawn = tuple(self.draws())
        graphs = {**self.graphs, "body": with_states(self.graphs["body"], drawn)}
        return replace(self, graphs=graphs, keep=True, generators=drawn)

    def kept(self, results: Flat) -> Flat:
        b = self.sizes[2]
        return [*results[b : 2 * b], *results[len(results) - len(self.generators) :]]

    def pull(self, primals: Flat, kept: Flat, grads: Flat, wanted: list[bool]) -> Flat:
        """Go back over the steps; under vmap, each sample over the steps that it has taken."""
        first, constants, start = self.groups(primals)
        a, b = len(first), len(constants)

        def step(values: Flat, carry: Flat, x: Flat) -> tuple[Flat, Flat]:
            new = cond_flat(
                self.condition(values[:a], carry),
                lambda v: self.body(v[:b], v[b:])[: len(start)],
                lambda v: v[b:],
                [*values[a:], *carry],
            )
            return new, carry

        wanted = [*[False] * a, *wanted[a:]]
        turns = LoopHistory(kept, self.generators, UNKNOWN, True)
        return pull_loop(step, ([*first, *constants], start, []), turns, grads, wanted)

    def batch(self, level: BatchLevel, operands: Flat) -> Flat:
        fronts, has = fronts_of(level, operands)
        a, b, _ = self.sizes
        first, second, before = has[:a], has[a : a + b], has[a + b :]

        def flags_of(carries: list[bool]) -> list[bool]:
            flags = batched_results(self.graphs["body"], level, [*second, *carries])
            if batched_results(self.graphs["condition"], level, [*first, *carries])[0]:
                flags[: len(carries)] = [True] * len(carries)
            return flags

        carries, flags = settle(flags_of, before)
        made = flags[len(carries) :]
        masked = batched_results(self.graphs["condition"], level, [*first, *carries])[0]
        groups, out = self.groups(fronts), [*carries, *made]

        def holds(values: Flat, carry: Flat) -> Any:
            return mapped_over(
                self.graphs["condition"], level, [*first, *carries], [*values, *carry], [masked]
            )[0]

        def body(values: Flat, carry: Flat) -> Flat:
            if not masked:
                return mapped_over(
                    self.graphs["body"], level, [*second, *carries], [*values, *carry], out
                )
            predicate = holds(values[:a], carry)
            inputs = [_per_sample(shielded_along, predicate, c) for c in carry]
            new = mapped_over(
                self.graphs["body"], level, [*second, *carries], [*values[a:], *inputs], out
            )
            chosen = [_per_sample(choose_along, predicate, n, c) for n, c in zip(new, carry)]
            return [*chosen, *new[len(carry) :]]

        with level.outside():
            start = batched(level, groups[2], before, carries)
            values = [*groups[0], *groups[1]] if masked else groups[1]
            test = (lambda v, c: holds(v, c).any()) if masked else holds
            results = while_flat(test, body, groups[0], values, start, self.keep)
        return lifted_stacks(level, results, carries, out if self.keep else [])


def _per_sample(function: Callable[..., Any], predicate: Any, *values: Any) -> Any:
    """Apply `function` to values with a leading batch, for which the predicate has entries."""
    return function(predicate.reshape((-1, *[1] * (values[0].ndim - 1))), *values)


def choose_along(predicate: Any, chosen: Any, other: Any) -> Any:
    return where_each(predicate, [chosen], [other])[0]


def shielded_along(predicate: Any, value: Any) -> Any:
    return shielded(predicate, [value])[0]


def while_flat(
    condition: Callable[[Flat, Flat], Any],
    body: Callable[[Flat, Flat], Flat],
    first: Flat,
    constants: Flat,
    start: Flat,
    keep: bool = False,
    paths: Paths = None,
) -> Flat:
    """`while_loop` of flat functions: the last carry; with `keep` also the stacked carries, and the
    stacked further results of the body.
    """
    if not is_tracing():
        return _while_eagerly(condition, body, first, constants, start, keep, paths)
    needs = needs_gradient([*first, *constants, *start])
    test, tested = stage_step(lambda v, c, _: ([condition(v, c)], []), first, start, [], needs)
    if test.outputs[0].shape != () or test.outputs[0].dtype.name != "bool":
        raise DtypeError(
            f"while_loop: the condition must return one bool, got {test.outputs[0].type}"
        )
    if generators(test):
        return _asked_ahead(condition, body, first, constants, start, keep, paths)
    graph, captured = stage_step(lambda v, c, _: (body(v, c), []), constants, start, [], needs)
    check_alike("while_loop", start, graph.outputs[: len(start)], paths)
    sizes = len(first) + len(tested), len(constants) + len(captured), len(start)
    call = While({"condition": test, "body": graph}, sizes, keep)
    return bind(call, [*first, *tested, *constants, *captured, *start])


def _asked_ahead(
    condition: Any, body: Any, first: Flat, constants: Flat, start: Flat, keep: bool, paths: Paths
) -> Flat:
    """Run a loop whose condition draws random numbers.

    Each step evaluates the next step's condition, so that each condition draws once, in its turn,
    and a sample of a vmap that is done stays done.
    """
    a, b = len(first), len(start)

    def step(values: Flat, carry: Flat) -> Flat:
        results = body(values[a:], carry[:b])
        return [*results[:b], condition(values[:a], results[:b]), *results[b:]]

    begin = [*start, condition(first, start)]
    results = while_flat(lambda _, c: c[b], step, [], [*first, *constants], begin, keep, paths)
    turns = results[b + 1 :]
    return [*results[:b], *turns[:b], *turns[b + 1 :]]


def _while_eagerly(
    condition: Any, body: Any, first: Flat, constants: Flat, start: Flat, keep: bool, paths: Paths
) -> Flat:
    carry, kept, alive = list(start), [], None
    while True:
        predicate = condition(first, carry)
        if alive is not None:  # a sample that is done stays done, even if its condition draws
            predicate = predicate.logical_and(alive)
        known = known_truth(predicate)
        if known is False or (known is None and not any_truth(predicate)):
            break
        alive = None if known else predicate
        results = body(constants, carry if known else shielded(predicate, carry))
        new, y = results[: len(start)], results[len(start) :]
        check_alike("while_loop", start, new, paths)
        kept.append([*carry, *y])
        carry = new if known else where_each(predicate, new, carry)
    if not keep:
        return carry
    rows = kept or [_types_of_turn(body, constants, start)]
    stacks = [operators.packet("stack")(list(column)) for column in zip(*rows, strict=True)]
    return [*carry, *(stack.narrow(0, 0, len(kept)) for stack in stacks)]


def _types_of_turn(body: Any, constants: Flat, start: Flat) -> Flat:
    """Zeros with the types that an iteration keeps."""
    graph, _ = stage_step(lambda v, c, _: (body(v, c), []), constants, start, [], False)
    return [zeros(t) for t in (*start, *graph.outputs[len(start) :])]


def while_loop(
    first: Sequence[Any],
    constants: Sequence[Any],
    start: Sequence[Any],
    keep: bool,
    *,
    condition: Any,
    body: Any,
) -> tuple[Any, ...]:
    """Run the region `while_loop`, as printed graphs do, with graphs or flat functions."""
    sizes = len(first), len(constants), len(start)
    call = While({"condition": condition, "body": body}, sizes, keep)
    if is_tracing() and isinstance(condition, Graph) and isinstance(body, Graph):
        return tuple(bind(call, [*first, *constants, *start]))
    groups = (list(first), list(constants), list(start))
    return tuple(while_flat(call.condition, call.body, *groups, keep))


def _types(node: Node) -> list[Type]:
    call = While(node.graphs, sizes_of(node), node.args[3])
    return call.types([], any(v.type.requires_grad for v in node.inputs()))


register(Region("while_loop", lambda node, args: while_loop(*args, **node.graphs)), _types)
