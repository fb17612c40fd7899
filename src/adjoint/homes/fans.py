"""Tensors that stand for a fan: one computation at several matrices A + tD at once.

Where eigenvalues or singular values are close together, derivatives of the vectors are large and
cancel only in the end: Note [Repeated values] in kernels/linalg/clusters.py. So the factors of such
a matrix are tensors of `FANS`. Such a tensor shows the value computed at A (t = 0); its companion
is a `Fan`, one tensor with the values for every t, which has one more dimension in front. An
operator runs on the value, and once more on the whole fan, as under vmap. The tensors of a fan are
ordinary ones, which any transform differentiates.
  * An ordinary tensor combined with one of `FANS` is spread over the fan, and its gradient is the
    limit, for t → 0, of the gradients that come from the fan (`_spread_over_fan`, `_limit_of_fan`).
    In between, gradients of different t never meet.
  * A derivative leaves a transform as the limit for t → 0, a value as the value at A.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from adjoint.core.errors import AdjointError, DegenerateError, InplaceError
from adjoint.core.records import record
from adjoint.core.remembering import remembered
from adjoint.core.state import current
from adjoint.homes import limits
from adjoint.homes.levels import swap_view
from adjoint.homes.limits import EXACT, at_kinks
from adjoint.kinks.fans import FAN
from adjoint.ops import binding
from adjoint.ops.fans import closeness, order_ahead
from adjoint.ops.operator import Operator, packet
from adjoint.table.rows import Row
from adjoint.tensor import views
from adjoint.tensor.home import Height, Home, new_tensor
from adjoint.tensor.nodes import Leaf, count_write
from adjoint.tensor.tensor import Tensor, make
from adjoint.tensor.views import has_living_views

# Maps a function over the first dimension of the tensors that the second argument marks: vmap, set
# by `_wiring.py`.
mapped: Any = None


@record
class Fan:
    """The companion of a tensor of `FANS`."""

    values: Any  # a tensor: the values for each t
    repeated: bool  # whether values at t = 0 are equal, so that no derivatives exist there


# ---- where fans begin ---------------------------------------------------------------------------


def fan_out(op: Operator, values: tuple[Any, ...], outs: tuple[Any, ...]) -> tuple[Any, ...]:
    """The factors `outs` of a matrix; as tensors of `FANS` if it has a cluster."""
    order = order_ahead() + (outs[0].edge is not None and not current().orders)
    repeated, near = _clusters(op.row, values, outs, order)
    if repeated is None:
        return outs
    matrices = packet("_spread_over_fan")(values[0], repeated)
    return _factors(op, values, outs, matrices, repeated, near)


def _clusters(
    row: Row, values: Sequence[Any], outs: Sequence[Any], order: int
) -> tuple[bool | None, float]:
    """Whether values repeat (None: they are not even close), and the closeness that was used."""
    arrays = [v.value if isinstance(v, Tensor) else v for v in (*values, *outs)]
    near = closeness(outs[0].value.size, order)
    found = _finder(row)(*arrays, near)
    return (any(c.equal for c in found) if found else None), near


@remembered
def _finder(row: Row) -> Callable[..., Any]:
    """The function of the column `clusters`."""
    return binding.reference(row.texts["clusters"], "kernels", row, "clusters")  # type: ignore[no-any-return]


def _factors(
    op: Operator, values: Sequence[Any], outs: Sequence[Any], matrices: Any, *how: Any
) -> tuple[Any, ...]:
    """The factors of all matrices of a fan; `outs` are the ones at t = 0."""
    repeated, near = how
    exact = [make(o.value) for o in outs]
    found = packet(op.row.texts["fan"])(matrices, *values[1:], *exact, near)
    others = dict(zip(range(len(outs)), found, strict=False))
    return tuple(
        FANS.fan_for(out.value, others[k], repeated) if _stands_for(out, others.get(k)) else out
        for k, out in enumerate(outs)
    )


def _stands_for(out: Any, values: Any) -> bool:
    """Whether a factor has values for each t: pivots have none, nor has an empty stand-in for Q."""
    if values is None or not out.is_differentiable_dtype():
        return False
    return bool(out.shape == values.shape[1:])


def approached(op: Operator, values: list[Any], run: Callable[..., Any]) -> Any:
    """The factors of a matrix, where another interpreter runs operators by `run`."""
    with at_kinks(EXACT):
        outs = op.call([make(v.value) if isinstance(v, Tensor) else v for v in values])
    repeated, near = _clusters(op.row, values, outs, order_ahead() + 1)
    if repeated is None:
        return run(op, values)
    matrices = packet("_spread_over_fan")(values[0], repeated)
    return type(outs)(_factors(op, values, outs, matrices, repeated, near))


def is_wanted(op: Operator) -> bool:
    """Whether an operator gives factors of matrices, and fans of them are wanted now."""
    return "fan" in op.row.texts and not current().at_kinks


# ---- the home -----------------------------------------------------------------------------------


class Fans(Home):
    """Runs operators on tensors that stand for a fan: on the value and on the whole fan."""

    height = Height.FAN
    name = "a derivative beside repeated values"

    def is_limit(self, tensor: Tensor) -> bool:
        return True

    def is_fan(self, tensor: Tensor) -> bool:
        return True

    def fan_for(self, value: Any, values: Any, repeated: bool) -> Any:
        """A tensor that shows an array and stands for a fan."""
        edge = None
        if values.edge is not None:  # without a tangent: its limit may exist only later
            recorded = make(values.value, edge=values.edge)
            edge = packet("_fan_at_point")(recorded, repeated).edge
        tensor = new_tensor(self, value, edge)
        tensor.companion = Fan(values, repeated)
        return tensor

    def process(self, op: Operator, values: list[Any]) -> Any:
        if op.name == "_settle":
            return self.settle(values[0], values[1])
        if op.schema.replaces or op.name == "_ordinary":
            return op.call([ordinary(v) for v in values])
        if op.row.archetype.name == "creation":  # zeros_like: depends on no value
            return op.call(_each(_at_point, values))
        if is_wanted(op) and is_of_fans(values[0]):
            return self._factors_again(op, values)
        if op.row.random:  # one draw for all
            return self._of_fan(op.call, values, None)
        with at_kinks(EXACT):
            exact = op.call(_each(_at_point, values))
        if not _is_differentiable(exact):
            return exact
        result = self._of_fan(op.call, values, exact)
        if op.schema.is_view:  # a write to one would not reach the fan of the other
            for tensor in (*values, *(result if isinstance(result, (tuple, list)) else [result])):
                _protect(tensor)
            views.link(op, values[0], result, tuple(values[1:]))
        return result

    def process_function(self, function: Any, args: Sequence[Any], keywords: dict[str, Any]) -> Any:
        """Run a user's function with its own derivative, one matrix after another."""
        run = lambda values: function.apply(*values, **keywords)
        with at_kinks(EXACT):
            exact = run(_each(_at_point, list(args)))
        if not _is_differentiable(exact):
            return exact
        repeated = _repeated(args)
        found = self._one_by_one(run, *_spread(list(args), repeated))
        return self._fans_for(exact, found, repeated)

    def _factors_again(self, op: Operator, values: list[Any]) -> Any:
        """The factors of a matrix that was computed from others."""
        with at_kinks(EXACT):
            outs = op.call(_each(_at_point, values))
        found, near = _clusters(op.row, values, outs, order_ahead() + 1)
        fan = fan_of(values[0])
        repeated = fan.repeated or bool(found)
        return type(outs)(_factors(op, values, outs, fan.values, repeated, near))

    def _of_fan(self, run: Callable[[list[Any]], Any], values: list[Any], exact: Any) -> Any:
        """The result of an operator on a whole fan; `exact` is its result for the values at A."""
        repeated = _repeated(values)
        given, spread = _spread(values, repeated)
        try:
            found = mapped(run, given, spread)
        except AdjointError:  # the operator may fail at some matrices
            found = self._one_by_one(run, given, spread)
        if exact is None:
            exact = _each_result(lambda t: make(t.value[0]), found)
        return self._fans_for(exact, found, repeated)

    def _one_by_one(
        self, run: Callable[[list[Any]], Any], given: list[Any], spread: list[Any]
    ) -> Any:
        """Like `_of_fan`, one matrix after another; NaN where the operator raises."""
        results: list[Any] = []
        for k in range(FAN):
            at = [_at(v, s, k) for v, s in zip(given, spread, strict=True)]
            try:
                results.append(run(at))
            except AdjointError:
                if not k:
                    raise
                results.append(_each_result(lambda t: t.detach() * np.nan, results[0]))
        first = results[0]
        gather = packet("stack")
        if isinstance(first, (tuple, list)):
            return type(first)([gather([r[n] for r in results]) for n in range(len(first))])
        return gather(results)

    def _fans_for(self, exact: Any, found: Any, repeated: bool) -> Any:
        def one(e: Any, f: Any) -> Any:
            return self.fan_for(e.value, f, repeated) if _is_differentiable(e) else e

        if isinstance(exact, (tuple, list)):
            return type(exact)([one(e, f) for e, f in zip(exact, found, strict=True)])
        return one(exact, found)

    # -- leaving a transform -----------------------------------------------------------------------

    def settle(self, tensor: Any, derivative: bool) -> Any:
        """Convert a value or a derivative that leaves a transform."""
        fan = fan_of(tensor)
        if current().differentiating:
            shown = _shown(tensor) if derivative else tensor.value
            return self.fan_for(shown, fan.values, fan.repeated)
        if not derivative:
            return ordinary(tensor)
        settled = limits.settle(fan.values, derivative)
        return packet("_limit_of_fan")(settled, fan.repeated)

    # -- what its tensors say ----------------------------------------------------------------------

    def process_inplace(
        self, op: Operator, functional: Callable[..., Any], values: list[Any], /
    ) -> Any:
        """Compute out of place; the tensor then stands for the result."""
        target: Any = values[0]
        if op.row.archetype.name == "inplace_view":
            outer = new_tensor(self, target.value, target.edge)
            outer.companion = target.companion
            return swap_view(op, values, outer)
        if not target.value.flags.writeable:
            raise InplaceError(
                f"{op.schema.name}: the tensor comes from eigenvalues or singular values that are "
                "equal or close, and shares its memory with a view; a write would not change the "
                "derivatives of both. Build the result out of place: ad.where, ad.cat, index_put"
            )
        viewed = target.extra is not None and target.extra.view is not None
        if viewed or type(target.edge) is Leaf or has_living_views(target):
            return op.call([ordinary(v) for v in values])
        before: Any = target.clone()
        count = op.positional
        keywords = dict(zip(op.schema.names[count:], values[count:], strict=True))
        result = functional(before, *values[1:count], **keywords).to(target.dtype)
        np.copyto(target.value, np.broadcast_to(result.value, target.value.shape))
        target.home, target.edge = result.home, result.edge
        target.companion = result.companion if is_of_fans(result) else None  # eq_ has no derivative
        count_write(target, op.name)
        return target

    def detach(self, tensor: Tensor) -> Tensor:
        _protect(tensor)  # a write would not reach the fan
        fan = fan_of(tensor)
        return self.fan_for(tensor.value, fan.values.detach(), fan.repeated)


FANS = Fans()


def is_of_fans(value: Any) -> bool:
    """Whether a tensor stands for a fan itself, and not only on a level below."""
    return isinstance(value, Tensor) and value.home is FANS


def fan_of(tensor: Any) -> Fan:
    """The fan that a tensor of `FANS` stands for."""
    found: Fan = tensor.companion
    return found


def ordinary(value: Any) -> Any:
    """The value of a tensor of `FANS`, with the history and the tangent of the limit."""
    if not is_of_fans(value):
        return value
    fan = fan_of(value)
    near = packet("_fan_at_point")(fan.values, fan.repeated)
    tensor = make(value.value, edge=near.edge)
    tensor.home = near.home
    tensor.companion = None if near.home is None else near.companion
    return tensor


def _shown(tensor: Any) -> Any:
    """The limit of a derivative as an array; the value at A if there is no limit."""
    fan = fan_of(tensor)
    try:
        return packet("_limit_of_fan")(make(fan.values.value), fan.repeated).value
    except DegenerateError:  # the final result may not depend on the basis
        return tensor.value


def _at_point(value: Any) -> Any:
    """The value computed at A."""
    return make(value.value) if is_of_fans(value) else value


def _repeated(values: Sequence[Any]) -> bool:
    found = [v for each in values for v in (each if type(each) is list else [each])]
    return any(fan_of(v).repeated for v in found if is_of_fans(v))


def _spread(values: list[Any], repeated: bool) -> tuple[list[Any], list[Any]]:
    """The arguments of an operator on a whole fan, and which of them have a dimension more."""
    given: list[Any] = []
    spread: list[Any] = []
    for value in values:
        one: Any = value
        more: Any = False
        if type(value) is list:
            one, more = _spread(value, repeated)
        elif is_of_fans(value):
            one, more = fan_of(value).values, True
        elif isinstance(value, Tensor) and (value.edge is not None or value.home is not None):
            one, more = packet("_spread_over_fan")(value, repeated), True
        given.append(one)
        spread.append(more)
    return given, spread


def _at(value: Any, spread: Any, k: int) -> Any:
    if type(value) is list:
        return [_at(v, s, k) for v, s in zip(value, spread, strict=True)]
    return value.select(0, k) if spread else value


def _each(choose: Callable[[Any], Any], values: list[Any]) -> list[Any]:
    return [_each(choose, v) if type(v) is list else choose(v) for v in values]


def _each_result(function: Callable[[Any], Any], results: Any) -> Any:
    if isinstance(results, (tuple, list)):
        return type(results)([function(r) for r in results])
    return function(results)


def _is_differentiable(results: Any) -> bool:
    """Whether there is a tensor of real or complex numbers among the results."""
    if isinstance(results, (tuple, list)):
        return any(_is_differentiable(r) for r in results)
    return isinstance(results, Tensor) and results.is_differentiable_dtype()


def _protect(tensor: Any) -> None:
    """Make memory read-only, so that writing to it raises."""
    if is_of_fans(tensor):
        tensor.value = tensor.value.view()
        tensor.value.flags.writeable = False


# ---- the eager function of an operator with a fan: pieces of its text ----------------------------


def after_recording(row: Row, args: str, outs: str) -> tuple[str, str]:
    """Texts of the test whether results begin a fan, and of the new results; ("", "") if never."""
    if not row.texts.get("fan"):
        return "", ""
    watched = "_out0.edge is not None or _state().differentiating"
    return f"not _state().at_kinks and ({watched})", f"*_fan_out(_op, {args}, ({outs})),"


NAMESPACE = {"_fan_out": fan_out}
