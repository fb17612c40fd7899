"""Shape rules of the shape family: Specs in, Specs out, no data.

Most views have no rule here, since their kernels run on arrays without memory; `view` and the like
have one, because their kernels depend on strides, which a Spec lacks.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from adjoint.checks import shape as layout
from adjoint.checks.creation import check_fill
from adjoint.core import dtypes
from adjoint.core.dtypes import DType
from adjoint.core.errors import DependsOnValues, DtypeError, ShapeError, ValueRangeError
from adjoint.core.promotion import result_type
from adjoint.core.shapes import (
    Shape,
    Spec,
    broadcast,
    combinations_of,
    infer_size,
    show,
    wrap_dim,
)


def same(self: Spec, *others: Any) -> Spec:
    """The result is like `self`: clone, fill, zero, lift."""
    return self


def view(self: Spec, size: Shape, *stride: Any) -> Spec:
    """Another shape with as many elements."""
    return Spec(infer_size("view", size, self.size), self.dtype)


def reshape(self: Spec, shape: Shape) -> Spec:
    """Another shape with as many elements."""
    return Spec(infer_size("reshape", shape, self.size), self.dtype)


def view_dtype(self: Spec, dtype: DType) -> Spec:
    """The last dimension scales with the size of an element."""
    old, new = self.dtype.itemsize, dtype.itemsize
    if old == new:
        return Spec(self.shape, dtype)
    if not self.shape:
        raise ShapeError(f"view: a scalar of {self.dtype} cannot be seen as {dtype}.")
    if self.shape[-1] * old % new:
        raise ShapeError(
            f"view: {self.shape[-1]} elements of {self.dtype} in the last dimension are no whole "
            f"number of {dtype}."
        )
    return Spec((*self.shape[:-1], self.shape[-1] * old // new), dtype)


def view_as_real(self: Spec) -> Spec:
    """A new last dimension of size 2."""
    if not self.dtype.is_complex:
        raise DtypeError(f"view_as_real: needs a complex tensor, got {self.dtype}.")
    return Spec((*self.shape, 2), self.dtype.to_real())


def view_as_complex(self: Spec) -> Spec:
    """The last dimension, of size 2, goes."""
    if self.dtype not in (dtypes.float32, dtypes.float64):
        raise DtypeError(f"view_as_complex: needs float32 or float64, got {self.dtype}.")
    if self.shape[-1:] != (2,):
        raise ShapeError(
            "view_as_complex: the last dimension must have size 2 (real, imaginary), "
            f"got {show(self.shape)}."
        )
    return Spec(self.shape[:-1], self.dtype.to_complex())


def real(self: Spec) -> Spec:
    """The same shape, real."""
    return Spec(self.shape, self.dtype.to_real())


def imag(self: Spec) -> Spec:
    """The same shape, real; there must be an imaginary part."""
    if not self.dtype.is_complex:
        raise DtypeError(f"imag: needs a complex tensor, got {self.dtype}.")
    return Spec(self.shape, self.dtype.to_real())


def to_copy(self: Spec, dtype: DType | None, *options: Any) -> Spec:
    """The same shape, another dtype."""
    return Spec(self.shape, dtype or self.dtype)


def complex_(real: Spec, imag: Spec) -> Spec:
    """Broadcast; the complex dtype of two equal real ones."""
    if real.dtype is not imag.dtype or real.dtype not in (dtypes.float32, dtypes.float64):
        raise DtypeError(
            "complex: real and imag must both be float32 or both float64, got "
            f"{real.dtype} and {imag.dtype}."
        )
    return Spec(broadcast("complex", real.shape, imag.shape), real.dtype.to_complex())


def fill(self: Spec, value: Any) -> Spec:
    """Like `self`; the value has no dimensions."""
    if isinstance(value, Spec) and value.shape:
        raise ShapeError(f"fill: the value must be a number or a scalar, got {show(value.shape)}.")
    check_fill(self.dtype, value)
    return self


def cat(tensors: Sequence[Spec], dim: int) -> Spec:
    """Sizes add up along `dim`."""
    return Spec(layout.cat_shape("cat", [x.shape for x in tensors], dim)[0], result_type(*tensors))


def flip(self: Spec, dims: Shape) -> Spec:
    """Like `self`."""
    layout.distinct("flip", dims, self.ndim)
    return self


def triangle(self: Spec, diagonal: int) -> Spec:
    """Like `self`, which needs two dimensions."""
    if self.ndim < 2:
        raise ShapeError(f"tril and triu need at least 2 dimensions, got {self.ndim}.")
    return self


def unfold(self: Spec, dimension: int, size: int, step: int) -> Spec:
    """The number of windows in place of the dimension, and their size at the end."""
    return Spec(layout.unfold_shape("unfold", self.shape, dimension, size, step)[0], self.dtype)


def unfold_backward(grad_in: Spec, input_sizes: Shape, dim: int, size: int, step: int) -> Spec:
    """The shape that was unfolded."""
    return Spec(tuple(input_sizes), grad_in.dtype)


def unsafe_split(self: Spec, split_size: int, dim: int) -> list[Spec]:
    """Equal pieces but the last."""
    dim = wrap_dim("split", dim, self.ndim)
    return _pieces(self, layout.split_sizes("split", self.shape[dim], split_size), dim)


def unsafe_split_with_sizes(self: Spec, split_sizes: Shape, dim: int) -> list[Spec]:
    """Pieces of the given sizes."""
    dim = wrap_dim("split", dim, self.ndim)
    return _pieces(self, layout.checked_sizes("split", self.shape[dim], split_sizes), dim)


def _pieces(self: Spec, sizes: Shape, dim: int) -> list[Spec]:
    before, after = self.shape[:dim], self.shape[dim + 1 :]
    return [Spec((*before, size, *after), self.dtype) for size in sizes]


def repeat_interleave(repeats: Spec, output_size: int | None) -> Spec:
    """A vector whose length is the sum of the repeats: known only if the caller says so."""
    if output_size is None:
        raise DependsOnValues(
            "repeat_interleave: the size of the result is the sum of repeats, which is not known "
            "without data; pass output_size=."
        )
    return Spec((output_size,), repeats.dtype)


def combinations(self: Spec, r: int, with_replacement: bool) -> Spec:
    """One row for each combination."""
    if self.ndim != 1:
        raise ShapeError(f"combinations: needs a vector, got {show(self.shape)}.")
    if r < 0:
        raise ValueRangeError(f"combinations: r must be at least 0, got {r}.")
    if r == 0:
        return Spec((0,), self.dtype)
    n = self.size
    rows = combinations_of(n, r, with_replacement)
    return Spec((rows, r), self.dtype)


def zeros(size: Shape, dtype: DType | None, *options: Any) -> Spec:
    """A tensor of the size and dtype that were asked for."""
    return Spec(tuple(size), dtype or dtypes.DEFAULT.dtype)


def new_zeros_with_same_feature_meta(self: Spec, other: Spec, self_num_batch_dims: int) -> Spec:
    """Like `other`, with the first dimensions of `self` in front."""
    return Spec(self.shape[:self_num_batch_dims] + other.shape, other.dtype)


def copy(self: Spec, src: Spec, non_blocking: bool) -> Spec:
    """`self`, if `src` broadcasts to it."""
    if broadcast("copy_", self.shape, src.shape) != self.shape:
        raise ShapeError(
            f"copy_: a source of shape {show(src.shape)} does not fit into {show(self.shape)}."
        )
    return self
