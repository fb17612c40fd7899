"""Shape rules of convolutions.

`how` is stride, padding, dilation, transposed, output_padding and groups.
"""

from __future__ import annotations

from typing import Any

from adjoint.checks import convolution as geometry
from adjoint.core.shapes import Shape, Spec


def convolution(input: Spec, weight: Spec, bias: Spec | None, *how: Any) -> Spec:
    """A batch of channels, with one element for each place of the window."""
    what = "convolution"
    given = None if bias is None else bias.dtype
    geometry.check_dtypes(what, input=input.dtype, weight=weight.dtype, bias=given)
    found = geometry.geometry(what, input.shape, weight.shape, *how)
    geometry.check_bias(what, bias, found.result[1])
    return Spec(found.result, input.dtype)


def weight_backward(grad_output: Spec, input: Spec, weight_size: Shape, *how: Any) -> Spec:
    """The shape of the weight."""
    what = "convolution_backward"
    geometry.check_dtypes(what, grad_output=grad_output.dtype, input=input.dtype)
    geometry.of_weight(what, grad_output.shape, input.shape, weight_size, *how)
    return Spec(tuple(weight_size), input.dtype)
