"""Resampling as dense matrices and as sums over all elements, one place after the other."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np

from adjoint.testing.references.elements import Array

Scales = Sequence[float | None] | None


# --- resizing ------------------------------------------------------------------------------------


def cubic(x: float, a: float) -> float:
    """The cubic convolution kernel, by its conditions: 1 at 0, 0 at 1 and 2, slope a at 1."""
    x = abs(x)
    if x >= 2:
        return 0.0
    return a * (x - 1) * (x - 2) ** 2 if x > 1 else (x - 1) * ((a + 2) * x * x - x - 1)


def lanczos(x: float) -> float:
    """sinc(x) sinc(x/3)."""
    if x == 0:
        return 1.0
    y = math.pi * x
    return 3 * math.sin(y) * math.sin(y / 3) / (y * y) if abs(x) < 3 else 0.0


FILTERS: dict[str, Callable[[float], float]] = {
    "linear antialias": lambda x: max(1 - abs(x), 0.0),
    "cubic antialias": lambda x: cubic(x, -0.5),
    "lanczos antialias": lanczos,
}


def matrix(size: int, wanted: int, mode: str, align_corners: bool, scale: float | None) -> Array:
    """The elements along one dimension as sums of those of the input."""
    result = np.zeros((wanted, size))
    step = Fraction(size, wanted) if not scale else 1 / Fraction(scale)
    if align_corners:
        step = Fraction(size - 1, wanted - 1) if wanted > 1 else Fraction(0)
    for i in range(wanted):
        if mode in FILTERS:
            centre, stretch = step * (i + Fraction(1, 2)), max(step, Fraction(1))
            near = [float((j + Fraction(1, 2) - centre) / stretch) for j in range(size)]
            row = np.array([FILTERS[mode](x) for x in near])
            result[i] = row / row.sum()
        elif mode == "nearest":
            result[i, min(math.floor(i * step), size - 1)] = 1
        elif mode == "nearest-exact":
            result[i, min(math.floor((i + Fraction(1, 2)) * step), size - 1)] = 1
        else:
            half = Fraction(1, 2)
            place = float(i * step if align_corners else (i + half) * step - half)
            if mode == "linear":
                result[i] = [np.interp(place, range(size), e) for e in np.eye(size)]
                continue
            for j in range(math.floor(place) - 1, math.floor(place) + 3):
                result[i, min(max(j, 0), size - 1)] += cubic(place - j, -0.75)
    return result


def along(x: Array, matrices: Sequence[Array]) -> Array:
    """A matrix applied to each of the last dimensions."""
    for n, m in enumerate(matrices):
        axis = x.ndim - len(matrices) + n
        x = np.moveaxis(np.tensordot(m.astype(x.real.dtype), x, ([1], [axis])), 0, axis)
    return x


def resample(
    self: Array, output_size: Any, mode: str, align_corners: bool, scales: Scales
) -> Array:
    sizes = zip(self.shape[2:], output_size, scales or [None] * len(output_size), strict=True)
    return along(self, [matrix(n, m, mode, align_corners, s) for n, m, s in sizes])


def _of(mode: str, *, corners: bool, overload: str) -> Callable[..., Array]:
    """The reference of one of PyTorch's operators."""

    def plain(self: Array, output_size: Any, *options: Any) -> Array:
        align, scales = (options[0], options[1:]) if corners else (False, options)
        return resample(self, output_size, mode, align, scales)

    def vec(input: Array, output_size: Any, *options: Any) -> Array:
        *align, scales = options
        wanted = output_size or [int(n * s) for n, s in zip(input.shape[2:], scales, strict=True)]
        return resample(input, wanted, mode, bool(align and align[0]), scales)

    return vec if overload else plain


# --- grids ---------------------------------------------------------------------------------------


def _back(x: float, size: int, padding: int, align_corners: bool) -> float:
    """A place brought back into the input; one beyond it counts as zeros (padding 0)."""
    if padding == 2:
        low, span = (0.0, size - 1) if align_corners else (-0.5, size)
        x = low + (span - abs(span - (x - low) % (2 * span)) if span else 0.0)
    return min(max(x, 0.0), size - 1.0) if padding else x


def _weights(x: float, size: int, mode: int, padding: int, align_corners: bool) -> Array:
    """The weight of every element along one dimension, at one coordinate."""
    place = (x + 1) / 2 * (size - 1) if align_corners else ((x + 1) * size - 1) / 2
    found = np.zeros(size)
    if mode == 2:
        for j in range(math.floor(place) - 1, math.floor(place) + 3):
            at = int(_back(j, size, padding, align_corners))
            if 0 <= at < size:
                found[at] += cubic(place - j, -0.75)
        return found
    place = _back(place, size, padding, align_corners)
    for j in range(size):
        found[j] = j == round(place) if mode == 1 else max(1 - abs(place - j), 0.0)
    return found


def grid_sample(input: Array, grid: Array, mode: int, padding: int, align_corners: bool) -> Array:
    """For each place the sum over all elements."""
    sizes, dims = input.shape[2:], grid.shape[-1]
    result = np.zeros((*input.shape[:2], *grid.shape[1:-1]), input.dtype)
    for place in product(*(range(n) for n in grid.shape[:-1])):
        values = input[place[0]]
        for d in reversed(range(dims)):
            x = float(grid[(*place, dims - 1 - d)])
            values = values @ _weights(x, sizes[d], mode, padding, align_corners).astype(
                input.dtype
            )
        result[(place[0], slice(None), *place[1:])] = values
    return result


def resample_by(
    input: Array, dims: int, size: Any, mode: str, align_corners: bool, factors: Any
) -> Array:
    wanted = size or [int(n * s) for n, s in zip(input.shape[2:], factors, strict=True)]
    return resample(input, wanted, mode, align_corners, factors)


def affine_grid(theta: Array, size: Sequence[int], align_corners: bool) -> Array:
    """theta (x, y, 1) at the centres of a regular grid."""
    count, _, *sizes = size
    result = np.zeros((count, *sizes, len(sizes)), theta.dtype)
    for place in product(*(range(n) for n in sizes)):
        at = [_centre(i, n, align_corners) for i, n in zip(place, sizes, strict=True)]
        for n in range(count):
            result[(n, *place)] = theta[n] @ np.array([*at[::-1], 1.0]).astype(theta.dtype)
    return result


def _centre(i: int, n: int, align_corners: bool) -> float:
    if align_corners:
        return -1 + 2 * i / (n - 1) if n > 1 else 0.0
    return (2 * i + 1) / n - 1


# --- shuffles ------------------------------------------------------------------------------------


def pixel_shuffle(self: Array, r: int) -> Array:
    """out[c, h r + i, w r + j] = x[c r² + i r + j, h, w]."""
    *front, channels, height, width = self.shape
    result = np.zeros((*front, channels // r**2, height * r, width * r), self.dtype)
    for i, j in product(range(r), range(r)):
        result[..., i::r, j::r] = self[..., i * r + j :: r**2, :, :]
    return result


def pixel_unshuffle(self: Array, r: int) -> Array:
    """out[c r² + i r + j, h, w] = x[c, h r + i, w r + j]."""
    *front, channels, height, width = self.shape
    result = np.zeros((*front, channels * r**2, height // r, width // r), self.dtype)
    for i, j in product(range(r), range(r)):
        result[..., i * r + j :: r**2, :, :] = self[..., i::r, j::r]
    return result


def channel_shuffle(self: Array, groups: int) -> Array:
    """out[c g + i] = x[i C + c]."""
    each = self.shape[1] // groups
    order = [i * each + c for c in range(each) for i in range(groups)]
    return self[:, order]


REFERENCES: dict[str, Callable[..., Any]] = {
    "_resample": resample,
    "_resample_by": resample_by,
    "_grid_sample": grid_sample,
    "grid_sampler": grid_sample,
    "grid_sampler_2d": grid_sample,
    "grid_sampler_3d": grid_sample,
    "affine_grid_generator": affine_grid,
    "pixel_shuffle": pixel_shuffle,
    "pixel_unshuffle": pixel_unshuffle,
    "channel_shuffle": channel_shuffle,
    "native_channel_shuffle": channel_shuffle,
}
MODES = {  # operator: (mode, whether it takes align_corners)
    "upsample_nearest1d": ("nearest", False),
    "upsample_nearest2d": ("nearest", False),
    "upsample_nearest3d": ("nearest", False),
    "_upsample_nearest_exact1d": ("nearest-exact", False),
    "_upsample_nearest_exact2d": ("nearest-exact", False),
    "_upsample_nearest_exact3d": ("nearest-exact", False),
    "upsample_linear1d": ("linear", True),
    "upsample_bilinear2d": ("linear", True),
    "upsample_trilinear3d": ("linear", True),
    "upsample_bicubic2d": ("cubic", True),
    "_upsample_bilinear2d_aa": ("linear antialias", True),
    "_upsample_bicubic2d_aa": ("cubic antialias", True),
    "_upsample_lanczos2d_aa": ("lanczos antialias", True),
}
for _name, (_mode, _corners) in MODES.items():
    REFERENCES[f"{_name}.default"] = _of(_mode, corners=_corners, overload="")
    REFERENCES[f"{_name}.vec"] = _of(_mode, corners=_corners, overload="vec")
