"""Absent gradients: a backward for the case that some of its incoming gradients are zero.

Every value that depends on gradients is linear in them. So a node whose gradients are all absent
gives zero, and a sum with one absent term is the other term.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from adjoint.graph.ir import Graph, Node, Signature, Value, substitute
from adjoint.ops.operator import operator


def without_absent(df: Graph, gradients: Collection[int], absent: Collection[int]) -> Graph:
    """df(g, h, x) -> df(g, x) if h is absent.

    `gradients` and `absent` are positions of inputs. A zero output becomes None.
    """
    return _Propagation(df, gradients, absent).run()


class _Propagation:
    def __init__(self, graph: Graph, gradients: Collection[int], absent: Collection[int]) -> None:
        self.graph = graph
        self.made = Graph(Signature(name=graph.signature.name))
        self.gone = {graph.inputs[i] for i in absent}
        self.dependent = {graph.inputs[i] for i in gradients}  # values linear in the gradients
        self.here: dict[Value, Any] = {
            v: self.made.add_input(v.type, v.name) for v in graph.inputs if v not in self.gone
        }

    def run(self) -> Graph:
        for node in self.graph.nodes:
            self._pass(node)
        self.made.outputs = [
            (None if o in self.gone else self.here[o]) if isinstance(o, Value) else o
            for o in self.graph.outputs
        ]
        return self.made

    def _pass(self, node: Node) -> None:
        gradients = [v for v in node.inputs() if v in self.dependent]
        self.dependent.update(node.outputs if gradients else ())
        missing = [v for v in gradients if v in self.gone]
        if missing and len(missing) == len(gradients):
            self.gone.update(node.outputs)
        elif missing and (other := self._other_term(node)) is not None:
            self.here[node.output] = other
        elif missing and node.op.name == "scan":
            self._scan(node)
        else:
            self._copy(node, node.args, {k: g.clone() for k, g in node.graphs.items()})

    def _other_term(self, node: Node) -> Any:
        """The present term of a sum of two gradients; None if the node is no such sum."""
        if node.op is not operator("add", "Tensor"):
            return None
        left, right, alpha = node.args
        present = right if left in self.gone else left
        return self.here[present] if alpha == 1 and present.type == node.output.type else None

    def _scan(self, node: Node) -> None:
        """Copy a loop without its absent constants and rows."""
        constants, start, xs, *rest = node.args
        operands = [*constants, *start, *xs]
        carried = range(len(constants), len(constants) + len(start))
        absent = [i for i, v in enumerate(operands) if v in self.gone and i not in carried]
        # a carry that starts with zeros may become nonzero
        dependent = [i for i, v in enumerate(operands) if v in self.dependent or i in carried]
        propagation = _Propagation(node.graphs["body"], dependent, absent)
        body = propagation.run()
        zeros = zip(node.graphs["body"].outputs, body.outputs, strict=True)
        body.outputs = [propagation.zeros(old) if new is None else new for old, new in zeros]
        first, last = (tuple(v for v in g if v not in self.gone) for g in (constants, xs))
        self._copy(node, (first, start, last, *rest), {"body": body})

    def _copy(self, node: Node, args: tuple[Any, ...], graphs: dict[str, Graph]) -> None:
        types = [v.type for v in node.outputs]
        copied = self.made.add(node.op, substitute(args, self._value), types, graphs=graphs)
        copied.block, copied.place = node.block, node.place
        self.here.update(zip(node.outputs, copied.outputs, strict=True))

    def _value(self, value: Value) -> Any:
        if value not in self.here:
            self.here[value] = self.zeros(value)
        return self.here[value]

    def zeros(self, value: Value) -> Value:
        args = (value.shape, value.dtype, None, None, None)
        return self.made.add(operator("zeros"), args, (value.type,)).output
