"""Routines that compiled programs call on whole arrays do what the eager kernels do: sorting,
running extrema, places that indices choose, factors of matrices."""

from __future__ import annotations

import functools
import operator
import os
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import adjoint as ad
from adjoint.core.errors import ValueRangeError
from adjoint.toolchain import build
from tests.compiler.test_interface import assert_same

pytestmark = pytest.mark.skipif(build.compiler() is None, reason="needs a C compiler")


def numbers(*shape: int, seed: int = 0) -> ad.Tensor:
    """Numbers of which many are equal, some of them infinite or none at all."""
    generator = np.random.default_rng(seed)
    values = generator.integers(-4, 5, shape).astype(np.float64)
    values[generator.random(shape) < 0.1] = np.nan
    values[generator.random(shape) < 0.05] = np.inf
    values[generator.random(shape) < 0.05] = -np.inf
    return ad.tensor(values, dtype=ad.float64)


def whole(*shape: int, high: int = 9, seed: int = 0) -> ad.Tensor:
    return ad.tensor(np.random.default_rng(seed).integers(0, high, shape))


ORDERS: dict[str, Callable[[Any], Any]] = {
    "sort": lambda x: [x.sort(dim, descending) for dim in (0, 1) for descending in (False, True)],
    "extrema": lambda x: [f(dim) for f in (x.cummax, x.cummin) for dim in (0, 1)],
    "chosen": lambda x: [f(dim) for f in (x.median, x.mode, x.nanmedian) for dim in (0, 1)],
    "medians": lambda x: [x.median(), x.nanmedian()],
    "ranks": lambda x: [x.topk(3, 0), x.topk(1, 1, largest=False), x.kthvalue(2, 0)],
    "searching": lambda x: [ad.searchsorted(x.sort(1)[0], x, right=r) for r in (False, True)],
}


@pytest.mark.parametrize("shape", [(1, 1), (7, 3), (16, 5), (40, 3), (3, 131)])
@pytest.mark.parametrize("name", ORDERS)
def test_orders_are_those_of_eager_mode(name: str, shape: tuple[int, int]) -> None:
    function = ORDERS[name]
    if name == "ranks" and shape[0] < 3:
        shape = (3, 3)
    for x in (numbers(*shape), numbers(*shape, seed=1).float(), whole(*shape), whole(*shape) > 3):
        if name == "medians" and x.dtype is ad.bool:
            continue
        compiled = ad.compile(function)
        assert_same(compiled(x), function(x))
        assert compiled.lower(x).callbacks() == []


@pytest.mark.parametrize("reduce", ["sum", "prod", "mean", "amax", "amin"])
@pytest.mark.parametrize("include_self", [True, False])
def test_scattered_elements_are_joined_as_in_eager_mode(reduce: str, include_self: bool) -> None:
    def function(x: Any, i: Any, y: Any) -> Any:
        return x.scatter_reduce(1, i, y, reduce, include_self=include_self)

    for dtype in (ad.float64, ad.float32, ad.int64):
        x, y = whole(4, 6).to(dtype) - 4, whole(5, 7, seed=1).to(dtype) - 4
        assert_same(
            ad.compile(function)(x, whole(3, 5, high=6), y), function(x, whole(3, 5, high=6), y)
        )


def test_whole_numbers_divided_by_zero_are_told_in_eager_words() -> None:
    compiled = ad.compile(lambda a, b: a.div(b, rounding_mode="floor"))
    least = -(2**63)
    given = ad.tensor([7, -7, least, least]), ad.tensor([-2, 2, -1, 3])
    assert_same(compiled(*given), given[0].div(given[1], rounding_mode="floor"))
    with pytest.raises(ValueError, match="division by zero"):
        compiled(ad.tensor([1, 2, 3, 4]), ad.tensor([1, 0, 1, 1]))


@pytest.mark.parametrize("high", [100, 2**40, 2**63 - 1])
@pytest.mark.parametrize("count", [1, 31, 33, 700, 6000])
def test_members_of_whole_numbers_are_those_of_numpy(count: int, high: int) -> None:
    generator = np.random.default_rng(count)
    numbers = generator.integers(-high - 1, high, count)
    elements = np.concatenate([numbers[:500], generator.integers(-high - 1, high, 3000)])
    for invert in (False, True):
        function = functools.partial(ad.isin, invert=invert)
        compiled = ad.compile(function)
        given = ad.tensor(elements), ad.tensor(numbers)
        want = np.isin(elements, numbers, invert=invert)
        np.testing.assert_array_equal(compiled(*given).numpy(), want)
        np.testing.assert_array_equal(function(*given).numpy(), want)
        narrow = [t.to(ad.int8) for t in given]
        assert_same(compiled(*narrow), function(*narrow))


@pytest.mark.parametrize("dtype", [ad.int8, ad.uint8, ad.int16, ad.int32, ad.int64], ids=str)
@pytest.mark.parametrize("function", [operator.floordiv, operator.mod, ad.fmod])
def test_quotients_and_rests_of_whole_numbers_are_exact(function: Any, dtype: Any) -> None:
    info = ad.iinfo(dtype)
    found = {info.min, info.min + 1, info.max, 0, 1, 2, 3, 7, max(-1, info.min), max(-7, info.min)}
    dividends, divisors = sorted(found), sorted(found - {0})
    a = ad.tensor([[a] * len(divisors) for a in dividends], dtype=dtype)
    b = ad.tensor([divisors] * len(dividends), dtype=dtype)
    compiled = ad.compile(function)
    assert_same(compiled(a, b), function(a, b))
    assert not compiled.lower(a, b).callbacks()
    with pytest.raises(ValueError, match="division by zero"):
        compiled(a, b * 0)


@pytest.mark.parametrize("n", [1, 2, 3, 5, 8, 12, 30, 31, 37, 49, 64, 74, 97, 101, 128, 210, 1009])
def test_fourier_transforms_of_every_length_have_the_accuracy_of_numpy(n: int) -> None:
    generator = np.random.default_rng(n)
    x = generator.standard_normal((2, n, 3))
    z = x + 1j * generator.standard_normal((2, n, 3))

    def function(x: Any, z: Any) -> Any:
        half = ad.fft.rfft(x, dim=1)
        whole = ad.fft.fft(z, dim=1), ad.fft.ifft(z, dim=1, norm="ortho")
        return [half, ad.fft.irfft(half, n=n, dim=1), *whole, ad.fft.fftn(z), ad.fft.fft(x, dim=1)]

    compiled = ad.compile(function)
    given = ad.tensor(x, dtype=ad.float64), ad.tensor(z, dtype=ad.complex128)
    found = [t.numpy() for t in compiled(*given)]
    expected = [
        np.fft.rfft(x, axis=1), x, np.fft.fft(z, axis=1), np.fft.ifft(z, axis=1, norm="ortho"),
        np.fft.fftn(z), np.fft.fft(x, axis=1),
    ]  # fmt: skip
    for ours, exact in zip(found, expected, strict=True):
        assert np.abs(ours - exact).max() <= 2e-15 * max(np.abs(exact).max(), 1)
    assert compiled.lower(*given).callbacks() == []


@pytest.mark.parametrize(
    "shape", [(1,), (20, 64), (3, 1000), (10007,), (199998,), (40, 97), (9, 31)]
)
@pytest.mark.parametrize("dtype", [ad.float64, ad.float32])
def test_lines_are_transformed_one_by_one_or_side_by_side_alike(shape: Any, dtype: Any) -> None:
    generator = np.random.default_rng(0)
    x = generator.standard_normal(shape).astype(dtype.np)
    z = x + (1j * generator.standard_normal(shape)).astype(np.result_type(dtype.np, np.complex64))
    n = shape[-1]

    def function(x: Any, z: Any) -> Any:
        half = ad.fft.rfft(x)
        return half, ad.fft.irfft(half, n=n), ad.fft.fft(z), ad.fft.ifft(z), ad.fft.hfft(z, n=n)

    given = ad.tensor(x), ad.tensor(z)
    exact = np.fft.rfft(x), x, np.fft.fft(z), np.fft.ifft(z), np.fft.hfft(z, n=n)
    error = 20 * ad.finfo(dtype).eps
    compiled = ad.compile(function)
    for found in (compiled(*given), function(*given)):
        for ours, wanted in zip(found, exact, strict=True):
            assert np.abs(ours.numpy() - wanted).max() <= error * max(np.abs(wanted).max(), 1)
    assert compiled.lower(*given).callbacks() == []


@pytest.mark.parametrize("dtype", [ad.float16, ad.bfloat16])
def test_halves_are_read_exactly_and_rounded_to_nearest(dtype: Any) -> None:
    every = np.arange(1 << 16, dtype=np.uint16).view(dtype.np)
    wide = every.astype(np.float32)
    found = ad.compile(lambda h: h.to(ad.float32))(ad.from_numpy(every.copy())).numpy()
    np.testing.assert_array_equal(found, wide)
    generator = np.random.default_rng(0)
    numbers = generator.standard_normal(50_000) * 10.0 ** generator.uniform(-9, 6, 50_000)
    finite = np.sort(wide[np.isfinite(wide)]).astype(np.float64)
    ties = (finite[1:] + finite[:-1]) / 2
    for given in (numbers.astype(np.float32), ties, np.array([65519.9, 65520, np.inf, -np.inf])):
        given = given.astype(np.float32)
        with np.errstate(over="ignore"):
            expected = given.astype(dtype.np)
        found = ad.compile(lambda x: x.to(dtype))(ad.from_numpy(given)).numpy()
        np.testing.assert_array_equal(found.view(np.uint16), expected.view(np.uint16))


@pytest.mark.parametrize("dtype", [ad.float16, ad.bfloat16])
def test_programs_in_halves_round_as_eager_mode_does(dtype: Any) -> None:
    generator = np.random.default_rng(0)
    x, y = (ad.tensor(generator.standard_normal((6, 8))).to(dtype) for _ in range(2))

    def function(x: Any, y: Any) -> Any:
        return [
            x + y, x * 2.5 - y, x.exp() / y, x > y, ad.where(x > 0, x, y), x.sum(1), x @ y.mT,
            x.softmax(-1), x.cumsum(0), ad.cat([x, y]), x.sort(0)[0], x.mean(), x.amax(0),
            ad.nn.functional.gelu(x), ad.nn.functional.avg_pool1d(x, 3, 1, 1),
        ]  # fmt: skip

    compiled = ad.compile(function)
    for ours, eager in zip(compiled(x, y), function(x, y), strict=True):
        assert ours.dtype is eager.dtype
        np.testing.assert_array_equal(ours.numpy(), eager.numpy())
    assert compiled.lower(x, y).callbacks() == []


def test_routines_take_open_sizes() -> None:
    def function(x: Any) -> Any:
        half = ad.fft.rfft(x, norm="ortho")
        return [half.abs(), x.sort(0)[0], x.cummax(1)[0], ad.fft.ifft(x).real, x.median(0)[0]]

    compiled = ad.compile(function, dynamic=True)
    for shape in ((4, 6), (5, 7), (9, 3), (30, 31)):
        x = ad.tensor(np.random.default_rng(0).standard_normal(shape), dtype=ad.float64)
        assert_same(compiled(x), function(x))


def layer(x: Any, h: Any, weights: Any, lengths: Any = None) -> Any:
    """A layer of LSTM in both directions, over sequences of given lengths or of one."""
    states = [h, h * 0.5]
    if lengths is None:
        return ad.lstm(x, states, weights, True, 1, 0.0, True, True, False)[0].square().sum()
    packed, sizes = ad.ops._pack_padded_sequence(x, ad.tensor(lengths), False)
    output, last, cell = ad.lstm(packed, sizes, states, weights, True, 1, 0.0, True, True)
    return output.square().sum() + (last * cell).sum()


@pytest.mark.parametrize(("lengths", "dtype"), [(None, ad.float32), ([4, 2, 1], ad.float64)])
def test_layers_over_time_are_calls_of_our_routine(lengths: Any, dtype: Any) -> None:
    draw = np.random.default_rng(0)
    make = lambda *shape: ad.tensor(draw.uniform(-1, 1, shape), dtype=dtype)
    x, h, weights = make(4, 3, 5), make(2, 3, 6), []
    for _ in range(2):
        weights += [make(24, 5), make(24, 6), make(24), make(24)]
    given = x, h, weights
    f = ad.value_and_grad(lambda *given: layer(*given, lengths), argnums=(0, 1, 2))
    compiled = ad.compile(f)
    rounding = {"rtol": 1e-4, "atol": 1e-5} if dtype is ad.float32 else {"rtol": 1e-10}
    for a, b in zip(*map(ad.core.pytrees.leaves, (compiled(*given), f(*given))), strict=True):
        np.testing.assert_allclose(a.numpy(), b.numpy(), **rounding)
    stages = compiled.lower(*given)
    assert "scan" not in str(stages.lowered)
    assert stages.callbacks() == []


def test_sizes_of_batches_that_grow_are_refused_by_compiled_layers() -> None:
    gates, state, weight = ad.ones(2, 3, 8), ad.ones(3, 2), ad.ones(8, 2)
    f = lambda sizes: ad.ops._lstm_layer(gates, state, state, weight, None, sizes, False)
    compiled = ad.compile(f)
    assert_same(compiled(ad.tensor([3, 2])), f(ad.tensor([3, 2])))
    for sizes in ([2, 3], [4, 1], [1, 0]):
        with pytest.raises(ValueRangeError, match="must not grow and lie between 1 and 3"):
            compiled(ad.tensor(sizes))


WITHOUT_EAGER_KERNELS = """
import numpy as np
import adjoint as ad
x = ad.tensor(np.random.default_rng(0).random((40, 40)), dtype=ad.float64)
f = lambda x: ad.linalg.cholesky(x @ x.mT + 40 * ad.eye(40, dtype=ad.float64)).sort(0)[0]
compiled = ad.compile(f)
assert np.allclose(compiled(x).numpy(), f(x).numpy())
assert compiled.lower(x).callbacks() == []
"""


def test_programs_have_their_routines_where_eager_mode_has_no_c_kernels() -> None:
    settings = os.environ | {"ADJOINT_NATIVE": "0"}
    subprocess.run([sys.executable, "-c", WITHOUT_EAGER_KERNELS], check=True, env=settings)
