"""vmap as a level: every tensor has one more dimension than its code sees.

An operator on batched tensors runs once, on the tensors below, by a batching rule: one from
`batching/` named in its row (`batch:`), the rule of its archetype, its decomposition, or a loop,
which is counted and named in a warning. A rule sees tensors with the batch in front; see
`batching/__init__.py`.
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from adjoint.batching import creation, pointwise, random, reduction
from adjoint.batching.common import DIMS, Batch
from adjoint.batching.words import shifted
from adjoint.calls import dispatch
from adjoint.calls.function import batching
from adjoint.core.errors import DependsOnValues, GradError, RandomnessError, ShapeError
from adjoint.core.promotion import check_inplace_cast
from adjoint.core.remembering import remembered
from adjoint.core.shapes import show
from adjoint.core.state import state
from adjoint.homes.levels import Level, wrap
from adjoint.homes.rates import generic
from adjoint.ops import binding
from adjoint.ops import operator as operators
from adjoint.ops.operator import Operator
from adjoint.table.rows import Row
from adjoint.tensor import views
from adjoint.tensor.nodes import count_write
from adjoint.tensor.tensor import Tensor, make

LOOPED: Counter[str] = Counter()  # how often each operator ran as a loop

Rule = Callable[..., Any]


@remembered
def rule_of(row: Row) -> tuple[str, Rule | None]:
    """The kind of batching rule that a row has, and the rule.

    The kind is "own", "archetype", "decomposition" (without a function), "none needed" or "loop".
    """
    named = binding.batching(row)
    if named is not None:
        return "own", named
    if row.family == "random" and row.kernel:
        return ("archetype", random.sized) if "size" in row.schema.names else ("own", random.filled)
    if row.archetype.promotes:
        return "archetype", pointwise.aligned
    if row.archetype.name == "creation":
        return "archetype", creation.created
    if row.archetype.name == "reduction" and reduction.with_dimension(row.name) is not None:
        return "archetype", reduction.reduced
    if row.decompose:
        return "decomposition", None
    if row.archetype.name == "inplace_view":
        return "archetype", None  # the view operator runs, and the tensor becomes its result
    if not row.schema.tensors:
        return "none needed", None
    if not row.schema.mutates and _shifts(row):
        return "archetype", shifted_or_looped
    return "loop", looped


def _shifts(row: Row) -> bool:
    """Whether a row takes one tensor and dimensions, which its rule only shifts."""
    tensors = row.schema.tensors
    if len(tensors) != 1 or tensors[0].type.is_list:
        return False
    return any(a.name in DIMS for a in row.schema.arguments)


class BatchLevel(Level):
    """One call of `vmap`. A tensor's companion is the axis of the batch in its value, or None."""

    name = "vmap"

    def __init__(self, size: int, randomness: str = "error") -> None:
        super().__init__()
        self.size = size
        self.randomness = randomness

    def lift(self, value: Any, axis: int | None = 0) -> Tensor:
        return wrap(self, value, None, axis)

    def is_batched(self, value: Any) -> bool:
        return isinstance(value, Tensor) and value.home is self and value.companion is not None

    def process(self, op: Operator, values: list[Any]) -> Any:
        if not self.open:
            self.check_open(op.name)
        _, rule = op.row.__dict__.get("_batching") or rule_of(op.row)
        if rule is pointwise.aligned:
            found = self._alike(values)
            if found is not None:
                before = self.go_below()
                try:
                    results = dispatch.again(op, found)
                finally:
                    state.set(before)
                if isinstance(results, Tensor):
                    return wrap(self, results, None, 0)
                return self._wrap(results, 0)
        if op.name == "detach":  # also drops the history below, as the method does
            return self.detach(values[0])
        if op.row.archetype.name == "inplace_view":  # its functional form
            return operators.packet(op.name[:-1])(*values)
        has, ndims, batched = self._facts(values)
        if not batched:
            return self._process_shared(op, values)
        if rule is None:
            return binding.decomposition(op.row)(*values)
        return self._apply(rule, op, values, has, ndims)

    def _alike(self, values: list[Any]) -> list[Any] | None:
        """The values below, if they broadcast without changes; else None.

        The common case, made quick: one dtype, one number of dimensions, batches in front.
        """
        found: list[Any] = []
        dtype = ndim = None
        batched = False
        for value in values:
            if not isinstance(value, Tensor):
                found.append(value)
                continue
            n = 0
            if value.home is self:
                axis, value = value.companion, value.value
                if axis is not None:
                    batched, n = True, -1
                    if axis:
                        return None
            held = value.value if value.home is None else value  # an array is asked at once
            n += held.ndim
            if ndim is None:
                dtype, ndim = held.dtype, n
            elif n != ndim or held.dtype is not dtype:
                return None
            found.append(value)
        return found if batched else None

    def _apply(
        self, rule: Rule, op: Operator, values: list[Any], has: list[Any], ndims: list[Any]
    ) -> Any:
        batch = Batch(op, self.size, tuple(has), tuple(ndims), self.randomness)
        before = self.go_below()
        try:
            found = self._wrap(rule(batch, *self._fronts(values)), 0)
        finally:
            state.set(before)
        if op.schema.is_view:
            self.attach_views(op, values, found)
        return found

    def _process_shared(self, op: Operator, values: list[Any]) -> Any:
        """Nothing is batched: one result for all samples.

        A view knows its base, which may become batched later.
        """
        with self.outside():
            results = self._wrap(op.call([self.below(v) for v in values]), None)
        if op.schema.is_view:
            self.attach_views(op, values, results)
        return results

    def _facts(self, values: list[Any]) -> tuple[list[Any], list[Any], bool]:
        """Whether each argument is batched, its number of dimensions, and whether any is
        batched.
        """
        has: list[Any] = []
        ndims: list[Any] = []
        any_batched = False
        for value in values:
            batched: Any = False
            ndim: Any = None
            if isinstance(value, Tensor):
                batched, ndim = value.home is self and value.companion is not None, value.ndim
                any_batched = any_batched or batched
            elif type(value) is list:
                batched, ndim, inside = self._facts(value)
                any_batched = any_batched or inside
            has.append(batched)
            ndims.append(ndim)
        return has, ndims, any_batched

    def _fronts(self, values: list[Any]) -> list[Any]:
        """The values of the arguments below; batched ones with the batch in front."""
        found: list[Any] = []
        for value in values:
            if isinstance(value, Tensor):
                if value.home is self:
                    axis, value = value.companion, value.value
                    if axis:
                        value = value.movedim(axis, 0)
            elif type(value) is list:
                value = self._fronts(value)
            found.append(value)
        return found

    def front(self, value: Any) -> Any:
        """The value of a tensor below; a batched one with the batch in front."""
        return self._fronts([value])[0]

    def again(
        self, function: Callable[..., Any], axes: Sequence[Any], values: Sequence[Any]
    ) -> Any:
        """Map another function over a batch of this size; results have the batch in front."""
        with BatchLevel(self.size, self.randomness) as level:
            result = function(
                *[v if a is None else level.lift(v, a) for v, a in zip(values, axes, strict=True)]
            )
        if isinstance(result, (tuple, list)):
            return tuple(level.result(r) for r in result)
        return level.result(result)

    def result(self, value: Any) -> Any:
        """The value of a result of this level, one level below, with the batch in front."""
        if not isinstance(value, Tensor):
            return value
        below = self.front(value)
        return below if self.is_batched(value) else below.expand((self.size, *below.shape))

    def _wrap(self, results: Any, axis: int | None) -> Any:
        if isinstance(results, Tensor):
            return wrap(self, results, None, axis)
        if isinstance(results, (tuple, list)):
            return type(results)(self._wrap(r, axis) for r in results)
        return results

    def is_idle(self, value: Any) -> bool:
        return not self.is_batched(value)

    def rate(self, tensor: Any, direction: Any) -> Any:
        found = direction.rate(tensor.value)
        return None if found is None else self.lift(found, tensor.companion)

    def aligned(self, tensor: Any, like: Any) -> tuple[Any, Any]:
        found, batched = self.front(tensor), self.is_batched(like)
        if self.is_batched(tensor) and not batched:  # one direction for all tangents of a Jacobian
            weights = generic((self.size, *[1] * (found.ndim - 1)), 0)
            found = (found * make(weights)).sum(0)
        elif batched and not self.is_batched(tensor):
            found = found.unsqueeze(0)
        return found, self.front(like)

    def check_belongs(self, op: Operator, target: Any) -> None:
        if not self.owns(target) and not self.takes_in(target):
            raise GradError(
                f"{op.name}: a tensor from outside vmap is changed in place with one value per "
                "sample; make it inside, or pass it in with in_dims"
            )

    def cloned(self, tensor: Any) -> Any:
        return self.lift(tensor.value.clone(), tensor.companion)

    def write(self, op: Operator, target: Any, result: Any) -> None:
        """Write the value below; if the result is batched, the target becomes batched first."""
        if result.shape != target.shape:
            raise ShapeError(
                f"{op.name}: the result has shape {show(result.shape)}, but the tensor written to "
                f"has {show(target.shape)}"
            )
        check_inplace_cast(op.name, result.dtype, target.dtype)
        if self.is_batched(result) and target.companion is None:
            self._give_batch(target)
        with self.outside():
            self.front(target).copy_(self.front(result))
        count_write(target, op.name)

    def _give_batch(self, tensor: Tensor) -> None:
        """Give a tensor that all samples shared a value for each sample.

        So get its base and the base's other views.
        """
        view = None if tensor.extra is None else tensor.extra.view
        base: Any = tensor if view is None else view.base
        with self.outside():
            base.value = base.value.expand((self.size, *base.value.shape)).clone()
        base.companion = 0
        known: dict[int, Any] = {}  # views by their last step, since views of views share steps
        for living in views.living_views(base):
            path = living.extra.view.path
            done = next((i for i in range(len(path), 0, -1) if id(path[i - 1]) in known), 0)
            start = known[id(path[done - 1])] if done else base
            view = views.replay(path[done:], self.lift(start.value, start.companion))
            living.value, living.companion = view.value, view.companion
            known[id(path[-1])] = living

    def detach(self, tensor: Any) -> Any:
        detached = self.lift(tensor.value.detach(), tensor.companion)
        views.attach_level(operators.operator("detach"), tensor, detached, ())
        return detached

    # -- what its tensors say --------------------------------------------------------------------

    def shape(self, tensor: Tensor) -> tuple[int, ...]:
        below, axis = tensor.value, tensor.companion
        shape = below.shape if below.home is not None else below.value.shape
        return shape if axis is None else shape[:axis] + shape[axis + 1 :]

    def strides(self, tensor: Tensor) -> Any:
        strides, axis = tensor.value.stride(), tensor.companion
        return strides if axis is None else strides[:axis] + strides[axis + 1 :]

    def is_contiguous(self, tensor: Tensor) -> bool:
        """Whether each sample is contiguous in memory."""
        expected = 1
        for size, stride in zip(reversed(tensor.shape), reversed(tensor.stride()), strict=True):
            if size != 1 and stride != expected:
                return 0 in tensor.shape
            expected *= size
        return True

    def direction(self, tensor: Tensor) -> Any:
        """The tangent of a tensor; None for a batched one, whose value has another shape."""
        return super().direction(tensor) if tensor.companion is None else None

    def array(self, tensor: Tensor) -> Any:
        if tensor.companion is None:
            return tensor.value.array
        raise DependsOnValues(
            "inside vmap a tensor stands for a whole batch, so its numbers cannot be looked at "
            "(item(), bool(), tolist(), an if or a while on it). Use ad.where to choose by value, "
            "or take the value out of vmap."
        )

    def created(self, tensor: Tensor) -> Tensor:
        return self.lift(tensor, None)

    def random(self, op: Operator, values: list[Any]) -> Any:
        """An operator that draws random numbers: one draw for all, or one for each sample."""
        if self.randomness == "error":
            raise RandomnessError(
                f"{op.name} draws random numbers inside vmap; say vmap(…, randomness='different') "
                "for new ones in each sample, or randomness='same'"
            )
        has, ndims, batched = self._facts(values)
        if self.randomness == "same" and not batched:
            return self._process_shared(op, values)
        _, rule = rule_of(op.row)
        assert rule is not None, op.full_name
        return self._apply(rule, op, values, has, ndims)

    def process_function(self, function: Any, args: Sequence[Any], keywords: dict[str, Any]) -> Any:
        return batching.run(self, function, args, keywords)


def mapped(function: Callable[..., Any], values: list[Any], batched: list[Any]) -> Any:
    """Run `function(values)` over the first dimension of the values marked in `batched`.

    The results have that dimension in front, and random operators draw once for all.
    """
    size = next(v.shape[0] for v in _chosen(values, batched))
    with BatchLevel(size, "same") as level:
        result = function(_lifted(level, values, batched))
    if isinstance(result, (tuple, list)):
        return type(result)([level.result(r) for r in result])
    return level.result(result)


def _chosen(values: list[Any], batched: list[Any]) -> Iterator[Any]:
    for value, has in zip(values, batched, strict=True):
        if type(value) is list:
            yield from _chosen(value, has)
        elif has:
            yield value


def _lifted(level: BatchLevel, values: list[Any], batched: list[Any]) -> list[Any]:
    return [
        _lifted(level, v, has) if type(v) is list else level.lift(v) if has else v
        for v, has in zip(values, batched, strict=True)
    ]


def shifted_or_looped(batch: Batch, *values: Any) -> Any:
    """Shift the dimensions of a row with one tensor; loop for None or (), of unknown meaning."""
    given = dict(zip(batch.op.schema.names, values, strict=True))
    known = all(v is not None and v != () for name, v in given.items() if name in DIMS)
    return shifted(batch, *values) if known else looped(batch, *values)


def looped(batch: Batch, *values: Any) -> Any:
    """The last resort: one sample after another, with a warning that names the operator."""
    op = batch.op
    if not LOOPED[op.full_name]:
        warnings.warn(
            f"vmap: {op.full_name} has no batching rule and runs as a loop over {batch.size} "
            "samples",
            stacklevel=2,
        )
    LOOPED[op.full_name] += 1
    results = [
        op.call([_sample(v, h, i) for v, h in zip(values, batch.has, strict=True)])
        for i in range(batch.size)
    ]
    if not results:
        raise ShapeError(f"vmap: {op.full_name} cannot run over an empty batch")
    gather = operators.packet("stack")
    if isinstance(results[0], (tuple, list)):
        return type(results[0])(gather([r[k] for r in results]) for k in range(len(results[0])))
    return gather(results)


def _sample(value: Any, has: Any, i: int) -> Any:
    if type(value) is list:
        return [_sample(v, h, i) for v, h in zip(value, has, strict=True)]
    return value.select(0, i) if has else value


def batch_size(
    axes: list[tuple[Any, int | None]],
    names: Callable[[], list[str]],
    given: int | None = None,
) -> int:
    """The common size of the mapped dimensions, or an error that names the arguments."""
    sizes: dict[int, int] = {} if given is None else {given: -1}
    for number, (value, axis) in enumerate(axes):
        if axis is not None:
            sizes.setdefault(value.shape[axis], number)
    if not sizes:
        raise ShapeError("vmap: no argument is mapped; give in_dims with at least one dimension")
    if len(sizes) > 1:
        known = [*names(), "axis_size"]
        shown = ", ".join(f"{known[number]} has {size}" for size, number in sizes.items())
        raise ShapeError(f"vmap: the mapped dimensions must have one size: {shown}")
    return next(iter(sizes))
