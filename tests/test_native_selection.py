"""The best elements of rows in C are those that come first in a stable sort."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from adjoint.native import kernels, selection

pytestmark = pytest.mark.skipif(
    kernels.function("selection", "top", np.float32) is None, reason="needs a C compiler"
)


@pytest.fixture(autouse=True)
def small_arrays_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(selection, "LARGE", 1)


@pytest.mark.parametrize("dtype", ["f4", "f8", "i8", "i4", "i2", "i1", "u1"])
@pytest.mark.parametrize("largest", [False, True])
@pytest.mark.parametrize("shape", [(1, 1), (5, 33), (40, 1000), (2, 3, 129)])
def test_the_best_are_the_first_of_a_stable_sort(
    shape: tuple[int, ...], largest: bool, dtype: Any
) -> None:
    x = np.random.default_rng(0).integers(0, 120, shape).astype(dtype)
    if x.dtype.kind == "f":
        x.reshape(-1)[::7] = -np.inf if largest else np.inf
    keys = -x.astype(np.float64) if largest else x.astype(np.float64)
    expected = np.argsort(keys, axis=-1, kind="stable")
    for rows in (x, np.asfortranarray(x)):
        for k in {1, 2, 10, 33, 128} & {*range(1, shape[-1] + 1)}:
            found = selection.top(rows, k, largest=largest)
            if found is None:  # not dense, and too small for a copy
                assert not rows.flags.c_contiguous
                continue
            np.testing.assert_array_equal(found, expected[..., :k])


def test_nan_and_many_are_left_to_a_sort() -> None:
    x = np.ones((3, 300), np.float32)
    assert selection.top(x, 129, largest=True) is None
    assert selection.top(x[:, :5].copy(), 6, largest=True) is None
    x[1, 200] = np.nan
    assert selection.top(x, 4, largest=True) is None
