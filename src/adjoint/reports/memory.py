"""`ad.memory`: what a gradient keeps between its forward and its backward, before anything runs.

The graph of the function is walked as the tape would record it: a row's formulas say which of its
arguments and results they need (tape/saving.py). Values that share memory count once, and the
arguments of the function, which exist anyway, do not count. The compiler's plan of the same
gradient says how much memory its program needs, to the byte.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

from adjoint.compiler import pipeline
from adjoint.compiler.lower import Choices
from adjoint.compiler.pipeline import Unplanned
from adjoint.compiler.targets.c.target import CPU
from adjoint.core.dtypes import FLOAT
from adjoint.core.records import record
from adjoint.core.shapes import show
from adjoint.graph.ir import Constant, Graph, Node, Region, Value
from adjoint.graph.trace import trace
from adjoint.reports.smoothness import smooth_arguments
from adjoint.reports.traced import traced
from adjoint.tape.saving import RESULT, TENSOR, TENSORS, Save, all_saves, saves_of
from adjoint.transforms.arguments import Argnums
from adjoint.transforms.reverse import value_and_grad

_FACTORS = (("GB", 1e9), ("MB", 1e6), ("kB", 1e3))


@record
class Kept:
    """A value that the backward needs."""

    bytes: int
    shape: tuple[int, ...]
    dtype: str  # "float32"
    place: str  # "model.py:12", the line of the operator that made it
    reasons: tuple[str, ...]  # ("tanh keeps its result",)

    def __str__(self) -> str:
        what = f"{self.dtype} {show(self.shape)}" if self.shape else self.dtype
        where = self.place or "(unknown line)"
        return f"{_shown(self.bytes):>9}  {what:20} {where}: {', '.join(self.reasons)}"


@record
class Memory:
    """What `ad.memory` found."""

    kept: tuple[Kept, ...]  # the largest first
    compiled: int  # bytes that the compiled value and gradient needs beside arguments and results

    @property
    def bytes(self) -> int:
        """The bytes of all values that are kept."""
        return sum(each.bytes for each in self.kept)

    def __str__(self) -> str:
        head = f"{_shown(self.bytes)} kept for the gradient; {_shown(self.compiled)} if compiled"
        return "\n".join([head, *map(str, self.kept)])

    __repr__ = __str__


def _shown(count: int) -> str:
    """A number of bytes in words.

    >>> _shown(1234567), _shown(12)
    ('1.23 MB', '12 B')
    """
    for name, factor in _FACTORS:
        if count >= factor:
            return f"{count / factor:.3g} {name}"
    return f"{count} B"


def memory(f: Callable[..., Any], *args: Any, argnums: Argnums = 0, **keywords: Any) -> Memory:
    """Return what the gradient of `f` will keep: bytes, shapes, lines and reasons.

    Arguments may be `ad.ShapeDtype`s, since nothing is computed.

    >>> import adjoint as ad
    >>> found = ad.memory(lambda x: x.exp().tanh().sum(), ad.ones(1000))
    >>> found.bytes, [kept.reasons for kept in found.kept]
    (4000, [('exp keeps its result', 'tanh keeps its argument')])
    """
    graph, varied = traced("memory", f, argnums, args, keywords)
    both = trace(value_and_grad(f, argnums), *args, **keywords)
    return Memory(tuple(_kept(graph, varied)), _of_program(both))


def _of_program(graph: Graph) -> int:
    """The bytes of the arena of a graph's program, which is planned but not written."""
    stages = [s for s in pipeline.STAGES if s not in pipeline.after("place")]
    made = pipeline.run(Unplanned(graph, Choices(CPU)), stages, lambda stage, seconds: None)
    return int(made["place"].size)


def _kept(graph: Graph, varied: set[Value]) -> list[Kept]:
    """The values that nodes save, those of one memory together."""
    reasons: dict[Value, dict[str, None]] = {}
    given = set(graph.inputs)
    for node, save in _saves(graph, varied):
        for value in _values(node, save):
            root = _root(value)
            if root not in given and not (root.node and isinstance(root.node.op, Constant)):
                whose = "result" if save.kind == RESULT else "argument"
                reasons.setdefault(root, {})[f"{node.op.name} keeps its {whose}"] = None
    found = [_described(value, tuple(texts)) for value, texts in reasons.items()]
    return sorted(found, key=lambda kept: -kept.bytes)


def _described(value: Value, reasons: tuple[str, ...]) -> Kept:
    size = math.prod(value.shape) * value.dtype.itemsize
    place = value.node.place if value.node else ""
    return Kept(size, value.shape, value.dtype.name, place, reasons)


def _saves(graph: Graph, varied: set[Value]) -> Iterator[tuple[Node, Save]]:
    """What the nodes save through which gradients flow to some inputs."""
    needed = set(varied)
    for node in graph.nodes:
        if isinstance(node.op, Region):
            needed.update(v for v in node.outputs if needed.intersection(node.inputs()))
            continue
        if isinstance(node.op, Constant) or not (smooth := smooth_arguments(node) & needed):
            continue
        needed.update(v for v in node.outputs if v.dtype.category >= FLOAT)
        row = node.op.row
        users = {n for n, v in zip(row.schema.names, node.args, strict=False) if _has(v, smooth)}
        for save in saves_of(row) if row.reverse else all_saves(row):
            if save.kind in (TENSOR, TENSORS, RESULT) and users & save.users and not save.narrow:
                yield node, save


def _has(argument: Any, values: set[Value]) -> bool:
    return (
        argument in values
        if type(argument) is Value
        else (type(argument) is tuple and any(type(v) is Value and v in values for v in argument))
    )


def _values(node: Node, save: Save) -> list[Value]:
    if save.kind == RESULT:
        return [node.outputs[save.number]]
    argument = node.args[node.op.row.schema.names.index(save.source)]
    given = argument if type(argument) is tuple else (argument,)
    return [v for v in given if type(v) is Value]


def _root(value: Value) -> Value:
    """The value whose memory this one shares."""
    while value.node is not None and not isinstance(value.node.op, (Region, Constant)):
        row = value.node.op.row
        if not row.schema.is_view:
            break
        value = next(value.node.inputs())
    return value
