"""The page of documentation that holds the whole idea agrees with the library."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import adjoint as ad
from tests import ROOT

PATH = ROOT / "docs" / "adjoint_in_200_lines.py"
VECTOR, MATRIX, COLUMN = np.array([0.3, -1.2, 0.7]), np.arange(6.0).reshape(2, 3) / 5, [[0.4], [1]]


def _page() -> Any:
    spec = importlib.util.spec_from_file_location("adjoint_in_200_lines", PATH)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


page = _page()

# Functions of (x, sin, exp, sum); x is broadcast in every position, used again, nested.
FUNCTIONS: dict[str, Callable[..., Any]] = {
    "added to a vector": lambda x, sin, exp, total: total(x + VECTOR),
    "vector first": lambda x, sin, exp, total: total(x * 1.0 + x * VECTOR),
    "subtracted": lambda x, sin, exp, total: total(sin(x * MATRIX - x)),
    "from a number": lambda x, sin, exp, total: total(exp(1.0 - x) * MATRIX),
    "used three times": lambda x, sin, exp, total: total(x * x * MATRIX + x),
    "sum inside": lambda x, sin, exp, total: total(sin(total(x * x) * VECTOR) + x * total(x)),
    "arrays first": lambda x, sin, exp, total: total(VECTOR * x + (MATRIX - sin(x))),
    "a sum broadcast": lambda x, sin, exp, total: total((MATRIX + total(x)) * (x + VECTOR)),
    "unused": lambda x, sin, exp, total: total(sin(x * 0.0) * 0.0) + 1.0,
}
POINTS: dict[str, Any] = {
    "scalar": 0.6,
    "one element": [0.6],
    "vector": [0.5, -0.2, 1.1],
    "row": [[0.5, -0.2, 1.1]],
    "column": COLUMN,
    "matrix": MATRIX + 0.1,
}


def _values(name: str, point: str) -> tuple[Any, Any, Any]:
    f, x = FUNCTIONS[name], np.asarray(POINTS[point], float)
    small = lambda v: f(v, page.sin, page.exp, page.total)
    large = lambda v: f(v, ad.sin, ad.exp, ad.sum)
    return small, large, x


@pytest.mark.parametrize("point", POINTS)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_value_and_gradient_on_the_page_are_the_librarys(name: str, point: str) -> None:
    small, large, x = _values(name, point)
    assert np.allclose(small(page.Tensor(x)).array, large(ad.asarray(x)).numpy())
    assert np.allclose(page.grad(small)(x).array, ad.grad(large)(ad.asarray(x)).numpy())
    assert page.grad(small)(x).shape == x.shape


@pytest.mark.parametrize("point", POINTS)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_second_derivative_on_the_page_is_the_librarys(name: str, point: str) -> None:
    small, large, x = _values(name, point)
    twice = page.grad(lambda v: page.total(page.sin(page.grad(small)(v))))(x)
    expected = ad.grad(lambda v: ad.sin(ad.grad(large)(v)).sum())(ad.asarray(x))
    assert np.allclose(twice.array, expected.numpy())


@pytest.mark.parametrize("point", POINTS)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_forward_mode_on_the_page_is_the_librarys(name: str, point: str) -> None:
    small, large, x = _values(name, point)
    tangent = np.cos(x)
    _, expected = ad.jvp(large, (ad.asarray(x),), (ad.asarray(tangent),))
    assert np.allclose(page.jvp(small, x, tangent).array, expected.numpy())


def test_the_page_keeps_its_promise() -> None:
    assert len(PATH.read_text(encoding="utf-8").splitlines()) <= 200
