"""Kernels of fake quantization on arrays; float16 and bfloat16 are computed in float32."""

from __future__ import annotations

from typing import Any

import numpy as np

from adjoint.checks import quantization
from adjoint.core import dtypes
from adjoint.kernels.halves import widen

Array = np.ndarray[Any, np.dtype[Any]]


def _quantized(
    x: Array, scale: Any, zero_point: Any, quant_min: int, quant_max: int, *, early: bool = False
) -> tuple[Array, Array]:
    """The rounded values and where they were in the range; `early` adds the zero point before
    rounding. Scale and zero point have the dtype of x, or are numbers.
    """
    found = np.asarray(np.multiply(x, 1 / scale, dtype=x.dtype))
    if early:
        found += zero_point
    np.rint(found, out=found)
    if not early:
        found += zero_point
    mask = np.asarray((found >= quant_min) & (found <= quant_max))
    np.clip(found, quant_min, quant_max, out=found)
    found -= zero_point
    found *= scale
    return found, mask


def per_tensor(
    self: Array, scale: float, zero_point: int, quant_min: int, quant_max: int
) -> tuple[Array, Array]:
    """The rounded values, and where they were in the range."""
    what = "fake_quantize_per_tensor_affine"
    quantization.in_range(what, dtypes.of(self.dtype), quant_min, quant_max)
    quantization.zero_point(what, zero_point, quant_min, quant_max)
    x = widen(self)
    found, mask = _quantized(x, x.dtype.type(scale), zero_point, quant_min, quant_max)
    return found.astype(self.dtype, copy=False), mask


def per_tensor_of_tensors(
    self: Array, scale: Array, zero_point: Array, fake_quant_enabled: Array, quant_min: int,
    quant_max: int,
) -> tuple[Array, Array]:  # fmt: skip
    """Like `per_tensor`, with the settings in tensors; unchanged if switched off."""
    what = "fake_quantize_per_tensor_affine"
    quantization.in_range(what, dtypes.of(self.dtype), quant_min, quant_max)
    numbers = {"scale": scale, "zero_point": zero_point, "fake_quant_enabled": fake_quant_enabled}
    quantization.single(what, **numbers)
    if not fake_quant_enabled.item():
        return self.copy(), np.ones(self.shape, np.bool_)
    x = widen(self)
    size, zero = (x.dtype.type(a.item()) for a in (scale, zero_point))
    found, mask = _quantized(x, size, zero, quant_min, quant_max)
    return found.astype(self.dtype, copy=False), mask


def per_channel(
    self: Array, scale: Array, zero_point: Array, axis: int, quant_min: int, quant_max: int
) -> tuple[Array, Array]:
    """The rounded values of slices along axis, and where they were in the range."""
    what = "fake_quantize_per_channel_affine"
    quantization.in_range(what, dtypes.of(self.dtype), quant_min, quant_max)
    shape = quantization.channels(what, self, scale, zero_point, axis)
    x = widen(self)
    size, zero = (a.reshape(shape).astype(x.dtype) for a in (scale, zero_point))
    early = dtypes.of(zero_point.dtype).is_floating_point
    found, mask = _quantized(x, size, zero, quant_min, quant_max, early=early)
    return found.astype(self.dtype, copy=False), mask


def _learnable(
    self: Array, scale: Array, zero_point: Array, quant_min: int, quant_max: int
) -> Array:
    x = widen(self)
    zero = np.clip(np.rint(widen(zero_point)), quant_min, quant_max).astype(x.dtype)
    found, _ = _quantized(x, widen(scale).astype(x.dtype), zero, quant_min, quant_max)
    return found.astype(self.dtype, copy=False)


def learnable_per_tensor(
    self: Array, scale: Array, zero_point: Array, quant_min: int, quant_max: int,
    grad_factor: float,
) -> Array:  # fmt: skip
    """The rounded values; the zero point is rounded, too."""
    what = "_fake_quantize_learnable_per_tensor_affine"
    quantization.in_range(what, dtypes.of(self.dtype), quant_min, quant_max)
    quantization.single(what, scale=scale, zero_point=zero_point)
    return _learnable(self, scale.reshape(()), zero_point.reshape(()), quant_min, quant_max)


def learnable_per_channel(
    self: Array, scale: Array, zero_point: Array, axis: int, quant_min: int, quant_max: int,
    grad_factor: float,
) -> Array:  # fmt: skip
    """The rounded values of slices along axis."""
    what = "_fake_quantize_learnable_per_channel_affine"
    quantization.in_range(what, dtypes.of(self.dtype), quant_min, quant_max)
    shape = quantization.channels(what, self, scale, zero_point, axis)
    return _learnable(self, scale.reshape(shape), zero_point.reshape(shape), quant_min, quant_max)
