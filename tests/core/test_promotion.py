"""Type promotion agrees with PyTorch's, of which `stored/promotion.txt` is a copy."""

from __future__ import annotations

from typing import Any

import pytest

import adjoint as ad
from tests import STORED

LINES = (STORED / "promotion.txt").read_text(encoding="utf-8").splitlines()
NUMBERS: dict[str, Any] = {"bool": True, "int": 2, "float": 1.5, "complex": 1 + 2j}


def operand(word: str) -> Any:
    """`float32.1` is a vector, `float32.0` a 0-d tensor, `float32` a dtype, `int` a number."""
    name, _, ndim = word.partition(".")
    if ndim:
        return ad.ones((1,) * int(ndim), dtype=getattr(ad, name))
    return NUMBERS[name]


def lines(operation: str) -> list[tuple[list[str], str]]:
    chosen = [line.split(" -> ") for line in LINES if line.startswith(operation + " ")]
    return [(left.split()[1:], right) for left, right in chosen]


def check(operation: str, function: Any) -> None:
    wrong = []
    for words, expected in lines(operation):
        got = function(*map(operand, words)).dtype.name
        if got != expected:
            wrong.append(f"{operation} {' '.join(words)}: {got}, PyTorch has {expected}")
    assert wrong == []


def test_result_type() -> None:
    wrong = []
    for words, expected in lines("result_type"):
        got = ad.result_type(*map(operand, words)).name
        if got != expected:
            wrong.append(f"{' '.join(words)}: {got}, PyTorch has {expected}")
    assert wrong == []


@pytest.mark.parametrize(
    ("name", "function"),
    [
        ("mul", lambda a, b: a * b),
        ("where", lambda a, b: ad.where(ad.tensor([True]), a, b)),
        ("maximum", lambda a, b: ad.add(a, b)),
    ],
)
def test_binary_operators_follow_result_type(name: str, function: Any) -> None:
    check("result_type", function)


def test_cat_follows_result_type_of_vectors() -> None:
    for (a, b), expected in lines("result_type"):
        if a.endswith(".1") and b.endswith(".1"):
            assert ad.cat([operand(a), operand(b)]).dtype.name == expected


def test_division() -> None:
    check("div", lambda a, b: a / b)


@pytest.mark.parametrize("name", ["sum", "sin", "abs"])
def test_unary(name: str) -> None:
    check(name, lambda a: getattr(a, name)())


def test_cumsum() -> None:
    check("cumsum", lambda a: a.cumsum(0))


def test_promote_types() -> None:
    for (a, b), expected in lines("promote_types"):
        assert ad.promote_types(getattr(ad, a), getattr(ad, b)).name == expected


def test_can_cast() -> None:
    for (a, b), expected in lines("can_cast"):
        assert str(ad.can_cast(getattr(ad, a), getattr(ad, b))) == expected


def test_default_dtype_decides_for_floats() -> None:
    ad.set_default_dtype(ad.float64)
    try:
        assert ad.tensor(1.0).dtype is ad.float64
        assert ad.tensor(1j).dtype is ad.complex128
        assert (ad.tensor([1, 2]) * 1.5).dtype is ad.float64
        assert ad.tensor([1, 2]).sin().dtype is ad.float64
    finally:
        ad.set_default_dtype(ad.float32)
    assert ad.tensor(1.0).dtype is ad.float32


def test_in_place_keeps_the_dtype() -> None:
    x = ad.ones(2, dtype=ad.float32)
    x += ad.ones(2, dtype=ad.float64)
    assert x.dtype is ad.float32


@pytest.mark.parametrize("dtype", ["uint8", "int8", "int64"])
def test_integers_have_no_negative_powers(dtype: str) -> None:
    x = ad.tensor([1, 2], dtype=getattr(ad, dtype))
    with pytest.raises(ad.AdjointError, match="no negative powers"):
        _ = x**-1
    with pytest.raises(ad.AdjointError, match="no negative powers"):
        x.pow_(-2)


def test_numbers_beyond_a_small_integer_dtype() -> None:
    """Arithmetic wraps around; where a limit or a value is meant, it is an error. As in PyTorch."""
    x = ad.tensor([1, 2], dtype=ad.uint8)
    assert (x + 300).tolist() == [45, 46]
    assert x.clone().fill_(-1).tolist() == [255, 255]
    for call in (
        lambda: x**300,
        lambda: x.clamp(max=300),
        lambda: x.masked_fill(x == 1, 300),
        lambda: ad.where(x == 1, x, 300),
        lambda: ad.add(x, x, alpha=300),
        lambda: x.clone().fill_(300),
    ):
        with pytest.raises(ad.AdjointError, match="300 does not fit"):
            call()
