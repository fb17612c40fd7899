"""Resizing as gathers along one dimension after the other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from adjoint import ops
from adjoint.checks import resampling
from adjoint.core import dtypes
from adjoint.core.dtypes import DType
from adjoint.core.shapes import Shape

Tensor = Any
FEW = 4  # taps that are added one by one; more are summed along a dimension of their own


def resample_by(
    input: Tensor, dims: int, output_size: Sequence[int] | None, mode: str, align_corners: bool,
    scale_factors: Sequence[float] | None,
) -> Tensor:  # fmt: skip
    """Another size, which is given or follows from factors."""
    what, shape = resampling.name_of(mode, dims), tuple(input.shape)
    size = resampling.output_size_of(what, shape, dims, output_size, scale_factors)
    return ops._resample(input, size, mode, align_corners, scale_factors or [0.0] * dims)


def resample(
    self: Tensor, output_size: Shape, mode: str, align_corners: bool, scales: Sequence[float]
) -> Tensor:
    """The weighted taps of each element, along one dimension after the other."""
    resampling.check_input(tuple(self.shape), output_size, self.dtype, mode)
    dtype, dims = self.dtype, len(output_size)
    selects = resampling.TAPS.get(mode) == 1
    rounds = dtype.name == "uint8" and not selects
    x = self if selects else self.to(_computed_in(dtype))
    for n in reversed(range(dims)):
        geometry = (self.shape[2 + n], output_size[n], mode, align_corners)
        scale = resampling.used_scale(*geometry, scales[n], dims, dtype)
        if scale is None:
            continue
        taps = resampling.taps_dtype(dtype, mode, dims)
        indices, weights = ops._resampling_taps(*geometry, scale, dtype=taps)
        x = x.index_select(2 + n, indices[:, 0]) if selects else _mixed(x, 2 + n, indices, weights)
        if rounds:
            x = (x + 0.5).floor().clamp(0, 255)
    return x.clone() if x is self else x.to(dtype)


def resample_backward(
    grad_output: Tensor, output_size: Shape, input_size: Shape, mode: str, align_corners: bool,
    scales: Sequence[float],
) -> Tensor:  # fmt: skip
    """What each element gave comes back to it, along one dimension after the other."""
    dtype, dims = grad_output.dtype, len(output_size)
    resampling.check_gradient(tuple(grad_output.shape), output_size, input_size, dtype, mode)
    grad = grad_output.to(_computed_in(dtype))
    for n in range(dims):
        size, wanted = input_size[2 + n], output_size[n]
        geometry = (size, wanted, mode, align_corners)
        scale = resampling.used_scale(*geometry, scales[n], dims, dtype)
        if scale is None:
            continue
        if times := resampling.repeats(size, wanted, mode, scale):
            shape = (*grad.shape[: 2 + n], size, times, *grad.shape[3 + n :])
            grad = grad.reshape(shape).sum(3 + n)
            continue
        taps = resampling.taps_dtype(dtype, mode, dims)
        indices, weights = ops._resampling_taps(*geometry, scale, dtype=taps)
        grad = _returned(grad, 2 + n, size, indices, weights)
    return grad.clone() if grad is grad_output else grad.to(dtype)


def _computed_in(dtype: DType) -> DType:
    if dtype.name == "uint8":
        return dtypes.float64
    return dtype.wide


def _column(weights: Tensor, k: int, x: Tensor, dim: int) -> Tensor:
    """The weights of one tap, along a dimension of a tensor."""
    return weights[:, k].reshape((-1, *(1,) * (x.ndim - 1 - dim)))


def _mixed(x: Tensor, dim: int, indices: Tensor, weights: Tensor) -> Tensor:
    wanted, taps = indices.shape
    if taps <= FEW:
        first, *others = (
            x.index_select(dim, indices[:, k]) * _column(weights, k, x, dim) for k in range(taps)
        )
        return sum(others, first)
    shape = (*x.shape[:dim], wanted, taps, *x.shape[dim + 1 :])
    chosen = x.index_select(dim, indices.reshape((-1,))).reshape(shape)
    spread = weights.reshape((wanted, taps, *(1,) * (x.ndim - 1 - dim)))
    return (chosen * spread).sum(dim + 1)


def _returned(grad: Tensor, dim: int, size: int, indices: Tensor, weights: Tensor) -> Tensor:
    shape = (*grad.shape[:dim], size, *grad.shape[dim + 1 :])
    first, *others = (
        ops.index_select_backward(grad * _column(weights, k, grad, dim), shape, dim, indices[:, k])
        for k in range(indices.shape[1])
    )
    return sum(others, first)
