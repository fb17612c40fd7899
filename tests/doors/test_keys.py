"""Random numbers of keys: functions of the key alone, in every transform."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import adjoint as ad
from adjoint.core.errors import DtypeError, ShapeError

DRAWS: dict[str, Callable[[Any], Any]] = {
    "split": lambda k: ad.random.split(k, 3),
    "fold_in": lambda k: ad.random.fold_in(k, 5),
    "bits": lambda k: ad.random.bits(k, (2, 3)),
    "uniform": lambda k: ad.random.uniform(k, (4,), minval=-1.0),
    "uniform in float64": lambda k: ad.random.uniform(k, (4,), ad.float64),
    "normal": lambda k: ad.random.normal(k, (4,)),
    "bernoulli": lambda k: ad.random.bernoulli(k, ad.tensor([0.1, 0.9])),
    "exponential": lambda k: ad.random.exponential(k, (4,)),
    "categorical": lambda k: ad.random.categorical(k, ad.zeros(5, 3), axis=0, shape=(2, 3)),
    "randint": lambda k: ad.random.randint(k, (5,), -3, 9),
    "permutation": lambda k: ad.random.permutation(k, ad.eye(9), axis=1),
    "choice": lambda k: ad.random.choice(k, 9, (2, 2), replace=False),
    "choice by weight": lambda k: ad.random.choice(k, 3, (4,), p=ad.tensor([0.2, 0.3, 0.5])),
    "few by weight": lambda k: ad.random.choice(k, 3, (2,), False, ad.tensor([0.2, 0.3, 0.5])),
}


@pytest.mark.parametrize("name", DRAWS)
def test_a_draw_is_a_function_of_its_key(name: str) -> None:
    draw, keys = DRAWS[name], ad.random.split(ad.random.key(3), 2)
    expected = draw(keys[1])
    ad.manual_seed(1)  # of the other stream
    compiled = ad.compile(draw)
    for found in (draw(keys[1]), ad.trace(draw, keys[0])(keys[1]), compiled(keys[1])):
        np.testing.assert_allclose(found, expected, rtol=1e-6)
    np.testing.assert_allclose(ad.vmap(draw)(keys)[1], expected, rtol=1e-6)
    assert draw(keys[0]).tolist() != expected.tolist() or expected.numel() < 5


def test_moments_are_those_of_the_distribution() -> None:
    k, n = ad.random.key(11), 20_000
    for draw, mean, variance in (
        (ad.random.uniform(k, (n,)), 0.5, 1 / 12),
        (ad.random.uniform(k, n, ad.float64, 2.0, 4.0), 3.0, 1 / 3),
        (ad.random.normal(k, (n,)), 0.0, 1.0),
        (ad.random.exponential(k, (n,)), 1.0, 1.0),
        (ad.random.gumbel(k, (n,)), 0.5772, np.pi**2 / 6),
        (ad.random.bernoulli(k, 0.3, (n,)).float(), 0.3, 0.21),
        (ad.random.randint(k, (n,), 1, 7).float(), 3.5, 35 / 12),
    ):
        assert abs(draw.mean().item() - mean) < 0.03
        assert abs(draw.var().item() - variance) < 0.06
    assert sorted(ad.random.permutation(k, 1000).tolist()) == list(range(1000))


def test_draws_are_differentiable_in_their_parameters() -> None:
    k = ad.random.key(0)
    f = lambda mean, scale: (mean + scale * ad.random.normal(k, (3,))).sum()
    grads = ad.grad(f, argnums=(0, 1))(1.0, 2.0)
    assert [g.item() for g in grads] == [3.0, pytest.approx(ad.random.normal(k, (3,)).sum().item())]


def test_mistakes_are_explained() -> None:
    with pytest.raises(ShapeError, match="make one with ad.random.key"):
        ad.random.normal(0, (3,))
    with pytest.raises(ShapeError, match="use vmap for several"):
        ad.random.normal(ad.random.split(ad.random.key(0)), (3,))
    with pytest.raises(DtypeError, match="one whole number"):
        ad.random.key(0.5)
    with pytest.raises(DtypeError, match="float32 or float64"):
        ad.random.uniform(ad.random.key(0), (3,), ad.float16)
