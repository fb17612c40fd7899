"""The meta interpreter: shapes and dtypes without data.

A meta tensor holds an array of stride 0, which has a shape and a dtype and costs no memory. An
operator on meta tensors runs its row's shape rule: the row's own, the archetype's, or those of the
operators in its decomposition.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from adjoint.core import dtypes
from adjoint.core.devices import META
from adjoint.core.dtypes import DType, bool_
from adjoint.core.errors import AdjointError, DependsOnValues, ShapeError, ValueRangeError
from adjoint.core.shapes import Spec, broadcast, reduced, row_major, show, wrap_dims
from adjoint.core.state import changed
from adjoint.ops import binding
from adjoint.ops.operator import Operator
from adjoint.tensor import printing
from adjoint.tensor.home import Height, Home, new_tensor
from adjoint.tensor.tensor import Tensor, make


class MetaInterpreter(Home):
    """Runs shape rules on tensors without data, which have a shape and a dtype only."""

    height = Height.META
    name = "meta tensors"
    device = META
    stays = True

    def process(self, op: Operator, values: list[Any]) -> Any:
        return _wrap(infer(op, values))

    def process_inplace(
        self, op: Operator, functional: Callable[..., Any], values: list[Any]
    ) -> Any:
        """Check the shapes; nothing is written, and only squeeze_ and the like change the shape."""
        if not values[0].is_meta:
            raise DependsOnValues(
                f"{op.name}: a meta tensor has a shape and no data to write to a tensor that has"
            )
        count = op.positional
        keywords = dict(zip(op.schema.names[count:], values[count:], strict=True))
        result = functional(*values[:count], **keywords)
        if op.row.archetype.name == "inplace_view":
            values[0].value = result.value
        elif result.shape != values[0].shape:
            raise ShapeError(
                f"{op.name}: the result has shape {show(result.shape)}, but the tensor written "
                f"to has {show(values[0].shape)}"
            )
        return values[0]

    def strides(self, tensor: Tensor) -> tuple[int, ...]:
        """Row-major strides: the real ones are not tracked."""
        return row_major(tensor.shape)

    def is_contiguous(self, tensor: Tensor) -> bool:
        return True

    def check_numbers(self, what: str) -> None:
        raise DependsOnValues(f"{what} of a meta tensor: it has a shape and no data")

    def text(self, tensor: Tensor) -> str:
        wants_gradient = tensor.edge is not None
        return tensor.titled(
            printing.format_tensor(tensor.value, tensor.dtype, wants_gradient, None, is_meta=True)
        )

    def detach(self, tensor: Tensor) -> Tensor:
        return meta_tensor(tensor.shape, tensor.dtype)

    data = detach

    def __reduce__(self) -> str:
        return "META_TENSORS"


META_TENSORS = MetaInterpreter()


def meta_tensor(shape: tuple[int, ...], dtype: DType) -> Tensor:
    """Make a tensor without data."""
    return new_tensor(META_TENSORS, dummy(shape, dtype))


def with_memory(value: Any) -> Any:
    """A plain tensor of a meta tensor's shape, for code that reads only the shape."""
    if not (isinstance(value, Tensor) and value.home is META_TENSORS):
        return value
    return make(np.empty(value.shape, value.dtype.np))


def dummy(shape: tuple[int, ...], dtype: DType) -> Any:
    """An array of this shape that costs no memory."""
    if min(shape, default=0) < 0:
        raise ShapeError(f"a tensor cannot have the shape {show(shape)}: sizes start at 0")
    if max(math.prod(shape) * dtype.itemsize, *shape, 0) >= 2**63:
        raise ShapeError(f"a tensor of shape {show(shape)} has more bytes than can be counted")
    return np.lib.stride_tricks.as_strided(np.zeros((), dtype.np), shape, (0,) * len(shape))


def spec_of(value: Any) -> Any:
    """Tensors become Specs, other arguments stay."""
    if isinstance(value, Tensor):
        return Spec(tuple(value.shape), value.dtype)
    if type(value) is list:
        return [spec_of(v) for v in value]
    return value


def _wrap(result: Any) -> Any:
    if isinstance(result, Spec):
        return meta_tensor(result.shape, result.dtype)
    if isinstance(result, (tuple, list)):
        return type(result)(_wrap(r) for r in result)
    return result


def run(op: Operator, values: list[Any]) -> Any:
    """Run an operator for the shapes and dtypes of its results alone."""
    return _wrap(infer(op, values))


def infer(op: Operator, values: list[Any]) -> Any:
    """Return the Spec of each result of an operator, from its row's shape rule or decomposition;
    `values` holds tensors, or Specs in their place.
    """
    row = op.row
    specs = [spec_of(v) for v in values]
    if row.shape:
        return binding.reference(row.shape, "shapes", row, "shape")(*specs)
    rule = row.archetype.shape
    if rule == "broadcast":
        return _broadcast(op, specs)
    if rule == "reduce":
        return _reduce(op, specs)
    if rule == "view":
        return _view(op, values)
    if row.decompose:
        return _decomposed(op, values)
    raise AdjointError(f"{op.full_name} has no shape rule; add `shape:` to its row at {row.where}")


def _broadcast(op: Operator, specs: list[Any]) -> Any:
    row = op.row
    given = dict(zip(row.schema.names, specs, strict=True))
    tensors = [given[a.name] for a in row.schema.tensors if given[a.name] is not None]
    shape = broadcast(op.name, *(t.shape for t in tensors))
    dtype = row.computes_in(given) or tensors[0].dtype
    if row.archetype.result == "bool" or row.promote == "bool":
        dtype = bool_
    if row.promote == "real":
        dtype = dtype.to_real()
    if len(row.schema.returns) > 1:
        return tuple(Spec(shape, dtype) for _ in row.schema.returns)
    return Spec(shape, dtype)


def _reduce(op: Operator, specs: list[Any]) -> Any:
    given = dict(zip(op.row.schema.names, specs, strict=True))
    source = next(s for s in specs if isinstance(s, Spec))
    dims = wrap_dims(op.name, given.get("dim"), source.ndim)
    shape = reduced(source.shape, dims, bool(given.get("keepdim", False)))
    dtype = _reduced_dtype(source.dtype, given.get("dtype"), op.row.promote)
    return Spec(shape, dtype)


def _reduced_dtype(dtype: DType, wanted: DType | None, promote: Any) -> DType:
    if wanted is not None:
        return wanted.to_real() if promote == "real" else wanted
    if promote == "bool":
        return bool_
    if promote == "sum" and not dtype.is_differentiable:
        return dtypes.int64
    if promote == "index":
        return dtypes.int64
    if promote == "float" and not dtype.is_differentiable:
        return dtypes.DEFAULT.dtype
    return dtype.to_real() if promote == "real" else dtype


def _view(op: Operator, values: list[Any]) -> Any:
    """The shapes of a view, from its kernel on arrays of stride 0."""
    try:
        results = op.parts.compute(*[_without_data(v) for v in values])
    except OverflowError as error:
        raise ValueRangeError(f"{op.name}: {error}") from None
    if isinstance(results, (list, tuple)):
        return [Spec(r.shape, dtypes.of(r.dtype)) for r in results]
    return Spec(results.shape, dtypes.of(results.dtype))


def _decomposed(op: Operator, values: list[Any]) -> Any:
    """The Specs of the decomposition's results; it runs outside of all transforms."""
    with changed(levels=(), seen=False):
        return _specs(binding.decomposition(op.row)(*map(_without_data, values)))


def _specs(results: Any) -> Any:
    if isinstance(results, (list, tuple)):
        return [_specs(r) for r in results]
    return spec_of(results)


def _without_data(value: Any) -> Any:
    if type(value) is list:
        return [_without_data(v) for v in value]
    return meta_tensor(value.shape, value.dtype) if isinstance(value, (Tensor, Spec)) else value


def explain(op: Operator, args: tuple[Any, ...]) -> AdjointError | None:
    """The error that the shape rule raises for these arguments, if it does."""
    if op.row.archetype.shape == "view" and not op.row.shape:
        return None
    try:
        infer(op, list(args))
    except DependsOnValues:
        return None
    except AdjointError as error:
        return error
    return None
