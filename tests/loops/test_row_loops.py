"""Large arrays: kernels made of the rows' C texts give what the NumPy kernels give."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import adjoint as ad
from adjoint.c_kernels import conversions
from adjoint.calls import inplace
from adjoint.core import dtypes
from adjoint.expressions.trees import Number, Operand
from adjoint.loops import formula_loops, gate, row_loops
from adjoint.loops.element_loops import MOST_LOOPS, of_tree
from adjoint.toolchain import background, discovery

pytestmark = pytest.mark.skipif(discovery.toolchain() is None, reason="needs a C compiler")

N = gate.LARGE + 37


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Native code is there when it is first asked for."""
    monkeypatch.setattr(background, "soon", background.now)


def draw(*shape: int, dtype: Any = np.float64, seed: int = 0) -> Any:
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


LAYOUTS: dict[str, Callable[[Any], tuple[Any, Any]]] = {
    "same": lambda draw: (draw(N), draw(N, seed=1)),
    "one number": lambda draw: (draw(N), draw(1, seed=1)),
    "a row": lambda draw: (draw(200, 100), draw(100, seed=1)),
    "a row with ones": lambda draw: (draw(200, 100), draw(1, 100, seed=1)),
    "a column": lambda draw: (draw(200, 100), draw(200, 1, seed=1)),
    "an image's channels": lambda draw: (draw(20, 10, 12, 11), draw(20, 10, 1, 1, seed=1)),
    "both turned": lambda draw: (draw(200, 100).T, draw(200, 100, seed=1).T),
    "channels last": lambda draw: (
        np.moveaxis(draw(20, 12, 11, 10), -1, 1), np.moveaxis(draw(20, 12, 11, 10, seed=1), -1, 1)
    ),
    "one turned": lambda draw: (draw(200, 100), draw(100, 200, seed=1).T),
    "two dimensions between": lambda draw: (draw(20, 10, 12, 11), draw(10, 1, 1, seed=1)),
    "with gaps": lambda draw: (draw(2 * N)[::2], draw(2 * N, seed=1)[::2]),
    "backwards": lambda draw: (draw(N)[::-1], draw(N, seed=1)[::-1]),
    "the first is small": lambda draw: (draw(100), draw(200, 100, seed=1)),
}  # fmt: skip


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16", "int32"])
@pytest.mark.parametrize("name", LAYOUTS)
def test_every_layout_gives_numpys_result(name: str, dtype: str) -> None:
    kind = dtypes.NAMES[dtype].np
    a, b = LAYOUTS[name](lambda *shape, seed=0: (10 * draw(*shape, seed=seed)).astype(kind))
    found = row_loops.RowLoops(ad.ops.maximum.default.row)(a, b)
    expected = np.maximum(a, b)
    assert found is not None
    assert (found.shape, found.dtype) == (expected.shape, expected.dtype)
    np.testing.assert_array_equal(found.astype(np.float64), expected.astype(np.float64))
    if found.flags.c_contiguous != expected.flags.c_contiguous:
        assert found.strides == expected.strides


@pytest.mark.parametrize("shape", [(N, 1), (N // 3 + 1, 3), (3, N // 3), (7, 5, 3, 2, 200)])
def test_rows_of_any_length(shape: tuple[int, ...]) -> None:
    """Rows shorter than a vector, longer than a block, more dimensions than a loop has."""
    a, b = draw(*shape), draw(*shape[1:], seed=1)
    for x, y in ((a, b), (a, b[..., :1]), (a[..., ::-1], b), (a.T, b.T[..., None])):
        found = row_loops.RowLoops(ad.ops.sub.Tensor.row)(x, y, 1)
        assert found is not None
        np.testing.assert_array_equal(found, x - y)


def test_a_column_beside_a_row_is_large_when_the_result_is() -> None:
    column, row = draw(300, 1), draw(1, 300, seed=1)
    found = ad.tensor(column) * ad.tensor(row)
    np.testing.assert_array_equal(found, column * row)
    empty = ad.ones(300, 1, 200) * ad.ones(300, 0, 200)
    assert empty.shape == (300, 0, 200)


def test_shapes_that_do_not_fit_are_refused_in_our_words() -> None:
    with pytest.raises(ad.errors.ShapeError):
        ad.add(ad.ones(200, 100), ad.ones(200, 99))


def test_a_row_is_built_for_few_numbers_only() -> None:
    kernel = row_loops.RowLoops(ad.ops.add.Scalar.row)
    x = draw(N)
    for number in range(20):
        found = kernel(x, float(number), 1)
        if found is not None:
            np.testing.assert_allclose(found, x + number)
    (texts,) = kernel.loops.values()
    assert len(texts) <= MOST_LOOPS


def test_gradients_of_large_arrays_are_those_of_small_ones() -> None:
    def loss(x: ad.Tensor) -> ad.Tensor:
        hidden = ad.nn.functional.gelu(x * x.sigmoid() - 0.3)
        return (hidden.exp() * ad.nn.functional.silu(x)).sum()

    x = draw(N)
    whole = ad.grad(loss)(ad.tensor(x))
    parts = ad.cat([ad.grad(loss)(ad.tensor(p)) for p in np.array_split(x, 10)])
    np.testing.assert_allclose(whole, parts, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_halves_are_computed_in_float32_and_rounded_once(dtype: str) -> None:
    half = dtypes.NAMES[dtype].np
    x = np.concatenate([draw(N), [np.nan, np.inf, -np.inf, -0.0, 1e-7, 6e4]]).astype(half)
    wide = x.astype(np.float32)
    found = row_loops.RowLoops(ad.ops.silu.default.row)(x)
    exact = row_loops.RowLoops(ad.ops.silu.default.row)(wide)
    assert found is not None
    assert exact is not None
    once = np.where(np.isnan(exact), np.nan, exact).astype(half)  # a NaN's sign means nothing
    found[np.isnan(found)] = np.nan
    np.testing.assert_array_equal(found.view(np.uint16), once.view(np.uint16))


def test_every_float16_is_read_and_written_as_numpy_does() -> None:
    bits = np.arange(1 << 16, dtype=np.uint16)
    halves = bits.view(np.float16)
    read = of_tree(Operand("x", dtypes.float32), {"x": "float16"}, (), "float32")
    write = of_tree(Operand("x", dtypes.float32), {"x": "float32"}, (), "float16")
    for step in (1, 2, -1):  # in vectors, and one by one
        wide = read([halves[::step]])
        assert wide is not None
        np.testing.assert_array_equal(wide, halves[::step].astype(np.float32))
        with np.errstate(all="ignore"):
            near = [np.nextafter(wide, np.float32(to)) for to in (np.inf, -np.inf)]
            between = wide + np.spacing(halves[::step]).astype(np.float32) / 2
            for x in (wide, *near, between):
                back = write([x[::step]])
                assert back is not None
                np.testing.assert_array_equal(back, x[::step].astype(np.float16))


@pytest.mark.parametrize("half", ["float16", "bfloat16"])
@pytest.mark.parametrize("wide", [np.float32, np.float64])
def test_halves_are_rounded_once(wide: Any, half: str) -> None:
    """A double half way between two halves, and just beside it: 1 + 2⁻¹¹ ± 2⁻⁴⁰."""
    kind = dtypes.NAMES[half].np
    between = 1 + np.arange(-3, 4) * float(np.finfo(kind).eps) / 2 if half == "float16" else None
    steps = np.arange(1, 400) * 2.0**-9 if between is None else between
    x = np.concatenate([draw(N), *(steps + d for d in (0, 2.0**-40, -(2.0**-40)))]).astype(wide)
    found = conversions.astype(x, kind)
    with np.errstate(all="ignore"):
        exact = x.astype(kind)
    if half == "float16":  # ml_dtypes itself rounds a double twice
        np.testing.assert_array_equal(found, exact)
    np.testing.assert_allclose(found.astype(np.float64), x, rtol=float(2.0**-8), atol=1e-7)
    np.testing.assert_array_equal(conversions.astype(found, wide), found.astype(wide))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_remainders_are_exact(dtype: Any) -> None:
    """Of multiples that rounded, of far quotients, of zeros and infinities."""
    generator = np.random.default_rng(0)
    b = (generator.standard_normal(N) * 10.0 ** generator.integers(-6, 6, N)).astype(dtype)
    a = (b * generator.integers(-1000, 1000, N)).astype(dtype)
    odd = np.array([0, -0.0, np.inf, -np.inf, np.nan, 1, -1, 1e-45, 1e38, 3], dtype)
    pairs = [np.repeat(g.ravel(), N // 100 + 1) for g in np.meshgrid(odd, odd)]
    for x, y in ((a, b), (b, a), (a[::-1], b), pairs):
        found = row_loops.RowLoops(ad.ops.fmod.Tensor.row)(x, y)
        with np.errstate(all="ignore"):
            expected = np.fmod(x, y)
        np.testing.assert_array_equal(found, expected)
        np.testing.assert_array_equal(np.signbit(found), np.signbit(expected))


def test_functions_for_float_are_as_accurate_as_float() -> None:
    """Texts of their own for float32, compared with double; also in blocks with rare elements."""
    near, wide = np.linspace(-0.9999999, 0.9999999, N), np.linspace(1e-3, 90, N)
    odd = np.array([1, 2, -1, 0, np.inf, -np.inf, np.nan, -2.5, 1e-40, 3e38])
    calls = {
        ad.ops.erfinv.default: (near, np.concatenate([near, odd])),
        ad.ops.lgamma.default: (wide, np.concatenate([wide, odd])),
        ad.ops.special_ndtr.default: (wide - 14, np.concatenate([wide, odd])),
    }
    for op, arrays in calls.items():
        for x in arrays:
            single = x.astype(np.float32)
            found = row_loops.RowLoops(op.row)(single)
            with np.errstate(all="ignore"):
                expected = op(ad.tensor(single.astype(np.float64))).numpy().astype(np.float32)
            np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-37)


@pytest.mark.parametrize("name", LAYOUTS)
def test_complex_numbers_may_lie_anyhow(name: str) -> None:
    a, b = LAYOUTS[name](lambda *shape, seed=0: draw(*shape, seed=seed) * (1 - 2j))
    found = row_loops.RowLoops(ad.ops.add.Tensor.row)(a, b, 2 + 1j)
    np.testing.assert_allclose(found, a + (2 + 1j) * b, rtol=1e-14)
    odd = np.frombuffer(bytearray(16 * N + 8), np.complex128, N, 8)  # between their addresses
    np.testing.assert_array_equal(ad.tensor(odd).exp(), np.ones(N))


def test_parts_of_complex_numbers_are_no_complex_numbers() -> None:
    z = ad.ones(N, dtype=ad.complex64)
    with pytest.raises(ad.errors.DtypeError, match="must both be float32"):
        ad.complex(z, z)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", ["hypot", "copysign"])  # with libmvec, and without
def test_results_do_not_depend_on_where_arrays_lie(name: str, dtype: Any) -> None:
    x, y = draw(N, dtype=dtype), draw(N, dtype=dtype, seed=1)
    run = row_loops.RowLoops(getattr(ad.ops, name).operators[0].row)
    expected = run(x, y)
    assert expected is not None
    for shift in range(64 // x.itemsize):
        own = np.empty(N + 64, dtype)[shift : shift + N]
        own[:] = x
        assert run(own, y, out=own) is own
        assert own.tobytes() == expected.tobytes()


RARE: dict[str, tuple[float, ...]] = {  # operators with a quick way, and an element that has none
    "fmod": (1e30, 1e-3),
    "remainder": (1e30, 1e-3),
    "floor_divide": (1e30, 1e-3),
    "lgamma": (-1.5,),
    "erfinv": (0.9999,),
    "_expit_backward": (1.0, 9.0, 0.9998766054240137),
}


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", RARE)
def test_results_do_not_depend_on_their_neighbours(name: str, dtype: Any) -> None:
    """A block of which one element is rare is computed the long way, with the same values."""
    run = row_loops.RowLoops(getattr(ad.ops, name).operators[0].row)
    rng = np.random.default_rng(0)
    common = [rng.uniform(0.1, 0.7, N).astype(dtype) for _ in RARE[name]]
    mixed = [np.where(np.arange(N) % 100, c, dtype(r)) for c, r in zip(common, RARE[name])]
    alone, beside = run(*common), run(*mixed)
    assert alone is not None
    assert beside is not None
    np.testing.assert_array_equal(alone[np.arange(N) % 100 > 0], beside[np.arange(N) % 100 > 0])


GRADIENTS: dict[str, Callable[[Any, Any], Any]] = {
    "relu": lambda x, y: x.relu(),
    "leaky relu": lambda x, y: ad.nn.functional.leaky_relu(x, 0.2),
    "gelu": lambda x, y: ad.nn.functional.gelu(x),
    "gelu by tanh": lambda x, y: ad.nn.functional.gelu(x, approximate="tanh"),
    "elu": lambda x, y: ad.nn.functional.elu(x, 0.7),
    "softplus": lambda x, y: ad.nn.functional.softplus(x, 2.0),
    "hardsigmoid": lambda x, y: ad.nn.functional.hardsigmoid(x),
    "clamp": lambda x, y: x.clamp(-0.5, 0.5),
    "power": lambda x, y: x.square().pow(1.5),
    "product": lambda x, y: x * y,
    "quotient": lambda x, y: x / (y * y + 1),
    "row": lambda x, y: x.reshape(-1, 30) * y[:30],
    "column": lambda x, y: x.reshape(30, -1) / (2 + y[:30, None].square()),
    "turned": lambda x, y: (x.reshape(30, -1).T * 2).exp(),
    "choice": lambda x, y: ad.where(x > y, x, y),
    "mask": lambda x, y: x.masked_fill(y > 0, 0.5),
    "logarithms": lambda x, y: ad.logaddexp(x, y) + ad.log1p(x.square()),
    "of two types": lambda x, y: x * y.float(),
    "hypotenuse": lambda x, y: ad.hypot(x, y),
    "variance of rows": lambda x, y: x.reshape(30, -1).var(1),
    "variance of columns": lambda x, y: x.reshape(30, -1).T.var(0),
    "deviation of all": lambda x, y: x.std(),
    "logarithm of sums": lambda x, y: (x * y).reshape(30, -1).logsumexp(0),
    "logistic": lambda x, y: (0.9 * x).sigmoid() * (9 * y).sigmoid(),
}


OF_COMPLEX_NUMBERS: dict[str, Callable[[Any, Any], Any]] = {
    "sum": lambda x, y: 2 * x - y,
    "product": lambda x, y: x * y,
    "quotient": lambda x, y: x / y,
    "square": lambda x, y: x**2,
    "powers": lambda x, y: x**3 + x**-1 + x**0.5 + x**1.5,
    "power": lambda x, y: x**y,
    "exponentials": lambda x, y: x.exp() + y.log() + x.sqrt(),
    "angles": lambda x, y: x.sin() * y.cos() + x.tanh(),
    "inverse": lambda x, y: x.reciprocal() + y.square(),
    "sizes": lambda x, y: x.abs() * y.angle(),
    "a choice": lambda x, y: ad.where(x.real > 0, x, y.conj()),
    "a row": lambda x, y: x.reshape(-1, 30) * y[:30],
    "a real factor": lambda x, y: x * y.real,
}


@pytest.mark.parametrize(
    ("function", "dtype"),
    [
        *(pytest.param(f, np.float64, id=name) for name, f in GRADIENTS.items()),
        *(
            pytest.param(f, dtype, id=f"{name} of {dtype.__name__}")
            for name, f in OF_COMPLEX_NUMBERS.items()
            for dtype in (np.complex64, np.complex128)
        ),
    ],
)
def test_gradients_in_one_loop_are_those_of_their_formulas(
    function: Any, dtype: Any, monkeypatch: Any
) -> None:
    """A formula on large arrays is one loop; on small ones NumPy's arithmetic."""

    def numbers(shape: tuple[int, ...], seed: int, dtype: Any = dtype) -> Any:
        real = draw(*shape, seed=seed)
        imaginary = 1j * draw(*shape, seed=seed + 1) if np.dtype(dtype).kind == "c" else 0
        return ad.tensor((real + imaginary).astype(dtype))

    def gradients() -> Any:
        x, y = (numbers((N // 30 * 30,), seed).requires_grad_() for seed in (0, 2))
        result = function(x, y)
        weight = numbers(result.shape, 4, result.dtype.np)
        return ad.autograd.grad(result, (x, y), weight, allow_unused=True)

    found = gradients()
    monkeypatch.setattr(
        formula_loops.FormulaLoops, "__call__", lambda self, *given: self.plain(*given)
    )
    tolerance = 64 * np.finfo(dtype).eps
    for one, other in zip(found, gradients(), strict=True):
        assert (one is None) == (other is None)
        if one is not None:
            assert (one.dtype, one.stride()) == (other.dtype, other.stride())
            np.testing.assert_allclose(one, other, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_the_next_number_is_the_next_half(dtype: str) -> None:
    x = ad.full((N,), 1.0, dtype=getattr(ad, dtype))
    assert (ad.nextafter(x, 2 * x) > x).all()
    assert (ad.nextafter(x, 2 * x)[0] == ad.nextafter(x[:1], 2 * x[:1])).all()


def test_parts_of_a_formula_without_a_text_are_operands_of_its_loop(monkeypatch: Any) -> None:
    found: list[Any] = []
    find = formula_loops.FormulaLoops._find
    monkeypatch.setattr(
        formula_loops.FormulaLoops,
        "_find",
        lambda self, given: found.append(find(self, given)) or found[-1],
    )
    x = ad.tensor(draw(300, 201), requires_grad=True)
    x.var(1).sum().backward()
    loop, parts = found[-1]
    assert [name for name, _ in loop.element.operands] == ["self", "part_0", "part_1"]
    assert list(parts) == ["part_0", "part_1"]


def test_a_formula_is_one_loop_where_all_that_it_calls_has_a_text() -> None:
    x = draw(N)

    def loop(text: str, **more: Any) -> Any:
        return formula_loops.element_of(
            ast.parse(text, mode="eval").body, {"grad": x, "self": x} | more
        )

    assert loop("grad * (1 - self.sigmoid())") is not None
    assert loop("where(self > low, grad, 0)", low=0.5) is not None
    assert loop("gelu_backward(grad, self, approximate=how)", how="tanh") is not None
    assert loop("grad * self if mode is None else grad", mode=None) is not None
    assert loop("grad") is None  # nothing to compute
    assert loop("grad * self.sum()") is None
    assert loop("grad * activation.mish_curvature(self)") is None
    assert loop("grad * other", other=x.astype(np.float32)) is None
    assert loop("grad * other", other=x + 1j) is None  # of two dtypes


WRITES: dict[str, Callable[[Any], Any]] = {
    "add": lambda x: x.add_(x.detach().clone(), alpha=2),
    "to itself": lambda x: x.mul_(x),
    "over itself": lambda x: x[1:].add_(x[:-1]),
    "turned": lambda x: x.reshape(-1, 10).T.sigmoid_(),
    "every second": lambda x: x[::2].clamp_(-0.5, 0.5),
    "a row": lambda x: x.reshape(-1, 10).sub_(x[:10].clone()),
    "copy": lambda x: x.copy_(x.flip(0)),
    "from another type": lambda x: x.copy_(ad.arange(x.numel())),
    "zero": lambda x: x.zero_(),
    "fill": lambda x: x[::3].fill_(2.5),
    "compare": lambda x: x.gt_(0.25),
}


@pytest.mark.parametrize("name", WRITES)
def test_writes_in_place_are_those_of_small_arrays(name: str, monkeypatch: Any) -> None:
    values = draw(20 * N // 10 // 30 * 30)
    found = ad.tensor(values)
    version = found._version
    WRITES[name](found)
    assert found._version == version + 1
    monkeypatch.setattr(inplace, "LARGE", 1 << 40)
    expected = ad.tensor(values)
    WRITES[name](expected)
    np.testing.assert_allclose(found, expected, rtol=1e-14)


def test_writes_to_what_is_needed_are_refused() -> None:
    x = ad.tensor(draw(N), requires_grad=True)
    y = x.exp()
    y.mul_(2)
    with pytest.raises(ad.errors.InplaceError):
        y.sum().backward()
    with pytest.raises(ad.errors.InplaceError):
        ad.ones(1).expand(N).add_(ad.ones(N))
    with pytest.raises(ad.errors.ShapeError):
        ad.ones(N).add_(ad.ones(2, N))


PROGRAM = """
import numpy as np, adjoint as ad, time
from adjoint.toolchain import background
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


@pytest.mark.parametrize("number", [2.0, np.float32(2), np.float16(2)])
def test_a_loop_of_a_formula_has_the_numbers_of_numpy(number: Any) -> None:
    tree = ast.parse("grad * _over(self, other)", mode="eval").body
    given = {"grad": np.ones(3, np.float16), "self": number, "other": np.ones(3, np.float16)}
    found = formula_loops.element_of(tree, given)
    assert found is not None
    ((tree_of_loop, _),) = found.results
    assert number in [part.value for part in tree_of_loop.walk() if isinstance(part, Number)]
