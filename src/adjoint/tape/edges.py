"""Edges for users: where the gradient of a tensor goes, without the tensor."""

from __future__ import annotations

from typing import Any, NamedTuple

from adjoint.core.errors import GradError
from adjoint.tensor.nodes import Leaf, Node, Output
from adjoint.tensor.tensor import Tensor


class GradientEdge(NamedTuple):
    """A node and the number of its output: stands for a tensor in `grad` and `backward`.

    It belongs to the version of the tensor from which it was made, whatever is written to the
    tensor in place later, and does not keep the tensor's memory alive.
    """

    node: Node | Leaf
    output_nr: int

    @property
    def edge(self) -> Any:
        """The edge as the tape has it."""
        node = self.node
        several = isinstance(node, Node) and node.outputs is not None
        return Output(node, self.output_nr) if several else node  # pyright: ignore[reportArgumentType]

    @property
    def spec(self) -> tuple[tuple[int, ...], Any]:
        """The shape and dtype of the gradient."""
        return self.node._input_metadata[self.output_nr]


def get_gradient_edge(tensor: Tensor) -> GradientEdge:
    """Return the edge of a tensor: the node that its gradient goes to, and the output there.

    >>> import adjoint as ad
    >>> x = ad.ones(2, requires_grad=True)
    >>> ad.autograd.graph.get_gradient_edge(x.exp()).output_nr
    0
    """
    if tensor.edge is None:
        raise GradError("get_gradient_edge: the tensor does not require a gradient")
    return GradientEdge(tensor.grad_fn or tensor.edge, tensor.output_nr)
