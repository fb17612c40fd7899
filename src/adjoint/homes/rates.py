"""How fast the argument of a kink changes: the scale of what is infinitely small there.

Note [Rates]: where ‖x‖ and ‖2x‖ are 0 at once, one is infinitely small and the other is twice that.
So iδ is multiplied by ‖J v‖, where J v is the derivative of the operator's argument along one
generic direction v of all inputs; (iδ)², which stands for the argument of a root, by J v, and where
that is 0 by half the second derivative, as Σx² has one. v is the same for all kinks that depend on
an input, so a kink that is computed twice has the same scale twice. On a tape J v is the transpose
of a backward pass; in forward mode it is a sum of the tangents, with generic weights where a
Jacobian has several. All of it runs when a kink is met, and not before; in a graph, where values
are not known, it is a part of the graph.

The scale is 1 where it decides nothing or is not known: if a first derivative alone is computed of
lengths, whose subgradient is 0; if the argument does not change to first order, and forward mode
alone differentiates; and if a pass would run code of users: hooks, functions with a derivative of
their own, checkpoints; or if it fails.
"""

from __future__ import annotations

import math
import weakref
from collections.abc import Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np

from adjoint.core.dtypes import OF, float64
from adjoint.core.errors import AdjointError
from adjoint.core.state import OFF, State, changed, current, state
from adjoint.homes.infinitesimals import EXACT
from adjoint.homes.levels import Level
from adjoint.ops.operator import Operator, packet
from adjoint.tape import engine
from adjoint.tape.backward_passes import BackwardRequest, request
from adjoint.tape.observe import PACKED
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
    root = op.name == "_above"
    before = asked[2]
    if asked[0].row is not op.row or before.saved_hooks or not (root or _is_second(now)):
        return None
    # users see nothing of what runs here
    state.set(before.but(at_kinks=EXACT, asked=None, node_hooks=(), seen=False, anomaly=False))
    try:
        with np.errstate(all="ignore"):
            return Direction(root=root).scale(op, asked[1], values, out)
    except AdjointError:  # a value was written over, say: if it matters, the user's own pass raises
        return None
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


_parts: weakref.WeakKeyDictionary[Any, _Part] = weakref.WeakKeyDictionary()  # of living inputs
_last = [0]  # the number of the newest


class Direction:
    """A direction of all inputs, to ask a tensor how fast it changes along it."""

    def __init__(self, *, root: bool) -> None:
        self.parts: list[_Part] = []  # of the inputs that are asked
        self.is_new = True  # whether all of them meet a kink for the first time
        self.by_tangents = False  # whether to ask forward mode, where no tape knows
        self.twice = root  # whether second derivatives may be asked for

    def scale(self, op: Operator, given: list[Any], values: list[Any], out: Any) -> Any:
        """The factors of `rates.scale`, by the arguments `given` on their level."""
        rates = self._each(given)
        if all(r is None for r in rates):
            return None
        with changed(levels=(), recording=OFF):
            pairs = list(zip(values, rates, given, strict=True))
            moved = [_below(r, g, v) if isinstance(v, Tensor) else v for v, r, g in pairs]
            if any(m is None and v is not None for m, v in zip(moved, values, strict=True)):
                return None
            found = moved[0].abs() if self.twice else op.call(moved)
            still = (out == 0) & (found == 0)
        if self.twice and not self.by_tangents and _may_hold(still):
            bent = self.rate(rates[0])
            with changed(levels=(), recording=OFF):
                bent = _below(bent, given[0], values[0]).abs() / 2
                found = packet("where")(still, bent, found)
            self.is_new = False  # its size grows with the square of the direction
        with changed(levels=(), recording=OFF):
            return self._normalized(found, out)

    def _each(self, given: list[Any]) -> list[Any]:
        """The derivatives of arguments, by their tapes, or else by forward mode."""
        rates = [self.rate(v) for v in given]
        if not self.by_tangents and all(r is None for r in rates):
            self.by_tangents = True
            return self._each(given)
        return rates

    def _normalized(self, found: Any, out: Any) -> Any:
        """The rates, of which those at the first kink are about 1; 1 where they decide nothing."""
        found = found.abs().to(float64)
        found = found.masked_fill(~(found.isfinite() & (found > 0)), 1)
        if out.home is not None:
            return found
        rates, zero = found.value, out.value == 0
        if self.is_new:
            size = float(np.max(rates, where=zero, initial=0.0))  # 1 if all are unknown
            if np.count_nonzero(zero) > 1:
                size = 2.0 ** math.frexp(size)[1]  # rounds nothing, so kinks stay the same
            for part in self.parts:
                part.size /= size
            rates = rates / size
        short = np.round(rates * 1024) / 1024  # a length of few digits, but for rounding errors
        close = 64 * float(np.finfo(out.value.dtype).eps)
        return make(np.where(np.abs(rates - short) < close * rates, short, rates))

    def rate(self, tensor: Any) -> Any:
        """The derivative of a tensor along the direction, or None."""
        if not isinstance(tensor, Tensor):
            return None
        return self.along_tape(tensor) if tensor.home is None else tensor.home.rate(tensor, self)

    def along_tangent(self, tangent: Any, source: Any) -> Any:
        """The derivative by a tangent of a level, `source`; of a dual tensor there is one."""
        if tangent is None or not self.by_tangents:
            return None
        if source is None:
            self.is_new = False
            return tangent
        part = self._part(source)
        return tangent * float(generic((), part.number) * part.size)

    def along_tape(self, tensor: Any) -> Any:
        """The derivative by a tape: the transpose of a backward pass from the tensor."""
        leaves = [] if self.by_tangents else _leaves(tensor.edge)
        if not leaves:
            return None
        towards = [_cotangent(e, self._part(e)) for e in leaves]
        ends = [SimpleNamespace(edge=leaf) for leaf in leaves]
        how = BackwardRequest(self.twice, retain_graph=True, linear=True)
        depth = tensor.home.position if isinstance(tensor.home, Level) else 0
        with changed(levels=current().levels[:depth]):
            grad = tensor.detach().zeros_like()
            grad.edge = Leaf(grad)
            found = engine.gradients([tensor], [grad], ends, how)
            live = [i for i, g in enumerate(found) if g is not None and g.edge is not None]
            if not live:
                return None
            found, towards = [found[i] for i in live], [towards[i] for i in live]
            return engine.gradients(found, towards, [grad], request(self.twice))[0]

    def _part(self, source: Any) -> _Part:
        """The direction in one input; the same for all kinks."""
        part = _parts.get(source)
        if part is None:
            _last[0] = _last[0] + 1 if _parts else 1
            size = self.parts[0].size if self.parts else 1.0  # like others, known or new
            part = _parts[source] = _Part(_last[0], size)
            self.parts.append(part)
        elif part not in self.parts:
            self.is_new = False
        return part


def _may_hold(truth: Any) -> bool:
    """Whether a condition holds somewhere; in a graph it may."""
    return truth.home is not None or bool(truth.value.any())


def _below(rate: Any, given: Any, value: Any) -> Any:
    """The rate of an argument, `given` on its level, as `value` is below: 0 for None; None if that
    is a part of it.
    """
    if rate is None:
        return value.detach().zeros_like()
    while levels := [t.home for t in (rate, given) if _is_above(t)]:
        rate, given = max(levels, key=lambda level: level.height).aligned(rate, given)
    if rate.numel() == value.numel():
        rate = rate.reshape(value.shape)
    elif not _expands(rate.shape, value.shape):
        return None
    return rate.detach().expand(value.shape).to(value.dtype)


def _expands(shape: Sequence[int], to: Sequence[int]) -> bool:
    """Whether a tensor of a shape can be expanded to another one."""
    pairs = zip(reversed(shape), reversed(to), strict=False)
    return len(shape) <= len(to) and all(a in (1, b) for a, b in pairs)


def _is_above(tensor: Any) -> bool:
    """Whether a tensor is on a transform, but not a trace, whose tensors stand for numbers."""
    return isinstance(tensor.home, Level) and not tensor.home.creates


def _cotangent(leaf: Leaf, part: _Part) -> Any:
    """The direction in a leaf."""
    values = np.asarray(generic(leaf.shape, part.number) * part.size)
    return make(values).to(OF.get(leaf.dtype, leaf.dtype))


def _leaves(edge: Any) -> list[Leaf]:
    """The leaves to which a tape leads; none if a pass would run code of users, or raise."""
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
        elif type(node) is not Node or _is_of_users(node):
            return []
        stack += [node_of(e) for e in node.next if e is not None]
    return list(found)


def _is_of_users(node: Node) -> bool:
    """Whether a node has hooks, a rule or saved values of users, or its values no longer."""
    rule, extra = node.rule, node.extra
    if extra is not None and (extra.tensor_hooks or extra.pre_hooks or extra.post_hooks):
        return True
    foreign = not hasattr(rule, "row") or node.home is PACKED or node.saved is None
    return rule.holds and foreign
