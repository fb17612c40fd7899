"""Steps of an LSTM in C equal NumPy's passes, on parts of rows, and beyond the range of exp."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from adjoint.kernels import recurrent as kernels
from adjoint.native import build
from adjoint.native import recurrent as native

pytestmark = pytest.mark.skipif(build.compiler() is None, reason="no C compiler here")


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("rows", "units"), [(1, 1), (3, 5), (16, 33)])
def test_steps_equal_passes(rows: int, units: int, dtype: Any) -> None:
    draw = np.random.default_rng(0)
    numbers = lambda width, scale=1.0: (scale * draw.standard_normal((rows + 2, width))).astype(
        dtype
    )
    gates, x, before = numbers(4 * units), numbers(4 * units, 50.0), numbers(units)
    of_hidden, of_cell = numbers(units), numbers(units)
    found = []
    for step, back in (
        (native.lstm_step, native.lstm_step_back),
        (kernels._lstm_step, kernels._lstm_step_back),
    ):
        own, bar = gates[:rows].copy(), of_cell[:rows].copy()
        cell, hidden, out = (
            np.empty((rows, units), dtype),
            np.empty((rows, units), dtype),
            own.copy(),
        )
        with np.errstate(over="ignore"):
            step(own, x[:rows], before[:rows], cell, hidden)
        back(own, before[:rows], cell, of_hidden[:rows], bar, out)
        found.append((own, cell, hidden, bar, out))
    tolerance = 1e-5 if dtype == np.float32 else 1e-13
    for ours, theirs in zip(*found, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=tolerance, atol=tolerance)
