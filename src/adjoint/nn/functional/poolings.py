"""Pooling: words of the rows, of which several dimensions share one."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from adjoint import ops
from adjoint.core import dtypes
from adjoint.core.errors import ArgumentError, ShapeError, ValueRangeError
from adjoint.core.shapes import show
from adjoint.tensor.tensor import Tensor

Sizes = int | Sequence[int]


def _each(what: str, values: Sizes, dims: int) -> tuple[int, ...]:
    """A number for each dimension."""
    if isinstance(values, int):
        return (values,) * dims
    if len(values) != dims:
        raise ShapeError(
            f"{what}: sizes are one number, or {dims}, one for each dimension; got {tuple(values)}."
        )
    return tuple(values)


def with_indices(return_indices: bool, found: tuple[Tensor, Tensor]) -> Any:
    """The largest elements, and where they are if that is asked for."""
    return found if return_indices else found[0]


# --- back to where the largest were --------------------------------------------------------------


def _unpooled_size(
    what: str,
    input: Tensor,
    kernels: tuple[int, ...],
    strides: tuple[int, ...],
    paddings: tuple[int, ...],
    output_size: Sequence[int] | None,
) -> tuple[int, ...]:
    """The size that was pooled: the smallest of those that are possible, or the one given."""
    dims = len(kernels)
    if input.ndim < dims:
        raise ShapeError(f"{what}: the input has too few dimensions: {show(input.shape)}.")
    smallest = tuple(
        (n - 1) * s + k - 2 * p
        for n, k, s, p in zip(input.shape[-dims:], kernels, strides, paddings, strict=True)
    )
    if output_size is None:
        return _possible(what, smallest)
    wanted = tuple(output_size)
    wanted = wanted[2:] if len(wanted) == dims + 2 else wanted
    if len(wanted) != dims:
        raise ValueRangeError(
            f"{what}: output_size needs {dims} numbers, or {dims + 2} with batch and channels; got "
            f"{tuple(output_size)}."
        )
    if any(not n - s < w < n + s for w, n, s in zip(wanted, smallest, strides, strict=True)):
        raise ValueRangeError(
            f"{what}: output_size={wanted} is more than a stride of {strides} away from "
            f"{smallest}, what these windows come from."
        )
    return _possible(what, wanted)


def _possible(what: str, size: tuple[int, ...]) -> tuple[int, ...]:
    if any(n < 0 for n in size):
        raise ValueRangeError(
            f"{what}: windows with this stride and padding come from a size of {size}; sizes are "
            "not negative."
        )
    return size


def unpooled(
    dims: int,
    input: Tensor,
    indices: Tensor,
    kernel_size: Sizes,
    stride: Sizes | None,
    padding: Sizes,
    output_size: Sequence[int] | None,
) -> Tensor:
    """Zeros with each element at its index; rows are planes with one column."""
    what = f"max_unpool{dims}d"
    kernels = _each(what, kernel_size, dims)
    strides = kernels if stride is None else _each(what, stride, dims)
    paddings = _each(what, padding, dims)
    size = _unpooled_size(what, input, kernels, strides, paddings, output_size)
    if dims == 3:
        return ops.max_unpool3d(input, indices, size, strides, paddings)
    if dims == 2:
        return ops.max_unpool2d(input, indices, size)
    return ops.max_unpool2d(input.unsqueeze(-1), indices.unsqueeze(-1), (*size, 1)).squeeze(-1)


# --- windows that share a dimension out ----------------------------------------------------------


def filled(what: str, input: Tensor, output_size: Any, dims: int) -> tuple[int, ...]:
    """The sizes that are asked for; None stands for that of the input."""
    if isinstance(output_size, int):
        return (output_size,) * dims
    if input.ndim <= len(output_size):
        raise ValueRangeError(
            f"{what}: an input of {show(input.shape)} has no channels beside the "
            f"{len(output_size)} dimensions of output_size."
        )
    sizes = tuple(input.shape[input.ndim - len(output_size) :])
    return tuple(n if o is None else o for o, n in zip(output_size, sizes, strict=True))


# --- windows at random ---------------------------------------------------------------------------


def at_random(
    dims: int,
    input: Tensor,
    kernel_size: Sizes,
    output_size: Sizes | None,
    output_ratio: Any,
    random_samples: Tensor | None,
) -> tuple[Tensor, Tensor]:
    """The largest elements of windows that start at random places, and their indices."""
    what = f"fractional_max_pool{dims}d"
    kernels = _each(what, kernel_size, dims)
    if output_size is None and output_ratio is None:
        raise ArgumentError(f"{what}: give output_size, or output_ratio times the size.")
    if input.ndim not in (dims + 1, dims + 2):
        raise ShapeError(
            f"{what}: the input needs {dims + 2} dimensions, or {dims + 1} without a batch; got "
            f"{show(input.shape)}."
        )
    if output_size is None:
        ratios = (output_ratio,) * dims if isinstance(output_ratio, float) else tuple(output_ratio)
        if len(ratios) != dims or any(not 0 < r < 1 for r in ratios):
            raise ValueRangeError(
                f"{what}: output_ratio needs {dims} numbers between 0 and 1, got {output_ratio}."
            )
        output_size = [int(n * r) for n, r in zip(input.shape[-dims:], ratios, strict=True)]
    if random_samples is None:
        batch = input.shape[0] if input.ndim == dims + 2 else 1
        channels = input.shape[-dims - 1]
        random_samples = ops.rand((batch, channels, dims), dtype=input.dtype)
    sizes = _each(what, output_size, dims)
    if 0 in sizes:
        empty = input.new_empty((*input.shape[:-dims], *sizes))
        return empty, empty.to(dtypes.int64)
    return getattr(ops, what)(input, kernels, sizes, random_samples)


# --- norms ---------------------------------------------------------------------------------------


def norms(
    dims: int,
    input: Tensor,
    norm_type: float,
    kernel_size: Sizes,
    stride: Sizes | None,
    ceil_mode: bool,
) -> Tensor:
    """(Σ xᵖ)^(1/p) of windows, by averages; in a window of zeros the derivative is 0."""
    what = f"lp_pool{dims}d"
    kernels = _each(what, kernel_size, dims)
    steps = () if stride is None else stride
    if norm_type == 0:
        raise ValueRangeError(f"{what}(norm_type=0): there is no norm of that type.")
    if math.isinf(norm_type):  # the largest or the smallest of the window
        sign = math.copysign(1, norm_type)
        largest = getattr(ops, f"max_pool{dims}d")
        return largest(input.abs() * sign, kernels, steps, 0, 1, ceil_mode) * sign
    pool = getattr(ops, f"avg_pool{dims}d")
    average = lambda x: pool(x, kernels, steps, 0, ceil_mode)
    if norm_type == 1:
        return average(input) * math.prod(kernels)
    size = _largest(input)
    total = average((input / size).pow(norm_type)) * math.prod(kernels)
    zeros = total == 0 if norm_type % 2 == 0 else average(input.detach().abs()) == 0
    return ops.where(zeros, 0, ops.where(zeros, 1, total).pow(1 / norm_type)) * size


def _largest(input: Tensor) -> Tensor:
    """The largest |x|, whose powers would leave the range; 1 where that is 0 or no number."""
    if not input.numel():
        return ops.ones((), dtype=input.dtype)
    top = input.detach().abs().amax()
    return top.masked_fill((top == 0) | ~top.isfinite(), 1)
