"""Resampling: what PyTorch does with bytes, layouts and places that are no numbers; derivatives of
grids of higher order; errors."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import adjoint as ad
from adjoint.c_kernels import resampling as native
from adjoint.core.errors import ArgumentError, DtypeError, ShapeError, ValueRangeError
from adjoint.kernels.resampling import axes

F = ad.nn.functional
NAN, INF = math.nan, math.inf


def image(*shape: int, seed: int = 0) -> ad.Tensor:
    return ad.from_numpy(np.random.default_rng(seed).standard_normal(shape))


def places(*shape: int, seed: int = 1) -> ad.Tensor:
    return ad.from_numpy(np.random.default_rng(seed).uniform(-1.3, 1.3, shape))


# --- resizing ------------------------------------------------------------------------------------

BYTES = {  # as PyTorch gives them
    ("bilinear", False): [[0, 102, 255, 108, 10], [100, 112, 129, 78, 44], [200, 121, 3, 47, 77]],
    ("bilinear", True): [[0, 102, 255, 108, 10], [100, 112, 129, 78, 44], [200, 121, 3, 47, 77]],
    ("bicubic", False): [[0, 117, 255, 131, 0], [110, 118, 129, 79, 42], [238, 118, 0, 26, 91]],
}


@pytest.mark.parametrize(("mode", "antialias"), BYTES)
def test_bytes_are_rounded_after_each_dimension(mode: str, antialias: bool) -> None:
    x = ad.tensor([[[[0, 255, 10], [200, 3, 77]]]], dtype=ad.uint8)
    result = F.interpolate(x, size=(3, 5), mode=mode, antialias=antialias)
    assert result.dtype is ad.uint8
    assert result[0, 0].tolist() == BYTES[mode, antialias]


@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
def test_bytes_decomposed_are_those_of_the_kernel(mode: str) -> None:
    x = ad.randint(0, 256, (1, 2, 5, 6), dtype=ad.uint8)
    resized = ad.trace(lambda x: F.interpolate(x, size=(7, 4), mode=mode), x)
    decomposed = ad.decompose(resized)
    assert "_resample." not in str(decomposed)
    assert np.array_equal(decomposed(x).numpy(), resized(x).numpy())


@pytest.mark.parametrize("mode", ["nearest", "bilinear", "bicubic"])
def test_an_infinite_element_stays_among_its_neighbours(mode: str) -> None:
    x = ad.zeros(1, 1, 6, 6)
    x[0, 0, 1, 1] = INF
    result = F.interpolate(x, scale_factor=2, mode=mode)[0, 0].numpy()
    assert not np.isfinite(result[2:4, 2:4]).any()
    assert np.isfinite(result[8:, :]).all()
    assert np.isfinite(result[:, 8:]).all()


@pytest.mark.parametrize("mode", ["nearest", "nearest-exact", "bilinear", "bicubic"])
@pytest.mark.parametrize("size", [(4, 6), (4, 5), (8, 3)])
def test_channels_that_are_last_stay_last(mode: str, size: tuple[int, int]) -> None:
    x = image(2, 3, 4, 5)
    last = ad.from_numpy(
        np.ascontiguousarray(x.numpy().transpose(0, 2, 3, 1)).transpose(0, 3, 1, 2)
    )
    result = F.interpolate(last, size=size, mode=mode)
    assert result.stride() == (3 * size[0] * size[1], 1, 3 * size[1], 3)
    assert ad.allclose(result, F.interpolate(x, size=size, mode=mode))


def test_shuffles_keep_channels_last() -> None:
    x = image(2, 4, 2, 6)
    last = ad.from_numpy(
        np.ascontiguousarray(x.numpy().transpose(0, 2, 3, 1)).transpose(0, 3, 1, 2)
    )
    for shuffle in (ad.pixel_shuffle, ad.pixel_unshuffle, F.channel_shuffle):
        result = shuffle(last, 2)
        assert result.permute(0, 2, 3, 1).is_contiguous()
        assert ad.equal(result, shuffle(x, 2))


def test_a_scale_factor_places_the_elements_unless_computed_again() -> None:
    x = ad.arange(5.0).reshape(1, 1, 5)
    kept = F.interpolate(x, scale_factor=1.7, mode="linear")[0, 0]
    again = F.interpolate(x, scale_factor=1.7, mode="linear", recompute_scale_factor=True)[0, 0]
    assert ad.allclose(kept[1:3], ad.tensor([0.5, 1.5]) / 1.7 + ad.tensor([1, 1]) / 1.7 - 0.5)
    assert ad.equal(again, F.interpolate(x, size=8, mode="linear")[0, 0])


def test_a_scale_that_keeps_the_size() -> None:
    """As in PyTorch: images and linear modes are copied, other modes of vectors are not."""
    x = ad.arange(5.0).reshape(1, 1, 5)
    assert F.interpolate(x, scale_factor=1.1)[0, 0].tolist() == [0, 0, 1, 2, 3]
    assert ad.equal(F.interpolate(x, scale_factor=1.1, mode="linear"), x)
    x = ad.arange(25.0).reshape(1, 1, 5, 5)
    assert ad.equal(F.interpolate(x, scale_factor=1.1), x)
    assert not ad.equal(F.interpolate(x, scale_factor=1.1, mode="bicubic"), x)


@pytest.mark.parametrize("mode", ["bilinear", "bicubic", "nearest"])
@pytest.mark.parametrize("dtype", [ad.float16, ad.bfloat16])
def test_half_precision_is_rounded_once(mode: str, dtype: Any) -> None:
    x = image(1, 2, 5, 4).to(dtype)
    result = F.interpolate(x, size=(7, 9), mode=mode)
    assert result.dtype is dtype
    wanted = F.interpolate(x.to(ad.float32), size=(7, 9), mode=mode).to(dtype)
    assert ad.equal(result, wanted)


def test_former_names() -> None:
    x = image(1, 1, 3, 4)
    assert ad.equal(F.upsample(x, scale_factor=2), F.interpolate(x, scale_factor=2))
    assert ad.equal(F.upsample_nearest(x, 6), F.interpolate(x, size=6))
    aligned = F.interpolate(x, size=(5, 5), mode="bilinear", align_corners=True)
    assert ad.equal(F.upsample_bilinear(x, (5, 5)), aligned)


# --- grids ---------------------------------------------------------------------------------------

PLANE = {  # at (v, 0), (0, v) and (v, v) in 1 … 12, as PyTorch gives them
    (NAN, "bilinear", "zeros"): [NAN, NAN, NAN],
    (NAN, "nearest", "zeros"): [0, 0, 0],
    (INF, "bicubic", "zeros"): [NAN, NAN, NAN],
    (1e10, "bilinear", "zeros"): [0, 0, 0],
    (NAN, "bilinear", "border"): [5, 2.5, 1],
    (INF, "bilinear", "border"): [8, 10.5, 12],
    (-INF, "bilinear", "border"): [5, 2.5, 1],
    (INF, "bicubic", "border"): [NAN, NAN, NAN],
    (NAN, "nearest", "reflection"): [5, 3, 1],
    (INF, "bilinear", "reflection"): [5, 2.5, 1],
}
SPACE = {
    (NAN, "bilinear", "zeros"): [0, 0, 0],
    (NAN, "bilinear", "border"): [8, 10.5, 12],
    (-INF, "bilinear", "border"): [5, 2.5, 1],
    (INF, "nearest", "reflection"): [8, 11, 12],
}


@pytest.mark.parametrize("decomposed", [False, True])
@pytest.mark.parametrize(("dims", "case"), [(2, c) for c in PLANE] + [(3, c) for c in SPACE])
def test_places_that_are_not_finite(dims: int, case: Any, decomposed: bool) -> None:
    value, mode, padding = case
    x = ad.arange(1.0, 13.0).reshape(*(1,) * dims, 3, 4)
    grid = np.zeros((*(1,) * dims, 3, dims), np.float32)
    grid[..., 0, 0] = grid[..., 1, 1] = grid[..., 2, :] = value

    def sample(x: ad.Tensor, grid: ad.Tensor) -> ad.Tensor:
        return F.grid_sample(x, grid, mode, padding, align_corners=False)

    args = (x, ad.from_numpy(grid))
    run = ad.decompose(ad.trace(sample, *args)) if decomposed else sample
    wanted = (PLANE if dims == 2 else SPACE)[case]
    assert np.array_equal(run(*args).numpy().ravel(), np.array(wanted, np.float32), equal_nan=True)


@pytest.mark.parametrize("padding", ["zeros", "border"])
def test_an_infinite_element_does_not_reach_places_outside(padding: str) -> None:
    x = ad.ones(1, 1, 3, 3)
    x[0, 0, 0, 0] = INF
    grid = ad.tensor([[[[0.9, 0.9], [3.0, 3.0]]]])
    assert bool(F.grid_sample(x, grid, padding_mode=padding, align_corners=False).isfinite().all())


@pytest.mark.parametrize("batched", [(0, None), (None, 0), (0, 0)])
def test_grids_under_vmap_are_one_call(batched: tuple[int | None, int | None]) -> None:
    x, grid = image(3, 2, 2, 4, 3), places(3, 2, 2, 5, 2)
    args = (x if batched[0] == 0 else x[0], grid if batched[1] == 0 else grid[0])

    def sample(x: ad.Tensor, grid: ad.Tensor) -> ad.Tensor:
        return F.grid_sample(x, grid, align_corners=False)

    graph = ad.trace(ad.vmap(sample, batched), *args)
    assert str(graph).count("ops._grid_sample.") == 1
    wanted = ad.stack([
        sample(x[i] if batched[0] == 0 else x[0], grid[i] if batched[1] == 0 else grid[0])
        for i in range(3)
    ])  # fmt: skip
    assert ad.allclose(ad.vmap(sample, batched)(*args), wanted)


@pytest.mark.parametrize("dtype", [ad.float32, ad.float64])
@pytest.mark.parametrize("mode", ["bilinear", "nearest", "bicubic"])
def test_native_sampling_is_that_of_numpy(
    mode: str, dtype: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also for more places than one thread does, and images that lie otherwise."""
    x = image(5, 2, 6, 4).to(dtype).transpose(2, 3).requires_grad_()
    grid = places(5, 40, 30, 2).to(dtype).requires_grad_()

    def both() -> list[ad.Tensor]:
        result = F.grid_sample(x, grid, mode, align_corners=False)
        return [result, *ad.autograd.grad(result.square().sum(), (x, grid))]

    found = both()
    for name in ("sample", "spread", "products"):
        monkeypatch.setattr(native, name, lambda *_: None)
    for one, other in zip(found, both(), strict=True):
        assert ad.allclose(one, other, rtol=1e-4, atol=1e-3 if dtype is ad.float32 else 1e-12)


# --- compiled ------------------------------------------------------------------------------------

# --- errors --------------------------------------------------------------------------------------

WRONG: dict[str, tuple[Callable[[], Any], type[Exception], str]] = {
    "unknown mode": (
        lambda: F.interpolate(image(1, 1, 2, 2), 3, mode="cubic"), ValueRangeError, "there are",
    ),
    "corners of nearest": (
        lambda: F.interpolate(image(1, 1, 2, 2), 3, align_corners=True),
        ValueRangeError, "align_corners can only",
    ),
    "size and factor": (
        lambda: F.interpolate(image(1, 1, 2, 2), 3, 2.0), ValueRangeError, "one of the two",
    ),
    "neither": (lambda: F.interpolate(image(1, 1, 2, 2)), ValueRangeError, "one of the two"),
    "too many sizes": (
        lambda: F.interpolate(image(1, 1, 2, 2), (3, 3, 3)), ShapeError, "needs 2 numbers",
    ),
    "a fraction as size": (
        lambda: F.interpolate(image(1, 1, 2, 2), (3, 2.5)), ArgumentError, "whole",
    ),
    "no factor to compute": (
        lambda: F.interpolate(image(1, 1, 2, 2), 3, recompute_scale_factor=True),
        ValueRangeError, "no factor",
    ),
    "bilinear of vectors": (
        lambda: F.interpolate(image(1, 1, 2), 3, mode="bilinear"), ShapeError, "4 dimensions",
    ),
    "two dimensions": (lambda: F.interpolate(image(2, 2), 3), ShapeError, "3 or 4 or 5"),
    "antialias of nearest": (
        lambda: F.interpolate(image(1, 1, 2, 2), 3, antialias=True), ValueRangeError, "antialias",
    ),
    "lanczos without antialias": (
        lambda: F.interpolate(image(1, 1, 2, 2), 3, mode="lanczos"), ValueRangeError, "antialias",
    ),
    "nothing left": (
        lambda: F.interpolate(image(1, 1, 2, 2), scale_factor=0.1), ShapeError, "greater than 0",
    ),
    "nothing there": (
        lambda: F.interpolate(image(1, 0, 2, 2), 3), ShapeError, "greater than 0",
    ),
    "integers mixed": (
        lambda: F.interpolate(ad.ones(1, 1, 2, dtype=ad.int64), 3, mode="linear"),
        DtypeError, "mixes neighbours",
    ),
    "gradient of another size": (
        lambda: ad.ops.upsample_nearest1d_backward(image(1, 1, 3), (4,), (1, 1, 2)),
        ShapeError, "grad_output must have",
    ),
    "both to an operator": (
        lambda: ad.ops.upsample_nearest2d.vec(image(1, 1, 2, 2), (2, 2), (1.0, 1.0)),
        ValueRangeError, "exactly one",
    ),
    "mode of a grid": (
        lambda: F.grid_sample(image(1, 1, 2, 2), places(1, 1, 1, 2), "area"),
        ValueRangeError, "there are",
    ),
    "padding of a grid": (
        lambda: F.grid_sample(image(1, 1, 2, 2), places(1, 1, 1, 2), padding_mode="wrap"),
        ValueRangeError, "there are",
    ),
    "coordinates": (
        lambda: F.grid_sample(image(1, 1, 2, 2), places(1, 1, 1, 3)), ShapeError, "2 coordinates",
    ),
    "batches": (
        lambda: F.grid_sample(image(1, 1, 2, 2), places(2, 1, 1, 2)), ShapeError, "batch size",
    ),
    "dtypes": (
        lambda: F.grid_sample(image(1, 1, 2, 2), ad.zeros(1, 1, 1, 2)), DtypeError, "one dtype",
    ),
    "nothing to sample": (
        lambda: F.grid_sample(image(1, 1, 0, 2), places(1, 1, 1, 2)), ShapeError, "nothing",
    ),
    "bicubic volumes": (
        lambda: F.grid_sample(image(1, 1, 2, 2, 2), places(1, 1, 1, 1, 3), "bicubic"),
        ValueRangeError, "bicubic",
    ),
    "maps of another size": (
        lambda: F.affine_grid(image(1, 2, 3), (1, 1, 2, 2, 2)), ShapeError, "needs maps",
    ),
    "maps of integers": (
        lambda: F.affine_grid(ad.ones(1, 2, 3, dtype=ad.int64), (1, 1, 2, 2)),
        DtypeError, "floating point",
    ),
    "channels": (lambda: ad.pixel_shuffle(image(3, 2, 2), 2), ShapeError, "multiple of 4"),
    "height": (lambda: ad.pixel_unshuffle(image(1, 3, 2), 2), ShapeError, "multiple of 2"),
    "factor 0": (lambda: ad.pixel_shuffle(image(4, 2, 2), 0), ValueRangeError, "greater than 0"),
    "groups": (lambda: F.channel_shuffle(image(1, 3, 2), 2), ShapeError, "multiple of 2"),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_what_cannot_be_says_so(name: str) -> None:
    call, kind, said = WRONG[name]
    with pytest.raises(kind, match=said):
        call()


@pytest.mark.parametrize("mode", ["nearest", "bilinear", "bicubic"])
def test_channels_last_is_kept_of_a_part_of_an_image(mode: str) -> None:
    x = ad.arange(2 * 3 * 9 * 9).reshape(2, 3, 9, 9).to(ad.uint8)
    part = x.to(memory_format=ad.channels_last)[:, :, 1:-1, 1:-1]
    found = F.interpolate(part, (4, 12), mode=mode)
    assert found.is_contiguous(memory_format=ad.channels_last)
    assert ad.equal(found, F.interpolate(part.contiguous(), (4, 12), mode=mode))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("inner", [1, 37])
@pytest.mark.parametrize(("mode", "wanted"), [("linear", 100), ("linear", 20), ("cubic", 9)])
def test_products_along_a_dimension_are_those_of_the_matrix(
    mode: str, wanted: int, inner: int, dtype: Any
) -> None:
    """Native code, where a row of the matrix may have no entry."""
    kind = np.dtype(dtype).char
    matrix = axes._matrix(45, wanted, mode, False, wanted / 45, kind, True)
    x = np.random.default_rng(0).standard_normal((600, matrix.rows.shape[1], inner)).astype(dtype)
    found = native.along(*matrix.entries, x)
    if found is None:
        pytest.skip("needs a C compiler")
    expected = np.einsum("rk,okc->orc", matrix.rows.toarray(), x)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
