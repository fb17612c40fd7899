"""Where the gradients of a backward pass end: in `.grad` of leaves, or in the hands of the caller.

A leaf with hooks gets its gradient as soon as the gradient is complete, so that a hook can use and
drop it while the pass goes on; leaves without hooks get theirs at the end.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from adjoint.core.errors import GradError
from adjoint.tape import hooks, leaves, paths, structural_zeros
from adjoint.tape.hooks import as_tensor
from adjoint.tensor.nodes import CLOSED, Leaf, Node, key


class Ends:
    """The gradients that have arrived at the end of a pass."""

    __slots__ = ("captures", "create_graph", "grads", "near", "pending")

    def __init__(self, captures: Iterable[Any] | None, create_graph: bool) -> None:
        # the gradients of the wanted edges, by (node, output); None: add to `.grad` of all leaves
        self.captures = None if captures is None else dict.fromkeys(map(key, captures))
        self.create_graph = create_graph
        self.grads: dict[Leaf, Any] = {}
        self.pending: dict[Leaf, int] = {}  # gradients that leaves with hooks still wait for
        self.near: Any = None  # the home of a node near a kink, if the pass met one

    def watch(self, roots: list[Any], needed: set[Any] | None) -> None:
        """Count the gradients that leaves with hooks will get."""
        uses = paths.uses(roots, needed)
        self.pending = {n: c for n, c in uses.items() if type(n) is Leaf and n.hooks}

    def check(self, leaf: Leaf) -> None:
        """Raise if a pass reaches a leaf of a transform that has ended."""
        if leaf.closed == CLOSED and (self.captures is None or (leaf, 0) not in self.captures):
            raise GradError(_CLOSED)

    def capture(self, node: Node, grad: Any) -> None:
        """Keep those gradients of a node's outputs that the caller asked for."""
        if not self.captures:
            return
        grads = [grad] if node.outputs is None else grad
        for number, value in enumerate(grads):
            if (node, number) in self.captures:
                self.captures[node, number] = structural_zeros.clean(value)

    def captured(self, edge: Any) -> Any:
        """The gradient of a wanted edge; None if no gradient reached it."""
        assert self.captures is not None
        grad = self.captures[key(edge)]
        if self.near is not None and grad is not None and type(edge) is not Leaf:
            grad = self.near.shown(grad)
        return as_tensor(grad)

    def count_down(self, edges: Sequence[Any]) -> None:
        """Note that edges got a gradient; a leaf with hooks that waits for no more gets its
        `.grad`.
        """
        for leaf in edges:
            left = self.pending.get(leaf)
            if left == 1:
                del self.pending[leaf]
                if leaf in self.grads:
                    self._finish(leaf)
            elif left is not None:
                self.pending[leaf] = left - 1

    def finish(self) -> None:
        """Give all leaves their gradients, which are complete now."""
        for leaf in list(self.grads):
            self._finish(leaf)

    def _finish(self, leaf: Leaf) -> None:
        grad, on = self.grads.pop(leaf), leaf.hooks
        if self.near is not None:
            grad = self.near.shown(grad)
        if on is not None:
            grad = hooks.on_tensor(on.on_tensor, grad)
        if self.captures is not None:
            if (leaf, 0) in self.captures:
                self.captures[leaf, 0] = leaves.in_order_of(leaf.tensor(), grad)
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


_CLOSED = (
    "backward: a tensor made inside grad or vjp is differentiated after it ended. Return it from "
    "the function (has_aux=True for values that are not differentiated) instead of keeping it."
)
