"""How fast the argument of a kink changes: the scale of what is infinitely small there.

Note [Rates]: where ‖x‖ and ‖2x‖ are 0 at once, one is infinitely small and the other is twice that.
So iδ is multiplied by the norm of J v, where J v is the derivative of the operator's argument along
one generic direction v of all inputs; (iδ)², which stands for the argument of a root, by J v. v is
the same for all kinks that depend on an input, so a kink that is computed twice has the same scale
twice. On a tape J v is the transpose of a backward pass, in forward mode a sum of the tangents,
with generic weights where a Jacobian has several. All of it runs when a kink is met, and not
before.

The scale is 1 where it decides nothing or is not known: if a first derivative alone is computed of
lengths, whose subgradient is 0; if the argument does not change to first order, as Σx² at 0; and if
hooks of users, which a pass would call, are on the tape.
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
from adjoint.homes import derive
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
    if (asked is not None and asked[0].row is not op.row) or not (root or _is_needed()):
        return None
    direction = Direction()
    now = current()
    state.set(before.but(at_kinks=EXACT, asked=None))
    try:
        rates = [direction.rate(v) if isinstance(v, Tensor) else None for v in given]
    finally:
        state.set(now)
    if all(r is None for r in rates):
        return None
    with changed(at_kinks=EXACT, recording=OFF), np.errstate(all="ignore"):
        pairs = zip(values, rates, strict=True)
        moved = [_like(v, r) if isinstance(v, Tensor) else v for v, r in pairs]
        found = np.abs((moved[0] if root else op.call(moved)).value).astype(np.float64)
    return direction.normalized(np.where(np.isfinite(found) & (found > 0), found, 1), out.value == 0)


def _is_needed() -> bool:
    """Whether second derivatives may follow, as from the tape."""
    now = current()
    return now.orders + now.differentiating != 1 or any(type(e) is Node for e in now.variables)


def _like(value: Any, rate: Array | None) -> Any:
    """A rate in the shape and dtype of its tensor; zeros if it does not change."""
    found = np.zeros(()) if rate is None else rate
    if found.size == value.value.size:
        found = found.reshape(value.value.shape)
    return make(np.broadcast_to(found, value.value.shape).astype(value.value.dtype))


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

    def rate(self, tensor: Any) -> Array | None:
        """The derivative of a tensor along the direction, as an array; batches are in front."""
        if tensor.home is not None:
            return tensor.home.rate(tensor, self)
        found = self.along_tape(tensor, None)
        return None if found is None else self.flat(found, tensor)

    def sum(self, a: Array | None, b: Array | None) -> Array | None:
        """The sum of two rates, of which None is 0."""
        return b if a is None else a if b is None else a + b

    def flat(self, tensor: Any, like: Any) -> Array:
        """The array of a tensor that has the shape of `like`, with the same batches in front."""
        while homes := [t.home for t in (tensor, like) if isinstance(t.home, Level)]:
            tensor, like = max(homes, key=lambda level: level.height).aligned(tensor, like)
        found: Array = tensor.value
        return found

    def along_tangent(self, tangent: Any, home: Any) -> Any:
        """The rate by the tangent of a level."""
        if tangent is None:
            return None
        part = self._part(home)
        return tangent * float(generic((), part.number) * part.size)

    def along_tape(self, tensor: Any, level: Level | None) -> Any:
        """The rate by the tape of a level: the transpose of a backward pass from the tensor."""
        leaves = _leaves(tensor.edge)
        if not leaves:
            return None
        parts = list(map(self._part, leaves))
        towards = [_cotangent(e, p) for e, p in zip(leaves, parts, strict=True)]
        how = BackwardRequest(retain_graph=True, linear=True, level=level)
        ends: list[Any] = list(map(_End, leaves))
        run = lambda grad: engine.gradients([tensor], [grad], ends, how)
        if level is None:
            return derive.transpose(run, [make(tensor.value)], towards)[0]
        with level.outside():
            return derive.transpose(run, [tensor.value], towards)[0]

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
        """The rates, of which those at the first kink are about 1."""
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
    return make(generic(leaf.shape, part.number) * part.size).to(OF.get(leaf.dtype, leaf.dtype))


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
