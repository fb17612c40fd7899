"""Large arrays: kernels made of the rows' C texts give what the NumPy kernels give."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import adjoint as ad
from adjoint.elements import large
from adjoint.native import background, discovery
from adjoint.tensor import binding

pytestmark = pytest.mark.skipif(discovery.toolchain() is None, reason="needs a C compiler")

N = large.LARGE + 37


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Native code is there when it is first asked for."""
    monkeypatch.setattr(background, "soon", background.now)


def draw(*shape: int, dtype: Any = np.float64, seed: int = 0) -> Any:
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def both(op: Any, *values: Any) -> tuple[Any, Any]:
    """The results of the native kernel and of NumPy's, called with the same arguments."""
    native = large.Large(op.row)(*values)
    if op.row.names_kernel:
        kernel = binding.reference(op.row.kernel, "kernels", op.row, "kernel")
        return native, kernel(*values)
    tensors = [
        ad.tensor(v[..., :1000]) if isinstance(v, np.ndarray) and v.ndim else v for v in values
    ]
    return (None if native is None else native[..., :1000]), op(*tensors).numpy()


CALLS: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "gelu": (ad.ops.gelu.default, ("tanh",)),
    "exact gelu": (ad.ops.gelu.default, ("none",)),
    "silu": (ad.ops.silu.default, ()),
    "softplus": (ad.ops.softplus.default, (1.5, 20.0)),
    "leaky relu": (ad.ops.leaky_relu.default, (0.01,)),
    "clamp": (ad.ops.clamp.default, (-0.5, None)),
    "erfinv": (ad.ops.erfinv.default, ()),
    "lgamma": (ad.ops.lgamma.default, ()),
}


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", CALLS)
def test_native_kernels_equal_numpys(name: str, dtype: Any) -> None:
    op, rest = CALLS[name]
    x = draw(N, dtype=dtype)
    x[:6] = [np.nan, np.inf, -np.inf, 0.0, -0.0, 1e-40]
    native, plain = both(op, x, *rest)
    assert native.dtype == dtype
    tolerance = 64 * np.finfo(dtype).eps
    np.testing.assert_allclose(native[:1000], plain[:1000], rtol=tolerance, atol=tolerance)


LAYOUTS: dict[str, Callable[[], tuple[Any, Any]]] = {
    "same": lambda: (draw(N), draw(N, seed=1)),
    "one number": lambda: (draw(N), draw(1, seed=1)),
    "a row": lambda: (draw(200, 100), draw(100, seed=1)),
    "a row with ones": lambda: (draw(200, 100), draw(1, 100, seed=1)),
    "a column": lambda: (draw(200, 100), draw(200, 1, seed=1)),
    "an image's channels": lambda: (draw(20, 10, 12, 11), draw(20, 10, 1, 1, seed=1)),
    "both turned": lambda: (draw(200, 100).T, draw(200, 100, seed=1).T),
    "channels last": lambda: (
        np.moveaxis(draw(20, 12, 11, 10), -1, 1), np.moveaxis(draw(20, 12, 11, 10, seed=1), -1, 1)
    ),
    "one turned": lambda: (draw(200, 100), draw(100, 200, seed=1).T),
    "two dimensions between": lambda: (draw(20, 10, 12, 11), draw(10, 1, 1, seed=1)),
    "with gaps": lambda: (draw(2 * N)[::2], draw(2 * N, seed=1)[::2]),
    "backwards": lambda: (draw(N)[::-1], draw(N, seed=1)[::-1]),
    "the first is small": lambda: (draw(100), draw(200, 100, seed=1)),
}  # fmt: skip
LOOPS = ("same", "one number", "a row", "a row with ones", "a column", "an image's channels",
         "both turned", "channels last", "the first is small")  # fmt: skip


@pytest.mark.parametrize("name", LAYOUTS)
def test_every_layout_gives_numpys_result(name: str) -> None:
    a, b = LAYOUTS[name]()
    found = large.Large(ad.ops.atan2.default.row)(a, b)
    assert (found is not None) == (name in LOOPS)
    expected = np.arctan2(a, b)
    if found is not None:
        assert found.shape == expected.shape
        np.testing.assert_allclose(found, expected, rtol=1e-14)
    np.testing.assert_allclose(ad.atan2(ad.tensor(a), ad.tensor(b)), expected, rtol=1e-14)


def test_shapes_that_do_not_fit_are_refused_in_our_words() -> None:
    with pytest.raises(ad.errors.ShapeError):
        ad.add(ad.ones(200, 100), ad.ones(200, 99))


def test_a_row_is_built_for_few_numbers_only() -> None:
    kernel = large.Large(ad.ops.add.Scalar.row)
    x = draw(N)
    for number in range(20):
        found = kernel(x, float(number), 1)
        if found is not None:
            np.testing.assert_allclose(found, x + number)
    assert len(kernel.texts) <= large._MOST_TEXTS


def test_gradients_of_large_arrays_are_those_of_small_ones() -> None:
    def loss(x: ad.Tensor) -> ad.Tensor:
        hidden = ad.nn.functional.gelu(x * x.sigmoid() - 0.3)
        return (hidden.exp() * ad.nn.functional.silu(x)).sum()

    x = draw(N)
    whole = ad.grad(loss)(ad.tensor(x))
    parts = ad.cat([ad.grad(loss)(ad.tensor(p)) for p in np.array_split(x, 10)])
    np.testing.assert_allclose(whole, parts, rtol=1e-12, atol=1e-14)


def test_integers_and_half_precision_stay_with_numpy() -> None:
    kernel = large.Large(ad.ops.abs.default.row)
    assert kernel(np.ones(N, np.int64)) is None
    assert kernel(np.ones(N, np.float16)) is None


PROGRAM = """
import numpy as np, adjoint as ad, time
from adjoint.native import background
x = ad.tensor(np.linspace(-3, 3, 50000))
first = ad.nn.functional.silu(x)
deadline = time.monotonic() + 60
while any(found is None for found in background._ready.values()) and time.monotonic() < deadline:
    time.sleep(0.02)
again = ad.nn.functional.silu(x)
print(len(background._ready), float((first - again).abs().max()) < 1e-12)
"""


@pytest.mark.parametrize(("native", "libraries"), [("1", "1"), ("0", "0")])
def test_first_use_builds_in_the_background(native: str, libraries: str, tmp_path: Any) -> None:
    settings = {"ADJOINT_CACHE": str(tmp_path), "ADJOINT_NATIVE": native}
    found = subprocess.run(
        [sys.executable, "-c", PROGRAM], env=os.environ | settings, capture_output=True, text=True,
        check=True,
    )  # fmt: skip
    assert found.stdout.split() == [libraries, "True"]
