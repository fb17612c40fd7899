"""Samples of vendors' names for copies, and of the operators with which PyTorch tests its table."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from adjoint.testing.samples import Sample, sampler

Samples = Iterator[Sample]


@sampler("_lazy_clone", "_pin_memory", "to_mkldnn", reference=lambda x: x)
def copies(make: Any) -> Samples:
    yield Sample(make(2, 3), name="plain")
    yield Sample(make(3, 2).t(), name="transposed")
    yield Sample(make(), name="0-d")
    yield Sample(make(0, 2), name="empty")


@sampler("_mkldnn_reshape", reference=np.reshape)
def sizes(make: Any) -> Samples:
    yield Sample(make(2, 6), (3, 4), name="plain")
    yield Sample(make(2, 6), (-1, 2), name="inferred")
    yield Sample(make(3, 2).t(), (6,), name="transposed")
    yield Sample(make(0, 2), (2, 0), name="empty")


@sampler("_mkldnn_transpose", reference=np.swapaxes)
def pairs_of_dims(make: Any) -> Samples:
    yield Sample(make(2, 3, 4), 0, 2, name="plain")
    yield Sample(make(2, 3, 4), -1, 1, name="negative")
    yield Sample(make(0, 2), 0, 1, name="empty")


@sampler("_test_autograd_multiple_dispatch.ntonly", reference=lambda x, b: x)
def kinds(make: Any) -> Samples:
    yield Sample(make(2, 3), True, name="plain")
    yield Sample(make(3, 2).t(), False, name="transposed")


@sampler(
    "_test_autograd_multiple_dispatch_view",
    "_test_autograd_multiple_dispatch_view_copy",
    reference=lambda x: x.reshape(-1),
)
def flattened(make: Any) -> Samples:
    yield Sample(make(2, 3), name="plain")
    yield Sample(make(), name="0-d")
    yield Sample(make(0, 2), name="empty")
