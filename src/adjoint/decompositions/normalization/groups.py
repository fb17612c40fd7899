"""Normalizations of groups of channels, and of weights."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from adjoint import ops
from adjoint.checks import normalization
from adjoint.core.errors import ShapeError, ValueRangeError
from adjoint.core.shapes import Shape, show, wrap_dim
from adjoint.decompositions.halves import wide
from adjoint.decompositions.images import laid_out_as
from adjoint.decompositions.normalization.common import inverse_deviation, moments, scaled, total

Tensor = Any


def _by_channel(tensor: Tensor | None, ndim: int) -> Tensor | None:
    return None if tensor is None else tensor.reshape((-1, *(1,) * (ndim - 2)))


def _check_groups(what: str, channels: int, groups: int) -> None:
    if groups < 1 or channels % groups:
        raise ValueRangeError(f"{what}: {channels} channels do not make {groups} groups.")


def group_norm(
    input: Tensor,
    num_groups: int,
    weight: Tensor | None,
    bias: Tensor | None,
    eps: float,
    cudnn_enabled: bool,
) -> Tensor:
    """Each group of channels of a sample with mean 0 and variance 1, times weight plus bias."""
    if input.ndim < 2:
        raise ShapeError(f"group_norm: needs samples of channels, got {show(input.shape)}.")
    _check("group_norm", input, weight, bias)
    count, channels, *sizes = input.shape
    rows = _grouped("group_norm", input, count, channels, math.prod(sizes), num_groups)
    normal = ops.layer_norm(rows, (rows.shape[2],), None, None, eps).reshape(input.shape)
    result = scaled(normal, _by_channel(weight, input.ndim), _by_channel(bias, input.ndim))
    return laid_out_as(input, result.to(input.dtype))


def _check(what: str, input: Tensor, weight: Tensor | None, bias: Tensor | None) -> Any:
    """Raise unless everything fits; return the dtype of statistics."""
    normalization.check_channels(what, input, weight=weight, bias=bias)
    affine = (None if t is None else t.dtype for t in (weight, bias))
    return normalization.statistics_dtype(what, input.dtype, *affine)


def _grouped(what: str, input: Tensor, N: int, C: int, HxW: int, group: int) -> Tensor:
    """One row for each group: N×groups×elements."""
    if input.numel() != N * C * HxW or input.ndim < 2 or tuple(input.shape[:2]) != (N, C):
        raise ShapeError(
            f"{what}(N={N}, C={C}, HxW={HxW}): does not fit an input of {show(input.shape)}."
        )
    _check_groups(what, C, group)
    return wide(input).reshape((N, group, C // group * HxW))


def native_group_norm(
    input: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    N: int,
    C: int,
    HxW: int,
    group: int,
    eps: float,
) -> tuple[Tensor, Tensor, Tensor]:
    """group_norm, with the mean and 1/σ of each group; they have derivatives, too."""
    kind = _check("native_group_norm", input, weight, bias)
    rows = _grouped("native_group_norm", input, N, C, HxW, group)
    mean, centered, variance = moments(rows, (2,))
    rstd = inverse_deviation(centered, variance, (2,), eps)
    normal = (centered * rstd).reshape(input.shape)
    result = scaled(normal, _by_channel(weight, input.ndim), _by_channel(bias, input.ndim))
    result = laid_out_as(input, result.to(input.dtype))
    return result, mean.squeeze(2).to(kind), rstd.squeeze(2).to(kind)


def native_group_norm_backward(
    grad_out: Tensor,
    input: Tensor,
    mean: Tensor,
    rstd: Tensor,
    weight: Tensor | None,
    N: int,
    C: int,
    HxW: int,
    group: int,
    output_mask: Sequence[bool],
) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
    """The gradients of input, weight and bias that are wanted; None for the others."""
    rows = _grouped("native_group_norm_backward", input, N, C, HxW, group)
    shape, statistics = (rows.shape[2],), (mean.unsqueeze(2), rstd.unsqueeze(2))
    grad, dims = wide(grad_out), (0, *range(2, input.ndim))
    of_input = of_weight = of_bias = None
    if output_mask[0]:
        h = grad if weight is None else grad * wide(_by_channel(weight, input.ndim))
        of_rows = ops._layer_norm_input_backward(
            h.reshape(rows.shape), rows, shape, *statistics, None
        )
        of_input = of_rows.reshape(input.shape).to(input.dtype)
    if output_mask[1]:
        normal = ops._standardized(rows, shape, *statistics).reshape(input.shape)
        of_weight = total(grad * normal, dims).to((input if weight is None else weight).dtype)
    if output_mask[2]:
        of_bias = total(grad, dims).to((input if weight is None else weight).dtype)
    return of_input, of_weight, of_bias


# --- weights -------------------------------------------------------------------------------------


def norm_except_dim(v: Tensor, pow: int, dim: int) -> Tensor:
    """The norm over all dimensions but one, which stay as ones; over all for dim = -1."""
    if dim == -1:
        return ops.linalg_vector_norm(v, pow)
    return ops.linalg_vector_norm(v, pow, _others(v, dim), True)


def _others(v: Tensor, dim: int) -> Shape:
    kept = wrap_dim("weight_norm", dim, v.ndim)
    return tuple(i for i in range(v.ndim) if i != kept) or (0,)


def weight_norm(v: Tensor, g: Tensor, dim: int) -> tuple[Tensor, Tensor]:
    """v with the lengths g, and its own lengths."""
    if v.ndim == 1:  # each element is a vector of one
        norms = v.abs()
    else:
        norms = ops.linalg_vector_norm(wide(v), 2, _others(v, dim), True)
    return ops._directed(g, v, norms).to(v.dtype), norms
