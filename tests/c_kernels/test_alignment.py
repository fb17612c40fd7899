"""The native recursion of CTC and its gradient are those of NumPy's kernel."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from adjoint.c_kernels import alignment, loading
from adjoint.kernels import loss

pytestmark = pytest.mark.skipif(
    loading.function("alignment", "alphas", np.float32) is None, reason="needs a C compiler"
)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("shape", [(1, 2, 1), (2, 3, 2), (9, 4, 7), (40, 3, 61)])
def test_native_steps_are_those_of_numpy(shape: Any, dtype: Any, monkeypatch: Any) -> None:
    for name in ("alphas", "alphas_back"):
        assert loading.function("alignment", name, dtype) is not None
    draw = np.random.default_rng(0)
    emitted, grad = draw.standard_normal((2, *shape)).astype(dtype)
    emitted[draw.uniform(size=shape) < 0.1] = -np.inf
    blocked, inputs = draw.uniform(size=shape[1:]) < 0.5, draw.integers(0, shape[0] + 1, shape[1])
    monkeypatch.setattr(alignment, "LARGE", 1 << 60)
    alphas = loss.ctc_alphas(emitted, blocked, inputs)
    back = loss.ctc_alphas_backward(grad, emitted, blocked, inputs, alphas)
    monkeypatch.setattr(alignment, "LARGE", 1)
    native = alignment.alphas(emitted, blocked, inputs)
    native_back = alignment.alphas_back(grad, emitted, blocked, inputs, alphas)
    assert native is not None
    assert native_back is not None
    error = 40 * np.finfo(dtype).eps
    np.testing.assert_allclose(native, alphas, error, error)
    np.testing.assert_allclose(native_back, back, error, error * max(np.abs(back).max(), 1))
