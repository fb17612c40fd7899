"""Native elements: every dtype's arithmetic, special values and extrema are those of eager."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import adjoint as ad
from adjoint.core.errors import AdjointError, ValueRangeError
from adjoint.table import TABLE
from adjoint.toolchain import build

pytestmark = pytest.mark.skipif(build.compiler() is None, reason="needs a C compiler")

Function = Callable[..., Any]
F = ad.nn.functional

SPECIAL = [
    0.0, -0.0, 0.25, 0.5, -0.5, 1.0, -1.0, 1.5, -1.5, 2.5, 3.0, -3.0, 10.0, -10.0, 1e-5, -1e-5,
    30.0, -30.0, 800.0, -800.0, 1e300, -1e300, np.inf, -np.inf, np.nan,
]  # fmt: skip
ONE: dict[str, list[Function]] = {
    "rounding": [
        ad.round, ad.frac, ad.trunc, ad.floor, ad.sign, ad.signbit, ad.abs, ad.angle,
        lambda x: ad.round(x, decimals=2), lambda x: ad.round(x, decimals=-1),
        lambda x: x // 3, lambda x: x % 3, lambda x: x % -2.5, lambda x: ad.fmod(x, -2.5),
        lambda x: ad.div(x, 3, rounding_mode="trunc"),
    ],
    "limits": [
        ad.nan_to_num, ad.isfinite, ad.isinf, ad.isposinf, ad.isneginf, ad.isnan,
        lambda x: x.clamp(-1, 1), lambda x: x.clamp(max=2), lambda x: x.clamp(0.5), F.relu6,
        lambda x: x.clamp(2, 1), lambda x: ad.nan_to_num(x, 1.0, 2.0, 3.0), F.hardtanh,
    ],
    "powers": [lambda x, p=p: x**p for p in (0, 1, 2, 3, 4, 5, -1, -2, -3, 0.5, -0.5, 1.7)],
    "exponentials": [
        ad.sigmoid, ad.special.entr, ad.logit, lambda x: ad.logit(x, 0.1), ad.sinc, ad.rsqrt,
        ad.deg2rad, lambda x: ad.xlogy(x, 2), lambda x: ad.logaddexp(x, x), ad.special.expit,
    ],
    "activations": [
        F.silu, F.mish, F.gelu, F.softplus, F.logsigmoid, F.elu, F.selu, F.celu, F.leaky_relu,
        F.hardswish, F.hardsigmoid, F.hardshrink, F.softshrink, F.tanhshrink, F.softsign, F.relu,
        lambda x: F.gelu(x, approximate="tanh"), lambda x: F.threshold(x, 0.5, 7.0),
    ],
    "special": [
        ad.special.ndtr, ad.special.log_ndtr, ad.special.erfcx, ad.erfinv, ad.special.ndtri,
        ad.digamma, ad.i0, ad.special.i0e, ad.special.i1, ad.special.i1e,
        lambda x: ad.polygamma(1, x), lambda x: ad.polygamma(4, x),
    ],
}  # fmt: skip
TWO: dict[str, list[Function]] = {
    "real": [
        ad.maximum, ad.minimum, ad.fmax, ad.fmin, ad.logaddexp, ad.logaddexp2, ad.xlogy,
        ad.special.xlog1py, ad.copysign, ad.nextafter, ad.heaviside, ad.hypot, ad.atan2, ad.pow,
        ad.remainder, ad.fmod, ad.floor_divide, ad.isclose, ad.ldexp, ad.logical_xor,
        lambda x, y: ad.clamp(x, y, y + 1), lambda x, y: ad.lerp(x, y, 0.3),
        lambda x, y: ad.lerp(x, y, y), lambda x, y: ad.addcdiv(x, x, y, value=2),
        lambda x, y: ad.isclose(x, y, equal_nan=True), lambda x, y: ad.where(x > y, x, 1),
    ],
}  # fmt: skip


def assert_compiled_equals_eager(
    functions: list[Function], *arrays: Any, native: bool = True
) -> None:
    """All functions in one program equal eager, element by element."""
    tensors = [ad.from_numpy(np.asarray(a)) for a in arrays]

    def every(*given: Any) -> list[Any]:
        return [f(*given) for f in functions]

    program = ad.compile(every)
    results, expected = program(*tensors), every(*tensors)
    if native:
        assert program.lower(*tensors).callbacks() == []
    for number, (got, want) in enumerate(zip(results, expected, strict=True)):
        assert got.dtype is want.dtype, number
        assert got.shape == want.shape, number
        tolerance = {"f": 1e-13 if want.dtype is ad.float64 else 3e-6}.get(
            want.numpy().dtype.kind, 0
        )
        np.testing.assert_allclose(
            got.numpy(), want.numpy(), rtol=tolerance, atol=tolerance * 1e-3, err_msg=str(number)
        )


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("family", ONE)
def test_special_values_are_those_of_eager(family: str, dtype: str) -> None:
    with np.errstate(over="ignore"):
        values = np.array(SPECIAL).astype(dtype)
    assert_compiled_equals_eager(ONE[family], values)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_pairs_of_special_values_are_those_of_eager(dtype: str) -> None:
    with np.errstate(over="ignore"):
        pairs = np.array(list(itertools.product(SPECIAL, repeat=2))).astype(dtype).T
    assert_compiled_equals_eager(TWO["real"], *pairs.copy())


def test_zeros_keep_their_signs() -> None:
    zeros = ad.tensor([0.0, -0.0], dtype=ad.float64)
    for function in (ad.trunc, ad.round, ad.sinh, ad.asin, ad.erf, ad.special.i1e, ad.neg):
        got = ad.compile(function)(zeros).numpy()
        np.testing.assert_array_equal(
            np.signbit(got), [False, True] if function is not ad.neg else [True, False]
        )


WHOLE: list[Function] = [
    lambda x, y: x + y, lambda x, y: x - y, lambda x, y: x * y, lambda x, y: -x, lambda x, y: x * x,
    lambda x, y: ad.add(x, y, alpha=3), lambda x, y: abs(x), lambda x, y: x.sign(), ad.maximum,
    ad.minimum, lambda x, y: x.clamp(-1, 5), lambda x, y: x & y, lambda x, y: x | y,
    lambda x, y: x ^ y, lambda x, y: ~x, lambda x, y: x << 3, lambda x, y: x >> 1,
    lambda x, y: x << y, lambda x, y: x >> y, lambda x, y: x**3, lambda x, y: x**5, ad.gcd, ad.lcm,
    lambda x, y: x // 3, lambda x, y: x // -2, lambda x, y: x % 3, lambda x, y: x % -2,
    lambda x, y: ad.fmod(x, 3), lambda x, y: ad.div(x, -3, rounding_mode="trunc"),
    lambda x, y: x < y, lambda x, y: x == 3, lambda x, y: ad.logical_and(x, y), ad.logical_not,
    lambda x, y: x / y, lambda x, y: x.sin(), lambda x, y: ad.where(x > y, x, 7),
    lambda x, y: x.to(ad.float64) + y, lambda x, y: x + 0.5, lambda x, y: x.to(ad.bool),
    lambda x, y: ad.pow(x, y), lambda x, y: x.sum(), lambda x, y: x.prod(), lambda x, y: x.amax(),
    lambda x, y: x.amin(), lambda x, y: x.argmax(), lambda x, y: x.any(), lambda x, y: y.all(),
]  # fmt: skip


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "int32", "int64"])
def test_whole_numbers_wrap_as_in_eager(dtype: str) -> None:
    limits = np.iinfo(dtype)
    few = [v for v in (0, 1, -1, 2, -2, 3, 7, 100, -100) if v >= limits.min]
    values = np.array([*few, limits.min, limits.max], dtype)
    pairs = np.array(list(itertools.product(values, repeat=2)), dtype).T.copy()
    functions = [f if f is not ad.logical_not else lambda x, y: ad.logical_not(x) for f in WHOLE]
    assert_compiled_equals_eager(functions, *pairs)


def test_whole_numbers_are_not_divided_by_zero() -> None:
    x, zero = ad.tensor([1, 2, 3]), ad.tensor([1, 0, 1])
    for function in (ad.floor_divide, ad.remainder, ad.fmod):
        with pytest.raises(ValueRangeError):
            ad.compile(function)(x, zero)


def test_booleans_are_truths() -> None:
    truths = np.array(list(itertools.product([False, True], repeat=2))).T.copy()
    functions: list[Function] = [
        lambda x, y: x + y, lambda x, y: x * y, lambda x, y: x & y, lambda x, y: x ^ y,
        lambda x, y: ~x, ad.maximum, ad.minimum, lambda x, y: x == y, lambda x, y: x < y,
        lambda x, y: x.to(ad.float64) / 2, lambda x, y: x.sum(), lambda x, y: x.all(),
        lambda x, y: (x.to(ad.float64) * 0.5).to(ad.bool), lambda x, y: ad.where(x, y, False),
    ]  # fmt: skip
    assert_compiled_equals_eager(functions, *truths)


EXTREMA: list[Function] = [
    lambda x, d=d, n=n: getattr(x, n)(d)
    for n in ("argmax", "argmin", "amax", "amin", "any", "all", "count_nonzero")
    for d in (0, 1, -1)
] + [lambda x: x.max(1).indices, lambda x: x.min(0).values, lambda x: x.argmax(), lambda x: x.all()]


@pytest.mark.parametrize("dtype", ["float64", "float32", "int64", "uint8"])
def test_extrema_are_the_first_and_nan_comes_before_all(dtype: str) -> None:
    values = np.array([[1.0, 5, 5, 2], [0, 3, 1, 3], [0, 0, 0, 0], [4, 1, 1, 4]])
    if dtype.startswith("float"):
        values = np.concatenate(
            [values, [[1, np.nan, 2, np.nan], [np.inf] * 4, [-np.inf, np.inf, -np.inf, 0]]]
        )
    assert_compiled_equals_eager(EXTREMA, values.astype(dtype))


def test_reductions_of_nothing() -> None:
    assert_compiled_equals_eager(
        [lambda x: x.sum(1), lambda x: x.prod(1), lambda x: x.any(1), lambda x: x.all(1),
         lambda x: x.mean(1), lambda x: x.sum(0), lambda x: x.sum()],
        np.zeros((3, 0)),
    )  # fmt: skip


SMOOTH: list[Function] = [
    F.silu, F.gelu, F.mish, F.elu, ad.logit, ad.erfinv, ad.lgamma, ad.special.ndtri,
    ad.special.log_ndtr, ad.erf, ad.i0, ad.sinc,
]  # fmt: skip


@pytest.mark.parametrize("function", SMOOTH)
def test_derivatives_of_native_functions_are_native(function: Function) -> None:
    x = ad.tensor(np.linspace(0.05, 0.9, 18))
    both = ad.value_and_grad(lambda x: function(x).sum())
    program = ad.compile(both)
    for got, want in zip(program(x), both(x), strict=True):
        np.testing.assert_allclose(got.numpy(), want.numpy(), rtol=1e-13)
    assert program.lower(x).callbacks() == []


# -- numbers beside tensors of another precision ---------------------------------------------------

EXTREMES = (1e-300, 1e300, 1 / 3, 1e-40, 3.5e38)


def _calls_with_numbers(x: Any) -> Iterator[tuple[str, Callable[[Any], Any], Any]]:
    """Pointwise rows with an extreme number for each of their numbers: name, call, eager result."""
    rows = [TABLE.row(n, o) for n in TABLE.names() for o in TABLE.overloads(n)]
    for row in rows:
        names = [a.name for a in row.schema.arguments if str(a.type) == "Scalar"]
        tensors = row.schema.tensors
        pointwise = row.archetype.promotes and not row.schema.mutates and len(tensors) == 1
        if not pointwise or not names or "polynomial" in row.name or row.name[0] == "_":
            continue
        if row.name.endswith("_backward") or tensors[0].type.is_list:
            continue
        operator = getattr(getattr(ad.ops, row.name), row.schema.overload or "default")
        for name in names:
            for number in EXTREMES:
                values = [_value(a, name, number) for a in row.schema.arguments]

                def call(x: Any, operator: Any = operator, values: Any = values) -> Any:
                    return operator.call([x if v is THE_TENSOR else v for v in values])

                with contextlib.suppress(AdjointError):  # a bound that the operator refuses
                    yield f"{row.full_name}({name}={number})", call, call(x)


THE_TENSOR = object()  # stands for the tensor among the values of a call


def _value(argument: Any, name: str, number: float) -> Any:
    if argument.type.is_tensor:
        return THE_TENSOR
    if argument.name == name:
        return number
    return argument.default if argument.has_default else 0.7


def test_numbers_count_in_the_precision_of_the_tensor() -> None:
    """1e-300 beside float32 is 0, in eager mode and in native code; 3.5e38 is infinite."""
    x = ad.tensor([0.3, 1.5, -2.0, 0.0, 3.0])
    calls = list(_calls_with_numbers(x))
    assert len(calls) > 150
    for start in range(0, len(calls), 60):
        part = calls[start : start + 60]
        compiled = ad.compile(lambda x, part=part: [call(x) for _, call, _ in part])
        for (name, _, expected), found in zip(part, compiled(x), strict=True):
            assert found.dtype is expected.dtype, name
            np.testing.assert_allclose(found.double(), expected.double(), 3e-6, 1e-38, err_msg=name)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_exp_is_right_to_two_ulp_and_at_every_end(dtype: Any) -> None:
    info, draw = np.finfo(dtype), np.random.default_rng(5)
    largest, least = np.log(info.max), np.log(float(info.smallest_subnormal))
    ends = [0.0, -0.0, np.inf, -np.inf, np.nan, info.max, info.min, info.tiny, largest, least]
    steps = np.arange(-5, 6) * 0.3
    x = np.concatenate([ends, largest + steps, least + steps, draw.uniform(-1, 1, 1000)])
    x = np.concatenate([x, draw.uniform(1.01 * least, 1.01 * largest, 3000)]).astype(dtype)
    found = ad.compile(ad.exp)(ad.tensor(x)).numpy()
    with np.errstate(all="ignore"):
        want = np.exp(x.astype(np.longdouble))
        infinite = ~np.isfinite(want.astype(dtype))
        ulp = np.spacing(np.abs(want.astype(dtype))).astype(np.longdouble)
        np.testing.assert_array_equal(found[infinite], want.astype(dtype)[infinite])
        assert (np.abs(found - want) / ulp)[~infinite].max() < 2
    assert not np.signbit(found[~np.isnan(found)]).any()


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_tanh_is_right_to_three_ulp_and_at_every_end(dtype: Any) -> None:
    draw, info = np.random.default_rng(6), np.finfo(dtype)
    ends = [0.0, -0.0, np.inf, -np.inf, np.nan, info.max, info.tiny, -info.smallest_subnormal]
    near, far = draw.uniform(-1, 1, 3000), draw.uniform(-30, 30, 1000)
    x = np.concatenate([ends, near, far, 10.0 ** draw.uniform(-30, 1, 500)]).astype(dtype)
    found = ad.compile(ad.tanh)(ad.tensor(x)).numpy()
    want = np.tanh(x.astype(np.longdouble))
    known = ~np.isnan(x)
    np.testing.assert_array_equal(np.isnan(found), ~known)
    np.testing.assert_array_equal(np.signbit(found)[known], np.signbit(x)[known])
    ulp = np.spacing(np.abs(want.astype(dtype))).astype(np.longdouble)
    assert (np.abs(found - want) / ulp)[known].max() < 3


@pytest.mark.parametrize("source", ["float64", "float32", "float16", "bfloat16", "complex128"])
def test_numbers_that_a_whole_type_cannot_hold_become_what_they_are_in_eager(source: str) -> None:
    numbers = [-93.4, 138.1, 1118.4, 67388.7, -3e9, 3e9, 2.0**31, -(2.0**31), 1e19, -1e19, 2.0**63]
    x = ad.tensor([*numbers, *SPECIAL], dtype=ad.float64).to(getattr(ad, source))
    wanted = [getattr(ad, name) for name in ("int8", "uint8", "int16", "int32", "int64", "bool")]

    def casts(x: Any) -> list[Any]:  # and back: a compiler that may leave out the first does
        return [t for d in wanted for t in (x.to(d), (x * 1).to(d).double())]

    with np.errstate(all="ignore"):
        expected = casts(x)
    for found, value in zip(ad.compile(casts)(x), expected, strict=True):
        assert found.dtype is value.dtype
        np.testing.assert_array_equal(found.numpy(), value.numpy())


def test_a_bound_that_is_no_number_is_kept() -> None:
    """NaN as a bound is the result, in eager mode, for large arrays and in compiled code."""
    x, bound = ad.ones(20_000), ad.full((20_000,), np.nan)
    limits: list[Function] = [
        lambda x, b: x.clamp(max=b), lambda x, b: x.clamp(min=b), lambda x, b: x.clamp(b, b + 1),
        lambda x, b: x.clamp(max=np.nan), lambda x, b: F.hardtanh(x, -1, np.nan),
        lambda x, b: F.hardtanh(x, np.nan, 1), lambda x, b: ad.clamp_max(x, b),
    ]  # fmt: skip
    for number, f in enumerate(limits):
        for run in (f, ad.compile(f)):
            for count in (3, x.numel()):
                assert bool(run(x[:count], bound[:count]).isnan().all()), number
