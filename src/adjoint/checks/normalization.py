"""Shared by rules of normalizations, without data: which dimensions, and the errors."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

from adjoint.core import dtypes
from adjoint.core.dtypes import DType
from adjoint.core.errors import DtypeError, ShapeError
from adjoint.core.shapes import Shape, show


def last_dims(normalized_shape: Sequence[int]) -> Shape:
    """The dimensions to normalize over, counted from the end: (-2, -1)."""
    return tuple(range(-len(normalized_shape), 0))


def leading_dims(ndim: int, normalized_shape: Sequence[int]) -> Shape:
    """The dimensions before those: of the samples."""
    return tuple(range(ndim - len(normalized_shape)))


def check(what: str, input: Any, normalized_shape: Sequence[int], **affine: Any) -> None:
    """Raise unless the input ends in `normalized_shape`, which weight and bias have.

    Only `.shape` and `.dtype` are looked at, so arrays, Specs and tensors all do.
    """
    wanted = tuple(normalized_shape)
    if not wanted:
        raise ShapeError(f"{what}: normalized_shape is empty; give the sizes to normalize over.")
    if tuple(input.shape[-len(wanted) :]) != wanted:
        raise ShapeError(
            f"{what}: normalized_shape={wanted} needs an input that ends in {show(wanted)}, "
            f"got {show(input.shape)}."
        )
    for name, tensor in affine.items():
        if tensor is not None and tuple(tensor.shape) != wanted:
            raise ShapeError(
                f"{what}: {name} must have the shape {show(wanted)} of normalized_shape, got "
                f"{show(tensor.shape)}."
            )


def check_rms(input: Any, normalized_shape: Sequence[int], weight: Any) -> None:
    """Check the arguments of rms_norm, for dtypes that have a root mean square."""
    check("rms_norm", input, normalized_shape, weight=weight)
    dtype = input.dtype if isinstance(input.dtype, DType) else dtypes.of(input.dtype)
    if not dtype.is_differentiable:
        raise DtypeError(f"rms_norm: needs a floating point input, got {dtype}; convert it.")


def statistics_dtype(what: str, input: DType, *affine: DType | None) -> DType:
    """The dtype of mean and rstd: the input's, or float32 where the weights of float16 have it."""
    if not input.is_floating_point:
        raise DtypeError(f"{what}: needs a real floating point input, got {input}; convert it.")
    for dtype in affine:
        mixed = input.np in dtypes.REDUCED and dtype is dtypes.float32
        if dtype is not None and dtype is not input and not mixed:
            raise DtypeError(
                f"{what}: weight and bias have {dtype}, and the input {input}; convert one of them."
            )
    return next((d for d in affine if d is not None), input)


def count(normalized_shape: Sequence[int]) -> int:
    """How many elements share a mean."""
    return math.prod(normalized_shape)


def check_batch(
    what: str, input: Any, dtype: DType, affine: Iterable[DType | None], **by_channel: Any
) -> DType:
    """Raise unless a batch can be normalized by channels; return the dtype of its statistics."""
    if input.ndim < 2:
        raise ShapeError(f"{what}: needs samples of channels, got {show(input.shape)}.")
    check_channels(what, input, **by_channel)
    return statistics_dtype(what, dtype, *affine)


def check_batch_backward(
    what: str, grad: Any, input: Any, dtype: DType, affine: DType | None, **by_channel: Any
) -> None:
    """Raise unless a gradient and statistics belong to a batch that was normalized by channels."""
    check_batch(what, input, dtype, (affine,), **by_channel)
    if tuple(grad.shape) != tuple(input.shape):
        raise ShapeError(
            f"{what}: the gradient has shape {show(grad.shape)}, and the input "
            f"{show(input.shape)}; they must be equal."
        )


def check_channels(what: str, input: Any, **by_channel: Any) -> None:
    """Raise unless each has one number for each channel (dimension 1) of the input."""
    channels = input.shape[1] if input.ndim > 1 else 0
    for name, tensor in by_channel.items():
        if tensor is not None and tuple(tensor.shape) != (channels,):
            raise ShapeError(
                f"{what}: {name} must have one number for each of {channels} channels "
                f"(dimension 1 of {show(input.shape)}), got {show(tensor.shape)}."
            )
