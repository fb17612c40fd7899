"""Sums of many gradients of single rows. Each gradient is zero outside its row, so the sum of n of
them is n rows joined by cat, which takes the work of n rows instead of n arrays.

    zeros with a at row 0  +  zeros with b at row 1  =  cat((a, b)) + 0.0

The gradient of an unrolled loop over x[t], or of a formula of x[0], x[1], …, is such a sum. Terms
with the same rows are added first. `+ 0.0` turns -0.0 into 0.0, as the other terms' zeros would.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from adjoint.core.records import record
from adjoint.graph.facts import argument, is_call
from adjoint.graph.ir import Graph, Node, Value
from adjoint.graph.passes.rewriting import Rewriter, inner_graphs
from adjoint.ops.operator import Operator

_LEAST = 32  # rows from which this pays; fewer are added in the loop that uses the sum


@record
class PaddedRows:
    """A value that is zero outside the rows `low` to `high` of a dimension."""

    dim: int
    low: int
    high: int
    value: Value  # these rows; a single row lacks the dimension


def join_rows(graph: Graph) -> Graph:
    """A sum of gradients that are zero outside a row -> the gradients joined by cat."""
    inner_graphs(graph, join_rows)
    outputs = {o for o in graph.outputs if isinstance(o, Value)}

    def rule(rewriter: Rewriter, node: Node) -> Value | None:
        if not _is_sum(node) or _is_part(node, outputs):
            return None
        return _joined_rows(rewriter, list(_terms(node, outputs)), node.output)

    Rewriter(graph).run(rule)
    return graph


def _is_sum(node: Node | None) -> bool:
    """Whether a node adds two different real values of the type of its result."""
    if node is None or not isinstance(node.op, Operator) or node.name != "add.Tensor":
        return False
    a, b = node.args[:2]
    same = isinstance(a, Value) and isinstance(b, Value) and a.type == b.type == node.output.type
    return same and a is not b and node.output.dtype.is_floating_point and node.args[2] == 1


def _is_part(node: Node, outputs: set[Value]) -> bool:
    """Whether a sum is only used as a term of another sum."""
    users = list(node.output.uses)
    return len(users) == 1 and node.output not in outputs and _is_sum(users[0])


def _terms(node: Node, outputs: set[Value]) -> Iterator[Value]:
    """The terms of nested sums, in order."""
    asked = [*reversed(node.args[:2])]
    while asked:
        value = asked.pop()
        if _is_sum(value.node) and len(value.uses) == 1 and value not in outputs:
            asked += reversed(value.node.args[:2])
        else:
            yield value


def _padded_rows(value: Value) -> PaddedRows | None:
    """The rows outside which a value is zero, if they are known."""
    if len(value.uses) > 1 or value.node is None:
        return None
    node = value.node
    if is_call(value, "select_backward"):
        low = argument(node, "index")
        high, step = low + 1, 1
    elif is_call(value, "slice_backward"):
        low, high, step = (argument(node, name) for name in ("start", "end", "step"))
    else:
        return None
    dim = argument(node, "dim") % len(value.shape)
    known = all(type(n) is int for n in (low, high, value.shape[dim])) and step == 1
    if not known or not 0 <= low < high <= value.shape[dim]:
        return None
    return PaddedRows(dim, low, high, node.args[0])


def _joined_rows(rewriter: Rewriter, terms: Sequence[Value], like: Value) -> Value | None:
    """A sum of terms, with rows of one dimension joined by cat; None if there are too few."""
    rows = {v: found for v in terms if (found := _padded_rows(v)) is not None}
    if len(rows) < _LEAST:
        return None
    ((dim, _),) = Counter(r.dim for r in rows.values()).most_common(1)
    groups: dict[tuple[int, int], list[Value]] = {}
    for row in rows.values():
        if row.dim == dim:
            groups.setdefault((row.low, row.high), []).append(row.value)
    disjoint = dict.fromkeys(_disjoint(sorted(groups)))
    if len(disjoint) < _LEAST:
        return None
    pieces = list(_side_by_side(rewriter, {ends: groups[ends] for ends in disjoint}, dim, like))
    total = rewriter.call("add.Scalar", rewriter.call("cat.default", tuple(pieces), dim), 0.0)
    for value in terms:
        row = rows.get(value)
        if row is None or row.dim != dim or (row.low, row.high) not in disjoint:
            total = rewriter.call("add.Tensor", total, value)
    return total


def _disjoint(ends: Sequence[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """Of sorted intervals, those that start after the end of the last one chosen."""
    last = 0
    for low, high in ends:
        if low >= last:
            yield low, high
            last = high


def _side_by_side(
    rewriter: Rewriter, groups: dict[tuple[int, int], list[Value]], dim: int, like: Value
) -> Iterator[Value]:
    """The pieces to join along a dimension: sums of rows, and zeros between them."""

    def zeros(count: int) -> Iterator[Value]:
        shape = (*like.shape[:dim], count, *like.shape[dim + 1 :])
        if count:
            yield rewriter.call("zeros.default", shape, like.dtype)

    end = 0
    for (low, high), values in groups.items():
        yield from zeros(low - end)
        total = _sum_in_order(rewriter, values)
        is_row = len(total.shape) < len(like.shape)
        yield rewriter.call("unsqueeze.default", total, dim) if is_row else total
        end = high
    yield from zeros(like.shape[dim] - end)


def _sum_in_order(rewriter: Rewriter, values: Sequence[Value]) -> Any:
    """The sum of values of one type, in order; these may be padded rows themselves."""
    found = _joined_rows(rewriter, values, values[0])
    if found is not None:
        return found
    total = values[0]
    for value in values[1:]:
        total = rewriter.call("add.Tensor", total, value)
    return total
