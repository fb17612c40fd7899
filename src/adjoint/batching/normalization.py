"""Normalizations under vmap: over the last dimensions, so a batch in front is no matter."""

from __future__ import annotations

from typing import Any

from adjoint.batching.common import Batch, padded, whole
from adjoint.core.shapes import Shape

Tensor = Any


def native_layer_norm(
    batch: Batch,
    input: Tensor,
    normalized_shape: Shape,
    weight: Tensor | None,
    bias: Tensor | None,
    eps: float,
) -> Any:
    """Weights that differ from sample to sample are applied after."""
    ndim = batch.ndims[0]
    input = whole(batch, input, batch.has[0])
    if not (batch.has[2] or batch.has[3]):
        return batch.op.call([input, normalized_shape, weight, bias, eps])
    result, mean, rstd = batch.op.call([input, normalized_shape, None, None, eps])
    if weight is not None:
        result = result * padded(weight, batch.has[2], batch.ndims[2], ndim)
    if bias is not None:
        result = result + padded(bias, batch.has[3], batch.ndims[3], ndim)
    return result.to(input.dtype), mean, rstd


def fused_rms_norm(
    batch: Batch,
    input: Tensor,
    normalized_shape: Shape,
    weight: Tensor | None,
    eps: float | None,
) -> Any:
    """A weight that differs from sample to sample is applied after."""
    ndim = batch.ndims[0]
    input = whole(batch, input, batch.has[0])
    if not batch.has[2]:
        return batch.op.call([input, normalized_shape, weight, eps])
    result, rstd = batch.op.call([input, normalized_shape, None, eps])
    result = result * padded(weight, batch.has[2], batch.ndims[2], ndim)
    return result.to(input.dtype), rstd
