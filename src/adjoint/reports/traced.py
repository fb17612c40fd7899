"""The graph of a function as reports read it: of operators with derivatives of their own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from adjoint.core import pytrees
from adjoint.core.dtypes import FLOAT
from adjoint.graph.ir import Graph, Node, Value
from adjoint.graph.passes.decompose import expand
from adjoint.graph.trace import trace
from adjoint.ops import binding
from adjoint.transforms import arguments
from adjoint.transforms.arguments import Argnums


def traced(
    what: str, f: Callable[..., Any], argnums: Argnums, args: Any, keywords: Any
) -> tuple[Graph, set[Value]]:
    """The graph of `f`, and those of its inputs that `argnums` names. Shapes suffice."""
    places, _ = arguments.chosen(what, f, argnums, args, keywords)
    graph = trace(f, *args, **keywords)
    marked = [_marked(value, place in places) for place, value in enumerate(args)]
    named = {name: _marked(value, name in places) for name, value in keywords.items()}
    flags = enumerate(pytrees.leaves((marked, named)))
    chosen = [flag for number, flag in flags if number not in graph.signature.static]
    varied = {v for v, flag in zip(graph.inputs, chosen, strict=True) if flag}
    return expand(graph, _smaller), varied


def _marked(value: Any, mark: bool) -> Any:
    return pytrees.map(lambda _: mark, value)


def _smaller(node: Node, is_part: bool) -> Callable[..., Any] | None:
    """The decomposition of an operator without a derivative of its own."""
    row = node.op.row
    known = row.reverse or row.forward or all(v.dtype.category < FLOAT for v in node.outputs)
    return binding.decomposition(row) if row.decompose and not known else None
