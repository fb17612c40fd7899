"""One walk over a graph from the first node to the last that replaces values by others.

A rule gets a node whose inputs have been rewritten, and returns replacements of its outputs, or
None. It adds nodes before the given one. The time of a walk is linear in the size of the graph.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from adjoint.graph import typing
from adjoint.graph.facts import acts
from adjoint.graph.ir import Constant, Graph, Node, Type, Value, substitute
from adjoint.ops.operator import Operator, operator

Rule = Callable[["Rewriter", Node], Any]


class Rewriter:
    """Applies a rule to the nodes of a graph; the rule adds nodes in front of the current one."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.replaced: dict[Value, Any] = {}
        self.node: Node | None = None
        self.changes = 0

    def run(self, rule: Rule) -> Graph:
        """Walk and replace values everywhere.

        `eliminate_dead` removes nodes that are then unused. A replaced node that draws or prints is
        removed at once, since it would do so in addition to its replacement.
        """
        graph, replaced = self.graph, self.replaced
        gone: list[Node] = []
        with graph.inserting_before(graph.first):
            for node in graph.nodes:
                if replaced and not replaced.keys().isdisjoint(node.inputs()):
                    node.set_args(substitute(node.args, lambda v: replaced.get(v, v)))
                    _forget_gradients(node)
                self.node = graph.point = node
                new = rule(self, node)
                if new is not None:
                    self.changes += 1
                    made = new if isinstance(new, (tuple, list)) else (new,)
                    replaced.update(zip(node.outputs, made, strict=True))
                    gone += [node] if acts(node) else []
        if replaced:
            graph.edits += 1
            outputs = graph.outputs
            graph.outputs = [replaced.get(o, o) if isinstance(o, Value) else o for o in outputs]
        for node in gone:
            graph.remove(node)
        return graph

    def call(self, name: str, *args: Any) -> Value:
        """The result of an operator such as 'mul.Tensor', with its leading arguments."""
        stem, _, overload = name.partition(".")
        op = operator(stem, "" if overload == "default" else overload)
        full = args + tuple(a.default for a in op.schema.arguments[len(args) :])
        _, types = typing.known_types(op, full)
        return self.put(op, full, types).outputs[0]

    def constant(self, tensor: Any) -> Value:
        """A tensor as a value."""
        return self.put(Constant(tensor), (), (Type.of(tensor),)).outputs[0]

    def put(self, op: Any, args: tuple[Any, ...], types: Any) -> Node:
        made = self.graph.add(op, args, types)
        if self.node is not None:
            made.place, made.block = self.node.place, self.node.block
        return made


def _forget_gradients(node: Node) -> None:
    """Remove requires_grad from results if no input requires a gradient any more."""
    if not isinstance(node.op, Operator) or not any(v.type.requires_grad for v in node.outputs):
        return
    if not typing.needs_gradient(node.op.row, node.args):
        for value in node.outputs:
            value.retype(Type(value.shape, value.dtype))


def inner_graphs(graph: Graph, run: Callable[[Graph], Graph]) -> None:
    """Run a pass on the graphs inside nodes; their inputs and outputs stay."""
    if not graph.nests:
        return
    for node in graph.nodes:
        for inner in node.graphs.values():
            run(inner)
