"""Pooling with PyTorch's signatures in Python: `return_indices`, sizes that may be left open."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
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


# --- the largest ---------------------------------------------------------------------------------


def max_pool1d_with_indices(
    input: Tensor,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Sizes = 0,
    dilation: Sizes = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> tuple[Tensor, Tensor]:
    """The largest element of each window of rows, and its index in the row.

    >>> import adjoint as ad
    >>> ad.nn.functional.max_pool1d_with_indices(ad.tensor([[1.0, 3.0, 2.0, 0.0]]), 2)
    (tensor([[3., 2.]]), tensor([[1, 2]]))
    """
    stride = () if stride is None else stride
    return ops.max_pool1d_with_indices(input, kernel_size, stride, padding, dilation, ceil_mode)


def max_pool2d_with_indices(
    input: Tensor,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Sizes = 0,
    dilation: Sizes = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> tuple[Tensor, Tensor]:
    """The largest element of each window of planes, and its index in the plane.

    >>> import adjoint as ad
    >>> ad.nn.functional.max_pool2d_with_indices(ad.arange(4.0).reshape(1, 2, 2), 2)
    (tensor([[[3.]]]), tensor([[[3]]]))
    """
    stride = () if stride is None else stride
    return ops.max_pool2d_with_indices(input, kernel_size, stride, padding, dilation, ceil_mode)


def max_pool3d_with_indices(
    input: Tensor,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Sizes = 0,
    dilation: Sizes = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> tuple[Tensor, Tensor]:
    """The largest element of each window of volumes, and its index in the volume.

    >>> import adjoint as ad
    >>> ad.nn.functional.max_pool3d_with_indices(ad.arange(8.0).reshape(1, 2, 2, 2), 2)[1]
    tensor([[[[7]]]])
    """
    stride = () if stride is None else stride
    return ops.max_pool3d_with_indices(input, kernel_size, stride, padding, dilation, ceil_mode)


def max_pool1d(
    input: Tensor,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Sizes = 0,
    dilation: Sizes = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Any:
    """The largest element of each window of rows; with `return_indices` also its index.

    >>> import adjoint as ad
    >>> ad.nn.functional.max_pool1d(ad.tensor([[1.0, 3.0, 2.0, 0.0]]), 2, stride=1)
    tensor([[3., 3., 2.]])
    """
    stride = () if stride is None else stride
    pool = ops.max_pool1d_with_indices if return_indices else ops.max_pool1d
    return pool(input, kernel_size, stride, padding, dilation, ceil_mode)


def max_pool2d(
    input: Tensor,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Sizes = 0,
    dilation: Sizes = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Any:
    """The largest element of each window of planes; with `return_indices` also its index.

    >>> import adjoint as ad
    >>> ad.nn.functional.max_pool2d(ad.arange(8.0).reshape(1, 2, 4), 2)
    tensor([[[5., 7.]]])
    """
    stride = () if stride is None else stride
    pool = ops.max_pool2d_with_indices if return_indices else ops.max_pool2d
    return pool(input, kernel_size, stride, padding, dilation, ceil_mode)


def max_pool3d(
    input: Tensor,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Sizes = 0,
    dilation: Sizes = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Any:
    """The largest element of each window of volumes; with `return_indices` also its index.

    >>> import adjoint as ad
    >>> ad.nn.functional.max_pool3d(ad.arange(8.0).reshape(1, 2, 2, 2), 2)
    tensor([[[[7.]]]])
    """
    stride = () if stride is None else stride
    pool = ops.max_pool3d_with_indices if return_indices else ops.max_pool3d
    return pool(input, kernel_size, stride, padding, dilation, ceil_mode)


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


def max_unpool1d(
    input: Tensor,
    indices: Tensor,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Sizes = 0,
    output_size: Sequence[int] | None = None,
) -> Tensor:
    """Zeros with each element at its index in the row: a partial inverse of max_pool1d.

    >>> import adjoint as ad
    >>> F = ad.nn.functional
    >>> F.max_unpool1d(*F.max_pool1d_with_indices(ad.tensor([[1.0, 3.0, 2.0, 0.0]]), 2), 2)
    tensor([[0., 3., 2., 0.]])
    """
    kernels = _each("max_unpool1d", kernel_size, 1)
    strides = kernels if stride is None else _each("max_unpool1d", stride, 1)
    geometry = (kernels, strides, _each("max_unpool1d", padding, 1))
    size = _unpooled_size("max_unpool1d", input, *geometry, output_size)
    return ops.max_unpool2d(input.unsqueeze(-1), indices.unsqueeze(-1), (*size, 1)).squeeze(-1)


def max_unpool2d(
    input: Tensor,
    indices: Tensor,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Sizes = 0,
    output_size: Sequence[int] | None = None,
) -> Tensor:
    """Zeros with each element at its index in the plane: a partial inverse of max_pool2d.

    >>> import adjoint as ad
    >>> F = ad.nn.functional
    >>> F.max_unpool2d(*F.max_pool2d_with_indices(ad.arange(4.0).reshape(1, 2, 2), 2), 2)
    tensor([[[0., 0.],
             [0., 3.]]])
    """
    kernels = _each("max_unpool2d", kernel_size, 2)
    strides = kernels if stride is None else _each("max_unpool2d", stride, 2)
    geometry = (kernels, strides, _each("max_unpool2d", padding, 2))
    size = _unpooled_size("max_unpool2d", input, *geometry, output_size)
    return ops.max_unpool2d(input, indices, size)


def max_unpool3d(
    input: Tensor,
    indices: Tensor,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Sizes = 0,
    output_size: Sequence[int] | None = None,
) -> Tensor:
    """Zeros with each element at its index in the volume: a partial inverse of max_pool3d.

    >>> import adjoint as ad
    >>> F = ad.nn.functional
    >>> F.max_unpool3d(*F.max_pool3d_with_indices(ad.ones(1, 2, 2, 2), 2), 2).sum()
    tensor(1.)
    """
    kernels = _each("max_unpool3d", kernel_size, 3)
    strides = kernels if stride is None else _each("max_unpool3d", stride, 3)
    paddings = _each("max_unpool3d", padding, 3)
    size = _unpooled_size("max_unpool3d", input, kernels, strides, paddings, output_size)
    return ops.max_unpool3d(input, indices, size, strides, paddings)


# --- windows that share a dimension out ----------------------------------------------------------


def _filled(what: str, input: Tensor, output_size: Any, dims: int) -> tuple[int, ...]:
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


def adaptive_avg_pool2d(input: Tensor, output_size: Any) -> Tensor:
    """The average of each of output_size windows that share the plane out; None keeps a size.

    >>> import adjoint as ad
    >>> ad.nn.functional.adaptive_avg_pool2d(ad.arange(6.0).reshape(1, 2, 3), (1, None))
    tensor([[[1.5000, 2.5000, 3.5000]]])
    """
    size = _filled("adaptive_avg_pool2d", input, output_size, 2)
    return ops.adaptive_avg_pool2d(input, size)


def adaptive_avg_pool3d(input: Tensor, output_size: Any) -> Tensor:
    """The average of each of output_size windows that share the volume out; None keeps a size.

    >>> import adjoint as ad
    >>> ad.nn.functional.adaptive_avg_pool3d(ad.arange(8.0).reshape(1, 2, 2, 2), (1, 1, 2))
    tensor([[[[3., 4.]]]])
    """
    size = _filled("adaptive_avg_pool3d", input, output_size, 3)
    return ops.adaptive_avg_pool3d(input, size)


def adaptive_max_pool1d_with_indices(
    input: Tensor, output_size: Sizes, return_indices: bool = False
) -> tuple[Tensor, Tensor]:
    """The largest element of each of output_size windows that share the row out, and its index.

    >>> import adjoint as ad
    >>> ad.nn.functional.adaptive_max_pool1d_with_indices(ad.tensor([[1.0, 3.0, 2.0]]), 2)
    (tensor([[3., 3.]]), tensor([[1, 1]]))
    """
    return ops.adaptive_max_pool1d(input, output_size)


def adaptive_max_pool2d_with_indices(
    input: Tensor, output_size: Any, return_indices: bool = False
) -> tuple[Tensor, Tensor]:
    """The largest element of each of output_size windows that share the plane out, and its index.

    >>> import adjoint as ad
    >>> ad.nn.functional.adaptive_max_pool2d_with_indices(ad.arange(4.0).reshape(1, 2, 2), 1)
    (tensor([[[3.]]]), tensor([[[3]]]))
    """
    return ops.adaptive_max_pool2d(input, _filled("adaptive_max_pool2d", input, output_size, 2))


def adaptive_max_pool3d_with_indices(
    input: Tensor, output_size: Any, return_indices: bool = False
) -> tuple[Tensor, Tensor]:
    """The largest element of each of output_size windows that share the volume out, and its index.

    >>> import adjoint as ad
    >>> ad.nn.functional.adaptive_max_pool3d_with_indices(ad.ones(1, 2, 2, 2), 1)[1]
    tensor([[[[0]]]])
    """
    return ops.adaptive_max_pool3d(input, _filled("adaptive_max_pool3d", input, output_size, 3))


def adaptive_max_pool1d(input: Tensor, output_size: Sizes, return_indices: bool = False) -> Any:
    """The largest element of each of output_size windows that share the row out.

    >>> import adjoint as ad
    >>> ad.nn.functional.adaptive_max_pool1d(ad.tensor([[1.0, 3.0, 2.0, 0.0]]), 2)
    tensor([[3., 2.]])
    """
    found = adaptive_max_pool1d_with_indices(input, output_size)
    return found if return_indices else found[0]


def adaptive_max_pool2d(input: Tensor, output_size: Any, return_indices: bool = False) -> Any:
    """The largest element of each of output_size windows that share the plane out.

    >>> import adjoint as ad
    >>> ad.nn.functional.adaptive_max_pool2d(ad.arange(6.0).reshape(1, 2, 3), (1, None))
    tensor([[[3., 4., 5.]]])
    """
    found = adaptive_max_pool2d_with_indices(input, output_size)
    return found if return_indices else found[0]


def adaptive_max_pool3d(input: Tensor, output_size: Any, return_indices: bool = False) -> Any:
    """The largest element of each of output_size windows that share the volume out.

    >>> import adjoint as ad
    >>> ad.nn.functional.adaptive_max_pool3d(ad.arange(8.0).reshape(1, 2, 2, 2), (1, 1, 2))
    tensor([[[[6., 7.]]]])
    """
    found = adaptive_max_pool3d_with_indices(input, output_size)
    return found if return_indices else found[0]


# --- windows at random ---------------------------------------------------------------------------


def _fractional(
    what: str,
    dims: int,
    pool: Callable[..., Any],
    input: Tensor,
    kernel_size: Sizes,
    output_size: Sizes | None,
    output_ratio: Any,
    random_samples: Tensor | None,
) -> tuple[Tensor, Tensor]:
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
    return pool(input, kernels, sizes, random_samples)


def fractional_max_pool2d_with_indices(
    input: Tensor,
    kernel_size: Sizes,
    output_size: Sizes | None = None,
    output_ratio: Any = None,
    return_indices: bool = False,
    _random_samples: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """The largest element of windows that start at random places of the plane, and its index.

    >>> import adjoint as ad
    >>> pool = ad.nn.functional.fractional_max_pool2d_with_indices
    >>> pool(ad.arange(9.0).reshape(1, 3, 3), 3, output_size=1)
    (tensor([[[8.]]]), tensor([[[8]]]))
    """
    sizes = (output_size, output_ratio)
    name = "fractional_max_pool2d"
    pool = ops.fractional_max_pool2d
    return _fractional(name, 2, pool, input, kernel_size, *sizes, _random_samples)


def fractional_max_pool3d_with_indices(
    input: Tensor,
    kernel_size: Sizes,
    output_size: Sizes | None = None,
    output_ratio: Any = None,
    return_indices: bool = False,
    _random_samples: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """The largest element of windows that start at random places of the volume, and its index.

    >>> import adjoint as ad
    >>> pool = ad.nn.functional.fractional_max_pool3d_with_indices
    >>> pool(ad.arange(8.0).reshape(1, 2, 2, 2), 2, output_size=1)[1]
    tensor([[[[7]]]])
    """
    sizes = (output_size, output_ratio)
    name = "fractional_max_pool3d"
    pool = ops.fractional_max_pool3d
    return _fractional(name, 3, pool, input, kernel_size, *sizes, _random_samples)


def fractional_max_pool2d(
    input: Tensor,
    kernel_size: Sizes,
    output_size: Sizes | None = None,
    output_ratio: Any = None,
    return_indices: bool = False,
    _random_samples: Tensor | None = None,
) -> Any:
    """The largest element of windows that start at random places of the plane.

    >>> import adjoint as ad
    >>> ad.nn.functional.fractional_max_pool2d(ad.ones(1, 4, 4), 2, output_ratio=(0.5, 0.5)).shape
    (1, 2, 2)
    """
    found = fractional_max_pool2d_with_indices(
        input, kernel_size, output_size, output_ratio, _random_samples=_random_samples
    )
    return found if return_indices else found[0]


def fractional_max_pool3d(
    input: Tensor,
    kernel_size: Sizes,
    output_size: Sizes | None = None,
    output_ratio: Any = None,
    return_indices: bool = False,
    _random_samples: Tensor | None = None,
) -> Any:
    """The largest element of windows that start at random places of the volume.

    >>> import adjoint as ad
    >>> ad.nn.functional.fractional_max_pool3d(ad.ones(1, 4, 4, 4), 2, output_size=3).shape
    (1, 3, 3, 3)
    """
    found = fractional_max_pool3d_with_indices(
        input, kernel_size, output_size, output_ratio, _random_samples=_random_samples
    )
    return found if return_indices else found[0]


# --- norms ---------------------------------------------------------------------------------------


def _norm(
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


def lp_pool1d(
    input: Tensor,
    norm_type: float,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    ceil_mode: bool = False,
) -> Tensor:
    """(Σ xᵖ)^(1/p) of each window of rows. The gradient of a window of zeros is 0.

    >>> import adjoint as ad
    >>> ad.nn.functional.lp_pool1d(ad.tensor([[3.0, 4.0, 0.0, 0.0]]), 2, 2)
    tensor([[5., 0.]])
    """
    return _norm(1, input, norm_type, kernel_size, stride, ceil_mode)


def lp_pool2d(
    input: Tensor,
    norm_type: float,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    ceil_mode: bool = False,
) -> Tensor:
    """(Σ xᵖ)^(1/p) of each window of planes. The gradient of a window of zeros is 0.

    >>> import adjoint as ad
    >>> ad.nn.functional.lp_pool2d(ad.ones(1, 2, 2), 2, 2)
    tensor([[[2.]]])
    """
    return _norm(2, input, norm_type, kernel_size, stride, ceil_mode)


def lp_pool3d(
    input: Tensor,
    norm_type: float,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    ceil_mode: bool = False,
) -> Tensor:
    """(Σ xᵖ)^(1/p) of each window of volumes. The gradient of a window of zeros is 0.

    >>> import adjoint as ad
    >>> ad.nn.functional.lp_pool3d(ad.ones(1, 2, 2, 1), 2, (2, 2, 1))
    tensor([[[[2.]]]])
    """
    return _norm(3, input, norm_type, kernel_size, stride, ceil_mode)
