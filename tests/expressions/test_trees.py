"""Trees know their dtypes, operands, calls and cost; equal trees are equal keys."""

from __future__ import annotations

import math

import pytest

from adjoint.core import dtypes
from adjoint.core.dtypes import DType
from adjoint.expressions.parsing import parse
from adjoint.expressions.trees import Convert, Expression, Number, Operand, Variable
from adjoint.table.formula import Location


def tree_of(text: str, dtype: DType = dtypes.float32) -> Expression:
    operands = {"x": dtype, "y": dtype, "mask": dtypes.bool_}
    return parse(text, operands, dtype, Location("", 0), ours=True)


@pytest.mark.parametrize(
    ("text", "dtype"),
    [
        ("x * 2", "float32"),
        ("x * 2.0", "float64"),  # a number without @ is a double
        ("x * 2.0@", "float32"),
        ("x < y", "bool"),
        ("(x < y) & !mask", "bool"),
        ("(x < y) - (x > y)", "int32"),
        ("mask ? x : 0", "float32"),
        ("mask ? mask : !mask", "bool"),
        ("exp@(x)", "float32"),
        ("ad_digamma(x)", "float64"),
        ("inf()", "float64"),
        ("-nan@()", "float32"),
    ],
)
def test_dtypes_follow_from_those_of_the_parts(text: str, dtype: str) -> None:
    assert tree_of(text).dtype is dtypes.named(dtype)


def test_small_whole_numbers_are_computed_in_32_bits() -> None:
    assert tree_of("-x", dtypes.uint8).dtype is dtypes.int32
    assert tree_of("x + y", dtypes.int16).dtype is dtypes.int32
    assert tree_of("x << 2", dtypes.int64).dtype is dtypes.int64
    assert tree_of("ad_times@(x, y)", dtypes.complex64).dtype is dtypes.complex64
    assert tree_of("ad_modulus@(x)", dtypes.complex64).dtype is dtypes.float32


def test_trees_know_what_they_call_and_cost() -> None:
    assert tree_of("exp@(x) + ad_digamma(y)").calls == {"expf", "ad_digamma"}
    assert Convert(Operand("x", dtypes.float16), dtypes.float32).calls == {"ad_from_half_bits"}
    costs = [tree_of(t).cost for t in ("x + y * 2", "x / y", "sqrt@(x)", "exp@(x)", "fabs@(x)")]
    assert costs == [1, 4, 4, 20, 1]
    assert tree_of("x + y * y").size == 5


def test_substitution_changes_dtypes_with_the_parts() -> None:
    v = Variable("v1", dtypes.float64)
    found = tree_of("x * x + y").substitute({"x": v})
    assert (found.dtype, found.variables, found.operands) == (dtypes.float64, (v, v), {"y"})
    assert found.substitute({v: Number(1, dtypes.int32)}).variables == ()
    whole = tree_of("x * x")
    assert whole.substitute({"y": v}) is whole


def test_numbers_are_equal_if_they_are_spelled_alike() -> None:
    numbers = [Number(v, dtypes.float64) for v in (0.0, -0.0, 0, False, math.nan)]
    assert len({*numbers, Number(math.nan, dtypes.float64)}) == len(numbers)
    assert Number(1, dtypes.int32) != Number(1, dtypes.int64)
