"""Remove unused stacked results of loops, and unused inputs of scans.

Reverse mode keeps every carry of a loop; carries that the backward turns out not to read need not
be kept.
"""

from __future__ import annotations

from typing import Any

from adjoint.graph.ir import Graph, Node, Region, Value
from adjoint.graph.passes.dead_code import eliminate_dead


def prune_loops(graph: Graph) -> Graph:
    """Remove unused results and inputs of loops, last loop first, as one may free the next."""
    for node in graph.reversed_nodes():
        if isinstance(node.op, Region):
            if node.op.name == "scan":
                _prune_scan(graph, node)
            elif node.op.name == "while_loop":
                _prune_while(graph, node)
    return eliminate_dead(graph)


def _read(graph: Graph, node: Node, carried: int) -> list[int]:
    """The results that are used; the first ones, the carry, always count as used."""
    outputs = {o for o in graph.outputs if isinstance(o, Value)}
    return [i for i, v in enumerate(node.outputs) if i < carried or v.uses or v in outputs]


def _prune_scan(graph: Graph, node: Node) -> None:
    constants, start, xs, length, backwards = node.args
    wanted = _read(graph, node, len(start))
    body = node.graphs["body"].clone()
    body.outputs = [body.outputs[i] for i in wanted]
    body = prune_loops(body)
    returned = {o for o in body.outputs if isinstance(o, Value)}
    first, last = len(constants), len(constants) + len(start)
    used = [i for i, v in enumerate(body.inputs) if first <= i < last or v.uses or v in returned]
    if len(used) == len(body.inputs) and len(wanted) == len(node.outputs):
        return
    body.inputs = [body.inputs[i] for i in used]
    args = (
        tuple(c for i, c in enumerate(constants) if i in used),
        start,
        tuple(x for i, x in enumerate(xs) if last + i in used),
        length,
        backwards,
    )
    _replace(graph, node, args, {"body": body}, wanted)


def _prune_while(graph: Graph, node: Node) -> None:
    """Stop keeping carries if no stack is used: all stacks are kept, or none."""
    *operands, keep = node.args
    wanted = _read(graph, node, len(operands[-1]))
    if keep and len(wanted) == len(operands[-1]):
        _replace(graph, node, (*operands, False), node.graphs, wanted)


def _replace(
    graph: Graph, node: Node, args: tuple[Any, ...], graphs: dict[str, Graph], wanted: list[int]
) -> None:
    with graph.inserting_before(node):
        types = [node.outputs[i].type for i in wanted]
        made = graph.add(node.op, args, types, graphs=graphs)
    made.block, made.place = node.block, node.place
    for i, value in zip(wanted, made.outputs, strict=True):
        graph.replace_uses(node.outputs[i], value)
    graph.remove(node)
