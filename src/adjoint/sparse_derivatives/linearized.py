"""The derivative of a function at any point, as a graph that is linear in its tangents.

The graph is a trace of the pushforward, so custom rules count and comparisons fall off. Operators
of which the propagation knows nothing are replaced by their decompositions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from adjoint.core.records import record
from adjoint.graph import passes
from adjoint.graph.ir import Graph, Node
from adjoint.graph.passes.decompose import expand
from adjoint.graph.trace import ShapeDtype, trace
from adjoint.homes.pullback import pullback
from adjoint.ops import binding
from adjoint.sparse_derivatives.propagation import has_rule
from adjoint.transforms.forward import pushforward
from adjoint.transforms.reverse import filled

_MOST = 1 << 22  # multiplications of a product of matrices that is followed element by element
Flat = Callable[..., Sequence[Any]]  # a function of tensors that returns a list of tensors


@record
class Linearized:
    """The graph of a derivative: the inputs are primals, then tangents of the chosen ones."""

    graph: Graph
    primals: int  # how many inputs are primals
    chosen: tuple[int, ...]  # the primals that have tangents, in the order of these

    @property
    def columns(self) -> list[int]:
        """The number of elements of each tangent."""
        return [_count(v.shape) for v in self.graph.inputs[self.primals :]]

    @property
    def rows(self) -> list[int]:
        """The number of elements of each output."""
        return [_count(o.shape) for o in self.graph.outputs]


def _count(shape: Sequence[int]) -> int:
    count = 1
    for size in shape:
        count *= size
    return count


def jacobian_of(function: Flat, values: Sequence[Any], chosen: Sequence[int]) -> Linearized:
    """The graph of tangents to ∂f·tangents."""

    def pushed(*inputs: Any) -> list[Any]:
        primals, tangents = list(inputs[: len(values)]), inputs[len(values) :]

        def of_chosen(*varied: Any) -> tuple[list[Any], None]:
            return list(function(*_replaced(primals, chosen, varied))), None

        outputs, found, _ = pushforward(of_chosen, [primals[i] for i in chosen], list(tangents))
        return filled(found, outputs)

    return _traced(pushed, values, chosen)


def gradient_of(function: Flat, chosen: Sequence[int]) -> Flat:
    """The function that computes the gradient of the only output in the chosen inputs."""

    def gradient(*inputs: Any) -> list[Any]:
        varied = [inputs[i] for i in chosen]
        of_chosen = lambda *variables: (list(function(*_replaced(inputs, chosen, variables))), None)
        ((output,), _), pull = pullback(of_chosen, varied)
        return filled(pull([output.detach().ones_like()]), varied)

    return gradient


def _replaced(values: Sequence[Any], places: Sequence[int], new: Sequence[Any]) -> list[Any]:
    found = list(values)
    for place, value in zip(places, new, strict=True):
        found[place] = value
    return found


def _traced(pushed: Flat, values: Sequence[Any], chosen: Sequence[int]) -> Linearized:
    examples = [ShapeDtype.of(v, v.shape, False) for v in (*values, *(values[i] for i in chosen))]
    graph = passes.simplified(passes.inline_functions(trace(pushed, *examples)))
    graph = passes.simplified(expand(graph, _smaller))
    return Linearized(graph, len(values), tuple(chosen))


def _smaller(node: Node, is_part: bool) -> Callable[..., Any] | None:
    """The decomposition of an operator without a rule of its own."""
    row = node.op.row
    if row.is_product and len(node.args) == 2:
        return _sum_of_products if _multiplications(node) <= _MOST else None
    return binding.decomposition(row) if row.decompose and not has_rule(row) else None


def _multiplications(node: Node) -> int:
    first, _ = node.inputs()
    return _count(node.output.shape) * first.shape[-1]


def _sum_of_products(a: Any, b: Any) -> Any:
    """The product of matrices or vectors as a sum of products of elements."""
    if b.ndim == 1:
        return (a * b).sum(-1)
    if a.ndim == 1:
        return (a.unsqueeze(-1) * b).sum(-2)
    return (a.unsqueeze(-1) * b.unsqueeze(-3)).sum(-2)
