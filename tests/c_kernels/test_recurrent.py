"""LSTM layers in C equal those in NumPy: any number of units and sequences, lengths, directions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from adjoint.c_kernels import recurrent as native
from adjoint.kernels import recurrent as kernels
from adjoint.toolchain import build

needs_compiler = pytest.mark.skipif(build.compiler() is None, reason="no C compiler here")
# units below, at and beyond the width of a panel, sequences that fill tiles and that do not
SIZES = [(1, 1), (2, 3), (4, 8), (5, 17), (9, 32), (6, 33), (3, 65)]


def layer(count: int, units: int, dtype: Any, steps: int = 3) -> list[Any]:
    """gates, hx, cx and w_hh."""
    draw = np.random.default_rng(count + units)
    make = lambda *shape: draw.uniform(-2, 2, shape).astype(dtype)
    return [make(steps, count, 4 * units), make(count, units), make(count, units),
            make(4 * units, units)]  # fmt: skip


def lengths(count: int) -> Any:
    return np.array([count, max(count // 2, 1), 1], dtype=np.int32)


@needs_compiler
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("sized", [False, True])
def test_a_layer_and_its_gradients_equal_steps(dtype: Any, reverse: bool, sized: bool) -> None:
    close = {"rtol": 3e-5, "atol": 3e-5} if dtype == np.float32 else {"rtol": 1e-12, "atol": 1e-12}
    for count, units in SIZES:
        gates, hx, cx, w_hh = layer(count, units, dtype)
        batch = lengths(count) if sized else None
        order = kernels._schedule("lstm", 3, count, batch, backwards=reverse)
        found = native.lstm(gates, hx, cx, w_hh, batch, reverse)
        assert found is not None
        expected = kernels._lstm_layer(gates, hx, cx, w_hh, None, order)
        for got, wanted in zip(found, expected, strict=True):
            np.testing.assert_allclose(got, wanted, **close)
        _, cells, workspace = expected
        before = kernels._before(cells, cx, reverse=reverse)
        for present in ((True, False, False), (False, True, True), (True, True, True)):
            grads = [g if p else None for g, p in zip(expected, present, strict=True)]
            bars = native.lstm_back(tuple(grads), cx, w_hh, batch, cells, workspace, reverse)
            assert bars is not None
            back = kernels._lstm_backward(
                grads, before, w_hh, cells, workspace, None, None, order[::-1]
            )
            for got, wanted in zip(bars, back, strict=True):
                np.testing.assert_allclose(got, wanted, **close)


@needs_compiler
def test_infinities_saturate_gates_and_nan_stays() -> None:
    gates, hx, cx, w_hh = layer(2, 2, np.float64)
    gates[0, 0] = [np.inf, -np.inf] * 4
    gates[0, 1, 0] = np.nan
    found = native.lstm(gates, hx, cx, w_hh, None, False)
    assert found is not None
    assert found[2][0, 0].tolist() == [1, 0, 1, 0, 1, -1, 1, 0]
    assert np.isnan(found[1][0, 1, 0])
    assert np.isfinite(found[1][0, 0]).all()


def test_without_native_code_nothing_is_computed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native.loading, "ready", lambda *_: None)
    gates, hx, cx, w_hh = layer(2, 2, np.float64)
    assert native.lstm(gates, hx, cx, w_hh, None, False) is None
    cells = np.zeros((3, 2, 2))
    assert native.lstm_back((None,) * 3, cx, w_hh, None, cells, gates, False) is None
