"""Normalizations of channels over a batch.

Running statistics are written to by the operators whose schemas say so in PyTorch, and by
`native_batch_norm`, whose schema does not say it; the functional ones return new statistics.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from adjoint import ops
from adjoint.checks import normalization
from adjoint.core import dtypes
from adjoint.core.errors import ArgumentError, ShapeError
from adjoint.core.shapes import Shape, show
from adjoint.decompositions.halves import wide
from adjoint.decompositions.normalization.common import (
    attached,
    inverse_deviation,
    moments,
    returned,
    scaled,
    total,
)

Tensor = Any


def _dims(ndim: int) -> Shape:
    """All dimensions except the channels."""
    return (0, *range(2, ndim))


def _across(tensor: Tensor, ndim: int) -> Tensor:
    """A number for each channel, so that it broadcasts."""
    return tensor.reshape((-1, *(1,) * (ndim - 2)))


def _maybe_across(tensor: Tensor | None, ndim: int) -> Tensor | None:
    return None if tensor is None else _across(tensor, ndim)


def _check(what: str, input: Tensor, **by_channel: Tensor | None) -> Any:
    """Raise unless everything fits; return the dtype of statistics."""
    kinds = (None if t is None else t.dtype for t in by_channel.values())
    return normalization.check_batch(what, input, input.dtype, kinds, **by_channel)


def batch_normalized(
    input: Tensor, weight: Tensor | None, bias: Tensor | None, eps: float
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The result by the batch's own statistics; its mean, 1/σ and variance as numbers."""
    _check("batch_norm", input, weight=weight, bias=bias)
    ndim = input.ndim
    mean, centered, variance = moments(wide(input), _dims(ndim))
    rstd = inverse_deviation(centered, variance, _dims(ndim), eps)
    affine = (_maybe_across(t, ndim) for t in (weight, bias))
    result = scaled(centered * rstd, *affine)
    statistics = [t.detach().reshape(-1) for t in (mean, rstd, variance)]
    return result.to(input.dtype), statistics[0], statistics[1], statistics[2]


def batch_normalized_backward(
    grad: Tensor, input: Tensor, weight: Tensor | None, mean: Tensor, rstd: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """The gradients of input, weight and bias; see Note [Statistics belong to the input]."""
    found = native_batch_norm_backward(
        grad, input, weight, None, None, mean, rstd, True, 0.0, (True, True, True)
    )
    assert found[0] is not None
    assert found[1] is not None
    assert found[2] is not None
    return found[0], found[1], found[2]


def _evaluated(
    input: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    running_mean: Tensor,
    running_var: Tensor,
    eps: float,
) -> Tensor:
    """The result by statistics that are given."""
    ndim = input.ndim
    mean, variance = (_across(wide(t), ndim) for t in (running_mean, running_var))
    factor, shift = (_maybe_across(t, ndim) for t in (weight, bias))
    scale = (variance + eps).rsqrt()
    if factor is not None:  # of a channel, not of all its elements
        scale = scale * wide(factor)
    centered = wide(input) - mean
    result = centered * scale if shift is None else ops.addcmul(wide(shift), centered, scale)
    return result.to(input.dtype)


def _moved(
    input: Tensor,
    running_mean: Tensor,
    running_var: Tensor,
    mean: Tensor,
    variance: Tensor,
    momentum: float,
) -> tuple[Tensor, Tensor]:
    """Running statistics after a batch."""
    unbiased = variance * _unbiased(input)
    return _between(running_mean, mean, momentum), _between(running_var, unbiased, momentum)


def _unbiased(input: Tensor) -> float:
    """What makes the variance of a batch an unbiased one."""
    count = input.numel() // max(input.shape[1], 1)
    return count / (count - 1) if count > 1 else math.nan


def _between(old: Tensor, new: Tensor, momentum: float) -> Tensor:
    """A running statistic, nearer to a new one by `momentum`."""
    return (wide(old.detach()) * (1 - momentum) + wide(new) * momentum).to(old.dtype)


def batch_norm_functional(
    input: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    running_mean: Tensor,
    running_var: Tensor,
    training: bool,
    momentum: float,
    eps: float,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """The result, mean and 1/σ of the batch (empty if they were not computed), new statistics."""
    running = {"running_mean": running_mean, "running_var": running_var}
    kind = _check("batch_norm", input, weight=weight, bias=bias, **running)
    if not training:
        result = _evaluated(input, weight, bias, running_mean, running_var, eps)
        empty = input.new_zeros((0,), dtype=kind)
        return result, empty, empty.clone(), running_mean.clone(), running_var.clone()
    result, mean, rstd, variance = ops._batch_normalized(input, weight, bias, eps)
    moved = _moved(input, running_mean, running_var, mean, variance, momentum)
    return result, mean.to(kind), rstd.to(kind), *moved


def native_batch_norm(
    input: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    training: bool,
    momentum: float,
    eps: float,
) -> tuple[Tensor, Tensor, Tensor]:
    """Each channel with mean 0 and variance 1, times weight plus bias; its mean and 1/σ.

    While training the statistics are the batch's, and running ones are changed in place.
    """
    if input.ndim == 1 and input.numel() == 0:  # no channels; passes in PyTorch, too
        return input.clone(), input.clone(), input.clone()
    if running_mean is None or running_var is None:
        if not training:
            raise ArgumentError(
                "batch_norm(training=False): needs running_mean and running_var; pass them, or "
                "training=True to use the statistics of the batch."
            )
        running = {"running_mean": running_mean, "running_var": running_var}
        kind = _check("batch_norm", input, weight=weight, bias=bias, **running)
        result, mean, rstd, _ = ops._batch_normalized(input, weight, bias, eps)
        return result, mean.to(kind), rstd.to(kind)
    if not training:
        functional = batch_norm_functional
        return functional(input, weight, bias, running_mean, running_var, False, momentum, eps)[:3]
    running = {"running_mean": running_mean, "running_var": running_var}
    kind = _check("batch_norm", input, weight=weight, bias=bias, **running)
    result, mean, rstd, variance = ops._batch_normalized(input, weight, bias, eps)
    for old, new in ((running_mean, mean), (running_var, variance * _unbiased(input))):
        if old.dtype is new.dtype:
            old.lerp_(new, momentum)
        else:
            old.copy_(_between(old, new, momentum))
    return result, mean.to(kind), rstd.to(kind)


def batch_norm(
    input: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    training: bool,
    momentum: float,
    eps: float,
    cudnn_enabled: bool,
) -> Tensor:
    """The result of `native_batch_norm`; a batch without elements leaves running statistics."""
    if training and input.numel() == 0 and input.ndim > 1:
        return _of_nothing(input, weight, bias)
    return native_batch_norm(
        input, weight, bias, running_mean, running_var, training, momentum, eps
    )[0]


def _of_nothing(input: Tensor, weight: Tensor | None, bias: Tensor | None) -> Tensor:
    """A batch without elements: nothing is computed, and dtypes may differ, as in PyTorch."""
    normalization.check_channels("batch_norm", input, weight=weight, bias=bias)
    affine = (_maybe_across(t, input.ndim) for t in (weight, bias))
    return scaled(input, *affine).to(input.dtype)


def _reserve() -> Tensor:
    """What other machines keep for the backward: nothing here."""
    return ops.zeros((0,), dtype=dtypes.uint8)


def with_update(
    input: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    running_mean: Tensor,
    running_var: Tensor,
    momentum: float,
    eps: float,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Training, with running statistics that are changed in place."""
    results = native_batch_norm(input, weight, bias, running_mean, running_var, True, momentum, eps)
    return *results, _reserve()


def with_reserve(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    training: bool,
    momentum: float,
    eps: float,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """native_batch_norm, with the reserve that cuDNN keeps."""
    running = (running_mean, running_var)
    return *native_batch_norm(input, weight, bias, *running, training, momentum, eps), _reserve()


def with_update_functional(
    input: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    running_mean: Tensor,
    running_var: Tensor,
    momentum: float,
    eps: float,
) -> tuple[Tensor, ...]:
    """Training, with new running statistics."""
    *results, mean, variance = batch_norm_functional(
        input, weight, bias, running_mean, running_var, True, momentum, eps
    )
    return *results, _reserve(), mean, variance


def no_update(
    input: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    momentum: float,
    eps: float,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Normalise by the running statistics."""
    results = native_batch_norm(
        input, weight, bias, running_mean, running_var, False, momentum, eps
    )
    return *results, _reserve()


def native_batch_norm_backward(
    grad_out: Tensor,
    input: Tensor,
    weight: Tensor | None,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    save_mean: Tensor | None,
    save_invstd: Tensor | None,
    train: bool,
    eps: float,
    output_mask: Sequence[bool],
) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
    """The gradients of input, weight and bias that are wanted; None for the others."""
    ndim, dims = input.ndim, _dims(input.ndim)
    _check("batch_norm_backward", input, weight=weight)
    given = (save_mean, save_invstd) if train else (running_mean, running_var)
    if given[0] is None or given[1] is None:
        needed = "save_mean and save_invstd" if train else "running_mean and running_var"
        raise ArgumentError(f"native_batch_norm_backward(train={train}): needs {needed}.")
    mean, second = (_across(t, ndim) for t in given)
    if train:
        normal, rstd = attached(input, dims, mean, second)
    else:
        rstd = (wide(second) + eps).rsqrt()
        normal = (wide(input) - wide(mean)) * rstd
    grad = wide(grad_out)
    of_input = of_weight = of_bias = None
    if output_mask[0]:
        h = grad if weight is None else grad * wide(_across(weight, ndim))
        found = returned(h, normal, rstd, dims) if train else h * rstd
        of_input = found.to(input.dtype)
    if output_mask[1]:
        of_weight = total(grad * normal, dims).to((input if weight is None else weight).dtype)
    if output_mask[2]:
        of_bias = total(grad, dims).to((input if weight is None else weight).dtype)
    return of_input, of_weight, of_bias


def instance_norm(
    input: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    use_input_stats: bool,
    momentum: float,
    eps: float,
    cudnn_enabled: bool,
) -> Tensor:
    """batch_norm of each sample on its own; running statistics are averages over samples."""
    if input.ndim < 2:
        raise ShapeError(f"instance_norm: needs samples of channels, got {show(input.shape)}.")
    running = {"running_mean": running_mean, "running_var": running_var}
    normalization.check_channels("instance_norm", input, **running)
    _check("instance_norm", input, weight=weight, bias=bias)
    count, channels, *sizes = input.shape
    each = input.reshape((1, count * channels, *sizes))
    w, b = (None if t is None else t.repeat((count,)) for t in (weight, bias))
    if running_mean is None or running_var is None:
        result = native_batch_norm(each, w, b, None, None, use_input_stats, momentum, eps)[0]
        return result.reshape(input.shape)
    # Running statistics keep their dtype, and are computed in the dtype of the input.
    kind = input.dtype.wide
    old = [t.to(kind).repeat((count,)) for t in (running_mean, running_var)]
    result, _, _, mean, variance = batch_norm_functional(
        each, w, b, old[0], old[1], use_input_stats, momentum, eps
    )
    if use_input_stats:
        running_mean.copy_(mean.reshape((count, channels)).mean((0,)))
        running_var.copy_(variance.reshape((count, channels)).mean((0,)))
    return result.reshape(input.shape)
