"""Samples of resampling: larger and smaller, corners aligned or not, every filter and padding."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import adjoint as ad
from adjoint.testing.references import resampling
from adjoint.testing.samples import Make, Sample, sampler

Samples = Iterator[Sample]

INPUTS = {1: (1, 2, 4), 2: (1, 2, 3, 4), 3: (1, 1, 2, 3, 2)}
OUTPUTS = {1: (7,), 2: (5, 3), 3: (3, 2, 4)}
FACTORS = {1: (1.7,), 2: (1.7, 0.6), 3: (1.7, 0.7, 0.6)}


def larger_and_smaller(dims: int, corners: bool) -> Any:
    def samples(make: Make) -> Samples:
        align = (False,) if corners else ()
        yield Sample(make(*INPUTS[dims]), OUTPUTS[dims], *align, name="both")
        if corners:
            yield Sample(make(*INPUTS[dims]), OUTPUTS[dims], True, name="corners")
        if dims == 1:
            yield Sample(make(1, 1, 5), (8,), *align, 1.7, name="scale")
        if dims == 2:
            yield Sample(make(2, 2, 4, 2).transpose(1, 3), (4, 4), *align, name="transposed")

    return samples


def by_factors(dims: int, corners: bool) -> Any:
    def samples(make: Make) -> Samples:
        align = (False,) if corners else ()
        yield Sample(make(*INPUTS[dims]), None, *align, FACTORS[dims], name="factors")
        yield Sample(make(*INPUTS[dims]), OUTPUTS[dims], *align, None, name="size")

    return samples


for _name, (_, _corners) in resampling.MODES.items():
    _dims = int(_name.removesuffix("_aa")[-2])
    sampler(_name)(larger_and_smaller(_dims, _corners))
    sampler(f"{_name}.vec")(by_factors(_dims, _corners))

NONE = [0.0, 0.0]
FILTERS = ("cubic", "linear antialias", "cubic antialias", "lanczos antialias")


@sampler("_resample")
def resized(make: Make) -> Samples:
    yield Sample(make(0, 2, 3, 2), (2, 4), "linear", False, NONE, name="empty batch")
    yield Sample(make(1, 2, 3, 4), (3, 4), "linear", False, NONE, name="the same size")
    yield Sample(make(1, 1, 3, 4), (6, 8), "nearest", False, NONE, name="doubled")
    yield Sample(make(1, 1, 1, 1), (2, 3), "cubic", True, NONE, name="of one element")
    yield Sample(make(1, 1, 3, 4), (1, 1), "linear", True, NONE, name="to one element")
    for mode in FILTERS:
        yield Sample(make(1, 1, 5, 3), (2, 5), mode, False, NONE, name=mode)


@sampler("_resample_by")
def by(make: Make) -> Samples:
    yield Sample(make(1, 1, 3, 4), 2, None, "linear", False, (2.5, 0.5), name="factors")


@sampler("_resampling_taps")
def taps(make: Make) -> Samples:
    if make.dtype is ad.float64:
        for mode in ("nearest", "linear", *FILTERS):
            yield Sample(5, 3, mode, False, 0.0, dtype=ad.float64, name=mode)
        yield Sample(5, 3, "cubic", False, 0.0, dtype=ad.uint8, name="bytes")


# --- grids ---------------------------------------------------------------------------------------

GRIDS = {2: ((1, 2, 3, 4), (1, 2, 2, 2)), 3: ((1, 1, 2, 3, 2), (1, 1, 2, 2, 3))}
PADDINGS = ("zeros", "border", "reflection")


def places(make: Make, *shape: int) -> ad.Tensor:
    """Coordinates inside and outside, none on an element or on the border."""
    return make.uniform(-1.4, 1.4, *shape)


def options(dims: int) -> Iterator[tuple[str, tuple[int, int, bool]]]:
    modes = ("bilinear", "nearest", "bicubic")[: 5 - dims]
    for mode, name in enumerate(modes):
        for padding, around in enumerate(PADDINGS):
            yield f"{name} {around}", (mode, padding, (mode + padding) % 2 == 1)


def sampled(dims: int) -> Any:
    def samples(make: Make) -> Samples:
        if make.is_complex:
            return
        shape, grid = GRIDS[dims]
        for name, chosen in options(dims):
            yield Sample(make(*shape), places(make, *grid), *chosen, name=name)

    return samples


for _dims in (2, 3):
    sampler(f"grid_sampler_{_dims}d")(sampled(_dims))


@sampler("_grid_sample", real=True)
def sampled_specially(make: Make) -> Samples:
    yield from sampled(2)(make)
    yield Sample(make(2, 2, 2, 2), places(make, 2, 1, 3, 2), 0, 2, True, name="batch")
    yield Sample(make(0, 2, 2, 2), places(make, 0, 1, 3, 2), 0, 0, False, name="empty batch")
    yield Sample(make(1, 0, 2, 2), places(make, 1, 1, 3, 2), 0, 0, False, name="no channels")
    yield Sample(make(1, 2, 2, 2), places(make, 1, 0, 3, 2), 0, 0, False, name="no places")
    yield Sample(make(1, 1, 1, 1), places(make, 1, 1, 2, 2), 0, 2, True, name="one element")
    moved = make(1, 2, 3, 2).transpose(1, 3), places(make, 1, 2, 2, 2).transpose(1, 3)
    yield Sample(*moved, 0, 1, False, name="transposed")
    edges = make.like([[[[-1.0, 0.0], [1.0, 1.0]]]])
    yield Sample(make(1, 1, 3, 3), edges, 0, 1, True, name="on the border", kink=True)


@sampler("grid_sampler", real=True)
def sampled_anywhere(make: Make) -> Samples:
    for dims in (2, 3):
        shape, grid = GRIDS[dims]
        yield Sample(make(*shape), places(make, *grid), 0, 0, False, name=f"{dims}d")


@sampler("affine_grid_generator")
def maps(make: Make) -> Samples:
    yield Sample(make(2, 2, 3), (2, 1, 3, 2), False, name="plane")
    yield Sample(make(1, 2, 3), (1, 1, 3, 2), True, name="plane corners")
    yield Sample(make(1, 3, 4), (1, 1, 2, 1, 3), False, name="space")


# --- shuffles ------------------------------------------------------------------------------------


@sampler("pixel_shuffle")
def shuffles(make: Make) -> Samples:
    yield Sample(make(1, 8, 2, 3), 2, name="batch")
    yield Sample(make(4, 2, 1), 2, name="no batch")
    yield Sample(make(2, 1, 4, 2, 1), 2, name="two batches")
    yield Sample(make(2, 3, 2), 1, name="one")
    yield Sample(make(0, 4, 2, 2), 2, name="empty")
    yield Sample(make(2, 3, 4).transpose(0, 2), 2, name="transposed")


@sampler("pixel_unshuffle")
def unshuffles(make: Make) -> Samples:
    yield Sample(make(1, 2, 4, 6), 2, name="batch")
    yield Sample(make(1, 3, 3), 3, name="no batch")
    yield Sample(make(2, 0, 4, 2), 2, name="empty")


@sampler("channel_shuffle")
def channels(make: Make) -> Samples:
    yield Sample(make(2, 6, 2), 3, name="vectors")
    yield Sample(make(1, 4, 2, 2), 2, name="images")
    yield Sample(make(0, 4, 2), 2, name="empty")
