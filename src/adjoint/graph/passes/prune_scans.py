"""scan(…) -> scan(…) without stacked results that nobody reads and inputs that nobody uses.

Reverse mode keeps every carry of a loop; where the backward body turns out not to read them, they
need not be kept.
"""

from __future__ import annotations

from adjoint.graph.ir import Graph, Node, Region, Value
from adjoint.graph.passes.dead_code import eliminate_dead


def prune_scans(graph: Graph) -> Graph:
    """Take unused results and inputs out of scans, last scan first, so that one frees the next."""
    for node in graph.reversed_nodes():
        if isinstance(node.op, Region) and node.op.name == "scan":
            _prune(graph, node)
    return eliminate_dead(graph)


def _prune(graph: Graph, node: Node) -> None:
    constants, start, xs, length, backwards = node.args
    count = len(start)
    outputs = {o for o in graph.outputs if isinstance(o, Value)}
    wanted = [i for i, v in enumerate(node.outputs) if i < count or v.uses or v in outputs]
    body = node.graphs["body"].clone()
    body.outputs = [body.outputs[i] for i in wanted]
    body = prune_scans(body)
    returned = {o for o in body.outputs if isinstance(o, Value)}
    first, last = len(constants), len(constants) + count
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
    with graph.inserting_before(node):
        types = [node.outputs[i].type for i in wanted]
        made = graph.add(node.op, args, types, graphs={"body": body})
    made.block, made.place = node.block, node.place
    for i, value in zip(wanted, made.outputs, strict=True):
        graph.replace_uses(node.outputs[i], value)
    graph.remove(node)
