"""What fake quantization asks of its arguments; only `.shape` and `.dtype` are looked at."""

from __future__ import annotations

import math
from typing import Any

from adjoint.core import dtypes
from adjoint.core.dtypes import DType
from adjoint.core.errors import ArgumentError, DtypeError, ShapeError
from adjoint.core.shapes import Shape, show, wrap_dim


def in_range(what: str, dtype: DType, quant_min: int, quant_max: int) -> None:
    """Raise unless the range is one, and the dtype can be rounded."""
    if not dtype.is_floating_point:
        raise DtypeError(f"{what}: needs a real floating point tensor, got {dtype}; convert it.")
    if quant_min > quant_max:
        raise ArgumentError(
            f"{what}: quant_min={quant_min} must not be above quant_max={quant_max}."
        )


def dtype_of(tensor: Any) -> DType:
    """The dtype of a tensor, a Spec or an array."""
    return tensor.dtype if isinstance(tensor.dtype, DType) else dtypes.of(tensor.dtype)


def zero_point(what: str, value: int, quant_min: int, quant_max: int) -> None:
    """Raise unless a zero point lies in the range."""
    if not quant_min <= value <= quant_max:
        raise ArgumentError(
            f"{what}: zero_point={value} must lie between quant_min={quant_min} and "
            f"quant_max={quant_max}."
        )


def single(what: str, **tensors: Any) -> None:
    """Raise unless tensors hold one number each."""
    for name, tensor in tensors.items():
        if math.prod(tensor.shape) != 1:
            raise ShapeError(f"{what}: {name} must hold one number, got {show(tensor.shape)}.")


def channels(what: str, self: Any, scale: Any, zero_point: Any, axis: int) -> Shape:
    """Raise unless there is a number for each slice along axis; return the shape that they
    broadcast in.
    """
    dim = wrap_dim(what, axis, len(self.shape))
    if not self.shape:
        raise ShapeError(f"{what}: needs a tensor with channels, got a scalar.")
    for name, tensor in (("scale", scale), ("zero_point", zero_point)):
        if tuple(tensor.shape) != (self.shape[dim],):
            raise ShapeError(
                f"{what}: {name} must have one number for each of {self.shape[dim]} slices along "
                f"dimension {dim} of {show(self.shape)}, got {show(tensor.shape)}."
            )
    return tuple(n if d == dim else 1 for d, n in enumerate(self.shape))
