"""Laws of calls in a loop of their own: the values are those of eager mode for any number of
elements, and no heavy loop calls a function.
"""

from __future__ import annotations

import re
from typing import Any

import pytest

import adjoint as ad
from adjoint.compiler.targets.c.target import CPU
from adjoint.expressions.functions import rounds_alike
from adjoint.toolchain import build
from tests.compiler.test_programs import assert_same

pytestmark = pytest.mark.skipif(build.compiler() is None, reason="needs a C compiler")


def price(spot: Any, strike: Any, time: Any) -> Any:
    """An option's: one logarithm, then exponentials and error functions."""
    deviation = 0.3 * time.sqrt()
    d = ((spot / strike).log() + 0.06 * time) / deviation
    one, two = (0.5 * (1 + ad.erf(x * 0.7071067811865476)) for x in (d, d - deviation))
    return (spot * one - strike * (-0.02 * time).exp() * two).sum()


def waves(x: Any, y: Any, z: Any) -> Any:
    """Two functions of memory, and much that depends on both; no sum inside."""
    a, b = x.sin(), (y * 2).log1p()
    for k in range(12):
        a, b = a * b + z * (0.1 * k), b - a * 0.2
    return (ad.tanh(a) * ad.erf(b)).sum(), a


def picked(x: Any, y: Any, z: Any) -> Any:
    """Neighbours, one end left out: loops that are cut."""
    a = (x[1:] / y[:-1]).log().cos()
    b = ad.nn.functional.pad(a, (1, 0))
    for k in range(12):
        b = b * z + ad.erf(b * (0.1 * k))
    return b.sum()


SIZES = (2, 511, 512, 1023, 1024, 1025, 2600)


def positives(size: int, dtype: Any, *, rows: int = 0) -> list[Any]:
    with ad.random.fork_rng():
        ad.manual_seed(size)
        shape = (rows, size) if rows else (size,)
        return [ad.rand(shape, dtype=dtype) + 0.5 for _ in range(3)]


@pytest.mark.parametrize("dtype", [ad.float64, ad.float32], ids=["float64", "float32"])
@pytest.mark.parametrize("function", [price, waves, picked])
def test_calls_apart_change_no_value(function: Any, dtype: Any) -> None:
    both = ad.value_and_grad(lambda *xs: _scalar(function(*xs)), argnums=(0, 1, 2))
    opened = ad.compile(both, dynamic=True)
    for size in SIZES:
        xs = positives(size, dtype)
        wanted, tolerance = both(*xs), 1e-11 if dtype is ad.float64 else 2e-4
        assert_same(opened(*xs), wanted, tolerance)
        if size in (512, 1025, 2600):
            assert_same(ad.compile(both)(*xs), wanted, tolerance)


def test_rows_are_cut_too() -> None:
    def rows(x: Any, y: Any, z: Any) -> Any:
        return waves(x, y, z[0])[1]

    xs = positives(1500, ad.float64, rows=3)
    assert_same(ad.compile(rows)(*xs), rows(*xs), 1e-11)


@pytest.mark.parametrize("dtype", [ad.float64, ad.float32], ids=["float64", "float32"])
@pytest.mark.parametrize("function", [price, waves])
def test_no_heavy_loop_calls_a_function(function: Any, dtype: Any) -> None:
    gradient = ad.compile(ad.grad(lambda *xs: _scalar(function(*xs)), argnums=(0, 1, 2)))
    source = gradient.lower(*positives(5000, dtype)).source
    bodies = re.findall(r"#pragma omp simd[^\n]*\n *for [^{]*\{([^{}]*)\}", source)
    heavy = [body for body in bodies if body.count(";") > CPU.vectors.beside_calls]
    assert heavy
    assert all(rounds_alike(re.findall(r"\b(\w+)\(", body)) for body in heavy)
    assert any(not rounds_alike(re.findall(r"\b(\w+)\(", body)) for body in bodies)


def _scalar(found: Any) -> Any:
    return found[0] if isinstance(found, tuple) else found
