"""Embeddings: padding, frequencies, indices out of range, bags."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest

import adjoint as ad

F = ad.nn.functional
INDICES = [1, 2, 4, 1, 2, 0]


def rows() -> ad.Tensor:
    return ad.from_numpy(np.random.default_rng(0).normal(size=(5, 3)))


def gradient(**options: object) -> np.ndarray:
    return ad.grad(lambda w: F.embedding(ad.tensor(INDICES), w, **options).sum())(rows()).numpy()


@pytest.mark.parametrize("padding", [2, -3])
def test_the_padding_row_is_a_constant_in_both_modes(padding: int) -> None:
    assert gradient(padding_idx=padding)[:, 0].tolist() == [1, 2, 0, 0, 1]
    f = lambda w: F.embedding(ad.tensor(INDICES), w, padding_idx=padding)
    _, tangent = ad.jvp(f, (rows(),), (ad.ones(5, 3, dtype=ad.float64),))
    assert tangent[:, 0].tolist() == [1, 0, 1, 1, 0, 1]
    mapped = ad.grad(
        lambda w: ad.vmap(lambda i: F.embedding(i, w, padding))(ad.tensor(INDICES)).sum()
    )
    assert mapped(rows())[:, 0].tolist() == [1, 2, 0, 0, 1]


def test_frequent_rows_have_smaller_gradients() -> None:
    assert gradient(scale_grad_by_freq=True)[:, 0].tolist() == [1, 1, 1, 0, 1]


def test_max_norm_scales_used_rows_in_place() -> None:
    weight = rows() * 10
    before = weight.numpy().copy()
    F.embedding(ad.tensor([1, 2]), weight, max_norm=1.0)
    assert np.allclose(np.linalg.norm(weight.numpy()[1:3], axis=1), 1, atol=1e-6)
    assert np.array_equal(weight.numpy()[[0, 3, 4]], before[[0, 3, 4]])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda w: F.embedding(ad.tensor([5]), w), "index 5 is out of range; the weight has 5"),
        (lambda w: F.embedding(ad.tensor([-1]), w), "index -1"),
        (lambda w: F.embedding(ad.tensor([0.5]), w), "integer dtype"),
        (lambda w: F.embedding(ad.tensor([0]), w[0]), "must be a matrix"),
        (lambda w: F.embedding(ad.tensor([0]), w, padding_idx=7), "use -5 to 4"),
        (lambda w: F.embedding_bag(ad.tensor([0]), w, mode="median"), "'sum', 'mean' and 'max'"),
        (lambda w: F.embedding_bag(ad.tensor([0]), w), "with offsets"),
        (
            lambda w: F.embedding_bag(ad.tensor([[0]]), w, per_sample_weights=w[:1, :1]),
            "only .sum. takes",
        ),
    ],
)
def test_embedding_errors(call: Callable[[ad.Tensor], ad.Tensor], message: str) -> None:
    with pytest.raises(ad.AdjointError, match=message):
        call(rows())


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
def test_bags_equal_a_loop(mode: str) -> None:
    offsets = [0, 2, 2, 5]
    weight = rows()
    bags = [INDICES[a:b] for a, b in zip(offsets, [*offsets[1:], 6], strict=True)]

    def looped(w: ad.Tensor) -> ad.Tensor:
        join = {"sum": lambda x: x.sum(0), "mean": lambda x: x.mean(0), "max": lambda x: x.amax(0)}
        parts = [join[mode](w[bag]) if bag else w.new_zeros(3) for bag in bags]
        return ad.stack(parts)

    def bagged(w: ad.Tensor) -> ad.Tensor:
        return F.embedding_bag(ad.tensor(INDICES), w, ad.tensor(offsets), mode=mode)

    assert np.allclose(bagged(weight).numpy(), looped(weight).numpy())
    grads = [ad.grad(lambda w, f=f: (f(w) ** 3).sum())(weight).numpy() for f in (bagged, looped)]
    assert np.allclose(*grads)


def test_bags_must_start_at_0() -> None:
    with pytest.raises(IndexError):
        F.embedding_bag(ad.tensor([1, 2]), rows(), ad.tensor([1]))


@pytest.mark.parametrize("dtype", [ad.uint8, ad.int16, ad.int32])
def test_indices_of_every_integer_dtype(dtype: ad.DType) -> None:
    assert np.array_equal(
        ad.grad(lambda w: F.embedding(ad.tensor(INDICES, dtype=dtype), w).sum())(rows()).numpy(),
        gradient(),
    )
    bags = (ad.tensor(INDICES, dtype=dtype), rows(), ad.tensor([0, 2], dtype=dtype))
    assert F.embedding_bag(*bags, mode="max").shape == (2, 3)


def test_the_largest_of_empty_bags_depends_on_the_weight() -> None:
    weight = ad.ones(3, 2, requires_grad=True)
    none = ad.zeros(0, dtype=ad.int64)
    F.embedding_bag(none, weight, ad.tensor([0, 0]), mode="max").sum().backward()
    assert weight.grad.tolist() == [[0.0, 0.0]] * 3


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
def test_bags_leave_rows_of_padding_out_whatever_they_hold(mode: str) -> None:
    weight = ad.tensor([[1.0, 2.0], [math.nan, math.inf], [3.0, 5.0]], requires_grad=True)
    found = ad.nn.functional.embedding_bag(
        ad.tensor([[0, 1], [2, 2], [1, 1]]), weight, mode=mode, padding_idx=1
    )
    both = [6.0, 10.0] if mode == "sum" else [3.0, 5.0]
    np.testing.assert_array_equal(found.detach(), [[1.0, 2.0], both, [0.0, 0.0]])
    (grad,) = ad.autograd.grad(found.sum(), weight)
    np.testing.assert_array_equal(grad[1], [0.0, 0.0])


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
def test_bags_name_the_index_that_is_out_of_range(mode: str) -> None:
    with pytest.raises(IndexError, match="index 9 is out of range; the weight has 5 rows"):
        ad.nn.functional.embedding_bag(ad.tensor([[0, 9]]), ad.ones(5, 3), mode=mode)


def test_means_of_whole_numbers_are_real() -> None:
    weight = ad.tensor([[1, 2], [2, 5], [7, 7]])
    found = ad.nn.functional.embedding_bag(ad.tensor([[0, 1]]), weight, mode="mean")
    np.testing.assert_array_equal(found, [[1.5, 3.5]])
