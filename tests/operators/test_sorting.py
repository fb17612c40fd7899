"""Sorting, order statistics, distinct values and counting, where the laws' samples do not reach."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest

import adjoint as ad
from adjoint.core.errors import DependsOnValues, DtypeError

NAN = float("nan")
INF = float("inf")


def reference_order(x: Any, descending: bool) -> Any:
    """The stable order by Python's own sort; NaN is the greatest."""
    key = [(bool(v != v), 0 if v != v else v) for v in x.tolist()]
    if not descending:
        return sorted(range(len(key)), key=lambda i: key[i])
    flipped = sorted(range(len(key)), key=lambda i: key[len(key) - 1 - i])
    return [len(key) - 1 - i for i in reversed(flipped)]


def numbers(dtype: str, size: int, seed: int = 0) -> Any:
    generator = np.random.default_rng(seed)
    if dtype == "bool":
        return generator.integers(0, 2, size).astype(dtype)
    wide = generator.integers(-120 if dtype != "uint8" else 0, 120, size)
    x = wide.astype(dtype)
    if x.dtype.kind == "f":
        x[::3] = generator.standard_normal(x[::3].size)
        x[::7], x[1::11], x[2::13], x[3::17] = NAN, INF, -INF, -0.0
    return x


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("size", [1, 10, 100, 5000])
@pytest.mark.parametrize(
    "dtype", ["float64", "float32", "float16", "int64", "int32", "int8", "uint8", "bool"]
)
def test_sort_is_stable_and_has_nan_last(dtype: str, size: int, descending: bool) -> None:
    x = numbers(dtype, size)
    found = ad.from_numpy(x).sort(descending=descending)
    wanted = reference_order(x, descending)
    assert found.indices.tolist() == wanted
    np.testing.assert_array_equal(found.values.numpy(), x[wanted])
    assert ad.from_numpy(x).argsort(descending=descending).tolist() == wanted


@pytest.mark.parametrize("descending", [False, True])
def test_sort_of_long_rows_with_a_wide_range(descending: bool) -> None:
    generator = np.random.default_rng(1)
    limits = np.iinfo(np.int64)
    x = generator.integers(limits.min, limits.max, (2, 5000))
    x[:, ::5] = x[:, 1::5]
    found = ad.from_numpy(x).sort(descending=descending).indices
    assert found.tolist() == [reference_order(row, descending) for row in x]


def test_sort_of_bfloat16() -> None:
    x = ad.tensor([2.0, NAN, -1.0, 2.0], dtype=ad.bfloat16)
    assert x.sort().indices.tolist() == [2, 0, 3, 1]
    assert x.sort(descending=True).indices.tolist() == [1, 0, 3, 2]
    assert x.topk(2).indices.tolist() == [1, 0]
    assert x.sort().values.dtype is ad.bfloat16


def test_results_have_names() -> None:
    found = ad.tensor([3.0, 1.0]).sort()
    values, indices = found
    assert found.values is values
    assert found[1] is indices
    assert pickle.loads(pickle.dumps(found)).indices.tolist() == [1, 0]
    assert ad.vmap(lambda v: v.max(0).values)(ad.ones(2, 3)).shape == (2,)
    assert ad.jvp(lambda v: v.sort().values, (values,), (values,))[1].tolist() == [1.0, 3.0]


def test_sort_writes_to_out() -> None:
    values, indices = ad.empty(0), ad.empty(0, dtype=ad.int64)
    found = ad.sort(ad.tensor([3.0, 1.0]), out=(values, indices))
    assert found.values is values
    assert (values.tolist(), indices.tolist()) == ([1.0, 3.0], [1, 0])


def test_unique_complex_numbers_come_out_by_real_then_imaginary_part() -> None:
    x = ad.tensor([1 + 2j, 1j, 1 + 2j, 1 - 1j])
    values, inverse, counts = ad.unique(x, return_inverse=True, return_counts=True)
    assert values.tolist() == ad.unique(x).tolist() == [1j, 1 - 1j, 1 + 2j]
    assert inverse.tolist() == [2, 0, 2, 1]
    assert counts.tolist() == [1, 1, 2]


@pytest.mark.parametrize("name", ["sort", "argsort", "msort", "median", "nanmedian", "mode"])
def test_complex_numbers_have_no_order(name: str) -> None:
    with pytest.raises(DtypeError, match="complex"):
        getattr(ad.tensor([1j, 2.0]), name)()


@pytest.mark.parametrize("largest", [False, True])
@pytest.mark.parametrize(
    ("shape", "k"), [((7,), 3), ((100,), 5), ((4, 100), 7), ((9000,), 4), ((9000,), 2000)]
)
def test_topk_is_the_beginning_of_a_sort(shape: tuple[int, ...], k: int, largest: bool) -> None:
    generator = np.random.default_rng(2)
    for x in (generator.standard_normal(shape), generator.integers(0, 50, shape)):
        for nan in (False, True):
            if nan and x.dtype.kind == "f":
                x = np.where(generator.uniform(size=shape) < 0.01, NAN, x)
            found, ordered = (
                ad.from_numpy(x).topk(k, largest=largest),
                ad.from_numpy(x).sort(descending=largest),
            )
            np.testing.assert_array_equal(found.indices.numpy(), ordered.indices.numpy()[..., :k])
            np.testing.assert_array_equal(found.values.numpy(), ordered.values.numpy()[..., :k])


@pytest.mark.parametrize("size", [5, 100])
def test_kthvalue_is_an_element_of_a_sort(size: int) -> None:
    x = np.random.default_rng(3).integers(0, 20, (3, size)).astype(np.float64)
    for k in (1, 2, size // 2, size):
        found, ordered = ad.from_numpy(x).kthvalue(k), ad.from_numpy(x).sort()
        np.testing.assert_array_equal(found.indices.numpy(), ordered.indices.numpy()[:, k - 1])
        np.testing.assert_array_equal(found.values.numpy(), ordered.values.numpy()[:, k - 1])


def test_k_out_of_range() -> None:
    x = ad.ones(2, 3)
    for call in (
        lambda: x.topk(4),
        lambda: x.topk(-1),
        lambda: x.kthvalue(0),
        lambda: x.kthvalue(4),
    ):
        with pytest.raises(RuntimeError, match="out of range"):
            call()
    with pytest.raises(IndexError, match="size 0"):
        ad.ones(2, 0).kthvalue(1)


def test_median_of_nan_and_of_nothing() -> None:
    x = ad.tensor([[3.0, NAN, 1.0, 2.0], [4.0, 3.0, 2.0, 1.0]])
    assert x.median(1).indices.tolist() == [1, 2]
    assert x.nanmedian(1).values.tolist() == [2.0, 2.0]
    assert bool(x.median().isnan())
    assert x.nanmedian().item() == 2.0
    assert bool(ad.ones(0).median().isnan())
    with pytest.raises(RuntimeError, match="empty"):
        ad.ones(0, dtype=ad.int64).median()


def test_median_shares_its_gradient_among_equals() -> None:
    x = ad.tensor([1.0, 2.0, 2.0, 5.0, NAN], requires_grad=True)
    assert ad.autograd.grad(x.nanmedian(), x)[0].tolist() == [0.0, 0.5, 0.5, 0.0, 0.0]
    assert ad.vmap(ad.grad(lambda v: v.nanmedian()))(x.detach().unsqueeze(0)).tolist() == [
        [0.0, 0.5, 0.5, 0.0, 0.0]
    ]


def test_mode_is_the_least_of_the_most_frequent() -> None:
    x = ad.tensor([[2, 1, 2, 1, 3], [5, 4, 3, 2, 1]])
    found = x.mode(1)
    assert found.values.tolist() == [1, 1]
    assert found.indices.tolist() == [3, 4]
    assert ad.tensor([NAN, NAN, 1.0, 2.0]).mode().indices.item() == 0


@pytest.mark.parametrize("interpolation", ["linear", "lower", "higher", "midpoint", "nearest"])
@pytest.mark.parametrize("recording", [False, True])
def test_quantile_equals_numpy(interpolation: str, recording: bool) -> None:
    generator = np.random.default_rng(4)
    x = generator.standard_normal((4, 101))
    q = np.array([0.0, 0.123, 0.5, 0.77, 1.0])
    tensor = ad.tensor(x, requires_grad=recording)
    for dim in (None, 0, 1):
        for keepdim in (False, True):
            got = tensor.quantile(ad.tensor(q), dim, keepdim, interpolation=interpolation)
            wanted = np.quantile(x, q, axis=dim, keepdims=keepdim, method=interpolation)
            np.testing.assert_allclose(got.detach().numpy(), wanted, rtol=1e-12, atol=1e-15)
            assert got.requires_grad == recording
    x[0, ::7] = NAN
    got = ad.tensor(x, requires_grad=recording).nanquantile(
        ad.tensor(q), 1, interpolation=interpolation
    )
    wanted = np.nanquantile(x, q, axis=1, method=interpolation)
    np.testing.assert_allclose(got.detach().numpy(), wanted, rtol=1e-12)
    got = ad.tensor(x, requires_grad=recording).quantile(0.5, 1, interpolation=interpolation)
    assert got.isnan().tolist() == [True, False, False, False]


def test_quantile_between_infinities() -> None:
    q = ad.tensor([0.0, 0.5, 1.0])
    for recording in (False, True):
        x = ad.tensor([1.0, INF], requires_grad=recording)
        assert x.quantile(q).tolist() == [1.0, INF, INF]
        x = ad.tensor([-INF, 1.0], requires_grad=recording)
        assert x.quantile(q).tolist() == [-INF, -INF, 1.0]


def test_unique_gives_what_is_asked_for() -> None:
    x = ad.tensor([[3, 1], [1, 2]])
    assert x.unique().tolist() == [1, 2, 3]
    values, inverse = ad.unique(x, return_inverse=True)
    assert values[inverse].tolist() == x.tolist()
    values, counts = x.unique(return_counts=True)
    assert counts.tolist() == [2, 1, 1]
    assert len(x.unique(return_inverse=True, return_counts=True)) == 3
    rows, inverse, counts = ad.unique(
        ad.tensor([[2, 1], [1, 9], [2, 1]]), dim=0, return_inverse=True, return_counts=True
    )
    assert rows.tolist() == [[1, 9], [2, 1]]
    assert inverse.tolist() == [1, 0, 1]
    assert counts.tolist() == [1, 2]
    assert ad.unique_consecutive(ad.tensor([1, 1, 2, 1])).tolist() == [1, 2, 1]
    assert ad.unique(ad.tensor([NAN, 1.0, NAN])).isnan().tolist() == [False, True, True]


@pytest.mark.parametrize("dtype", ["int64", "int8", "uint8", "bool", "float32", "float16"])
@pytest.mark.parametrize("size", [0, 3, 5000])
def test_unique_equals_numpy(dtype: str, size: int) -> None:
    x = numbers(dtype, size)
    if x.dtype.kind == "f":
        x = x[~np.isnan(x)]
    values, inverse, counts = np.unique(x, return_inverse=True, return_counts=True)
    got = ad.unique(ad.from_numpy(x), return_inverse=True, return_counts=True)
    for a, b in zip(
        (ad.unique(ad.from_numpy(x)), *got), (values, values, inverse, counts), strict=True
    ):
        np.testing.assert_array_equal(a.numpy(), b)


def test_unique_shares_its_gradient_among_equals() -> None:
    x = ad.tensor([3.0, 1.0, 3.0], requires_grad=True)
    weights = ad.tensor([10.0, 4.0])
    assert ad.autograd.grad((x.unique() * weights).sum(), x)[0].tolist() == [2.0, 10.0, 2.0]
    assert ad.jvp(lambda v: v.unique(), (x.detach(),), (ad.ones(3),))[1].tolist() == [1.0, 1.0]


def test_unique_and_bincount_have_no_size_inside_vmap() -> None:
    for function in (ad.unique, ad.unique_consecutive, ad.bincount):
        with pytest.raises(DependsOnValues, match="vmap"):
            ad.vmap(function)(ad.tensor([[1, 2], [1, 1]]))


def test_searchsorted_in_rows_equals_one_by_one() -> None:
    generator = np.random.default_rng(5)
    for values in (3, 100):
        sequence = np.sort(generator.integers(0, 9, (2, 3, 20)), axis=-1).astype(np.float64)
        x = generator.integers(-1, 11, (2, 3, values)).astype(np.float64)
        for right in (False, True):
            got = ad.searchsorted(ad.from_numpy(sequence), ad.from_numpy(x), right=right).numpy()
            side = "right" if right else "left"
            for place in np.ndindex(2, 3):
                assert (
                    got[place].tolist() == np.searchsorted(sequence[place], x[place], side).tolist()
                )


def test_histogram_has_closed_ends_and_weights() -> None:
    hist, edges = ad.histogram(ad.tensor([0.0, 1.0, 2.0, 5.0]), 2, range=(0.0, 2.0))
    assert (hist.tolist(), edges.tolist()) == ([1.0, 2.0], [0.0, 1.0, 2.0])
    weight = ad.tensor([1.0, 2.0], requires_grad=True)
    hist = ad.histogram(ad.tensor([0.5, 1.5]), ad.tensor([0.0, 1.0, 2.0]), weight=weight).hist
    assert ad.autograd.grad(hist[1], weight)[0].tolist() == [0.0, 1.0]


def test_mode_of_a_row_with_nan_behind_a_number() -> None:
    assert ad.tensor([1.0, NAN, 2.0]).mode().values.item() == 1.0
    assert ad.tensor([2.0, NAN, 1.0]).mode().indices.item() == 2
    assert ad.tensor([NAN, 1.0, 1.0, NAN]).mode().values.item() == 1.0


def test_quantiles_of_no_probabilities() -> None:
    x = ad.ones(2, 3)
    assert ad.quantile(x, ad.tensor([])).shape == (0,)
    assert ad.nanquantile(x, ad.tensor([]), dim=1, keepdim=True).shape == (0, 2, 1)
