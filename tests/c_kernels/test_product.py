"""Products of matrices in C: NumPy's results for all layouts, batches and numbers of threads."""

from __future__ import annotations

import ctypes
import itertools
import os
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

import adjoint as ad
from adjoint.c_kernels import loading, product
from tests.compiler.test_safety import leave_the_compiler_alone, sanitized

needs_compiler = pytest.mark.skipif(
    loading.function("product", "product", np.float32) is None, reason="needs a C compiler"
)

SIZES = [
    (1, 70, 300), (70, 1, 300), (5, 33, 40), (8, 64, 17), (9, 32, 16), (12, 32, 1), (13, 31, 257),
    (40, 100, 300), (300, 9, 30), (25, 600, 7), (64, 64, 0), (10, 11, 37), (12, 12, 64),
    (2, 3, 9), (7, 5, 100), (16, 101, 300), (61, 130, 517),
]  # fmt: skip


def arrays(seed: int, dtype: Any, *shapes: tuple[int, ...]) -> list[Any]:
    draw = np.random.default_rng(seed)
    return [draw.standard_normal(shape).astype(dtype) for shape in shapes]


def native(a: Any, b: Any, start: Any = None) -> Any:
    """The product by C code, whatever its size, and what it is added to."""
    batch = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    m, n, k = a.shape[-2], b.shape[-1], a.shape[-1]
    a, b = (np.broadcast_to(x, (*batch, *x.shape[-2:])) for x in (a, b))
    result = np.full((*batch, m, n), np.nan, a.dtype)
    steps = [[s // x.itemsize for s in x.strides] for x in (a, b, result)]
    run = loading.function("product", "product", a.dtype)
    numbers = loading.block(product.numbers((m, n, k), batch, *map(tuple, steps)))
    assert not loading.call(run, numbers, a, b, start, result)
    return result


def layouts(x: Any) -> list[Any]:
    """The same numbers, lying in memory in several ways."""
    spaced = np.zeros((*x.shape[:-2], 2 * x.shape[-2], 3 * x.shape[-1]), x.dtype)[..., ::2, ::3]
    spaced[...] = x
    turned = np.ascontiguousarray(x.swapaxes(-1, -2)).swapaxes(-1, -2)
    return [x, turned, spaced, x[..., ::-1, :].copy()[..., ::-1, :]]


@needs_compiler
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("m", "n", "k"), SIZES)
def test_products_of_all_layouts_are_numpys(m: int, n: int, k: int, dtype: Any) -> None:
    a, b = arrays(m * n + k, dtype, (m, k), (k, n))
    expected = a.astype(np.float64) @ b.astype(np.float64)
    for x, y in itertools.product(layouts(a), layouts(b)):
        np.testing.assert_allclose(native(x, y), expected, atol=50 * np.finfo(dtype).eps * 20)
    (start,) = arrays(k, dtype, (m, n))
    found = native(a, b, start)
    np.testing.assert_allclose(found, start + expected, atol=50 * np.finfo(dtype).eps * 20)


@needs_compiler
@pytest.mark.parametrize(
    ("a", "b"),
    [((2, 3, 4, 13, 20), (4, 20, 40)), ((3, 1, 9, 5), (1, 4, 5, 70)), ((6, 2, 7), (7, 3))],
)
def test_batches_broadcast(a: tuple[int, ...], b: tuple[int, ...]) -> None:
    x, y = arrays(1, np.float64, a, b)
    np.testing.assert_allclose(native(x, y), x @ y, atol=1e-12)


@needs_compiler
def test_large_products_of_any_rank_run_in_c_and_match() -> None:
    for a, b in [
        ((80, 70), (70, 90)), ((5, 4, 30, 60), (4, 60, 50)), ((2, 1, 2, 1, 2, 40, 40), (40, 40)),
        ((3, 80, 80), (80, 80)), ((40, 30, 30), (40, 30, 30)),
    ]:  # fmt: skip
        x, y = arrays(2, np.float64, a, b)
        found = ad.matmul(ad.tensor(x), ad.tensor(y))
        np.testing.assert_allclose(found.numpy(), np.matmul(x, y), atol=1e-11)
        swapped = ad.matmul(ad.tensor(y).mT, ad.tensor(x).mT) if y.ndim == x.ndim else None
        if swapped is not None:
            np.testing.assert_allclose(swapped.mT.numpy(), np.matmul(x, y), atol=1e-11)


@needs_compiler
def test_nan_and_infinity_stay_in_their_rows() -> None:
    a, b = arrays(3, np.float32, (50, 80), (80, 75))
    a[3, 4], a[20, 7] = np.nan, np.inf
    found = native(a, b)
    assert np.isnan(found[3]).all()
    assert not np.isfinite(found[20]).any()
    rest = np.delete(np.arange(50), [3, 20])
    np.testing.assert_allclose(found[rest], a[rest] @ b, atol=1e-4)


THREADS = """
import hashlib
import numpy as np
import adjoint as ad
draw = np.random.default_rng(0)
found = hashlib.sha256()
for a, b in [((300, 400), (400, 500)), ((7, 100, 90), (7, 90, 110)), ((2000, 20), (20, 30))]:
    x, y = (ad.tensor(draw.standard_normal(s).astype(np.float32)) for s in (a, b))
    found.update((x @ y).numpy().tobytes())
print(found.hexdigest())
"""


@needs_compiler
def test_results_do_not_depend_on_the_number_of_threads() -> None:
    found = {
        subprocess.run(
            [sys.executable, "-c", THREADS], env={**os.environ, "OMP_NUM_THREADS": threads},
            capture_output=True, text=True, check=True,
        ).stdout
        for threads in ("1", "2", "5")
    }  # fmt: skip
    assert len(found) == 1


def within_memory() -> int:
    """Products of all widths, of matrices that end where their memory does; how many there were."""
    sizes = itertools.product((1, 3, 13, 64), (1, 3, 9, 17, 31, 47), (1, 2, 7, 40))
    found = 0
    for dtype, (m, n, k) in itertools.product((np.float32, np.float64), sizes):
        for b in (np.ones((k, n), dtype), np.ones((k, n + 6), dtype)[:, 6:]):
            for a in (np.ones((m, k), dtype), np.ones((k, m), dtype).T):
                np.testing.assert_array_equal(native(a, b), k)
                found += 1
    return found


@needs_compiler
def test_products_touch_no_other_memory() -> None:
    """Panels are read beyond the end of a row, and never beyond that of the matrix."""
    outcome = sanitized(__file__)
    assert outcome.returncode == 0, outcome.stderr[:3000]
    assert "768 products" in outcome.stdout


def test_shapes_that_do_not_fit_are_refused_in_our_words() -> None:
    a, b = ad.ones(100, 200), ad.ones(201, 100)
    with pytest.raises(ad.errors.ShapeError, match="matmul"):
        ad.matmul(a, b)


def test_freed_memory_is_kept_for_the_next_arrays() -> None:
    if not hasattr(ctypes.CDLL(None), "mallopt"):
        pytest.skip("needs glibc")
    program = """
import resource, numpy as np, adjoint as ad
faults = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_minflt
x = ad.ones(1 << 20)
for _ in range(3): y = x + x; del y
before = faults()
for _ in range(20): y = x + x; del y
print(faults() - before)
"""
    clean = {k: v for k, v in os.environ.items() if not k.startswith("MALLOC_")}
    found = subprocess.run(
        [sys.executable, "-c", program], env=clean, capture_output=True, text=True, check=True
    )
    assert int(found.stdout) < 1000  # each array has 1024 pages


if __name__ == "__main__":
    leave_the_compiler_alone()
    print(f"{within_memory()} products")
