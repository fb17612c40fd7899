"""Convolutions by oneDNN equal products of matrices; where it is not installed, none are tried."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from importlib import metadata
from typing import Any

import numpy as np
import pytest

import adjoint as ad
from adjoint.checks import convolution as checks
from adjoint.core.dtypes import bfloat16
from adjoint.kernels import convolution as kernels
from adjoint.kernels.convolution import onednn, windows

needs_onednn = pytest.mark.skipif(
    onednn.library() is None, reason="oneDNN is not installed: pip install adjoint[dnn]"
)

# channels of large and small in a group, groups
CHANNELS = [(3, 5, 1), (16, 32, 1), (1, 1, 16), (8, 4, 3)]
WINDOWS = [(1, 1, 0, 1), (3, 1, 1, 1), (3, 2, 1, 1), (2, 3, 0, 2), (1, 2, 0, 1)]


def geometries(dimensions: int) -> Iterator[checks.Geometry]:
    for (a, b, groups), (kernel, stride, padding, dilation) in itertools.product(CHANNELS, WINDOWS):
        yield checks.geometry(
            "convolution", (2, a * groups, *range(7, 7 + dimensions)),
            (b * groups, a, *(kernel,) * dimensions), (stride,), (padding,), (dilation,), False,
            (0,), groups,
        )  # fmt: skip


def numbers(seed: int, shape: tuple[int, ...], dtype: Any) -> Any:
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def channels_last(array: Any) -> Any:
    return np.moveaxis(np.ascontiguousarray(np.moveaxis(array, 1, -1)), -1, 1)


def calls(sizes: checks.Geometry, dtype: Any) -> Iterator[tuple[str, tuple[Any, ...], Any]]:
    large, small = numbers(0, sizes.large, dtype), numbers(1, sizes.small, dtype)
    weight, bias = numbers(2, sizes.weight, dtype), numbers(3, sizes.small[1:2], dtype)
    of_large = numbers(4, sizes.large[1:2], dtype)
    yield "convolve", (large, weight, bias), sizes.small
    yield "convolve", (large, weight, None), sizes.small
    yield "spread", (small, weight, of_large), sizes.large
    yield "correlate", (large, small), sizes.weight


def close(found: Any, wanted: Any, tolerance: float) -> None:
    scale = max(float(np.abs(wanted).max()), 1.0)
    np.testing.assert_allclose(found, wanted, rtol=0, atol=tolerance * scale)


@needs_onednn
@pytest.mark.parametrize("dimensions", [1, 2, 3])
def test_the_three_maps_equal_products_of_matrices(dimensions: int) -> None:
    done = 0
    for sizes in geometries(dimensions):
        for name, arrays, shape in calls(sizes, np.float32):
            found, wanted = np.empty(shape, np.float32), np.empty(shape, np.float32)
            getattr(windows, name)(*arrays, sizes, wanted)
            if getattr(onednn, name)(*arrays, sizes, found):
                close(found, wanted, 1e-5)
                done += 1
    assert done >= 70  # all but the gradients of images with few channels


@needs_onednn
def test_images_with_channels_last_are_used_as_they_lie() -> None:
    for sizes in geometries(2):
        for name, arrays, shape in calls(sizes, np.float32):
            wanted = np.empty(shape, np.float32)
            found = wanted.copy() if name == "correlate" else channels_last(wanted)
            lying = [a if a is None or a.ndim < 4 else channels_last(a) for a in arrays]
            if name != "correlate":
                lying[1] = arrays[1]
            getattr(windows, name)(*arrays, sizes, wanted)
            if getattr(onednn, name)(*lying, sizes, found):
                close(found, wanted, 1e-5)


@needs_onednn
def test_bfloat16_is_added_up_in_float32() -> None:
    sizes = next(geometries(2))
    for name, arrays, shape in calls(sizes, bfloat16.np):
        found, wanted = np.empty(shape, bfloat16.np), np.empty(shape, np.float32)
        wide = [None if a is None else a.astype(np.float32) for a in arrays]
        getattr(windows, name)(*wide, sizes, wanted)
        if getattr(onednn, name)(*arrays, sizes, found):
            close(found.astype(np.float32), wanted, 2**-7)


@needs_onednn
def test_arrays_that_it_cannot_describe_are_left_to_others() -> None:
    sizes = next(geometries(2))
    large, weight = numbers(0, sizes.large, np.float32), numbers(2, sizes.weight, np.float32)
    small = np.empty(sizes.small, np.float32)
    assert not onednn.convolve(large[..., ::-1], weight, None, sizes, small)
    double = np.empty(sizes.small)
    assert not onednn.convolve(large.astype(np.float64), weight, None, sizes, double)
    turned = ad.tensor(large[..., ::-1].copy()).flip(-1)
    result = ad.nn.functional.conv2d(turned, ad.tensor(weight), padding=sizes.padding)
    windows.convolve(large, weight, None, sizes, small)
    close(result.numpy(), small, 1e-5)


@needs_onednn
def test_its_name_is_told() -> None:
    assert kernels.computed_by().startswith("oneDNN 3.")


@pytest.fixture
def undecided() -> Iterator[None]:
    """Whether there is oneDNN is asked again, before and after."""
    onednn.library.cache_clear()
    yield
    onednn.library.cache_clear()


@pytest.mark.usefixtures("undecided")
def test_environment_turns_it_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ADJOINT_ONEDNN", "0")
    assert onednn.library() is None
    assert not kernels.computed_by().startswith("oneDNN")
    result = ad.nn.functional.conv2d(ad.ones(1, 1, 3, 3), ad.ones(1, 1, 2, 2))
    assert result.tolist() == [[[[4.0, 4.0], [4.0, 4.0]]]]


@pytest.mark.usefixtures("undecided")
def test_a_file_that_is_no_library_is_told_and_not_used(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    (tmp_path / onednn.FILE).write_text("nothing", encoding="utf-8")
    info = tmp_path / "onednn_cpu_gomp-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Name: onednn-cpu-gomp\nVersion: 1\n", encoding="utf-8")
    (info / "RECORD").write_text(f"{onednn.FILE},,\n", encoding="utf-8")
    found = metadata.PathDistribution(info)
    monkeypatch.setattr(metadata, "distribution", lambda name: found)
    with pytest.warns(UserWarning, match="computed without oneDNN"):
        assert onednn.library() is None


@needs_onednn
def test_threads_share_a_plan_and_forgotten_plans_are_made_again() -> None:
    weight = ad.tensor(numbers(2, (16, 8, 3, 3), np.float32))
    images = [ad.tensor(numbers(n, (2, 8, 9, 9), np.float32)) for n in range(8)]
    wanted = [ad.nn.functional.conv2d(x, weight).numpy() for x in images]
    onednn._prepared.cache_clear()  # ends oneDNN's objects
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda x: ad.nn.functional.conv2d(x, weight).numpy(), images * 10))
    for ours, theirs in zip(found, wanted * 10, strict=True):
        np.testing.assert_array_equal(ours, theirs)
