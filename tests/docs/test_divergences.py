"""The page of divergences from PyTorch: our numbers are the truth, its tables are the lists."""

from __future__ import annotations

import doctest

import pytest

import adjoint as ad
from docs.building import divergences

NUMBERS = divergences.numbers()


@pytest.mark.parametrize("number", NUMBERS, ids=lambda number: number.expression)
def test_our_number_is_the_truth(number: divergences.Number) -> None:
    found = number.by(ad)
    assert found == pytest.approx(number.truth, rel=2e-12, abs=0, nan_ok=True)


def test_the_page_has_the_tables_of_its_sources() -> None:
    """python -m docs.building.divergences writes them."""
    page = divergences.PAGE.read_text(encoding="utf-8")
    rivals = divergences.published(page)
    assert list(rivals) == [number.expression for number in NUMBERS]
    assert divergences.with_tables(page, rivals) == page


def test_a_number_that_pytorch_has_as_well_is_no_divergence() -> None:
    rivals = divergences.published(divergences.PAGE.read_text(encoding="utf-8"))
    for number in NUMBERS:
        assert rivals[number.expression] != divergences.shown(number.truth), number


def test_examples_in_docstrings_hold() -> None:
    done = doctest.testmod(divergences)
    assert done.attempted
    assert not done.failed
