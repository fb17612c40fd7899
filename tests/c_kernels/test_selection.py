"""Extreme elements in C are found where they first are."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from adjoint.c_kernels import loading, selection

pytestmark = pytest.mark.skipif(
    loading.function("selection", "extreme", np.float32) is None, reason="needs a C compiler"
)


@pytest.fixture(autouse=True)
def small_arrays_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(selection, "LARGE", 1)


@pytest.mark.parametrize("dtype", ["f4", "f8", "i8", "i4", "i2", "i1", "u1"])
@pytest.mark.parametrize(
    "shape", [(4000,), (70, 90), (3, 40, 300), (2000, 3), (3, 2000), (20, 2, 15)]
)
def test_extremes_are_where_they_first_are(shape: tuple[int, ...], dtype: Any) -> None:
    x = np.random.default_rng(0).integers(0, 120, shape).astype(dtype)
    if x.dtype.kind == "f":
        x.reshape(-1)[[5, 70, 71, x.size // 2]] = np.nan
    for axis in range(x.ndim):
        for largest in (False, True):
            found = selection.extreme(x, axis, largest=largest)
            assert found is not None
            values, places = found
            find, best = (np.argmax, np.max) if largest else (np.argmin, np.min)
            np.testing.assert_array_equal(places, find(x, axis=axis, keepdims=True))
            np.testing.assert_array_equal(values, best(x, axis=axis, keepdims=True))


@pytest.mark.parametrize("dtype", ["f4", "f8", "i8", "i4", "i2", "i1", "u1"])
@pytest.mark.parametrize("count", [1, 2, 50, 5000])
def test_runs_are_those_of_neighbours_that_are_equal(count: int, dtype: Any) -> None:
    x = np.random.default_rng(0).integers(0, 3, count).astype(dtype)
    if x.dtype.kind == "f":
        x[x == 2] = np.nan
        x[::2] *= -1  # -0.0 equals 0.0, and the first of them stays
    found = selection.runs(x)
    assert found is not None
    expected = x[np.concatenate([[True], x[1:] != x[:-1]])]
    np.testing.assert_array_equal(found, expected)
    np.testing.assert_array_equal(np.signbit(found), np.signbit(expected))
