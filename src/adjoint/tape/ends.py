"""Where the gradients of a backward pass end: in `.grad` of leaves, or in the hands of the caller.

A leaf with hooks gets its gradient as soon as the gradient is complete, so that a hook can use and
drop it while the pass goes on; leaves without hooks get theirs at the end.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from numpy import ndarray

from adjoint.tape import hooks, leaves, paths, structural_zeros
from adjoint.tape.hooks import as_tensor
from adjoint.tensor.nodes import Leaf, Node
from adjoint.tensor.tensor import make


class Ends:
    """The gradients that have arrived at the end of a pass."""

    __slots__ = ("captures", "create_graph", "grads", "near", "pending")

    def __init__(self, captures: dict[tuple[Any, int], Any] | None, create_graph: bool) -> None:
        # the gradients of the wanted edges, by (node, output); None: add to `.grad` of all leaves
        self.captures = captures
        self.create_graph = create_graph
        self.grads: dict[Leaf, Any] = {}
        self.pending: dict[Leaf, int] = {}  # gradients that leaves with hooks still wait for
        self.near: Any = None  # the home of a node near a kink, if the pass met one

    def watch(self, roots: list[Any], needed: set[Any] | None) -> None:
        """Count the gradients that leaves with hooks will get."""
        uses = paths.uses(roots, needed)
        self.pending = {n: c for n, c in uses.items() if type(n) is Leaf and n.hooks}

    def capture(self, node: Node, grad: Any) -> None:
        """Keep those gradients of a node's outputs that the caller asked for."""
        if not self.captures:
            return
        grads = [grad] if node.outputs is None else grad
        for number, value in enumerate(grads):
            if (node, number) in self.captures:
                self.captures[node, number] = structural_zeros.clean(value)

    def captured(self, place: tuple[Any, int]) -> Any:
        """The gradient of a wanted place, (node, output); None if no gradient reached it."""
        assert self.captures is not None
        grad = self.captures[place]
        if self.near is not None and grad is not None and type(place[0]) is not Leaf:
            grad = self.near.shown(grad)
        return make(grad) if type(grad) is ndarray else as_tensor(grad)

    def count_down(self, edges: Sequence[Any]) -> None:
        """Note that edges got a gradient; a leaf with hooks that waits for no more gets its
        `.grad`.
        """
        for leaf in edges:
            left = self.pending.get(leaf)
            if left == 1:
                del self.pending[leaf]
                if leaf in self.grads:
                    self._settle(leaf)
            elif left is not None:
                self.pending[leaf] = left - 1

    def settle(self) -> None:
        """Give all leaves their gradients, which are complete now."""
        for leaf in list(self.grads):
            self._settle(leaf)

    def _settle(self, leaf: Leaf) -> None:
        grad, on = self.grads.pop(leaf), leaf.hooks
        if self.near is not None:
            grad = self.near.shown(grad)
        if on is not None:
            grad = hooks.on_tensor(on.on_tensor, grad)
        if self.captures is not None:
            if (leaf, 0) in self.captures:
                self.captures[leaf, 0] = leaves.lying_as(leaf.tensor(), grad)
            return
        if on is not None and on.before:
            (grad,) = hooks.on_all(on.before, [grad])
        tensor = leaf.tensor()
        if tensor is None or grad is None:
            return
        leaves.add_to_grad(tensor, grad, self.create_graph)
        if on is not None:
            hooks.on_accumulated(leaf, tensor)
            hooks.after(on.after, (), grad)
