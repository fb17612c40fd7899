"""Random numbers that are drawn again.

Reverse mode runs the steps of a loop, or a branch, again on the way back. There they must draw the
same numbers: another mask of dropout would give the gradient of another function. So a region that
draws keeps the states of its generators at the start of each step (`random_state`), and the way
back runs the step in a `replay`: a region that draws from these states and does not advance the
generators. To the outside a replay is a function of its operands, which may run twice, be kept, or
be differentiated. Numbers that a derivative itself draws, after its `resume`, come from the
generators.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from adjoint.core import dtypes
from adjoint.core.generator import STATE_BYTES, Generator, draw_on
from adjoint.core.records import record
from adjoint.graph.control.regions import REGIONS, register
from adjoint.graph.control.staging import (
    Back,
    Flat,
    FlatFunction,
    RegionCall,
    batched_results,
    bind,
    floats,
    fronts_of,
    is_tracing,
    mapped_over,
    needs_gradient,
    pulled_back,
    pushed_forward,
    put,
    runner,
    stage,
    type_of,
    type_of_output,
)
from adjoint.graph.facts import drawn_by
from adjoint.graph.ir import Graph, GraphError, Node, Region, Type
from adjoint.ops import streams
from adjoint.transforms import drawing
from adjoint.transforms.batch import BatchLevel

STATE = Type((STATE_BYTES,), dtypes.uint8)


class Marker(RegionCall):
    """A region without operands and graphs, whose place among regions that draw matters."""

    results: tuple[Type, ...] = ()

    @property
    def count(self) -> int:
        return len(self.results)

    def args(self, operands: Flat) -> tuple[Any, ...]:
        return tuple(self.draws())

    def types(self, operands: Flat, needs: bool) -> list[Type]:
        return list(self.results)

    def push(self, primals: Flat, tangents: Flat) -> tuple[Flat, Flat]:
        raise AssertionError("a region without operands has no tangents")

    def keeping(self) -> RegionCall:
        return self

    def kept(self, results: Flat) -> Flat:
        return []

    def pull(self, primals: Flat, kept: Flat, grads: Flat, wanted: list[bool]) -> Flat:
        return []

    def batch(self, level: BatchLevel, operands: Flat) -> Flat:
        with level.outside():
            found = bind(self, [])
        return [drawing.batched(level, f) for f in found]


@record
class GeneratorState(Marker):
    """The state of a generator (None: the default one) when the graph reaches this node."""

    generator: Any
    graphs: dict[str, Graph]
    name = "random_state"
    results = (STATE,)

    def draws(self) -> list[Any]:
        return [self.generator]


@record
class Resume(Marker):
    """The end of the part of the innermost replay that draws again."""

    graphs: dict[str, Graph]
    name = "resume"

    def draws(self) -> list[Any]:
        return []


def read_state(generator: Any) -> Any:
    """The state of a generator; traced as a node, or read now."""
    return (
        bind(GeneratorState(generator, {}), [])[0]
        if is_tracing()
        else drawing.read_state(generator)
    )


def resume() -> None:
    """Let the rest of the innermost replay draw from the generators themselves."""
    if is_tracing():
        bind(Resume({}), [])
    else:
        draw_on()


@record
class Replay(RegionCall):
    """The operands are a state for each generator, then the arguments of the body."""

    graphs: dict[str, Graph]  # "body"
    generators: tuple[Any, ...]
    name = "replay"

    def groups(self, operands: Flat) -> tuple[Flat, Flat]:
        count = len(self.generators)
        return operands[:count], operands[count:]

    def draws(self) -> list[Any]:
        return drawn_beyond(self.graphs["body"], self.generators)

    def args(self, operands: Flat) -> tuple[Any, ...]:
        states, rest = self.groups(operands)
        return tuple(states), tuple(rest), *self.generators

    def types(self, operands: Flat, needs: bool) -> list[Type]:
        return [type_of_output(o, needs) for o in self.graphs["body"].outputs]

    @property
    def count(self) -> int:
        return len(self.graphs["body"].outputs)

    def push(self, primals: Flat, tangents: Flat) -> tuple[Flat, Flat]:
        (states, rest), (_, rest_t) = self.groups(primals), self.groups(tangents)
        body = self.graphs["body"]
        places = [i for i in floats(rest) if rest_t[i] is not None]
        outputs = floats(body.outputs)

        def pushed(v: Flat) -> Flat:
            return pushed_forward(runner(body), v[: len(rest)], places, v[len(rest) :], outputs)

        results = replay(self.generators, states, pushed, [*rest, *(rest_t[i] for i in places)])
        found = put([None] * self.count, outputs, results[self.count :])
        return results[: self.count], found

    def keeping(self) -> Replay:
        return self

    def kept(self, results: Flat) -> Flat:
        return []

    def pull(self, primals: Flat, kept: Flat, grads: Flat, wanted: list[bool]) -> Flat:
        states, rest = self.groups(primals)
        count = len(states)
        places = [i for i in range(len(rest)) if wanted[count + i]]
        present = [i for i, g in enumerate(grads) if g is not None]

        def some(inputs: Flat) -> Flat:
            results = runner(self.graphs["body"])(inputs)
            return [results[i] for i in present]

        def pulled(v: Flat) -> Flat:
            return pulled_back(some, v[: len(rest)], places, v[len(rest) :], resume)

        found = replay(self.generators, states, pulled, [*rest, *(grads[i] for i in present)])
        return put([None] * len(primals), [count + i for i in places], found)

    def batch(self, level: BatchLevel, operands: Flat) -> Flat:
        fronts, has = fronts_of(level, operands)
        (states, rest), (owned, has_rest) = self.groups(fronts), self.groups(has)
        body = self.graphs["body"]
        # Note [States of a batch] in transforms/drawing.py
        inside = level if owned[0] else BatchLevel(level.size, "same")
        out = batched_results(body, inside, has_rest)
        with level.outside():
            if owned[0] and level.size:
                states = [state.select(0, 0) for state in states]
            results = replay(
                self.generators, states, lambda v: mapped_over(body, inside, has_rest, v, out), rest
            )
        return [level.lift(r, 0 if h else None) for r, h in zip(results, out, strict=True)]


def replay(
    generators: Sequence[Any], states: Sequence[Any], function: FlatFunction, operands: Flat
) -> Flat:
    """Run, or trace as a node, a flat function that draws from earlier states of generators."""
    if not is_tracing():
        return drawing.draw_again(generators, states, function, operands)
    needs = needs_gradient(operands)
    types = [type_of(t, needs) for t in operands]
    body, captured = stage(lambda *v: function(list(v)), types)
    if not drawn_beyond(body, generators):
        body = without_resumes(body)
    return bind(Replay({"body": body}, tuple(generators)), [*states, *operands, *captured])


@record
class Redrawing:
    """Runs a function again in a backward pass, drawing from the states that it had before."""

    generators: tuple[Any, ...]
    states: tuple[Any, ...]

    def run(self, function: FlatFunction, operands: Flat) -> Flat:
        """Run a flat function; it draws again until it calls `ended`."""
        if not self.generators:
            return function(operands)
        return replay(self.generators, self.states, function, operands)

    def ended(self) -> None:
        """End the part that draws again."""
        if self.generators:
            resume()


@record
class Rerun(Back):
    """The way back through a call that draws: it runs again, and keeps values only then."""

    graphs: dict[str, Graph]
    call: RegionCall
    before: tuple[Any, ...]

    @property
    def run(self) -> RegionCall:
        return self.call

    def kept(self, results: Flat) -> Flat:
        return []

    def pull(self, primals: Flat, kept: Flat, grads: Flat, wanted: list[bool]) -> Flat:
        places = [i for i, is_wanted in enumerate(wanted) if is_wanted]
        present = [i for i, g in enumerate(grads) if g is not None]
        call: RegionCall = replace(self.call, graphs=self.graphs)  # type: ignore[type-var]
        count = len(primals)

        def some(inputs: Flat) -> Flat:
            results = bind(call, inputs)
            return [results[i] for i in present]

        def pulled(v: Flat) -> Flat:
            return pulled_back(some, v[:count], places, v[count:], resume)

        found = replay(self.before, kept, pulled, [*primals, *(grads[i] for i in present)])
        return put([None] * count, places, found)


# --- graphs that draw ----------------------------------------------


def with_states(graph: Graph, generators: Sequence[Any]) -> Graph:
    """A copy of a body that also returns the states of generators at its start."""
    made = graph.clone()
    with made.inserting_before(made.first):
        for generator in generators:
            node = made.add(REGIONS["random_state"], (generator,), (STATE,))
            made.outputs.append(node.output)
    return made


def without_resumes(graph: Graph) -> Graph:
    """A copy of a graph whose replays draw everything again, including draws of derivatives."""
    made = graph.clone()
    for node in made.nodes:
        if node.op is REGIONS["resume"]:
            made.discard(node)
        elif node.op is not REGIONS["replay"]:  # a replay has its own end
            node.graphs = {name: without_resumes(inner) for name, inner in node.graphs.items()}
    return made


def drawn_beyond(body: Graph, generators: Sequence[Any]) -> list[Any]:
    """The generators from which the body of a replay draws without drawing again."""
    found: dict[int, Any] = {}
    _follow(body, {id(g) for g in generators}, False, found)
    return list(found.values())


def _follow(graph: Graph, again: set[int], resumed: bool, found: dict[int, Any]) -> bool:
    """Collect the generators from which a graph draws, except for those in `again` before its
    `resume`; return whether the graph has been resumed at its end.
    """
    for node in graph.nodes:
        if node.op is REGIONS["resume"]:
            resumed = True
        elif node.graphs and node.op is not REGIONS["replay"]:
            ends = [_follow(inner, again, resumed, found) for inner in node.graphs.values()]
            resumed = resumed or all(ends)
        else:
            found |= {id(g): g for g in drawn_by(node) if resumed or id(g) not in again}
    return resumed


def region_replay(
    states: Sequence[Any], operands: Sequence[Any], *generators: Any, body: Any
) -> tuple[Any, ...]:
    """Run the region `replay`; printed graphs call this. The body is a graph or a function."""
    if is_tracing() and isinstance(body, Graph):
        return tuple(bind(Replay({"body": body}, generators), [*states, *operands]))
    return tuple(replay(generators, states, runner(body), list(operands)))


def _state_types(node: Node) -> list[Type]:
    _check(node.args, node)
    return [STATE]


def _replay_types(node: Node) -> list[Type]:
    _check(node.args[2:], node)
    if len(node.args) < 2 or not isinstance(node.args[0], tuple) or "body" not in node.graphs:
        raise GraphError("replay: needs states, operands, generators, and a graph body=")
    if len(node.args[0]) != len(node.args) - 2:
        raise GraphError(f"replay: {len(node.args[0])} states for {len(node.args) - 2} generators")
    return Replay(node.graphs, node.args[2:]).types(
        [], any(v.type.requires_grad for v in node.inputs())
    )


def _check(values: Sequence[Any], node: Node) -> None:
    if not values or not all(v is None or isinstance(v, Generator) for v in values):
        raise GraphError(f"{node.op.name}: needs a Generator, or None for the default one")


def _run_resume(_: Node, args: Sequence[Any]) -> tuple[Any, ...]:
    resume()
    return ()


register(Region("random_state", lambda _, args: (read_state(*args),), stream="read"), _state_types)
register(Region("resume", _run_resume, stream="resume"), lambda _: [])
register(
    Region(
        "replay",
        lambda node, args: region_replay(*args, **node.graphs),
        draws=lambda node: drawn_beyond(node.graphs["body"], node.args[2:]),
    ),
    _replay_types,
)
streams.read, streams.again, streams.resume = read_state, replay, resume
