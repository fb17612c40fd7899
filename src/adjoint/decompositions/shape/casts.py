"""Changes of dtype and memory layout: `self` where nothing changes, else one copy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from adjoint import ops
from adjoint.checks import shape as layout
from adjoint.core import dtypes
from adjoint.core.dtypes import DType

Tensor = Any


def contiguous(self: Tensor, memory_format: Any) -> Tensor:
    """Return `self` if it is laid out as asked, else a copy that is."""
    if self.is_contiguous(memory_format):
        return self
    return self.clone(memory_format=layout.own_format("contiguous", memory_format))


def to_dtype(
    self: Tensor, dtype: DType, non_blocking: bool, copy: bool, memory_format: Any
) -> Tensor:
    """Return `self` if it has the dtype already and no copy is asked for."""
    if self.dtype is dtype and not copy and memory_format is None:
        return self
    return ops._to_copy(self, dtype=dtype, memory_format=memory_format)


def to_other(
    self: Tensor, other: Tensor, non_blocking: bool, copy: bool, memory_format: Any
) -> Tensor:
    """As `to_dtype`, with the dtype and device of `other`."""
    if self.device != other.device:
        return to_device(self, other.device, other.dtype, non_blocking, copy, memory_format)
    return to_dtype(self, other.dtype, non_blocking, copy, memory_format)


def to_device(
    self: Tensor, device: Any, dtype: DType, non_blocking: bool, copy: bool, memory_format: Any
) -> Tensor:
    """As `to_dtype`, and on another device."""
    if self.device == device:
        return to_dtype(self, dtype, non_blocking, copy, memory_format)
    return ops._to_copy(self, dtype=dtype, device=device, memory_format=memory_format)


def _cast_to(dtype: DType) -> Callable[[Tensor, Any], Tensor]:
    def cast(self: Tensor, memory_format: Any) -> Tensor:
        return to_dtype(self, dtype, False, False, memory_format)

    cast.__name__ = f"to_{dtype.name}"
    return cast


to_float64 = _cast_to(dtypes.float64)
to_float32 = _cast_to(dtypes.float32)
to_float16 = _cast_to(dtypes.float16)
to_bfloat16 = _cast_to(dtypes.bfloat16)
to_complex64 = _cast_to(dtypes.complex64)
to_complex128 = _cast_to(dtypes.complex128)
to_int64 = _cast_to(dtypes.int64)
to_int32 = _cast_to(dtypes.int32)
to_int16 = _cast_to(dtypes.int16)
to_int8 = _cast_to(dtypes.int8)
to_uint8 = _cast_to(dtypes.uint8)
to_bool = _cast_to(dtypes.bool_)
