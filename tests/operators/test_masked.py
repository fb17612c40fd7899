"""`ad.masked`: what the mask leaves out matters neither to values nor to derivatives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import adjoint as ad

NAN = float("nan")
MASK = ad.tensor([[True, False, True], [False, True, False]])
X = [[1.0, NAN, 3.0], [float("inf"), 2.0, NAN]]

CALLS: dict[str, tuple[Callable[..., Any], Any, Any]] = {
    "sum": (lambda x: ad.masked.sum(x, 1, mask=MASK), [4, 2], [[1, 0, 1], [0, 1, 0]]),
    "prod": (lambda x: ad.masked.prod(x, 1, mask=MASK), [3, 2], [[3, 0, 1], [0, 1, 0]]),
    "mean": (lambda x: ad.masked.mean(x, 1, mask=MASK), [2, 2], [[0.5, 0, 0.5], [0, 1, 0]]),
    "amax": (lambda x: ad.masked.amax(x, 1, mask=MASK), [3, 2], [[0, 0, 1], [0, 1, 0]]),
    "median": (lambda x: ad.masked.median(x, 1, mask=MASK), [1, 2], [[1, 0, 0], [0, 1, 0]]),
    "var": (
        lambda x: ad.masked.var(x, 1, unbiased=False, mask=MASK),
        [1, 0],
        [[-1, 0, 1], [0, 0, 0]],
    ),
    "cumsum": (
        lambda x: ad.masked.cumsum(x, 1, mask=MASK),
        [[1, 1, 4], [0, 2, 2]],
        [[3, 0, 1], [0, 2, 0]],
    ),
    "softmin": (
        lambda x: ad.masked.softmin(x, 1, mask=MASK)[1],
        [0, 1, 0],
        [[0, 0, 0], [0, 0, 0]],
    ),
}


@pytest.mark.parametrize("name", CALLS)
def test_nan_and_infinity_outside_the_mask_reach_nothing(name: str) -> None:
    call, value, slope = CALLS[name]
    x = ad.tensor(X, dtype=ad.float64, requires_grad=True)
    result = call(x)
    assert np.allclose(result.tolist(), value)
    (grad,) = ad.autograd.grad(result.sum(), x, create_graph=True)
    assert np.allclose(grad.tolist(), slope)
    if grad.requires_grad:
        (second,) = ad.autograd.grad((grad * grad).sum(), x, allow_unused=True)
        assert second is None or np.isfinite(second.tolist()).all()


def test_softmax_over_the_mask() -> None:
    x = ad.tensor(X, dtype=ad.float64, requires_grad=True)
    result = ad.masked.softmax(x, 1, mask=MASK)
    small = 1 / (1 + np.exp(2.0))
    assert np.allclose(result.tolist(), [[small, 0, 1 - small], [0, 1, 0]])
    (grad,) = ad.autograd.grad(result[0, 0], x)
    slope = small * (1 - small)
    assert np.allclose(grad.tolist(), [[slope, 0, -slope], [0, 0, 0]])


def test_a_mask_broadcasts_and_integers_have_limits() -> None:
    x = ad.tensor([[1, 5, 3], [4, 2, 6]])
    mask = ad.tensor([True, False, True])
    assert ad.masked.amax(x, 1, mask=mask).tolist() == [3, 6]
    assert ad.masked.sum(x.to(ad.int8), mask=mask).dtype is ad.int64
    with pytest.raises(IndexError, match="more dimensions"):
        ad.masked.sum(x[0], mask=ad.ones(2, 3, dtype=ad.bool))
    with pytest.raises(ValueError, match="no selected element"):
        ad.masked.median(x, 1, mask=ad.tensor([False]))
