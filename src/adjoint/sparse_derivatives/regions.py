"""The rules of the propagation for loops and branches: the union over turns and branches.

The turns of a short scan are followed one by one; for other loops the pattern of the carry grows
until it stays the same.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from adjoint.core.dtypes import DType
from adjoint.graph.ir import Graph, Node, Value
from adjoint.ops.operator import packet
from adjoint.sparse_derivatives.propagation import REGIONS, Collection, Propagation
from adjoint.tensor.tensor import is_plain, make

_TURNS = 1 << 13  # nodes of all turns up to which a scan is followed turn by turn
Parts = list[Any]  # derivatives, None for zero


class _Slot:
    """A place for a value without a graph: a turn's slice."""

    def __init__(self, shape: Sequence[int], dtype: DType) -> None:
        self.shape, self.dtype = tuple(shape), dtype


def _cond(walk: Propagation[Any], node: Node) -> Parts:
    condition, operands = node.args
    branches = [node.graphs["true"], node.graphs["false"]]
    known: Any = walk.known.get(condition) if isinstance(condition, Value) else None
    if is_plain(known):
        branches = branches[:1] if known.item() else branches[1:]
    tangents, values = _of(walk.tangents, operands), _of(walk.known, operands)
    found = [_inside(walk, graph, tangents, values)[0] for graph in branches]
    return [_union(walk, parts) for parts in zip(*found, strict=True)]


def _while(walk: Propagation[Any], node: Node) -> Parts:
    _, constants, carry, _ = node.args
    return _settled(walk, node.graphs["body"], constants, carry, [])[0]


def _scan(walk: Propagation[Any], node: Node) -> Parts:
    constants, carry, xs, length, backwards = node.args
    body = node.graphs["body"]
    if length * len(body) > _TURNS:
        return _scan_at_once(walk, node)
    tangents, values = _of(walk.tangents, carry), _of(walk.known, carry)
    made: dict[int, Parts] = {}
    for turn in reversed(range(length)) if backwards else range(length):
        tangents = [*_of(walk.tangents, constants), *tangents, *_slices(walk, xs, turn)]
        values = [*_of(walk.known, constants), *values, *_known_slices(walk, xs, turn)]
        outputs, results = _inside(walk, body, tangents, values)
        tangents, values = outputs[: len(carry)], results[: len(carry)]
        made[turn] = outputs[len(carry) :]
    rows = [
        [made[turn][k] for turn in range(length)] for k in range(len(body.outputs) - len(carry))
    ]
    stacked = [_stacked(walk, p, v) for p, v in zip(rows, node.outputs[len(carry) :], strict=True)]
    return [*tangents, *stacked]


def _scan_at_once(walk: Propagation[Any], node: Node) -> Parts:
    """The same pattern for all turns."""
    constants, carry, xs, length, _ = node.args
    merged = []
    for value in xs:
        part = walk.tangents.get(value)
        if part is not None:
            slot = _Slot(value.shape[1:], value.dtype)
            count = math.prod(slot.shape)
            targets = np.tile(np.arange(1, count + 1), length).reshape(value.shape)
            into = Collection(targets, np.ones(value.shape), slot)
            part = walk.algebra.collected(part, value, into)
        merged.append(part)
    carried, made = _settled(walk, node.graphs["body"], constants, carry, merged)
    stacked = [
        _stacked(walk, [part] * length, value)
        for part, value in zip(made, node.outputs[len(carry) :], strict=True)
    ]
    return [*carried, *stacked]


def _settled(
    walk: Propagation[Any], body: Graph, constants: Any, carry: Any, rows: Parts
) -> tuple[Parts, Parts]:
    """The patterns of the carry and of the other results, once no turn adds to the carry's."""
    fixed, carried = _of(walk.tangents, constants), _of(walk.tangents, carry)
    values = [*_of(walk.known, constants), *[None] * (len(carry) + len(rows))]
    while True:
        outputs, _ = _inside(walk, body, [*fixed, *carried, *rows], values)
        pairs = zip(carried, outputs[: len(carry)], strict=True)
        grown = [_union(walk, pair) for pair in pairs]
        if _count(walk, grown) == _count(walk, carried):
            return grown, outputs[len(carry) :]
        carried = grown


def _inside(
    walk: Propagation[Any], graph: Graph, tangents: Parts, values: Parts
) -> tuple[Parts, Parts]:
    """The derivatives of a graph's outputs, and the outputs that are known."""
    given = zip(graph.inputs, values, strict=True)
    inner = Propagation(graph, walk.algebra, {v: known for v, known in given if known is not None})
    pairs = zip(graph.inputs, tangents, strict=True)
    found = inner.run({value: part for value, part in pairs if part is not None})
    return found, _of(inner.known, graph.outputs)


def _of(found: dict[Value, Any], values: Sequence[Any]) -> Parts:
    return [found.get(v) if isinstance(v, Value) else None for v in values]


def _slices(walk: Propagation[Any], xs: Sequence[Value], turn: int) -> Parts:
    found = []
    for value in xs:
        part = walk.tangents.get(value)
        if part is not None:
            run = lambda given: [t[turn] for t in given.values()]
            (part,) = walk.algebra.moved({value: part}, run)
        found.append(part)
    return found


def _known_slices(walk: Propagation[Any], xs: Sequence[Value], turn: int) -> Parts:
    return [known[turn] if is_plain(known) else None for known in _of(walk.known, xs)]


def _stacked(walk: Propagation[Any], parts: Parts, result: Value) -> Any:
    """The derivative of rows, given that of each."""
    slots: list[Any] = [_Slot(result.shape[1:], result.dtype) for _ in parts]
    zeros = make(np.zeros(result.shape[1:]))
    there = {s: p for s, p in zip(slots, parts, strict=True) if p is not None}
    if not there:
        return None
    run = lambda given: [packet("stack")([given.get(s, zeros) for s in slots], 0)]
    return walk.algebra.moved(there, run)[0]


def _union(walk: Propagation[Any], parts: Sequence[Any]) -> Any:
    there = [part for part in parts if part is not None]
    return walk.algebra.joined(there) if there else None


def _count(walk: Propagation[Any], parts: Parts) -> int:
    return sum(walk.algebra.count(part) for part in parts if part is not None)


REGIONS.update({"cond": _cond, "while_loop": _while, "scan": _scan})
