"""Softmax, layer normalisation and running totals of rows in C give what NumPy's kernels give."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from adjoint.c_kernels import loading, rows
from adjoint.kernels import normalization, scan

pytestmark = pytest.mark.skipif(
    loading.function("rows", "layer", np.float32) is None, reason="needs a C compiler"
)

SHAPES = [(70, 60), (3, 2000), (5000, 1), (4, 7, 200)]


@pytest.fixture(autouse=True)
def small_arrays_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rows, "LARGE", 1)


def draw(shape: tuple[int, ...], dtype: Any, seed: int = 0) -> Any:
    return (3 * np.random.default_rng(seed).standard_normal(shape)).astype(dtype)


def close(found: Any, expected: Any) -> None:
    eps = np.finfo(found.dtype).eps
    np.testing.assert_allclose(found, expected, rtol=100 * eps, atol=30 * eps)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("logarithm", [False, True])
def test_softmax_along_every_axis(shape: tuple[int, ...], dtype: Any, logarithm: bool) -> None:
    x, g = draw(shape, dtype), draw(shape, dtype, 1)
    for axis in range(len(shape)):
        wide = x.astype(np.longdouble)
        wide = wide - wide.max(axis, keepdims=True)
        expected = np.exp(wide) / np.exp(wide).sum(axis, keepdims=True)
        found = rows.softmax(x, axis, logarithm=logarithm)
        close(found, np.log(expected) if logarithm else expected)
        back = rows.softmax_back(g, found, axis, x if logarithm else None)
        if logarithm:
            close(back, g - expected * g.astype(np.longdouble).sum(axis, keepdims=True))
        else:
            close(back, expected * (g - (expected * g).sum(axis, keepdims=True)))


def test_softmax_of_infinities_and_nan() -> None:
    x = draw((5, 40), np.float64)
    x[0, 3], x[1, 4], x[2], x[3, :20] = np.nan, np.inf, -np.inf, -np.inf
    for logarithm, axis in itertools.product((False, True), (0, 1)):
        found = rows.softmax(x if axis else x.T.copy(), axis, logarithm=logarithm)
        assert found is not None
        found = found if axis else found.T
        assert np.isnan(found[:3]).all()
        assert not np.isnan(found[3:]).any()
        assert (found[3, :20] == (-np.inf if logarithm else 0)).all()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("affine", ["none", "weight", "bias", "both"])
def test_layer_norm_of_rows(dtype: Any, affine: str) -> None:
    x, g = draw((70, 99), dtype) + dtype(5), draw((70, 99), dtype, 1)
    weight = draw((99,), dtype, 2) if affine in ("weight", "both") else None
    bias = draw((99,), dtype, 3) if affine in ("bias", "both") else None
    found = rows.layer_norm(x, weight, bias, 1e-5)
    assert found is not None
    eps = np.finfo(dtype).eps
    for one, other in zip(found, normalization._layer_norm(x, weight, bias, 1e-5), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e3 * eps, atol=1e2 * eps)
    for whole in (False, True):
        back = rows.layer_norm_back(g, x, weight, *found[1:], affine=whole)
        plain = normalization._layer_norm_back(g, x, weight, *found[1:], affine=whole)
        assert back is not None
        for one, other in zip(back, plain, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e3 * eps, atol=1e2 * eps)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("product", [False, True])
@pytest.mark.parametrize(("shape", "axis"), [((4000,), 0), ((3, 50, 300), 1), ((20, 7), 0)])
def test_running_totals(
    shape: tuple[int, ...], axis: int, product: bool, reverse: bool, dtype: Any
) -> None:
    x = 1 + draw(shape, dtype) / dtype(300)
    found = rows.running(x, axis, product=product, reverse=reverse)
    wide = np.flip(x.astype(np.float64), axis) if reverse else x.astype(np.float64)
    expected = (np.multiply if product else np.add).accumulate(wide, axis)
    expected = np.flip(expected, axis) if reverse else expected
    assert found is not None
    np.testing.assert_allclose(found, expected, rtol=1e-6 if dtype == np.float32 else 1e-12)


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("rows_", [1, 7, 8, 83])
def test_running_totals_of_rows_do_not_depend_on_how_they_lie(rows_: int, reverse: bool) -> None:
    """Several rows go on at once; a row alone, and one whose elements lie apart, give the same."""
    x = draw((rows_, 4099), np.float32)
    found = rows.running(x, 1, product=False, reverse=reverse)
    assert found is not None
    turned = rows.running(np.asfortranarray(x), 1, product=False, reverse=reverse)
    np.testing.assert_array_equal(found, turned)
    for row, own in zip(x, found, strict=True):
        np.testing.assert_array_equal(rows.running(row, 0, product=False, reverse=reverse), own)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("least", [False, True])
@pytest.mark.parametrize(("shape", "axis"), [((4000,), 0), ((3, 50, 300), 1), ((20, 7), 0)])
def test_running_extremes(
    shape: tuple[int, ...], axis: int, least: bool, dtype: Any, monkeypatch: Any
) -> None:
    """Of equal elements the latest counts, and NaN wins from where it stands."""
    x = np.round(draw(shape, dtype))
    x.reshape(-1)[[3, 5, x.size // 2]] = np.nan
    found = rows.extremes(x, axis, least=least)
    assert found is not None
    monkeypatch.setattr(rows, "LARGE", 1 << 40)
    for one, other in zip(found, (scan.cummin if least else scan.cummax)(x, axis), strict=True):
        np.testing.assert_array_equal(one, other)


def test_other_layouts_are_left_to_numpy() -> None:
    x = draw((40, 50), np.float64)
    assert rows.softmax(x.T, 1, logarithm=False) is None
    assert rows.softmax(x.astype(np.float16), 1, logarithm=False) is None
    assert rows.softmax_back(x[:1], x, 1) is None
    assert rows.layer_norm(x, np.ones(50, np.float32), None, 1e-5) is None
