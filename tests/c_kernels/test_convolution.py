"""Convolutions in C equal products of matrices, for every geometry, layout and kind of number."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import adjoint as ad
from adjoint.c_kernels import convolution as native
from adjoint.c_kernels import loading as library
from adjoint.checks import convolution as checks
from adjoint.kernels.convolution import windows
from adjoint.toolchain import build

needs_compiler = pytest.mark.skipif(build.compiler() is None, reason="no C compiler here")

CHANNELS = [(1, 1, 2, 1), (3, 5, 1, 1), (2, 13, 3, 1), (1, 1, 2, 4), (2, 17, 2, 2), (1, 40, 1, 1)]
WINDOWS = list(itertools.product((1, 2, 3), (1, 2, 3), (0, 1, 2), (1, 2)))  # size, steps


def sizes_of(
    dimensions: int, channels: tuple[int, ...], window: tuple[int, ...]
) -> checks.Geometry | None:
    a, b, images, groups = channels
    kernel, stride, padding, dilation = window
    space = tuple(6 + d for d in range(dimensions))
    if dilation * (kernel - 1) + 1 > 6 + 2 * padding:
        return None
    return checks.geometry(
        "convolution", (images, a * groups, *space), (b * groups, a, *(kernel,) * dimensions),
        (stride,), (padding,), (dilation,), False, (0,), groups,
    )  # fmt: skip


def numbers(seed: int, shape: tuple[int, ...], dtype: Any) -> Any:
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def assert_equal(found: Any, wanted: Any) -> None:
    tolerance = 1e-4 if found.dtype == np.float32 else 1e-11
    np.testing.assert_allclose(found, wanted, rtol=tolerance, atol=tolerance)


def made(library: Any, name: str, arrays: tuple[Any, ...], sizes: checks.Geometry) -> Any:
    """What one of the three maps writes."""
    shape = {"convolve": sizes.small, "spread": sizes.large, "correlate": sizes.weight}[name]
    result = np.empty(shape, arrays[0].dtype)
    getattr(library, name)(*arrays, sizes, result)
    return result


@needs_compiler
@pytest.mark.parametrize("dimensions", [1, 2, 3])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_three_maps_equal_products_of_matrices(dimensions: int, dtype: Any) -> None:
    for channels, window in itertools.product(CHANNELS, WINDOWS):
        sizes = sizes_of(dimensions, channels, window)
        if sizes is None:
            continue
        large = numbers(0, sizes.large, dtype)
        small, weight = numbers(1, sizes.small, dtype), numbers(2, sizes.weight, dtype)
        for name, arrays in (
            ("convolve", (large, weight, None)),
            ("spread", (small, weight, None)),
            ("correlate", (large, small)),
        ):
            assert_equal(made(native, name, arrays, sizes), made(windows, name, arrays, sizes))


@needs_compiler
def test_images_may_lie_in_memory_in_any_way() -> None:
    sizes = sizes_of(2, (3, 20, 2, 1), (3, 2, 1, 1))
    assert sizes is not None
    large, small = numbers(0, sizes.large, np.float64), numbers(1, sizes.small, np.float64)
    weight, bias = numbers(2, sizes.weight, np.float64), numbers(3, sizes.small[1:2], np.float64)
    wanted = made(native, "convolve", (large, weight, bias), sizes)
    weights = made(native, "correlate", (large, small), sizes)
    for lies in (_channels_last, _backwards, _misaligned):
        found = made(native, "convolve", (lies(large), weight, bias), sizes)
        np.testing.assert_array_equal(found, wanted)
        found = made(native, "correlate", (lies(large), lies(small)), sizes)
        np.testing.assert_array_equal(found, weights)


def _channels_last(array: Any) -> Any:
    return np.ascontiguousarray(array.transpose(0, 2, 3, 1)).transpose(0, 3, 1, 2)


def _backwards(array: Any) -> Any:
    return array[:, :, ::-1].copy()[:, :, ::-1]


def _misaligned(array: Any) -> Any:
    room = np.empty(array.nbytes + 1, np.uint8)
    moved = room[1:].view(array.dtype).reshape(array.shape)
    moved[...] = array
    return moved


@needs_compiler
def test_an_infinite_element_reaches_only_the_weights_that_meet_it() -> None:
    sizes = checks.geometry(
        "convolution", (1, 1, 4, 4), (1, 1, 3, 3), (1,), (0,), (1,), False, (0,), 1
    )
    large, small = np.ones(sizes.large), np.zeros(sizes.small)
    large[0, 0, 0, 3] = np.inf  # the last element of the first row
    small[0, 0, 1, 0] = 1.0
    found = made(native, "correlate", (large, small), sizes)
    np.testing.assert_array_equal(found, np.where(_meets(large, small), np.nan, 1.0))


def _meets(large: Any, small: Any) -> Any:
    """Whether a weight multiplies the infinite element by something, a zero included."""
    met = np.zeros((1, 1, 3, 3), bool)
    for i, j in itertools.product(range(3), repeat=2):
        met[0, 0, i, j] = np.isinf(large[0, 0, i : i + 2, j : j + 2]).any()
    return met


@needs_compiler
def test_environment_turns_native_convolutions_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ADJOINT_NATIVE", "0")
    monkeypatch.setattr(library, "_functions", {})  # those that were found before
    assert library.function("convolution", "convolve", np.float32, 2) is None
    result = ad.nn.functional.conv2d(ad.ones(1, 1, 3, 3), ad.ones(1, 1, 2, 2))
    assert result.tolist() == [[[[4.0, 4.0], [4.0, 4.0]]]]
