"""Shape rules of reductions beyond the archetype: Specs in, Specs out, and the errors of dtypes."""

from __future__ import annotations

import math

from adjoint.checks.sorting import check_ordered
from adjoint.core import dtypes
from adjoint.core.dtypes import DType
from adjoint.core.errors import ArgumentError, DtypeError, ShapeError
from adjoint.core.shapes import Shape, Spec, reduced, wrap_dim, wrap_dims

Dims = Shape | int | None


def _over(what: str, self: Spec, dim: Dims, keepdim: bool, dtype: DType) -> Spec:
    return Spec(reduced(self.shape, wrap_dims(what, dim, self.ndim), keepdim), dtype)


def _inexact(what: str, dtype: DType) -> DType:
    if not dtype.is_differentiable:
        raise DtypeError(f"{what}: needs a floating point or complex dtype, got {dtype}")
    return dtype


def mean_all(self: Spec, dtype: DType | None) -> Spec:
    """A scalar."""
    return Spec((), _inexact("mean", dtype or self.dtype))


def mean(self: Spec, dim: Dims, keepdim: bool, dtype: DType | None) -> Spec:
    """Floating point or complex only."""
    return _over("mean", self, dim, keepdim, _inexact("mean", dtype or self.dtype))


def unreduce(self: Spec, dim: Dims, shape: Shape, keepdim: bool) -> Spec:
    """The shape from before the reduction."""
    return Spec(tuple(shape), self.dtype)


def select(self: Spec, dim: int, keepdim: bool) -> tuple[Spec, Spec]:
    """Values, and int64 indices."""
    check_ordered("max", self.dtype)
    values = _over("max", self, dim, keepdim, self.dtype)
    return values, Spec(values.shape, dtypes.int64)


def position(self: Spec, dim: int | None, keepdim: bool) -> Spec:
    """int64 indices."""
    check_ordered("argmax", self.dtype)
    return _over("argmax", self, dim, keepdim, dtypes.int64)


def truth(self: Spec, dim: Dims = None, keepdim: bool = False) -> Spec:
    """bool, and uint8 for uint8, as PyTorch."""
    dtype = self.dtype if self.dtype is dtypes.uint8 else dtypes.bool_
    return _over("any", self, dim, keepdim, dtype)


def truth_dims(self: Spec, dim: Shape | None, keepdim: bool) -> Spec:
    """As `truth`; an empty `dim` reduces nothing."""
    if dim is not None and len(dim) == 0:
        return Spec(self.shape, truth(self).dtype)
    return truth(self, dim, keepdim)


def count(self: Spec, dim: Dims) -> Spec:
    """int64."""
    return _over("count_nonzero", self, dim, False, dtypes.int64)


def hash_tensor(self: Spec, dim: Dims, keepdim: bool, mode: int) -> Spec:
    """uint64."""
    return _over("hash_tensor", self, dim, keepdim, dtypes.uint64)


def vector_norm(self: Spec, ord: float, dim: Dims, keepdim: bool, dtype: DType | None) -> Spec:
    """Real."""
    wanted = _inexact("linalg_vector_norm", dtype or self.dtype).to_real()
    return _over("linalg_vector_norm", self, dim, keepdim, wanted)


def moment(self: Spec, dim: Dims, correction: float | None, keepdim: bool) -> Spec:
    """Real."""
    return _over("var", self, dim, keepdim, _inexact("var", self.dtype).to_real())


def segment_reduce(
    data: Spec, reduce: str, lengths: Spec | None, indices: Spec | None, offsets: Spec | None,
    axis: int, unsafe: bool, initial: float | None,
) -> Spec:  # fmt: skip
    """As many elements along `axis` as there are segments."""
    axis = wrap_dim("segment_reduce", axis, data.ndim)
    bounds = offsets if lengths is None else lengths
    if bounds is None:
        raise ArgumentError("segment_reduce: give lengths= or offsets=")
    if not bounds.shape:
        raise ShapeError("segment_reduce: lengths and offsets need a dimension, got a scalar")
    segments = bounds.shape[-1] - (lengths is None)
    return Spec((*data.shape[:axis], segments, *data.shape[axis + 1 :]), data.dtype)


def segment_ids(lengths: Spec | None, offsets: Spec | None, axis: int, shape: Shape) -> Spec:
    """One number for each row of the data flattened up to `axis`."""
    axis = wrap_dim("segment_reduce", axis, len(shape))
    return Spec((math.prod(shape[: axis + 1]),), dtypes.int64)
