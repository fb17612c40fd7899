"""Samples of pooling: overlapping and separate windows, frames, gaps, ties, with and without batch.

Elements are distinct where the largest is asked for, so that differences do not change it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

import adjoint as ad
from adjoint.testing.samples import Make, Sample, sampler

Samples = Iterator[Sample]

PLAIN = {1: (2, 3, 7), 2: (2, 2, 4, 5), 3: (1, 2, 3, 4, 4)}
# kernel_size, stride, padding, dilation, ceil_mode
WINDOWS: dict[str, tuple[Any, ...]] = {
    "apart": (2,),
    "overlapping": (3, 1, 1),
    "gaps": (1, 2, 0),
    "dilated": (2, 1, 1, 2),
    "ceil": (2, 3, 1, 1, True),
}


def lists(options: tuple[Any, ...], dims: int) -> tuple[Any, ...]:
    """A number for each dimension."""
    return tuple((o,) * dims if type(o) is int else o for o in options)


def in_channels_last(x: ad.Tensor) -> ad.Tensor:
    """The same elements, channels next to each other in memory; a leaf."""
    array = np.moveaxis(np.ascontiguousarray(np.moveaxis(x.detach().numpy(), 1, -1)), -1, 1)
    tensor = ad.from_numpy(array)
    return tensor.requires_grad_() if x.requires_grad else tensor


def ties(make: Make, *shape: int) -> ad.Tensor:
    """Few different numbers; zeros of one sign, since either may stand for both."""
    return make.like(make(*shape).detach().numpy().astype(np.float64).round() + 0.0)


def maxima(dims: int) -> Any:
    def samples(make: Make) -> Samples:
        shape = PLAIN[dims]
        for name, options in WINDOWS.items():
            yield Sample(make.distinct(*shape), *lists(options, dims), name=name)
        yield Sample(make.distinct(*shape[1:]), (2,) * dims, name="no batch")
        yield Sample(make.distinct(0, *shape[1:]), (2,) * dims, name="empty batch")
        yield Sample(ties(make, *shape), (3,) * dims, (1,) * dims, name="ties", kink=True)
        if dims == 2:
            yield Sample(make.distinct(2, 3, 5, 4).mT, (2, 3), (1, 2), (0, 1), name="uneven")
            yield Sample(in_channels_last(make.distinct(*shape)), 2, name="channels last")
            yield Sample(make.distinct(1, 1, 7, 8), (6, 7), 1, (3, 2), name="large")

    return samples


for _dims in (1, 2, 3):
    sampler(f"max_pool{_dims}d", f"max_pool{_dims}d_with_indices", real=True)(maxima(_dims))


# --- averages ------------------------------------------------------------------------------------

# kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override
AVERAGES: dict[str, tuple[Any, ...]] = {
    "apart": (2,),
    "overlapping": (3, 1, 1),
    "gaps": (1, 2, 0),
    "ceil": (2, 3, 1, True),
    "without frame": (3, 2, 1, True, False),
}


def averages(dims: int) -> Any:
    def samples(make: Make) -> Samples:
        shape = PLAIN[dims]
        for name, options in AVERAGES.items():
            yield Sample(make(*shape), *lists(options, dims), name=name)
        yield Sample(make(*shape[1:]), (2,) * dims, name="no batch")
        yield Sample(make(0, *shape[1:]), (2,) * dims, name="empty batch")
        if dims > 1:
            yield Sample(make(*shape), 2, 1, 0, False, True, -3, name="divisor")
        if dims == 2:
            yield Sample(in_channels_last(make(*shape)), 2, name="channels last")
            yield Sample(make(2, 3, 5, 4).mT, (2, 3), (1, 2), (0, 1), name="uneven")

    return samples


for _dims in (1, 2, 3):
    sampler(f"avg_pool{_dims}d", real=True)(averages(_dims))


# --- windows that share a dimension out ----------------------------------------------------------

OUTPUTS = {
    1: {"dividing": (7,), "uneven": (3,), "more": (9,), "one": (1,)},
    2: {"dividing": (2, 5), "uneven": (3, 2), "more": (5, 7), "one": (1, 1)},
    3: {"dividing": (3, 2, 4), "uneven": (2, 3, 3), "one": (1, 1, 1)},
}


def adapted(dims: int, *, averages: bool) -> Any:
    def samples(make: Make) -> Samples:
        shape = PLAIN[dims]
        values = make if averages else make.distinct
        for name, sizes in OUTPUTS[dims].items():
            yield Sample(values(*shape), sizes, name=name)
        sizes = OUTPUTS[dims]["uneven"]
        yield Sample(values(*shape[1:]), sizes, name="no batch")
        yield Sample(values(0, *shape[1:]), sizes, name="empty batch")
        yield Sample(values(*shape), (*sizes[1:], 0), name="no windows")
        if dims == 2:
            yield Sample(in_channels_last(values(*shape)), sizes, name="channels last")
        if not averages:
            yield Sample(ties(make, *shape), sizes, name="ties", kink=True)

    return samples


for _dims in (1, 2, 3):
    sampler(f"adaptive_avg_pool{_dims}d", real=True)(adapted(_dims, averages=True))
    sampler(f"adaptive_max_pool{_dims}d", real=True)(adapted(_dims, averages=False))
for _dims in (2, 3):
    sampler(f"_adaptive_avg_pool{_dims}d", real=True)(adapted(_dims, averages=True))


# --- windows at random, and back -----------------------------------------------------------------


def randoms(make: Make, *shape: int) -> ad.Tensor:
    """Random numbers as an argument that has no derivative."""
    return make.uniform(0.0, 1.0, *shape).detach()


def at_random(dims: int) -> Any:
    def samples(make: Make) -> Samples:
        batch, channels, *sizes = PLAIN[dims]
        kernels, out = (2,) * dims, tuple(s - 1 - s // 4 for s in sizes)
        x = make.distinct(*PLAIN[dims])
        yield Sample(x, kernels, out, randoms(make, batch, channels, dims), name="plain")
        x = make.distinct(channels, *sizes)
        yield Sample(x, kernels, out, randoms(make, 1, channels, dims), name="no batch")
        x = make.distinct(*PLAIN[dims])
        one = (1,) * dims
        yield Sample(x, (3,) * dims, one, randoms(make, batch, channels, dims), name="one window")

    return samples


def unpooled(dims: int) -> Any:
    rest = () if dims == 2 else ((2,) * 3, (0,) * 3)

    def samples(make: Make) -> Samples:
        out = (4,) * dims
        shape = (2, 2, *(2,) * dims)
        apart = ad.from_numpy(
            np.stack([np.stack([make.permutation(4**dims).numpy()[: 2**dims]] * 2)] * 2)
        ).reshape(shape)
        yield Sample(make(*shape), apart, out, *rest, name="plain")
        yield Sample(make(*shape[1:]), apart[0], out, *rest, name="no batch")
        twice = make.index(3, *shape)
        yield Sample(make(*shape), twice, out, *rest, name="repeated")
        yield Sample(make(0, *shape[1:]), apart[:0], out, *rest, name="empty batch")
        if dims == 2:
            yield Sample(in_channels_last(make(*shape)), apart, out, name="channels last")

    return samples


for _dims in (2, 3):
    sampler(f"fractional_max_pool{_dims}d", real=True)(at_random(_dims))
    sampler(f"max_unpool{_dims}d", real=True)(unpooled(_dims))
