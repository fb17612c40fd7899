"""Backward: passes gradients over the tape, largest sequence number first.

The engine is one loop over a heap. Gradients are plain arrays as long as nobody differentiates the
pass itself; then a node's `raw` rule runs. Otherwise they are tensors, and its `general` rule runs.
Gradients are brought to the shape and dtype of their value on the way (`fitting.py`), meet the
users' hooks (`hooks.py`), and end in leaves (`leaves.py`).
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from typing import Any

import numpy as np

from adjoint.core.errors import GradError, NotDifferentiable
from adjoint.core.infinitesimal import kinks
from adjoint.core.places import inherited
from adjoint.core.state import OFF, changed, current
from adjoint.ops import runtime
from adjoint.tensor import hooks, leaves, passes
from adjoint.tensor.diagnostics import check_nan, explain
from adjoint.tensor.fitting import fit_value
from adjoint.tensor.hooks import as_tensor
from adjoint.tensor.tape import (
    CLOSED,
    Leaf,
    Node,
    Output,
    Refusal,
    key,
    next_sequence,
)
from adjoint.tensor.tensor import Tensor

ndarray = np.ndarray

# the numbers of the nodes that backward passes of this context made: (first, last) of each pass
_passes: ContextVar[tuple[tuple[int, int], ...]] = ContextVar("adjoint passes", default=())


def gradients(
    outputs: Sequence[Any],
    grads: Sequence[Any],
    inputs: Sequence[Any],
    *,
    create_graph: bool,
    retain_graph: bool,
    level: Any = None,
    linear: bool = False,
    whole: bool = False,
    observer: Callable[[Node], None] | None = None,
) -> list[Any]:
    """Return the gradient of `outputs` in each of `inputs`, None where there is no path.

    `level` is the transform whose tape this is; its gradients are tensors of the level below.
    `linear`: the result keeps the history of `grads`, as the linear function of them that it is.
    `whole`: the tape is known to end in `inputs`, which are leaves, so there is no need to look
    which paths lead there.
    `observer` is told each node before its rule runs: what is computed from then on, until it is
    told the next one, belongs to the derivative of that node.
    """
    run = Run(
        create_graph, retain_graph or create_graph, None if whole else [t.edge for t in inputs]
    )
    run.captures = {key(t.edge): None for t in inputs}
    run.level = level
    run.linear = linear
    run.observer = observer
    run.start(outputs, grads)
    run.loop()
    return [run.captured(t.edge) for t in inputs]


def backward(
    outputs: Sequence[Any],
    grads: Sequence[Any],
    inputs: Sequence[Any] | None,
    *,
    create_graph: bool,
    retain_graph: bool,
) -> None:
    """Accumulate gradients into `.grad` of the leaves, or of `inputs` only."""
    wanted = None if inputs is None else [t.edge for t in inputs]
    run = Run(create_graph, retain_graph or create_graph, wanted)
    run.accumulates = True
    run.start(outputs, grads)
    run.loop()


class Run:
    """One backward pass."""

    def __init__(self, create_graph: bool, retain_graph: bool, wanted: list[Any] | None) -> None:
        self.graph = create_graph
        self.retain = retain_graph
        self.wanted = wanted  # the edges to reach; None: all leaves
        self.heap: list[tuple[int, Node]] = []
        self.buffers: dict[Node, Any] = {}  # gradient of the output; a list for several outputs
        self.owned: set[Any] = set()  # nodes and leaves whose buffer the engine allocated
        self.leaves: dict[Leaf, Any] = {}
        self.pending: dict[Leaf, int] = {}  # of leaves with hooks: gradients that are still to come
        self.needed: set[Any] | None = None
        self.roots: list[Any] = []
        self.reached: dict[Any, int] | None = None  # see `reaches`
        self.captures: dict[tuple[Any, int], Any] = {}  # of `gradients`: what is asked for
        self.accumulates = False  # of `backward`: into `.grad`
        self.level: Any = None
        self.linear = False
        self.observer: Callable[[Node], None] | None = None  # see `gradients`
        self.near = False  # whether it passed a node that computes near a kink
        self.ends: set[Any] = set()  # nodes that run though nothing beyond them is needed
        self.node: Node | None = None  # the one that runs, in anomaly mode
        self.callbacks: list[Callable[[], Any]] = []  # to be called when it has ended

    def start(self, outputs: Sequence[Any], grads: Sequence[Any]) -> None:
        self.roots = [o.edge for o in outputs]
        if self.wanted is not None:
            targets = {key(e)[0] for e in self.wanted if e is not None}
            self.needed = _leading_to(self.roots, targets)
            self.ends = targets if self.accumulates else set()
        if Leaf.watched:
            uses = leaves.uses(self.roots, self.needed)
            self.pending = {n: c for n, c in uses.items() if type(n) is Leaf and n.hooks}
        for output, grad in zip(outputs, grads, strict=True):
            plain = self._lowers() and type(grad) is Tensor
            self.send(output.edge, grad.value if plain else grad)
        if self.pending:
            self._count_down(self.roots)

    def reaches(self, edge: Any) -> bool:
        """Whether the gradient of an edge is computed in this pass."""
        if self.reached is None:
            self.reached = leaves.uses(self.roots, self.needed)
        return key(edge)[0] in self.reached

    def _lowers(self) -> bool:
        """Whether gradients are arrays in this pass, where they can be."""
        return not (self.graph or self.linear) and self.level is None

    def loop(self) -> None:
        passes.enter(self, self._loop)

    def _loop(self) -> None:
        now = current()
        recording = now.recording
        if self.level is None:
            recording = now.when_on() if self.graph or self.linear else OFF
        special = self.graph or self.pending or now.anomaly or self.observer is not None
        plain = not special and self.needed is None
        with changed(recording=recording, retain=self.retain), np.errstate(all="ignore"):
            if kinks.met:
                self._run_after_kink(plain)
            else:
                self._run_plain() if plain else self._run()
            for leaf in list(self.leaves):
                self._settle(leaf)

    def _run_after_kink(self, plain: bool) -> None:
        """Tell the formulas of norms if this is a first derivative: Note [Kinks] in limits.py.

        It is not if it passes nodes that were made by a backward pass.
        """
        start = next_sequence()
        first, later = changed(first_pass=self.level is None), changed(first_pass=False)
        try:
            with first:
                if not _passes.get():
                    self._run_plain() if plain else self._run()
                while self.heap and not _was_made_by_backward(self.heap[0][1].sequence):
                    node = heapq.heappop(self.heap)[1]
                    self.step(node, self.buffers.pop(node))
            with later:
                self._run()
        finally:
            if self.graph or self.linear:
                _passes.set((*_passes.get()[-31:], (start, next_sequence())))

    def _run(self) -> None:
        heap, buffers = self.heap, self.buffers
        while heap:
            node = heapq.heappop(heap)[1]
            self.step(node, buffers.pop(node))

    def _run_plain(self) -> None:
        """The same as `_run` with the common case written out: arrays, no hooks, no captures.

        In a chain the one gradient sent on is taken up at once, without a turn through the heap.
        """
        heap, buffers, release = self.heap, self.buffers, not self.retain
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
            if rule.unary and not heap:  # elementwise in one tensor: the shape is that of `grad`
                edge, value = following[0], sent[0]
                if type(edge) is Node and type(value) is ndarray and value.dtype is edge.dtype:
                    node, grad = edge, value
                    continue
            node = None
            for edge, value in zip(following, sent, strict=True):
                if edge is None or value is None:
                    continue
                if node is not None:  # not a chain: what was taken up goes to the heap after all
                    buffers[node] = grad
                    push(heap, (-node.sequence, node))
                    node = None
                if type(edge) is not Node or edge in buffers:
                    self.send(edge, value)
                    continue
                if (
                    type(value) is not ndarray
                    or value.dtype is not edge.dtype
                    or value.shape != edge.shape
                ):
                    value = fit_value(value, edge.shape, edge.dtype, edge)
                if heap:
                    buffers[edge] = value
                    push(heap, (-edge.sequence, edge))
                else:
                    node, grad = edge, value

    def step(self, node: Node, grad: Any) -> None:
        """Run one node and send its gradients on."""
        extra = node.extra
        needs: Any = node.next
        runs = True
        if self.needed is not None:
            needs = tuple(e is not None and key(e)[0] in self.needed for e in node.next)
            runs = any(needs) or node in self.ends
        if extra is not None:
            self.near = self.near or extra.near
            if not runs:
                grad = hooks.on_outputs(node, grad)
        if self.captures:  # as in PyTorch, before the hooks if the node goes on to run
            self._capture(node, grad)
        if not runs:
            return
        if self.observer is not None:
            self.observer(node)
        if extra is not None:
            grad = hooks.before(node, hooks.on_outputs(node, grad))
        sent = self._apply(node, grad, needs)
        if extra is not None and extra.post_hooks:
            sent = hooks.after(extra.post_hooks, sent, grad, node.rule.numbers)
        if not self.retain and node.rule.holds:
            node.saved = None
        for edge, value, wanted in zip(node.next, sent, needs, strict=True):
            if not wanted:
                continue
            if value is None:
                self._send_nothing(edge)
            else:
                self.send(edge, value)
        if self.pending:
            self._count_down([e for e, wanted in zip(node.next, needs, strict=True) if wanted])

    def _apply(self, node: Node, grad: Any, needs: Any) -> Sequence[Any]:
        """The gradients of a node's inputs, by its rule."""
        rule = node.rule
        if _is_absent(grad) and not rule.runs_on_nothing:
            return (None,) * len(node.next)
        try:
            if current().anomaly:
                self.node = node
            if node.home is None and rule.raw is not None and not self.graph and _is_raw(grad):
                sent = rule.raw(node, grad, needs)
            else:
                sent = self._apply_generally(node, grad, needs)
            if current().anomaly:
                check_nan(node, sent)
        except Exception as error:
            explain(error, node)
            raise
        return sent

    def _apply_generally(self, node: Node, grad: Any, needs: Any) -> Sequence[Any]:
        """As `_apply`, on tensors. What it records has the place of the node's forward call."""
        if self._lowers():
            sent = node.rule.general(node, _as_tensors(grad), needs, self.graph)
            return [g.value if type(g) is Tensor else g for g in sent]
        before = inherited.place
        inherited.place = node.place or before
        try:
            return node.rule.general(node, _as_tensors(grad), needs, self.graph)
        finally:
            inherited.place = before

    def send(self, edge: Any, grad: Any) -> None:
        """Add a gradient to the buffer of an edge."""
        kind = type(edge)
        if kind is Node:
            grad = fit_value(grad, edge.shape, edge.dtype, edge)
            known = self.buffers.get(edge)
            if known is not None:
                self.buffers[edge] = self._add(edge, known, grad)
                return
            if edge not in self.buffers:
                heapq.heappush(self.heap, (-edge.sequence, edge))
            self.buffers[edge] = grad
        elif kind is Leaf:
            if edge.closed == CLOSED and (edge, 0) not in self.captures:
                raise GradError(_CLOSED)
            grad = fit_value(grad, edge.shape, edge.dtype, edge)
            known = self.leaves.get(edge)
            self.leaves[edge] = grad if known is None else self._add(edge, known, grad)
        elif kind is Output:
            self._send_output(edge, grad)
        elif kind is Refusal:
            raise NotDifferentiable(edge.message)

    def _send_nothing(self, edge: Any) -> None:
        """Let a node have its turn though no gradient may reach it: its hooks run, and a user's
        function is asked with zeros or None.
        """
        node = key(edge)[0]
        if isinstance(node, Node) and node not in self.buffers:
            several = node.outputs is not None
            self.buffers[node] = [None] * len(node.outputs) if several else None  # type: ignore[arg-type]
            heapq.heappush(self.heap, (-node.sequence, node))

    def _send_output(self, edge: Output, grad: Any) -> None:
        node, number = edge.node, edge.number
        assert node.outputs is not None
        grad = fit_value(grad, *node.outputs[number], node)
        buffer = self.buffers.get(node)
        if buffer is None:
            buffer = self.buffers[node] = [None] * len(node.outputs)
            heapq.heappush(self.heap, (-node.sequence, node))
        known = buffer[number]
        buffer[number] = grad if known is None else self._add((node, number), known, grad)

    def _add(self, key: Any, known: Any, grad: Any) -> Any:
        """Sum two gradients, in place once the engine owns the buffer."""
        if type(known) is ndarray and type(grad) is ndarray:
            if key in self.owned:
                return np.add(known, grad, out=known)
            self.owned.add(key)
            return np.asarray(known + grad)
        return as_tensor(known) + as_tensor(grad)

    def _capture(self, node: Node, grad: Any) -> None:
        if node.outputs is None:
            if (node, 0) in self.captures:
                self.captures[node, 0] = grad
        else:
            for number, value in enumerate(grad):
                if (node, number) in self.captures:
                    self.captures[node, number] = value

    def captured(self, edge: Any) -> Any:
        grad = self.captures[key(edge)]
        if self.near and grad is not None and type(edge) is not Leaf:
            grad = runtime.shown(grad)
        return as_tensor(grad)

    # -- leaves ------------------------------------------------------------------------------

    def _count_down(self, edges: Sequence[Any]) -> None:
        """Settle the leaves with hooks that have got the last of their gradients."""
        for leaf in edges:
            left = self.pending.get(leaf)
            if left == 1:
                del self.pending[leaf]
                if leaf in self.leaves:
                    self._settle(leaf)
            elif left is not None:
                self.pending[leaf] = left - 1

    def _settle(self, leaf: Leaf) -> None:
        """Hand a leaf its gradient, which is complete."""
        grad = self.leaves.pop(leaf)
        if self.near:
            grad = runtime.shown(grad)
        on = leaf.hooks
        if on is not None:
            grad = hooks.on_tensor(on.on_tensor, grad)
        if not self.accumulates:
            if (leaf, 0) in self.captures:
                self.captures[leaf, 0] = grad
            return
        if on is not None and on.before:
            (grad,) = hooks.on_all(on.before, [grad])
        tensor = leaf.tensor()
        if tensor is None or grad is None:
            return
        leaves.add_to_grad(tensor, grad, self.graph)
        if on is not None:
            hooks.on_accumulated(leaf, tensor)
            hooks.after(on.after, (), grad)


def _was_made_by_backward(sequence: int) -> bool:
    passes = _passes.get()
    return sequence < passes[-1][1] and any(a < sequence < b for a, b in passes)


_CLOSED = (
    "backward: a tensor made inside grad or vjp is differentiated after it ended. Return it from "
    "the function "
    "(has_aux=True for values that are not differentiated) instead of keeping it."
)


def _leading_to(roots: list[Any], targets: set[Any]) -> set[Any]:
    """All nodes from which a target can be reached, the targets included. Iterative."""
    needed: set[Any] = set(targets)
    done: set[Any] = set()
    stack: list[tuple[Any, bool]] = [(key(e)[0], False) for e in roots if e is not None]
    while stack:
        node, finished = stack.pop()
        if finished:
            if any(e is not None and key(e)[0] in needed for e in node.next):
                needed.add(node)
        elif node not in done and isinstance(node, (Node, Refusal)):
            done.add(node)
            stack.append((node, True))
            stack.extend((key(e)[0], False) for e in node.next if e is not None)
    return needed


def reaches_other_leaves(roots: list[Any], inputs: list[Any]) -> bool:
    """Whether the tape from `roots` ends in leaves beside `inputs`. Iterative."""
    known = set(inputs)
    stack = list(roots)
    while stack:
        edge = stack.pop()
        node = edge.node if type(edge) is Output else edge
        if node is None or node in known:
            continue
        known.add(node)
        if type(node) is Leaf and not node.closed:
            return True
        if isinstance(node, (Node, Refusal)):
            stack.extend(node.next)
    return False


def _is_absent(grad: Any) -> bool:
    return all(g is None for g in grad) if type(grad) is list else grad is None


def _is_raw(grad: Any) -> bool:
    if type(grad) is list:
        return all(g is None or type(g) is ndarray for g in grad)
    return type(grad) is ndarray


def _as_tensors(grad: Any) -> Any:
    return [as_tensor(g) for g in grad] if type(grad) is list else as_tensor(grad)
