"""Max pooling in C equals NumPy's passes: geometry, layouts, ties, infinities and NaN."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import adjoint as ad
from adjoint.c_kernels import pooling as native
from adjoint.checks import pooling as rules
from adjoint.kernels.pooling import maxima as kernels
from adjoint.kernels.pooling.windows import adaptive, regular
from adjoint.toolchain import build

needs_compiler = pytest.mark.skipif(build.compiler() is None, reason="no C compiler here")
GEOMETRIES = list(itertools.product((1, 2, 3), (1, 2, 3), (0, 1), (1, 2), (False, True)))


def pictures(seed: int, shape: tuple[int, ...], dtype: Any) -> Any:
    """Few different values, so that there are ties, and some that are not finite."""
    draw = np.random.default_rng(seed)
    found = draw.integers(-2, 3, shape).astype(dtype)
    for value in (np.nan, np.inf, -np.inf):
        found[draw.random(shape) < 0.1] = value
    return found


@needs_compiler
@pytest.mark.parametrize("dims", [2, 3])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_maxima_and_their_indices_equal_passes(dims: int, dtype: Any) -> None:
    for seed, (kernel, stride, padding, dilation, ceil) in enumerate(GEOMETRIES):
        if padding > kernel / 2 or dilation * (kernel - 1) + 1 > 5:
            continue
        array = pictures(seed, (2, 3, *(5 + d for d in range(dims))), dtype)
        if seed % 3 == 1:
            array = np.moveaxis(np.ascontiguousarray(np.moveaxis(array, 1, -1)), -1, 1)
        found = rules.windows(
            "max_pool", array.shape, dims, (kernel,), (stride,), (padding,), (dilation,), ceil
        )
        shape = rules.pooled(array.shape, found)
        values, places = np.empty(shape, dtype), np.empty(shape, np.int64)
        assert native.maxima(array, found, values, places)
        passes = [regular(w) for w in found]
        with np.errstate(invalid="ignore"):  # ∞ - ∞ where it looks for NaN
            maxima = kernels._maxima(array, passes)
            wanted_places = kernels._places(maxima, passes)
        np.testing.assert_array_equal(values, maxima[-1])
        np.testing.assert_array_equal(places, wanted_places)


@needs_compiler
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("kernel", [(2, 2), (2, 3), (3, 2), (3, 3)])
@pytest.mark.parametrize("stride", [1, 2])
def test_long_rows_of_small_windows_equal_passes(
    dtype: Any, kernel: tuple[int, int], stride: int
) -> None:
    for width in range(15, 41):
        array = pictures(width, (1, 2, 4, width), dtype)
        geometry = (kernel, (stride,), (width % 2,), (1,), width % 3 == 0)
        found = rules.windows("max_pool", array.shape, 2, *geometry)
        shape = rules.pooled(array.shape, found)
        values, places = np.empty(shape, dtype), np.empty(shape, np.int64)
        assert native.maxima(array, found, values, places)
        passes = [regular(w) for w in found]
        with np.errstate(invalid="ignore"):
            maxima = kernels._maxima(array, passes)
            np.testing.assert_array_equal(places, kernels._places(maxima, passes))
        np.testing.assert_array_equal(values, maxima[-1])


@needs_compiler
@pytest.mark.parametrize("batch", [(), (2,)])
def test_gradients_go_back_to_their_indices(batch: tuple[int, ...]) -> None:
    draw = np.random.default_rng(0)
    grad = draw.standard_normal((*batch, 3, 4, 5))
    indices = draw.integers(0, 42, grad.shape)  # several at one place
    result = np.empty((*batch, 3, 6, 7))
    assert native.back(grad, indices, 2, result)
    wanted = np.zeros((*batch, 3, 42))
    for place in np.ndindex(*grad.shape):
        wanted[(*place[:-2], indices[place])] += grad[place]
    np.testing.assert_allclose(result, wanted.reshape(result.shape), rtol=1e-14)
    indices[(0,) * indices.ndim] = 42
    assert not native.back(grad, indices, 2, result)


@needs_compiler
@pytest.mark.parametrize("kernel", [2, 3, 5, 7])  # slices, and the routine
@pytest.mark.parametrize("dtype", [ad.float32, ad.float64])
def test_compiled_maxima_and_indices_equal_eager(kernel: int, dtype: Any) -> None:
    for seed, stride in enumerate((1, 2, 3)):
        x = ad.from_numpy(pictures(seed, (2, 3, 9, 8), np.float64)).to(dtype)
        pool = lambda x, stride=stride: ad.nn.functional.max_pool2d(
            x, kernel, stride, kernel // 2, ceil_mode=True, return_indices=True
        )
        for ours, theirs in zip(ad.compile(pool)(x), pool(x), strict=True):
            np.testing.assert_array_equal(ours.numpy(), theirs.numpy())


@needs_compiler
@pytest.mark.parametrize("step", [2, 3])
def test_loops_over_every_nth_element_of_a_frame_are_cut_at_its_edges(step: int) -> None:
    """A loop that is cut needs no condition, so that it can be in vectors."""
    x = ad.arange(40.0)

    def every(x: ad.Tensor) -> list[ad.Tensor]:
        framed = ad.nn.functional.pad(x, (5, 4), value=-1.0)
        return [framed[start::step] + framed.flip(0)[start::step] for start in range(step)]

    compiled = ad.compile(every)
    for ours, theirs in zip(compiled(x), every(x), strict=True):
        assert ad.equal(ours, theirs)
    assert " ? " not in compiled.lower(x).source.partition("segment0")[0].partition("nest0")[2]


@needs_compiler
@pytest.mark.parametrize("dims", [2, 3])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_maxima_of_uneven_windows_equal_passes(dims: int, dtype: Any) -> None:
    for seed, out in enumerate(itertools.product((1, 2, 3, 5, 9), repeat=dims)):
        array = pictures(seed, (2, 3, *(5 + d for d in range(dims))), dtype)
        if seed % 3 == 1:
            array = np.moveaxis(np.ascontiguousarray(np.moveaxis(array, 1, -1)), -1, 1)
        elif seed % 3 == 2:
            array = array[..., ::-1]
        shape = (2, 3, *out)
        values, places = np.empty(shape, dtype), np.empty(shape, np.int64)
        sizes = list(zip(array.shape[2:], out, strict=True))
        spans = [rules.starts(n, o) for n, o in sizes]
        assert native.uneven_maxima(array, spans, values, places)
        passes = [adaptive(n, o) for n, o in sizes]
        with np.errstate(invalid="ignore"):
            maxima = kernels._maxima(array, passes)
            wanted_places = kernels._places(maxima, passes)
        np.testing.assert_array_equal(values, maxima[-1])
        np.testing.assert_array_equal(places, wanted_places)
