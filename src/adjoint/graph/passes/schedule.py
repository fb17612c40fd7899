"""Reorder nodes for less memory at a time: values are made late and used soon.

A greedy list schedule: of the nodes whose inputs are available, the one that leaves the least
memory in use goes next. The given order is kept unless the new one is better. Random operators keep
their order among one another, which decides the numbers they draw.
"""

from __future__ import annotations

import heapq

from adjoint.graph import facts
from adjoint.graph.ir import Graph, Node, Value
from adjoint.graph.statistics import peak, size


def schedule_for_memory(graph: Graph) -> Graph:
    """Reorder the nodes of a graph for a lower memory peak, in time n log n."""
    before, order = peak(graph), list(graph.nodes)
    graph.reorder(_Schedule(graph).run())
    if peak(graph) > before:
        graph.reorder(order)
    return graph


class _Schedule:
    def __init__(self, graph: Graph) -> None:
        self.kept = {o for o in graph.outputs if isinstance(o, Value)} | set(graph.inputs)
        self.order = {node: i for i, node in enumerate(graph.nodes)}
        self.waiting: dict[Node, set[Node]] = {}
        self.after: dict[Node, list[Node]] = {}
        self.readers = {v: len(v.uses) for node in graph.nodes for v in node.outputs}
        previous: Node | None = None
        for node in graph.nodes:
            needed = {v.node for v in node.inputs() if v.node is not None}
            if facts.is_random(node):
                needed |= {previous} if previous is not None else set()
                previous = node
            self.waiting[node] = needed
            for earlier in needed:
                self.after.setdefault(earlier, []).append(node)

    def run(self) -> list[Node]:
        ready = [self._entry(n) for n, needed in self.waiting.items() if not needed]
        heapq.heapify(ready)
        done: list[Node] = []
        while ready:
            cost, position, node = heapq.heappop(ready)
            now = self._cost(node)
            if now < cost:  # another reader of its inputs ran in between
                heapq.heappush(ready, (now, position, node))
                continue
            done.append(node)
            for value in set(node.inputs()):
                if value in self.readers:
                    self.readers[value] -= 1
            for later in self.after.get(node, ()):
                self.waiting[later].discard(node)
                if not self.waiting[later]:
                    heapq.heappush(ready, self._entry(later))
        return done

    def _entry(self, node: Node) -> tuple[int, int, Node]:
        return self._cost(node), self.order[node], node

    def _cost(self, node: Node) -> int:
        """Bytes of the results minus bytes of inputs that are not read afterwards."""
        made = sum(size(v.type) for v in node.outputs)
        freed = sum(
            size(v.type)
            for v in set(node.inputs())
            if v not in self.kept and self.readers.get(v) == 1
        )
        return made - freed
