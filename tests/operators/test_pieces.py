"""Large arrays in pieces: the values are those of one pass, whatever the number of threads."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import adjoint as ad
from adjoint.kernels import pieces


@pytest.fixture(params=[1, 3])
def threads(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setattr(pieces, "threads", lambda: request.param)
    return request.param


def test_pieces_give_the_values_of_one_pass(threads: int) -> None:
    x = np.random.default_rng(0).standard_normal(pieces.LARGE + 777).astype(np.float32)
    compute = lambda a, b: np.tanh(a) * b
    found = pieces.by_pieces(compute, x, x)
    np.testing.assert_array_equal(found, compute(x, x))


def test_errors_of_a_thread_reach_the_caller(threads: int) -> None:
    def fails(piece: Any) -> Any:
        if piece[-1] == pieces.LARGE - 1:
            raise ValueError("the last piece")
        return piece

    with pytest.raises(ValueError, match="the last piece"):
        pieces.by_pieces(fails, np.arange(pieces.LARGE))


def test_threads_keep_the_error_state(threads: int) -> None:
    x = np.zeros(pieces.LARGE)
    with np.errstate(divide="ignore"):
        assert np.isinf(pieces.by_pieces(np.log, x)).all()


@pytest.mark.parametrize("dtype", [ad.float32, ad.bfloat16])
def test_activations_of_large_tensors_are_those_of_small_ones(threads: int, dtype: Any) -> None:
    ad.manual_seed(0)
    x = ad.randn(pieces.LARGE + 5).to(dtype)
    for name in ("gelu", "silu", "mish"):
        function = getattr(ad.nn.functional, name)
        few = function(x[-1000:].clone())  # gelu has another formula for few numbers
        assert ad.allclose(function(x)[-1000:], few, rtol=1e-6, atol=1e-7), name


def test_rows_are_shared(threads: int) -> None:
    x = np.random.default_rng(0).standard_normal((pieces.LARGE // 50, 7, 8))
    np.testing.assert_array_equal(pieces.by_rows(lambda a: a.max(-1), x), x.max(-1))
    for name in ("median", "mode", "nanmedian"):
        for rows in (x.reshape(-1, 56), x.reshape(-1)):
            t = ad.tensor(rows)
            values, places = getattr(t, name)(-1)
            np.testing.assert_array_equal(
                values, np.take_along_axis(rows, places.numpy()[..., None], -1)[..., 0]
            )
    np.testing.assert_array_equal(ad.tensor(x[:, 0]).median(1)[0], np.sort(x[:, 0])[:, 3])
