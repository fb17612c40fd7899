"""Structural zeros: gradients that are zero by the program's structure, whatever they meet.

Note [Structural zeros]: the gradient of an element that was not selected (the branch not taken, an
element outside a slice) is no number 0.0: times an infinite derivative it is 0, while a computed 0
times ∞ stays NaN. So a selecting row (`selects: some`) sends its gradient on as `Zeroed`, with a
`Live` that tells which elements are not structurally zero; it is computed only when somebody asks.

- A pointwise row is linear in each element of the gradient and makes 0 or NaN of a zero. It passes
  the `Live` on with its gradient. Where the chain of pointwise rows ends, the gradient is searched
  for NaN, and if there is one, elements that are not live are set to 0. A trace, which has no
  values, sets them always.
- A row that moves elements (`selects: all`: views, sums, `cat`) moves the `Live`.
- A sum of gradients is live where one of them is. Every other row gets plain numbers.

The reverse formula itself tells which elements are live: formulas of rows with the column `selects`
have weights that are not negative, so applied to ones they give 0 exactly where nothing was
selected.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from adjoint.core.dtypes import OF
from adjoint.core.remembering import remembered
from adjoint.core.source_lines import inherited
from adjoint.core.state import OFF, changed
from adjoint.ops.operator import packet
from adjoint.table.rows import Row
from adjoint.tape.fitting import dense, fit_value
from adjoint.tape.hooks import as_tensor
from adjoint.tape.saving import RESULT, TENSOR, TENSORS, all_saves, saves_of
from adjoint.tensor.nodes import DROPS, KEEPS, MOVES, SELECTS, Node, Output

ndarray = np.ndarray
Apply = Callable[[Node, Any, Any], Sequence[Any]]  # a rule: node, gradient, needs -> gradients


@remembered
def kind_of(row: Row) -> int:
    """DROPS, KEEPS, MOVES or SELECTS, by `selects` and archetype: a row's effect on zeros."""
    if row.selects:
        return SELECTS if row.selects == "some" else MOVES
    single = len(row.schema.returns) == 1 and not row.schema.returns[0].type.is_list
    return KEEPS if row.archetype.promotes and single else DROPS


@remembered
def reads_tensors(row: Row) -> bool:
    """Whether the derivative of a row reads tensors, whose values may make it infinite."""
    saves = saves_of(row) if row.reverse else all_saves(row)
    return any(s.kind in (TENSOR, TENSORS, RESULT) for s in saves)


UNKNOWN = "unknown"  # the answer by shape, if shapes alone do not decide it


class Live:
    """Which elements of a gradient are not structurally zero: those where `get()` is not 0."""

    __slots__ = ("known", "sources")

    def __init__(self, *sources: Live | None) -> None:
        self.sources = sources  # the gradients it is computed from; None: live everywhere
        self.known: Any = (None, None)  # answers by tensors and by shape; None until asked

    def compute(self, by_shape: bool, *known: Any) -> Any:
        """The answer of `get`, computed from the answers `known` of the sources."""
        raise AssertionError(f"{type(self).__name__} defines compute")

    def get(self, by_shape: bool = False) -> Any:
        """An array or a tensor that is 0 where the gradient is structurally zero.

        `by_shape` reads no tensor, and gives an array or UNKNOWN. Computed once; iterative, since
        chains of rows may be long.
        """
        stack = [self]
        while stack:
            top = stack[-1]
            waiting = [s for s in top.sources if s is not None and s.known[by_shape] is None]
            if waiting:
                stack += waiting
                continue
            stack.pop()
            if top.known[by_shape] is None:
                given = [None if s is None else s.known[by_shape] for s in top.sources]
                unknown = any(g is UNKNOWN for g in given)
                found = UNKNOWN if unknown else top.compute(by_shape, *given)
                top.known = (top.known[0], found) if by_shape else (found, top.known[1])
        return self.known[by_shape]


class Derived(Live):
    """Live elements computed by a function of the live elements of other gradients."""

    __slots__ = ("function",)

    def __init__(self, function: Callable[..., Any], *sources: Live) -> None:
        super().__init__(*sources)
        self.function = function

    def compute(self, by_shape: bool, *known: Any) -> Any:
        return self.function(*known)


class Selection(Live):
    """The result of a selecting or moving node's rule for ones: a list, or for a node with one
    input its only entry.
    """

    __slots__ = ("apply", "like", "needs", "node", "saved")

    def __init__(self, apply: Apply, node: Node, grad: Any, needs: tuple[bool, ...]) -> None:
        grads = grad if type(grad) is list else (grad,)
        super().__init__(*[g.live if type(g) is Zeroed else None for g in grads])
        self.apply = apply
        self.node = node
        self.like = _without_memory(grad)
        self.needs = needs
        self.saved = node.saved  # the pass will release the node's own reference

    def compute(self, by_shape: bool, *known: Any) -> Any:
        node, place = self.node, inherited.place
        released, node.saved = node.saved, self.saved
        try:
            found = self._by_shape(known) if by_shape else self._by_tensors(known)
        finally:
            node.saved, inherited.place = released, place
        return found[0] if len(self.needs) == 1 and found is not UNKNOWN else found

    def _by_tensors(self, known: Any) -> Any:
        like = self.like if type(self.like) is list else [self.like]
        kinds = _kinds(self.node)
        ones = [_ones(g, kind, k) for g, kind, k in zip(like, kinds, known, strict=True)]
        with changed(recording=OFF):
            given = ones if type(self.like) is list else ones[0]
            return [dense(g) for g in self.apply(self.node, given, self.needs)]

    def _by_shape(self, known: Any) -> Any:
        """The answer by shape, on arrays; UNKNOWN if the rule reads tensors."""
        rule = self.node.rule
        if rule.holds or rule.raw is None:
            return UNKNOWN
        like = self.like if type(self.like) is list else [self.like]
        ones = [
            None if g is None else _ones(ARRAY, kind, k)
            for g, kind, k in zip(like, _kinds(self.node), known, strict=True)
        ]
        given = ones if type(self.like) is list else ones[0]
        with changed(levels=()):  # tensors that a formula creates belong to no transform or trace
            return (rule.unmarked or rule.raw)(self.node, given, self.needs)


ARRAY = "array"  # stands for a gradient that is an array, without holding its memory


def _without_memory(grad: Any) -> Any:
    if type(grad) is list:
        return [_without_memory(g) for g in grad]
    grad = grad.value if type(grad) is Zeroed else grad
    return ARRAY if isinstance(grad, (ndarray, np.generic)) else grad


def _kinds(node: Node) -> list[tuple[Any, Any]]:
    """The shape and NumPy dtype of each output gradient of a node."""
    outputs = ((node.shape, node.dtype),) if node.outputs is None else node.outputs
    dtypes: list[Any] = [OF.get(dtype, dtype) for _, dtype in outputs]
    return [(shape, dtype.np) for (shape, _), dtype in zip(outputs, dtypes, strict=True)]


def _ones(like: Any, kind: tuple[Any, Any], known: Any) -> Any:
    """Ones where a gradient is live, zeros elsewhere: a tensor like `like`, or an array of (shape,
    dtype) `kind`.

    A complex one holds 1 + i, since a row may select real or imaginary parts.
    """
    if like is None:
        return None
    if like is ARRAY:
        shape, dtype = kind
        ones = np.ones(shape, dtype) if known is None else np.asarray(known != 0, dtype)
        return ones * dtype.type(1 + 1j) if dtype.kind == "c" else ones
    return ones_where(like, known)


def ones_where(like: Any, known: Any) -> Any:
    """A tensor like `like`: ones where it is live, zeros elsewhere.

    `known` may be what is known of an operand that was broadcast to this shape.
    """
    if known is None:
        ones = packet("ones_like")(like)
    else:
        ones = (as_tensor(known) != 0).to(like.dtype).expand(like.shape)
    return ones * (1 + 1j) if like.is_complex() else ones


class Zeroed:
    """A gradient with structural zeros."""

    __slots__ = ("dirty", "live", "value")

    def __init__(self, value: Any, live: Live, dirty: bool) -> None:
        self.value = value
        self.live = live
        self.dirty = dirty  # whether elements that are not live may be NaN in `value`


def clean(grad: Any) -> Any:
    """A gradient without its `Live`, its structural zeros set to 0."""
    if type(grad) is not Zeroed:
        return grad
    if grad.dirty:
        grad.value = _with_zeros(grad.value, grad.live)
        grad.dirty = False
    return grad.value


def _with_zeros(value: Any, live: Live) -> Any:
    """Set the elements that are not live to 0."""
    if isinstance(value, (ndarray, np.generic)):
        total = np.add.reduce(value, None)
        if total == total:  # no NaN, so elements that are not live are 0 already
            return value
        return np.where(np.asarray(live.get() != 0), value, value.dtype.type(0))
    return with_zeros(value, live)


def with_zeros(value: Any, live: Live) -> Any:
    """A tensor with the elements that are not live set to 0."""
    known = live.get(by_shape=True)
    if known is not UNKNOWN:
        dead = _reduced(known == 0)
        if not dead.any():
            return value
        if dead.size <= _MOST:
            return value.masked_fill(as_tensor(dead), 0)
    return value.masked_fill(as_tensor(live.get()) == 0, 0)


_MOST = 4096  # elements of a mask that a graph may hold; a larger one is computed when it runs


def _reduced(mask: Any) -> Any:
    """The mask with size 1 in dimensions along which all its elements are equal."""
    for dim, size in enumerate(mask.shape):
        first = mask.take([0], dim) if size > 1 else mask
        if size > 1 and (mask == first).all():
            mask = first
    return mask


def fit_zeroed(grad: Any, shape: tuple[int, ...], dtype: Any, target: Any) -> Any:
    """Like `fit_value`, for a gradient that may have structural zeros."""
    if type(grad) is not Zeroed:
        return fit_value(grad, shape, dtype, target)
    live, value = grad.live, grad.value
    if value.shape == shape and value.dtype is dtype:
        return grad
    if value.shape != shape:
        clean(grad)
        live = Derived(lambda known: fit_value(known, shape, known.dtype, target), live)
    return Zeroed(fit_value(grad.value, shape, dtype, target), live, grad.dirty)


def added(known: Any, grad: Any, add: Callable[[Any, Any], Any]) -> Any:
    """The sum of two gradients; structurally zero where both are."""
    if type(known) is not Zeroed or type(grad) is not Zeroed:
        return add(clean(known), clean(grad))
    if known.live is grad.live:
        return Zeroed(add(known.value, grad.value), known.live, known.dirty or grad.dirty)
    either = Derived(lambda a, b: (a != 0) | (b != 0), known.live, grad.live)
    return Zeroed(add(clean(known), clean(grad)), either, False)


def through(hook: Callable[[Any], Any], grads: Any) -> Any:
    """Show gradients to hooks as plain numbers; a gradient that a hook leaves keeps its zeros."""
    if type(grads) is Zeroed:
        plain = clean(grads)
        seen = hook(plain)
        return grads if seen is plain else seen
    if type(grads) is ndarray or not any_in(grads):
        return hook(grads)
    shown = [clean(g) for g in grads]
    return [g if s is p else s for g, p, s in zip(grads, shown, hook(shown), strict=True)]


def any_in(grads: Any) -> bool:
    """Whether one of several gradients has structural zeros."""
    return isinstance(grads, (list, tuple)) and any(type(g) is Zeroed for g in grads)


def for_rule(node: Node, grad: Any) -> Any:
    """The gradient for a node's rule: unchanged for a pointwise rule, else with zeros set."""
    if type(grad) is list:
        return [clean(g) for g in grad]
    return grad.value if node.rule.zeros == KEEPS else clean(grad)


def passed_on(apply: Apply, node: Node, grad: Any, sent: Sequence[Any]) -> Sequence[Any]:
    """The gradients of a node's inputs, with their structural zeros.

    `grad` arrived at the node, `sent` is the result of its rule; `apply` runs the rule.
    """
    if node.rule.zeros == DROPS:
        return sent
    return _kept(node, grad, sent) if node.rule.zeros == KEEPS else moved(apply, node, grad, sent)


def _kept(node: Node, grad: Zeroed, sent: Sequence[Any]) -> list[Any]:
    """The gradients sent by a pointwise row: structurally zero where `grad` is."""
    live, dirty = grad.live, grad.dirty or _is_steep(node)
    found = []
    for edge, value in zip(node.next, sent, strict=True):
        if value is None or value.shape != node.shape:
            found.append(value)
        elif _matters(edge):
            found.append(Zeroed(value, live, dirty))
        else:
            found.append(_with_zeros(value, live) if dirty else value)
    return found


def moved(apply: Apply, node: Node, grad: Any, sent: Sequence[Any]) -> Sequence[Any]:
    """The gradients of a moving or selecting row: structurally zero where its rule maps ones to
    0.
    """
    following = node.next
    if len(following) == 1:
        if sent[0] is None or not _matters(following[0]):
            return sent
        return [Zeroed(dense(sent[0]), Selection(apply, node, grad, (True,)), False)]
    needs = tuple(map(_matters, following))
    if not any(needs):
        return sent
    selection = Selection(apply, node, grad, needs)
    return [
        Zeroed(value, Derived(lambda parts, i=i: parts[i], selection), False)
        if value is not None and needed
        else value
        for i, (value, needed) in enumerate(zip(sent, needs, strict=True))
    ]


def _is_steep(node: Node) -> bool:
    """Whether the derivative of a pointwise row may be infinite.

    It may if it reads tensors, or multiplies or divides by a number that is 0 or not finite.
    """
    if node.rule.holds:
        return True
    for saved in node.saved or ():
        if isinstance(saved, (int, float)) and (saved == 0 or saved - saved != 0):
            return True
    return False


def _matters(edge: Any, depth: int = 3) -> bool:
    """Whether structural zeros of an edge's gradient can meet an infinite derivative.

    Looks a few nodes ahead, so that networks of products and `relu` carry no zeros.
    """
    node = edge.node if type(edge) is Output else edge
    if type(node) is not Node or node.rule.zeros == DROPS:
        return False
    if depth == 0 or (node.rule.zeros == KEEPS and _is_steep(node)):
        return True
    for following in node.next:  # noqa: SIM110 - a loop, since this runs for every `relu`
        if _matters(following, depth - 1):
            return True
    return False
