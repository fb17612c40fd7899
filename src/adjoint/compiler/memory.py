"""The memory plan: every value that a program keeps has a place in one arena.

A place is taken from the first step that writes a value to the last that reads it, and then given to
others. The plans inside loops over time and branches have arenas of their own, which lie in the
outer one while their step runs.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from adjoint.compiler.fuse import Call, Callback, Loop, Nested, Operand, Plan, Step
from adjoint.compiler.nests import Nest, nested
from adjoint.graph.ir import Value

ALIGNMENT = 64


@dataclass
class Layout:
    """A plan with its nests, and where its values are."""

    plan: Plan
    steps: list[Nest | Step]
    offsets: dict[Value, int] = field(default_factory=dict)  # in the arena, in bytes
    inner: dict[int, dict[str, Layout]] = field(default_factory=dict)  # of regions, by step
    starts: dict[int, int] = field(default_factory=dict)  # where the memory of a step begins
    size: int = 0  # of the arena

    def written(self) -> list[Value]:
        """Everything that the steps write to memory of their own."""
        return [v for step in self.steps for v in writes(step)]


def writes(step: Nest | Step) -> list[Value]:
    """The values that a step puts into memory."""
    if isinstance(step, Nest):
        return [v for m in step.members for v in m.writes if v not in step.local] + [
            n.output for m in step.members for n in m.loop.combining if n.output not in m.writes
        ]
    assert not isinstance(step, Loop)
    return list(step.node.outputs)


def reads(step: Nest | Step) -> list[Value]:
    """The values that a step finds in memory."""
    if isinstance(step, Nest):
        return [v for m in step.members for v in m.reads]
    if isinstance(step, Callback):
        return step.operands
    assert isinstance(step, (Call, Nested))
    return [o.value for o in step.operands if isinstance(o, Operand)]


def nbytes(value: Value) -> int:
    size = max(math.prod(value.shape), 1) * value.dtype.itemsize
    return -(-size // ALIGNMENT) * ALIGNMENT


def lay_out(plan: Plan, elsewhere: set[Value], extra: dict[int, int] | None = None) -> Layout:
    """Place the values of a plan; those `elsewhere` have memory of their own."""
    layout = Layout(plan, nested(plan))
    last: dict[Value, int] = {}
    for number, step in enumerate(layout.steps):
        for value in (*writes(step), *reads(step)):
            last[value] = number
    end = len(layout.steps)
    for operand in plan.outputs:
        if isinstance(operand, Operand):
            last[operand.value] = end
    arena = _Arena()
    for number, step in enumerate(layout.steps):
        if isinstance(step, Nested):
            layout.inner[number] = {name: lay_out(p, set()) for name, p in step.plans.items()}
            room = sum(inner.size for inner in layout.inner[number].values())
            room += buffers(step)
            layout.starts[number] = arena.take(room, number, number)
        for value in writes(step):
            if value not in elsewhere and value not in layout.offsets:
                layout.offsets[value] = arena.take(nbytes(value), number, last[value])
        if isinstance(step, Nest):
            layout.starts[number] = arena.take((extra or {}).get(number, 0), number, number)
    layout.size = arena.size
    return layout


def buffers(step: Nested) -> int:
    """Bytes for the carried values of a loop: two of each, one being read and one written."""
    if step.node.op.name == "cond":
        return 0
    return 2 * sum(map(nbytes, carried(step)))


def carried(step: Nested) -> list[Value]:
    """The results of a loop that are carried from turn to turn."""
    node = step.node
    count = len(node.args[1]) if node.op.name == "scan" else len(node.args[2])
    return node.outputs[:count]


class _Arena:
    """First fit: each block is free from the step after its last use."""

    def __init__(self) -> None:
        self.size = 0
        self.taken: list[tuple[int, int, int]] = []  # (offset, size, last step)

    def take(self, size: int, now: int, last: int) -> int:
        self.taken = [t for t in self.taken if t[2] >= now]
        self.taken.sort()
        size = -(-size // ALIGNMENT) * ALIGNMENT
        place = 0
        for offset, length, _ in self.taken:
            if offset - place >= size:
                break
            place = max(place, offset + length)
        if size:
            self.taken.append((place, size, last))
            self.size = max(self.size, place + size)
        return place
