"""Small products of matrices as sums of products of elements, which fuse with their neighbours.

    a @ b  ->  (a.unsqueeze(-2) * b.transpose(-1, -2)).sum(-1)

A product stays one node until graphs are simplified, so that every pass visits one node for it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from adjoint.compiler.definitions import Definitions, Look
from adjoint.compiler.target import Products, Target
from adjoint.core.dtypes import HALVES
from adjoint.core.shapes import row_major
from adjoint.graph.facts import is_call, keeps_order
from adjoint.graph.ir import Constant, Graph, Node, Region, Value
from adjoint.graph.passes.rewriting import Rewriter, inner_graphs
from adjoint.loops.affine import flat, identity


def multiplications(node: Node, target: Target) -> float:
    """The multiplications of a matrix product; infinite for nodes that a loop cannot compute."""
    if isinstance(node.op, (Constant, Region)) or not node.op.row.is_product:
        return math.inf
    a, b = node.args[:2]
    if not (a.dtype.is_floating_point and target.has(a)) or a.dtype in HALVES:
        return math.inf
    return math.prod(node.output.shape) * a.shape[-1] if a.shape and b.shape else math.inf


def is_small(node: Node, target: Target) -> bool:
    """Whether a node is a product that a loop computes faster than a routine: one with few
    multiplications, or one of any number of tiny matrices.
    """
    count, most = multiplications(node, target), target.products.small
    tiny = most > 0 and not math.isinf(count) and _is_tiny(node, target.products)
    return count <= most or tiny


def _is_tiny(node: Node, products: Products) -> bool:
    a, b = node.args[:2]
    rows = a.shape[-2] if len(a.shape) > 1 else 1
    columns = b.shape[-1] if len(b.shape) > 1 else 1
    inner = a.shape[-1]
    if inner * min(rows, columns) <= products.thin or inner * rows * columns <= products.tiny:
        return True
    count = math.prod(node.output.shape)
    return count <= products.results and count >= 2 * rows * columns  # a batch of long sums


def write_products(graph: Graph, definitions: Definitions, wanted: Callable[[Node], bool]) -> Graph:
    """a @ b -> a sum of elementwise products, for the products that `wanted` accepts."""
    inner_graphs(graph, lambda inner: write_products(inner, definitions, wanted))
    writer = _ProductWriter(graph, definitions)

    def written(_: Rewriter, node: Node) -> Value | None:
        loops = not math.isinf(multiplications(node, definitions.target)) and wanted(node)
        return writer.product(*node.args[:2]) if loops else None

    return writer.run(written)


class _ProductWriter(Rewriter):
    """A rewriter that reuses equal views and knows the strides of values."""

    def __init__(self, graph: Graph, definitions: Definitions) -> None:
        super().__init__(graph)
        self.definitions = definitions
        self.views: dict[Any, Value] = {}
        self.strides: dict[Value, list[int]] = {}

    def view(self, name: str, *args: Any) -> Value:
        found = self.views.get((name, *args))
        if found is None:
            found = self.views[name, *args] = self.call(name, *args)
        return found

    def total(self, value: Value, dim: int) -> Value:
        return self.call("sum.dim_IntList", value, (dim,), False, None)

    def product(self, a: Value, b: Value) -> Value:
        """a @ b as a sum of products."""
        if len(b.shape) == 1:
            return self.total(self.call("mul.Tensor", a, b), -1)
        columns = self.transposed(b)
        if len(a.shape) == 1:
            return self.total(self.call("mul.Tensor", columns, a), -1)
        if len(b.shape) > 2:
            columns = self.view("unsqueeze.default", columns, -3)
        products = self.call("mul.Tensor", self.single_rows(a), columns)
        order = self.order(a, b)
        if order is None:
            return self.total(products, -1)
        inner = len(order) - 1
        left = [d for d in order if d != inner]
        moved = self.call("permute.default", products, tuple(order))
        total = self.total(moved, order.index(inner))
        if left == sorted(left):
            return total
        return self.call("permute.default", total, tuple(left.index(d) for d in range(inner)))

    def single_rows(self, value: Value) -> Value:
        """The rows of a matrix, each as a matrix of one row."""
        if keeps_order(value) and len(value.uses) == 1 and value.node is not None:
            shape = (*value.shape[:-1], 1, value.shape[-1])
            return self.view("reshape.default", value.node.args[0], shape)
        return self.view("unsqueeze.default", value, -2)

    def transposed(self, value: Value) -> Value:
        """The transpose of a matrix."""
        if is_call(value, "transpose") and value.node is not None:
            source, *dims = value.node.args
            ndim = len(value.shape)
            if {d % ndim for d in dims} == {ndim - 2, ndim - 1}:
                return source
        return self.view("transpose.int", value, -1, -2)

    def order(self, a: Value, b: Value) -> list[int] | None:
        """The dimensions (batch, rows, columns, inner) ordered as the operands are stored in
        memory; None if the first dimension is the first in memory anyway.

        A loop in this order merges with its neighbours' loops over the same rows.
        """
        ndim = max(len(a.shape), len(b.shape)) + 1
        rows, columns, inner = ndim - 3, ndim - 2, ndim - 1
        batch_a, batch_b = (range(ndim - 1 - len(v.shape), ndim - 3) for v in (a, b))
        before: dict[int, set[int]] = {d: set() for d in range(ndim)}
        for value, dims in ((a, (*batch_a, rows, inner)), (b, (*batch_b, inner, columns))):
            outer: set[int] = set()
            for d in self.outermost_first(value, dims):
                before[d] |= outer
                outer.add(d)
        order: list[int] = []
        while len(order) < ndim:
            ready = [d for d in range(ndim) if d not in order and before[d] <= {*order}]
            if not ready:
                return None
            order.append(ready[0])
        return order if order[0] else None

    def outermost_first(self, value: Value, dims: Sequence[int]) -> list[int]:
        """The names `dims` of a value's dimensions, largest stride first, without stride 0."""
        if value not in self.strides:
            self.strides[value] = _strides(value, self.definitions)
        found = [(step, d) for step, d in zip(self.strides[value], dims, strict=True) if step]
        return [d for _, d in sorted(found, reverse=True)]


def _strides(value: Value, definitions: Definitions) -> list[int]:
    """The absolute strides of a value's dimensions in the memory that it is a view of."""
    bounds = [(0, size) for size in value.shape]
    index, source = identity(len(bounds)), value
    while source.node is not None:
        look = definitions.of(source.node)
        inside = look.into(index, bounds) if isinstance(look, Look) else None
        if inside is None:
            break
        assert isinstance(look, Look)
        index, source = inside, look.source
    strides = flat(index, row_major(source.shape)).coefficients(len(bounds))
    return [abs(int(step)) for step in strides]
