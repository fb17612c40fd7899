"""Keep the expensive values of a scan's steps for its backward.

The backward of a scan starts each step from the carry that the forward kept, and runs the step
again. Elementwise sums and products are cheap to recompute; functions and matrix products are not,
so they become further results of the forward as long as they take little memory. So do functions
that only the backward computes, if their operands are values of the forward: next to the value of a
sigmoid its slope costs nothing.
"""

from __future__ import annotations

import math
from typing import Any

from adjoint.compiler.definitions import Definitions, Pointwise, RoutineDefinition
from adjoint.compiler.lower import Choices
from adjoint.expressions.trees import FUNCTION
from adjoint.graph.facts import is_random
from adjoint.graph.ir import Graph, Node, Region, Type, Value, substitute
from adjoint.graph.passes import eliminate_dead
from adjoint.graph.passes.common_subexpressions import call_key
from adjoint.graph.passes.rewriting import inner_graphs
from adjoint.ops.operator import Operator


def keep_steps(graph: Graph, choices: Choices, times: float = 1) -> Graph:
    """Let a scan also return the expensive values of its steps, and let its backward read them.

    `times` scales the memory limit, when the example's sizes are that many times the sizes that
    have to be fast.
    """
    room = choices.target.cache.kept_steps * times
    inner_graphs(graph, lambda inner: keep_steps(inner, choices, times))
    for node in list(graph.nodes):
        if _is_scan(node):
            for forward in dict.fromkeys(x.node for x in node.args[2] if x.node is not None):
                if _is_scan(forward):
                    node = _keep(graph, forward, node, choices, room)
    return graph


def _is_scan(node: Node) -> bool:
    return isinstance(node.op, Region) and node.op.name == "scan"


def _keep(graph: Graph, forward: Node, back: Node, choices: Choices, room: float) -> Node:
    """Let the scan `back` read values of `forward` over the same rows; return the new scan."""
    length = forward.args[3]
    if length != back.args[3]:
        return back
    first, second = (node.graphs["body"].clone() for node in (forward, back))
    known = _sources(forward, first, back, second)
    _run_again(first, known, second, choices.definitions)
    left = room
    chosen: dict[Value, list[Value]] = {}  # forward's value -> backward's
    for node in _wanted(known, second, choices.definitions):
        here, there = node.output, known[node.output]
        size = length * math.prod(there.shape) * there.dtype.itemsize
        if there in chosen or choices.keeps(node, size <= left):
            left -= 0 if there in chosen else size
            chosen.setdefault(there, []).append(here)
    if not chosen:
        return back
    stacked = [Type((length, *v.shape), v.dtype) for v in chosen]
    first.outputs += chosen
    types = [*(v.type for v in forward.outputs), *stacked]
    made = _replaced(graph, forward, forward.args, types, eliminate_dead(first))
    for there, places in chosen.items():
        row = second.add_input(Type(there.shape, there.dtype), there.name)
        for here in places:
            second.replace_uses(here, row)
    constants, start, xs, *rest = back.args
    more = made.outputs[len(forward.outputs) :]
    return _replaced(
        graph, back, (constants, start, (*xs, *more), *rest),
        [v.type for v in back.outputs], eliminate_dead(second),
    )  # fmt: skip


def _replaced(graph: Graph, node: Node, args: Any, types: list[Type], body: Graph) -> Node:
    with graph.inserting_before(node):
        made = graph.add(node.op, args, types, graphs={"body": body})
    made.block, made.place = node.block, node.place
    for old, new in zip(node.outputs, made.outputs, strict=False):
        graph.replace_uses(old, new)
    graph.remove(node)
    return made


def _sources(forward: Node, first: Graph, back: Node, second: Graph) -> dict[Value, Value]:
    """Inputs of the backward's body that the forward's body has too: input -> forward's value."""
    constants, start, xs = forward.args[:3]
    fixed = dict(zip(constants, first.inputs, strict=False))
    rows = dict(zip(xs, first.inputs[len(constants) + len(start) :], strict=True))
    results = zip(forward.outputs, first.outputs, strict=True)
    rows |= {v: made for v, made in list(results)[len(start) :] if isinstance(made, Value)}
    behind = len(back.args[0]) + len(back.args[1])
    pairs = [*zip(back.args[0], second.inputs, strict=False)]
    found = {here: fixed[v] for v, here in pairs if v in fixed}
    pairs = [*zip(back.args[2], second.inputs[behind:], strict=True)]
    return found | {here: rows[v] for v, here in pairs if v in rows}


def _run_again(
    first: Graph, known: dict[Value, Value], second: Graph, definitions: Definitions
) -> None:
    """Add to `known` the values of the backward's body that the forward computes too, or that it
    could compute if they are expensive.
    """
    calls = [n for n in first.nodes if isinstance(n.op, Operator) and not is_random(n)]
    made = {call_key(node.op, node.args): node for node in calls}
    for node in second.nodes:
        if not isinstance(node.op, Operator) or is_random(node) or len(node.outputs) != 1:
            continue
        if all(v in known for v in node.inputs()):
            args = substitute(node.args, known.__getitem__)
            key = call_key(node.op, args)
            twin = made.get(key) if key is not None else None
            if twin is None and key is not None and _is_dear(node, definitions):
                twin = made[key] = first.add(node.op, args, [node.output.type])
            if twin is not None:
                known[node.output] = twin.output


def _wanted(known: dict[Value, Value], second: Graph, definitions: Definitions) -> list[Node]:
    """The expensive known values that the rest of the backward's body needs."""
    asked = [v for v in second.outputs if isinstance(v, Value)]
    for node in second.nodes:
        if any(v not in known for v in node.outputs):
            asked += node.inputs()
    seen: dict[Value, bool] = {}
    while asked:
        value = asked.pop()
        if value in known and value.node is not None and value not in seen:
            seen[value] = _is_dear(value.node, definitions)
            asked += [] if seen[value] else value.node.inputs()
    return [node for node in second.nodes if any(seen.get(v) for v in node.outputs)]


def _is_dear(node: Node, definitions: Definitions) -> bool:
    definition = definitions.of(node)
    if isinstance(definition, Pointwise):
        return definition.cost(1) >= FUNCTION
    return isinstance(definition, RoutineDefinition)
