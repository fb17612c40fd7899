"""Samples of dropouts; the laws set the seed before each call."""

from __future__ import annotations

from collections.abc import Iterator

import adjoint as ad
from adjoint.testing.samples import Make, Sample, sampler

Samples = Iterator[Sample]


@sampler("dropout", "alpha_dropout", "native_dropout", "dropout_", "alpha_dropout_", real=True)
def elements(make: Make) -> Samples:
    yield Sample(make(3, 4), 0.5, True, name="training")
    yield Sample(make(3, 4), 0.5, False, name="evaluating")
    yield Sample(make(3, 4), 0.0, True, name="nothing dropped")
    yield Sample(make(3, 4), 1.0, True, name="all dropped")
    yield Sample(make(), 0.3, True, name="0-d")
    yield Sample(make(0, 2), 0.3, True, name="empty")


@sampler(
    "feature_dropout",
    "feature_alpha_dropout",
    "feature_dropout_",
    "feature_alpha_dropout_",
    real=True,
)
def channels(make: Make) -> Samples:
    yield Sample(make(2, 3, 4), 0.5, True, name="training")
    yield Sample(make(2, 3), 0.5, True, name="two dimensions")
    yield Sample(make(2, 3, 4), 0.5, False, name="evaluating")
    yield Sample(make(2, 3, 2), 1.0, True, name="all dropped")


@sampler("_fused_dropout", real=True)
def fused(make: Make) -> Samples:
    yield Sample(make(3, 4), 0.6, name="plain")


@sampler("native_dropout_backward", "_masked_scale")
def backward(make: Make) -> Samples:
    mask = ad.tensor([[True, False, True], [False, True, True]])
    yield Sample(make(2, 3), mask, 2.0, name="plain")
