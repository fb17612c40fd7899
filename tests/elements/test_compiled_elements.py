"""Extrema, conversions and bounds in compiled programs are those of eager mode."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import adjoint as ad
from adjoint.core.errors import ValueRangeError
from adjoint.toolchain import build
from tests.laws.test_elements import SPECIAL

pytestmark = pytest.mark.skipif(build.compiler() is None, reason="needs a C compiler")

Function = Callable[..., Any]
F = ad.nn.functional


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


def test_whole_numbers_are_not_divided_by_zero() -> None:
    x, zero = ad.tensor([1, 2, 3]), ad.tensor([1, 0, 1])
    for function in (ad.floor_divide, ad.remainder, ad.fmod):
        with pytest.raises(ValueRangeError):
            ad.compile(function)(x, zero)


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


# -- numbers beside tensors of another precision ---------------------------------------------------


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
