"""Shape rules of fake quantization: everything has the input's shape."""

from __future__ import annotations

from adjoint.checks import quantization
from adjoint.core.dtypes import bool_
from adjoint.core.shapes import Spec


def per_tensor(
    self: Spec, scale: float, zero_point: int, quant_min: int, quant_max: int
) -> tuple[Spec, Spec]:
    """The values and the mask."""
    what = "fake_quantize_per_tensor_affine"
    quantization.in_range(what, self.dtype, quant_min, quant_max)
    quantization.zero_point(what, zero_point, quant_min, quant_max)
    return self, Spec(self.shape, bool_)


def per_tensor_of_tensors(
    self: Spec, scale: Spec, zero_point: Spec, fake_quant_enabled: Spec, quant_min: int,
    quant_max: int,
) -> tuple[Spec, Spec]:  # fmt: skip
    """The values and the mask."""
    what = "fake_quantize_per_tensor_affine"
    quantization.in_range(what, self.dtype, quant_min, quant_max)
    numbers = {"scale": scale, "zero_point": zero_point, "fake_quant_enabled": fake_quant_enabled}
    quantization.single(what, **numbers)
    return self, Spec(self.shape, bool_)


def per_channel(
    self: Spec, scale: Spec, zero_point: Spec, axis: int, quant_min: int, quant_max: int
) -> tuple[Spec, Spec]:
    """The values and the mask."""
    what = "fake_quantize_per_channel_affine"
    quantization.in_range(what, self.dtype, quant_min, quant_max)
    quantization.channels(what, self, scale, zero_point, axis)
    return self, Spec(self.shape, bool_)


def learnable_per_tensor(
    self: Spec, scale: Spec, zero_point: Spec, quant_min: int, quant_max: int, grad_factor: float
) -> Spec:
    """That of the input."""
    what = "_fake_quantize_learnable_per_tensor_affine"
    quantization.in_range(what, self.dtype, quant_min, quant_max)
    quantization.single(what, scale=scale, zero_point=zero_point)
    return self


def learnable_per_channel(
    self: Spec, scale: Spec, zero_point: Spec, axis: int, quant_min: int, quant_max: int,
    grad_factor: float,
) -> Spec:  # fmt: skip
    """That of the input."""
    what = "_fake_quantize_learnable_per_channel_affine"
    quantization.in_range(what, self.dtype, quant_min, quant_max)
    quantization.channels(what, self, scale, zero_point, axis)
    return self
