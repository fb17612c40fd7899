"""Tensors from outside that a compiled function uses: programs hold copies of their values, and are
made anew when such a tensor was written to.

Writes are known by version counters. What the function computes of such tensors alone was computed
while it was traced, and is a constant.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from adjoint.compiler.entry import DECLINED
from adjoint.graph.ir import Constant, Graph
from adjoint.tensor.tape import CopyWatch, Counter, InferenceCounter


class Outside:
    """The counters of such tensors, with what they counted when their values were taken."""

    def __init__(self) -> None:
        self.counts: dict[Counter, int] = {}

    def note(self, graph: Graph) -> Graph:
        """Remember the tensors whose values a graph holds, and return it."""
        for node in graph.nodes:
            if isinstance(node.op, Constant) and node.op.watch is not None:
                watch = node.op.watch
                self.counts.update(zip(watch.counters, watch.expected, strict=True))
            for inner in node.graphs.values():
                self.note(inner)
        return graph

    def changed(self) -> bool:
        """Whether one of them was written to since then."""
        return any(CopyWatch.seen(counter) != count for counter, count in self.counts.items())

    def guarded(self, short: Callable[..., Any]) -> Callable[..., Any]:
        """A short way in that declines when one of them was written to."""
        if not self.counts:
            return short
        pairs = tuple(self.counts.items())
        if any(type(counter) is InferenceCounter for counter, _ in pairs):
            return lambda *args: DECLINED if self.changed() else short(*args)

        def call(*args: Any) -> Any:
            for counter, count in pairs:
                if counter.count != count:
                    return DECLINED
            return short(*args)

        return call
