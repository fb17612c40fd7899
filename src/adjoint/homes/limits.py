"""Values at a kink, whose derivatives are taken from the same computation infinitely near it.

Note [Kinks]: y = ‖x‖ has no derivative at 0, but ‖x‖² has, and its Hessian is 2I. The formulas lose
that: x̄ = x ȳ/y is 0 · 0/0. They would not if y were infinitely small: ȳ/y = 2y/y is 2 whatever y
is. So where a row with the column `kink` gives 0, a tensor of `LIMITS` goes on instead. Its value
is 0, from which all values and comparisons are computed; its companion, the near tensor, is
computed with iδ in place of 0, where δ = 2⁻²⁰⁰, and gives the derivatives. They are the same in
every mode, since the near tensor is an ordinary one that any transform differentiates. The
infinitely small part is imaginary, so that it loses no digit when a finite number is added: (1 + y)
exp(-y) has the slope -y, which remains when 1 - 1 cancels. infinitesimals.py runs operators that
take no complex numbers. A derivative shows the real part; where that is infinite (the Hessian of
‖x‖ itself), it shows the exact computation, which has the subgradient 0. A real tensor takes the
real part of a gradient.

√x has an infinite slope at 0, and √x² has not: x̄ = ȳ/2y is 2y/2y. There the argument is approached
from above (column `above`): `_above(x)` is 0 with the near value (iδ)², so √x is near iδ, and
powers of both are powers of the same number. So odd powers of √x are imaginary, and finite results
are real. An infinite result is c (iδ)⁻ᵐ with a real c, and becomes ±∞ by the sign of c: its size
tells m, which tells the rotation to undo (`_standing`). The gradient of the real x is a tensor from
a kink, too, so that infinite slopes still cancel upstream. Added to 1, (iδ)² rounds away, though a
second derivative in x itself needs it: `_bend` adds an infinite number that is no possible
derivative, so the result shows as NaN, as all non-real numbers do. Multiplied by ∂x = 0, as in a
Hessian of √Σx², it vanishes.

Where ‖x‖ and ‖2x‖ are 0 at once, near values are δ and 2δ: all kinks are approached along the same
direction of the inputs, and iδ has the scale of its argument there: Note [Rates] in rates.py. A
product of lengths whose second derivative depends on that direction, |x| |y|, has none, and shows
that along it. x itself stays 0 beside its length or root, so products of derivatives that contain
both, as (d/dx x√x)², are wrong; so are products of lengths and roots of the same x, of which one is
approached by x = iδ and the other by x = (iδ)².

In a graph values are not known, so the near tensor is always computed (for lengths only if there
are second derivatives), and used in calls that meet a kink: complex formulas overflow sooner. A
compiled program tests whether a root is 0, and gives up the call, which then runs in eager mode:
`State.roots_from` is 0 while it is traced. Matrices with repeated eigenvalues are approached by
many matrices in place of one δ: fans.py.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from adjoint.core import dtypes
from adjoint.core.state import changed, current
from adjoint.homes import rates
from adjoint.homes.infinitesimals import EXACT, LIMIT, NEAR, at_kinks, result_near
from adjoint.homes.levels import Level, swap_view, twin, wrap
from adjoint.kinks.infinitesimal import infinitesimal, kinks, meets_zero, nearby
from adjoint.ops import binding
from adjoint.ops.branches import at_kink, from_above
from adjoint.ops.kinks import is_limit
from adjoint.ops.operator import Operator, packet
from adjoint.table import formula as language
from adjoint.table.rows import Row
from adjoint.tensor import views
from adjoint.tensor.home import Height, Home, new_tensor
from adjoint.tensor.nodes import KEEPS, Node, Rule
from adjoint.tensor.tensor import Tensor, alias, is_plain, make


def approach(op: Operator, values: tuple[Any, ...], out: Any) -> Any:
    """The result `out` of an operator, 0 somewhere at its kink, together with the near result."""
    if "above" in op.row.texts:
        return _above_root(op, list(values), out)
    near = _near(op, list(values), Operator.call, out)
    if type(near.edge) is Node and type(out.edge) is Node:
        near.edge.place = out.edge.place
        near.edge.more().near = LIMITS
    return _limit(out, [near])


def approached(op: Operator, values: list[Any], run: Callable[..., Any]) -> Any:
    """Like `approach`, where another interpreter runs operators by `run`."""
    if current().at_kinks != LIMIT:
        return run(op, values)
    with at_kinks(EXACT):
        out = run(op, values)
    if not meets_zero(out.value):
        return out
    if "above" in op.row.texts:
        return _above_root(op, values, out)
    return _limit(out, [_near(op, values, run, out)])


def _above_root(op: Operator, values: list[Any], out: Any) -> Any:
    """The result of an operator, with `_above` of its argument if that is 0 somewhere."""
    values = from_above(op, values)
    return op.call(values) if any(map(_is_of_limits, values)) else out


def _near(op: Operator, values: list[Any], run: Callable[..., Any], out: Any) -> Any:
    """The result of an operator infinitely near its kink."""
    scale = rates.scale(op, values, out)
    if op.name == "_above":
        return _little_above(_one_sided(values[0]), scale)
    with changed(at_kinks=NEAR, scale=None if scale is None else scale.value):
        return run(op, values)


def _limit(exact: Any, near: Sequence[Any]) -> Any:
    """A tensor with the value `exact` and the derivatives of `near`."""
    if near[0].dtype is exact.dtype and np.array_equal(exact.value, near[0].value, equal_nan=True):
        return near[0]
    tensor = new_tensor(LIMITS, exact.value, near[0].edge)
    tensor.companion = near if exact.home is None else [near[0], exact]  # a dual one has a tangent
    if type(near[0].edge) is Node:
        near[0].edge.more().near = LIMITS
    kinks.met = True
    return tensor


class _Pairs(Home):
    """Runs operators on tensors from a kink: once on the values, once on the near tensors."""

    def is_limit(self, tensor: Tensor) -> bool:
        return True

    def exact(self, value: Any) -> Any:
        """The value that a tensor shows."""
        raise AssertionError(f"{type(self).__name__} defines exact")

    def owns(self, value: Any) -> bool:
        """Whether this is a tensor with a near tensor."""
        raise AssertionError(f"{type(self).__name__} defines owns")

    def with_near(self, exact: Any, near: Sequence[Any]) -> Any:
        """One tensor with the value `exact` and the companions `near`."""
        raise AssertionError(f"{type(self).__name__} defines with_near")

    def near(self, values: list[Any]) -> list[list[Any]]:
        """The arguments with near tensors in place of those that have one."""
        return [_each(lambda v: v.companion[0] if self.owns(v) else v, values)]

    def process(self, op: Operator, values: list[Any]) -> Any:
        if op.name == "_settle":
            return self.settle(self.exact(values[0]), values[0].companion, values[1])
        if op.name == "_above":
            return values[0]
        if op.row.archetype.name == "creation":  # zeros_like: depends on no value
            return op.call(_each(self.exact, values))
        if op.row.decompose and not op.row.reverse and not op.row.forward:
            return binding.decomposition(op.row)(*values)
        return self._both(op.call, values, partial(result_near, op, self.pair))

    def process_function(self, function: Any, args: Sequence[Any], keywords: dict[str, Any]) -> Any:
        """Run a user's function with its own derivative, which is taken at the near tensors."""
        run = lambda values: function.apply(*values, **keywords)
        return self._both(run, list(args), lambda values, _: run(values))

    def _both(
        self,
        run: Callable[[list[Any]], Any],
        values: list[Any],
        run_near: Callable[[list[Any], list[Any]], Any],
    ) -> Any:
        exacts = _each(self.exact, values)
        with at_kinks(EXACT):
            exact = run(exacts)
        if not _is_differentiable(exact):
            return exact
        near = run_near(self.near(values)[0], exacts)
        if isinstance(exact, (tuple, list)):
            return type(exact)([self._result(e, n) for e, n in zip(exact, near, strict=True)])
        return self._result(exact, near)

    def pair(self, exact: Any, near: Any) -> Any:
        """One tensor with the value `exact` and the near tensor `near`."""
        return self.with_near(exact, [near])

    def _result(self, exact: Any, near: Any) -> Any:
        return self.with_near(exact, [near]) if _is_differentiable(exact) else exact

    def settle(self, exact: Any, near: Sequence[Any], derivative: bool) -> Any:
        """Convert a value or a derivative that leaves a transform."""
        if derivative:
            exact = self.derivative(exact, near)
        return self.with_near(exact, near) if current().differentiating else self.left(exact, near)

    def derivative(self, exact: Any, near: Sequence[Any]) -> Any:
        """The number that a derivative shows."""
        return standard_part(exact, near)

    def left(self, exact: Any, near: Sequence[Any]) -> Any:
        """Convert a tensor that leaves the outermost differentiating transform."""
        raise AssertionError(f"{type(self).__name__} defines left")


class LimitInterpreter(_Pairs):
    """The home of eager tensors from a kink."""

    height = Height.LIMIT
    name = "a derivative at a kink"

    def exact(self, value: Any) -> Any:
        if not _is_of_limits(value):
            return value
        return value.companion[1] if len(value.companion) > 1 else make(value.value)

    def owns(self, value: Any) -> bool:
        return _is_of_limits(value)

    def with_near(self, exact: Any, near: Sequence[Any]) -> Any:
        return _limit(exact, near)

    def shown(self, grad: Any) -> Any:
        """A gradient for users: an array or tensor with 0 in place of infinitely small numbers."""
        known = grad
        if _is_of_limits(grad):
            known = standard_part(make(grad.value), [grad.companion[0].detach()])
        elif type(grad) is not np.ndarray and not is_plain(grad):
            return settle(grad, True)
        value: Any = known.value if isinstance(known, Tensor) else known
        size = np.abs(value)
        small = (size > 0) & (size <= infinitely_small(value.dtype))
        if known is grad and not small.any():
            return grad
        clean = np.where(small, value.dtype.type(0), value)
        if not isinstance(grad, Tensor):
            return clean
        if grad.edge is None:
            return make(clean)
        return _limit(make(clean), grad.companion if _is_of_limits(grad) else [grad])

    def process(self, op: Operator, values: list[Any]) -> Any:
        if op.schema.replaces:
            return op.call([_settled(v) for v in values])
        if op.name == "_ordinary":
            return op.call([ordinary(v) for v in values])
        result = super().process(op, values)
        if op.schema.is_view and _is_of_limits(values[0]):
            views.attach_level(op, values[0], result, tuple(values[1:]))
        return result

    def process_inplace(
        self, op: Operator, functional: Callable[..., Any], values: list[Any]
    ) -> Any:
        """Write to the value, which then has the derivative of the written value only."""
        base = _settled(views.base_of(values[0]))
        for living in views.living_views(base):
            if is_limit(living):
                other = views.replay(living.extra.view.path, base)
                _settled(living).edge = other.edge
                if type(living) is type(other) is Tensor:  # classes keep their home
                    _take_home(living, other)
        return op.call([_settled(v) for v in values])

    def detach(self, tensor: Tensor) -> Tensor:
        _protect(tensor)  # a write would not reach the near tensor
        return super().detach(tensor)

    def derivative(self, exact: Any, near: Sequence[Any]) -> Any:
        """The standard part, with 0 in place of infinitely small numbers, as `shown` does."""
        with at_kinks(EXACT):
            small = exact.abs() <= infinitely_small(exact.dtype.np)
            return super().derivative(exact.masked_fill(small, 0), near)

    def left(self, exact: Any, near: Sequence[Any]) -> Any:
        return _like(_as_real(near[0], exact), exact.value)


class NearLevel(_Pairs, Level):
    """The home of a trace's tensors near kinks; values are unknown, so a kink may be anywhere."""

    name = "trace"

    def __init__(self, below: Any) -> None:
        self.position, self.height = below.position, below.height + 1
        self.open = True
        self.trace = below

    def exact(self, value: Any) -> Any:
        return value.value if is_near(value) else value

    def owns(self, value: Any) -> bool:
        return is_near(value)

    def with_near(self, exact: Any, near: Sequence[Any]) -> Any:
        return wrap(self, exact, None, near)

    def derivative(self, exact: Any, near: Sequence[Any]) -> Any:
        """The standard part in calls that meet a kink."""
        met = self.trace.kink_met
        shown = super().derivative(exact, near)
        return shown if met is None else packet("where")(met, shown, exact)

    def process(self, op: Operator, values: list[Any]) -> Any:
        result = super().process(op, values)
        pair = is_near(values[0]) and _is_differentiable(result)
        if op.schema.is_view and pair:  # if a level above takes in one of them, it takes in all
            views.attach_level(op, values[0], result, tuple(values[1:]))
        return result

    def process_inplace(
        self, op: Operator, functional: Callable[..., Any], values: list[Any]
    ) -> Any:
        """Write to both tensors; to a tensor without a near tensor, only the value."""
        if op.row.archetype.name == "inplace_view":
            return swap_view(op, values, twin(values[0]))
        count, target = op.positional, values[0]
        keywords = dict(zip(op.schema.names[count:], values[count:], strict=True))
        result = functional(*values[:count], **keywords) if is_near(target) else None
        with at_kinks(EXACT):
            written = op.call(_each(self.exact, values))
        if result is None:
            return written
        with at_kinks(NEAR):  # not by the operator: complex numbers near a root have no order
            for near, (new,) in zip(target.companion, self.near([result]), strict=False):
                near.copy_(new)
        return target

    def detach(self, tensor: Any) -> Any:
        """Detach the value and the near tensor, so that a write reaches both."""
        return self.with_near(tensor.value.detach(), [n.detach() for n in tensor.companion])

    def left(self, exact: Any, near: Sequence[Any]) -> Any:
        (one,) = near
        if one.requires_grad:  # the graph will be differentiated: keep the near tensor's history
            slope = _as_real(one, exact)
            shown = exact.detach() + (slope - slope.detach())
            return packet("where")(is_finite(one, exact), shown, exact)
        return exact


def is_near(value: Any) -> bool:
    """Whether this is a traced tensor with a near tensor."""
    return isinstance(value, Tensor) and isinstance(value.home, NearLevel)


def approach_traced(level: Any, op: Operator, values: list[Any], out: Any) -> Any:
    """The traced result `out` of an operator, with the result near its kink if that may be needed.

    Only second derivatives need it, also the gradient of a gradient in an argument that requires
    one.
    """
    now = current()
    if now.at_kinks == EXACT or not at_kink(op, values):
        return out
    if "above" in op.row.texts:  # `_above` of the argument did it, if that is on a level
        watched = out.requires_grad and not (now.differentiating or out.is_complex())
        return _unless_given_up(out) if watched else out
    if now.at_kinks == NEAR:
        return packet("_nearby")(out)
    if now.differentiating + bool(out.requires_grad) < 2:
        return out
    near, scale = packet("_nearby")(out), rates.scale(op, values, out)
    return _near_in_graph(level, out, near if scale is None else near * scale.where(out == 0, 1))


def above_traced(level: Any, op: Operator, values: list[Any], out: Any) -> Any:
    """The result of `_above` in a trace: first derivatives may be infinite, too."""
    now = current()
    if now.at_kinks or not out.is_floating_point():
        return out
    if not now.roots_from:
        return _unless_given_up(out)
    least = now.roots_from if level.whole else 2
    if now.differentiating + bool(out.requires_grad) < least:
        return out
    return _near_in_graph(level, out, _little_above(out, rates.scale(op, values, out)))


def _unless_given_up(out: Any) -> Any:
    """The result; a program gives up a call in which it is 0, and eager mode runs instead."""
    return out if current().roots_from else packet("_trusted")(out != 0, out)


def _near_in_graph(level: Any, out: Any, near: Any) -> Any:
    """A traced tensor with its near tensor; the kink is wherever the tensor is 0."""
    met = (out == 0).any()
    level.kink_met = met if level.kink_met is None else level.kink_met | met
    return NearLevel(level).with_near(out, [near])


# ---- operators with a branch point at 0: x stands for one infinitely little above 0 --------------


def _little_above(tensor: Any, scale: Any = None) -> Any:
    """The tensor as complex numbers, with (iδ)² in place of 0, or that times a scale; negative
    numbers stay.
    """
    small = (tensor == 0).to(dtypes.complex128) * -(infinitesimal(tensor.dtype.np) ** 2)
    if scale is not None:
        small = small * scale
    return tensor + small.masked_fill(tensor < 0, math.nan)


def _one_sided(tensor: Any) -> Any:
    """The same tensor, with a node that takes a complex gradient and sends on a real one."""
    if tensor.edge is None:
        return tensor
    made = alias(tensor)
    made.edge = Node(_ABOVE, (tensor.edge,), (tensor,), tensor.shape, dtypes.complex128.np)
    made.edge.more().near = LIMITS
    _take_home(made, tensor)
    return made


def _gradient_above(node: Node, grad: Any, needs: Any, graph: bool) -> tuple[Any]:
    """The real part of a complex gradient, with the complex one as its near tensor."""
    assert node.saved is not None  # handmade nodes never release their values
    (tensor,) = node.saved
    near = grad.companion[0] if _is_of_limits(grad) else grad
    near = near.conj()  # the function of x is analytic
    if graph:
        values = [near, _little_above(_one_sided(tensor))]
        near = near + result_near(packet("_bend").operators[0], LIMITS.pair, values, values)
    like = make(tensor.value)
    if isinstance(near.home, Level):  # its tensors are pairs below it
        return (packet("_one_sided")(near, like),)
    return (_as_pair((near, like), None),)


def _as_pair(values: tuple[Any, Any], out: Any) -> Any:
    """A real tensor with a complex near tensor; `out` must not contain infinities."""
    near, like = values
    unknown = make(np.full(near.shape, math.nan, like.dtype.np))
    return _limit(standard_part(unknown, [near]), [near])


_ABOVE = Rule("AboveBackward0", _gradient_above, holds=False, zeros=KEEPS)


# ---- the eager function of an operator with a kink: pieces of its text ---------------------------


def _condition(row: Row) -> str:
    """The condition under which an operator has a kink at 0; empty if it has none."""
    text = row.texts.get("kink")
    return ast.unparse(language.condition(text, row.place("kink"))) if text else ""


def after_kernel(row: Row) -> list[str]:
    """The text after the kernel: δ in place of 0 if the state asks for it."""
    condition = _condition(row)
    if not condition or "above" in row.texts:
        return []
    test = f"if _state().at_kinks == {NEAR} and ({condition}):"
    return [test, "    _r = _nearby(_r, _state().scale)"]


def after_recording(row: Row, args: str, outs: str) -> tuple[str, str]:
    """Texts of the test whether results need near tensors, and of the results with them; ("", "")
    if they never do.

    `args` and `outs` are the texts of the arguments, a tuple, and of the results.
    """
    if row.name == "_one_sided":
        return "True", f"_as_pair({args}, {outs})"
    condition = _condition(row)
    if not condition:
        return "", ""
    watched = "_out.edge is not None or _state().differentiating"
    test = f"not _state().at_kinks and ({condition}) and ({watched}) and _meets_zero(_out.value)"
    return test, f"_approach(_op, {args}, _out)"


# The functions that these texts call.
NAMESPACE = {
    "_nearby": nearby,
    "_approach": approach,
    "_as_pair": _as_pair,
    "_meets_zero": meets_zero,
}


LIMITS = LimitInterpreter()


def _is_of_limits(value: Any) -> bool:
    """Whether this is an eager tensor from a kink."""
    return isinstance(value, Tensor) and value.home is LIMITS


def _each(choose: Callable[[Any], Any], values: list[Any]) -> list[Any]:
    return [_each(choose, v) if type(v) is list else choose(v) for v in values]


def _protect(tensor: Any) -> None:
    """Make memory read-only, so that writing to it raises."""
    if _is_of_limits(tensor):
        tensor.value = tensor.value.view()
        tensor.value.flags.writeable = False


def _settled(value: Any) -> Any:
    """Turn a tensor from a kink into an ordinary one, and return it."""
    if _is_of_limits(value):
        _take_home(value, _as_real(value.companion[0], value))
    elif isinstance(value, Tensor) and is_limit(value):  # of a user's class: subclasses.py
        value.edge = _settled(value.companion).edge
        del value.companion
    return value


def _like(near: Any, value: Any) -> Any:
    """An ordinary tensor with a value, and the derivatives of another tensor."""
    tensor = make(value, edge=near.edge)
    _take_home(tensor, near)
    return tensor


def _take_home(tensor: Any, near: Any) -> None:
    """Give a tensor the home and companion of its near tensor, which may be dual."""
    tensor.home = near.home
    tensor.companion = None if near.home is None else near.companion


def _is_differentiable(results: Any) -> bool:
    """Whether there is a tensor of real or complex numbers among the results."""
    if isinstance(results, (tuple, list)):
        return any(_is_differentiable(r) for r in results)
    return isinstance(results, Tensor) and results.is_differentiable_dtype()


def standard_part(exact: Any, near: Sequence[Any]) -> Any:
    """The near value without its infinitely small part; `exact` where it is infinite."""
    where, known = packet("where"), near[0].detach()
    with at_kinks(EXACT):
        shown = _as_real(known, exact)
        small = infinitely_small(exact.dtype.np)
        exact = where(exact.isnan(), _standing(known.to(dtypes.complex128), exact), exact)
        change = (shown - exact).abs() > small
        return where(is_finite(known, exact) & change, shown, exact)


def _standing(near: Any, exact: Any) -> Any:
    """The number shown for an undefined exact derivative: ±∞ for c (iδ)⁻ᵐ with a real c, 0 for a
    finite number, NaN if that is not real.

    The size of the number tells m, and m the rotation i⁻ᵐ of c. A factor |c| other than 1 makes m
    inexact, but wrong by 1 only if |c| is as large as 1/δ.
    """
    where, small = packet("where"), infinitesimal(exact.dtype.np)
    finite, size = is_finite(near, exact), near.abs()
    orders = size.masked_fill(finite, 1).log() / -math.log(small)
    sign = (near.angle() + 0.5 * math.pi * orders).cos().sign()
    aside = near.imag.abs()
    known = where(finite, aside < math.sqrt(small) + size / 1024, aside * 1024 > size)
    infinite = (sign * math.inf).masked_fill(finite, 0)
    return infinite.masked_fill(~known, math.nan).to(exact.dtype)


def _as_real(near: Any, exact: Any) -> Any:
    """The near value of a real tensor without its infinitely small part."""
    return near if near.dtype is exact.dtype else near.to(exact.dtype)


def is_finite(near: Any, exact: Any) -> Any:
    """Which elements stay finite as δ goes to 0."""
    return near.detach().abs() < 1 / math.sqrt(infinitesimal(exact.dtype.np))


_SMALL = 1024  # multiples of δ up to this one are infinitely small


def infinitely_small(dtype: np.dtype[Any]) -> float:
    """The bound of infinitely small numbers: a multiple of δ (of δ² in a real part)."""
    small = infinitesimal(dtype)
    return _SMALL * (small if dtype.kind == "c" else small * small)


# ---- leaving a transform ------------------------------------------------------------------------


def settle(tensor: Any, derivative: bool) -> Any:
    """Convert a function's value or derivative as it leaves the transform that computed it."""
    if isinstance(tensor, Tensor) and is_limit(tensor):
        return packet("_settle")(tensor, derivative)
    return tensor


def ordinary(tensor: Any) -> Any:
    """A tensor without its near tensor: its value, with its history and tangent."""
    if not _is_of_limits(tensor):
        return tensor
    near, *exact = tensor.companion
    made = _like(_as_real(near, tensor), tensor.value)
    for dual in exact:
        tangent = standard_part(dual.companion, [near.companion])
        made.companion = _like(made.companion, tangent.value)
    return made
