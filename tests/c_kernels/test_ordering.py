"""Searches, counts and running logarithms in C are those of NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import adjoint as ad
from adjoint.c_kernels import loading, ordering
from adjoint.kernels import scan
from adjoint.kernels.sorting import search

pytestmark = pytest.mark.skipif(
    loading.routine("ordering", "search", "float") is None, reason="needs a C compiler"
)


@pytest.fixture(autouse=True)
def small_arrays_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ordering, "LARGE", 1)


def both(monkeypatch: Any, compute: Any, *given: Any) -> tuple[Any, Any]:
    """A kernel's results by native code and without."""
    found = compute(*given)
    with monkeypatch.context() as patch:
        patch.setattr(ordering, "LARGE", 1 << 60)
        return found, compute(*given)


@pytest.mark.parametrize("dtype", ["f4", "f8", "i8", "i4", "i2", "i1", "u1"])
@pytest.mark.parametrize("right", [False, True])
@pytest.mark.parametrize("length", [1, 2, 7, 64, 1001])
def test_values_are_searched_for_as_numpy_does(
    length: int, right: bool, dtype: Any, monkeypatch: Any
) -> None:
    rng = np.random.default_rng(length)
    sequence = np.sort(rng.integers(0, 100, length).astype(dtype))
    for shape in ((1,), (5, 9), (16,), (10_001,)):
        values = rng.integers(0, 110, shape).astype(dtype)
        for one in (values, values[..., ::-1]):
            given = (sequence, one, False, right, None, None)
            found, expected = both(monkeypatch, search.searchsorted, *given)
            np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_rows_and_nan_are_searched_for_step_by_step(dtype: Any, monkeypatch: Any) -> None:
    rng = np.random.default_rng(0)
    rows = np.sort(rng.standard_normal((3, 4, 33)).astype(dtype), axis=-1)
    rows[1, 2, 20:] = np.nan
    rows[0, 0, :3] = -np.inf
    values = rng.standard_normal((3, 4, 50)).astype(dtype)
    values[..., :4] = [np.nan, np.inf, -np.inf, -0.0]
    for right in (False, True):
        given = (rows, values, True, right, None, None)
        found, expected = both(monkeypatch, search.searchsorted, *given)
        assert found.dtype == np.int32
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("bins", [1, 7, 100])
@pytest.mark.parametrize("ends", [(0, 0), (-1.0, 0.5), (3, 4)])
@pytest.mark.parametrize("shape", [(0,), (5,), (70_000,), (3, 41)])
def test_bins_are_counted_as_numpy_does(
    shape: Any, ends: Any, bins: int, dtype: Any, monkeypatch: Any
) -> None:
    x = np.round(np.random.default_rng(0).standard_normal(shape), 2).astype(dtype)
    for one in (x, x[..., ::-1], np.ones_like(x)):
        found, expected = both(monkeypatch, search.histc, one, bins, *ends)
        assert found.dtype == expected.dtype
        np.testing.assert_array_equal(found, expected)


def test_a_range_that_is_not_finite_is_refused() -> None:
    for odd in (np.nan, np.inf):
        x = ad.ones(50_000).index_fill(0, ad.tensor([40_000]), odd)
        with pytest.raises(ad.errors.ValueRangeError, match="not finite"):
            ad.histc(x, 10)
        assert ad.histc(x, 10, 0, 2).sum() == 49_999


@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("shape", [(1,), (40, 33), (3, 7, 19), (17, 1, 5), (2, 30_000)])
def test_running_logarithms_are_numpys(shape: Any, dtype: Any, monkeypatch: Any) -> None:
    x = (30 * np.random.default_rng(0).standard_normal(shape)).astype(dtype)
    odd = x.copy()
    odd.reshape(-1)[::5] = np.resize(
        [np.inf, -np.inf, np.nan, -np.inf, 1e38], odd.reshape(-1)[::5].shape
    )
    low = np.full(shape, -np.inf, dtype)
    for one in (x, odd, low, x[::-1], x.T.copy().T):
        for axis in range(one.ndim):
            found, expected = both(monkeypatch, scan.logcumsumexp, one, axis)
            tolerance = 16 * np.finfo(dtype).eps
            np.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance)
