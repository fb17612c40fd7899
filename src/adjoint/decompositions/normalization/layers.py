"""Normalizations over the last dimensions: layer norm and root mean square."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from adjoint import ops
from adjoint.checks import normalization
from adjoint.core import dtypes
from adjoint.core.shapes import Shape
from adjoint.decompositions.halves import wide
from adjoint.decompositions.normalization.common import (
    attached,
    inverse_deviation,
    moments,
    moving,
    returned,
    scaled,
    total,
)

Tensor = Any


def native_layer_norm(
    input: Tensor, normalized_shape: Shape, weight: Tensor | None, bias: Tensor | None, eps: float
) -> tuple[Tensor, Tensor, Tensor]:
    """(x - mean) / √(variance + eps) · weight + bias, the mean, and 1/√(variance + eps)."""
    normalization.check("layer_norm", input, normalized_shape, weight=weight, bias=bias)
    affine = (None if t is None else t.dtype for t in (weight, bias))
    kind = normalization.statistics_dtype("layer_norm", input.dtype, *affine)
    dims = normalization.last_dims(normalized_shape)
    mean, centered, variance = moments(wide(input), dims)
    rstd = inverse_deviation(centered, variance, dims, eps)
    result = scaled(centered * rstd, weight, bias)
    return result.to(input.dtype), mean.detach().to(kind), rstd.detach().to(kind)


def standardized(input: Tensor, normalized_shape: Shape, mean: Tensor, rstd: Tensor) -> Tensor:
    """x̂ = (x - mean) · rstd, at least in float32."""
    normalization.check("layer_norm", input, normalized_shape)
    return attached(input, normalization.last_dims(normalized_shape), mean, rstd)[0]


def layer_norm_input_backward(
    grad_out: Tensor,
    input: Tensor,
    normalized_shape: Shape,
    mean: Tensor,
    rstd: Tensor,
    weight: Tensor | None,
) -> Tensor:
    """rstd (h - mean(h) - x̂ mean(h x̂)) with h = ḡ · weight."""
    normalization.check("layer_norm_backward", input, normalized_shape, weight=weight)
    dims = normalization.last_dims(normalized_shape)
    normal, scale = attached(input, dims, mean, rstd)
    h = wide(grad_out) if weight is None else wide(grad_out) * wide(weight)
    return returned(h, normal, scale, dims).to(input.dtype)


def layer_norm_backward(
    grad_out: Tensor,
    input: Tensor,
    normalized_shape: Shape,
    mean: Tensor,
    rstd: Tensor,
    weight: Tensor | None,
) -> tuple[Tensor, Tensor, Tensor]:
    """The gradient of the input, Σ ḡ x̂ and Σ ḡ."""
    leading = normalization.leading_dims(input.ndim, normalized_shape)
    kind = (input if weight is None else weight).dtype
    given = (input, normalized_shape, mean, rstd)
    of_input = ops._layer_norm_input_backward(grad_out, *given, weight)
    of_weight = total(wide(grad_out) * ops._standardized(*given), leading)
    return of_input, of_weight.to(kind), total(wide(grad_out), leading).to(kind)


def native_layer_norm_backward(
    grad_out: Tensor,
    input: Tensor,
    normalized_shape: Shape,
    mean: Tensor,
    rstd: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    output_mask: Sequence[bool],
) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
    """The gradients of input, weight and bias that are wanted; None for the others."""
    given = (grad_out, input, normalized_shape, mean, rstd, weight)
    if not (output_mask[1] or output_mask[2]):
        of_input = ops._layer_norm_input_backward(*given) if output_mask[0] else None
        return of_input, None, None
    of_input, of_weight, of_bias = ops._layer_norm_backward(*given)
    return (
        of_input if output_mask[0] else None,
        of_weight if output_mask[1] and weight is not None else None,
        of_bias.to((grad_out if bias is None else bias).dtype) if output_mask[2] else None,
    )


def fused_rms_norm(
    input: Tensor, normalized_shape: Shape, weight: Tensor | None, eps: float | None
) -> tuple[Tensor, Tensor]:
    """x / √(mean(x²) + eps) · weight, and 1/√(mean(x²) + eps)."""
    normalization.check_rms(input, normalized_shape, weight)
    x = wide(input)
    floor = dtypes.finfo(x.dtype).eps if eps is None else eps
    dims = normalization.last_dims(normalized_shape)
    rstd = inverse_deviation(x, (x * x).mean(dims, True), dims, floor)
    result = x * rstd if weight is None else x * rstd * wide(weight)
    return result.to(input.dtype), rstd


def fused_rms_norm_backward(
    grad_out: Tensor,
    input: Tensor,
    normalized_shape: Shape,
    rstd: Tensor,
    weight: Tensor | None,
    output_mask: Sequence[bool],
) -> tuple[Tensor | None, Tensor | None]:
    """The gradients of input and weight that are wanted; None for the others."""
    given = (grad_out, input, normalized_shape, rstd, weight)
    if not (output_mask[1] and weight is not None):
        return ops._rms_norm_input_backward(*given) if output_mask[0] else None, None
    of_input, of_weight = ops._rms_norm_backward(*given)
    return of_input if output_mask[0] else None, of_weight


def rms_norm_backward(
    grad_out: Tensor, input: Tensor, normalized_shape: Shape, rstd: Tensor, weight: Tensor | None
) -> tuple[Tensor, Tensor]:
    """The gradient of the input, and Σ ḡ x̂."""
    of_input, normal = _rms_norm_backward(grad_out, input, normalized_shape, rstd, weight)
    leading = normalization.leading_dims(input.ndim, normalized_shape)
    of_weight = total(wide(grad_out) * normal.conj(), leading)
    return of_input, of_weight.to((input if weight is None else weight).dtype)


def _rms_norm_backward(
    grad_out: Tensor, input: Tensor, normalized_shape: Shape, rstd: Tensor, weight: Tensor | None
) -> tuple[Tensor, Tensor]:
    """The gradient of the input, and x̂; the derivative goes through rstd, as for layer norm."""
    dims, scale = normalization.last_dims(normalized_shape), rstd.detach()
    normal, scale = moving(wide(input) * scale, scale, dims)
    h = wide(grad_out) if weight is None else wide(grad_out) * wide(weight).conj()
    along = (h * normal.conj()).mean(dims, True)
    return ((h - normal.conj() * along) * scale.conj()).to(input.dtype), normal
