"""What a compiled function uses from outside: programs are for that as it was.

Of tensors programs hold copies; writes to them are known by version counters. What the function
computes of such tensors alone was computed while it was traced, and is a constant. Python's values
are looked at (reads.py).
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
    """The counters of such tensors, with what they counted when their values were taken, and
    Python's values.
    """

    def __init__(self, reads: Reads, about: tuple[Same, ...]) -> None:
        self.counts: dict[Counter, int] = {}
        self.reads = reads
        self.about = about  # the objects among the arguments that were looked at

    def is_as_it_was(self, about: tuple[Same, ...]) -> bool:
        """Whether all is there as it was, for a call with such objects."""
        return self.about == about and self.reads.still_hold() and not self.changed()

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
        """Whether one of the tensors was written to since then."""
        return any(CopyWatch.seen(counter) != count for counter, count in self.counts.items())

    def guarded(self, short: Callable[..., Any]) -> Callable[..., Any]:
        """A short way in that declines when something from outside is not as it was."""
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
