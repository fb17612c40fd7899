"""Lowering: a graph in terms of what native code knows.

Nodes that have no native form are decomposed while they have a decomposition; what is left over
calls back to its eager kernel.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from adjoint import ops
from adjoint.compiler.definitions import define, multiplications
from adjoint.graph import passes
from adjoint.graph.facts import argument
from adjoint.graph.ir import Graph, Node, Value
from adjoint.graph.passes.decompose import expand
from adjoint.graph.passes.prune_loops import prune_loops
from adjoint.tensor import binding
from adjoint.tensor.methods import as_tensor

_SMALL_PRODUCT = 1 << 12  # multiplications up to which a loop beats a call of BLAS


def lower(graph: Graph, *, small_products: bool = True) -> Graph:
    """The graph that is fused: custom functions opened (their rules have been used), decomposed,
    simplified before and after. Without `small_products` all products of matrices stay whole.
    """
    opened = passes.run(passes.inline_functions(graph.clone()))
    most = _SMALL_PRODUCT if small_products else -1
    return prune_loops(passes.run(expand_decompositions(opened, most)))


def expand_decompositions(graph: Graph, most: int = _SMALL_PRODUCT) -> Graph:
    """Replace nodes without a native form by their decompositions, until nothing changes; and
    products of at most so many multiplications by sums. The graph is changed.
    """

    def smaller(node: Node, is_part: bool) -> Callable[..., Any] | None:
        return _zeros(node) if is_part and _is_no_change(node) else _smaller(node, most)

    _forget_blocks(graph)
    return expand(graph, smaller)


def _forget_blocks(graph: Graph) -> None:
    """Let backward be like forward: zeros in a decomposition are numbers, not absent gradients."""
    for node in graph.nodes:
        node.block = None
        for inner in node.graphs.values():
            _forget_blocks(inner)


def _smaller(node: Node, most: int) -> Callable[..., Any] | None:
    """A function that does what a node does by smaller operators; None where it stays."""
    if multiplications(node) <= most:
        return _product
    row = node.op.row
    if node.name == "detach.default":
        return _itself  # derivatives have been taken
    if row.schema.is_view and len(node.outputs) > 1 and "dim" in row.schema.names:
        return _parts(node)
    if row.reduces in ("sum", "any", "all") and "dim" in row.schema.names and _of_one(node):
        return _single(node)
    if node.name == "as_strided.default":
        return _strided(node)
    if not row.decompose or row.schema.is_view:
        return None
    known = define(node)
    return None if known is not None else binding.decomposition(row)


def _of_one(node: Node) -> bool:
    """Whether a reduction is of single elements."""
    return math.prod(node.args[0].shape) == math.prod(node.output.shape)


def _single(node: Node) -> Callable[..., Any]:
    """A sum of single elements, or whether any of them is not 0."""
    truth = node.op.row.reduces != "sum"

    def alone(tensor: Any, *_: Any) -> Any:
        element = tensor.ne(0) if truth else tensor
        return element.to(node.output.dtype).reshape(node.output.shape)

    return alone


def _itself(tensor: Any) -> Any:
    return tensor


def _is_no_change(node: Node | None) -> bool:
    """Whether a node is x - x.detach(), or a multiple: zeros, by which a value gets derivatives."""
    if node is None or node.name not in ("sub.Tensor", "mul.Tensor", "div.Tensor"):
        return False
    first, second = (a.node if isinstance(a, Value) else None for a in node.args[:2])
    if node.op.name != "sub":
        return _is_no_change(first) or (node.op.name == "mul" and _is_no_change(second))
    return (
        second is not None
        and second.name == "detach.default"
        and second.args[0] is node.args[0]
        and argument(node, "alpha") == 1
    )


def _zeros(node: Node) -> Callable[..., Any]:
    return lambda *_: ops.zeros(node.output.shape, dtype=node.output.dtype)


def _parts(node: Node) -> Callable[..., Any]:
    """Several views of one tensor (unbind, split, …) as one view each."""
    source = next(node.inputs())
    dim = argument(node, "dim") % len(source.shape)

    def cut(tensor: Any, *_: Any) -> list[Any]:
        if len(node.outputs[0].shape) < len(source.shape):
            return [tensor.select(dim, i) for i in range(source.shape[dim])]
        found, start = [], 0
        for value in node.outputs:
            found.append(tensor.narrow(dim, start, value.shape[dim]))
            start += value.shape[dim]
        return found

    return cut


def _strided(node: Node) -> Callable[..., Any] | None:
    """Elements at given strides of a tensor that lies row by row: a gather at known places."""
    size, strides, offset = node.args[1:4]
    if math.prod(size) > _SMALL_PRODUCT:
        return None
    places = np.full(size, offset or 0)
    for count, stride, axis in zip(size, strides, range(len(size)), strict=True):
        places += (np.arange(count) * stride).reshape(
            [-1 if d == axis else 1 for d in range(len(size))]
        )
    return lambda tensor, *_: tensor.reshape((-1,))[as_tensor(places)]


def _product(a: Any, b: Any) -> Any:
    """a @ b as a sum of products, which fuses with its neighbours."""
    if b.ndim == 1:
        return (a * b).sum(-1)
    columns = b.transpose(-1, -2)
    if a.ndim == 1:
        return (columns * a).sum(-1)
    return (a.unsqueeze(-2) * columns.unsqueeze(-3)).sum(-1)
