"""Samples of functions that make tensors: sizes with 0 and without any, every kind of number."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

import adjoint as ad
from adjoint.testing.samples import Sample, sampler

Samples = Iterator[Sample]


@sampler("zeros", reference=lambda size, **_: np.zeros(size))
@sampler("ones", reference=lambda size, **_: np.ones(size))
def sizes(make: Any) -> Samples:
    yield Sample((2, 3), name="plain")
    yield Sample((), name="0-d")
    yield Sample((2, 0), name="empty")
    yield Sample((2,), dtype=make.dtype, name="dtype")
    yield Sample((2,), dtype=ad.int8, name="int8")


@sampler("full", reference=lambda size, fill_value, **_: np.full(size, fill_value))
def filled(make: Any) -> Samples:
    for value in (True, 3, 2.5, 1 + 2j):
        yield Sample((2, 2), value, name=type(value).__name__)
    yield Sample((), 3, dtype=ad.float64, name="dtype")


@sampler("scalar_tensor", reference=lambda s, **_: np.asarray(s))
def single(make: Any) -> Samples:
    yield Sample(3, name="int")
    yield Sample(1.5, dtype=make.dtype, name="dtype")


@sampler("eye", reference=lambda n, **_: np.eye(n))
def square(make: Any) -> Samples:
    yield Sample(3, name="plain")
    yield Sample(0, name="empty")
    yield Sample(2, dtype=ad.bool, name="bool")


@sampler("eye.m", reference=lambda n, m, **_: np.eye(n, m))
def oblong(make: Any) -> Samples:
    yield Sample(2, 3, name="wide")
    yield Sample(3, 2, name="tall")
    yield Sample(0, 2, name="empty")


@sampler("zeros_like", reference=lambda self, **_: np.zeros(self.shape))
@sampler("ones_like", reference=lambda self, **_: np.ones(self.shape))
def likes(make: Any) -> Samples:
    yield Sample(make(2, 3), name="plain")
    yield Sample(make(3, 2).t(), name="transposed")
    yield Sample(make(), name="0-d")
    yield Sample(make(0, 2), name="empty")
    yield Sample(make(2), dtype=ad.int32, name="dtype")


@sampler("full_like", reference=lambda self, value, **_: np.full(self.shape, value))
def filled_likes(make: Any) -> Samples:
    yield Sample(make(2, 3), 2.5, name="plain")
    yield Sample(make(2), 3, dtype=ad.int32, name="dtype")


@sampler("new_zeros", reference=lambda self, size, **_: np.zeros(size))
@sampler("new_ones", reference=lambda self, size, **_: np.ones(size))
def news(make: Any) -> Samples:
    yield Sample(make(2), (2, 3), name="plain")
    yield Sample(make(), (), name="0-d")
    yield Sample(make(2), (0,), dtype=ad.int64, name="empty")


@sampler("new_full", reference=lambda self, size, value, **_: np.full(size, value))
def filled_news(make: Any) -> Samples:
    yield Sample(make(2), (2, 3), 1.5, name="plain")
    yield Sample(make(2), (), 3, dtype=ad.int64, name="dtype")


@sampler("arange", reference=lambda end, **_: np.arange(end))
def counting(make: Any) -> Samples:
    yield Sample(5, name="int")
    yield Sample(4.5, name="float")
    yield Sample(0, name="empty")
    yield Sample(3, dtype=ad.float16, name="dtype")


@sampler("arange.start", reference=lambda start, end, **_: np.arange(start, end))
def counting_from(make: Any) -> Samples:
    yield Sample(2, 5, name="int")
    yield Sample(-0.5, 3, name="float")
    yield Sample(2, 2, name="empty")


@sampler("arange.start_step", reference=lambda *a, **_: np.arange(*a))
def stepping(make: Any) -> Samples:
    yield Sample(1, 10, 3, name="int")
    yield Sample(5, 0, -2, name="down")
    yield Sample(0, 1, 0.25, name="fractions")
    yield Sample(0, 300, 50, dtype=ad.int32, name="int32")


@sampler("range", reference=lambda start, end, **_: np.arange(start, end + 1))
def closed(make: Any) -> Samples:
    yield Sample(0, 3, name="plain")
    yield Sample(2, 2, name="one")


@sampler(
    "range.step", reference=lambda start, end, step, **_: np.arange(start, end + step / 2, step)
)
def closed_steps(make: Any) -> Samples:
    yield Sample(0, 2, 0.5, name="plain")
    yield Sample(3, 0, -1, name="down")


@sampler("linspace", reference=lambda start, end, steps, **_: np.linspace(start, end, steps))
def even(make: Any) -> Samples:
    yield Sample(0, 1, 5, name="plain")
    yield Sample(2, -1, 4, name="down")
    yield Sample(1, 2, 1, name="one")
    yield Sample(1, 2, 0, name="empty")
    yield Sample(0, 1j, 3, name="complex")
    yield Sample(0, 10, 5, dtype=ad.float64, name="dtype")


@sampler(
    "logspace",
    reference=lambda start, end, n, base=10.0, **_: np.logspace(start, end, n, base=base),
)
def even_powers(make: Any) -> Samples:
    yield Sample(0, 2, 3, name="plain")
    yield Sample(-1, 1, 4, 2.0, name="base")


@sampler("linspace.Tensor_Tensor", "logspace.Tensor_Tensor")
def even_between_tensors(make: Any) -> Samples:
    yield Sample(make(), make(), 5, dtype=make.dtype, name="plain")
    yield Sample(make(), make(), 1, dtype=make.dtype, name="one")


@sampler("linspace.Tensor_Scalar", "logspace.Tensor_Scalar")
def even_from_tensor(make: Any) -> Samples:
    yield Sample(make(), 1.5, 4, dtype=make.dtype, name="plain")


@sampler("linspace.Scalar_Tensor", "logspace.Scalar_Tensor")
def even_to_tensor(make: Any) -> Samples:
    yield Sample(-0.5, make(), 4, dtype=make.dtype, name="plain")


@sampler("tril_indices", reference=lambda r, c, k=0, **_: np.stack(np.tril_indices(r, k, c)))
@sampler("triu_indices", reference=lambda r, c, k=0, **_: np.stack(np.triu_indices(r, k, c)))
def triangles(make: Any) -> Samples:
    yield Sample(3, 3, name="square")
    yield Sample(3, 4, -1, name="below")
    yield Sample(2, 4, 2, dtype=ad.int32, name="above")
    yield Sample(0, 2, name="empty")


WINDOWS = ("hann_window", "hamming_window", "blackman_window", "bartlett_window", "kaiser_window")


@sampler(*WINDOWS)
def windows(make: Any) -> Samples:
    yield Sample(5, name="plain")
    yield Sample(1, name="one")
    yield Sample(0, name="empty")
    yield Sample(4, dtype=ad.float64, name="dtype")


@sampler("hann_window.periodic", reference=lambda n, periodic, **_: np.hanning(n + periodic)[:n])
@sampler("hamming_window.periodic", reference=lambda n, periodic, **_: np.hamming(n + periodic)[:n])
@sampler(
    "blackman_window.periodic", reference=lambda n, periodic, **_: np.blackman(n + periodic)[:n]
)
@sampler(
    "bartlett_window.periodic", reference=lambda n, periodic, **_: np.bartlett(n + periodic)[:n]
)
@sampler(
    "kaiser_window.periodic", reference=lambda n, periodic, **_: np.kaiser(n + periodic, 12)[:n]
)
def periodic_windows(make: Any) -> Samples:
    yield Sample(5, True, name="periodic")
    yield Sample(6, False, name="symmetric")


@sampler("kaiser_window.beta", reference=lambda n, p, beta, **_: np.kaiser(n + p, beta)[:n])
@sampler("hamming_window.periodic_alpha")
def windows_of_one_parameter(make: Any) -> Samples:
    yield Sample(5, True, 0.5, name="periodic")
    yield Sample(6, False, 0.7, name="symmetric")


@sampler("hamming_window.periodic_alpha_beta")
def windows_of_two_parameters(make: Any) -> Samples:
    yield Sample(5, True, 0.5, 0.4, name="periodic")


# Values of uninitialised tensors mean nothing, so the samples have none.
@sampler("empty.memory_format")
def uninitialised(make: Any) -> Samples:
    yield Sample((0, 3), name="empty")


@sampler("empty_like")
def uninitialised_likes(make: Any) -> Samples:
    yield Sample(make(0, 3), name="empty")


@sampler("new_empty")
def uninitialised_news(make: Any) -> Samples:
    yield Sample(make(2), (0, 3), name="empty")


@sampler("empty_strided", "empty_permuted")
def uninitialised_strides(make: Any) -> Samples:
    yield Sample((0, 3), (1, 0), name="empty")


@sampler("new_empty_strided")
def uninitialised_new_strides(make: Any) -> Samples:
    yield Sample(make(2), (0, 3), (1, 0), name="empty")
