"""What notebooks show: tensors as coloured tables, graphs as pictures, compiled programs."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from typing import Any

import pytest

import adjoint as ad


def shown(value: Any) -> ET.Element:
    """The page of a value, which must be well formed."""
    return ET.fromstring(f"<page>{value._repr_html_()}</page>")


def cells(value: Any) -> list[list[str]]:
    return [[cell.text or "" for cell in row] for row in shown(value).iter("tr")]


@pytest.mark.parametrize(
    ("tensor", "table"),
    [
        (ad.tensor([[1.0, -0.25], [3e7, 4.0]]), [["1", "-0.25"], ["3e+07", "4"]]),
        (ad.tensor([1, 2]), [["1", "2"]]),
        (ad.tensor(0.5, dtype=ad.bfloat16), [["0.5"]]),
        (ad.tensor([True, False]), [["True", "False"]]),
        (ad.tensor([1 + 2j]), [["1+2j"]]),
        (ad.arange(8).reshape(2, 2, 2), [["0", "1"], ["2", "3"]]),
        (ad.zeros(0, 3), []),
    ],
)
def test_the_table_of_a_tensor_has_its_numbers(tensor: ad.Tensor, table: list[list[str]]) -> None:
    assert cells(tensor) == table


def test_of_a_large_tensor_the_edges_are_shown() -> None:
    table = cells(ad.arange(10_000).reshape(100, 100))
    assert [len(row) for row in table] == [11] * 11
    assert table[0][0] == "0"
    assert table[-1][-1] == "9999"
    assert table[5] == ["⋮"] * 11
    assert len(ad.zeros(1000, 1000)._repr_html_()) < 20_000


def test_colours_tell_signs_and_what_is_no_number() -> None:
    row = next(shown(ad.tensor([-2.0, 0.0, 1.0, float("nan"), float("-inf")])).iter("tr"))
    minus, zero, plus, nan, infinite = (cell.get("style", "") for cell in row)
    assert "rgba(33,102,172,0.55)" in minus
    assert ",0.00)" in zero
    assert "rgba(178,24,43,0.28)" in plus
    assert "255,193,7" in nan
    assert "255,193,7" in infinite


def test_a_title_says_what_the_tensor_is() -> None:
    x = ad.ones(2, 3, requires_grad=True)
    assert "2×3, float32, requires_grad" in "".join(shown(x).itertext())
    assert "grad_fn=SinBackward0" in "".join(shown(x.sin()).itertext())
    assert "from 0 to 23" in "".join(shown(ad.arange(24)).itertext())


def test_a_tensor_inside_a_transform_shows_its_text() -> None:
    pages: list[str] = []

    def f(x: ad.Tensor) -> ad.Tensor:
        pages.append(x._repr_html_())
        return x

    ad.vmap(f)(ad.ones(3))
    assert pages[0].startswith("<pre>&lt;a tensor of vmap")


def f(x: Any) -> Any:
    return (x.sin() * x).sum()


def test_a_graph_is_a_picture_with_its_text() -> None:
    page = shown(ad.trace(f, ad.ones(3)))
    assert page.find(".//{http://www.w3.org/2000/svg}rect") is not None
    assert "def f(x" in "".join(page.itertext())


def test_a_large_graph_is_a_text() -> None:
    def chain(x: Any) -> Any:
        for _ in range(300):
            x = x.sin()
        return x

    assert "<svg" not in ad.trace(chain, ad.ones(3))._repr_html_()


def test_a_compiled_function_shows_its_stages() -> None:
    compiled = ad.compile(f)
    assert "not compiled yet" in "".join(shown(compiled).itertext())
    compiled(ad.ones(3))
    text = "".join(shown(compiled).itertext())
    assert "6 flops, 3 functions" in text
    assert "graph: 3 operators" in text
    assert "return 0;" in text  # of the C source
