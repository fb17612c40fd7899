"""How fast the argument of a kink changes: the scale of what is infinitely small there.

Note [Rates]: where ‖x‖ and ‖2x‖ are 0 at once, one is infinitely small and the other is twice that.
So iδ is multiplied by the norm of J v, where J v is the derivative of the operator's argument along
one generic direction v of all inputs; (iδ)², which stands for the argument of a root, by J v. v is
the same for all kinks that depend on an input, so a kink that is computed twice has the same scale
twice. On a tape J v is the transpose of a backward pass, in forward mode a sum of the tangents,
with generic weights where a Jacobian has several. All of it runs when a kink is met, and not
before.

The scale is 1 where it decides nothing or is not known: if a first derivative alone is computed of
lengths, whose subgradient is 0; if forward mode alone does not tell, as Σx², which changes to second
order; and if hooks of users, which a pass would call, are on the tape.
"""

from __future__ import annotations

import math
import weakref
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from adjoint.core.dtypes import OF
from adjoint.core.state import OFF, changed, current, state
from adjoint.homes.infinitesimals import EXACT
from adjoint.homes.levels import Level
from adjoint.ops.operator import Operator
from adjoint.tape import engine
from adjoint.tape.backward_passes import BackwardRequest
from adjoint.tensor.nodes import Leaf, Node, node_of
from adjoint.tensor.tensor import Tensor, make

Array = np.ndarray[Any, np.dtype[Any]]


def generic(shape: Sequence[int], number: int) -> Array:
    """Numbers of a direction that no derivative is likely to cancel; of few digits, so that rates
    are exact where the function is simple. The first input has the number 1.

    >>> generic((), 1), generic((2,), 5) == generic((2,), 5)
    (array(1.), array([ True,  True]))
    """
    found = np.asarray(np.random.default_rng(number).integers(512, 1536, tuple(shape)) / 1024)
    return np.ones_like(found) if found.size == number == 1 else found


def scale(op: Operator, values: list[Any], out: Any) -> Array | None:
    """The factors of iδ, or of (iδ)² at a root, for an operator whose result is 0 somewhere."""
    asked = current().asked
    given, before = (values, current()) if asked is None else asked[1:]
    root = op.name == "_above"
    unlike = asked is not None and asked[0].row is not op.row
    if unlike or before.saved_hooks or not (root or _is_needed()):
        return None
    direction = Direction()
    now = current()
    unseen = {"node_hooks": (), "seen": False, "anomaly": False}  # users see nothing of this
    state.set(before.but(at_kinks=EXACT, asked=None, **unseen))
    try:
        with np.errstate(all="ignore"):
            if root:
                found = direction.above(given[0], values[0], out.value == 0)
            else:
                found = direction.of_length(op, given, values)
    finally:
        state.set(now)
    return None if found is None else direction.normalized(found, out.value == 0)


def _is_needed() -> bool:
    """Whether second derivatives may follow, as from the tape."""
    now = current()
    return now.orders + now.differentiating != 1 or any(type(e) is Node for e in now.variables)


def _like(value: Any, found: Array) -> Array:
    """A rate in the shape and dtype of its tensor."""
    if found.size == value.value.size:
        found = found.reshape(value.value.shape)
    return np.broadcast_to(found, value.value.shape).astype(value.value.dtype)


@dataclass
class _Part:
    """The direction in one input: a leaf, or the tangents of a level."""

    number: int  # which generic numbers
    size: float = 1.0  # a factor of them


_parts: weakref.WeakKeyDictionary[Any, _Part] = weakref.WeakKeyDictionary()


class Direction:
    """A direction of all inputs, to ask a tensor how fast it changes along it."""

    def __init__(self) -> None:
        self.new: list[_Part] = []  # the inputs that meet a kink for the first time
        self.known: list[_Part] = []
        self.by_tangents = False  # whether to ask forward mode, where no tape knows

    def of_length(self, op: Operator, given: list[Any], values: list[Any]) -> Array | None:
        """The lengths of the derivatives of an operator's arguments, `given` on their level."""
        tensors = [isinstance(v, Tensor) for v in values]
        rates = [self.first(v) if t else None for v, t in zip(given, tensors, strict=True)]
        if all(r is None for r in rates):
            return None
        moved = [
            make(_like(v, self.flat(r, g))) if t else v
            for v, g, r, t in zip(values, given, rates, tensors, strict=True)
        ]
        with changed(recording=OFF, levels=()):
            found: Array = op.call(moved).value
        return found

    def above(self, given: Any, value: Any, zero: Any) -> Array | None:
        """The derivative of the argument of a root; where that is 0, half the second one."""
        first = self.first(given)
        if first is None:
            return None
        found = np.abs(_like(value, self.flat(first, given)))
        if not self.by_tangents and np.any(zero & (found == 0)):
            second = self.rate(first)
            bent = np.abs(_like(value, self.flat(second, given))) / 2
            found = np.where(found == 0, bent, found)
            self.new, self.known = [], self.known + self.new  # it grows with the direction squared
        return found

    def first(self, tensor: Any) -> Any:
        """The derivative of a tensor, by a tape, or else by forward mode."""
        found = self.rate(tensor)
        if found is None:
            self.by_tangents = True
            found = self.rate(tensor)
        return found

    def rate(self, tensor: Any) -> Any:
        """The derivative of a tensor along the direction, or None."""
        if tensor is None or tensor.home is not None:
            return None if tensor is None else tensor.home.rate(tensor, self)
        return self.along_tape(tensor)

    def flat(self, tensor: Any, like: Any) -> Array:
        """The array of a tensor that has the shape of `like`, with the same batches in front; 0 for
        None.
        """
        if tensor is None:
            return np.zeros(())
        while homes := [t.home for t in (tensor, like) if isinstance(t.home, Level)]:
            tensor, like = max(homes, key=lambda level: level.height).aligned(tensor, like)
        found: Array = tensor.value
        return found

    def along_tangent(self, tangent: Any, home: Any) -> Any:
        """The derivative by the tangent of a level."""
        if tangent is None or not self.by_tangents:
            return None
        part = self._part(home)
        return tangent * float(generic((), part.number) * part.size)

    def along_tape(self, tensor: Any) -> Any:
        """The derivative by a tape: the transpose of a backward pass from the tensor."""
        leaves = [] if self.by_tangents else _leaves(tensor.edge)
        if not leaves:
            return None
        towards = [_cotangent(e, self._part(e)) for e in leaves]
        how = BackwardRequest(create_graph=True, retain_graph=True)
        depth = tensor.home.position if isinstance(tensor.home, Level) else 0
        with changed(levels=current().levels[:depth]):
            grad = tensor.detach().zeros_like()
            grad.edge = Leaf(grad)
            found = engine.gradients([tensor], [grad], list(map(_End, leaves)), how)
            live = [(g, v) for g, v in zip(found, towards, strict=True) if g is not None and g.edge]
            return engine.gradients(*zip(*live, strict=True), [grad], how)[0] if live else None

    def _part(self, source: Any) -> _Part:
        """The direction in one input; the same for all kinks."""
        part = _parts.get(source)
        if part is None:
            known = self.known + self.new
            size = known[0].size if known else 1.0
            number = 1 + max((p.number for p in known), default=0)
            part = _parts[source] = _Part(number, size)
            self.new.append(part)
        elif part not in self.new:
            self.known.append(part)
        return part

    def normalized(self, found: Array, zero: Any) -> Array:
        """The rates, of which those at the first kink are about 1; 1 where they decide nothing."""
        found = np.abs(found).astype(np.float64)
        found = np.where(np.isfinite(found) & (found > 0), found, 1)
        if self.known:
            return np.asarray(found)
        largest = float(np.max(found, where=zero, initial=0.0))
        size = 2.0 ** math.frexp(largest)[1]  # which rounds nothing
        for part in self.new:
            part.size /= size
        return np.asarray(found / size)


@dataclass
class _End:
    """What stands for a tensor of which a backward pass finds the gradient."""

    edge: Leaf


def _cotangent(leaf: Leaf, part: _Part) -> Any:
    """The direction in a leaf."""
    values = np.asarray(generic(leaf.shape, part.number) * part.size)
    return make(values).to(OF.get(leaf.dtype, leaf.dtype))


def _leaves(edge: Any) -> list[Leaf]:
    """The leaves to which a tape leads; none if there are hooks on it."""
    found: dict[Any, None] = {}
    seen = set()
    stack = [] if edge is None else [node_of(edge)]
    while stack:
        node = stack.pop()
        if node in seen:
            continue
        seen.add(node)
        if type(node) is Leaf:
            found[node] = None
            if node.hooks is not None:
                return []
        elif type(node) is Node and _has_hooks(node):
            return []
        stack += [node_of(e) for e in node.next if e is not None]
    return list(found)


def _has_hooks(node: Node) -> bool:
    extra = node.extra
    return extra is not None and bool(extra.tensor_hooks or extra.pre_hooks or extra.post_hooks)
