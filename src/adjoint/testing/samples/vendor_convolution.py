"""Samples of convolutions under the names of vendors; values by the definition of a convolution."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from adjoint.testing.references import convolution as by_definition
from adjoint.testing.samples import Make, Sample, sampler

Samples = Iterator[Sample]
Array = np.ndarray[Any, Any]
EVERY = (True, True, True)


def forward(
    x: Array, w: Array, bias: Any, padding: Any, stride: Any, dilation: Any, groups: int, *_: Any
) -> Array:
    return by_definition.convolution(x, w, bias, stride, padding, dilation, False, 0, groups)


def without_bias(x: Array, w: Array, *how: Any) -> Array:
    return forward(x, w, None, *how)


def transposed(x: Array, w: Array, bias: Any, padding: Any, more: Any, *how: Any) -> Array:
    stride, dilation, groups, *_ = how
    return by_definition.convolution(x, w, bias, stride, padding, dilation, True, more, groups)


def rectified(x: Array, w: Array, bias: Any, stride: Any, padding: Any, *how: Any) -> Array:
    return np.maximum(forward(x, w, bias, padding, stride, *how), 0)


def rectified_sum(x: Array, w: Array, z: Array, alpha: Any, bias: Any, *how: Any) -> Array:
    stride, padding, dilation, groups = how
    term = by_definition.wide(z) * (1 if alpha is None else alpha)
    return np.maximum(forward(x, w, bias, padding, stride, dilation, groups) + term, 0)


HOW = ((1, 0), (2, 1), (1, 1), 1)  # padding, stride, dilation, groups
CHOICES = (False, False)


@sampler("_mps_convolution", "mkldnn_convolution", reference=forward)
def convolutions(make: Make) -> Samples:
    yield Sample(make(1, 2, 4, 3), make(2, 2, 2, 2), make(2), *HOW, name="plain")
    yield Sample(make(1, 2, 4), make(2, 1, 2), None, (0,), (1,), (2,), 2, name="groups")


@sampler("miopen_convolution", "miopen_depthwise_convolution", reference=forward)
def convolutions_with_choices(make: Make) -> Samples:
    for sample in convolutions(make):
        yield Sample(*sample.args, *CHOICES, name=sample.name)


@sampler("cudnn_convolution", reference=without_bias)
def convolutions_without_bias(make: Make) -> Samples:
    yield Sample(make(1, 2, 4, 3), make(2, 2, 2, 2), *HOW, *CHOICES, True, name="plain")


@sampler("_nnpack_spatial_convolution")
def spatial_convolutions(make: Make) -> Samples:
    yield Sample(make(1, 2, 4, 3), make(2, 2, 2, 2), make(2), (1, 0), (2, 1), name="plain")


BACK = ((1,), (1,), (2,), (1,), 1)  # padding, output_padding, stride, dilation, groups


@sampler(
    "cudnn_convolution_transpose",
    reference=lambda x, w, *how: transposed(x, w, None, *how),
)
def transposed_with_choices(make: Make) -> Samples:
    yield Sample(make(1, 2, 3), make(2, 2, 3), *BACK, *CHOICES, True, name="plain")


@sampler(
    "_mps_convolution_transpose",
    reference=lambda x, w, *how: transposed(x, w, None, *how),
)
def transposed_without_bias(make: Make) -> Samples:
    yield Sample(make(1, 2, 3), make(2, 2, 3), *BACK, name="plain")


@sampler("miopen_convolution_transpose", reference=transposed)
def transposed_with_bias(make: Make) -> Samples:
    yield Sample(make(1, 2, 3), make(2, 2, 3), make(2), *BACK, *CHOICES, name="plain")


@sampler("mps_convolution_transpose_backward")
def transposed_backwards(make: Make) -> Samples:
    yield Sample(make(1, 2, 3), make(1, 2, 6), make(2, 2, 3), *BACK, (True, True), name="both")


@sampler("mps_convolution_backward")
def backwards(make: Make) -> Samples:
    given = (make(1, 2, 4), make(1, 3, 3), make(3, 2, 2))
    yield Sample(*given, (0,), (1,), (1,), 1, EVERY, name="all")


@sampler("convolution_overrideable", reference=by_definition.convolution)
def any_convolutions(make: Make) -> Samples:
    how = ((2,), (0,), (1,), True, (1,), 1)
    yield Sample(make(1, 2, 3), make(2, 2, 2), make(2), *how, name="transposed")


@sampler("convolution_backward_overrideable")
def any_backwards(make: Make) -> Samples:
    how = ((1,), (0,), (1,), False, (0,), 1, EVERY)
    yield Sample(make(1, 3, 3), make(1, 2, 4), make(3, 2, 2), *how, name="all")


def _real(samples: Callable[[Make], Samples]) -> Callable[[Make], Samples]:
    """Rectified values have an order."""
    return lambda make: iter(()) if make.is_complex else samples(make)


@sampler("cudnn_convolution_relu", "miopen_convolution_relu", reference=rectified)
@_real
def rectified_convolutions(make: Make) -> Samples:
    how = ((1,), (1,), (1,), 1)
    yield Sample(make(1, 2, 4), make(2, 2, 2), make(2), *how, name="plain")


@sampler("cudnn_convolution_add_relu", "miopen_convolution_add_relu", reference=rectified_sum)
@_real
def rectified_sums(make: Make) -> Samples:
    how = (make(2), (1,), (1,), (1,), 1)
    yield Sample(make(1, 2, 4), make(2, 2, 2), make(1, 2, 5), None, *how, name="plain")
    yield Sample(make(1, 2, 4), make(2, 2, 2), make(1, 2, 5), 0.5, *how, name="scaled")
