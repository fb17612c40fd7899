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

from adjoint.core.dtypes import OF, float64
from adjoint.core.state import OFF, State, changed, current, state
from adjoint.homes.infinitesimals import EXACT
from adjoint.homes.levels import Level
from adjoint.ops.operator import Operator, packet
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


def scale(op: Operator, values: list[Any], out: Any) -> Any:
    """The factors of iδ, or of (iδ)² at a root, for an operator whose result is 0 somewhere: a
    tensor on the level of `values`, or None for ones.
    """
    now = current()
    asked = now.asked or (op, values, now)
    needed = op.name == "_above" or _is_second(now)
    if asked[0].row is not op.row or asked[2].saved_hooks or not needed:
        return None
    # users see nothing of what runs here
    inside = asked[2].but(at_kinks=EXACT, asked=None, node_hooks=(), seen=False, anomaly=False)
    state.set(inside)
    try:
        with np.errstate(all="ignore"):
            return Direction(inside).scale(op, asked[1], values, out)
    finally:
        state.set(now)


def _is_second(now: State) -> bool:
    """Whether second derivatives may follow, as from the tape."""
    return now.orders + now.differentiating != 1 or any(type(e) is Node for e in now.variables)


@dataclass(eq=False)
class _Part:
    """The direction in one input: a leaf, or the tangents of a level."""

    number: int  # which generic numbers
    size: float = 1.0  # a factor of them


_parts: weakref.WeakKeyDictionary[Any, _Part] = weakref.WeakKeyDictionary()


class Direction:
    """A direction of all inputs, to ask a tensor how fast it changes along it."""

    def __init__(self, inside: State) -> None:
        self.below = inside.but(levels=(), recording=OFF)  # the state of numbers without a history
        self.new: list[_Part] = []  # the inputs that meet a kink for the first time
        self.known: list[_Part] = []
        self.by_tangents = False  # whether to ask forward mode, where no tape knows

    def scale(self, op: Operator, given: list[Any], values: list[Any], out: Any) -> Any:
        """The factors of `rates.scale`, by the arguments `given` on their level."""
        rates = self._each(given)
        if all(r is None for r in rates):
            return None
        second = None
        if op.name == "_above" and not self.by_tangents:
            second = self.rate(rates[0])
        state.set(self.below)
        moved = [
            self._like(v, r, g) if isinstance(v, Tensor) else v
            for v, r, g in zip(values, rates, given, strict=True)
        ]
        if op.name != "_above":
            return self._normalized(op.call(moved), out)
        found = moved[0].abs()
        still = (out == 0) & (found == 0)  # the argument of the root changes to second order
        if second is None or (isinstance(still.value, np.ndarray) and not still.value.any()):
            return self._normalized(found, out)
        bent = self._like(values[0], second, given[0]).abs() / 2
        self.known, self.new = self.known + self.new, []  # it grows with the direction squared
        return self._normalized(packet("where")(still, bent, found), out)

    def _each(self, given: list[Any]) -> list[Any]:
        """The derivatives of arguments, by their tapes, or else by forward mode."""
        rates = [self.rate(v) if isinstance(v, Tensor) else None for v in given]
        if not self.by_tangents and all(r is None for r in rates):
            self.by_tangents = True
            return self._each(given)
        return rates

    def _like(self, value: Any, rate: Any, given: Any) -> Any:
        """A rate of an argument, `given` on its level, in its shape and dtype below; 0 for None."""
        if rate is None:
            return value.detach().zeros_like()
        while homes := [t.home for t in (rate, given) if isinstance(t.home, Level) and not t.home.creates]:
            rate, given = max(homes, key=lambda level: level.height).aligned(rate, given)
        if rate.numel() == value.numel():
            rate = rate.reshape(value.shape)
        return rate.detach().expand(value.shape).to(value.dtype)

    def _normalized(self, found: Any, out: Any) -> Any:
        """The rates, of which those at the first kink are about 1; 1 where they decide nothing."""
        found = found.abs().to(float64)
        found = found.masked_fill(~(found.isfinite() & (found > 0)), 1)
        if self.known or found.home is not None:
            return found
        largest = float(np.max(found.value, where=out.value == 0, initial=0.0))
        size = 2.0 ** math.frexp(largest)[1]  # which rounds nothing
        for part in self.new:
            part.size /= size
        return found / size

    def rate(self, tensor: Any) -> Any:
        """The derivative of a tensor along the direction, or None."""
        if not isinstance(tensor, Tensor):
            return None
        return self.along_tape(tensor) if tensor.home is None else tensor.home.rate(tensor, self)

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
