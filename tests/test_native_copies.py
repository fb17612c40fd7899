"""Rows joined and triangles kept by C code are what NumPy gives."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from adjoint.kernels.shape import copies as kernels_of_copies
from adjoint.native import copies, kernels

pytestmark = pytest.mark.skipif(
    kernels.function("copies", "join", np.float32) is None, reason="needs a C compiler"
)


@pytest.fixture(autouse=True)
def small_arrays_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(copies, "LARGE", 1)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64, np.int32])
@pytest.mark.parametrize("dim", [1, -1, -2])
def test_rows_are_joined(dtype: Any, dim: int) -> None:
    parts = [np.arange(3 * n * m).reshape(3, n, m).astype(dtype) for n, m in SIZES[dim]]
    found = copies.joined(parts, dim)
    assert found is not None
    np.testing.assert_array_equal(found, np.concatenate(parts, dim))


SIZES = {1: [(4, 20), (1, 20), (7, 20)], -2: [(4, 20), (2, 20)], -1: [(4, 20), (4, 16), (4, 33)]}


def test_what_does_not_fit_is_left_to_numpy() -> None:
    x = np.ones((30, 20), np.float32)
    for other, dim in ((x[:29], 1), (x[0], 1), (x[None], 1), (x.T, 1), (x, 0), (x, 2), (x, -3)):
        assert copies.joined([x, other], dim) is None
    assert copies.joined([x, x.astype(np.float64)], 1) is None
    assert copies.joined([x[:, :15].copy(), x], 1) is None  # too narrow
    assert copies.triangle(x.T, 0, right=True) is None
    assert copies.triangle(x.astype(np.float16), 0, right=True) is None


@pytest.mark.parametrize("dtype", [np.float32, np.int64])
@pytest.mark.parametrize("shape", [(5, 7), (7, 5), (2, 3, 4, 4), (1, 6), (6, 1)])
def test_triangles(shape: tuple[int, ...], dtype: Any) -> None:
    x = np.arange(1, 1 + np.prod(shape)).reshape(shape).astype(dtype)
    for diagonal in (-100, -7, -2, -1, 0, 1, 3, 7, 100):
        np.testing.assert_array_equal(kernels_of_copies.tril(x, diagonal), np.tril(x, diagonal))
        np.testing.assert_array_equal(kernels_of_copies.triu(x, diagonal), np.triu(x, diagonal))
