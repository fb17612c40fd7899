"""Shape rules of normalizations: the result has the input's shape, the statistics its samples'."""

from __future__ import annotations

from adjoint.checks import normalization
from adjoint.core.shapes import Shape, Spec


def statistics_shape(input: Spec, normalized_shape: Shape) -> Shape:
    """One number for each sample, with ones for the dimensions that were normalized over."""
    count = len(normalized_shape)
    return (*input.shape[: input.ndim - count], *(1,) * count)


def native_layer_norm(
    input: Spec, normalized_shape: Shape, weight: Spec | None, bias: Spec | None, eps: float
) -> tuple[Spec, Spec, Spec]:
    """The result, the mean and 1/σ."""
    normalization.check("layer_norm", input, normalized_shape, weight=weight, bias=bias)
    affine = (None if t is None else t.dtype for t in (weight, bias))
    dtype = normalization.statistics_dtype("layer_norm", input.dtype, *affine)
    statistics = Spec(statistics_shape(input, normalized_shape), dtype)
    return input, statistics, statistics


def fused_rms_norm(
    input: Spec, normalized_shape: Shape, weight: Spec | None, eps: float | None
) -> tuple[Spec, Spec]:
    """The result, and 1/√(mean square) at least in float32."""
    normalization.check_rms(input, normalized_shape, weight)
    wide = input.dtype.wide
    return input, Spec(statistics_shape(input, normalized_shape), wide)


def rms_norm_input_backward(
    grad_out: Spec, input: Spec, normalized_shape: Shape, rstd: Spec, weight: Spec | None
) -> Spec:
    """Like the input."""
    normalization.check_rms(input, normalized_shape, weight)
    return input


def rms_norm_backward(
    grad_out: Spec, input: Spec, normalized_shape: Shape, rstd: Spec, weight: Spec | None
) -> tuple[Spec, Spec]:
    """Like input and weight."""
    normalization.check_rms(input, normalized_shape, weight)
    return input, Spec(tuple(normalized_shape), (input if weight is None else weight).dtype)


def layer_norm_input_backward(
    grad_out: Spec,
    input: Spec,
    normalized_shape: Shape,
    mean: Spec,
    rstd: Spec,
    weight: Spec | None,
) -> Spec:
    """Like the input."""
    normalization.check("layer_norm_backward", input, normalized_shape, weight=weight)
    return input


def layer_norm_backward(
    grad_out: Spec,
    input: Spec,
    normalized_shape: Shape,
    mean: Spec,
    rstd: Spec,
    weight: Spec | None,
) -> tuple[Spec, Spec, Spec]:
    """Like input, weight and bias."""
    normalization.check("layer_norm_backward", input, normalized_shape, weight=weight)
    affine = Spec(tuple(normalized_shape), (input if weight is None else weight).dtype)
    return input, affine, affine


def batch_normalized(
    input: Spec, weight: Spec | None, bias: Spec | None, eps: float
) -> tuple[Spec, Spec, Spec, Spec]:
    """The result, and three numbers for each channel, at least in float32."""
    kinds = (None if t is None else t.dtype for t in (weight, bias))
    normalization.check_batch("batch_norm", input, input.dtype, kinds, weight=weight, bias=bias)
    wide = input.dtype.wide
    statistics = Spec(input.shape[1:2], wide)
    return input, statistics, statistics, statistics


def batch_normalized_backward(
    grad: Spec, input: Spec, weight: Spec | None, mean: Spec, rstd: Spec
) -> tuple[Spec, Spec, Spec]:
    """The gradients of input, weight and bias; the last two exist even without a weight."""
    kind = None if weight is None else weight.dtype
    normalization.check_batch_backward(
        "batch_norm_backward", grad, input, input.dtype, kind, weight=weight, mean=mean, rstd=rstd
    )
    affine = Spec(input.shape[1:2], kind or input.dtype)
    return input, affine, affine
