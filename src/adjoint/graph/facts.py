"""Facts about nodes: whether they are random or have effects, and their arguments by name."""

from __future__ import annotations

from typing import Any

from adjoint.core.dtypes import DType
from adjoint.core.generator import default_generator
from adjoint.core.shapes import Spec
from adjoint.graph.ir import Constant, Graph, Node, Region, Value
from adjoint.ops.operator import Operator


def is_random(node: Node) -> bool:
    """Whether running a node twice differs from running it once; also for a region with such a
    node.

    Such a node draws random numbers or has an effect.
    """
    if isinstance(node.op, Operator):
        return node.op.row.random
    if isinstance(node.op, Region):
        if node.op.effect or node.op.stream:
            return True
        if node.op.draws is not None:
            return bool(node.op.draws(node)) or has_effect(node)
    return any(is_random(inner) for graph in node.graphs.values() for inner in graph.nodes)


def acts(node: Node) -> bool:
    """Whether a node must run even if unused: other draws or prints depend on it."""
    return is_random(node) and not (isinstance(node.op, Region) and node.op.stream == "read")


def generators(graph: Graph) -> list[Any]:
    """The generators from which a graph draws, each once; None is the default one."""
    found = (g for node in graph.nodes for g in drawn_by(node))
    return list({id(g): g for g in found}.values())


def drawn_by(node: Node) -> list[Any]:
    """The generators from which a node draws, or whose state it reads."""
    if isinstance(node.op, Operator):
        if not node.op.row.random:
            return []
        names = [a.name for a in node.op.schema.arguments if a.type.base == "Generator"]
        given = argument(node, names[0]) if names else None
        return [None if given is default_generator else given]
    if isinstance(node.op, Region):
        if node.op.stream:
            return list(node.args)
        if node.op.draws is not None:
            return node.op.draws(node)
    return [g for inner in node.graphs.values() for g in generators(inner)]


def has_effect(node: Node) -> bool:
    """Whether a node, or a node in its graphs, has an effect, such as printing."""
    return (isinstance(node.op, Region) and node.op.effect) or any(
        has_effect(inner) for graph in node.graphs.values() for inner in graph.nodes
    )


def is_view(node: Node) -> bool:
    """Whether the results share memory with an input."""
    return isinstance(node.op, Operator) and node.op.schema.is_view


def is_call(value: Any, name: str) -> bool:
    """Whether a value is the result of an operator of this name, in any overload."""
    return isinstance(value, Value) and value.node is not None and value.node.op.name == name


def keeps_order(value: Any) -> bool:
    """Whether a value has all elements of another value in the same order."""
    node = value.node if isinstance(value, Value) else None
    return node is not None and isinstance(node.op, Operator) and node.op.row.keeps_order


def reads_memory(node: Node) -> bool:
    """Whether the results depend on the strides of an input."""
    return isinstance(node.op, Operator) and node.op.row.reads_memory


def argument(node: Node, name: str) -> Any:
    """An argument by its name in the schema."""
    return node.args[node.op.schema.names.index(name)]


def filled(node: Node) -> Any:
    """The number that fills a result, if the row says so, else None."""
    fills = node.op.row.fills if isinstance(node.op, Operator) else ""
    if not fills:
        return None
    return int(fills) if fills.isdigit() else argument(node, fills)


def constant_of(value: Any) -> Any:
    """The tensor of a constant; None for other values."""
    if isinstance(value, Value) and value.node is not None and isinstance(value.node.op, Constant):
        return value.node.op.tensor
    return None


def may_give_up(graph: Graph) -> bool:
    """Whether a call of a graph's program may be given up and run eagerly.

    The graph factors matrices whose values may repeat (column `fan`), or requires that no root is
    0.
    """
    return any(
        (isinstance(node.op, Operator) and ("fan" in node.op.row.texts or node.op.row.requires))
        or any(map(may_give_up, node.graphs.values()))
        for node in graph.nodes
    )


def computes_in(node: Node) -> DType | None:
    """The dtype to which an elementwise node converts its operands; None for other nodes."""
    assert isinstance(node.op, Operator)
    row = node.op.row
    given = [Spec(a.shape, a.dtype) if type(a) is Value else a for a in node.args]
    return row.computes_in(dict(zip(row.schema.names, given, strict=True)))
