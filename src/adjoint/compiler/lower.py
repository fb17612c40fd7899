"""Lowering: a graph in terms of what the compiler knows, and what each value is in memory.

Nodes that have no native form are decomposed while they have a decomposition; what is left over
calls back to its
eager kernel. A view becomes an `Access`: the buffer it looks into, an offset and strides.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from adjoint.compiler.c.expressions import C_TYPES, COMBINE, EXPRESSIONS
from adjoint.graph.ir import Constant, Graph, Node, Region, Signature, Value, substitute
from adjoint.graph.trace import TraceLevel
from adjoint.ops.operator import operator
from adjoint.tensor import binding
from adjoint.tensor.tensor import make

REDUCTIONS = frozenset(
    f"{name}.{overload}"
    for name, overload in (
        ("sum", "default"),
        ("sum", "dim_IntList"),
        ("mean", "default"),
        ("mean", "dim"),
        ("amax", "default"),
        ("amin", "default"),
    )
)


_PLACEHOLDER = re.compile(r"{(\w+)}")


@dataclass(frozen=True)
class Access:
    """Where the elements of a value are."""

    root: Value  # the value whose buffer it is
    offset: int  # in elements
    strides: tuple[int, ...]  # in elements, one for each dimension of the value
    steps: tuple[
        tuple[int, int], ...
    ] = ()  # (depth of a loop over time, elements to go on in each of its steps)


def is_native_type(value: Value) -> bool:
    """Whether the compiler has a C type for a value."""
    return value.dtype.name in C_TYPES


def is_pointwise(node: Node) -> bool:
    """Whether a node is an expression of its elements."""
    if (
        isinstance(node.op, (Constant, Region))
        or node.name not in EXPRESSIONS
        or len(node.outputs) != 1
    ):
        return False
    if not all(is_native_type(v) for v in (*node.inputs(), *node.outputs)):
        return False
    given = {n for n, a in zip(node.op.schema.names, node.args, strict=True) if a is not None}
    if not operands_of(node) <= given:
        return False
    integers = any(not v.dtype.is_differentiable and v.dtype.name != "bool" for v in node.outputs)
    return not (integers and node.op.row.archetype.to_float)


def operands_of(node: Node) -> set[str]:
    """The arguments that the expression of a node reads."""
    return set(_PLACEHOLDER.findall(EXPRESSIONS[node.name])) - {"f"}


def is_reduction(node: Node) -> bool:
    """Whether a node sums or compares elements over dimensions."""
    if isinstance(node.op, (Constant, Region)) or node.name not in REDUCTIONS:
        return False
    source = next(node.inputs())
    return (
        source.dtype.is_floating_point
        and is_native_type(source)
        and node.output.dtype is source.dtype
        and source.shape != ()
    )


def reduction_kind(node: Node) -> str:
    """'sum', 'mean', 'amax', 'amin'."""
    name = node.name.split(".")[0]
    assert name in COMBINE
    return name


def is_fill(node: Node) -> bool:
    """Whether a node makes a tensor of one number."""
    return fill_value(node) is not None


def fill_value(node: Node) -> Any:
    """The number of ones, zeros, full and their kin; None for anything else."""
    if isinstance(node.op, (Constant, Region)) or not is_native_type(node.outputs[0]):
        return None
    name = node.op.name
    if name in ("zeros", "zeros_like", "new_zeros", "_efficientzerotensor"):
        return 0.0
    if name in ("ones", "ones_like", "new_ones"):
        return 1.0
    if name in ("full", "full_like", "new_full", "scalar_tensor"):
        named = dict(zip(node.op.schema.names, node.args, strict=True))
        value = named.get("fill_value", named.get("s"))
        return value if isinstance(value, (int, float)) else None
    return None


def expand_decompositions(graph: Graph) -> Graph:
    """Replace nodes without a native form by their decompositions, until nothing changes."""
    level = TraceLevel(Graph(Signature(name=graph.signature.name)))
    with level:
        here: dict[Value, Any] = {
            v: level.lift(level.graph.add_input(v.type, v.name)) for v in graph.inputs
        }
        for node in graph.nodes:
            _lower_node(level, node, here)
        level.graph.outputs = [here[o].value if isinstance(o, Value) else o for o in graph.outputs]
    return level.graph


def _lower_node(level: TraceLevel, node: Node, here: dict[Value, Any]) -> None:
    keep = (
        isinstance(node.op, (Constant, Region))
        or is_pointwise(node)
        or is_reduction(node)
        or is_fill(node)
    )
    smaller = None if keep else _smaller(node)
    if smaller is None:
        args = substitute(node.args, lambda v: level.value(here[v]))
        graphs = {k: g.clone() for k, g in node.graphs.items()}
        made = level.graph.add(node.op, args, [v.type for v in node.outputs], graphs=graphs)
        made.place = node.place
        here.update(zip(node.outputs, map(level.lift, made.outputs), strict=True))
        return
    inner = TraceLevel(Graph())
    with inner:
        given: dict[Value, Any] = {}
        for value in dict.fromkeys(node.inputs()):
            given[value] = inner.lift(inner.graph.add_input(value.type, value.name))
        result = smaller(*[_traced(a, given) for a in node.args])
        results = list(result) if isinstance(result, (tuple, list)) else [result]
        inner.graph.outputs = [inner.value(r) for r in results]
    mapping = {new.value: here[old] for old, new in given.items()}
    for part in inner.graph.nodes:
        _lower_node(level, part, mapping)
    here.update(zip(node.outputs, (mapping[o] for o in inner.graph.outputs), strict=True))


def _smaller(node: Node) -> Callable[..., Any] | None:
    """A function that does what a node does by smaller operators; None where it stays."""
    row = node.op.row
    if node.name in _PRODUCTS and _multiplications(node) <= _SMALL_PRODUCT:
        return _product
    return None if row.schema.is_view or not row.decompose else binding.decomposition(row)


_PRODUCTS = frozenset(("mm.default", "bmm.default", "mv.default", "dot.default", "matmul.default"))
_SMALL_PRODUCT = 1 << 12  # multiplications up to which a loop beats a call of BLAS


def _multiplications(node: Node) -> float:
    a, b = node.args[:2]
    if not (a.dtype.is_floating_point and is_native_type(a) and a.shape and b.shape):
        return math.inf
    return math.prod(node.output.shape) * a.shape[-1]


def _product(a: Any, b: Any) -> Any:
    """a @ b as a sum of products, which fuses with its neighbours."""
    if b.ndim == 1:
        return (a * b).sum(-1)
    columns = b.transpose(-1, -2)
    if a.ndim == 1:
        return (columns * a).sum(-1)
    return (a.unsqueeze(-2) * columns.unsqueeze(-3)).sum(-1)


def _traced(argument: Any, here: dict[Value, Any]) -> Any:
    if isinstance(argument, Value):
        return here[argument]
    if isinstance(argument, tuple) and any(isinstance(a, Value) for a in argument):
        return [_traced(a, here) for a in argument]
    return argument


def contiguous(value: Value) -> Access:
    """The access of a value in a buffer of its own."""
    strides, step = [], 1
    for size in reversed(value.shape):
        strides.append(step)
        step *= size
    return Access(value, 0, tuple(reversed(strides)))


def may_be_view(node: Node) -> bool:
    """Whether a node may give another look at the elements of its one input."""
    if isinstance(node.op, (Constant, Region)) or not (
        node.op.row.schema.is_view or node.op.name == "_unreduce"
    ):
        return False
    inputs = list(node.inputs())
    return len(inputs) == 1 and all(v.dtype is inputs[0].dtype for v in node.outputs)


def view_accesses(node: Node, access: Access) -> list[Access] | None:
    """The accesses of views, found by running the kernel on an array of the source's geometry;
    None: not views.
    """
    inputs = list(node.inputs())
    if node.name == "flip.default":
        return [_flipped(inputs[0], access, node.args[1])]
    if not may_be_view(node):
        return None
    root = np.empty(access.root.shape, access.root.dtype.np)
    if root.size == 0:
        return None
    itemsize = root.itemsize
    strides = tuple(s * itemsize for s in access.strides)
    source = np.ndarray(inputs[0].shape, root.dtype, root, access.offset * itemsize, strides)
    result = node.op.parts.compute(
        *[make(source) if isinstance(a, Value) else a for a in node.args]
    )
    results = result if isinstance(result, (list, tuple)) else [result]
    found = []
    for array, value in zip(results, node.outputs, strict=True):
        if (
            not np.may_share_memory(array, root)
            or array.shape != value.shape
            or array.dtype != root.dtype
        ):
            return None
        found.append(_access_of(array, root, access))
    return found


def _access_of(array: Any, room: Any, access: Access) -> Access:
    """Where an array lies in the memory of another."""
    address = array.__array_interface__["data"][0] - room.__array_interface__["data"][0]
    strides = tuple(s // room.itemsize for s in array.strides)
    return Access(access.root, address // room.itemsize, strides, access.steps)


def _flipped(value: Value, access: Access, dims: tuple[int, ...]) -> Access:
    """Walk some dimensions backwards."""
    strides, offset = list(access.strides), access.offset
    for d in dims:
        offset += (value.shape[d] - 1) * strides[d] if value.shape[d] else 0
        strides[d] = -strides[d]
    return Access(access.root, offset, tuple(strides), access.steps)


def writes(node: Node) -> list[tuple[Value, Access]] | None:
    """A node that only puts its inputs into places of its output: what goes where, in order. None:
    another node.
    """
    if isinstance(node.op, (Constant, Region)) or not all(
        map(is_native_type, (*node.inputs(), *node.outputs))
    ):
        return None
    if (
        any(v.dtype is not node.outputs[0].dtype for v in node.inputs())
        or 0 in node.outputs[0].shape
    ):
        return None
    if node.name == "cat.default":
        return _joined(node)
    base, _, ending = node.op.name.rpartition("_")
    if (
        ending != "scatter"
        or base not in ("slice", "select", "diagonal")
        or node.name.partition(".")[2] != "default"
    ):
        return None
    whole, part, *rest = node.args
    room = np.empty(whole.shape, whole.dtype.np)
    view = operator(base, _VIEW_OVERLOADS.get(base, "")).parts.compute(make(room), *rest)
    full = contiguous(node.output)
    return [(whole, full), (part, _access_of(view, room, full))]


_VIEW_OVERLOADS = {"slice": "Tensor", "select": "int"}


def _joined(node: Node) -> list[tuple[Value, Access]] | None:
    tensors, dim = node.args
    full = contiguous(node.output)
    if any(len(v.shape) != len(node.output.shape) for v in tensors):
        return None  # PyTorch lets an empty vector stand among tensors of any rank
    place, found = 0, []
    for value in tensors:
        found.append((value, Access(node.output, place * full.strides[dim], full.strides)))
        place += value.shape[dim]
    return found
