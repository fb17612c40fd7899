"""Functions around kernels: threads share rows, and their accumulators are joined."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import adjoint as ad
from adjoint.toolchain import build


def reductions(x: Any) -> Any:
    """Accumulators of every kind that last through all rows, and results of several dtypes."""
    y, whole = x * 2, x.to(ad.int32)
    sums = (y.sum(0), y.mean(0), (y.sum(), y.mean()), whole.sum(0), whole.amax(0))
    return sums, (y.amax(0), y.amin(0), (1 + x / 1e5).prod(0)), ((x > 3).any(0), (x > -9).all(0))


@pytest.fixture(params=[1, 2, 3])
def threads(request: pytest.FixtureRequest, threads_restored: None) -> Any:
    ad.set_num_threads(request.param)
    return request.param


@pytest.mark.parametrize("dynamic", [None, {"x": 0}])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_accumulators_of_threads_are_joined(dtype: Any, dynamic: Any, threads: int) -> None:
    """The result does not depend on how many there are, but for rounding."""
    draw = np.random.default_rng(threads)
    compiled = ad.compile(reductions, dynamic=dynamic)
    for rows in (40, 30_000):  # one thread has them all, or all threads share them
        x = draw.normal(size=(rows, 9)).astype(dtype)
        x[draw.integers(rows), 4] = np.nan
        x = ad.tensor(x)
        got, want = (ad.tree.leaves(f(x)) for f in (compiled, reductions))
        for mine, theirs in zip(got, want, strict=True):
            assert mine.dtype is theirs.dtype
            close = 5e-3 if dtype is np.float32 else 1e-9  # eager products are of float32
            np.testing.assert_allclose(mine.numpy(), theirs.numpy(), rtol=close, atol=close)


def layers(count: int) -> Any:
    def f(x: Any) -> Any:
        for _ in range(count):
            x = x / (x.square().sum(0, keepdim=True) + 1).sqrt() + x.amax(1, keepdim=True)
        return x.sum()

    return f


def test_steps_share_functions_of_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """A program of twice as many steps has about as many parallel regions, and loops of totals."""
    monkeypatch.setattr(build, "load", lambda source, name: SimpleNamespace())
    stages = [
        ad.compile(ad.grad(layers(count)), dynamic={"x": 0}).lower(ad.ones(30, 6))
        for count in (12, 24)
    ]
    few, many = (len(each.layout.steps) for each in stages)
    assert many > 1.8 * few
    for text in ("#pragma omp parallel", "for (long t = 1;"):
        few, many = (each.source.count(text) for each in stages)
        assert 0 < few <= many <= few + 2
