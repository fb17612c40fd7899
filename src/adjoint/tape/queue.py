"""The gradients of a backward pass that wait for their node, in the order in which nodes run."""

from __future__ import annotations

import heapq
from functools import partial
from sys import getrefcount
from typing import Any

import numpy as np

from adjoint.core.errors import GradError, NotDifferentiable
from adjoint.loops.element_loops import added
from adjoint.loops.gate import LARGE
from adjoint.tape import structural_zeros
from adjoint.tape.ends import Ends
from adjoint.tape.hooks import as_tensor
from adjoint.tape.structural_zeros import Zeroed
from adjoint.tensor.nodes import CLOSED, Leaf, Node, Output, Refusal, key
from adjoint.tensor.tensor import Tensor

ndarray = np.ndarray


class Queue:
    """Nodes with the sum of the gradients that reached them so far, the newest node first."""

    __slots__ = ("buffers", "ends", "heap", "owned")

    def __init__(self, ends: Ends) -> None:
        self.ends = ends  # gradients of leaves wait there
        self.heap: list[tuple[int, Node]] = []  # (-sequence, node)
        self.buffers: dict[Node, Any] = {}  # gradient of the output; a list for several outputs
        self.owned: set[Any] = set()  # nodes and leaves whose buffer was allocated here

    def send(self, edge: Any, grad: Any) -> None:
        """Add a gradient to the sum that has reached an edge."""
        kind = type(edge)
        if kind is Output:
            self._send_output(edge, grad)
            return
        if kind is Refusal:
            raise NotDifferentiable(edge.message)
        if (
            not (type(grad) is ndarray or type(grad) is Tensor)
            or grad.dtype is not edge.dtype
            or grad.shape != edge.shape
        ):
            grad = structural_zeros.fit_zeroed(grad, edge.shape, edge.dtype, edge)
        waiting = self.ends.grads if kind is Leaf else self.buffers
        if waiting.get(edge) is not None:
            self._join(waiting, edge, edge, grad)
            return
        if kind is not Leaf:
            if edge not in waiting:
                heapq.heappush(self.heap, (-edge.sequence, edge))
        elif edge.closed == CLOSED and (edge, 0) not in (self.ends.captures or ()):
            raise GradError(_CLOSED)
        waiting[edge] = grad

    def _send_output(self, edge: Output, grad: Any) -> None:
        node, number = edge.node, edge.number
        assert node.outputs is not None
        grad = structural_zeros.fit_zeroed(grad, *node.outputs[number], node)
        buffer = self.buffers.get(node)
        if buffer is None:
            buffer = self.buffers[node] = [None] * len(node.outputs)
            heapq.heappush(self.heap, (-node.sequence, node))
        if buffer[number] is None:
            buffer[number] = grad
        else:
            self._join(buffer, number, (node, number), grad)

    def send_nothing(self, edge: Any) -> None:
        """Schedule a node although no gradient may reach it.

        Its hooks run, and a user's function is called with zeros or None.
        """
        node = key(edge)[0]
        if isinstance(node, Node) and node not in self.buffers:
            self.buffers[node] = None if node.outputs is None else [None] * len(node.outputs)
            heapq.heappush(self.heap, (-node.sequence, node))

    def _join(self, waiting: Any, place: Any, key: Any, grad: Any) -> None:
        """Add a gradient to the one that waits at a place; in place if nobody else refers to it.
        Any further reference belongs to a user, another node or a view.
        """
        alone = getrefcount(waiting[place]) == 2  # the buffer's, and the argument of getrefcount
        known = waiting[place]
        if alone and type(known) is ndarray and known.base is None and known.flags.writeable:
            self.owned.add(key)
        waiting[place] = self._add(key, known, grad)

    def _add(self, key: Any, known: Any, grad: Any) -> Any:
        """Sum two gradients, in place once the queue owns the buffer."""
        if type(known) is ndarray and type(grad) is ndarray:
            out = known if key in self.owned else None
            self.owned.add(key)
            if known.size >= LARGE:
                return added(known, grad, out)
            return np.asarray(np.add(known, grad, out=out))
        if type(known) is Zeroed or type(grad) is Zeroed:
            return structural_zeros.added(known, grad, partial(self._add, key))
        return as_tensor(known) + as_tensor(grad)


_CLOSED = (
    "backward: a tensor made inside grad or vjp is differentiated after it ended. Return it from "
    "the function (has_aux=True for values that are not differentiated) instead of keeping it."
)
