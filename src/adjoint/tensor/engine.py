"""Backward: passes gradients over the tape, largest sequence number first.

The engine is one loop over a heap. Gradients are plain arrays as long as nobody differentiates the
pass itself; then a node's `raw` rule runs. Otherwise they are tensors, and its `general` rule runs.
Gradients are brought to the shape and dtype of the value they belong to on the way in: broadcasting
is
undone by summing, a complex gradient of a real value keeps its real part.
"""

from __future__ import annotations

import heapq
import sys
import traceback
from collections.abc import Sequence
from contextvars import ContextVar
from typing import Any

import numpy as np

from adjoint.core.dtypes import DIFFERENTIABLE, of
from adjoint.core.errors import GradError, NotDifferentiable, ShapeError
from adjoint.core.infinitesimal import kinks
from adjoint.core.shapes import show
from adjoint.core.state import OFF, changed, current
from adjoint.core.storage import is_expanded
from adjoint.ops import runtime
from adjoint.tensor.tape import (
    CLOSED,
    Leaf,
    Node,
    Output,
    Refusal,
    dtype_name,
    next_sequence,
    show_place,
    source_of,
    wrote,
)
from adjoint.tensor.tensor import Tensor, make

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
    stops: Sequence[Any] = (),
    whole: bool = False,
) -> list[Any]:
    """Return the gradient of `outputs` in each of `inputs`, None where there is no path.

    `level` is the transform whose tape this is; its gradients are tensors of the level below.
    `linear`: the result keeps the history of `grads`, as the linear function of them that it is.
    `stops`: edges of `inputs` beyond which the pass does not go.
    `whole`: the tape is known to end in `inputs`, which are leaves, so there is no need to look
    which paths lead there.
    """
    run = Run(
        create_graph, retain_graph or create_graph, None if whole else [t.edge for t in inputs]
    )
    if whole:
        run.captures = {(t.edge, 0): None for t in inputs}
    run.level = level
    run.linear = linear
    run.stops = {_key(e)[0] for e in stops}
    run.start(outputs, grads)
    run.loop()
    return [run.captured(t) for t in inputs]


def backward(
    outputs: Sequence[Any],
    grads: Sequence[Any],
    inputs: Sequence[Any] | None,
    *,
    create_graph: bool,
    retain_graph: bool,
) -> None:
    """Accumulate gradients into `.grad` of the leaves, or of `inputs` only."""
    run = Run(
        create_graph,
        retain_graph or create_graph,
        None if inputs is None else [t.edge for t in inputs],
    )
    run.start(outputs, grads)
    run.loop()
    if inputs is None:
        for leaf, grad in run.leaves.items():
            accumulate(leaf, run.hooked_leaf(leaf, grad), create_graph)
        return
    for tensor in inputs:
        grad = run.captured(tensor)
        if grad is not None:
            add_to_grad(tensor, grad, create_graph)
            _run_post_hooks(tensor)


class Run:
    """One backward pass."""

    def __init__(self, create_graph: bool, retain_graph: bool, wanted: list[Any] | None) -> None:
        self.graph = create_graph
        self.retain = retain_graph
        self.heap: list[tuple[int, Node]] = []
        self.buffers: dict[Node, Any] = {}  # gradient of the output; a list for several outputs
        self.owned: set[Any] = set()  # nodes and leaves whose buffer the engine allocated
        self.leaves: dict[Leaf, Any] = {}
        self.wanted = wanted
        self.needed: set[Any] | None = None
        self.captures: dict[tuple[Any, int], Any] = {}
        self.level: Any = None
        self.linear = False
        self.near = False  # whether it passed a node that computes near a kink
        self.stops: set[Any] = set()
        if wanted is not None:
            self.captures = {_key(e): None for e in wanted if e is not None}

    def start(self, outputs: Sequence[Any], grads: Sequence[Any]) -> None:
        if self.wanted is not None:
            self.needed = _leading_to([o.edge for o in outputs], {k[0] for k in self.captures})
        for output, grad in zip(outputs, grads, strict=True):
            plain = not (self.graph or self.linear) and type(grad) is Tensor and self.level is None
            self.send(output.edge, grad.value if plain else grad)

    def loop(self) -> None:
        now = current()
        recording = now.recording
        if self.level is None:
            recording = now.when_on() if self.graph or self.linear else OFF
        plain = not self.graph and self.needed is None and not now.anomaly
        with changed(recording=recording, retain=self.retain), np.errstate(all="ignore"):
            if kinks.met:
                self._run_after_kink(plain)
            else:
                self._run_plain() if plain else self._run()

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
                _note(error, node)
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
                    value = _fit(value, edge.shape, edge.dtype, edge)
                if heap:
                    buffers[edge] = value
                    push(heap, (-edge.sequence, edge))
                else:
                    node, grad = edge, value

    def step(self, node: Node, grad: Any) -> None:
        """Run one node and send its gradients on."""
        extra = node.extra
        if extra is not None:
            self.near = self.near or extra.near
            grad = _pre_hooks(node, grad)
        if self.captures:
            self._capture(node, grad)
            if node in self.stops:
                return
        needs: Any = node.next
        if self.needed is not None:
            needs = tuple(e is not None and _key(e)[0] in self.needed for e in node.next)
            if not any(needs):
                return
        rule = node.rule
        try:
            if node.home is None and rule.raw is not None and not self.graph and _is_raw(grad):
                sent = rule.raw(node, grad, needs)
            else:
                sent = rule.general(node, _as_tensors(grad), needs, self.graph)
        except Exception as error:
            _note(error, node)
            raise
        if current().anomaly:
            _check_nan(node, sent)
        if extra is not None and extra.post_hooks:
            sent = _post_hooks(node, sent, grad)
        if not self.retain and rule.holds:
            node.saved = None
        for edge, value, wanted in zip(node.next, sent, needs, strict=True):
            if value is not None and wanted:
                self.send(edge, value)

    def send(self, edge: Any, grad: Any) -> None:
        """Add a gradient to the buffer of an edge."""
        kind = type(edge)
        if kind is Node:
            grad = _fit(grad, edge.shape, edge.dtype, edge)
            known = self.buffers.get(edge)
            if known is None:
                self.buffers[edge] = grad
                heapq.heappush(self.heap, (-edge.sequence, edge))
            else:
                self.buffers[edge] = self._add(edge, known, grad)
        elif kind is Leaf:
            if edge.closed == CLOSED and (edge, 0) not in self.captures:
                raise GradError(_CLOSED)
            grad = _fit(grad, edge.shape, edge.dtype, edge)
            known = self.leaves.get(edge)
            self.leaves[edge] = grad if known is None else self._add(edge, known, grad)
        elif kind is Output:
            self._send_output(edge, grad)
        elif kind is Refusal:
            raise NotDifferentiable(edge.message)

    def _send_output(self, edge: Output, grad: Any) -> None:
        node, number = edge.node, edge.number
        assert node.outputs is not None
        grad = _fit(grad, *node.outputs[number], node)
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

    def captured(self, tensor: Any) -> Any:
        edge = tensor.edge
        if type(edge) is Leaf:
            grad = self.leaves.get(edge)
            grad = None if grad is None else self.hooked_leaf(edge, grad)
        else:
            grad = self.captures.get(_key(edge))
            if self.near and grad is not None:
                grad = runtime.shown(grad)
        return None if grad is None else as_tensor(grad)

    def hooked_leaf(self, leaf: Leaf, grad: Any) -> Any:
        if self.near:
            grad = runtime.shown(grad)
        for hook in list(leaf.hooks.values()):
            changed = hook(as_tensor(grad))
            grad = grad if changed is None else changed
        return grad


def _was_made_by_backward(sequence: int) -> bool:
    passes = _passes.get()
    return sequence < passes[-1][1] and any(a < sequence < b for a, b in passes)


_CLOSED = (
    "backward: a tensor made inside grad or vjp is differentiated after it ended. Return it from "
    "the function "
    "(has_aux=True for values that are not differentiated) instead of keeping it."
)


def _key(edge: Any) -> tuple[Any, int]:
    return (edge.node, edge.number) if type(edge) is Output else (edge, 0)


def _leading_to(roots: list[Any], targets: set[Any]) -> set[Any]:
    """All nodes from which a target can be reached, the targets included. Iterative."""
    needed: set[Any] = set(targets)
    done: set[Any] = set()
    stack: list[tuple[Any, bool]] = [(_key(e)[0], False) for e in roots if e is not None]
    while stack:
        node, finished = stack.pop()
        if finished:
            if any(e is not None and _key(e)[0] in needed for e in node.next):
                needed.add(node)
        elif node not in done and isinstance(node, (Node, Refusal)):
            done.add(node)
            stack.append((node, True))
            stack.extend((_key(e)[0], False) for e in node.next if e is not None)
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


def _is_raw(grad: Any) -> bool:
    if type(grad) is list:
        return all(g is None or type(g) is ndarray for g in grad)
    return type(grad) is ndarray


def as_tensor(value: Any) -> Any:
    """Wrap an array as a tensor; tensors pass."""
    if type(value) is ndarray:
        return make(value)
    return make(np.asarray(value)) if isinstance(value, np.generic) else value


def _as_tensors(grad: Any) -> Any:
    return [as_tensor(g) for g in grad] if type(grad) is list else as_tensor(grad)


def _fit(grad: Any, shape: tuple[int, ...], dtype: Any, target: Any) -> Any:
    """Bring a gradient to the shape and dtype of its value."""
    if type(grad) is ndarray:
        if grad.shape != shape:
            grad = _sum_to(grad, shape, target)
        if grad.dtype is not dtype and grad.dtype != dtype:
            grad = _cast(grad, dtype)
        return grad
    if isinstance(grad, np.generic):
        return _fit(np.asarray(grad), shape, dtype, target)
    return fit_tensor(grad, shape, dtype)


def fit(grad: Any, like: Any) -> Any:
    """Bring a gradient tensor to the shape and dtype of a tensor."""
    return fit_tensor(grad, like.shape, like.value.dtype)


def fit_tensor(grad: Any, shape: tuple[int, ...], dtype: Any) -> Any:
    """As `_fit`, by operators that can be differentiated."""
    if tuple(grad.shape) != tuple(shape):
        grad = grad.sum_to_size(shape)
    wanted = dtype if hasattr(dtype, "is_complex") else of(dtype)
    if grad.dtype is not wanted:
        grad = grad.real if grad.is_complex() and not wanted.is_complex else grad
        grad = grad.to(wanted)
    return grad


def _sum_to(grad: Any, shape: tuple[int, ...], target: Any) -> Any:
    extra = grad.ndim - len(shape)
    if extra < 0 or any(
        s not in (1, g) for s, g in zip(shape, grad.shape[max(extra, 0) :], strict=True)
    ):
        raise ShapeError(
            f"backward made a gradient of shape {show(grad.shape)} for a value of shape "
            f"{show(shape)} "
            f"({_context(target)})"
        )
    axes = (
        *range(extra),
        *(i + extra for i, s in enumerate(shape) if s == 1 and grad.shape[i + extra] != 1),
    )
    wide = np.float32 if grad.dtype.itemsize == 2 else None
    return (
        np.add.reduce(grad, axis=axes, dtype=wide, keepdims=True)
        .reshape(shape)
        .astype(grad.dtype, copy=False)
    )


def _cast(grad: Any, dtype: Any) -> Any:
    if grad.dtype.kind == "c" and dtype.kind != "c":
        grad = grad.real
    return grad.astype(dtype)


# -- hooks and diagnostics
# ---------------------------------------------------------------------------


def _pre_hooks(node: Node, grad: Any) -> Any:
    extra = node.extra
    assert extra is not None
    if not (extra.tensor_hooks or extra.pre_hooks or extra.captures):
        return grad
    several = node.outputs is not None
    grads = list(grad) if several else [grad]
    for number, hooks in extra.tensor_hooks.items():
        for hook in list(hooks.values()):
            if grads[number] is not None:
                grads[number] = _replaced(hook(as_tensor(grads[number])), grads[number])
    for number, reference in extra.captures.items():
        tensor = reference()
        if tensor is not None and grads[number] is not None:
            add_to_grad(tensor, grads[number], create_graph=current().recording != 0)
    for hook in list(extra.pre_hooks.values()):
        changed = hook(tuple(None if g is None else as_tensor(g) for g in grads))
        if changed is not None:
            grads = [_lowered(c, g) for c, g in zip(_as_tuple(changed), grads, strict=True)]
    return grads if several else grads[0]


def _as_tuple(value: Any) -> tuple[Any, ...]:
    return tuple(value) if isinstance(value, (tuple, list)) else (value,)


def _replaced(changed: Any, grad: Any) -> Any:
    if changed is None:
        return grad
    if not isinstance(changed, Tensor):
        raise TypeError(
            f"a gradient hook must return a tensor or None, got {type(changed).__name__}"
        )
    if changed.shape != tuple(grad.shape):
        raise ShapeError(
            f"a gradient hook changed the shape from {show(grad.shape)} to {show(changed.shape)}"
        )
    return _lowered(changed, grad)


def _lowered(changed: Any, like: Any) -> Any:
    return changed.value if type(like) is ndarray and type(changed) is Tensor else changed


def _post_hooks(node: Node, sent: tuple[Any, ...], grad: Any) -> tuple[Any, ...]:
    assert node.extra is not None
    outputs = tuple(
        None if g is None else as_tensor(g) for g in (grad if type(grad) is list else [grad])
    )
    for hook in list(node.extra.post_hooks.values()):
        changed = hook(tuple(None if g is None else as_tensor(g) for g in sent), outputs)
        if changed is not None:
            sent = tuple(_lowered(c, g) for c, g in zip(_as_tuple(changed), sent, strict=True))
    return sent


def _context(node: Any) -> str:
    if not isinstance(node, Node):
        return "in backward"
    text = source_of(node.place)
    line = f": {text}" if text else ""
    where = f"in backward of {node.rule.name}, recorded at {show_place(node.place)}{line}"
    if node.extra is not None and node.extra.trace is not None:
        where += "\nForward call:\n" + "".join(traceback.format_list(node.extra.trace))
    return where


def _note(error: Exception, node: Node) -> None:
    """Add a note that names the operator and the line it was recorded at."""
    if not isinstance(error, GradError):
        error.add_note(_context(node))


def _check_nan(node: Node, sent: tuple[Any, ...]) -> None:
    if not current().check_nan:
        return
    for number, value in enumerate(sent):
        array = getattr(value, "value", value)
        if isinstance(array, ndarray) and array.dtype in DIFFERENTIABLE and np.isnan(array).any():
            raise GradError(
                f"{node.rule.name} returned NaN as gradient of its input {number} "
                f"({_context(node)})"
            )


# -- leaves
# ------------------------------------------------------------------------------------------


def accumulate(leaf: Leaf, grad: Any, create_graph: bool) -> None:
    """Add a gradient to a leaf's `.grad`, and run its hooks."""
    tensor = leaf.tensor()
    if tensor is not None:
        add_to_grad(tensor, grad, create_graph)
        _run_post_hooks(tensor)


def _run_post_hooks(tensor: Tensor) -> None:
    if type(tensor.edge) is Leaf:
        for hook in list(tensor.edge.post_hooks.values()):
            hook(tensor)


def add_to_grad(tensor: Tensor, grad: Any, create_graph: bool) -> None:
    """Set or add to `.grad`; the array is taken over only if nobody else can see it."""
    known = tensor.more().grad
    if known is None:
        if type(grad) is ndarray:
            # this frame, its callers' variables and the call hold the array; anyone else makes it
            # shared
            shared = grad.base is not None or sys.getrefcount(grad) > 5
            grad = make(grad.copy() if shared else grad)
        elif not create_graph:
            grad = grad.detach().clone() if type(grad) is Tensor else grad
        tensor.more().grad = grad
    elif create_graph or type(known) is not Tensor or type(as_tensor(grad)) is not Tensor:
        tensor.more().grad = known + as_tensor(grad)
    else:
        value = grad if type(grad) is ndarray else grad.value
        if known.value.flags.writeable and not is_expanded(known.value):
            np.add(known.value, value, out=known.value, casting="unsafe")
            wrote(known, "backward")
        else:
            tensor.more().grad = make(known.value + value)


def check_grad(what: str, output: Any, grad: Any) -> Any:
    """Check a gradient given by the user for an output, or make the default one."""
    if output.edge is None:
        raise GradError(
            f"{what}: the tensor does not require a gradient and has no grad_fn; nothing to "
            "differentiate"
        )
    if grad is None:
        if output.numel() != 1:
            raise GradError(
                f"{what}: the output has shape {show(output.shape)}, and a gradient can be left "
                "out only for a scalar. "
                "Pass the gradient of each output, or sum() first."
            )
        if output.is_complex():
            raise GradError(
                f"{what}: the output is complex; pass its gradient, or differentiate a real loss"
            )
        if type(output) is Tensor:
            return make(np.ones(output.value.shape, output.value.dtype))
        return output.detach().ones_like()
    if not isinstance(grad, Tensor):
        grad = as_tensor(np.asarray(grad))
    if grad.shape != output.shape:
        raise ShapeError(
            f"{what}: the gradient has shape {show(grad.shape)}, the output "
            f"{show(output.shape)}; they must be equal"
        )
    if grad.is_complex() and not output.is_complex():
        raise GradError(
            f"{what}: a complex gradient for a real output ({dtype_name(output.value.dtype)})"
        )
    return grad
