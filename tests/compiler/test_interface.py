"""What a user of `ad.compile` sees: signatures, stages, costs, open sizes, determinism."""

from __future__ import annotations

import gc
import math
import os
import re
import subprocess
import sys
import tracemalloc
import warnings
import weakref
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import adjoint as ad
from adjoint.compiler.pipeline import STAGES
from adjoint.core import pytrees
from adjoint.core.errors import ArgumentError, InplaceError, ShapeError
from adjoint.toolchain import build

pytestmark = pytest.mark.skipif(build.compiler() is None, reason="needs a C compiler")


def make(*shape: int, seed: int = 0, dtype: Any = None) -> ad.Tensor:
    values = np.random.default_rng(seed).uniform(0.5, 1.5, shape)
    return ad.tensor(values, dtype=ad.float64 if dtype is None else dtype)


def assert_same(got: Any, expected: Any) -> None:
    assert pytrees.structure(got) == pytrees.structure(expected)
    for a, b in zip(pytrees.leaves(got), pytrees.leaves(expected), strict=True):
        assert a.shape == b.shape
        assert a.dtype is b.dtype
        rtol = 1e-12 if b.dtype is ad.float64 else 2e-5
        np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol=rtol, atol=rtol)


def run(program: str, **env: str) -> str:
    result = subprocess.run(
        [sys.executable, "-W", "error", "-c", program],
        env=os.environ | env,
        capture_output=True,
        text=True,
        timeout=1200,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    return result.stdout


# -- signatures


def test_each_shape_and_dtype_has_its_program() -> None:
    compiled = ad.compile(lambda x: x * 2)
    for x in (make(3), make(4), make(3, 1), make(3, dtype=ad.float32), make(3).long(), make()):
        for _ in range(2):
            assert_same(compiled(x), x * 2)
    assert len(compiled.programs) == 6


def test_python_values_are_told_apart_by_type() -> None:
    """True == 1 == 1.0, and x * True has another dtype than x * 1.0."""
    compiled = ad.compile(lambda x, n: x * n)
    x = ad.tensor([1, 2, 3])
    for n in (True, 1, 1.0, False, 0, 0.0, 1 + 0j):
        assert_same(compiled(x, n), x * n)
    assert len(compiled.programs) == 6  # 0.0 runs the program of 1.0


def test_a_whole_number_that_makes_many_programs_is_named_once() -> None:
    compiled = ad.compile(lambda x, options: x * options["step"])
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for step in range(9):
            compiled(make(3), {"step": step})
        for size in range(9):
            compiled(make(size), {"step": 1})
    (said,) = caught
    assert re.search(r"8 times for other values of options\['step'\].*a tensor", str(said.message))
    assert said.filename == __file__


def test_strings_and_none_are_part_of_the_signature() -> None:
    compiled = ad.compile(lambda x, mode=None: x.sin() if mode == "sin" else x.cos())
    x = make(3)
    for mode in ("sin", "cos", None):
        assert_same(compiled(x, mode), compiled.function(x, mode))
        assert_same(compiled(x, mode=mode), compiled.function(x, mode=mode))
    assert_same(compiled(x), x.cos())


@pytest.mark.parametrize("dtype", [ad.float32, ad.float64])
def test_a_real_number_is_as_precise_as_the_tensors_beside_it(dtype: Any) -> None:
    """And another number needs no other program."""
    compiled = ad.compile(lambda x, rate: x - rate * x.sin())
    x = make(5, dtype=dtype)
    for kinds, programs in ((0.1, 0.01), 1), ((np.float64(0.3), np.float64(0.4)), 2):
        for rate in kinds:
            assert_same(compiled(x, rate), compiled.function(x, rate))
        assert len(compiled.programs) == programs
    complex_ = ad.compile(lambda x, z: x * z)
    assert_same(complex_(x, 0.1 + 0.7j), x * (0.1 + 0.7j))


def test_a_number_is_changed_by_making_another() -> None:
    def f(x: Any, k: Any) -> Any:
        k += 1
        k *= 2
        k /= 3
        k **= 2
        k -= 0.5
        k //= 0.25
        k %= 7
        return x * k

    assert_same(ad.compile(f)(make(3), 2.5), f(make(3), 2.5))


def test_the_structure_of_arguments_counts() -> None:
    compiled = ad.compile(lambda tree: sum(x.sum() for x in pytrees.leaves(tree)))
    x, y = make(3), make(3, seed=1)
    for tree in ([x, y], (x, y), {"a": x, "b": y}, {"a": x, "c": y}, [[x], y], [x, None, y]):
        assert_same(compiled(tree), x.sum() + y.sum())
    assert len(compiled.programs) == 6


def test_the_default_dtype_counts() -> None:
    compiled = ad.compile(lambda n: n / 3 + ad.zeros(2))
    n = ad.tensor([1, 2])
    before = ad.get_default_dtype()
    try:
        for dtype in (ad.float32, ad.float64, ad.float32):
            ad.set_default_dtype(dtype)
            result = compiled(n)
            assert result.dtype is dtype
            assert_same(result, compiled.function(n))
    finally:
        ad.set_default_dtype(before)
    assert len(compiled.programs) == 2


@pytest.mark.parametrize("odd", [{1, 2}, bytearray(b"x")])
def test_arguments_that_cannot_be_hashed_are_named(odd: Any) -> None:
    compiled = ad.compile(lambda x, _: x * 2)
    for call in (compiled, compiled.lower, compiled.cost):
        with pytest.raises(ArgumentError, match=f"can be hashed, got {type(odd).__name__}"):
            call(make(3), odd)


def test_keywords_and_positions_give_the_same() -> None:
    compiled = ad.compile(lambda x, y: x - y)
    x, y = make(3), make(3, seed=1)
    for result in (compiled(x, y), compiled(x, y=y), compiled(y=y, x=x)):
        assert_same(result, x - y)


def test_a_call_with_other_arguments_between_two_does_not_confuse() -> None:
    """The quick way in is for the last signature only."""
    compiled = ad.compile(lambda x, y: x - y)
    a, b = make(4, 3), make(4, 3, seed=1)
    variants = [
        (a, b),
        (a, b[0]),
        (a.t(), b.t()),  # not contiguous
        (a, b),
        (a[:, ::2], b[:, ::2]),
        (a.float(), b),
        (a.numpy(), b),
        (a, 2.0),
        (a, b),
        (a.clone().requires_grad_(), b),
        (a, b),
    ]
    for x, y in variants:
        assert_same(compiled(x, y), ad.as_tensor(x) - y)


# -- stages


def test_lower_shows_every_stage() -> None:
    compiled = ad.compile(lambda x, w: (x @ w).softmax(1).sum(0))
    stages = compiled.lower(make(50, 40), make(40, 30))
    assert [n.name for n in stages.graph.nodes] == [
        "matmul.default",
        "_softmax.default",
        "sum.dim_IntList",
    ]
    assert "_exp_difference.default" in [n.name for n in stages.lowered.nodes]
    assert "_softmax.default" not in [n.name for n in stages.lowered.nodes]
    text = str(stages)
    assert re.search(r"ad.ops._softmax.default\(matmul, 1, .* # f64\[50,30\]", text)
    assert re.search(r"exp_difference = ad.ops._exp_difference.default", text)
    assert re.search(r"# +library: matmul.default by product: 120,000 flops, 0 functions", text)
    assert re.search(r"# +loop: .* over \(50, 30\).*: [\d,]+ flops, 1,500 functions, ", text)
    assert re.search(r"# memory: [\d,]+ bytes in one arena, 256 of results", text)
    assert re.search(r"#   matmul: f64\[50,30\] at 0", text)
    assert stages.source in text
    assert "exp(" in stages.source
    assert stages.source.count("static void nest") == sum(
        "loop: " in line for line in text.splitlines()
    )
    assert list(stages.seconds) == ["trace", *(stage.__name__ for stage in STAGES)]
    assert all(seconds >= 0 for seconds in stages.seconds.values())
    assert re.search(r"# build: [\d.]+ ms", text)


def test_lower_names_what_calls_back() -> None:
    stages = ad.compile(lambda x: ad.linalg.eigvals(x * 2).abs() + 1).lower(make(5, 5))
    assert stages.callbacks() == ["linalg_eig.default"]
    assert "calls back: linalg_eig.default" in str(stages)


def test_lower_shows_what_is_inside_a_loop_over_time() -> None:
    def f(xs: Any) -> Any:
        return ad.scan(lambda c, x: (c.sin() + x, c), ad.zeros(3, dtype=ad.float64), xs)

    lines = str(ad.compile(f).lower(make(7, 3))).splitlines()
    (region,) = [n for n, line in enumerate(lines) if line.startswith("#   region: scan: ")]
    assert lines[region + 1].strip("# ") == "body:"
    assert "loop: " in lines[region + 2]
    assert "21 functions" in lines[region]
    assert ", 3 functions" in lines[region + 2]


def test_lower_compiles_for_the_calls_that_follow(built: list[str]) -> None:
    compiled = ad.compile(lambda x: x.sin() + 1)
    compiled.lower(make(3))
    compiled(make(3))
    assert len(built) == 1
    assert compiled.lower(make(3)) is compiled.lower(make(3, seed=1))


# -- cost


def test_cost_of_pointwise_work() -> None:
    x = make(1000)
    cost = ad.compile(lambda x, y: x * y + x.exp()).cost(x, x)
    assert (cost.flops, cost.functions) == (2000, 1000)
    assert (cost.bytes_read, cost.bytes_written, cost.memory) == (16_000, 8000, 8000)
    narrow = ad.compile(lambda x: x * 2).cost(make(10, dtype=ad.float32))
    assert (narrow.flops, narrow.bytes_read, narrow.bytes_written) == (10, 40, 40)


def test_cost_of_a_sum() -> None:
    cost = ad.compile(lambda x: x.sum(1)).cost(make(20, 30))
    assert (cost.flops, cost.functions) == (600, 0)
    assert (cost.bytes_read, cost.bytes_written) == (4800, 160)


@pytest.mark.parametrize("shape", [(64, 32, 16), (3, 4, 5)])
def test_cost_of_a_product(shape: tuple[int, int, int]) -> None:
    """2mnk, by a library or by a loop."""
    m, k, n = shape
    cost = ad.compile(lambda x, y: x @ y).cost(make(m, k), make(k, n))
    assert cost.flops == 2 * m * n * k
    assert (cost.bytes_read, cost.bytes_written) == (8 * (m * k + k * n), 8 * m * n)


def test_cost_of_a_factor_and_a_solution() -> None:
    a = ad.eye(30, dtype=ad.float64) * 2
    assert ad.compile(ad.linalg.cholesky).cost(a).flops == 30**3 // 3
    solve = ad.compile(lambda a, b: ad.linalg.solve_triangular(a, b, upper=False))
    assert solve.cost(a, make(30, 7)).flops == 30 * 30 * 7


@pytest.mark.parametrize("length", [1, 10])
def test_cost_of_a_scan_counts_its_length(length: int) -> None:
    def f(xs: Any) -> Any:
        return ad.scan(lambda c, x: (c * 0.5 + x.exp(), None), ad.zeros(8, dtype=ad.float64), xs)[0]

    cost = ad.compile(f).cost(make(length, 8))
    assert cost.flops == length * 8 * 2
    assert cost.functions == length * 8
    assert "16 flops" in str(ad.compile(f).cost(make(1, 8)))


def test_cost_before_anything_is_compiled_is_an_error() -> None:
    compiled = ad.compile(lambda x: x * 2)
    with pytest.raises(ArgumentError, match=r"nothing is compiled yet.*give cost\(\) its arg"):
        compiled.cost()
    compiled(make(100))
    assert compiled.cost().flops == 100
    compiled(make(7))
    assert compiled.cost().flops == 7
    assert compiled.cost(make(100)).flops == 100


def test_a_gradient_costs_less_than_five_functions() -> None:
    """The law of cheap gradients, and functions are shared by forward and backward."""

    def f(x: Any) -> Any:
        return (x.exp() * x.sin()).sum()

    x = make(100)
    once = ad.compile(f).cost(x)
    both = ad.compile(ad.value_and_grad(f)).cost(x)
    assert once.functions == 200
    assert both.functions == 300  # exp, sin and one cos
    assert both.flops < 5 * once.flops


def test_memory_is_used_again() -> None:
    """A chain of products needs two intermediates at a time, not all of them."""

    def chain(x: Any, *factors: Any) -> Any:
        for factor in factors:
            x = x @ factor
        return x

    one = 64 * 64 * 8
    factors = [make(64, 64, seed=n) for n in range(10)]
    compiled = ad.compile(chain)
    cost = compiled.cost(*factors)
    assert cost.memory == 3 * one  # two in the arena, and the result
    assert cost.bytes_written == 9 * one
    assert_same(compiled(*[f / 64 for f in factors]), chain(*[f / 64 for f in factors]))


def test_what_fuses_needs_no_memory() -> None:
    cost = ad.compile(lambda x: (x.sin() * 2 + x).exp().tanh().sum()).cost(make(100_000))
    assert cost.memory < 1000


# -- what it says while it works


def test_verbose_prints_one_line_for_each_stage(capsys: pytest.CaptureFixture[str]) -> None:
    def wave(x: Any) -> Any:
        return x.sin()

    compiled = ad.compile(wave, verbose=True)
    compiled(make(3))
    lines = capsys.readouterr().out.splitlines()
    stages = ["trace", *(stage.__name__ for stage in STAGES)]
    assert [re.sub(r"[\d.]+ ms", "", line) for line in lines] == [
        f"compile wave: {stage}: " for stage in stages
    ]
    compiled(make(3))
    assert capsys.readouterr().out == ""
    ad.compile(wave)(make(4))
    assert capsys.readouterr().out == ""


def test_debugging_names_the_lines_of_the_user(tmp_path: Path) -> None:
    script = tmp_path / "model.py"
    script.write_text(
        "import adjoint as ad\n"
        "def f(x):\n"
        "    y = x.sin()\n"
        "    return (y * x).sum()\n"
        "ad.compile(f)(ad.ones(5))\n"
    )
    cache = tmp_path / "cache"
    cache.mkdir(mode=0o700)
    program = f"import runpy; runpy.run_path({str(script)!r})"
    run(program, ADJOINT_CACHE=str(cache))
    assert not list(cache.glob("*.c"))
    run(program, ADJOINT_CACHE=str(cache), ADJOINT_DEBUG="1")
    (source,) = cache.glob("*.c")
    text = source.read_text()
    assert "/* model.py:3: sin */" in text
    assert re.search(r"/\* model.py:4: .*sum.* \*/", text)
    assert "static void nest0(" in text


# -- open sizes


def rnn(x: Any, w: Any) -> Any:
    start = ad.zeros(x.shape[1], w.shape[0], dtype=x.dtype)
    return ad.scan(lambda h, v: ((h @ w + v).tanh(),) * 2, start, x)


def edges(x: Any) -> Any:
    y = x * 2
    y[:, :3] += 1
    y[:, -3:] *= 5
    return y


def meeting(x: Any) -> Any:
    """x[-2:] has nothing of x[:3], except if x is short."""
    y = x * 2
    y[:3] = 0.5
    y = y + y[-2:].sum(0)
    y[:2] = -0.5
    return y


def attention(q: Any, k: Any, v: Any) -> Any:
    return (q @ k.transpose(-1, -2) / 4).softmax(-1) @ v


def floats(*shapes: tuple[int, ...]) -> tuple[Any, ...]:
    return tuple(make(*s, seed=n, dtype=ad.float32) for n, s in enumerate(shapes))


def doubles(*shapes: tuple[int, ...]) -> tuple[Any, ...]:
    return tuple(make(*s, seed=n) for n, s in enumerate(shapes))


# (function, open dimensions, arguments for each call): all calls run one program
def convolved(x: ad.Tensor) -> Any:
    """Windows that move by two: sizes are halved twice."""
    hidden = ad.nn.functional.conv2d(x, make(2, 2, 3, 3), stride=2, padding=1)
    return ad.nn.functional.max_pool2d(hidden, 2)


OPEN: dict[str, tuple[Callable[..., Any], Any, list[tuple[Any, ...]]]] = {
    "batch": (
        lambda x: (x.sin() * x).sum(1),
        {"x": 0},
        [doubles((n, 3)) for n in (2, 3, 7, 1088, 5000)],
    ),
    "last dimension": (
        lambda x: (x.exp() - 1).cumsum(-1),
        {"x": -1},
        [doubles((4, n)) for n in (2, 5, 70, 1000)],
    ),
    "two sizes": (
        lambda x: x.exp() / x.sum(),
        {"x": (0, 1)},
        [doubles((n, m)) for n, m in ((2, 3), (3, 2), (90, 5), (1100, 7))],
    ),
    "two arguments": (
        lambda x, y: ad.cat([x, y]),
        {"x": 0, "y": 0},
        [doubles((n, 3), (m, 3)) for n, m in ((5, 7), (8, 2), (100, 101))],
    ),
    "one size in two arguments": (
        lambda x, y: ((x - y) ** 2).mean(),
        {"x": 0, "y": 0},
        [doubles((n, 3), (n, 3)) for n in (2, 5, 64, 333)],
    ),
    "matmul": (
        lambda x, w: (x @ w).tanh(),
        {"x": 0},
        [doubles((n, 40), (40, 30)) for n in (2, 5, 29, 31, 640)],
    ),
    "gram matrix": (lambda x: x @ x.T, {"x": 0}, [doubles((n, 20)) for n in (2, 3, 21, 50, 300)]),
    "outer product of three": (
        lambda x: (x[:, None, None] * x[None, :, None] * x[None, None, :]).sum(),
        {"x": 0},
        [doubles((n,)) for n in (2, 5, 30)],
    ),
    "attention": (
        attention,
        dict.fromkeys("qkv", (0, 1)),
        [doubles(*[(b, t, 16)] * 3) for b, t in ((2, 5), (3, 7), (4, 100))],
    ),
    "gradient": (
        ad.value_and_grad(lambda x, w: ((x @ w).tanh() ** 2).mean(), argnums=(0, 1)),
        {"x": 0},
        [doubles((n, 20), (20, 10)) for n in (2, 3, 50, 999)],
    ),
    "gradient of attention": (
        ad.grad(lambda q, k, v: attention(q, k, v).sum(), argnums=(0, 1, 2)),
        dict.fromkeys("qkv", (0, 1)),
        [doubles(*[(b, t, 16)] * 3) for b, t in ((2, 5), (3, 7), (4, 60))],
    ),
    "float32 mean": (lambda x: x.mean(0), {"x": 0}, [floats((n, 3)) for n in (2, 3, 7, 100, 5000)]),
    "float32 statistics": (
        lambda x: (x - x.mean(0)) / x.std(0),
        {"x": 0},
        [floats((n, 3)) for n in (3, 7, 100, 5000)],
    ),
    "float32 softmax": (lambda x: x.softmax(0), {"x": 0}, [floats((n, 3)) for n in (2, 3, 100)]),
    "float32 layer norm": (
        lambda x: ad.nn.functional.layer_norm(x, (x.shape[1],)),
        {"x": (0, 1)},
        [floats((n, m)) for n, m in ((2, 5), (9, 3), (64, 100))],
    ),
    "scan": (
        rnn,
        {"x": (0, 1)},
        [doubles((t, b, 4), (4, 4)) for t, b in ((5, 3), (6, 2), (100, 5))],
    ),
    "gradient of a scan": (
        ad.grad(lambda x, w: rnn(x, w)[0].sum(), argnums=(0, 1)),
        {"x": (0, 1)},
        [doubles((t, b, 4), (4, 4)) for t, b in ((5, 3), (6, 2), (100, 5))],
    ),
    "differences": (lambda x: x[1:] - x[:-1], {"x": 0}, [doubles((n,)) for n in (2, 3, 5, 200)]),
    "flip and pad": (
        lambda x: ad.nn.functional.pad(x.flip(0), (1, 2)),
        {"x": 0},
        [doubles((n,)) for n in (2, 5, 6, 70)],
    ),
    "gather": (
        lambda x, i: x[i].exp(),
        {"x": 0},
        [(*doubles((n, 2)), ad.tensor([0, 1, -1, n - 1])) for n in (2, 5, 70)],
    ),
    "factor": (
        lambda x: ad.linalg.cholesky(x @ x.T + ad.eye(x.shape[0], dtype=ad.float64)),
        {"x": 0},
        [doubles((n, 3)) for n in (4, 9, 40)],
    ),
    "tree": (
        lambda p, x: x @ p["w"] + p["b"],
        {1: 0},
        [
            ({"w": make(3, 2), "b": make(2)}, make(n, 3, seed=n))
            for n in (5, 6, 70)
        ],
    ),
    "number beside it": (
        lambda x, rate: x * rate,
        {"x": 0},
        [(make(n), 0.1 * n) for n in (4, 5, 6)],
    ),
    "an eager kernel": (
        lambda x: ad.linalg.eigvals(x @ x.T).abs().sum() * 2,
        {"x": 0},
        [doubles((n, 3)) for n in (2, 5, 6)],
    ),
    "outputs that are inputs, views and numbers": (
        lambda x: (x, x * 2, x.t(), x[1:], ad.zeros(x.shape[0])),
        {"x": 0},
        [doubles((n, 3)) for n in (2, 5, 6)],
    ),
    "four sizes, whose product is more than memory holds": (
        lambda x, y: ad.einsum("abc,cd->dab", x, y).softmax(-1).reshape(-1, x.shape[1]).sum(0),
        {"x": (0, 1, 2), "y": (0, 1)},
        [doubles((a, b, c), (c, d)) for a, b, c, d in ((2, 3, 4, 5), (3, 2, 7, 4), (9, 8, 2, 3))],
    ),
    "sizes that are written for the same example": (
        lambda x, y: ((x.exp()[:, None] * y[None]).sum(1) + x.sum(), y.softmax(0).cumsum(0)),
        {"x": 0, "y": 0},
        [doubles((n,), (m,)) for n, m in ((3, 5), (40, 7), (2, 90))],
    ),
    "a place that is the first one of the example": (
        lambda x: (x[-8:] * 2, x[x.shape[0] - 8 :].cumsum(0), x.narrow(0, x.shape[0] - 9, 3).exp()),
        {"x": 0},
        [doubles((n,)) for n in (9, 20, 12, 700)],
    ),
    "a root of the size": (
        lambda x: x * x.shape[0] ** -0.5 + x.shape[0], {"x": 0}, [doubles((n,)) for n in (2, 5, 6)],
    ),
    "sizes of rows that stay in the nest": (
        lambda x: (x.softmax(1) * x).sum(0), {"x": (0, 1)},
        [doubles((n, m)) for n, m in ((2, 5), (9, 3000), (300, 2))],
    ),
    "halves and thirds": (
        lambda x: (x[::2] * 2, x[1::3], x[: x.shape[0] // 2].exp(), ad.cat([x[::2], x[1::2]])),
        {"x": 0},
        [doubles((n,)) for n in (8, 9, 200, 41, 5)],
    ),
    "half a spectrum": (
        lambda x: ad.fft.irfft(ad.fft.rfft(x) * 2, n=x.shape[0]),
        {"x": 0},
        [doubles((n,)) for n in (8, 9, 200, 41)],
    ),
    "averages in a frame": (
        lambda x: ad.nn.functional.avg_pool1d(x[None], 3, 2, 1),
        {"x": 0},
        [doubles((n,)) for n in (8, 9, 200, 41)],
    ),
    "strides": (
        ad.grad(lambda x: convolved(x).square().sum()),
        {"x": (2, 3)},
        [doubles((1, 2, n, m)) for n, m in ((9, 30), (10, 31), (16, 21), (41, 12))],
    ),
    "numbers of the size that are read from memory": (
        lambda x: (
            ad.full((x.shape[0], 30), 1 / x.shape[0], dtype=x.dtype) @ make(30, 40),
            ad.full((5,), 1 / x.shape[0], dtype=x.dtype).sort()[0],
            ad.full((x.shape[0],), 1 / x.shape[0], dtype=x.dtype).sum() * x,
        ),
        {"x": 0},
        [doubles((n,)) for n in (9, 20, 700)],
    ),
    "hessian": (
        ad.hessian(lambda x: (x**3).sum() * x.sum()),
        {"x": 0},
        [doubles((n,)) for n in (2, 5, 6)],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", OPEN)
def test_open_sizes_need_one_program(name: str, built: list[str]) -> None:
    function, dynamic, calls = OPEN[name]
    compiled = ad.compile(function, dynamic=dynamic)
    for args in calls:
        for _ in range(2):
            assert_same(compiled(*args), function(*args))
    assert len(built) == 1


@pytest.mark.parametrize(
    ("function", "shapes"),
    [
        (lambda x, w: (x @ w).tanh().softmax(-1), lambda n: ((n, 30), (30, 20))),
        (lambda x: (x @ x.T).logsumexp(0) + x.sum(), lambda n: ((n, n - 1),)),
    ],
    ids=["product", "square"],
)
def test_a_program_that_is_first_called_with_small_sizes_is_written_for_large_ones(
    function: Any, shapes: Any
) -> None:
    """But for loops of their own for the small sizes."""
    dynamic = {0: (0, 1) if len(shapes(5)) == 1 else 0}
    compiled = (ad.compile(function, dynamic=dynamic) for _ in range(2))
    small, large = (c.lower(*floats(*shapes(n))) for c, n in zip(compiled, (5, 900), strict=True))
    functions = [{*stages.source.split("static void ")[1:-1]} for stages in (small, large)]
    assert {f for f in functions[0] if "_usual" not in f} == functions[1]


# (function, open dimensions, sizes): some sizes have programs of their own, all are right
ODD: dict[str, tuple[Callable[..., Any], Any, list[tuple[Any, ...]], int]] = {
    "sizes 0 and 1": (
        lambda x, y: (x + y).sum(0),
        {"x": 0},
        [doubles((n, 3), (1, 3)) for n in (2, 0, 1, 5)],
        3,
    ),
    "equal sizes": (
        lambda x: x / x.sum(0),
        {"x": (0, 1)},
        [doubles((n, m)) for n, m in ((2, 3), (3, 2), (4, 4), (5, 5))],
        2,
    ),
    "as large as a closed one": (
        lambda x, w: (x @ w).sin(),
        {"x": 0},
        [doubles((n, 4), (4, 4)) for n in (3, 4, 5)],
        1,
    ),
    "averages of pairs": (
        ad.grad(lambda x: ad.nn.functional.avg_pool1d(x[None], 2).square().sum()),
        {"x": 0},
        [doubles((n,)) for n in (8, 9, 10, 11, 200, 41)],
        2,
    ),
    "clamped slice": (
        lambda x: x[:100] * 2,
        {"x": 0},
        [doubles((n,)) for n in (200, 300, 101, 100, 99, 50)],
        4,
    ),
    "clamped slice from the end": (
        lambda x: x[-5:] * 2,
        {"x": 0},
        [doubles((n,)) for n in (200, 300, 6, 4, 2)],
        3,
    ),
    "edges that meet": (
        edges,
        {"x": 1},
        [doubles((4, n)) for n in (10, 200, 7, 6, 5, 4, 3, 2)],
        8,
    ),
    "the end of what was written to": (
        meeting,
        {"x": 0},
        [doubles((n, 4)) for n in (20, 7, 6, 5, 4, 3, 2)],
        6,
    ),
    "nothing to divide by": (
        lambda x: ad.jvp(lambda v: v.sort(0).values.std(0), (x,), (x.sin(),)),
        {"x": 0},
        [doubles((n, 2)) for n in (5, 7, 1, 2)],
        4,
    ),
    "no elements": (
        lambda x: (x.sin().sort(0).values, x.amax(2).msort() - x.sum(2)),
        {"x": 1},
        [doubles((0, n, 3)) for n in (2, 3, 4)],
        1,
    ),
    "a choice by size": (
        lambda x: x * 2 if x.shape[0] < 10 else x * 3,
        {"x": 0},
        [doubles((n,)) for n in (5, 6, 70, 80)],
        3,
    ),
    "a choice by divisibility": (
        lambda x: x * 2 if x.shape[0] % 2 else x * 3,
        {"x": 0},
        [doubles((n,)) for n in (5, 6, 8, 7)],
        3,
    ),
    "a constant chosen by size": (
        lambda x: x * ad.tensor(1.5 if x.shape[0] < 10 else 2.5, dtype=ad.float64),
        {"x": 0},
        [doubles((n,)) for n in (5, 20, 30)],
        2,
    ),
}


@pytest.mark.parametrize("name", ODD)
def test_open_sizes_that_are_special_are_right(name: str, built: list[str]) -> None:
    function, dynamic, calls, most = ODD[name]
    compiled = ad.compile(function, dynamic=dynamic)
    for args in [*calls, *calls]:
        assert_same(compiled(*args), function(*args))
    assert len(built) <= most


def test_the_line_of_a_call_does_not_matter(built: list[str]) -> None:
    compiled = ad.compile(lambda x: x.softmax(1), dynamic={"x": 0})
    compiled(make(5, 3))
    compiled(make(6, 3))
    assert len(built) == 1


def test_open_sizes_by_keyword(built: list[str]) -> None:
    compiled = ad.compile(lambda x, y: x.sum() + y, dynamic={"x": 0})
    for n in (2, 5, 9):
        assert_same(compiled(y=make(), x=make(n)), make(n).sum() + make())
    assert len(built) == 1


def test_open_sizes_of_arguments_without_a_name(built: list[str]) -> None:
    compiled = ad.compile(lambda *xs: sum(x.sum() for x in xs), dynamic={1: 0})
    for n in (2, 5, 9):
        assert_same(compiled(make(3), make(n)), make(3).sum() + make(n).sum())
    assert len(built) == 1


def test_an_index_out_of_range_raises_as_eager_does() -> None:
    compiled = ad.compile(lambda x, i: x[i] * 2, dynamic={"x": 0})
    for size in (5, 8):
        right = ad.tensor([0, size - 1, -size])
        assert_same(compiled(make(size), right), make(size)[right] * 2)
        for wrong in (size, -size - 1):
            with pytest.raises(IndexError) as expected:
                make(size)[ad.tensor([0, wrong])]
            with pytest.raises(IndexError) as got:
                compiled(make(size), ad.tensor([0, wrong, 1])[:2])
            assert str(got.value) == str(expected.value)
        assert_same(compiled(make(size), right), make(size)[right] * 2)


UNEVEN: dict[str, tuple[Callable[..., Any], str]] = {
    "a logarithm of the size": (
        lambda x: x * math.log(x.shape[0]),
        r"a number is \d\..* for \d+, .* for \d+, .*, which is no polynomial",
    ),
    "a table": (
        lambda x: x * ad.tensor([math.sin(k) for k in range(x.shape[0])], dtype=x.dtype),
        "a constant depends on them",
    ),
    "sizes that must agree": (
        lambda x: (
            x + ad.ones(x.shape[0] if x.shape[0] > 9 else 5, dtype=ad.float64)[: x.shape[0]]
            if x.shape[0] < 1000
            else x + ad.ones(5, dtype=ad.float64)
        ),
        "the function raises: add: .* do not broadcast",
    ),
}


@pytest.mark.parametrize("name", UNEVEN)
def test_sizes_that_cannot_stay_open_warn_once_and_are_right(name: str) -> None:
    function, reason = UNEVEN[name]
    compiled = ad.compile(function, dynamic={"x": 0})
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for n in (3, 4, 5, 4):
            assert_same(compiled(make(n)), function(make(n)))
            assert_same(compiled(make(n).float()), function(make(n).float()))
    (warning,) = caught
    assert re.search(f"sizes cannot stay open here .*{reason}", str(warning.message))
    assert warning.filename == __file__


def test_any_number_of_sizes_stays_open(built: list[str]) -> None:
    def f(x: Any, w: Any, y: Any) -> Any:
        return ((x * w).sum(2).softmax(1).reshape(-1) / x.shape[2], (y @ y.mT).sum((0, 2)) * 3)

    compiled = ad.compile(ad.vmap(f, (0, None, None)), dynamic={"x": (0, 1, 2, 3), "y": (0, 1)})
    for a, b, c, d, e, g in ((2, 3, 4, 5, 6, 7), (9, 2, 7, 3, 5, 4), (3, 5, 2, 7, 11, 13)):
        x, y = make(a, b, c, d, seed=a), make(e, g, 2)
        assert_same(compiled(x, make(1, seed=3), y), compiled.function(x, make(1, seed=3), y))
    assert len(built) == 1


def test_open_sizes_of_arguments_that_require_gradients(built: list[str]) -> None:
    """One program forward, and one backward."""

    def f(x: Any, w: Any, v: Any) -> Any:
        return ((x @ w).tanh() @ v).square().mean()

    compiled = ad.compile(f, dynamic={"x": 0})
    w, v = make(20, 8, seed=1), make(8, 3, seed=2)
    for n in (2, 3, 50, 999):
        x = make(n, 20, seed=n)
        found = []
        for function in (compiled, f):
            leaves = [w.clone().requires_grad_(), v.clone().requires_grad_()]
            value = function(x, *leaves)
            found.append((value, ad.autograd.grad(value, leaves)))
        assert_same(*found)
    assert len(built) == 2


def test_open_sizes_and_second_order() -> None:
    compiled = ad.compile(lambda x: (x.sin() * x).sum(), dynamic={"x": 0})
    for n in (2, 5):
        x = make(n).requires_grad_()
        (first,) = ad.autograd.grad(compiled(x), x, create_graph=True)
        (second,) = ad.autograd.grad(first.sum(), x)
        y = x.detach()
        assert_same(second, 2 * y.cos() - y * y.sin())


def test_an_index_out_of_range_raises_where_gradients_are_wanted() -> None:
    compiled = ad.compile(lambda x, i: x[i].exp().sum(), dynamic={"x": 0})
    for n in (3, 5):
        x = make(n).requires_grad_()
        with pytest.raises(IndexError, match=f"index {n} is out of range"):
            compiled(x, ad.tensor([0, n]))
        compiled(x, ad.tensor([0, n - 1])).backward()
        assert x.grad is not None
        assert x.grad[-1].item() == pytest.approx(math.exp(x[-1].item()))


def test_what_the_function_itself_does_wrong_is_raised() -> None:
    compiled = ad.compile(lambda x, y: x @ y, dynamic={"x": 0})
    with pytest.raises(ShapeError):
        compiled(make(5, 3), make(4, 2))


@pytest.mark.parametrize(
    ("dynamic", "match"),
    [
        ("x", r"must be \{argument: dimensions\}, .* got 'x'"),
        (["x"], r"must be \{argument: dimensions\}"),
        ({"z": 0}, "names 'z', and the arguments are x, y"),
        ({2: 0}, "names 2, and the arguments are x, y"),
        ({-1: 0}, "names -1, and the arguments are x, y"),
        ({True: 0}, "names True"),
        ({"x": "rows"}, "gives 'rows' for 'x'; a dimension is a whole number"),
        ({"x": 0.5}, "gives 0.5 for 'x'"),
        ({"x": (0, None)}, "for 'x'; a dimension is a whole number, several are a tuple"),
    ],
)
def test_wrong_dynamic_arguments_are_errors_that_help(dynamic: Any, match: str) -> None:
    with pytest.raises(ArgumentError, match=match):
        ad.compile(lambda x, y=None: x * 2, dynamic=dynamic)


def test_a_dimension_that_an_argument_does_not_have_is_an_error() -> None:
    compiled = ad.compile(lambda x, n: x * n, dynamic={"x": 2})
    with pytest.raises(ArgumentError, match=r"opens dimension 2 of 'x', which has shape \(4, 3"):
        compiled(make(4, 3), 2)
    with pytest.raises(ArgumentError, match="opens dimension 0 of 'n', which has none"):
        ad.compile(lambda x, n: x * n, dynamic={"n": 0})(make(4), 2)


def test_cost_and_stages_of_open_sizes() -> None:
    compiled = ad.compile(lambda x: (x.exp() * x).sum(1), dynamic={"x": 0})
    closed = ad.compile(compiled.function)
    for n in (2, 100):
        got, expected = compiled.cost(make(n, 3)), closed.cost(make(n, 3))
        for name in ("flops", "functions", "bytes_read", "bytes_written"):
            assert getattr(got, name) == getattr(expected, name)
        assert got.memory == expected.memory
    assert compiled.cost().flops == 2 * 100 * 3
    text = str(compiled.lower(make(100, 3)))
    assert "sizes stay open; for those that were asked for: 600 flops" in text
    assert "const long size0 = z[0]" in text


def test_many_sizes_need_the_memory_of_the_largest() -> None:
    compiled = ad.compile(lambda x, w: ((x @ w).tanh() @ w).sum(), dynamic={"x": 0})
    w = make(200, 200)
    assert_same(compiled(make(700, 200), w), compiled.function(make(700, 200), w))
    tracemalloc.start()
    try:
        for n in range(500, 550):
            compiled(ad.ones(n, 200, dtype=ad.float64), w)
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert held < 5 * 550 * 200 * 8  # of 100 such intermediates


def test_open_sizes_say_what_takes_time(capsys: pytest.CaptureFixture[str]) -> None:
    compiled = ad.compile(lambda x: x.sin(), dynamic={"x": 0}, verbose=True)
    compiled(make(5))
    compared, *stages = capsys.readouterr().out.splitlines()
    assert re.fullmatch(r"compile <lambda>: compare \d sizes: [\d.]+ ms", compared)
    assert re.fullmatch(r"compile <lambda>: build: [\d.]+ ms", stages[-1])
    compiled(make(6))
    assert capsys.readouterr().out == ""


THREADED = """
import numpy as np, adjoint as ad
f = ad.value_and_grad(lambda x, w: ((x.sin() * w).exp() / x).mean() + (x * w).sum(0).norm())
fast = ad.compile(f, dynamic={"x": 0}) if OPEN else ad.compile(f)
w = ad.tensor(np.linspace(0.5, 1.0, 50))
found = []
for rows in (3, 4000, 6001):
    x = ad.tensor(np.random.default_rng(0).uniform(0.5, 1.5, (rows, 50)))
    first = [np.array(leaf.numpy()) for leaf in fast(x, w)]
    for _ in range(20):
        again = fast(x, w)
        assert all(a.tobytes() == b.numpy().tobytes() for a, b in zip(first, again)), "other bits"
    for a, b in zip(first, f(x, w)):
        np.testing.assert_allclose(a, b.numpy(), rtol=1e-10)
    found.append(first[0].item().hex())
print(*found)
"""


@pytest.mark.parametrize("open_sizes", [False, True])
def test_programs_give_the_same_bits_for_as_many_threads(open_sizes: bool) -> None:
    program = THREADED.replace("OPEN", str(open_sizes))
    first, second = (run(program, OMP_NUM_THREADS="2") for _ in range(2))
    assert first == second
    run(program, OMP_NUM_THREADS="1")


# -- outputs


@pytest.mark.parametrize("dynamic", [None, {"x": 0}])
def test_large_outputs_are_not_used_again_while_somebody_holds_them(dynamic: Any) -> None:
    compiled = ad.compile(lambda x: x + 1, dynamic=dynamic)
    held = compiled(ad.zeros(100_000, dtype=ad.float64))
    part = compiled(ad.ones(100_000, dtype=ad.float64))[:10]
    array = compiled(ad.full((100_000,), 2.0, dtype=ad.float64)).numpy()
    for n in range(3, 6):
        assert compiled(ad.full((100_000,), float(n), dtype=ad.float64))[-1].item() == n + 1
    assert (held.numpy() == 1).all()
    assert (part.numpy() == 2).all()
    assert (array == 3).all()
    assert math.prod(held.shape) == 100_000


def test_containers_and_arrays_take_the_short_way_in() -> None:
    """Known signatures of tensors and arrays, in dictionaries, lists and tuples, do not go through
    the general way again; what differs does, and is right.
    """
    function = lambda p, q: {"y": p["w"] * p["b"][0] + q[0], "z": q[1].sum()}
    fast = ad.compile(function)
    p = {"w": ad.ones(3, dtype=ad.float64), "b": [np.full(3, 2.0)]}
    q = (np.arange(3.0), ad.tensor([1.0, 2.0], dtype=ad.float64))
    fast(p, q)
    fast(p, q)  # from the second call on
    general, asked = fast._general, []
    fast._general = lambda *given: asked.append(given) or general(*given)
    assert fast(p, q)["y"].tolist() == [2.0, 3.0, 4.0]
    assert asked == []
    others: list[Any] = [
        ({"b": p["b"], "w": p["w"]}, q),  # the keys in another order
        (p, [*q]),  # a list for a tuple
        ({**p, "w": 3.0}, q),  # a number for a tensor
        ({**p, "w": np.ones(6)[::2]}, q),  # not contiguous
        ({**p, "w": ad.ones(3)}, q),  # another dtype
    ]
    for number, given in enumerate(others):
        got, want = fast(*given), function(*given)
        assert len(asked) == number + 1
        assert got["y"].tolist() == want["y"].tolist()
        assert got["y"].dtype is ad.as_tensor(want["y"]).dtype
        fast(p, q)
        del asked[number + 1 :]


@pytest.mark.parametrize("transform", [ad.compile, ad.grad, ad.vmap, ad.jacobian, ad.hessian])
def test_what_is_not_a_function_is_refused_at_once(transform: Callable[..., Any]) -> None:
    with pytest.raises(ad.AdjointError, match="needs a function, got int"):
        transform(3)


# -- arguments that are written to -----------------------------------------------------------------

WRITTEN: dict[str, tuple[Callable[..., Any], Callable[[], tuple[Any, ...]]]] = {
    "added to": (lambda x, y: (x.add_(y), x * 2)[1], lambda: (make(3), make(3, seed=1))),
    "no result": (lambda p, g: p.sub_(g, alpha=0.5) is None or None, lambda: (make(3), make(3))),
    "itself returned": (lambda x: (x.mul_(2), {"x": x}, x[0]), lambda: (make(3),)),
    "a view of another": (lambda x: x.zero_(), lambda: (make(4, 3)[:, 1],)),
    "a slice of it": (lambda x: x[1:].exp_().sum() + x.sum(), lambda: (make(4),)),
    "by index": (lambda x, i: x.__setitem__(i, 0.0), lambda: (make(4), ad.tensor([2, 0]))),
    "out=": (lambda x, y: ad.sin(x, out=y).sum(), lambda: (make(3), make(3, seed=1))),
    "in a container": (lambda d: d["k"].fill_(7).sum(), lambda: ({"k": make(3), "n": make(2)},)),
    "one that shares memory": (lambda x, y: (x.add_(1), y * 1)[1], lambda: (x := make(3), x[1:])),
    "in a loop": (
        lambda x: x.copy_(ad.scan(lambda c, s: (c + s, None), x.sum(), x)[0].expand(3)),
        lambda: (make(3),),
    ),
}


@pytest.mark.parametrize("name", WRITTEN)
def test_a_compiled_function_changes_the_arguments_that_it_writes_to(name: str) -> None:
    function, arguments = WRITTEN[name]
    compiled = ad.compile(function)
    eagerly, natively = arguments(), arguments()
    for _ in range(3):
        expected, found = function(*eagerly), compiled(*natively)
        assert_same(found, expected)
        assert_same(natively, eagerly)
    pairs = zip(pytrees.leaves(expected), pytrees.leaves(found), strict=True)
    ours, theirs = pytrees.leaves(natively), pytrees.leaves(eagerly)
    for a, b in pairs:  # an argument that is returned is itself
        assert [a is t for t in theirs] == [b is t for t in ours]


def test_writes_to_arguments_are_known_to_the_tape() -> None:
    fill = ad.compile(lambda buffer, x: (buffer.copy_(x * 2), x.sum())[1])
    x, buffer = make(3).requires_grad_(), make(3)
    fill(buffer, x)
    buffer.sum().backward()
    assert ad.allclose(x.grad, ad.full((3,), 2.0, dtype=ad.float64))
    saved = make(3)
    y = (x * saved).sum()
    ad.compile(lambda t: t.zero_())(saved)
    with pytest.raises(InplaceError, match="changed in place"):
        y.backward()


def test_arguments_that_cannot_be_written_to_are_refused() -> None:
    with pytest.raises(InplaceError, match="requires a gradient"):
        ad.compile(lambda x: x.mul_(2))(make(3).requires_grad_())
    with pytest.raises(InplaceError, match=r"test_interface.py:\d+: .* return it"):
        ad.compile(lambda x: x.t_())(make(2, 3))
    with pytest.raises(InplaceError, match="expanded"):
        ad.compile(lambda x: x.add_(1))(make(1).expand(3))


# -- static arguments ------------------------------------------------------------------------------


def test_a_static_number_is_one_that_python_may_look_at() -> None:
    def f(x: Any, base: float, *, flag: bool = True) -> Any:
        return x.sum() * math.log(base) if flag else x

    x = ad.tensor([1.0, 2.0])
    with pytest.raises(ad.graph.TraceError, match="static_argnums"):
        ad.compile(f)(x, 2.0)
    for compiled in (ad.compile(f, static_argnums=1), ad.compile(f, static_argnames="base")):
        assert ad.allclose(compiled(x, 2.0), f(x, 2.0))
        assert ad.allclose(compiled(x, 3.0), f(x, 3.0))
        assert ad.allclose(compiled(x, base=3.0), f(x, 3.0))
        compiled(x, 2.0)
        assert len(compiled.programs) == 3  # by position 2.0 and 3.0, by name 3.0
    gradient = ad.compile(ad.grad(f), static_argnums=(1,))
    assert ad.allclose(gradient(x, 2.0), ad.grad(f)(x, 2.0))
    leaf = x.clone().requires_grad_()
    ad.compile(f, static_argnums=1)(leaf, 2.0).backward()
    assert ad.allclose(leaf.grad, ad.grad(f)(x, 2.0))


def test_static_arguments_are_checked() -> None:
    f = lambda x, n: x * n[0]
    with pytest.raises(ArgumentError, match="no argument 'm'"):
        ad.compile(f, static_argnames="m")
    compiled = ad.compile(f, static_argnames="n")
    assert ad.allclose(compiled(ad.ones(2), (2.0, "any")), ad.full((2,), 2.0))
    with pytest.raises(ArgumentError, match="cannot be hashed"):
        compiled(ad.ones(2), [1.0])
    with pytest.raises(ArgumentError, match="a tensor was given"):
        compiled(ad.ones(2), ad.ones(2))


def test_static_positions_that_no_argument_has_are_refused() -> None:
    with pytest.raises(ArgumentError, match="7 is no position .* has 2"):
        ad.compile(lambda x, n: x, static_argnums=(1, 7))
    with pytest.raises(ArgumentError, match="static_argnames"):
        ad.compile(lambda x, n: x, static_argnums="n")  # type: ignore[arg-type]
    later = ad.compile(lambda x, *numbers: x * math.log(numbers[2]), static_argnums=3)
    assert ad.allclose(later(ad.ones(1), 1, 1, math.e), ad.ones(1))


@pytest.mark.parametrize(
    "values",
    [(0.0, -0.0, 0), (1, 1.0, True), (0j, -0j, complex(0, -0.0)), ((0.0,), (-0.0,), (0,))],
)
def test_static_values_that_python_tells_apart_are_programs_of_their_own(values: Any) -> None:
    compiled = ad.compile(lambda x, v: (x, repr(v)), static_argnums=1)
    for value in values:
        assert compiled(ad.ones(1), value)[1] == repr(value)


def test_a_static_nan_is_one_program() -> None:
    compiled = ad.compile(lambda x, v: x * (v != v), static_argnums=1)
    for _ in range(3):
        assert float(compiled(ad.ones(1), float("nan"))) == 1
    assert len(compiled.programs) == 1


def test_compile_takes_pytorchs_options_and_decorates() -> None:
    x = ad.tensor([1.0, 2.0])

    @ad.compile(fullgraph=True, mode="max-autotune", dynamic=False, backend="inductor")
    def twice(x: ad.Tensor) -> ad.Tensor:
        return x * 2

    assert isinstance(twice, type(ad.compile(lambda x: x)))
    assert twice(x).tolist() == [2.0, 4.0]
    plain = lambda x: x + 1
    assert ad.compile(plain, disable=True) is plain
    assert ad.compile(plain, backend="eager") is plain
    assert ad.compile(plain, dynamic=True)(x).tolist() == [2.0, 3.0]
    for wrong in ({"backend": "tvm"}, {"mode": "fast"}, {"options": {"trace.enabled": True}}):
        with pytest.raises(ad.errors.ArgumentError, match="compile"):
            ad.compile(plain, **wrong)  # type: ignore[arg-type]


# -- the short way in


def _called_twice(f: Any, *args: Any) -> Any:
    """A compiled function that takes the short way for such arguments."""
    compiled = ad.compile(f)
    compiled(*args)
    compiled(*args)
    assert compiled.entry[0] is not None
    return compiled


def test_the_short_way_holds_no_reference_too_many_or_too_few() -> None:
    """Arguments, results and what describes them are as often held after many calls as before."""
    x, y = ad.ones(3, 2, dtype=ad.float64), np.ones((3, 2))
    compiled = _called_twice(lambda x, y: ((x * y).sum(), [x + y, x - y]), x, y)
    things = (x, x.value, y, y.dtype, None, ad.ones(1).counter, np.ndarray, ad.Tensor)
    gc.collect()  # what other tests left holds None, too
    before = [sys.getrefcount(t) for t in things]
    kept = [compiled(x, y) for _ in range(100)]
    arrays = [weakref.ref(part.value) for _, parts in kept for part in parts]
    assert all(ref() is not None for ref in arrays)
    del kept
    assert all(ref() is None for ref in arrays)
    after = [sys.getrefcount(t) for t in things]
    assert all(abs(a - b) < 50 for a, b in zip(after, before, strict=True))  # None is held by many


def test_the_short_way_declines_what_it_is_not_for() -> None:
    """Other shapes, dtypes, layouts and types are computed all the same; history is recorded."""
    x = ad.arange(6.0).reshape(2, 3)
    compiled = _called_twice(lambda x: x * 2, x)
    others = [
        ad.arange(5.0), ad.arange(6), x.t(), np.arange(6.0).reshape(2, 3), 3.0,
        np.arange(12.0, dtype=np.float32).reshape(4, 3)[::2],
    ]  # fmt: skip
    for other in others:
        np.testing.assert_array_equal(compiled(other).numpy(), np.asarray(other) * 2)
    assert compiled(ad.nn.Parameter(x)).requires_grad
    with ad.default_dtype(ad.float64):
        assert compiled(x).dtype is ad.float32
    with pytest.raises(TypeError):
        compiled(x, x)


def test_results_of_the_short_way_are_tensors_like_others() -> None:
    x = ad.ones(4)
    (result,) = _called_twice(lambda x: (x + 1,), x)(x)
    result.note = "a tensor has attributes"
    result += 1
    assert result.requires_grad_().sum().backward() is None
    np.testing.assert_array_equal(result.grad.numpy(), np.ones(4))
    assert weakref.ref(result)() is result


def test_threads_take_the_short_way_together() -> None:
    """Each gets the results of its own arguments, for programs that wait for no lock and others."""
    for size in (50, 200_000):
        compiled = _called_twice(lambda x: (x * x, x + 1), ad.ones(size))

        def work(number: int, compiled: Any = compiled, size: int = size) -> bool:
            x = ad.full((size,), float(number))
            found = [compiled(x) for _ in range(20)]
            return all((a == number**2).all() and (b == number + 1).all() for a, b in found)

        with ThreadPoolExecutor(4) as pool:
            assert all(pool.map(work, range(8)))


def test_results_that_are_returned_in_another_shape_have_the_quick_way_in() -> None:
    def function(x: Any) -> Any:
        y = x.exp()
        return (x * 2).reshape(6, 1, 2), x.sum(1, keepdim=True).squeeze(1), y.T, y[1:]

    x = make(3, 4)
    quick = ad.compile(lambda x: function(x)[:2])
    for _ in range(3):
        assert_same(quick(x), function(x)[:2])
    ((program, _),) = quick.programs.values()
    assert program.direct == [0, 1]
    assert program.entry is not None
    assert_same(ad.compile(function)(x), function(x))
    twice = ad.compile(lambda x: (x.cos().reshape(12), x.cos().reshape(4, 3)))(x)
    assert not np.shares_memory(*(t.numpy() for t in twice))
    assert_same(twice, (x.cos().reshape(12), x.cos().reshape(4, 3)))
