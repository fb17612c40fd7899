"""Rules about parts of tensors: do not read back a part just written, nor write it twice.

`v[a:b] += w` becomes a read of the part, a sum, a write, a read of the written part and another
write; one write is left.
"""

from __future__ import annotations

from typing import Any

from adjoint.core.symbolic_sizes import is_for_many
from adjoint.graph.facts import argument
from adjoint.graph.ir import Node, Value
from adjoint.ops.operator import Operator


def _part(node: Node) -> tuple[Any, ...]:
    """The part of its first tensor that a view selects, or that a write to a view overwrites."""
    names, shape = node.op.schema.names, node.args[0].shape
    if "dim" not in names:
        return tuple(a for a in node.args[1:] if not isinstance(a, Value))
    dim = argument(node, "dim") % len(shape)
    if "index" in names:
        return dim, argument(node, "index") % shape[dim]
    start, end, step = (argument(node, k) for k in ("start", "end", "step"))
    return dim, *slice(start, end, step).indices(shape[dim])


def _writer(value: Any, view: str) -> Node | None:
    """The node that made a value by writing to a view of another value; None if none did."""
    node = value.node if isinstance(value, Value) else None
    writes = node is not None and isinstance(node.op, Operator) and node.op.row.overwrites == view
    return node if writes else None


def slice_that_is_all(rewriter: Any, node: Node) -> Any:
    """slice(x, everything) -> x"""
    whole, out = node.args[0], node.outputs[0]
    if whole.shape != out.shape or out in rewriter.outputs or is_for_many():
        return None
    return whole


def write_all(rewriter: Any, node: Node) -> Any:
    """slice_scatter(x, p, everything) -> p"""
    part = node.args[1]
    return part if part.shape == node.outputs[0].shape and not is_for_many() else None


def read_what_was_written(rewriter: Any, node: Node) -> Any:
    """slice(slice_scatter(x, p, A), A) -> p"""
    writer = _writer(node.args[0], node.name)
    return None if writer is None or _part(writer) != _part(node) else writer.args[1]


def write_what_is_there(rewriter: Any, node: Node) -> Any:
    """slice_scatter(x, slice(x, A), A) -> x"""
    whole, part = node.args[:2]
    view = part.node
    if view is None or view.name != node.op.row.overwrites or view.args[0] is not whole:
        return None
    return whole if _part(view) == _part(node) else None


def write_over(rewriter: Any, node: Node) -> Any:
    """slice_scatter(slice_scatter(x, p, A), q, A) -> slice_scatter(x, q, A)"""
    writer = _writer(node.args[0], node.op.row.overwrites)
    if writer is None or _part(writer) != _part(node):
        return None
    return rewriter.call(node.name, writer.args[0], *node.args[1:])


def copy_of_all(rewriter: Any, node: Node) -> Any:
    """copy(x, y) -> y  for y of the type of x"""
    source = node.args[1]
    return source if isinstance(source, Value) and source.type == node.outputs[0].type else None


READS = (read_what_was_written,)
WRITES = (write_all, write_what_is_there, write_over)
