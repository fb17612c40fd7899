"""Indices and distances in C give what NumPy's kernels give, and refuse what they refuse."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import adjoint as ad
from adjoint.c_kernels import distance, indexing, loading
from adjoint.kernels.linalg import least_squares

pytestmark = pytest.mark.skipif(
    loading.function("indexing", "gather", np.float32) is None, reason="needs a C compiler"
)

SHAPE, COUNT = (30, 20, 25), 17


def draw(shape: tuple[int, ...], dtype: Any, seed: int = 0) -> Any:
    return (10 * np.random.default_rng(seed).standard_normal(shape)).astype(dtype)


def indices(dim: int, seed: int = 3) -> Any:
    shape = (*SHAPE[:dim], COUNT, *SHAPE[dim + 1 :])
    return np.random.default_rng(seed).integers(0, SHAPE[dim], shape)


CALLS: dict[str, Callable[[Any, int, Any, Any], Any]] = {
    "gather": lambda x, dim, index, source: x.gather(dim, index),
    "scatter": lambda x, dim, index, source: x.scatter(dim, index, source),
    "scatter_add": lambda x, dim, index, source: x.scatter_add(dim, index, source),
    "index_select": lambda x, dim, index, source: x.index_select(dim, index.reshape(-1)[:40]),
    "index_add": lambda x, dim, index, source: x.index_add(
        dim, index.reshape(-1)[:COUNT], source
    ),
}  # fmt: skip


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64, np.int32, np.uint8])
@pytest.mark.parametrize("dim", [0, 1, 2])
@pytest.mark.parametrize("name", CALLS)
def test_native_code_moves_as_numpy_does(
    name: str, dim: int, dtype: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    index = indices(dim)
    given = ad.tensor(draw(SHAPE, dtype)), dim, ad.tensor(index)
    source = ad.tensor(draw(index.shape, dtype, 1))
    found = CALLS[name](*given, source)
    monkeypatch.setattr(indexing, "LARGE", 1 << 40)
    expected = CALLS[name](*given, source)
    assert found.dtype == expected.dtype
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-4 if "add" in name else 0)


@pytest.mark.parametrize("wrong", [-1, 1_000_000, -(2**62)])
@pytest.mark.parametrize("name", CALLS)
def test_wrong_indices_are_refused(name: str, wrong: int) -> None:
    x, index = ad.tensor(draw(SHAPE, np.float32)), indices(1)
    index[0, 0, 0] = wrong
    with pytest.raises(ad.errors.IndexOutOfRange, match=str(wrong)):
        CALLS[name](x, 1, ad.tensor(index), ad.tensor(draw(index.shape, np.float32)))


@pytest.mark.parametrize("dim", [0, 1, 2])
def test_gradients_add_up_at_repeated_indices(dim: int, monkeypatch: pytest.MonkeyPatch) -> None:
    def gradient() -> Any:
        x = ad.tensor(draw(SHAPE, np.float64), requires_grad=True)
        y = x.gather(dim, ad.tensor(indices(dim)))
        return ad.autograd.grad(y, x, ad.tensor(draw(y.shape, np.float64, 1)))[0]

    found = gradient()
    monkeypatch.setattr(indexing, "LARGE", 1 << 40)
    np.testing.assert_array_equal(found, gradient())


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("p", [1.0, 2.0, float("inf")])
@pytest.mark.parametrize("shape", [(130, 97, 33), (3, 64, 200), (70, 1, 65)])
def test_distances(shape: tuple[int, int, int], p: float, dtype: Any, monkeypatch: Any) -> None:
    a, b = draw((shape[0], shape[2]), dtype), draw((shape[1], shape[2]), dtype, 1)
    b[0] = a[1]
    monkeypatch.setattr(distance, "LARGE", 1)
    found = distance.distances(a, b, p)
    assert found is not None
    monkeypatch.setattr(distance, "LARGE", 1 << 40)
    expected = least_squares._distances(a, b, p)
    np.testing.assert_allclose(found, expected, rtol=30 * np.finfo(dtype).eps)
    assert found[1, 0] == 0
    a[2, 3] = np.nan
    monkeypatch.setattr(distance, "LARGE", 1)
    odd = distance.distances(a, b, p)
    assert odd is not None
    assert np.isnan(odd[2]).all()
    assert not np.isnan(odd[:2]).any()


def test_rows_of_the_identity() -> None:
    classes = np.random.default_rng(0).integers(0, 7, (5, 4))
    found = ad.nn.functional.one_hot(ad.tensor(classes), 7)
    np.testing.assert_array_equal(found, np.eye(7, dtype=np.int64)[classes])
