"""Statistics of a graph: nodes, arithmetic, bytes moved, peak memory."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator

from adjoint.core.records import record
from adjoint.graph.facts import argument, is_view
from adjoint.graph.ir import Constant, Graph, Node, Type, Value
from adjoint.ops.operator import Operator


@record
class Statistics:
    """The result of `graph.statistics()`."""

    nodes: int  # constants not counted
    constants: int
    flops: int  # per element of a pointwise result or of a sum's input; two per term of a product
    bytes: int  # read and written by each operator; views move nothing
    peak: int  # most bytes alive at once, with inputs and constants
    operators: dict[str, int]  # number of each operator, most frequent first

    def __str__(self) -> str:
        common = ", ".join(f"{name} {count}" for name, count in list(self.operators.items())[:8])
        return (
            f"{self.nodes} nodes, {self.constants} constants, {_amount(self.flops)}flop, "
            f"{_amount(self.bytes)}B moved, "
            f"{_amount(self.peak)}B at most at once; {common}"
        )


def _amount(number: float) -> str:
    for prefix in ("", "k", "M", "G", "T"):
        if number < 1000:
            return f"{number:.3g} {prefix}"
        number /= 1000
    return f"{number:.3g} P"


def statistics(graph: Graph) -> Statistics:
    """Count. Graphs inside nodes are counted once, however often they run.

    >>> import adjoint as ad
    >>> x, y = ad.ShapeDtype((10, 20)), ad.ShapeDtype((20, 30))
    >>> print(ad.trace(lambda x, y: (x @ y).exp(), x, y).statistics())
    2 nodes, 0 constants, 12.3 kflop, 6.8 kB moved, 5.6 kB at most at once; matmul 1, exp 1
    """
    nodes = list(_all(graph))
    calls = [n for n in nodes if not isinstance(n.op, Constant)]
    return Statistics(
        nodes=len(calls),
        constants=len(nodes) - len(calls),
        flops=sum(flops(n) for n in calls),
        bytes=sum(moved(n) for n in calls),
        peak=peak(graph),
        operators=dict(Counter(n.op.name for n in calls).most_common()),
    )


def _all(graph: Graph) -> Iterator[Node]:
    for node in graph.nodes:
        yield node
        for inner in node.graphs.values():
            yield from _all(inner)


def size(type: Type) -> int:
    """The bytes of a value."""
    return math.prod(type.shape) * type.dtype.itemsize


def flops(node: Node) -> int:
    """An estimate of a node's arithmetic."""
    if not isinstance(node.op, Operator) or is_view(node) or not node.outputs:
        return 0
    out = math.prod(node.outputs[0].shape)
    inputs = list(node.inputs())
    row = node.op.row
    if row.product:
        left = argument(node, row.product.partition(" @ ")[0].removesuffix(".conj()"))
        return 2 * out * (left.shape[-1] if left.shape else 1)
    if row.archetype.name == "creation" or row.family == "creation":
        return 0
    if row.archetype.shape == "broadcast":
        return out
    return max([out, *(math.prod(v.shape) for v in inputs)])


def moved(node: Node) -> int:
    """The bytes that one node reads and writes."""
    if is_view(node):
        return 0
    return sum(size(v.type) for v in {*node.inputs(), *node.outputs})


def peak(graph: Graph) -> int:
    """The most bytes alive at once; a view keeps its source alive."""
    owner: dict[Value, Value] = {}
    last: dict[Value, Node | None] = {}
    for node in graph.nodes:
        inputs = list(node.inputs())
        for value in node.outputs:
            owner[value] = owner.get(inputs[0], inputs[0]) if is_view(node) and inputs else value
        for value in (*inputs, *node.outputs):
            last[owner.get(value, value)] = node
    for value in (*graph.inputs, *graph.outputs):
        if isinstance(value, Value):
            last[owner.get(value, value)] = None  # never freed
    ends: dict[Node, list[Value]] = {}
    for value, node in last.items():
        if node is not None:
            ends.setdefault(node, []).append(value)
    alive = most = sum(size(v.type) for v in graph.inputs)
    for node in graph.nodes:
        alive += sum(size(v.type) for v in node.outputs if owner[v] is v)
        most = max(most, alive + max((peak(g) for g in node.graphs.values()), default=0))
        alive -= sum(size(v.type) for v in ends.get(node, ()))
    return most
