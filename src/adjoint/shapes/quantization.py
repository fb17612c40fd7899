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
