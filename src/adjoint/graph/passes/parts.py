"""Rules about parts of tensors: what was just written is not read back, nor written twice.

`v[a:b] += w` becomes a read of the part, a sum, a write of the part, a read of what was written and
another write of it; one write is left.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from adjoint.graph.facts import argument, is_call
from adjoint.graph.ir import Node, Value


def _part(node: Node) -> tuple[Any, ...]:
    """Which part of its first tensor a slice, a select or a write to one means."""
    shape = node.args[0].shape
    dim = argument(node, "dim") % len(shape)
    if "index" in node.op.schema.names:
        return dim, argument(node, "index") % shape[dim]
    start, end, step = (argument(node, k) for k in ("start", "end", "step"))
    return dim, *slice(start, end, step).indices(shape[dim])


def part_that_is_all(rewriter: Any, node: Node) -> Any:
    """slice(x, everything) -> x,  slice_scatter(x, p, everything) -> p"""
    whole, out = node.args[0], node.outputs[0]
    if node.op.name == "slice":
        same = whole.shape == out.shape and out not in rewriter.outputs
        return whole if same else None
    part = node.args[1]
    return part if part.shape == out.shape else None


def read_what_was_written(rewriter: Any, node: Node) -> Any:
    """slice(slice_scatter(x, p, A), A) -> p"""
    inner = node.args[0]
    if not is_call(inner, f"{node.op.name}_scatter") or _part(inner.node) != _part(node):
        return None
    return inner.node.args[1]


def write_what_is_there(rewriter: Any, node: Node) -> Any:
    """slice_scatter(x, slice(x, A), A) -> x"""
    whole, part = node.args[:2]
    name = node.op.name.removesuffix("_scatter")
    if not is_call(part, name) or part.node.args[0] is not whole:
        return None
    return whole if _part(part.node) == _part(node) else None


def write_over(rewriter: Any, node: Node) -> Any:
    """slice_scatter(slice_scatter(x, p, A), q, A) -> slice_scatter(x, q, A)"""
    inner = node.args[0]
    if not is_call(inner, node.op.name) or _part(inner.node) != _part(node):
        return None
    return rewriter.call(node.name, inner.node.args[0], *node.args[1:])


def copy_of_all(rewriter: Any, node: Node) -> Any:
    """copy(x, y) -> y  for y of the type of x"""
    source = node.args[1]
    return source if isinstance(source, Value) and source.type == node.outputs[0].type else None


RULES: dict[str, tuple[Callable[[Any, Node], Any], ...]] = {
    "slice": (part_that_is_all, read_what_was_written),
    "select": (read_what_was_written,),
    "slice_scatter": (part_that_is_all, write_what_is_there, write_over),
    "select_scatter": (write_what_is_there, write_over),
    "copy": (copy_of_all,),
}
