"""Samples of padding: several dimensions, uneven and negative widths, with and without a batch."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from adjoint.testing.samples import Make, Sample, sampler

Samples = Iterator[Sample]
NUMPY: dict[str, Any] = {
    "constant": "constant",
    "reflect": "reflect",
    "replicate": "edge",
    "circular": "wrap",
}


def widths(array: Any, pad: Any) -> list[tuple[int, int]]:
    pairs = [(pad[i], pad[i + 1]) for i in range(0, len(pad), 2)]
    return [(0, 0)] * (array.ndim - len(pairs)) + pairs[::-1]


def by_numpy(array: Any, pad: Any, mode: str, **options: Any) -> Any:
    """NumPy's pad, and slices where a width is negative."""
    if not pad:
        return array
    both = widths(array, pad)
    wide = np.pad(array, [(max(a, 0), max(b, 0)) for a, b in both], NUMPY[mode], **options)
    cut = [slice(max(-a, 0), n - max(-b, 0)) for (a, b), n in zip(both, wide.shape, strict=True)]
    return wide[tuple(cut)]


def constant_reference(self: Any, pad: Any, value: Any = 0) -> Any:
    return by_numpy(self, pad, "constant", constant_values=value)


def pad_reference(self: Any, pad: Any, mode: str = "constant", value: Any = None) -> Any:
    options = {"constant_values": value or 0} if mode == "constant" else {}
    return by_numpy(self, pad, mode, **options)


@sampler("constant_pad_nd", reference=constant_reference)
def constants(make: Make) -> Samples:
    yield Sample(make(2, 3), (1, 2), name="one dimension")
    yield Sample(make(2, 3), (1, 0, 0, 2), 1.5, name="two dimensions")
    yield Sample(make(2, 3), (-1, 2, 1, -1), name="negative")
    yield Sample(make(2, 3), (-1, -1), name="cut")
    yield Sample(make(2, 3), (-3, 1), name="nothing left")
    yield Sample(make(2, 3), (), name="no widths")
    yield Sample(make(), (), name="0-d")
    yield Sample(make(0, 3), (1, 1, 2, 0), name="empty")
    yield Sample(make(3, 2).t(), (1, 1), name="transposed")


@sampler("pad", reference=pad_reference)
def pads(make: Make) -> Samples:
    yield Sample(make(2, 3), (1, 2), "constant", 2.0, name="constant")
    for mode in ("reflect", "replicate", "circular"):
        yield Sample(make(2, 4), (2, 1), mode, name=f"{mode} no batch")
        yield Sample(make(2, 1, 3, 4), (2, 1, 0, 2), mode, name=f"{mode} 2d")
        yield Sample(make(1, 1, 2, 3, 2), (1, 1, 2, 0, 1, 1), mode, name=f"{mode} 3d")
        yield Sample(make(0, 2, 3), (1, 2), mode, name=f"{mode} empty batch")
    yield Sample(make(2, 4), (2, -1), "reflect", name="reflect and cut")
    yield Sample(make(2, 4), (-2, 3), "replicate", name="replicate and cut")


@sampler("_pad_circular", reference=lambda self, pad: by_numpy(self, pad, "circular"))
def rings(make: Make) -> Samples:
    yield Sample(make(2, 1, 4), (2, 3), name="1d")
    yield Sample(make(2, 1, 2, 3), (3, 0, 1, 2), name="2d")


@sampler("_pad_enum", reference=lambda self, pad, mode: by_numpy(self, pad, "replicate"))
def numbered(make: Make) -> Samples:
    yield Sample(make(2, 1, 4), (2, 3), 2, name="replicate")


PADDINGS = {1: (2, 1), 2: (2, 1, 1, 0), 3: (2, 1, 1, 0, 1, 1)}
SHAPES = {1: (2, 1, 4), 2: (1, 2, 3, 4), 3: (1, 1, 2, 2, 4)}


def around(dims: int) -> Any:
    def samples(make: Make) -> Samples:
        yield Sample(make(*SHAPES[dims]), PADDINGS[dims], name="plain")
        yield Sample(make(*SHAPES[dims][1:]), PADDINGS[dims], name="no batch")
        yield Sample(make(*SHAPES[dims]), (-1, 1, *PADDINGS[dims][2:]), name="cut")

    return samples


def reference(mode: str) -> Any:
    return lambda self, padding: by_numpy(self, padding, mode)


for _dims in (1, 2, 3):
    for _name, _mode in (("reflection", "reflect"), ("replication", "replicate")):
        sampler(f"{_name}_pad{_dims}d", reference=reference(_mode))(around(_dims))
