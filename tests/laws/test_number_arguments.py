"""A number in any position takes part in promotion by its kind only, and is rounded once.

The law runs over every row of the table that brings two or more operands to one dtype: each of
its positions, each dtype of the tensor beside the number, numbers in and out of range; small
arrays, large ones and compiled functions. The truth is the operator on tensors alone: the number
as a 0-d tensor of the dtype that is computed in, made here, and the other operands converted to it.
"""

from __future__ import annotations

import random
import zlib
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np
import pytest

import adjoint as ad
from adjoint.core.promotion import result_type
from adjoint.table import TABLE
from adjoint.table.rows import Row

DTYPES = (
    "bool", "uint8", "int8", "int16", "int32", "int64", "uint16", "uint32", "uint64",
    "float16", "bfloat16", "float32", "float64", "complex64", "complex128",
)  # fmt: skip
HALVES = ("float16", "bfloat16")
NUMBERS: tuple[Any, ...] = (
    True, False, 0, 1, 2, 3, -1, -3, 44, 300, -129, 2**31, 2**53 + 1, 2**63, -(2**63), 2**64,
    10**400, 1.5, -0.0, 0.1, -2.7, 1e-50, 1e-7, 7e4, 1e6, 1e60, float("inf"), -float("inf"),
    float("nan"), 1 + 2j, np.int64(-3), np.uint8(2), np.float32(0.1), np.float64(1e60),
    np.bool_(True),
)  # fmt: skip
# what else operators ask for
WORDS = {"int": 1, "Scalar": 0.5, "float": 0.5, "bool": False}
KINDS = {"_bessel": "j", "_orthogonal_polynomial": "hermite_h"}
ULP = 64


class Case(NamedTuple):
    """An operator, the position of the number, and the dtype of the tensors beside it."""

    row: Row
    position: str
    dtype: str

    def __repr__(self) -> str:
        return f"{self.row.name}-{self.position}-{self.dtype}"


def rows() -> list[Row]:
    """Of each operator that promotes operands, the overload that takes tensors alone."""
    found = []
    for name in TABLE.names():
        overloads = [TABLE.row(name, o) for o in TABLE.overloads(name)]
        tensors = [
            r for r in overloads
            if len(r.promoted) > 1 and all(a.type.is_tensor for a in r.promoted)
        ]  # fmt: skip
        found += tensors[:1]
    return [r for r in found if not r.name.startswith("_scipy")]  # one row for many functions


ROWS = rows()


def cases(dtypes: tuple[str, ...] = DTYPES) -> Iterator[Case]:
    for row in ROWS:
        for argument in row.promoted:
            yield from (Case(row, argument.name, dtype) for dtype in dtypes)


def chosen(case: Case, count: int) -> list[Any]:
    """Some of the numbers, others for each case."""
    return random.Random(zlib.crc32(repr(case).encode())).sample(NUMBERS, count)


def values(dtype: str) -> list[Any]:
    if dtype == "bool":
        return [True, False, True, True]
    if dtype.startswith("uint"):
        return [1, 3, 54, 255]
    if dtype.startswith("int"):
        return [1, 3, -7, 127]
    return [1.5, -2 + 1j, 0.25j, 3] if dtype.startswith("complex") else [1.5, -2.25, 0.3, 3.0]


def call(row: Row, operands: dict[str, Any], condition: Any) -> Any:
    """The operator on these operands; what else it needs is made up."""
    given, named = [], {}
    for a in row.schema.arguments:
        if a.name in operands:
            value = operands[a.name]
        elif a.type.is_tensor and not a.type.is_optional:
            value = condition
        elif not a.has_default and not a.type.is_optional:
            value = KINDS.get(row.name, "none") if a.type.base == "str" else WORDS[a.type.base]
        else:
            continue
        if a.keyword_only:
            named[a.name] = value
        else:
            given.append(value)
    return getattr(ad.ops, row.name)(*given, **named)


def operands(case: Case, x: Any, number: Any) -> dict[str, Any]:
    return {a.name: number if a.name == case.position else x for a in case.row.promoted}


def plain(number: Any) -> Any:
    return number.item() if isinstance(number, np.generic) else number


def checks(row: Row) -> set[str]:
    overloads = [TABLE.row(row.name, o) for o in TABLE.overloads(row.name)]
    return {r.texts.get("numbers", "wrap") for r in overloads}


def element(number: Any, dtype: Any) -> Any:
    """The number as an element of a dtype: integers wrap around, floats become infinite."""
    if dtype is ad.bool:
        return np.bool_(number)
    if dtype.category == 1:
        bits = 8 * dtype.itemsize
        wrapped = int(number) % 2**bits
        high = 2 ** (bits - 1)
        return wrapped - 2**bits if dtype.is_signed and wrapped >= high else wrapped
    if dtype.is_complex:
        return complex(number)
    value = float(number)
    return np.float32(value).astype(ml_dtypes.bfloat16) if dtype is ad.bfloat16 else value


def truth(case: Case, number: Any) -> Any:
    """What the operator gives, in NumPy; an exception where it shall raise."""
    row, number = case.row, plain(number)
    x = ad.tensor(values(case.dtype), dtype=getattr(ad, case.dtype))
    dtype = result_type(*operands(case, x, number).values())
    if row.archetype.to_float and not dtype.is_differentiable:
        dtype = ad.float32
    refused = refusal(row, number, dtype, position=case.position)
    if refused is not None:
        return refused
    wide = dtype.name in HALVES and "wide" in checks(row)
    computed = ad.float32 if wide else dtype
    with np.errstate(all="ignore"):
        zero_d = ad.from_numpy(np.asarray(element(number, computed), computed.np))
    brought = x.to(dtype).to(computed)
    result = attempt(lambda: call(row, operands(case, brought, zero_d), CONDITION))
    if isinstance(result, Exception):
        return result
    return (result.to(dtype) if wide and row.archetype.result != "bool" else result).numpy()


CONDITION = ad.tensor([True, False, True, False])


def refusal(row: Row, number: Any, dtype: Any, *, position: str) -> Exception | None:
    """Numbers that no dtype has, and those that a limit or an exponent cannot be."""
    if isinstance(number, int) and abs(number) >= 2**1024 and dtype.category >= 2:
        return OverflowError()
    if not isinstance(number, int) or dtype.category != 1:
        return None
    if not -(2**63) <= number < 2**64:
        return OverflowError()
    limits = np.iinfo(dtype.np)
    low = int(limits.min) if dtype.is_signed else -int(limits.max)
    if not low <= number <= limits.max and checks(row) & {"checked", "powers"}:
        # a base is no exponent: 300 ** x wraps around
        return None if row.name == "pow" and position == "self" else OverflowError()
    is_exponent = row.name == "pow" and position == "exponent"
    return ValueError() if is_exponent and number < 0 else None


def attempt(function: Callable[[], Any]) -> Any:
    try:
        return function()
    except (ad.AdjointError, OverflowError) as error:
        return error


def agrees(got: Any, wanted: Any) -> bool:
    """Same dtype, NaN and infinities; signs of zeros; values to rounding."""
    if isinstance(wanted, Exception) or isinstance(got, Exception):
        return isinstance(wanted, Exception) and isinstance(got, Exception)
    got = got.numpy()
    if got.dtype != wanted.dtype or got.shape != wanted.shape:
        return False
    if got.dtype.kind in "biu":
        return bool((got == wanted).all())
    eps = float(ad.finfo(ad.from_numpy(wanted.copy()).dtype).eps)
    kind = np.complex128 if got.dtype.kind == "c" else np.float64
    a, b = got.astype(kind), wanted.astype(kind)
    with np.errstate(all="ignore"):
        # differences of large values, in float64 as everything special, differ between C and NumPy
        near = np.abs(a - b) <= max(ULP * eps, 1e-8) * np.abs(b)
        same = (a == b) & (np.signbit(a.real) == np.signbit(b.real))
        return bool((same | (near & (b != 0)) | (np.isnan(a) & np.isnan(b))).all())


def told(case: Case, number: Any, got: Any, wanted: Any) -> str:
    shown = got if isinstance(got, Exception) else f"{got.dtype} {got.tolist()}"
    return f"{case!r} {number!r}: {shown!s:.120}, and not {wanted!r:.120}"


# -- the law --------------------------------------------------------------------------------------


def wrong(cases: Iterator[Case], count: int, way: Callable[[Case, Any], Any]) -> list[str]:
    found = []
    for case in cases:
        for number in chosen(case, count):
            got, wanted = way(case, number), truth(case, number)
            if not agrees(got, wanted):
                found.append(told(case, number, got, wanted))
    return found


def eager(case: Case, number: Any) -> Any:
    x = ad.tensor(values(case.dtype), dtype=getattr(ad, case.dtype))
    return attempt(lambda: call(case.row, operands(case, x, number), CONDITION))


def has_native_code(row: Row) -> bool:
    return any(TABLE.row(row.name, o).element for o in TABLE.overloads(row.name))


def of_large(case: Case, number: Any) -> Any:
    """On 20,000 elements, of which native code computes all; the last four of the result."""
    x = ad.tensor(values(case.dtype), dtype=getattr(ad, case.dtype)).repeat(5000)
    condition = CONDITION.repeat(5000)
    result = attempt(lambda: call(case.row, operands(case, x, number), condition))
    if isinstance(result, Exception) or result.ndim == 0:  # no operand was a tensor of the case
        return result
    return result[-4:]


@pytest.mark.parametrize("part", range(3))
def test_numbers_count_by_their_kind_and_are_rounded_once(part: int) -> None:
    every = list(cases())
    assert len(ROWS) > 90
    found = wrong(iter(every[part::3]), 3, eager)
    assert not found, "\n".join(found)


def test_native_code_of_large_arrays_takes_numbers_alike() -> None:
    every = [c for c in cases() if has_native_code(c.row)]
    picked = [c for k, c in enumerate(every) if k % 20 == zlib.crc32(c.row.name.encode()) % 20]
    found = wrong(iter(picked), 5, of_large)
    assert not found, "\n".join(found)


@pytest.mark.parametrize("dtype", ["bool", "uint8", "int64", "float16", "bfloat16", "float32"])
def test_compiled_functions_take_numbers_alike(dtype: str) -> None:
    """All operators in one program, each with some numbers; what raises is left out of it."""
    here = DTYPES.index(dtype)
    picked = [c for c in cases((dtype,)) if (zlib.crc32(c.row.name.encode()) - here) % 4 == 0]
    asked = [(c, n) for c in picked for n in chosen(c, 3)]
    wanted = [truth(c, n) for c, n in asked]
    kept = [k for k, w in enumerate(wanted) if not isinstance(w, Exception)]

    def program(x: Any, condition: Any) -> Any:
        return [call(c.row, operands(c, x, n), condition) for c, n in (asked[k] for k in kept)]

    x = ad.tensor(values(dtype), dtype=getattr(ad, dtype))
    results = ad.compile(program)(x, CONDITION)
    bad = [
        told(*asked[k], got, wanted[k])
        for k, got in zip(kept, results, strict=True)
        if not agrees(got, wanted[k])
    ]
    assert not bad, "\n".join(bad)


# -- factors --------------------------------------------------------------------------------------


def wrapped(number: int, dtype: Any) -> int:
    return int(element(number, dtype))


def in_way(way: str, function: Callable[..., Any], x: Any) -> Any:
    """The function of few elements, of many (the last of the results), or compiled."""
    if way == "compiled":
        return ad.compile(function)(x)
    return function(x) if way == "small" else function(x.repeat(40_000))[-len(x) :]


@pytest.mark.parametrize("way", ["small", "large", "compiled"])
@pytest.mark.parametrize("dtype", ["bool", "uint8", "int8", "int32", "int64"])
def test_a_factor_multiplies_a_number_before_that_is_rounded(dtype: str, way: str) -> None:
    """x ± alpha * number in whole numbers, modulo their range; truth values stay so."""
    kind, x = getattr(ad, dtype), ad.tensor(values(dtype), dtype=getattr(ad, dtype))
    for alpha, number in ((2, -1), (3, 44), (-1, 300), (2, -(2**63)), (100, 2**40 + 1)):
        if dtype == "bool":
            alpha, number = abs(alpha) % 2, bool(number)  # a factor of truth values is one
        for name, sign in (("add", 1), ("sub", -1)):
            if dtype == "bool" and name == "sub":
                continue
            got = in_way(way, partial(getattr(ad, name), other=number, alpha=alpha), x)
            wanted = [
                bool(v | (alpha & number)) if dtype == "bool"
                else wrapped(v + sign * alpha * wrapped(number, kind), kind)
                for v in x.tolist()
            ]  # fmt: skip
            assert got.dtype is kind
            assert got.tolist() == wanted, (name, alpha, number)


@pytest.mark.parametrize("name", ["float16", "bfloat16"])
def test_halves_keep_factors_beyond_their_range(name: str) -> None:
    """A loss of 1e-3 is scaled by 1e6: the factor is a float32, in every position and way."""
    x = ad.tensor([1e-3, 2e-3], dtype=getattr(ad, name))
    wanted = (x.float() * 1e6).to(x.dtype)
    for scaled in (
        lambda t: t * 1e6,
        lambda t: 1e6 * t,
        lambda t: ad.mul(1e6, t),
        lambda t: t / 1e-6,
    ):
        near = ad.allclose(scaled(x).float(), wanted.float(), rtol=0.01)
        assert near
        assert ad.compile(scaled)(x).tolist() == scaled(x).tolist()
        assert scaled(x.repeat(20_000))[:2].tolist() == scaled(x).tolist()
    small = x.clone().requires_grad_()
    (small * 1e3).sum().backward()
    assert small.grad.tolist() == [1e3, 1e3] or name == "bfloat16"


@pytest.mark.parametrize(
    "call",
    [
        lambda x: x.masked_fill(x == 1, 300),
        lambda x: ad.full_like(x, 300),
        lambda x: x.new_full((3,), 300),
        lambda x: x.clone().fill_(300),
        lambda x: x.scatter(0, ad.tensor([0]), 300),
        lambda x: x.index_fill(0, ad.tensor([0]), 300),
        lambda x: ad.nn.functional.pad(x, (1, 1), value=300),
        lambda x: ad.where(x == 1, x, 300),
        lambda x: x.clamp(max=300),
        lambda x: ad.add(x, x, alpha=300),
        lambda x: x**300,
    ],
)
def test_what_refuses_a_number_refuses_it_compiled(call: Callable[[Any], Any]) -> None:
    x = ad.tensor([1, 2, 3], dtype=ad.uint8)
    for function in (call, ad.compile(call), lambda t: call(t.repeat(20_000))):
        with pytest.raises(OverflowError, match="300(.0)? does not fit"):
            function(x)


def test_zeros_of_both_signs_are_two_numbers() -> None:
    """Native code once took the first of them for both."""
    x = ad.ones(20_000)
    for zero in (0.0, -0.0, 0.0):
        assert x.copysign(zero)[0].item() == (-1.0 if str(zero) == "-0.0" else 1.0)


WAYS: dict[str, Callable[..., Any]] = {
    "eager": lambda f, x, h, n: f(x, h, n),
    "vmapped": lambda f, x, h, n: ad.vmap(lambda x: f(x, h, n))(ad.stack([x, x]))[1],
    "traced": lambda f, x, h, n: ad.trace(f, x, h, n)(x, h, n),
}
OF_THREE = [r for r in ROWS if len(r.promoted) > 2 and r.archetype.result != "bool"]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("half", HALVES)
@pytest.mark.parametrize("row", OF_THREE, ids=lambda r: r.name)
def test_a_number_in_the_place_of_a_tensor_leaves_a_0d_half_its_say(
    row: Row, half: str, way: str
) -> None:
    """Next to integers with dimensions a 0-d half decides the dtype, and a number never does."""
    x, h = ad.tensor([1, 0, 1]), ad.tensor(1.5, dtype=getattr(ad, half))
    names = [a.name for a in row.promoted]
    for place, name in enumerate(names):
        scalar = names[place - 1]

        def f(x: Any, h: Any, n: Any, at: Any = (scalar, name)) -> Any:
            given = dict.fromkeys(names, x)
            return call(row, given | dict(zip(at, (h, n), strict=True)), x == 1)

        wanted = f(x.to(h.dtype), h, 0.334)
        found = WAYS[way](f, x, h, 0.334)
        assert found.dtype is wanted.dtype, (name, scalar)
        np.testing.assert_array_equal(found.float(), wanted.float(), f"{name}, {scalar}")
