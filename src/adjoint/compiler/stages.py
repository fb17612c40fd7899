"""The stages of a compilation, and the cost of a call."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import field
from typing import Any

from adjoint.compiler import routine_calls
from adjoint.compiler.arena import ProgramLayout, nbytes
from adjoint.compiler.nests import Nest
from adjoint.compiler.plan import Callback, Nested, RoutineCall
from adjoint.compiler.sweeps import Sweep, reads, writes
from adjoint.core.records import record, structure
from adjoint.core.remembering import cached_property
from adjoint.core.symbolic_sizes import at
from adjoint.graph.control.staging import UNKNOWN
from adjoint.graph.ir import Constant, Graph, Value


@record
class Cost:
    """The work of one call: counted, not measured."""

    flops: int  # additions, multiplications, comparisons, …
    functions: int  # calls of exp, sin, …
    bytes_read: int  # each value once for each step that reads it
    bytes_written: int
    memory: int  # bytes next to the inputs: the arena and the outputs

    def __add__(self, other: Cost) -> Cost:
        return Cost(
            self.flops + other.flops,
            self.functions + other.functions,
            self.bytes_read + other.bytes_read,
            self.bytes_written + other.bytes_written,
            max(self.memory, other.memory),
        )

    def __mul__(self, times: int) -> Cost:
        return Cost(
            self.flops * times,
            self.functions * times,
            self.bytes_read * times,
            self.bytes_written * times,
            self.memory,
        )

    def __str__(self) -> str:
        return (
            f"{self.flops:,} flops, {self.functions:,} functions, "
            f"{self.bytes_read:,} bytes read, {self.bytes_written:,} written"
        )


@structure
class Stages:
    """All stages of a compilation; `print` shows them."""

    graph: Graph  # as traced
    lowered: Graph  # decomposed and simplified
    layout: ProgramLayout  # fused, with places in memory
    source: str  # of the target
    seconds: dict[str, float] = field(default_factory=dict)  # of each stage
    results: list[Value] = field(default_factory=list)  # results in arrays of their own
    counted: Cost | None = None  # for given symbolic sizes

    @cached_property
    def closure(self) -> Any:
        """An outside tensor that requires a gradient, which native code would not compute."""
        return closure_that_wants_a_gradient(self.graph)

    def callbacks(self) -> list[str]:
        """The operators that call back to their eager kernels."""
        return [s.node.name for s in self.layout.steps if isinstance(s, Callback)]

    def cost(self) -> Cost:
        """The work of one call. A loop whose length is not known beforehand counts once."""
        if self.counted is not None:
            return self.counted
        total = _cost(self.layout)
        return total + Cost(0, 0, 0, 0, self.layout.size + self._result_bytes())

    def _result_bytes(self, sizes: tuple[int, ...] = ()) -> int:
        alignment = self.layout.plan.target.threads.alignment
        return sum(nbytes(v, alignment, sizes) for v in self.results)

    def count(self, sizes: tuple[int, ...], arena: int) -> Cost:
        """The work of one call for given sizes; `arena` is the size of its arena in bytes."""
        found = _cost(self.layout)
        memory = arena + self._result_bytes(sizes)
        flops, functions = at((found.flops, found.functions), sizes)
        read, written = at((found.bytes_read, found.bytes_written), sizes)
        return Cost(int(flops), int(functions), read, written, memory)

    def __str__(self) -> str:
        shown = [str(self.graph)]
        if len(self.lowered) != len(self.graph):
            shown += ["# lowered and simplified:", str(self.lowered)]
        shown.append(f"# {len(self.lowered)} operators in {len(self.layout.steps)} steps:")
        shown += [f"#   {line}" for line in _described(self.layout, "")]
        shown += [f"# {line}" for line in self._memory()]
        if self.counted is not None:
            shown.append(f"# sizes stay open; for those that were asked for: {self.counted}")
        took = [f"# {stage}: {seconds * 1e3:.1f} ms" for stage, seconds in self.seconds.items()]
        return "\n".join([*shown, self.source, *took])

    def _memory(self) -> Iterator[str]:
        size = self.layout.size
        results = self._result_bytes()
        yield f"memory: {size:,} bytes in one arena, {results:,} of results"
        for value, offset in sorted(self.layout.offsets.items(), key=lambda pair: pair[1]):
            yield f"  {value.name}: {value.type} at {offset}"


def _described(layout: ProgramLayout, indent: str) -> Iterator[str]:
    for number, step in enumerate(layout.steps):
        yield f"{indent}{_title(step)}: {_step_cost(layout, number)}"
        for name, inner in layout.inner.get(number, {}).items():
            yield f"{indent}  {name}:"
            yield from _described(inner, indent + "    ")


def _title(step: Any) -> str:
    if isinstance(step, Nest):
        parts = ", ".join(
            f"{len(m.loop.inside) + len(m.loop.combining)} operators over {m.loop.space}"
            for m in step.members
        )
        kept = f" ({len(step.local)} values stay in the cache)" if step.local else ""
        return f"loop: {parts}{kept}"
    if isinstance(step, Sweep):
        parts = ", ".join(s.routine if isinstance(s, RoutineCall) else "loop" for s in step.steps)
        return f"sweep over {step.rows} rows, {step.block} at a time: {parts}"
    if isinstance(step, RoutineCall):
        return f"library: {step.node.name} by {step.routine}"
    return f"{'calls back' if isinstance(step, Callback) else 'region'}: {step.node.name}"


def _cost(layout: ProgramLayout) -> Cost:
    total = Cost(0, 0, 0, 0, 0)
    for number in range(len(layout.steps)):
        total = total + _step_cost(layout, number)
    return total


def _exactly(value: Value) -> int:
    """The bytes of a value; of a tape, the bytes of one turn."""
    shape = tuple(1 if size == UNKNOWN else size for size in value.shape)
    return math.prod(shape) * value.dtype.itemsize


def _step_cost(layout: ProgramLayout, number: int) -> Cost:
    step = layout.steps[number]
    if isinstance(step, Nested):
        times = step.node.args[3] if step.node.op.name == "scan" else 1
        inner = Cost(0, 0, 0, 0, 0)
        for name, each in layout.inner[number].items():
            if name in step.node.graphs:  # without the turns that are recomputed
                inner = inner + _cost(each)
        return inner * (1 if times == UNKNOWN else times)
    read = sum(
        _exactly(v) for v in dict.fromkeys(reads(step)) if v not in getattr(step, "local", ())
    )
    written = sum(map(_exactly, writes(step)))
    flops, functions = _arithmetic(step)
    return Cost(flops, functions, read, written, 0)


def _arithmetic(step: Any) -> tuple[int, int]:
    """The additions and the functions that a step computes."""
    if isinstance(step, Sweep):
        found = [_arithmetic(each) for each in step.steps]
        return sum(f for f, _ in found), sum(f for _, f in found)
    if isinstance(step, Nest):
        return sum(m.flops for m in step.members), sum(m.functions for m in step.members)
    return routine_calls.flops(step) if isinstance(step, RoutineCall) else 0, 0


def closure_that_wants_a_gradient(graph: Graph) -> Any:
    """A constant that requires a gradient, which native code would not compute; or None."""
    constants = (n.op.tensor for n in graph.nodes if isinstance(n.op, Constant))
    return next((t for t in constants if t.requires_grad), None)
