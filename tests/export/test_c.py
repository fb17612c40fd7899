"""`ad.export.c`: a standalone file that a plain C compiler builds, and that computes the same."""

from __future__ import annotations

import ctypes
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import adjoint as ad
from adjoint import export
from adjoint.c_kernels import loading
from adjoint.compiler import routines
from adjoint.core import pytrees
from adjoint.toolchain import build

pytestmark = pytest.mark.skipif(build.compiler() is None, reason="needs a C compiler")


def make(*shape: int, seed: int = 0, dtype: Any = None) -> ad.Tensor:
    values = np.random.default_rng(seed).uniform(0.5, 1.5, shape)
    return ad.tensor(values, dtype=ad.float64 if dtype is None else dtype)


def run_exported(
    folder: Path, function: Callable[..., Any], *inputs: ad.Tensor
) -> list[np.ndarray]:
    """Export, build with a plain C99 compiler, run, and return the outputs."""
    source, header = export.c(function, *inputs, path=folder / "model.c")
    assert "#include" in source.read_text()
    work = next(
        int(line.split()[-1]) for line in header.read_text().splitlines() if "_WORK" in line
    )
    compiler = build.compiler()
    assert compiler is not None
    flags = ["-std=c99", "-O1", "-shared", "-fPIC", "-Wall", "-Wno-unknown-pragmas", "-Werror"]
    subprocess.run(
        [*compiler, *flags, str(source), "-o", str(folder / "model.so"), "-lm"], check=True
    )
    model = ctypes.CDLL(str(folder / "model.so")).model
    expected = pytrees.leaves(function(*inputs))
    outputs = [np.full(tuple(e.shape), np.nan, e.dtype.np) for e in expected]
    memory = np.zeros(work, np.uint8)
    arrays = [np.ascontiguousarray(x.numpy()) for x in inputs]
    model(*(ctypes.c_void_p(a.ctypes.data) for a in (*arrays, *outputs, memory)))
    return outputs


def loop(x: ad.Tensor, w: ad.Tensor) -> ad.Tensor:
    carry, ys = ad.scan(
        lambda c, t: ((c * w).sin() + t, c.sum()), x, ad.arange(5.0, dtype=ad.float64)
    )
    return carry.sum() + (ys * ys).sum()


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "value": lambda x, w: (x * w).sin(),
    "transposed output": lambda x, w: (x.t(), (x * w).sum(1)),
    "constants": lambda x, w: (x * w * ad.tensor([1.0, 2.0, 3.0, 4.0], dtype=ad.float64)).sum(0),
    "gradient": ad.value_and_grad(lambda x, w: (x * w).exp().sum(1).log().sum(), argnums=(0, 1)),
    "loop": ad.value_and_grad(lambda x, w: loop(x[0], w), argnums=(0, 1)),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_exported_c_equals_eager(name: str, tmp_path: Path) -> None:
    inputs = make(3, 4), make(4, seed=1)
    outputs = run_exported(tmp_path, FUNCTIONS[name], *inputs)
    for got, expected in zip(outputs, pytrees.leaves(FUNCTIONS[name](*inputs)), strict=True):
        np.testing.assert_allclose(got, expected.numpy(), rtol=1e-12)


def factored(x: ad.Tensor, w: ad.Tensor) -> ad.Tensor:
    """Products, a factor and triangular solves from both sides, of matrices too large for loops."""
    L = ad.linalg.cholesky(x @ x.t() + 30 * ad.eye(30, dtype=ad.float64))
    left = ad.linalg.solve_triangular(L, w, upper=False)
    right = ad.linalg.solve_triangular(L.t(), w.t(), upper=True, left=False)
    return (left * right.t()).sum() + L.diagonal().log().sum()


def test_library_routines_are_in_the_file(tmp_path: Path) -> None:
    inputs = make(30, 30), make(30, 20, seed=1)
    function = ad.value_and_grad(factored, argnums=(0, 1))
    outputs = run_exported(tmp_path, function, *inputs)
    for got, expected in zip(outputs, pytrees.leaves(function(*inputs)), strict=True):
        np.testing.assert_allclose(got, expected.numpy(), rtol=1e-9)


def test_kernels_of_exported_code_stand_together(tmp_path: Path) -> None:
    """No file of kernels names what another one names, warns, or shows a name to other code."""
    files = {file for file, _ in routines.STRIDED.values()}
    used = {(file, kind) for file in files for kind in ("float", "double")}
    source, made = tmp_path / "kernels.c", tmp_path / "kernels.so"
    for some in (used, *({each} for each in sorted(used))):
        source.write_text(f"#include <math.h>\n#define TEAM 1\n{loading.standalone(some)}")
        compiler = build.compiler()
        assert compiler is not None
        flags = ["-std=c99", "-O1", "-shared", "-fPIC", "-Wall", "-Wno-unknown-pragmas", "-Werror"]
        subprocess.run([*compiler, *flags, str(source), "-o", str(made)], check=True)
        library = ctypes.CDLL(str(made))
        assert not any(hasattr(library, f"product_{kind}") for kind in ("float", "double"))


def test_float32_stays_float32(tmp_path: Path) -> None:
    x = make(5, dtype=ad.float32)
    (got,) = run_exported(tmp_path, lambda x: x.exp() * 2, x)
    assert got.dtype == np.float32
    np.testing.assert_allclose(got, (x.exp() * 2).numpy(), rtol=1e-6)


def test_operator_without_c_is_named(tmp_path: Path) -> None:
    with pytest.raises(ad.AdjointError, match="sort"):
        export.c(lambda x: x.sort().values, make(3), path=tmp_path / "f.c")
    with pytest.raises(ad.AdjointError, match=r"\.c"):
        export.c(lambda x: x, make(3), path=tmp_path / "f.txt")


def test_exported_layers_over_time_are_loops(tmp_path: Path) -> None:
    gates, state, weight = make(3, 2, 12), make(2, 3), make(12, 3, seed=1)

    def loss(gates: ad.Tensor, state: ad.Tensor, weight: ad.Tensor) -> ad.Tensor:
        return ad.ops._lstm_layer(gates, state, state, weight, None, None, False)[0].sum()

    function = ad.value_and_grad(loss, argnums=(0, 1, 2))
    outputs = run_exported(tmp_path, function, gates, state, weight)
    expected = pytrees.leaves(function(gates, state, weight))
    for got, value in zip(outputs, expected, strict=True):
        np.testing.assert_allclose(got, value.numpy(), rtol=1e-9)


def test_exported_convolutions_and_pooling_stand_alone(tmp_path: Path) -> None:
    inputs = make(2, 4, 6, 5), make(6, 2, 3, 2, seed=1), make(6, 1, 2, 2, seed=2), make(6, seed=3)

    def loss(x: ad.Tensor, w: ad.Tensor, v: ad.Tensor, b: ad.Tensor) -> ad.Tensor:
        hidden = ad.nn.functional.conv2d(x, w, b, stride=2, padding=1, groups=2).tanh()
        spread = ad.nn.functional.conv_transpose2d(hidden, v, stride=2, groups=2)
        return ad.nn.functional.max_pool2d(spread, 2).square().sum()

    function = ad.value_and_grad(loss, argnums=(0, 1, 2, 3))
    outputs = run_exported(tmp_path, function, *inputs)
    for got, expected in zip(outputs, pytrees.leaves(function(*inputs)), strict=True):
        np.testing.assert_allclose(got, expected.numpy(), rtol=1e-10, atol=1e-13)


def test_exported_attention_stands_alone(tmp_path: Path) -> None:
    inputs = make(2, 70, 4), make(2, 130, 4, seed=1), make(2, 130, 3, seed=2)
    mask = ad.tensor(np.random.default_rng(3).random((70, 130)) > 0.4)

    def loss(q: ad.Tensor, k: ad.Tensor, v: ad.Tensor) -> ad.Tensor:
        return ad.nn.functional.scaled_dot_product_attention(q, k, v, mask).square().sum()

    function = ad.value_and_grad(loss, argnums=(0, 1, 2))
    outputs = run_exported(tmp_path, function, *inputs)
    for got, expected in zip(outputs, pytrees.leaves(function(*inputs)), strict=True):
        np.testing.assert_allclose(got, expected.numpy(), rtol=1e-9, atol=1e-12)
