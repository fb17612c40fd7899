"""The interpreter: runs a graph on tensors node by node, and drops each value after its last use.

It calls operators as a user would, so a graph runs under every transform, and eager tensors get
gradients through it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from adjoint.calls.methods import as_tensor
from adjoint.core import pytrees
from adjoint.core.dtypes import DType
from adjoint.core.errors import ArgumentError, DtypeError, ShapeError
from adjoint.core.generator import Generator, default_generator, drawing_again
from adjoint.core.promotion import python_number
from adjoint.core.shapes import show
from adjoint.core.source_lines import inherited
from adjoint.graph.ir import Constant, Graph, Node, Region, Value
from adjoint.tensor.tensor import Tensor


def run(graph: Graph, *args: Any, **keywords: Any) -> Any:
    """Call a graph as the function that it was traced from.

    `generator=` says where random numbers come from, unless the function has such an argument.
    """
    signature = graph.signature
    generator = None
    if signature.inputs is None:
        generator = keywords.pop("generator", None)
        if keywords:
            raise ArgumentError(f"{signature.name}() has no argument {next(iter(keywords))!r}")
        leaves = list(args)
        names = [v.name for v in graph.inputs]
        if len(leaves) != len(names):
            raise ArgumentError(
                f"{signature.name}() takes {len(names)} tensors ({', '.join(names)}), "
                f"got {len(leaves)}"
            )
    else:
        if "generator" in keywords and "generator" not in (signature.inputs.children[1].data or ()):
            generator = keywords.pop("generator")
        leaves = _leaves(signature, args, keywords)
    values = [_checked(graph, v, i) for i, v in enumerate(leaves)]
    outputs = (
        run_flat(graph, values) if generator is None else _drawing_from(generator, graph, values)
    )
    if signature.outputs is None:
        return outputs[0] if len(outputs) == 1 else tuple(outputs)
    return pytrees.unflatten(signature.outputs, outputs)


def _leaves(signature: Any, args: tuple[Any, ...], keywords: dict[str, Any]) -> list[Any]:
    expected = signature.inputs.children[0].num_leaves, len(signature.inputs.children[0].children)
    if len(args) != expected[1]:
        raise ArgumentError(
            f"{signature.name}() was traced with {expected[1]} positional arguments, "
            f"got {len(args)}"
        )
    leaves = pytrees.flatten_up_to(
        signature.inputs, (args, keywords), what=signature.name, root="arguments"
    )
    kept = []
    for number, leaf in enumerate(leaves):
        if number in signature.static:
            wanted = signature.static[number]
            if not (leaf is wanted or (type(leaf) is type(wanted) and leaf == wanted)):
                raise ArgumentError(
                    f"{signature.name}() was traced with {wanted!r} for its argument {number}, "
                    f"got {leaf!r}; trace it again, or pass a tensor in both calls"
                )
        else:
            kept.append(leaf)
    return kept


def _checked(graph: Graph, value: Any, number: int) -> Tensor:
    """An argument as a tensor, checked to have the type of the graph's input."""
    wanted = graph.inputs[number]
    names = graph.signature.names
    name = names[number] if number < len(names) else wanted.name
    if not isinstance(value, Tensor):
        if not isinstance(value, (bool, int, float, complex, np.ndarray, np.generic)):
            raise ArgumentError(
                f"{graph.signature.name}(): {name} must be a tensor, got {type(value).__name__}"
            )
        value = as_tensor(value) if isinstance(value, np.ndarray) else _number(value, wanted.dtype)
    if tuple(value.shape) != wanted.shape:
        raise ShapeError(
            f"{graph.signature.name}(): {name} has shape {show(value.shape)}, and the graph is for "
            f"{show(wanted.shape)}; trace it again"
        )
    if value.dtype is not wanted.dtype:
        raise DtypeError(
            f"{graph.signature.name}(): {name} is {value.dtype.name}, and the graph is for "
            f"{wanted.dtype.name}; convert it, or trace again"
        )
    return value


def _number(value: Any, dtype: DType) -> Tensor:
    """A number as an input of this dtype; also NumPy's longdouble, which no tensor has."""
    return as_tensor(python_number(value) if isinstance(value, np.generic) else value, dtype)


def _drawing_from(generator: Generator, graph: Graph, values: list[Any]) -> list[Any]:
    """Run with the default generator in the state of another one, and advance that other one."""
    state = generator.get_state()
    try:
        with drawing_again([None], [state]):
            try:
                return run_flat(graph, values)
            finally:
                state = default_generator.get_state()
    finally:
        generator.set_state(state)


def run_flat(
    graph: Any, values: Sequence[Any], observer: Callable[[Node], None] | None = None
) -> list[Any]:
    """Run on one tensor per input, unchecked; return one result per output.

    `observer` is called with each node before it runs.
    """
    if not isinstance(graph, Graph):  # a Python function in place of a graph, in printed text
        result = graph(*values)
        return list(result) if isinstance(result, tuple) else [result]
    known: dict[Value, Any] = dict(zip(graph.inputs, values, strict=True))
    remaining = {v: len(v.uses) for v in graph.inputs}
    kept = {o for o in graph.outputs if isinstance(o, Value)}
    before = inherited.place
    try:
        for node in graph.nodes:
            inherited.place = node.place or before  # operators keep their node's line
            if observer is not None:
                observer(node)
            results = evaluate(node, known)
            for value, result in zip(node.outputs, results, strict=True):
                if value.uses or value in kept:
                    known[value] = result
                    remaining[value] = len(value.uses)
            for value in set(node.inputs()):
                remaining[value] -= 1
                if not remaining[value] and value not in kept:
                    del known[value]
    finally:
        inherited.place = before
    return [known[o] if isinstance(o, Value) else o for o in graph.outputs]


def evaluate(node: Node, known: dict[Value, Any]) -> Sequence[Any]:
    """The results of a node whose inputs are known."""
    op = node.op
    if isinstance(op, Constant):
        return (op.tensor,)
    args = [_argument(a, known) for a in node.args]
    results = op.run(node, args) if isinstance(op, Region) else op.call(args)
    return results if isinstance(results, (tuple, list)) else (results,)


def _argument(argument: Any, known: dict[Value, Any]) -> Any:
    if type(argument) is Value:
        return known[argument]
    if type(argument) is tuple and any(type(a) is Value for a in argument):
        return [_argument(a, known) for a in argument]
    return argument
