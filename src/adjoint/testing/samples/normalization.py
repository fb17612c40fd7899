"""Samples of normalizations: any number of dimensions, with and without weights, equal elements."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

import adjoint as ad
from adjoint.testing.samples import Make, Sample, sampler

Samples = Iterator[Sample]
EPS = 1e-5


def layer_norm_reference(
    input: Any, normalized_shape: Any, weight: Any = None, bias: Any = None, eps: float = EPS
) -> Any:
    """In float64, from NumPy's own mean and variance."""
    x = np.asarray(input, dtype=np.float64)
    axes = tuple(range(x.ndim - len(normalized_shape), x.ndim))
    with np.errstate(all="ignore"):
        y = (x - x.mean(axes, keepdims=True)) / np.sqrt(x.var(axes, keepdims=True) + eps)
    y = y if weight is None else y * np.asarray(weight, dtype=np.float64)
    return y if bias is None else y + np.asarray(bias, dtype=np.float64)


def rms_norm_reference(
    input: Any, normalized_shape: Any, weight: Any = None, eps: float | None = None
) -> Any:
    """In double precision."""
    single = input.dtype in (np.dtype(np.float64), np.dtype(np.complex128))
    floor = (2.0**-52 if single else 2.0**-23) if eps is None else eps
    x = np.asarray(input, dtype=np.complex128 if input.dtype.kind == "c" else np.float64)
    axes = tuple(range(x.ndim - len(normalized_shape), x.ndim))
    y = x / np.sqrt((x * x).mean(axes, keepdims=True) + floor)
    return y if weight is None else y * np.asarray(weight, dtype=x.dtype)


@sampler("layer_norm", reference=layer_norm_reference, real=True)
def layer_norms(make: Make) -> Samples:
    yield Sample(make(2, 3, 4), (4,), make(4), make(4), name="last dimension")
    yield Sample(make(2, 3, 4), (3, 4), make(3, 4), make(3, 4), name="two dimensions")
    yield Sample(make(3, 4), (3, 4), make(3, 4), None, name="all dimensions")
    yield Sample(make(5), (5,), None, make(5), name="vector")
    yield Sample(make(3, 4), (4,), name="no weights")
    yield Sample(make(4, 3).t(), (4,), make(4), make(4), name="transposed")
    yield Sample(make(3, 4), (4,), make(4), make(4), 0.5, name="large eps")
    yield Sample(make.like(np.full((2, 3), 0.75)), (3,), make(3), make(3), 0.1, name="all equal")
    yield Sample(make(3, 1), (1,), make(1), make(1), 0.1, name="one element")
    yield Sample(make(0, 4), (4,), make(4), make(4), name="no samples")
    yield Sample(make.like(1e3 + np.arange(4.0)), (4,), name="far from 0")


@sampler("native_layer_norm", reference=layer_norm_reference, real=True)
def native_layer_norms(make: Make) -> Samples:
    yield Sample(make(2, 3, 4), (4,), make(4), make(4), EPS, name="last dimension")
    yield Sample(make(2, 3, 4), (3, 4), None, make(3, 4), EPS, name="two dimensions")
    yield Sample(make(3, 4), (4,), None, None, 0.1, name="no weights")
    yield Sample(make.like(np.ones((2, 3))), (3,), make(3), None, 0.1, name="all equal")
    yield Sample(make(0, 4), (4,), make(4), make(4), EPS, name="no samples")


def statistics(x: ad.Tensor, normalized_shape: tuple[int, ...], eps: float) -> Any:
    """The mean and 1/σ that belong to x."""
    _, mean, rstd = ad.ops.native_layer_norm(x.detach(), normalized_shape, None, None, eps)
    return mean, rstd


@sampler("_layer_norm_backward", "_layer_norm_input_backward", real=True)
def layer_norm_input_backwards(make: Make) -> Samples:
    x = make(2, 3, 4)
    mean, rstd = statistics(x, (4,), EPS)
    yield Sample(make(2, 3, 4), x, (4,), mean, rstd, make(4), name="weight", kink=True)
    yield Sample(make(2, 3, 4), x, (4,), mean, rstd, None, name="no weight", kink=True)
    x = make.like(np.full((2, 3), 0.75))
    mean, rstd = statistics(x, (3,), 0.1)
    yield Sample(make(2, 3), x, (3,), mean, rstd, make(3), name="all equal", kink=True)


@sampler("_standardized", real=True)
def standardizeds(make: Make) -> Samples:
    x = make(2, 3, 4)
    mean, rstd = statistics(x, (3, 4), EPS)
    yield Sample(x, (3, 4), mean, rstd, name="plain", kink=True)


@sampler("rms_norm", reference=rms_norm_reference)
def rms_norms(make: Make) -> Samples:
    yield Sample(make(2, 3, 4), (4,), make(4), name="last dimension")
    yield Sample(make(2, 3, 4), (3, 4), make(3, 4), 0.5, name="two dimensions")
    yield Sample(make(5), (5,), name="vector")
    yield Sample(make(4, 3).t(), (4,), make(4), name="transposed")
    yield Sample(make.like(np.zeros((2, 3))), (3,), make(3), 0.1, name="all zero")
    yield Sample(make(0, 4), (4,), make(4), name="no samples")


@sampler("_fused_rms_norm", reference=rms_norm_reference)
def fused_rms_norms(make: Make) -> Samples:
    yield Sample(make(2, 3, 4), (4,), make(4), None, name="last dimension")
    yield Sample(make(2, 3), (3,), None, 0.1, name="no weight")


@sampler("_rms_norm_backward", "_rms_norm_input_backward")
def rms_norm_gradients(make: Make) -> Samples:
    x = make(2, 3)
    rstd = ad.ops._fused_rms_norm(x.detach(), (3,), None, 0.1)[1]
    yield Sample(make(2, 3), x, (3,), rstd, make(3), name="weight", kink=True)
    yield Sample(make(2, 3), x, (3,), rstd, None, name="no weight", kink=True)


# --- batches and groups --------------------------------------------------------------------------


def channel_norm_reference(
    x: Any, axes: tuple[int, ...], weight: Any, bias: Any, eps: float
) -> Any:
    x = np.asarray(x, np.float64)
    y = (x - x.mean(axes, keepdims=True)) / np.sqrt(x.var(axes, keepdims=True) + eps)
    shape = (-1, *(1,) * (x.ndim - 2))
    y = y if weight is None else y * np.asarray(weight, np.float64).reshape(shape)
    return y if bias is None else y + np.asarray(bias, np.float64).reshape(shape)


def batch_norm_reference(
    input: Any,
    weight: Any,
    bias: Any,
    running_mean: Any,
    running_var: Any,
    training: bool,
    momentum: float,
    eps: float,
    *_: Any,
) -> Any:
    if training:
        axes = (0, *range(2, input.ndim))
        return channel_norm_reference(input, axes, weight, bias, eps)
    shape = (-1, *(1,) * (input.ndim - 2))
    mean, var = (np.asarray(a, np.float64).reshape(shape) for a in (running_mean, running_var))
    y = (np.asarray(input, np.float64) - mean) / np.sqrt(var + eps)
    y = y if weight is None else y * np.asarray(weight, np.float64).reshape(shape)
    return y if bias is None else y + np.asarray(bias, np.float64).reshape(shape)


@sampler("cudnn_batch_norm", reference=batch_norm_reference, real=True)
def weighted_batch_norms(make: Make) -> Samples:
    return (sample for sample in batch_norms(make) if sample.args[1] is not None)


@sampler("native_batch_norm", reference=batch_norm_reference, real=True)
def batch_norms(make: Make) -> Samples:
    none = (None, None)
    yield Sample(make(4, 2), make(2), make(2), *none, True, 0.1, EPS, name="training")
    yield Sample(make(3, 2, 2, 2), None, make(2), *none, True, 0.1, 0.1, name="training images")
    same = make.like(np.ones((3, 2)))
    yield Sample(same, make(2), None, *none, True, 0.1, 0.1, name="training on equal elements")
    given = (make(2), make.positive(2))
    yield Sample(make(3, 2, 2), make(2), make(2), *given, False, 0.1, EPS, name="evaluating")
    yield Sample(make(0, 2, 2), None, None, *given, False, 0.1, EPS, name="empty")


def trained_reference(x: Any, weight: Any, bias: Any, eps: float) -> Any:
    axes, shape = (0, *range(2, x.ndim)), (-1, *(1,) * (x.ndim - 2))
    mean, variance = x.mean(axes), x.var(axes)
    y = (x - mean.reshape(shape)) / np.sqrt(variance.reshape(shape) + eps)
    y = y if weight is None else y * weight.reshape(shape)
    y = y if bias is None else y + bias.reshape(shape)
    return y, mean, 1 / np.sqrt(variance + eps), variance


@sampler("_batch_normalized", reference=trained_reference, real=True)
def trained_batch_norms(make: Make) -> Samples:
    yield Sample(make(4, 2), make(2), make(2), EPS, name="vectors")
    yield Sample(make(3, 2, 3, 4), None, make(2), 0.1, name="images")
    yield Sample(make(3, 3, 4, 2).permute(0, 3, 1, 2), make(2), None, EPS, name="channels last")


@sampler("batch_norm", reference=batch_norm_reference, real=True)
def whole_batch_norms(make: Make) -> Samples:
    for sample in batch_norms(make):
        yield Sample(*sample.args, True, name=sample.name)


@sampler("_native_batch_norm_legit", reference=batch_norm_reference, real=True)
def evaluated_batch_norms(make: Make) -> Samples:
    given = (make(2), make(2), make(2).detach(), make.positive(2).detach())
    yield Sample(make(3, 2, 2), *given, False, 0.1, EPS, name="evaluating")
    yield Sample(make(3, 2, 2), *given, True, 0.1, EPS, name="training")


@sampler("_native_batch_norm_legit_functional", reference=batch_norm_reference, real=True)
def functional_batch_norms(make: Make) -> Samples:
    rest = (make(2), make(2), make(2).detach(), make.positive(2).detach())
    yield Sample(make(3, 2, 2), *rest, True, 0.1, EPS, name="training")
    yield Sample(make(3, 2, 2), *rest, False, 0.1, EPS, name="evaluating")


@sampler("_batch_norm_with_update", "_batch_norm_with_update_functional", real=True)
def functional_updates(make: Make) -> Samples:
    rest = (make(2), make(2), make(2).detach(), make.positive(2).detach(), 0.1, EPS)
    yield Sample(make(3, 2, 2), *rest, name="plain")


@sampler("_native_batch_norm_legit.no_stats", real=True)
def batch_norms_without_statistics(make: Make) -> Samples:
    yield Sample(make(3, 2, 2), make(2), make(2), True, 0.1, EPS, name="training")


@sampler("_native_batch_norm_legit_no_training", "_batch_norm_no_update", real=True)
def batch_norms_without_training(make: Make) -> Samples:
    rest = (make(2), make(2), make(2), make.positive(2), 0.1, EPS)
    yield Sample(make(3, 2, 2), *rest, name="plain")


def batch_statistics(x: ad.Tensor) -> Any:
    return ad.ops.native_batch_norm(x.detach(), None, None, None, None, True, 0.1, EPS)[1:]


def batch_norm_backward_reference(
    grad: Any, x: Any, weight: Any, running_mean: Any, running_var: Any, save_mean: Any,
    save_invstd: Any, train: bool, eps: float, mask: Any,
) -> Any:  # fmt: skip
    """x̄ = (h - mean(h) - x̂ mean(h x̂))/σ with h = weight ȳ, or h/σ; Σ ȳ x̂; Σ ȳ."""
    axes, shape = (0, *range(2, x.ndim)), (-1, *(1,) * (x.ndim - 2))
    x, grad, weight = (np.asarray(a, np.float64) for a in (x, grad, weight))
    mean = lambda a: a.mean(axes, keepdims=True)
    middle = mean(x) if train else running_mean.reshape(shape)
    variance = mean((x - middle) ** 2) if train else running_var.reshape(shape)
    deviation = np.sqrt(variance + eps)
    normal, h = (x - middle) / deviation, grad * weight.reshape(shape)
    through = mean(h) + normal * mean(h * normal) if train else 0
    return (h - through) / deviation, (grad * normal).sum(axes), grad.sum(axes)


# As for layer norm: differences keep the statistics, and the derivative goes through them.
@sampler("native_batch_norm_backward", reference=batch_norm_backward_reference, real=True)
def batch_norm_backwards(make: Make) -> Samples:
    x, every = make(3, 2, 2), (True, True, True)
    saved = (None, None, *batch_statistics(x), True, EPS, every)
    yield Sample(make(3, 2, 2), x, make(2), *saved, name="training", kink=True)
    running = (make(2), make.positive(2), None, None, False, EPS, every)
    yield Sample(make(3, 2, 2), x, make(2), *running, name="evaluating")


@sampler("instance_norm", real=True)
def instance_norms(make: Make) -> Samples:
    rest = (True, 0.1, EPS, True)
    yield Sample(make(3, 2, 4), make(2), make(2), None, None, *rest, name="own statistics")
    given = (make(2).detach(), make.positive(2).detach(), False, 0.1, EPS, True)
    yield Sample(make(3, 2, 4), make(2), make(2), *given, name="running statistics")


@sampler("group_norm", real=True)
def group_norms(make: Make) -> Samples:
    yield Sample(make(2, 4, 3), 2, make(4), make(4), name="two groups")
    yield Sample(make(2, 4), 4, make(4), None, 0.1, name="a group each")
    yield Sample(make(2, 4, 2, 2), 1, name="one group")
    yield Sample(make.like(np.ones((2, 4))), 2, make(4), None, 0.1, name="all equal")
    yield Sample(make(0, 4, 3), 2, make(4), make(4), name="empty")


@sampler("native_group_norm", real=True)
def native_group_norms(make: Make) -> Samples:
    yield Sample(make(2, 4, 3), make(4), make(4), 2, 4, 3, 2, EPS, name="two groups")
    yield Sample(make(2, 4), None, None, 2, 4, 1, 1, EPS, name="one group")


@sampler("norm_except_dim")
def norms_except_one(make: Make) -> Samples:
    yield Sample(make(2, 3, 2), 2, 0, name="first")
    yield Sample(make(2, 3), 1, 1, name="last")
    yield Sample(make(2, 3), 2, -1, name="all")


@sampler("_weight_norm", "_weight_norm_interface", real=True)
def weight_norms(make: Make) -> Samples:
    yield Sample(make(2, 3, 2), make(2, 1, 1), 0, name="first")
    yield Sample(make(2, 3), make(1, 3), 1, name="last")


@sampler("_weight_norm", real=True)
def whole_weight_norms(make: Make) -> Samples:
    yield Sample(make(2, 3), make(), -1, name="all")
