"""`while_loop` in a graph: a node with the graphs of the condition and of one step.

Reverse mode is a scan over the carries that the loop stacked as it ran.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from adjoint.core.errors import DtypeError
from adjoint.core.records import record
from adjoint.graph.branches import any_truth, cond_flat, known_truth
from adjoint.graph.interpret import run_flat
from adjoint.graph.ir import Graph, Node, Region, Type
from adjoint.graph.loops import (
    Loop,
    Pushed,
    lifted_stacks,
    pull_loop,
    settle,
    sizes_of,
    stage_step,
)
from adjoint.graph.regions import register
from adjoint.graph.staging import (
    UNKNOWN,
    Flat,
    Paths,
    batched_results,
    bind,
    check_alike,
    choose,
    cut,
    fronts_of,
    is_tracing,
    mapped_over,
    needs_gradient,
    put,
    shielded,
    spread,
    type_of_output,
    zeros,
)
from adjoint.ops import operator as operators
from adjoint.transforms.batch import BatchLevel


@record
class While(Loop):
    """operands: constants of the condition, constants of the body, the carry at the start."""

    graphs: dict[
        str, Graph
    ]  # "condition": constants, carry -> bool; "body": constants, carry -> carry
    sizes: tuple[int, int, int]
    keep: bool  # whether to stack the carry of each step
    name = "while_loop"

    def args(self, operands: Flat) -> tuple[Any, ...]:
        return (*map(tuple, self.groups(operands)), self.keep)

    def types(self, operands: Flat, needs: bool) -> list[Type]:
        types = [type_of_output(o, needs) for o in self.graphs["body"].outputs]
        return (
            types + [Type((UNKNOWN, *t.shape), t.dtype, t.requires_grad) for t in types]
            if self.keep
            else types
        )

    def condition(self, constants: Flat, carry: Flat) -> Any:
        return run_flat(self.graphs["condition"], [*constants, *carry])[0]

    def body(self, constants: Flat, carry: Flat) -> Flat:
        return run_flat(self.graphs["body"], [*constants, *carry])

    def push(self, primals: Flat, tangents: Flat) -> tuple[Flat, Flat]:
        first, constants, start = self.groups(primals)
        _, constants_t, start_t = self.groups(tangents)
        b = len(start)
        loop = Pushed(
            lambda values, carry, _: (self.body(values, carry), []),
            (constants, start, []),
            (constants_t, start_t, []),
            [],
        )
        results = while_flat(
            lambda values, carry: self.condition(values, carry[:b]),
            lambda values, carry: loop.step(values, carry, [])[0],
            first,
            loop.constants,
            loop.start,
            self.keep,
        )
        q = loop.carried
        carry, carry_t, stacks, stacks_t = cut(
            results, b, len(q), b if self.keep else 0, len(q) if self.keep else 0
        )
        found = put([None] * b, q, carry_t)
        return [*carry, *stacks], [*found, *put([None] * b, q, stacks_t)] if self.keep else found

    @property
    def count(self) -> int:
        return self.sizes[2] * (1 + self.keep)

    def keeping(self) -> While:
        return replace(self, keep=True)

    def kept(self, results: Flat) -> Flat:
        return results[self.sizes[2] :]

    def pull(self, primals: Flat, kept: Flat, grads: Flat, wanted: list[bool]) -> Flat:
        """Go back over the steps, for each sample of a vmap over those that it has taken."""
        first, constants, start = self.groups(primals)
        a, b = len(first), len(constants)

        def step(values: Flat, carry: Flat, x: Flat) -> tuple[Flat, Flat]:
            new = cond_flat(
                self.condition(values[:a], carry),
                lambda v: self.body(v[:b], v[b:]),
                lambda v: v[b:],
                [*values[a:], *carry],
            )
            return new, carry

        wanted = [*[False] * a, *wanted[a:]]
        return pull_loop(
            step, ([*first, *constants], start, []), kept, grads, wanted, UNKNOWN, True
        )

    def batch(self, level: BatchLevel, operands: Flat) -> Flat:
        fronts, has = fronts_of(level, operands)
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
            return mapped_over(
                self.graphs["condition"], level, [*first, *carries], [*values, *carry], [masked]
            )[0]

        def body(values: Flat, carry: Flat) -> Flat:
            if not masked:
                return mapped_over(
                    self.graphs["body"], level, [*second, *carries], [*values, *carry], carries
                )
            predicate = holds(values[:a], carry)
            inputs = [_along(shielded_along, predicate, c) for c in carry]
            new = mapped_over(
                self.graphs["body"], level, [*second, *carries], [*values[a:], *inputs], carries
            )
            return [_along(choose_along, predicate, n, c) for n, c in zip(new, carry, strict=True)]

        with level.outside():
            start = spread(level, groups[2], before, carries)
            values = [*groups[0], *groups[1]] if masked else groups[1]
            test = (lambda v, c: holds(v, c).any()) if masked else holds
            results = while_flat(test, body, groups[0], values, start, self.keep)
        return lifted_stacks(level, results, carries, carries if self.keep else [])


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
    paths: Paths = None,
) -> Flat:
    """`while_loop` of flat functions: the last carry, then, with `keep`, the stacked carries."""
    if not is_tracing():
        return _while_eagerly(condition, body, first, constants, start, keep, paths)
    needs = needs_gradient([*first, *constants, *start])
    test, tested = stage_step(lambda v, c, _: ([condition(v, c)], []), first, start, [], needs)
    if test.outputs[0].shape != () or test.outputs[0].dtype.name != "bool":
        raise DtypeError(
            f"while_loop: the condition must return one bool, got {test.outputs[0].type}"
        )
    graph, captured = stage_step(lambda v, c, _: (body(v, c), []), constants, start, [], needs)
    check_alike("while_loop", start, graph.outputs, paths)
    sizes = len(first) + len(tested), len(constants) + len(captured), len(start)
    call = While({"condition": test, "body": graph}, sizes, keep)
    return bind(call, [*first, *tested, *constants, *captured, *start])


def _while_eagerly(
    condition: Any, body: Any, first: Flat, constants: Flat, start: Flat, keep: bool, paths: Paths
) -> Flat:
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
        check_alike(
            "while_loop",
            start,
            new,
            paths,
        )
        carry = new if known else choose(predicate, new, carry)
    if not keep:
        return carry
    return [*carry, *(_stacked([c[i] for c in kept], s) for i, s in enumerate(start))]


def _stacked(rows: Flat, like: Any) -> Any:
    return operators.packet("stack")(rows) if rows else zeros(Type((0, *like.shape), like.dtype))


def while_loop(
    first: Sequence[Any],
    constants: Sequence[Any],
    start: Sequence[Any],
    keep: bool,
    *,
    condition: Any,
    body: Any,
) -> tuple[Any, ...]:
    """Run the region `while_loop`: what a printed graph calls, with graphs or flat functions."""
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
