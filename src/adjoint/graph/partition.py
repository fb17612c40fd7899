"""Cut a joint graph in two: which values the forward half keeps for the backward half.

`Cut.kept_values` chooses the values, `extract` takes a half out. By default a minimum cut chooses
the fewest bytes, given that the backward half may recompute cheap operators (pointwise ones, views,
constants). Of several such cuts it takes the one that recomputes least. Inputs and outputs are
alive anyway and count almost nothing.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Sequence
from typing import Any

from adjoint.core.errors import ArgumentError
from adjoint.core.source_lines import warn
from adjoint.graph.facts import is_random
from adjoint.graph.ir import Constant, Graph, Node, Region, Signature, Value, substitute
from adjoint.graph.statistics import size

_INFINITE = math.inf


class Cut:
    """A joint graph to be cut: the inputs and outputs of the forward half, the gradients that come
    into the backward half, and its results.
    """

    def __init__(
        self,
        joint: Graph,
        inputs: Sequence[Value],
        outputs: Sequence[Any],
        grads: Sequence[Value],
        results: Sequence[Value],
    ) -> None:
        self.joint, self.inputs, self.outputs = joint, inputs, outputs
        self.required = _required(_needed(joint, set(), results), set(grads), results)

    def kept_values(self, keepable: set[Value], recompute: Any) -> list[Value]:
        """The values that the backward half takes from the forward half, in order."""
        if recompute == "nothing":
            return self.floor(keepable)
        if recompute == "everything":
            return self.floor({v for v in keepable if _is_fixed(v.node)})
        if recompute == "auto":
            kept = _minimum_cut(self.inputs, self.outputs, self.required, keepable)
            return _in_order(self.joint, kept)
        if isinstance(recompute, int) and not isinstance(recompute, bool):
            return self._within(recompute, keepable)
        raise ArgumentError(
            "recompute must be 'auto', 'nothing', 'everything' or a number of bytes, got "
            f"{recompute!r}"
        )

    def floor(self, allowed: set[Value]) -> list[Value]:
        """The inputs and values of `allowed` that a backward recomputing the rest needs."""
        return _in_order(self.joint, _down_to(self.required, allowed | set(self.inputs)))

    def _within(self, limit: int, keepable: set[Value]) -> list[Value]:
        """The values that recompute least and keep at most `limit` bytes of temporaries."""
        smallest: list[Value] = []
        for mode in ("nothing", "auto", "everything"):
            kept = self.kept_values(keepable, mode)
            temporaries = sum(size(v.type) for v in kept if v not in self.inputs)
            if temporaries <= limit:
                return kept
            smallest = kept
        warn(
            f"differentiate: recompute={limit} bytes cannot be kept; {temporaries} bytes are needed"
        )
        return smallest


def _required(
    nodes: Sequence[Node], dependent: set[Value], results: Sequence[Value]
) -> list[Value]:
    """The values of the forward side that the backward side uses directly.

    `dependent` contains the incoming gradients, and grows to all values of the backward side.
    """
    found: dict[Value, None] = {}
    for node in nodes:
        if not dependent.isdisjoint(node.inputs()):
            dependent.update(node.outputs)
            found.update((v, None) for v in node.inputs() if v not in dependent)
    found.update((v, None) for v in results if v not in dependent)
    return list(found)


def _is_constant(node: Node | None) -> bool:
    return node is not None and isinstance(node.op, Constant)


def _is_fixed(node: Node | None) -> bool:
    """Whether a node must not run twice, since it draws random numbers."""
    return node is not None and not isinstance(node.op, Constant) and is_random(node)


def _is_cheap(node: Node) -> bool:
    """Whether a node may be recomputed."""
    if isinstance(node.op, Constant):
        return True
    if isinstance(node.op, Region):
        return False
    row = node.op.row
    if row.random:
        return False
    return (
        row.archetype.promotes
        or row.schema.is_view
        or row.archetype.name == "creation"
        or row.family == "shape"
    )


def _down_to(required: Iterable[Value], floor: set[Value]) -> set[Value]:
    """The values at which a walk back from `required` ends: those in `floor`, inputs, fixed nodes.
    Constants are copied, not kept.
    """
    kept: set[Value] = set()
    seen: set[Value] = set()
    stack = list(required)
    while stack:
        value = stack.pop()
        if value in seen:
            continue
        seen.add(value)
        if _is_constant(value.node):
            continue
        if value in floor or value.node is None or _is_fixed(value.node):
            kept.add(value)
        else:
            stack.extend(value.node.inputs())
    return kept


def _in_order(joint: Graph, kept: set[Value]) -> list[Value]:
    order = list(joint.inputs) + [v for node in joint.nodes for v in node.outputs]
    return [v for v in order if v in kept]


class _Flow:
    """Maximum flow by shortest augmenting paths in layers (Dinic)."""

    def __init__(self) -> None:
        self.edges: list[list[int]] = []  # of each vertex: indices into the arrays below
        self.head: list[int] = []
        self.room: list[float] = []

    def vertex(self) -> int:
        self.edges.append([])
        return len(self.edges) - 1

    def edge(self, a: int, b: int, capacity: float) -> None:
        self.edges[a].append(len(self.head))
        self.head.append(b)
        self.room.append(capacity)
        self.edges[b].append(len(self.head))
        self.head.append(a)
        self.room.append(0.0)

    def layers(self, source: int) -> list[int]:
        depth = [-1] * len(self.edges)
        depth[source] = 0
        queue = deque([source])
        while queue:
            a = queue.popleft()
            for e in self.edges[a]:
                b = self.head[e]
                if self.room[e] > 0 and depth[b] < 0:
                    depth[b] = depth[a] + 1
                    queue.append(b)
        return depth

    def leads_to(self, sink: int) -> list[bool]:
        """For each vertex, whether a path with room leads from it to the sink."""
        leads = [False] * len(self.edges)
        leads[sink] = True
        stack = [sink]
        while stack:
            for e in self.edges[stack.pop()]:
                a = self.head[e]
                if self.room[e ^ 1] > 0 and not leads[a]:
                    leads[a] = True
                    stack.append(a)
        return leads

    def saturate(self, source: int, sink: int) -> None:
        while (depth := self.layers(source))[sink] >= 0:
            position = [0] * len(self.edges)
            while self._augment(source, sink, depth, position):
                pass

    def _augment(self, source: int, sink: int, depth: list[int], position: list[int]) -> bool:
        """Push flow along one path through the layers; iterative, as graphs are deep."""
        path: list[int] = []
        a = source
        while a != sink:
            edges = self.edges[a]
            while position[a] < len(edges):
                e = edges[position[a]]
                if self.room[e] > 0 and depth[self.head[e]] == depth[a] + 1:
                    break
                position[a] += 1
            if position[a] == len(edges):
                if not path:
                    return False
                a = self.head[path.pop() ^ 1]
                position[a] += 1
                continue
            path.append(edges[position[a]])
            a = self.head[path[-1]]
        pushed = min(self.room[e] for e in path)
        for e in path:
            self.room[e] -= pushed
            self.room[e ^ 1] += pushed
        return True


def _minimum_cut(
    inputs: Sequence[Value], outputs: Sequence[Any], required: list[Value], keepable: set[Value]
) -> set[Value]:
    """The values with the fewest bytes from which all required ones can be computed cheaply.

    Each value is an edge whose capacity is its size; a node that may not run twice ties its outputs
    to the source. Values inside a formula are not cut: they stay in the backward half, where they
    can be differentiated. Of all minimum cuts it is the one nearest the sink: tanh(matmul) keeps
    the result of tanh and recomputes nothing.
    """
    alive = set(inputs) | {o for o in outputs if isinstance(o, Value)}
    flow = _Flow()
    source, sink = flow.vertex(), flow.vertex()
    entry: dict[Value, int] = {}

    def enter(value: Value) -> int:
        found = entry.get(value)
        if found is None:
            found = entry[value] = flow.vertex()
            cost = 1.0 if value in alive else max(float(size(value.type)), 1.0) + 1.0
            can_cut = value in keepable or value in alive
            flow.edge(found, flow.vertex(), cost if can_cut else _INFINITE)
        return found

    stack, seen = list(required), set(required)
    for value in required:
        if not _is_constant(value.node):
            flow.edge(enter(value) + 1, sink, _INFINITE)
    while stack:
        value = stack.pop()
        node = value.node
        if _is_constant(node):
            continue
        here = enter(value)
        if node is None or _is_fixed(node) or (value in keepable and not _is_cheap(node)):
            flow.edge(source, here, _INFINITE)
            continue
        for before in node.inputs():
            if not _is_constant(before.node):
                flow.edge(enter(before) + 1, here, _INFINITE)
                if before not in seen:
                    seen.add(before)
                    stack.append(before)
    flow.saturate(source, sink)
    leads = flow.leads_to(sink)
    return {v for v, here in entry.items() if leads[here + 1] and not leads[here]}


def extract(
    joint: Graph,
    inputs: Sequence[Value],
    outputs: Sequence[Any],
    signature: Signature,
    also: Sequence[Node] = (),
) -> Graph:
    """The graph that computes `outputs` from `inputs`, both values of the joint graph.

    It has the nodes `also`, too, whether their results are needed or not.
    """
    made = Graph(signature)
    mapping: dict[Value, Any] = {v: made.add_input(v.type, v.name) for v in inputs}
    for node in _needed(joint, set(inputs), outputs, also):
        graphs = {k: g.clone() for k, g in node.graphs.items()} if node.graphs else None
        args = substitute(node.args, mapping.__getitem__)
        copied = made.add(node.op, args, [v.type for v in node.outputs], graphs=graphs)
        copied.block, copied.place = node.block, node.place
        for old, new in zip(node.outputs, copied.outputs, strict=True):
            mapping.setdefault(old, new)
    made.outputs = [mapping[o] if isinstance(o, Value) else o for o in outputs]
    return made


def _needed(
    joint: Graph, given: set[Value], outputs: Sequence[Any], also: Sequence[Node] = ()
) -> list[Node]:
    """The nodes on the way from `given` to `outputs` and to `also`, in order."""
    wanted = set(also)
    stack = [o for o in outputs if isinstance(o, Value)]
    stack.extend(value for node in also for value in node.inputs())
    seen = set(given)
    while stack:
        value = stack.pop()
        if value in seen or value.node is None:
            continue
        seen.add(value)
        if value.node not in wanted:
            wanted.add(value.node)
            stack.extend(value.node.inputs())
    return [n for n in joint.nodes if n in wanted]
