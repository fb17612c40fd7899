"""The page of the compiler names its stages and concepts as they are."""

from __future__ import annotations

import re

import pytest

from adjoint.compiler import pipeline
from tests import ROOT, SOURCE
from tests.docs.test_architecture_page import CODE

PAGE = ROOT / "docs" / "compiler.md"
MOST_CONCEPTS = 26


def rows(heading: str) -> list[list[str]]:
    """The rows of the table below a heading of the page."""
    text = PAGE.read_text(encoding="utf-8").split(f"\n## {heading}\n")[1].split("\n## ")[0]
    lines = [line for line in text.splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines[2:]]


def test_the_stages_on_the_page_are_those_that_run() -> None:
    named = [name.strip("`") for name, *_ in rows("The stages") if name]
    assert named == [stage.__name__ for stage in pipeline.STAGES]


def test_a_reader_of_the_compiler_holds_few_concepts() -> None:
    assert len(rows("The concepts")) <= MOST_CONCEPTS


@pytest.mark.parametrize("heading", ["The stages", "The concepts"])
def test_files_of_a_table_exist(heading: str) -> None:
    """Without a folder they are in `compiler/`; a name after a colon is in its file."""
    lost = []
    places = [code for row in rows(heading) for cell in row for code in CODE.findall(cell)]
    for place in places:
        path, _, name = place.partition(": ")
        if not re.fullmatch(r"[\w./*]+(/|\.py|\.c)", path):
            continue
        found = [f for root in (SOURCE / "compiler", SOURCE) for f in root.glob(path.rstrip("/"))]
        if not found or (name and not any(name in file.read_text() for file in found)):
            lost.append(place)
    assert len(places) > len(rows(heading))
    assert lost == []
