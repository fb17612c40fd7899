"""The outside values that a compiled function uses: its programs hold for these values only.

A program holds copies of outside tensors; version counters tell whether they have been written to.
Values that the function computed from such tensors alone, while it was traced, are constants.
Python values are compared (reads.py).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from adjoint.compiler.attributes import Same
from adjoint.compiler.entry import DECLINED
from adjoint.compiler.reads import Reads
from adjoint.graph.ir import Constant, Graph
from adjoint.tensor.nodes import CopyWatch, Counter, InferenceCounter


class OutsideValues:
    """The version counters of outside tensors, with their counts when the values were taken, and
    the Python values that the function read.
    """

    def __init__(self, reads: Reads, about: tuple[Same, ...]) -> None:
        self.counts: dict[Counter, int] = {}
        self.reads = reads
        self.about = about  # the inspected objects among the arguments

    def is_as_it_was(self, about: tuple[Same, ...]) -> bool:
        """Whether nothing outside has changed, for a call with the objects `about`."""
        return self.about == about and self.reads.still_hold() and not self.changed()

    def note(self, graph: Graph) -> Graph:
        """Remember the tensors whose values a graph holds; return the graph."""
        for node in graph.nodes:
            if isinstance(node.op, Constant) and node.op.watch is not None:
                watch = node.op.watch
                self.counts.update(zip(watch.counters, watch.expected, strict=True))
            for inner in node.graphs.values():
                self.note(inner)
        return graph

    def changed(self) -> bool:
        """Whether one of the tensors has been written to."""
        return any(CopyWatch.seen(counter) != count for counter, count in self.counts.items())

    def guarded(self, short: Callable[..., Any]) -> Callable[..., Any]:
        """Wrap a short way in, so that it declines if something outside has changed."""
        hold = self.reads.hold
        short = self._counted(short)
        if hold is None:
            return short
        return lambda *args: short(*args) if hold() else DECLINED

    def _counted(self, short: Callable[..., Any]) -> Callable[..., Any]:
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
