"""Samples of pooling, batch norm and CTC under the names of vendors."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

import adjoint as ad
from adjoint.testing.references.pooling import REFERENCES
from adjoint.testing.samples import Make, Sample, loss, normalization, pooling, sampler

Samples = Iterator[Sample]


def without_output(dims: int) -> Any:
    """The reference of a backward that is also given the result of the forward."""
    maxima = REFERENCES[f"max_pool{dims}d_with_indices"]
    back = REFERENCES[f"max_pool{dims}d_with_indices_backward"]
    return lambda grad, output, x, *how: back(grad, x, maxima(x, *how)[1])


def maxima(dims: int) -> Any:
    def samples(make: Make) -> Samples:
        if make.is_complex:
            return
        for name in ("apart", "overlapping"):
            options = pooling.lists(pooling.WINDOWS[name], dims)
            yield Sample(make.distinct(*pooling.PLAIN[dims]), *options, name=name)

    return samples


def backwards(dims: int) -> Any:
    pool = getattr(ad.ops, f"mkldnn_max_pool{dims}d")

    def samples(make: Make) -> Samples:
        for sample in maxima(dims)(make):
            x, *options = sample.args
            output = pool(x.detach(), *options)
            yield Sample(make(*output.shape), output, x, *options, name=sample.name)

    return samples


for _dims in (2, 3):
    sampler(f"mkldnn_max_pool{_dims}d", reference=REFERENCES[f"max_pool{_dims}d"])(maxima(_dims))
    sampler(f"mkldnn_max_pool{_dims}d_backward", reference=without_output(_dims))(backwards(_dims))
sampler("mkldnn_adaptive_avg_pool2d", reference=REFERENCES["adaptive_avg_pool2d"])(
    pooling.adapted(2, averages=True)
)
sampler(
    "mkldnn_adaptive_avg_pool2d_backward", reference=REFERENCES["_adaptive_avg_pool2d_backward"]
)(pooling.backwards_of_adapted(2))


# --- batch norm ----------------------------------------------------------------------------------


@sampler("cudnn_batch_norm", "miopen_batch_norm", reference=normalization.batch_norm_reference)
def batch_norms(make: Make) -> Samples:
    for sample in normalization.batch_norms(make):
        if sample.args[1] is not None:
            yield Sample(*sample.args, name=sample.name)


def batch_norm_backwards(*rest: Any) -> Any:
    # As for the other normalizations, differences keep the statistics.
    def samples(make: Make) -> Samples:
        if make.is_complex:
            return
        x = make(3, 2, 2)
        saved = (None, None, *normalization.batch_statistics(x), normalization.EPS)
        yield Sample(x, make(3, 2, 2), make(2), *saved, *rest, name="plain", kink=True)

    return samples


def normalized_backward(x: Any, grad: Any, weight: Any, *_: Any) -> Any:
    """x̄ = (h - mean(h) - x̂ mean(h x̂))/σ with h = weight ȳ; Σ ȳ x̂; Σ ȳ."""
    axes = (0, *range(2, x.ndim))
    mean = lambda a: a.mean(axes, keepdims=True)
    x, grad = np.asarray(x, np.float64), np.asarray(grad, np.float64)
    deviation = np.sqrt(mean((x - mean(x)) ** 2) + normalization.EPS)
    normal = (x - mean(x)) / deviation
    h = grad * np.asarray(weight, np.float64).reshape((-1, *(1,) * (x.ndim - 2)))
    of_input = (h - mean(h) - normal * mean(h * normal)) / deviation
    return of_input, (grad * normal).sum(axes), grad.sum(axes)


sampler("miopen_batch_norm_backward", reference=normalized_backward)(batch_norm_backwards())
sampler("cudnn_batch_norm_backward", reference=normalized_backward)(
    batch_norm_backwards(ad.zeros(0, dtype=ad.uint8))
)


# --- texts ---------------------------------------------------------------------------------------


def with_gradient(
    log_probs: Any, targets: Any, inputs: Any, lengths: Any, blank: int, *_: Any
) -> Any:
    """The loss by all alignments; its gradient by how often each letter stands at each step."""
    losses = loss.ctc_reference(log_probs, targets, inputs, lengths, blank)
    gradient = np.zeros(log_probs.shape)
    for n, paths in enumerate(loss.alignments(log_probs, targets, inputs, lengths, blank)):
        for path, chance in paths.items():
            for t, letter in enumerate(path):
                gradient[t, n, letter] -= chance / sum(paths.values())
    return losses, gradient


@sampler("_cudnn_ctc_loss", "miopen_ctc_loss", reference=with_gradient)
def texts(make: Make) -> Samples:
    for sample in loss.texts(make):
        log_probs, targets, inputs, lengths, *blank = sample.args
        how = (*(blank or [0]), False, False)
        yield Sample(log_probs, targets, inputs, lengths, *how, name=sample.name)


@sampler("_cudnn_ctc_loss.Tensor", "miopen_ctc_loss.Tensor", reference=with_gradient)
def texts_of_tensors(make: Make) -> Samples:
    for sample in loss.texts_of_tensors(make):
        yield Sample(*sample.args, 0, False, False, name=sample.name)


@sampler("_cudnn_ctc_loss", "miopen_ctc_loss")
def impossible_texts(make: Make) -> Samples:
    for sample in loss.impossible_texts(make):
        yield Sample(*sample.args[:4], 0, False, True, name=sample.name, kink=True)
