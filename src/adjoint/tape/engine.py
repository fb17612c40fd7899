"""Backward: passes gradients over the tape, largest sequence number first.

The engine is one loop over a heap. Gradients are plain arrays as long as nobody differentiates the
pass itself; then a node's `raw` rule runs. Otherwise they are tensors, and its `general` rule runs.
Gradients wait for their node in a queue (`queue.py`), brought to the shape and dtype of its value
(`fitting.py`); they meet the users' hooks (`hooks.py`), and end in leaves or with the caller
(`ends.py`). `paths.py` searches the tape, `backward_passes.py` holds the caller's request.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence
from functools import partial
from operator import attrgetter
from typing import Any

import numpy as np

from adjoint.core.source_lines import inherited
from adjoint.core.state import OFF, changed, current, state
from adjoint.tape import backward_passes, hooks, paths, structural_zeros
from adjoint.tape.backward_passes import BackwardRequest
from adjoint.tape.diagnostics import check_nan, explain
from adjoint.tape.ends import Ends
from adjoint.tape.hooks import as_tensor
from adjoint.tape.observe import PACKED, unpacked_once
from adjoint.tape.queue import Queue
from adjoint.tape.structural_zeros import Zeroed
from adjoint.tensor.nodes import KEEPS, SELECTS, Leaf, Node, key, node_of
from adjoint.tensor.tensor import is_plain

ndarray = np.ndarray
_EDGE = attrgetter("edge")


def gradients(
    outputs: Sequence[Any], grads: Sequence[Any], inputs: Sequence[Any], how: BackwardRequest
) -> list[Any]:
    """Return the gradient of `outputs` in each of `inputs`, None where there is no path."""
    edges = list(map(_EDGE, inputs))
    places = list(map(key, edges))
    ends = Ends(dict.fromkeys(places), how.create_graph)
    run = BackwardPass(how, None if how.whole else edges, ends)
    run.start(outputs, grads)
    run.loop()
    return list(map(run.ends.captured, places))


def backward(
    outputs: Sequence[Any], grads: Sequence[Any], inputs: Sequence[Any] | None, how: BackwardRequest
) -> None:
    """Accumulate gradients into `.grad` of the leaves, or of `inputs` only."""
    wanted = None if inputs is None else [t.edge for t in inputs]
    run = BackwardPass(how, wanted, Ends(None, how.create_graph))
    run.start(outputs, grads)
    run.loop()


class BackwardPass:
    """One backward pass."""

    __slots__ = (
        "__weakref__", "callbacks", "ends", "how", "last", "needed", "node", "on_arrays", "place",
        "queue", "reached", "records", "release", "roots", "wanted",
    )  # fmt: skip

    def __init__(self, how: BackwardRequest, wanted: list[Any] | None, ends: Ends) -> None:
        self.how = how
        self.wanted = wanted  # the edges to reach; None: all leaves
        self.ends = ends
        self.release = not (how.retain_graph or how.create_graph)
        self.records = how.create_graph or how.linear  # whether the pass records nodes
        self.on_arrays = not self.records and how.level is None  # gradients are arrays if possible
        self.queue = Queue(ends)
        self.needed: set[Any] | None = None  # the nodes that lead to `wanted`
        self.last: set[Any] = set()  # nodes that run although no gradient beyond them is needed
        self.reached: dict[Any, int] | None = None  # see `reaches`
        self.node: Node | None = None  # the node that runs now, in anomaly mode
        self.callbacks: list[Callable[[], Any]] = []  # called when the pass has ended

    def start(self, outputs: Sequence[Any], grads: Sequence[Any]) -> None:
        """Send the given gradients to the outputs."""
        self.roots: list[Any] = list(map(_EDGE, outputs))
        if self.wanted is not None:
            targets = {node_of(e) for e in self.wanted if e is not None}
            self.needed = paths.leading_to(self.roots, targets)
            self.last = targets if self.ends.captures is None else set()
        if Leaf.watched:
            self.ends.watch(self.roots, self.needed)
        for output, grad in zip(outputs, grads, strict=True):
            plain = self.on_arrays and is_plain(grad)
            self.queue.send(output.edge, grad.value if plain else grad)
        if self.ends.pending:
            self.ends.count_down(self.roots)

    def reaches(self, edge: Any) -> bool:
        """Whether the gradient of an edge is computed in this pass."""
        if self.reached is None:
            self.reached = paths.uses(self.roots, self.needed)
        return node_of(edge) in self.reached

    def loop(self) -> None:
        """Run all nodes, and give the leaves their gradients."""
        now, how = current(), self.how
        recording = now.recording
        if how.level is None:
            recording = now.when_on() if self.records else OFF
        special = how.create_graph or self.ends.pending or now.anomaly or how.observer is not None
        plain = self.needed is None and not special
        outer = now.passes
        # the default for the time before the first node, and for nodes without a place
        self.place: Any = inherited.place
        state.set(now.but(recording=recording, passes=(*outer, self)))
        try:
            with np.errstate(all="ignore"):
                run = self._run_plain if plain else self._run
                if outer:
                    backward_passes.on_stack(run)
                else:
                    run()
        finally:
            state.set(now)
            inherited.place = self.place
        if self.callbacks:
            with changed(passes=(*outer, self)):
                for callback in self.callbacks:  # a callback may queue another one
                    callback()

    def _run(self) -> None:
        heap, buffers = self.queue.heap, self.queue.buffers
        while heap:
            node = heapq.heappop(heap)[1]
            self.step(node, buffers.pop(node))
        self.ends.settle()

    def _run_plain(self) -> None:
        """Like the loop over `step`, with the common case written out: arrays, no hooks, no
        captures.

        In a chain the next node runs at once, without a turn through the heap.
        """
        heap, buffers, release = self.queue.heap, self.queue.buffers, self.release
        send = self.queue.send
        pop, push = heapq.heappop, heapq.heappush
        node: Any = None
        grad: Any = None
        while node is not None or heap:
            if node is None:
                node = pop(heap)[1]
                grad = buffers.pop(node)
            rule = node.rule
            if (
                node.extra is not None
                or node.home is not None
                or rule.raw is None
                or type(grad) is not ndarray
            ):
                self.step(node, grad)
                node = None
                continue
            following = node.next
            try:
                sent = rule.raw(node, grad, following)
            except Exception as error:
                explain(error, node)
                raise
            if release and rule.holds:
                node.saved = None
            if rule.unary and not heap:  # elementwise in one tensor: `grad` has the shape already
                edge, value = following[0], sent[0]
                if type(edge) is Node and type(value) is ndarray and value.dtype is edge.dtype:
                    node, grad = edge, value
                    continue
            node = None
            for edge, value in zip(following, sent, strict=True):
                if edge is None or value is None:
                    continue
                if node is not None:  # not a chain: the node taken out goes to the heap after all
                    buffers[node] = grad
                    push(heap, (-node.sequence, node))
                    node = None
                if type(edge) is not Node or edge in buffers:
                    send(edge, value)
                    continue
                if (
                    type(value) is not ndarray
                    or value.dtype is not edge.dtype
                    or value.shape != edge.shape
                ):
                    value = structural_zeros.fit_zeroed(value, edge.shape, edge.dtype, edge)
                if heap:
                    buffers[edge] = value
                    push(heap, (-edge.sequence, edge))
                else:
                    node, grad = edge, value
        self.ends.settle()

    def step(self, node: Node, grad: Any) -> None:
        """Run one node and send its gradients on."""
        needs: Any = node.next
        if self.needed is not None:
            needed = self.needed
            needs = [e is not None and node_of(e) in needed for e in node.next]
            if not (True in needs or node in self.last):
                self._stop(node, grad)
                return
        if self.ends.captures:  # as in PyTorch: before the hooks, if the node itself runs
            self.ends.capture(node, grad)
        if self.how.observer is not None:
            self.how.observer(node)
        run = self._apply if node.extra is None else self._apply_with_hooks
        if node.home is PACKED and node.rule.zeros > KEEPS and node.saved is not None:
            with unpacked_once(node):
                sent = run(node, grad, needs)
        else:
            sent = run(node, grad, needs)
        if self.release and node.rule.holds:
            node.saved = None
        left = [*sent][::-1]
        del sent  # so that the queue alone owns a waiting gradient
        for edge, wanted in zip(node.next, needs, strict=True):
            value = left.pop()
            if not wanted:
                continue
            if value is None:
                self.queue.send_nothing(edge)
            else:
                self.queue.send(edge, value)
        if self.ends.pending:
            self.ends.count_down([e for e, wanted in zip(node.next, needs, strict=True) if wanted])

    def _stop(self, node: Node, grad: Any) -> None:
        """End at a node whose gradient is wanted while no gradient beyond it is."""
        if node.extra is not None:
            self.ends.near = self.ends.near or node.extra.near
            grad = structural_zeros.through(partial(hooks.on_outputs, node), grad)
        self.ends.capture(node, grad)

    def _apply_with_hooks(self, node: Node, grad: Any, needs: Any) -> Sequence[Any]:
        """The gradients of a node's inputs, by its rule and the users' hooks."""
        extra = node.extra
        assert extra is not None
        self.ends.near = self.ends.near or extra.near
        grad = structural_zeros.through(partial(hooks.on_outputs, node), grad)
        grad = structural_zeros.through(partial(hooks.before, node), grad)
        sent = self._apply(node, grad, needs)
        if not extra.post_hooks:
            return sent
        shown = (
            [structural_zeros.clean(g) for g in grad]
            if type(grad) is list
            else structural_zeros.clean(grad)
        )
        after = partial(hooks.after, extra.post_hooks, grad=shown, numbers=node.rule.numbers)
        return structural_zeros.through(after, sent)

    def _apply(self, node: Node, grad: Any, needs: Any) -> Sequence[Any]:
        """The gradients of a node's inputs, by its rule."""
        rule, anomaly = node.rule, current().anomaly
        if _is_absent(grad) and not rule.runs_on_nothing:
            return (None,) * len(node.next)
        try:
            if anomaly:
                self.node = node
            if type(grad) is Zeroed or (type(grad) is list and structural_zeros.any_in(grad)):
                sent = self._evaluate(node, structural_zeros.for_rule(node, grad), needs)
                sent = structural_zeros.passed_on(self._evaluate, node, grad, sent)
            else:
                sent = self._evaluate(node, grad, needs)
                if rule.zeros == SELECTS:
                    sent = structural_zeros.passed_on(self._evaluate, node, grad, sent)
            if anomaly:
                check_nan(node, [structural_zeros.clean(g) for g in sent])
        except Exception as error:
            explain(error, node)
            raise
        return sent

    def _evaluate(self, node: Node, grad: Any, needs: Any) -> Sequence[Any]:
        """Run a node's rule on gradients without structural zeros: on arrays if it can, else on
        tensors.
        """
        rule, graph = node.rule, self.how.create_graph
        if node.home is None and rule.raw is not None and not graph and _is_raw(grad):
            return (rule.unmarked or rule.raw)(node, grad, needs)
        if self.on_arrays:
            sent = rule.general(node, _as_tensors(grad), needs, graph)
            return [g.value if is_plain(g) else g for g in sent]
        # nodes recorded here, and the sums of `sent`, get the place of this node's forward call
        inherited.place = node.place or self.place
        return rule.general(node, _as_tensors(grad), needs, graph)


def _is_absent(grad: Any) -> bool:
    return all(g is None for g in grad) if type(grad) is list else grad is None


def _is_raw(grad: Any) -> bool:
    if type(grad) is list:
        return all(g is None or type(g) is ndarray for g in grad)
    return type(grad) is ndarray


def _as_tensors(grad: Any) -> Any:
    return [as_tensor(g) for g in grad] if type(grad) is list else as_tensor(grad)
