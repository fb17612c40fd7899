"""The column of PyTorch on the page of divergences is what PyTorch says."""

from __future__ import annotations

import pytest

from docs.building import divergences

pytestmark = pytest.mark.oracle


def test_the_published_numbers_of_pytorch_are_measured() -> None:
    page = divergences.PAGE.read_text(encoding="utf-8")
    assert divergences.published(page) == divergences.measured()
