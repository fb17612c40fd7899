"""Structural zeros: gradients that are zero by the program's structure, whatever they meet.

Note [Structural zeros]: the gradient of an element that was not selected (the branch not taken, an
element outside a slice) is no number 0.0: times an infinite derivative it is 0, while a computed 0
times ∞ stays NaN. So a selecting row (`selects: some`) hands its gradient on as `Zeroed`, with a
`Live`: which of its elements are not structurally zero, computed only when somebody asks.

- A pointwise row is linear in each element of the gradient and makes 0 or NaN of a zero. The `Live`
  goes on with what it made, and where the chain of pointwise rows ends, NaN are looked for, and
  elements that are not live are set to 0. A trace, which has no values, sets them always.
- A row that moves elements (`selects: all`: views, sums, `cat`) moves the `Live`.
- A sum of gradients is live where one of them is. Every other row gets plain numbers.

Which elements are live is told by the reverse formula itself. Those of rows with the column
`selects` have weights that are not negative, so that, applied to ones, they give 0 exactly where
nothing was selected.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from adjoint.core.dtypes import OF
from adjoint.core.state import OFF, changed
from adjoint.ops.operator import packet
from adjoint.tensor.fitting import fit_value
from adjoint.tensor.hooks import as_tensor
from adjoint.tensor.tape import DROPS, KEEPS, Node, Output

ndarray = np.ndarray
Apply = Callable[[Node, Any, Any], Sequence[Any]]  # a rule: node, gradient, needs -> gradients

UNKNOWN = "unknown"  # which elements are live, if more than shapes decides it


class Live:
    """Which elements of a gradient are not structurally zero: those where `get()` is not 0."""

    __slots__ = ("compute", "known", "sources")

    def __init__(self, compute: Callable[..., Any], *sources: Live | None) -> None:
        self.compute = compute  # takes whether shapes alone may decide, then what the sources are
        self.sources = sources  # None for one that is everywhere live
        self.known: dict[bool, Any] = {}

    def get(self, by_shape: bool = False) -> Any:
        """An array or a tensor; by shape an array or UNKNOWN, without a look at any tensor.

        Computed once; iterative, since chains of rows may be long.
        """
        stack = [self]
        while stack:
            top = stack[-1]
            waiting = [s for s in top.sources if s is not None and by_shape not in s.known]
            if by_shape not in top.known and waiting:
                stack += waiting
                continue
            stack.pop()
            if by_shape not in top.known:
                given = [None if s is None else s.known[by_shape] for s in top.sources]
                unknown = any(g is UNKNOWN for g in given)
                top.known[by_shape] = UNKNOWN if unknown else top.compute(by_shape, *given)
        return self.known[by_shape]


class Zeroed:
    """A gradient with structural zeros."""

    __slots__ = ("dirty", "live", "value")

    def __init__(self, value: Any, live: Live, dirty: bool) -> None:
        self.value = np.asarray(value) if isinstance(value, np.generic) else value
        self.live = live
        self.dirty = dirty  # whether elements that are not live may be NaN in `value`


def clean(grad: Any) -> Any:
    """A gradient as plain numbers."""
    if type(grad) is not Zeroed:
        return grad
    if grad.dirty:
        grad.value = _with_zeros(grad.value, grad.live)
        grad.dirty = False
    return grad.value


def _with_zeros(value: Any, live: Live) -> Any:
    """Set the elements that are not live to 0."""
    if type(value) is ndarray:
        total = value.sum()
        if total == total:  # no NaN is among them, so that the others are 0 already
            return value
        return np.where(np.asarray(live.get() != 0), value, value.dtype.type(0))
    known = live.get(by_shape=True)
    if known is not UNKNOWN and known.all():
        return value
    return value.masked_fill(as_tensor(live.get()) == 0, 0)


def fit(grad: Any, shape: tuple[int, ...], dtype: Any, target: Any) -> Any:
    """As `fit_value`, of a gradient that may have structural zeros."""
    if type(grad) is not Zeroed:
        return fit_value(grad, shape, dtype, target)
    live = grad.live
    if tuple(grad.value.shape) != tuple(shape):
        clean(grad)
        live = Live(lambda _, known: fit_value(known, shape, known.dtype, target), live)
    return Zeroed(fit_value(grad.value, shape, dtype, target), live, grad.dirty)


def added(known: Any, grad: Any, add: Callable[[Any, Any], Any]) -> Any:
    """The sum of two gradients, structurally zero where both are."""
    if type(known) is not Zeroed or type(grad) is not Zeroed:
        return add(clean(known), clean(grad))
    if known.live is grad.live:
        return Zeroed(add(known.value, grad.value), known.live, known.dirty or grad.dirty)
    either = Live(lambda _, a, b: (a != 0) | (b != 0), known.live, grad.live)
    return Zeroed(add(clean(known), clean(grad)), either, False)


def through(hook: Callable[[Any], Any], grads: Any) -> Any:
    """Let hooks see gradients as plain numbers; those that they leave keep their zeros."""
    if type(grads) is Zeroed:
        plain = clean(grads)
        seen = hook(plain)
        return grads if seen is plain else seen
    if type(grads) is ndarray or not _any_zeroed(grads):
        return hook(grads)
    shown = [clean(g) for g in grads]
    return [g if s is p else s for g, p, s in zip(grads, shown, hook(shown), strict=True)]


def _any_zeroed(grads: Any) -> bool:
    return isinstance(grads, (list, tuple)) and any(type(g) is Zeroed for g in grads)


def carries(grad: Any) -> bool:
    """Whether the gradient of a node has structural zeros."""
    return type(grad) is Zeroed or (type(grad) is list and _any_zeroed(grad))


def opened(node: Node, grad: Any) -> Any:
    """The numbers of a gradient that carries zeros, for the rule of a node."""
    if type(grad) is list:
        return [clean(g) for g in grad]
    return grad.value if node.rule.zeros == KEEPS else clean(grad)


def passed_on(apply: Apply, node: Node, grad: Any, sent: Sequence[Any]) -> Sequence[Any]:
    """The gradients of a node's inputs, with the structural zeros that they have.

    `grad` is what arrived at the node, `sent` what its rule made of it; `apply` runs the rule.
    """
    if node.rule.zeros == DROPS:
        return sent
    return _kept(node, grad, sent) if node.rule.zeros == KEEPS else _moved(apply, node, grad, sent)


def _kept(node: Node, grad: Zeroed, sent: Sequence[Any]) -> list[Any]:
    """Of a pointwise row: zero where the gradient of its output was."""
    dirty = grad.dirty or _is_steep(node)
    found = []
    for edge, value in zip(node.next, sent, strict=True):
        if value is None or tuple(value.shape) != tuple(node.shape):
            found.append(value)
            continue
        zeroed = Zeroed(value, grad.live, dirty)
        found.append(zeroed if _matters(edge) else clean(zeroed))
    return found


def _moved(apply: Apply, node: Node, grad: Any, sent: Sequence[Any]) -> Sequence[Any]:
    """Of a row that moves or selects elements: zero where its rule gives 0 for ones."""
    needs = tuple(map(_matters, node.next))
    if not any(needs):
        return sent
    grads = grad if type(grad) is list else [grad]
    lives = [g.live if type(g) is Zeroed else None for g in grads]
    like = [_kind(clean(g)) for g in grads]
    saved = node.saved  # the pass goes on to release it

    def select(by_shape: bool, *known: Any) -> Any:
        released, node.saved = node.saved, saved
        try:
            if by_shape:
                return _selected_by_shape(node, like, known, needs)
            ones = [_ones(g, k) for g, k in zip(like, known, strict=True)]
            with changed(recording=OFF):
                return apply(node, ones if type(grad) is list else ones[0], needs)
        finally:
            node.saved = released

    selection = Live(select, *lives)
    return [
        Zeroed(value, Live(lambda _, parts, i=i: parts[i], selection), False)
        if value is not None and needed
        else value
        for i, (value, needed) in enumerate(zip(sent, needs, strict=True))
    ]


def _selected_by_shape(node: Node, like: list[Any], known: Any, needs: Any) -> Any:
    """What the rule of a node gives for ones, on arrays, if it looks at no tensor."""
    if node.rule.holds or node.rule.raw is None:
        return UNKNOWN
    specs = ((node.shape, node.dtype),) if node.outputs is None else node.outputs
    dtypes: list[Any] = [OF.get(dtype, dtype) for _, dtype in specs]
    ones = [
        None if g is None else _ones((shape, dtype.np), k)
        for g, (shape, _), dtype, k in zip(like, specs, dtypes, known, strict=True)
    ]
    with changed(levels=()):  # what the formula creates belongs to no transform, and to no trace
        raw = node.rule.unmarked or node.rule.raw
        return raw(node, ones if node.outputs is not None else ones[0], needs)


def _kind(grad: Any) -> Any:
    """The shape and dtype of an array, whose memory should not be held; tensors and None pass."""
    return (grad.shape, grad.dtype) if type(grad) is ndarray else grad


def _ones(like: Any, known: Any) -> Any:
    """Ones where a gradient is live, zeros elsewhere; `like` is a tensor or a shape and dtype.

    1 + i if it is complex, since a row may select the real or the imaginary parts.
    """
    if like is None:
        return None
    if type(like) is tuple:
        shape, dtype = like
        ones = np.ones(shape, dtype) if known is None else np.asarray(known != 0, dtype)
        return ones * dtype.type(1 + 1j) if dtype.kind == "c" else ones
    ones = packet("ones_like")(like) if known is None else (as_tensor(known) != 0).to(like.dtype)
    return ones * (1 + 1j) if like.is_complex() else ones


def _is_steep(node: Node) -> bool:
    """Whether the derivative of a pointwise row may be infinite: it reads tensors, or multiplies or
    divides by a number that is 0 or not finite.
    """
    numbers = [s for s in node.saved or () if isinstance(s, (int, float))]
    return node.rule.holds or any(s == 0 or s - s != 0 for s in numbers)


def _matters(edge: Any, depth: int = 3) -> bool:
    """Whether structural zeros of an edge's gradient can meet a derivative that is infinite.

    Looks a few nodes ahead, so that networks of products and `relu` do not carry zeros about.
    """
    node = edge.node if type(edge) is Output else edge
    if type(node) is not Node or node.rule.zeros == DROPS:
        return False
    if depth == 0 or (node.rule.zeros == KEEPS and _is_steep(node)):
        return True
    return any(_matters(e, depth - 1) for e in node.next)
