"""Native sorting, ranks and quantiles are those of NumPy's stable sort, for all elements."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from adjoint.c_kernels import loading, sorting
from adjoint.core.c_types import KINDS
from adjoint.kernels.sorting import order, quantiles, select

pytestmark = pytest.mark.skipif(
    loading.function("sorting", "sort", np.float32) is None, reason="needs a C compiler"
)

LENGTHS = (1, 2, 5, 31, 129, 1000, 5000, 70_000)


@pytest.fixture(autouse=True)
def small_arrays_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sorting, "LARGE", 1)
    for dtype, kind in KINDS.items():
        for name in ("sort", "top", "choose", "quantiles"):
            if name != "quantiles" or dtype.kind == "f":
                assert loading.routine("sorting", name, kind) is not None  # built, not in a moment


def rows(n: int) -> dict[str, Any]:
    """Rows that sort well and badly."""
    draw = np.random.default_rng(n)
    x, holes = draw.standard_normal(n), draw.uniform(size=n) < 0.1
    near = 1 + 1e-15 * draw.integers(0, 50_000, n)  # the same but for the last bits of their keys
    return {
        "normal": x,
        "float32": x.astype(np.float32),
        "rounded": np.round(x, 1),
        "sorted": np.sort(x),
        "reversed": np.sort(x)[::-1].copy(),
        "few": draw.integers(-5, 5, n),
        "wide": draw.integers(-(2**62), 2**62, n),
        "bytes": draw.integers(0, 200, n).astype(np.uint8),
        "short": draw.integers(-200, 200, n).astype(np.int16),
        "zeros": np.where(holes, -0.0, 0.0),
        "near": near,
        "near and far": np.append(near[1:], 1e300),
        "infinite": np.where(holes, -np.inf, np.inf),
        "nan": np.where(holes, np.nan, x),
        "nan in float32": np.where(holes, np.nan, x).astype(np.float32),
        "all nan": np.full(n, np.nan),
    }


NAMES = list(rows(2))


def without_native(monkeypatch: pytest.MonkeyPatch, run: Any, *arguments: Any) -> Any:
    with monkeypatch.context() as patch, np.errstate(all="ignore"):
        patch.setattr(sorting, "LARGE", 1 << 60)
        return run(*arguments)


def assert_same(found: Sequence[Any] | None, expected: Sequence[Any]) -> None:
    assert found is not None
    for ours, wanted in zip(found, expected, strict=True):
        assert ours.dtype == wanted.dtype
        np.testing.assert_array_equal(ours, wanted)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("n", LENGTHS)
def test_sorting_is_stable_with_nan_last(n: int, name: str, monkeypatch: Any) -> None:
    x = rows(n)[name]
    for descending in (False, True):
        expected = without_native(monkeypatch, order.sort, x, 0, descending)
        assert_same(sorting.ordered(x, 0, descending=descending), expected)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("n", LENGTHS)
def test_elements_of_a_rank_are_those_of_a_stable_sort(n: int, name: str, monkeypatch: Any) -> None:
    x = rows(n)[name]
    for k in {1, max(n // 7, 1), (n + 1) // 2, min(n, 300), n}:
        expected = without_native(monkeypatch, select.kthvalue, x, k, 0, False)
        assert_same(sorting.choose(x, 0, k - 1), expected)
        for largest in (False, True):
            expected = without_native(monkeypatch, select.topk, x, k, 0, largest, True)
            assert_same(sorting.top(x, 0, k, largest=largest), expected)
    ranks = {sorting.MEDIAN: select.median, sorting.MODE: select.mode}
    for rank, kernel in {**ranks, sorting.MEDIAN_OF_NUMBERS: select.nanmedian}.items():
        assert_same(sorting.choose(x, 0, rank), without_native(monkeypatch, kernel, x, 0, False))


@pytest.mark.parametrize("name", [n for n in NAMES if rows(2)[n].dtype.kind == "f"])
@pytest.mark.parametrize("n", LENGTHS)
def test_quantiles_are_those_of_a_sort(n: int, name: str, monkeypatch: Any) -> None:
    x = rows(n)[name]
    few, many = np.array([0.3, 1.0], x.dtype), np.linspace(0, 1, 7, dtype=x.dtype)
    for q in (few, many):
        for how in sorting.BETWEEN:
            for kernel, ignore_nan in ((quantiles.quantile, False), (quantiles.nanquantile, True)):
                found = sorting.quantiles(x, q, how, ignore_nan=ignore_nan)
                expected = without_native(monkeypatch, kernel, x, q, 0, False, how)
                assert found is not None
                np.testing.assert_allclose(found, expected, rtol=4 * np.finfo(x.dtype).eps)


def test_lines_along_any_axis_are_sorted_and_chosen_from(monkeypatch: Any) -> None:
    x = np.random.default_rng(0).integers(0, 50, (7, 40, 6)).astype(np.float64)
    for axis in range(3):
        expected = without_native(monkeypatch, order.sort, x, axis, False)
        assert_same(sorting.ordered(x, axis, descending=False), expected)
        expected = without_native(monkeypatch, select.topk, x, 4, axis, True, True)
        assert_same(sorting.top(x, axis, 4, largest=True), expected)
        expected = without_native(monkeypatch, select.kthvalue, x, 3, axis, False)
        assert_same(sorting.choose(x, axis, 2), expected)


def test_a_quantile_outside_of_0_to_1_is_left_to_the_kernel() -> None:
    for q in (-0.1, 1.1, np.nan):
        assert sorting.quantiles(np.ones(50), np.array([q]), "linear", ignore_nan=False) is None
