"""Lifting constants: tensors that a traced function found outside its arguments become inputs.

Parameters that a function closes over are then arguments of each call, and can be differentiated.
"""

from __future__ import annotations

from typing import Any

from adjoint.core import pytrees
from adjoint.graph.ir import Constant, Graph


def lift_constants(graph: Graph, *, smallest: int = 0) -> tuple[Graph, list[Any]]:
    """Return the graph with constants of at least `smallest` elements as inputs, and their tensors.

    The new inputs come first, as one list: f(x) -> f([constants], x). The graph is edited in place.
    """
    lifted = [
        node
        for node in graph.nodes
        if isinstance(node.op, Constant) and node.op.tensor.numel() >= smallest
    ]
    tensors = [node.op.tensor for node in lifted]
    values = []
    for node in lifted:
        value = graph.add_input(node.output.type, node.output.name)
        graph.replace_uses(node.output, value)
        graph.remove(node)
        values.append(value)
    graph.inputs = values + graph.inputs[: len(graph.inputs) - len(values)]
    signature = graph.signature
    if signature.inputs is not None:
        args, named = pytrees.unflatten(signature.inputs, list(range(signature.inputs.num_leaves)))
        signature.inputs = pytrees.structure(((list(range(len(values))), *args), named))
        signature.static = {k + len(values): v for k, v in signature.static.items()}
    signature.names = (*(f"constants[{i}]" for i in range(len(values))), *signature.names)
    return graph, tensors
