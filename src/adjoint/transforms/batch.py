"""vmap as a level: every tensor has one more dimension than its code sees.

An operator on batched tensors runs once, on the tensors below, by a batching rule: that of its archetype, one of
`batching/` named in its row (`batch:`), that of its decomposition, or, counted and named, a loop.
A rule sees tensors with the batch in front. It is called as `rule(batch, *arguments)`, with
`batch.size` and `batch.has` (one boolean per argument; for a list of tensors, a list).
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from adjoint.core.errors import AdjointError, GradError, ShapeError
from adjoint.core.promotion import result_type
from adjoint.core.shapes import Spec
from adjoint.core.shapes import wrap_dim as _wrap_dim
from adjoint.ops import operator as operators
from adjoint.ops.operator import Operator
from adjoint.table.rows import Row
from adjoint.tensor import binding
from adjoint.tensor.levels import Level, LevelTensor, wrap
from adjoint.tensor.tensor import Tensor

LOOPED: Counter[str] = Counter()  # operators that ran as a loop, for `adjoint coverage`
_DIMS = frozenset(("dim", "dims", "dim0", "dim1", "dim2", "dimension", "start_dim", "end_dim", "axis"))


@dataclass(frozen=True)
class Batch:
    """What a batching rule is told."""

    op: Operator
    size: int  # of the batch dimension
    has: tuple[Any, ...]  # which arguments are batched
    ndims: tuple[Any, ...]  # how many dimensions the user's code sees of each tensor argument


class BatchTensor(LevelTensor):
    """A tensor of a `BatchLevel`: `value` has the batch at `axis`, or nowhere if that is None."""

    __slots__ = ("axis",)

    axis: int | None

    @property
    def shape(self) -> tuple[int, ...]:
        shape = self.value.shape
        return shape if self.axis is None else shape[: self.axis] + shape[self.axis + 1 :]

    @property
    def ndim(self) -> int:
        return len(self.shape)

    def stride(self, dim: int | None = None) -> Any:
        strides = self.value.stride()
        if self.axis is not None:
            strides = strides[: self.axis] + strides[self.axis + 1 :]
        return strides if dim is None else strides[dim]

    def is_contiguous(self, memory_format: Any = None) -> bool:
        return bool(self.front().is_contiguous())

    def front(self) -> Any:
        """The tensor below, with the batch in front."""
        return self.value if not self.axis else self.value.movedim(self.axis, 0)

    @property
    def array(self) -> Any:
        if self.axis is None:
            return self.value.array
        raise AdjointError(
            "inside vmap a tensor stands for a whole batch, so its numbers cannot be looked at (item(), bool(), "
            "tolist(), an if or a while on it). Use ad.where to choose by value, or take the value out of vmap."
        )


class BatchLevel(Level):
    """One call of `vmap`."""

    name = "vmap"

    def __init__(self, size: int, randomness: str = "error") -> None:
        super().__init__()
        self.size = size
        self.randomness = randomness

    def lift(self, value: Any, axis: int | None = 0) -> BatchTensor:
        tensor = wrap(BatchTensor, self, value)
        tensor.axis = axis
        return tensor

    def is_batched(self, value: Any) -> bool:
        return isinstance(value, BatchTensor) and value.home is self and value.axis is not None

    def process(self, op: Operator, values: list[Any]) -> Any:
        self.check_open(op.name)
        row = op.row
        has = tuple(self._has(v) for v in values)
        if not _any(has):
            with self.outside():
                return self._wrap(op.call([self.below(v) for v in values]), None)
        if row.family == "random" and self.randomness == "error":
            raise AdjointError(
                f"{op.name} draws random numbers inside vmap; say vmap(…, randomness='different') for new ones in each "
                "sample, or randomness='same'"
            )
        rule = self._rule(row)
        if rule is None:
            return binding.decomposition(row)(*values)
        ndims = tuple(self._ndim(v) for v in values)
        with self.outside():
            fronts = [self.front(v) for v in values]
            return self._wrap(rule(Batch(op, self.size, has, ndims), *fronts), 0)

    def _rule(self, row: Row) -> Callable[..., Any] | None:
        """The batching rule of a row; None: its decomposition."""
        named = row.texts.get("batch")
        if named:
            return binding.reference(named, "batching", row, "batch")
        if row.archetype.promotes:
            return pointwise
        if row.archetype.name == "creation":
            return creation
        if row.decompose:
            return None
        if not row.schema.mutates and _shifts(row):
            return shifted
        return looped

    def _has(self, value: Any) -> Any:
        return [self._has(v) for v in value] if type(value) is list else self.is_batched(value)

    def _ndim(self, value: Any) -> Any:
        if type(value) is list:
            return [self._ndim(v) for v in value]
        return value.ndim if isinstance(value, Tensor) else None

    def front(self, value: Any) -> Any:
        """What is below, with the batch in front where there is one; lists entry by entry."""
        if type(value) is list:
            return [self.front(v) for v in value]
        return value.front() if self.is_batched(value) else self.below(value)

    def again(self, function: Callable[..., Any], axes: Sequence[Any], values: Sequence[Any]) -> Any:
        """Map another function over a batch of this level's size; results have the batch in front."""
        with BatchLevel(self.size, self.randomness) as level:
            result = function(*[v if a is None else level.lift(v, a) for v, a in zip(values, axes, strict=True)])
        if isinstance(result, (tuple, list)):
            return tuple(level.result(r) for r in result)
        return level.result(result)

    def result(self, value: Any) -> Any:
        """A result of this level on the one below, with the batch in front."""
        if not isinstance(value, Tensor):
            return value
        below = self.front(value)
        return below if self.is_batched(value) else below.expand((self.size, *below.shape))

    def _wrap(self, results: Any, axis: int | None) -> Any:
        if isinstance(results, Tensor):
            return self.lift(results, axis)
        if isinstance(results, (tuple, list)):
            return type(results)(self._wrap(r, axis) for r in results)
        return results

    def process_inplace(self, op: Operator, functional: Callable[..., Any], values: list[Any]) -> Any:
        """Compute out of place, and write the result to the tensor below."""
        target = values[0]
        if not (isinstance(target, BatchTensor) and target.home is self):
            raise GradError(
                f"{op.name}: a tensor from outside vmap is changed in place with one value per sample; "
                "make it inside, or pass it in with in_dims"
            )
        count = op.positional
        keywords = dict(zip(op.schema.names[count:], values[count:], strict=True))
        result = functional(target, *values[1:count], **keywords)
        if self.is_batched(result) and target.axis is None:
            if target.extra is not None:
                raise GradError(f"{op.name}: inside vmap, an unbatched tensor with views is written to; clone() it first")
            target.value = target.value.expand((self.size, *target.value.shape)).clone()
            target.axis = 0
        with self.outside():
            written = self.front(result)
            if target.axis is not None and not self.is_batched(result):
                written = written.expand((self.size, *written.shape))
            (target.front() if target.axis is not None else target.value).copy_(written)
        return target

    def process_detach(self, tensor: Any) -> Any:
        return self.lift(tensor.value.detach(), tensor.axis)

    def created(self, tensor: Tensor) -> Tensor:
        return self.lift(tensor, None)

    def random(self, op: Operator, values: list[Any]) -> Any:
        """A random operator without tensors: one draw for all, or one for each sample."""
        if self.randomness == "error":
            raise AdjointError(
                f"{op.name} draws random numbers inside vmap; say vmap(…, randomness='different') for new ones in each "
                "sample, or randomness='same'"
            )
        if self.randomness == "same":
            return self.lift(super().random(op, values), None)
        draws = [Level.random(self, op, values) for _ in range(self.size)]
        return self.lift(operators.packet("stack")(draws), 0)

    def process_function(self, function: Any, args: Sequence[Any], keywords: dict[str, Any]) -> Any:
        return function.apply_on_batch(self, args, keywords)


def _any(has: Any) -> bool:
    return any(_any(h) if isinstance(h, (list, tuple)) else h for h in has)


def pointwise(batch: Batch, *values: Any) -> Any:
    """Batches align in front; missing dimensions become 1."""
    row = batch.op.row
    rank = max((n for n in batch.ndims if n is not None), default=0)
    names = {a.name for a in row.promoted}
    operands = [
        Spec((1,) * n, v.dtype) if n is not None else v
        for a, v, n in zip(row.schema.arguments, values, batch.ndims, strict=True)
        if a.name in names and v is not None
    ]
    common = result_type(*operands) if operands else None
    aligned = []
    for argument, value, has, ndim in zip(row.schema.arguments, values, batch.has, batch.ndims, strict=True):
        if isinstance(value, Tensor):
            if argument.name in names and common is not None and value.dtype is not common:
                value = value.to(common)  # the batch dimension must not change who decides the dtype
            if has and ndim < rank:
                value = value.reshape((batch.size, *(1,) * (rank - ndim), *value.shape[1:]))
        aligned.append(value)
    return batch.op.call(aligned)


def creation(batch: Batch, *values: Any) -> Any:
    """zeros_like and the like follow the batch; new_zeros and the like take a size and do not."""
    result = batch.op.call(list(values))
    return result if result.ndim and batch.op.name.endswith("_like") else _expanded(result, batch.size)


def _expanded(tensor: Any, size: int) -> Any:
    return tensor.expand((size, *tensor.shape))


def _shifts(row: Row) -> bool:
    """Whether a row takes one tensor and dimensions, so that shifting them is all."""
    tensors = row.schema.tensors
    if len(tensors) != 1 or tensors[0].type.is_list:
        return False
    others = [a for a in row.schema.arguments if not a.type.is_tensor]
    return any(a.name in _DIMS for a in others) or (row.archetype.shape == "broadcast")


def shifted(batch: Batch, *values: Any) -> Any:
    """One batched tensor: every dimension moves one to the right; all dimensions are all but the first."""
    ndim = next(n for n in batch.ndims if n is not None)
    moved = []
    scalar = ndim == 0
    for argument, value in zip(batch.op.schema.arguments, values, strict=True):
        if argument.name in _DIMS:
            value = _moved(batch.op.name, value, ndim)
        elif scalar and isinstance(value, Tensor):
            value = value.unsqueeze(1)
        moved.append(value)
    result = batch.op.call(moved)
    return _squeezed(batch, result) if scalar else result


def _moved(what: str, dims: Any, ndim: int) -> Any:
    if dims is None or (isinstance(dims, tuple) and not dims):
        return tuple(range(1, max(ndim, 1) + 1))
    if isinstance(dims, tuple):
        return tuple(_wrap_dim(what, d, ndim) + 1 for d in dims)
    return _wrap_dim(what, dims, ndim) + 1


def _squeezed(batch: Batch, result: Any) -> Any:
    """A scalar was treated as a vector of one; undo it where the dimension is still there."""
    if isinstance(result, (tuple, list)):
        return type(result)(_squeezed(batch, r) for r in result)
    return result.reshape((batch.size,)) if result.numel() == batch.size else result


def looped(batch: Batch, *values: Any) -> Any:
    """The last resort: one sample after the other, with a warning that names the operator."""
    op = batch.op
    if not LOOPED[op.full_name]:
        warnings.warn(f"vmap: {op.full_name} has no batching rule and runs as a loop over {batch.size} samples", stacklevel=2)
    LOOPED[op.full_name] += 1
    results = [op.call([_sample(v, h, i) for v, h in zip(values, batch.has, strict=True)]) for i in range(batch.size)]
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


def batch_size(axes: list[tuple[Any, int | None]], names: list[str]) -> int:
    """The common size of the mapped dimensions, or an error that names the arguments."""
    sizes: dict[int, str] = {}
    for (value, axis), name in zip(axes, names, strict=True):
        if axis is not None:
            sizes.setdefault(value.shape[axis], name)
    if not sizes:
        raise ShapeError("vmap: no argument is mapped; give in_dims with at least one dimension")
    if len(sizes) > 1:
        shown = ", ".join(f"{name} has {size}" for size, name in sizes.items())
        raise ShapeError(f"vmap: the mapped dimensions must have one size: {shown}")
    return next(iter(sizes))
