"""Reductions in C give what NumPy's give, whatever the number of threads."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import adjoint as ad
from adjoint.c_kernels import loading, reduction
from adjoint.kernels.reduction import large, sums

pytestmark = pytest.mark.skipif(
    loading.function("reduction", "reduce", np.float32) is None, reason="needs a C compiler"
)

SHAPES = [
    (1, 200_000, 1), (300, 7, 1), (3, 4097, 1), (1, 2000, 256), (2, 100, 700), (5, 3, 2),
    (40, 1, 9), (3, 64, 3), (1, 640, 5), (2, 70, 1100), (1, 65, 1),
]  # fmt: skip


@pytest.fixture(autouse=True)
def small_arrays_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reduction, "LARGE", 1)


def draw(shape: tuple[int, ...], dtype: Any) -> Any:
    """Numbers near 1 or -1: their products are neither large nor small."""
    generator = np.random.default_rng(0)
    sign = generator.choice([-1, 1], shape)
    return (sign * (1 + 1e-3 * generator.standard_normal(shape))).astype(dtype)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("shape", SHAPES)
def test_every_kind_over_every_shape(shape: tuple[int, ...], dtype: Any) -> None:
    x = draw(shape, dtype)
    wide = x.astype(np.longdouble)
    eps = np.finfo(dtype).eps
    expected = {kind: ufunc.reduce(wide, axis=1) for ufunc, kind in reduction.OF_UFUNC.items()}
    expected |= {
        reduction.SQUARES: (wide * wide).sum(1), reduction.SIZES: np.abs(wide).sum(1),
    }  # fmt: skip
    scale = np.abs(wide).sum(1).max()
    for kind, value in expected.items():
        found = reduction.reduce(kind, x)
        assert found is not None
        assert found.dtype == dtype
        exact = kind in (reduction.LARGEST, reduction.SMALLEST)
        np.testing.assert_allclose(found, value, rtol=0, atol=0 if exact else 8 * eps * scale)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_rows_may_end_anywhere_in_a_vector(dtype: Any) -> None:
    for count in (*range(1, 150), 1024, 1025, 1040, 4096, 4097, 4111, 4112, 8193):
        x = np.ones((3, count + 1), dtype)[:, 1:].copy()
        x[:, -1] = [2, -3, np.nan]
        whole = x.reshape(3, count, 1)
        rest = count - 1
        for kind, two, three in (
            (reduction.SUM, rest + 2, rest - 3),
            (reduction.PRODUCT, 2, -3),
            (reduction.SQUARES, rest + 4, rest + 9),
            (reduction.SIZES, rest + 2, rest + 3),
        ):
            found = reduction.reduce(kind, whole)
            assert found is not None
            np.testing.assert_array_equal(found[:, 0], [two, three, np.nan])


@pytest.mark.parametrize("shape", [(3, 1200, 1), (2, 70, 1100), (1, 64, 20)])
def test_products_leave_the_range_of_their_type_on_the_way(shape: tuple[int, ...]) -> None:
    x = np.ones(shape, np.float32)
    x[:, : shape[1] // 2], x[:, shape[1] // 2 :] = 1e30, 1e-30
    middle = shape[1] // 2
    x[:, : middle - 8], x[:, middle + 8 :] = 1, 1  # eight numbers are large, and eight small
    found = reduction.reduce(reduction.PRODUCT, x)
    assert found is not None
    np.testing.assert_allclose(found, 1, rtol=1e-5)


@pytest.mark.parametrize("shape", SHAPES)
def test_infinities_and_nan_are_kept(shape: tuple[int, ...]) -> None:
    x = draw(shape, np.float64)
    x[..., -1] = np.inf
    x[0, shape[1] // 2, 0] = np.nan
    for ufunc, kind in reduction.OF_UFUNC.items():
        with np.errstate(all="ignore"):
            expected = ufunc.reduce(x, axis=1)
        found = reduction.reduce(kind, x)
        assert found is not None
        np.testing.assert_array_equal(np.isnan(found), np.isnan(expected))
        odd = ~np.isfinite(expected)
        np.testing.assert_array_equal(found[odd], expected[odd])


@pytest.mark.parametrize("dim", [0, 1, 2, (0, 2), (1, 2), (0, 1, 2), (0, 1)])
@pytest.mark.parametrize("ufunc", [np.add, np.maximum, np.multiply])
def test_dimensions_that_are_no_neighbours(ufunc: Any, dim: Any) -> None:
    x = draw((30, 20, 25), np.float64)
    axes = dim if isinstance(dim, tuple) else (dim,)
    for keepdims in (False, True):
        for array in (x, x.T, x[:, ::2]):
            found = large.reduce(ufunc, array, axes, keepdims)
            expected = ufunc.reduce(array, axis=axes, keepdims=keepdims)
            assert found.shape == expected.shape
            np.testing.assert_allclose(found, expected, rtol=1e-11, atol=1e-10)


@pytest.mark.parametrize("dim", [None, 0, 1, 2, (0, 1), (1, 2), (0, 2)])
@pytest.mark.parametrize("p", [1, 2])
def test_norms_are_one_pass(p: int, dim: Any) -> None:
    x = draw((30, 20, 25), np.float64)
    axes = tuple(range(3)) if dim is None else dim
    for keepdim in (False, True):
        found = ad.linalg.vector_norm(ad.tensor(x), p, dim, keepdim)
        expected = (np.abs(x) ** p).sum(axes, keepdims=keepdim) ** (1 / p)
        np.testing.assert_allclose(found, expected, rtol=1e-13)


@pytest.mark.parametrize("dtype", [np.bool_, np.uint8, np.int8, np.int16, np.int32, np.int64])
@pytest.mark.parametrize("shape", [(70000,), (300, 31), (5001, 3), (3, 500), (7, 5, 1, 6, 3)])
def test_whole_numbers_are_added_in_64_bits(shape: tuple[int, ...], dtype: Any) -> None:
    limits = (0, 2) if dtype is np.bool_ else (np.iinfo(dtype).min, np.iinfo(dtype).max)
    whole = np.random.default_rng(0).integers(*limits, shape, dtype=np.int64).astype(dtype)
    for x in (whole, whole.T, whole[::2], whole[..., 1:], np.swapaxes(whole, 0, -1)):
        for count in range(1, x.ndim + 1):
            for axes in itertools.combinations(range(x.ndim), count):
                for keepdim in (False, True):
                    expected = x.sum(axis=axes, dtype=np.int64, keepdims=keepdim)
                    found = sums.sum_dims(x, axes, keepdim, None)
                    assert found.dtype == np.int64
                    np.testing.assert_array_equal(found, expected)


def test_floats_are_added_however_they_lie() -> None:
    whole = draw((6, 50, 1, 40, 3), np.float64)
    for x in (whole, whole.T, whole[::2], whole[..., 1:], whole[:, ::-1], whole.swapaxes(1, 3)):
        for count in range(1, x.ndim + 1):
            for axes in itertools.combinations(range(x.ndim), count):
                for keepdim in (False, True):
                    found = large.reduce(np.add, x, axes, keepdim)
                    expected = np.add.reduce(x, axis=axes, keepdims=keepdim)
                    assert found.shape == expected.shape
                    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-11)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("count", [1, 15, 64, 4099, 70_001])
def test_products_of_vectors_are_added(count: int, dtype: Any, monkeypatch: Any) -> None:
    monkeypatch.setattr(reduction, "LARGE_DOT", 1)
    x, y = draw((count,), dtype), draw((count + 1,), dtype)[1:].copy()
    found = reduction.dot(x, y)
    assert found is not None
    expected = (x.astype(np.longdouble) * y).sum()
    np.testing.assert_allclose(found, expected, rtol=0, atol=4 * np.finfo(dtype).eps * count)
    assert reduction.dot(x, y[:-1]) is None


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("dim", [None, 0, 1, (0, 1)])
def test_sums_of_what_is_not_nan(dim: Any, dtype: Any) -> None:
    x = np.random.default_rng(0).standard_normal((83, 97)).astype(dtype)
    x[::3, ::5] = np.nan
    t = ad.tensor(x)
    for one, own in ((t, x), (ad.tensor(np.asfortranarray(x)), x)):
        np.testing.assert_allclose(one.nansum(dim), np.nansum(own, dim), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("dim", [None, 0, 1, 2, (0, 1), (1, 2), (0, 2), -3])
def test_sums_of_complex_numbers_are_those_of_their_parts(dim: Any) -> None:
    draw = np.random.default_rng(0)
    z = draw.standard_normal((30, 40, 50)) + 1j * draw.standard_normal((30, 40, 50))
    found, wanted = ad.tensor(z).sum(dim), z.sum(dim)
    assert found.shape == wanted.shape
    np.testing.assert_allclose(found, wanted, rtol=1e-12, atol=1e-11)


@pytest.mark.parametrize("dtype", [np.complex64, np.complex128])
@pytest.mark.parametrize("count", [1, 2, 3, 15, 17, 4095, 5000, 70_001])
def test_complex_numbers_are_added_part_by_part(count: int, dtype: Any) -> None:
    rng = np.random.default_rng(count)
    z = (rng.standard_normal(count) + 1j * rng.standard_normal(count)).astype(dtype)
    exact = z.astype(np.clongdouble).sum()
    found = reduction.sum_of_complex(z)
    assert found is not None
    assert abs(found - exact) <= 4 * np.finfo(dtype).eps * np.abs(z).sum()
    z[count // 2] = complex(np.nan, 1)
    odd = reduction.sum_of_complex(z)
    assert odd is not None
    assert np.isnan(odd.real)
    assert np.isfinite(odd.imag)
