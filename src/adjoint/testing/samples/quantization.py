"""Samples of fake quantization: values on both sides of the range, ties, channels, observers.

Derivatives straight through are conventions, so differences say nothing: every sample of an
operator that rounds is a kink. Those of backward operators are points like others.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

import adjoint as ad
from adjoint.testing.samples import Make, Sample, sampler

Samples = Iterator[Sample]
Tensor = ad.Tensor

TIES = [0.25, 0.75, -0.25, 1.0]  # half way between multiples of 0.5
FAR = [-9.0, -2.5, 1.5, 9.0]  # outside -4 to 4 around 1, and at its ends


def whole(*values: int) -> Tensor:
    """Zero points and switches."""
    return ad.tensor(values, dtype=ad.int32)


@sampler("fake_quantize_per_tensor_affine", "fake_quantize_per_tensor_affine_cachemask", real=True)
def per_tensor(make: Make) -> Samples:
    yield Sample(make(3, 4), 0.3, 1, -4, 4, name="plain", kink=True)
    yield Sample(make.like(TIES), 0.5, 1, -4, 4, name="ties", kink=True)
    yield Sample(make.like(FAR), 0.5, 1, -4, 4, name="outside", kink=True)
    yield Sample(make(), 0.1, 0, 0, 255, name="scalar", kink=True)
    yield Sample(make(0, 2), 0.1, 0, 0, 255, name="empty", kink=True)
    yield Sample(make(4, 3).t(), 0.25, -1, -8, 7, name="transposed", kink=True)


@sampler("fake_quantize_per_tensor_affine.tensor_qparams", real=True)
def of_tensors(make: Make) -> Samples:
    scale, zero = ad.tensor([0.3]), whole(1)
    yield Sample(make(3, 4), scale, zero, -4, 4, name="plain", kink=True)
    yield Sample(make.like(FAR), ad.tensor(0.5), ad.tensor(1), -4, 4, name="scalars", kink=True)


@sampler("_fake_quantize_per_tensor_affine_cachemask_tensor_qparams", real=True)
def switched(make: Make) -> Samples:
    for is_on in (1, 0):
        numbers = ad.tensor([0.3]), whole(1), whole(is_on)
        name = "on" if is_on else "off"
        yield Sample(make(3, 4), *numbers, -4, 4, name=name, kink=True)


@sampler(
    "fake_quantize_per_tensor_affine_cachemask_backward",
    "fake_quantize_per_channel_affine_cachemask_backward",
)
def backwards(make: Make) -> Samples:
    yield Sample(make(3, 4), make.bool(3, 4), name="plain")


@sampler(
    "fake_quantize_per_channel_affine", "fake_quantize_per_channel_affine_cachemask", real=True
)
def per_channel(make: Make) -> Samples:
    scale, zero = ad.tensor([0.5, 0.25, 0.3]), whole(1, 0, -2)
    yield Sample(make(3, 2), scale, zero, 0, -4, 4, name="rows", kink=True)
    yield Sample(make(2, 3, 2), scale, zero, 1, -4, 4, name="the middle", kink=True)
    yield Sample(make(2, 3), scale, zero, -1, -4, 4, name="negative axis", kink=True)
    floats = scale, ad.tensor([0.3, -0.6, 1.2])
    yield Sample(make(3, 2), *floats, 0, -4, 4, name="zero points that are floats", kink=True)
    yield Sample(make(3, 0), scale, zero, 0, -4, 4, name="empty", kink=True)


@sampler("_fake_quantize_learnable_per_tensor_affine", real=True)
def learnable(make: Make) -> Samples:
    scale, zero = make.like([0.3]), make.like([1.2])
    yield Sample(make(3, 4), scale, zero, -4, 4, name="plain", kink=True)
    yield Sample(make.like(FAR), scale, zero, -4, 4, 0.5, name="outside", kink=True)
    negative = make.like(0.3), make.like(-1.7)
    yield Sample(make(3), *negative, -4, 4, name="a negative zero point", kink=True)


@sampler("_fake_quantize_learnable_per_channel_affine", real=True)
def learnable_channels(make: Make) -> Samples:
    scale, zero = make.like([0.5, 0.25]), make.like([1.2, -0.7])
    yield Sample(make(2, 3), scale, zero, 0, -4, 4, name="rows", kink=True)
    yield Sample(make(3, 2), scale, zero, 1, -2, 1, 0.5, name="columns, outside", kink=True)


def state(count: int, low: float, high: float) -> list[Any]:
    """Running extrema, a scale and a zero point."""
    extrema = (ad.from_numpy(np.full(count, v, dtype=np.float32)) for v in (low, high))
    return [*extrema, ad.ones(count), ad.zeros(count, dtype=ad.int32)]


@sampler(
    "_fused_moving_avg_obs_fq_helper",
    "_fused_moving_avg_obs_fq_helper_functional",
    "fused_moving_avg_obs_fake_quant",
    real=True,
)
def observed(make: Make) -> Samples:
    on, off, new = whole(1), whole(0), (np.inf, -np.inf)
    yield Sample(make(2, 3), on, on, *state(1, *new), 0.1, -8, 7, -1, name="first", kink=True)
    seen = state(1, -1.0, 0.5)
    yield Sample(make(2, 3), on, on, *seen, 0.1, 0, 255, -1, False, True, name="later", kink=True)
    rows = state(2, -1.0, 0.5)
    yield Sample(make(2, 3), on, on, *rows, 0.1, -8, 7, 0, True, name="rows", kink=True)
    columns = state(3, *new)
    yield Sample(make(2, 3), on, on, *columns, 0.1, -8, 7, 1, True, True, name="columns", kink=True)
    yield Sample(make(2, 3), off, on, *seen, 0.1, -8, 7, -1, name="not observing", kink=True)
    yield Sample(make(2, 3), on, off, *rows, 0.1, -8, 7, 0, True, name="not rounding", kink=True)
    yield Sample(make(0, 3), on, on, *seen, 0.1, -8, 7, -1, name="empty", kink=True)
