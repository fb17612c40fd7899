"""Shapes and dtypes of operators that read or write parts of tensors.

If the size of a result depends on values (masks, nonzero), there is no shape without data, and the
rule raises and says what to use instead.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn

from adjoint.checks import indexing
from adjoint.core import dtypes
from adjoint.core.errors import DependsOnValues, DimensionError, ShapeError, ValueRangeError
from adjoint.core.shapes import Shape, Spec, broadcast, wrap_dim

Indices = Sequence[Spec | None]


def _depends_on_values(what: str, instead: str) -> NoReturn:
    raise DependsOnValues(
        f"{what}: the size of the result depends on values, which are not known here; {instead}."
    )


# ---- masks ------------------------------------------------------------------------------------


def masked_fill(self: Spec, mask: Spec, value: Any) -> Spec:
    indexing.check_mask("masked_fill", mask)
    if isinstance(value, Spec):
        indexing.check_scalar_tensor("masked_fill", value)
    else:
        indexing.check_number("masked_fill", self, value)
    return Spec(broadcast("masked_fill", self.shape, mask.shape), self.dtype)


def masked_scatter(self: Spec, mask: Spec, source: Spec) -> Spec:
    indexing.check_mask("masked_scatter", mask)
    indexing.check_same_dtype("masked_scatter", self, source, "source")
    return Spec(broadcast("masked_scatter", self.shape, mask.shape), self.dtype)


def masked_select(self: Spec, mask: Spec) -> Spec:
    _depends_on_values("masked_select", "use where(mask, x, 0), which keeps the shape")


def nonzero(self: Spec) -> Spec:
    _depends_on_values("nonzero", "use nonzero_static(x, size=...)")


def nonzero_static(self: Spec, size: int, fill_value: int) -> Spec:
    if size < 0:
        raise ValueRangeError(f"nonzero_static: size must not be negative, got {size}.")
    return Spec((size, self.ndim), dtypes.int64)


def one_hot(self: Spec, num_classes: int) -> Spec:
    indexing.check_integers("one_hot", self)
    if num_classes < 0:
        _depends_on_values("one_hot", "give num_classes")
    return Spec((*self.shape, num_classes), dtypes.int64)


# ---- gather and scatter -----------------------------------------------------------------------


def gather(self: Spec, dim: int, index: Spec, sparse_grad: bool) -> Spec:
    indexing.check_gather("gather", self, dim, index)
    return Spec(index.shape, self.dtype)


def scatter_src(self: Spec, dim: int, index: Spec, src: Spec) -> Spec:
    indexing.check_scatter("scatter", self, dim, index, src)
    return self


def scatter_reduce(
    self: Spec, dim: int, index: Spec, src: Spec, reduce: str, include_self: bool
) -> Spec:
    indexing.check_reduce("scatter_reduce", reduce)
    indexing.check_scatter("scatter_reduce", self, dim, index, src)
    return self


# ---- one vector of indices --------------------------------------------------------------------


def index_select(self: Spec, dim: int, index: Spec) -> Spec:
    dim = indexing.check_vector("index_select", self, dim, index)
    count = index.size
    if self.ndim == 0:
        if count != 1:
            raise ShapeError(f"index_select: a scalar takes an index of one element, got {count}.")
        return self
    return Spec((*self.shape[:dim], count, *self.shape[dim + 1 :]), self.dtype)


def index_add(self: Spec, dim: int, index: Spec, source: Spec, alpha: Any) -> Spec:
    indexing.check_number("index_add", self, alpha)
    indexing.check_source("index_add", self, dim, index, source)
    return self


def index_fill(self: Spec, dim: int, index: Spec, value: Any) -> Spec:
    indexing.check_vector("index_fill", self, dim, index)
    if isinstance(value, Spec):
        indexing.check_scalar_tensor("index_fill", value)
    else:
        indexing.check_number("index_fill", self, value)
    return self


# ---- lists of indices -------------------------------------------------------------------------


def _indexed(what: str, shape: Shape, indices: Indices) -> indexing.IndexedDims:
    indexing.check_index_dtypes(what, indices)
    if all(i is None for i in indices):
        raise DimensionError(f"{what}: at least one index must be given.")
    if any(i is not None and indexing.is_mask(i) for i in indices):
        _depends_on_values(
            f"{what} with a mask", "use where(mask, x, y), or index with integers (nonzero_static)"
        )
    return indexing.layout(what, shape, indices)


def index(self: Spec, indices: Indices) -> Spec:
    return Spec(_indexed("index", self.shape, indices).shape, self.dtype)


def index_put(self: Spec, indices: Indices, values: Spec, accumulate: bool, *_: Any) -> Spec:
    indexing.check_same_dtype("index_put", self, values, "values")
    indexing.check_index_dtypes("index_put", indices)
    if not any(i is not None and indexing.is_mask(i) for i in indices):
        indexing.check_values("index_put", values, _indexed("index_put", self.shape, indices).shape)
    return self  # with a mask the values' shape can be checked only when it runs


def take(self: Spec, index: Spec) -> Spec:
    indexing.check_integers("take", index)
    return Spec(index.shape, self.dtype)


def put(self: Spec, index: Spec, source: Spec, accumulate: bool) -> Spec:
    indexing.check_integers("put", index)
    indexing.check_same_dtype("put", self, source, "source")
    if index.size != source.size:
        raise ShapeError(
            "put: index and source must have the same number of elements, "
            f"got {index.size} and {source.size}."
        )
    return self


# ---- views and writing through them -----------------------------------------------------------


def as_strided(self: Spec, size: Shape, stride: Shape, storage_offset: int | None) -> Spec:
    # The size of the memory behind a tensor is known only when the program runs.
    indexing.check_strided("as_strided", size, stride, storage_offset or 0, None)
    return Spec(tuple(size), self.dtype)


def slice_inverse(self: Spec, src: Spec, *_: Any) -> Spec:
    return Spec(src.shape, self.dtype)


def select_scatter(self: Spec, src: Spec, dim: int, index: int) -> Spec:
    indexing.check_has_dims("select_scatter", self)
    dim = wrap_dim("select_scatter", dim, self.ndim)
    indexing.wrap_index("select_scatter", index, self.shape[dim], dim)
    indexing.check_replacement("select_scatter", src, self.shape[:dim] + self.shape[dim + 1 :])
    return self


def slice_scatter(
    self: Spec, src: Spec, dim: int, start: int | None, end: int | None, step: int
) -> Spec:
    indexing.check_has_dims("slice_scatter", self)
    dim = wrap_dim("slice_scatter", dim, self.ndim)
    first, last = indexing.slice_bounds("slice_scatter", self.shape[dim], start, end, step)
    count = indexing.sliced(first, last, step)
    want = (*self.shape[:dim], count, *self.shape[dim + 1 :])
    indexing.check_replacement("slice_scatter", src, want)
    return self


def diagonal_scatter(self: Spec, src: Spec, offset: int, dim1: int, dim2: int) -> Spec:
    want = indexing.diagonal_shape("diagonal_scatter", self.shape, offset, dim1, dim2)
    indexing.check_replacement("diagonal_scatter", src, want)
    return self


def as_strided_scatter(
    self: Spec, src: Spec, size: Shape, stride: Shape, storage_offset: int | None
) -> Spec:
    indexing.check_strided("as_strided_scatter", size, stride, storage_offset or 0, None)
    indexing.check_replacement("as_strided_scatter", src, tuple(size))
    return self
