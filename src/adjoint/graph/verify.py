"""The rules of a legal graph: `verify(graph)` raises with the value and the rule that is broken.

1. A value is defined before it is used, in the same graph.
2. Use lists say who uses a value, and how often.
3. Names are unique.
4. Its operator is one of the table, and writes nothing. A node has as many arguments as its
   schema, of the right kinds.
5. The types of its results are those of the shape rule.
6. Outputs are values of the graph, or plain constants.
7. Links between nodes agree, and the count is right.
8. All this holds for the graphs inside nodes too.
"""

from __future__ import annotations

from typing import Any

from adjoint.core.errors import AdjointError
from adjoint.core.generator import Generator
from adjoint.graph import typing
from adjoint.graph.control.regions import TYPES
from adjoint.graph.ir import Constant, Graph, GraphError, Node, Region, Type, Value
from adjoint.ops.operator import Operator, operator
from adjoint.table.schema import Argument

_PLAIN = (bool, int, float, complex, str, type(None))


def verify(graph: Graph) -> Graph:
    """Return the graph if it is legal, else raise `GraphError`.

    >>> import adjoint as ad
    >>> ad.graph.verify(ad.trace(ad.sin, ad.ones(2)))
    <graph sin: 1 inputs, 1 nodes, 1 outputs>
    """
    _Checker(graph, graph.signature.name).check()
    return graph


class _Checker:
    """Checks one graph."""

    def __init__(self, graph: Graph, where: str) -> None:
        self.graph = graph
        self.where = where
        self.defined: set[Value] = set()
        self.names: set[str] = set()
        self.uses: dict[Value, dict[Node, int]] = {}

    def fail(self, value: Any, rule: str) -> None:
        subject = f"%{value.name}" if isinstance(value, Value) else str(value)
        raise GraphError(f"graph {self.where}: {subject}: {rule}")

    def check(self) -> None:
        for value in self.graph.inputs:
            if value.node is not None:
                self.fail(
                    value, f"is an input, and {value.node.name} makes it too; an input has no node"
                )
            self.define(value)
        before = None
        count = 0
        for node in self.graph.nodes:
            if node.preceding is not before or node.graph is not self.graph:
                self.fail(_title(node), "is linked wrongly: its neighbour or its graph is another")
            self.node(node)
            before = node
            count += 1
        if count != len(self.graph) or self.graph.last is not before:
            self.fail("nodes", f"{count} are linked, and the graph counts {len(self.graph)}")
        self.outputs()
        for value in self.defined:
            expected = self.uses.get(value, {})
            if value.uses != expected:
                self.fail(
                    value,
                    f"its use list says {_users(value.uses)}, and it is used by {_users(expected)}",
                )

    def define(self, value: Value) -> None:
        if value in self.defined:
            self.fail(value, "is defined twice")
        if value.name in self.names:
            self.fail(value, "has a name that another value has; names are unique")
        if not value.name.isidentifier():
            self.fail(value, "has a name that is no Python name")
        self.defined.add(value)
        self.names.add(value.name)

    def node(self, node: Node) -> None:
        for value in node.inputs():
            if value not in self.defined:
                self.fail(value, f"is used by {_title(node)} before it is defined in this graph")
            users = self.uses.setdefault(value, {})
            users[node] = users.get(node, 0) + 1
        for number, value in enumerate(node.outputs):
            if value.node is not node or value.number != number:
                self.fail(value, f"is result {number} of {node.name}, and says otherwise")
            self.define(value)
        for key, inner in node.graphs.items():
            _Checker(
                inner, f"{self.where}.{node.outputs[0].name if node.outputs else node.name}.{key}"
            ).check()
        if isinstance(node.op, Operator):
            self.call(node)
        elif isinstance(node.op, Constant):
            tensor = node.op.tensor
            if node.args or len(node.outputs) != 1 or Type.of(tensor).spec != node.output.type.spec:
                self.fail(
                    _title(node),
                    f"holds a tensor of type {Type.of(tensor)} and says {node.outputs}",
                )
        elif isinstance(node.op, Region):
            self.region(node)
        else:
            self.fail(
                _title(node),
                f"has {node.op!r} for an operator; it must be an Operator, a Region or a Constant",
            )

    def region(self, node: Node) -> None:
        if node.op.name not in TYPES:
            return
        types = TYPES[node.op.name](node)
        got, expected = [v.type.spec for v in node.outputs], [t.spec for t in types]
        if got != expected:
            self.fail(
                _title(node),
                f"has results {[str(v.type) for v in node.outputs]}, "
                f"its graphs give {[str(t) for t in types]}",
            )

    def call(self, node: Node) -> None:
        schema = node.op.schema
        if schema.mutates:
            self.fail(_title(node), "writes in place; a graph is functional")
        if operator(schema.name, schema.overload) is not node.op:
            self.fail(_title(node), "is not the table's operator of that name")
        if len(node.args) != len(schema.arguments):
            self.fail(
                _title(node),
                f"has {len(node.args)} arguments, and the schema {len(schema.arguments)}: {schema}",
            )
        for argument, value in zip(schema.arguments, node.args, strict=True):
            if not fits(argument, value):
                self.fail(
                    _title(node),
                    f"its argument {argument.name} is {value!r}, not a {argument.type}",
                )
        types = self.inferred(node)
        if len(types) != len(node.outputs):
            self.fail(
                _title(node),
                f"has {len(node.outputs)} results, and the shape rule gives {len(types)}",
            )
        for value, type in zip(node.outputs, types, strict=True):
            if (value.shape, value.dtype) != (type.shape, type.dtype):
                self.fail(
                    value, f"has type {value.type}, and the shape rule of {node.name} gives {type}"
                )
            if value.type.requires_grad and not type.requires_grad:
                self.fail(value, f"requires a gradient, and {node.name} passes none on")

    def inferred(self, node: Node) -> tuple[Type, ...]:
        try:
            return typing.known_types(node.op, node.args)[1]
        except AdjointError as error:
            self.fail(_title(node), f"the shape rule refuses its arguments: {error}")
            raise

    def outputs(self) -> None:
        for output in self.graph.outputs:
            if isinstance(output, Value):
                if output not in self.defined:
                    self.fail(output, "is an output, and not a value of this graph")
            elif not isinstance(output, _PLAIN):
                self.fail(repr(output), "is an output; outputs are values or plain numbers")
        signature = self.graph.signature
        if signature.outputs is not None and signature.outputs.num_leaves != len(
            self.graph.outputs
        ):
            self.fail(
                "outputs",
                f"there are {len(self.graph.outputs)}, "
                f"and the signature has {signature.outputs.num_leaves}",
            )
        if signature.inputs is not None:
            expected = signature.inputs.num_leaves - len(signature.static)
            if expected != len(self.graph.inputs):
                self.fail(
                    "inputs",
                    f"there are {len(self.graph.inputs)}, and the signature has {expected}",
                )


def _title(node: Node) -> str:
    return f"%{node.outputs[0].name} = {node.name}" if node.outputs else node.name


def _users(uses: dict[Node, int]) -> str:
    return ", ".join(f"{_title(n)} ({c}×)" for n, c in uses.items()) or "nobody"


def fits(argument: Argument, value: Any) -> bool:
    """Whether a value may be an argument in a graph."""
    kind = argument.type
    if value is None:
        return kind.is_optional
    if kind.is_tensor and kind.is_list:
        return isinstance(value, tuple) and all(
            isinstance(v, Value) or (v is None and kind.holds_none) for v in value
        )
    if kind.is_tensor:
        return isinstance(value, Value)
    if isinstance(value, Value) or (
        isinstance(value, tuple) and any(isinstance(v, Value) for v in value)
    ):
        return False
    if kind.base == "Generator":
        return isinstance(value, Generator)
    if kind.base == "int":
        return isinstance(value, tuple) == kind.is_list and all(
            type(v) is int for v in (value if kind.is_list else (value,))
        )
    return True
