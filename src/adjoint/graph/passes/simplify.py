"""Algebraic simplification, one rule per function with a docstring `before -> after`.

Rules change values by rounding at most, including infinities and NaN: x * 0 is not 0 for a float.
`BY_FACT` and `RULES` list the rules for an operator. `uniform.py` finds the values that have one
number everywhere, such as those that start a backward.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from adjoint.core.remembering import remembered
from adjoint.core.shapes import wrap_dims
from adjoint.core.symbolic_sizes import is_for_many
from adjoint.graph.facts import argument, filled, is_call, keeps_order, reads_memory
from adjoint.graph.ir import Graph, Node, Value
from adjoint.graph.passes import parts
from adjoint.graph.passes.dead_code import eliminate_dead
from adjoint.graph.passes.rewriting import Rewriter, inner_graphs
from adjoint.graph.passes.sink_where import masked
from adjoint.graph.passes.uniform import Uniform
from adjoint.ops.operator import Operator
from adjoint.table.rows import Row
from adjoint.tensor.modes import no_grad
from adjoint.tensor.tensor import make

_ROUNDS = 4  # rounds: the results of one are simplified in the next


def simplify_algebra(graph: Graph) -> Graph:
    """Apply the rules until nothing changes."""
    inner_graphs(graph, simplify_algebra)
    for _ in range(_ROUNDS):
        rewriter = _Simplifier(graph)
        rewriter.run(_simplified)
        if not rewriter.changes:
            graph.settle(simplify_algebra)
            break
        eliminate_dead(graph)  # otherwise replaced nodes are replaced again in every round
    return graph


class _Simplifier(Rewriter):
    """A rewriter that knows the values with one number everywhere."""

    def __init__(self, graph: Graph) -> None:
        super().__init__(graph)
        self.uniform = Uniform()
        self.outputs = {o for o in graph.outputs if isinstance(o, Value)}

    def filled(self, number: Any, like: Value) -> Value:
        """A value with `number` everywhere, of the shape and dtype of `like`."""
        options = (like.dtype, None, None, None)
        if number == 0:
            return self.call("zeros.default", like.shape, *options)
        if number == 1:
            return self.call("ones.default", like.shape, *options)
        return self.call("full.default", like.shape, number, *options)


def _simplified(rewriter: Any, node: Node) -> Any:
    if not isinstance(node.op, Operator):
        rewriter.uniform.note(node)
        return None
    number = rewriter.uniform.note(node)
    if number is not None and node.op.schema.tensors:  # a node without tensors is a fill already
        return rewriter.filled(number, node.outputs[0])
    for rule in _rules_of(node.op):
        new = rule(rewriter, node)
        if new is not None and new.type == node.outputs[0].type:
            return new
    return None


# --- arithmetic -----------------------------------------------------------------------------------


def _is(rewriter: Any, value: Any, number: float) -> bool:
    return not isinstance(value, bool) and rewriter.uniform.of(value) == number


def drop_identity(rewriter: Any, node: Node) -> Any:
    """x * 1 -> x,  n + 0 -> n,  x + (-0.0) -> x,  x ** 1 -> x; but -0.0 + 0.0 is 0.0"""
    row = node.op.row
    for name, number in row.identities.items():
        value = argument(node, name)
        if not _is(rewriter, value, number) or not _scales_by_one(node, name):
            continue
        other = next(argument(node, a.name) for a in row.schema.tensors if a.name != name)
        real = node.outputs[0].dtype.is_differentiable
        same = not real or _is_negative(rewriter.uniform.of(value)) == _is_negative(number)
        if same and isinstance(other, Value):
            return other
    return None


def _scales_by_one(node: Node, name: str) -> bool:
    """Whether the remaining operand is not multiplied by alpha, as b is in a + alpha * b."""
    scaled = "alpha" in node.op.schema.names and name == "self"
    return not scaled or argument(node, "alpha") == 1


def _is_negative(number: Any) -> bool:
    return math.copysign(1, number) < 0 if isinstance(number, float) else False


def name_fill(rewriter: Any, node: Node) -> Any:
    """full(s, 0) -> zeros(s),  full(s, 1) -> ones(s): equal tensors by one name"""
    number = filled(node)
    if type(number) in (int, float) and number in (0, 1) and not _is_negative(number):
        return rewriter.filled(number, node.outputs[0])
    return None


def multiply_by_zero(rewriter: Any, node: Node) -> Any:
    """n * 0 -> 0 for whole numbers; a float may be infinite or NaN"""
    out = node.outputs[0]
    if out.dtype.is_differentiable or not any(_is(rewriter, a, 0) for a in node.args[:2]):
        return None
    return rewriter.filled(0, out)


def undo_twice(rewriter: Any, node: Node) -> Any:
    """-(-x) -> x,  conj(conj(x)) -> x,  x.t().t() -> x"""
    inner = node.args[0]
    return inner.node.args[0] if is_call(inner, node.op.name) else None


def same_choice(rewriter: Any, node: Node) -> Any:
    """where(c, x, x) -> x"""
    if node.name != "where.self":
        return None
    _, chosen, other = node.args
    return chosen if chosen is other else None


def compare_mask(rewriter: Any, node: Node) -> Any:
    """where(c, 1, 0) == 0 -> ~c,  where(c, 1, 0) != 0 -> c"""
    found = masked(node.args[0]) if len(node.args) == 2 else None
    if found is None or isinstance(node.args[1], Value):
        return None
    condition, kept, keeps_true = found
    number = rewriter.uniform.of(kept)
    if number is None or condition.shape != node.outputs[0].shape:
        return None
    with no_grad():
        inside, outside = (bool(node.op(make(np.array(n)), node.args[1])) for n in (number, 0))
    if inside == outside:
        return rewriter.filled(inside, node.outputs[0])
    return condition if inside == keeps_true else rewriter.call("logical_not.default", condition)


def mask_twice(rewriter: Any, node: Node) -> Any:
    """where(c, where(c, x, 0), 0) -> where(c, x, 0)"""
    outer = masked(node.outputs[0])
    inner = None if outer is None else masked(outer[1])
    if outer is None or inner is None or (outer[0], outer[2]) != (inner[0], inner[2]):
        return None
    return outer[1]


# --- shapes ---------------------------------------------------------------------------------------


def undo_transpose(rewriter: Any, node: Node) -> Any:
    """x.transpose(a, b).transpose(b, a) -> x"""
    inner, first, second = node.args
    if not is_call(inner, "transpose"):
        return None
    ndim = max(len(inner.shape), 1)
    source, a, b = inner.node.args
    return source if {first % ndim, second % ndim} == {a % ndim, b % ndim} else None


def join_permutes(rewriter: Any, node: Node) -> Any:
    """x.permute(p).permute(q) -> x.permute(p[q]),  x.permute(0, 1, …) -> x"""
    inner, dims = node.args
    ndim = len(node.outputs[0].shape)
    dims = tuple(d % ndim for d in dims)
    if dims == tuple(range(ndim)):
        return inner
    if not is_call(inner, "permute"):
        return None
    source, before = inner.node.args
    return rewriter.call("permute.default", source, tuple(before[d] % ndim for d in dims))


def transpose_product(rewriter: Any, node: Node) -> Any:
    """(a @ b).t() -> b.t() @ a.t(), whose result is row-major without a copy."""
    inner, dims = node.args
    made, ndim = inner.node, len(inner.shape)
    if made is None or not isinstance(made.op, Operator) or not made.op.row.is_product:
        return None
    if len(inner.uses) > 1 or inner in rewriter.outputs:
        return None
    a, b = made.args[:2]
    swapped = (*range(ndim - 2), ndim - 1, ndim - 2)
    if tuple(d % ndim for d in dims) != swapped or not len(a.shape) == len(b.shape) == ndim:
        return None
    return rewriter.call(made.name, *(rewriter.call("permute.default", v, swapped) for v in (b, a)))


def permute_parts(rewriter: Any, node: Node) -> Any:
    """cat([x, y], d).permute(p) -> cat([x.permute(p), y.permute(p)], p.index(d)): one copy"""
    inner, dims = node.args
    if not is_call(inner, "cat") or len(inner.uses) > 1 or inner in rewriter.outputs:
        return None
    parts, dim = inner.node.args
    ndim = len(inner.shape)
    if any(len(part.shape) != ndim for part in parts):
        return None  # cat leaves PyTorch's empty vectors out
    dims = tuple(d % ndim for d in dims)
    moved = tuple(rewriter.call("permute.default", part, dims) for part in parts)
    return rewriter.call("cat.default", moved, dims.index(dim % ndim))


def join_parts(rewriter: Any, node: Node) -> Any:
    """cat([x, nothing, y]) -> cat([x, y]),  cat([x]) -> x"""
    if is_for_many():
        return None
    parts, dim = node.args
    out = node.outputs[0]
    kept = tuple(part for part in parts if 0 not in part.shape)
    if any(part.dtype is not out.dtype for part in parts) or not kept:
        return None
    if len(kept) == 1:
        return kept[0] if kept[0].shape == out.shape else None
    return rewriter.call(node.name, kept, dim) if len(kept) < len(parts) else None


def join_reshapes(rewriter: Any, node: Node) -> Any:
    """x.reshape(s).reshape(r) -> x.reshape(r),  x.unsqueeze(0).squeeze(0) -> x

    A reshape that copies and has other uses stays, as the second reshape is a view of its copy.
    """
    source, out = node.args[0], node.outputs[0]
    chain = [source]
    while keeps_order(source):
        source = source.node.args[0]
        chain.append(source)
    if source.shape == out.shape:
        return source
    copies = (i for i, v in enumerate(chain) if len(v.uses) > 1 and _copies(v))
    source = chain[next(copies, -1)]
    joins = source is not node.args[0]
    return rewriter.call("reshape.default", source, out.shape) if joins else None


def _copies(value: Any) -> bool:
    """Whether a value is a reshape of elements that another view has reordered."""
    if value.node is None or not keeps_order(value):
        return False
    made = value.node.args[0].node
    return made is not None and isinstance(made.op, Operator) and made.op.row.moves == "elements"


def join_expands(rewriter: Any, node: Node) -> Any:
    """x.expand(same shape) -> x,  x.expand(s).expand(r) -> x.expand(r)"""
    inner, out = node.args[0], node.outputs[0]
    if inner.shape == out.shape:
        return inner
    return (
        rewriter.call("expand.default", inner.node.args[0], out.shape)
        if is_call(inner, "expand")
        else None
    )


def drop_copy(rewriter: Any, node: Node) -> Any:
    """x.clone() -> x,  x.alias() -> x; a result that is returned stays a tensor of its own"""
    copies = not node.op.schema.is_view
    if copies and any(reads_memory(user) for user in node.outputs[0].uses):
        return None
    return None if node.outputs[0] in rewriter.outputs else node.args[0]


def drop_cast(rewriter: Any, node: Node) -> Any:
    """x.to(its dtype) -> x,  x.to(wider).to(its dtype) -> x"""
    inner, out = node.args[0], node.outputs[0]
    if out in rewriter.outputs:
        return None
    if inner.dtype is out.dtype:
        return inner
    if is_call(inner, "_to_copy"):
        source = inner.node.args[0]
        if source.dtype is out.dtype and _holds(inner.dtype, source.dtype):
            return source
    return None


def _holds(wide: Any, narrow: Any) -> bool:
    """Whether every number of the narrow dtype is a number of the wide one."""
    floats = wide.category == narrow.category and wide.is_floating_point
    return floats and wide.itemsize > narrow.itemsize


def drop_detach(rewriter: Any, node: Node) -> Any:
    """x.detach().detach() -> x.detach()"""
    return node.args[0] if is_call(node.args[0], "detach") else None


# --- sums -----------------------------------------------------------------------------------------


def summed(node: Node) -> tuple[int, ...] | None:
    """The dimensions of a sum; None if it also converts."""
    if argument(node, "dtype") is not None or node.args[0].dtype is not node.outputs[0].dtype:
        return None
    dims = argument(node, "dim") if "dim" in node.op.schema.names else None
    return tuple(sorted(wrap_dims("sum", dims, len(node.args[0].shape))))


def sum_of_nothing(rewriter: Any, node: Node) -> Any:
    """x.sum(d) -> x.reshape(…), if dimension d has one element."""
    source, dims = node.args[0], summed(node)
    if dims is None or any(source.shape[d] != 1 for d in dims):
        return None
    out = node.outputs[0]
    return (
        source if source.shape == out.shape else rewriter.call("reshape.default", source, out.shape)
    )


def join_sums(rewriter: Any, node: Node) -> Any:
    """x.sum(a).sum(b) -> x.sum(a and b): chains from broadcasts undone twice."""
    inner, dims = node.args[0], summed(node)
    if dims is None or not is_call(inner, "sum") or len(inner.uses) > 1:
        return None
    first = summed(inner.node)
    if first is None:
        return None
    source = inner.node.args[0]
    keeps = len(inner.shape) == len(source.shape)
    places = (
        tuple(range(len(source.shape)))
        if keeps
        else tuple(d for d in range(len(source.shape)) if d not in first)
    )
    both = tuple(sorted({*first, *(places[d] for d in dims)}))
    total = rewriter.call("sum.dim_IntList", source, both, False, None) if both else source
    out = node.outputs[0]
    return total if total.shape == out.shape else rewriter.call("reshape.default", total, out.shape)


def sum_of_ones(rewriter: Any, node: Node) -> Any:
    """x.sum((0, 1), True) -> x.sum((1,), True), if x has one row."""
    inner, dims, out = node.args[0], summed(node), node.outputs[0]
    if dims is None or len(out.shape) != len(inner.shape) or out.dtype is not inner.dtype:
        return None
    kept = tuple(d for d in dims if inner.shape[d] != 1)
    if not kept or len(kept) == len(dims):
        return None
    return rewriter.call("sum.dim_IntList", inner, kept, True, None)


def sum_of_expand(rewriter: Any, node: Node) -> Any:
    """x.expand(n, …).sum(0) -> x * n"""
    inner, dims, out = node.args[0], summed(node), node.outputs[0]
    if dims is None or not is_call(inner, "expand") or not out.dtype.is_differentiable:
        return None
    source = inner.node.args[0]
    lead = len(inner.shape) - len(source.shape)
    small = (1,) * lead + source.shape
    repeated = [d for d in dims if small[d] == 1 and inner.shape[d] != 1]
    count = math.prod(inner.shape[d] for d in repeated)
    if not repeated or not count:
        return None
    rest = tuple(d - lead for d in dims if d not in repeated and d >= lead)
    total = rewriter.call("sum.dim_IntList", source, rest, True, None) if rest else source
    remaining = [d for d in range(len(small)) if d not in dims]
    if any(small[d] != inner.shape[d] for d in remaining):
        return None  # it is repeated along other dimensions, too
    total = (
        total if total.shape == out.shape else rewriter.call("reshape.default", total, out.shape)
    )
    return rewriter.call("mul.Scalar", total, count)


Rule = Callable[[Any, Node], Any]
# rules by facts of an operator's row
BY_FACT: tuple[tuple[Callable[[Row], Any], tuple[Rule, ...]], ...] = (
    (lambda row: row.identities, (drop_identity,)),
    (lambda row: row.fills and not row.fills.isdigit(), (name_fill,)),
    (lambda row: row.undoes_itself, (undo_twice,)),
    (lambda row: row.archetype.result == "bool", (compare_mask,)),
    (lambda row: row.keeps_order, (join_reshapes,)),
    (lambda row: row.moves == "nothing" and row.differentiable, (drop_copy,)),
    (lambda row: row.reduces == "sum", (sum_of_nothing, sum_of_ones, sum_of_expand, join_sums)),
    (lambda row: row.overwrites, parts.WRITES),
    (lambda row: row.routine == "join", (join_parts,)),
    (lambda row: row.moves == "elements" and row.schema.is_view, parts.READS),
)
# rules by the name of an operator
RULES: dict[str, tuple[Rule, ...]] = {
    "mul": (multiply_by_zero,),
    "where": (same_choice, mask_twice),
    "masked_fill": (mask_twice,),
    "transpose": (undo_transpose,),
    "permute": (join_permutes, permute_parts, transpose_product),
    "expand": (join_expands,),
    "_to_copy": (drop_cast,),
    "detach": (drop_detach,),
    "slice": (parts.slice_that_is_all,),
    "copy": (parts.copy_of_all,),
}


@remembered
def _rules_of(op: Operator) -> tuple[Rule, ...]:
    """The rules for an operator, in the order of trial."""
    facts = (rule for holds, rules in BY_FACT if holds(op.row) for rule in rules)
    return (*facts, *RULES.get(op.name, ()))
