"""The page of the architecture describes this house: its paths, folders and layers."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests import ROOT, SOURCE
from tests.laws.test_architecture import BELOW, EAGER

PAGE = ROOT / "docs" / "architecture.md"
CODE = re.compile(r"`([^`\n]+)`")
PATH = re.compile(r"([\w./<>]*(?:/|\.(?:py|c|txt|yaml|md)))(?:: (\w+)(?:\.\w+)*)?")
MOST_CONCEPTS = 34


def paths(page: Path) -> list[tuple[str, str]]:
    """The paths in code on a page, each with the name in its file that follows a colon."""
    found = [PATH.fullmatch(code) for code in CODE.findall(page.read_text(encoding="utf-8"))]
    return [(match[1], match[2] or "") for match in found if match]


def files(path: str) -> list[Path]:
    """The files or folders of a path; `<family>` stands for any name."""
    pattern = re.sub(r"<\w+>", "*", path.rstrip("/"))
    roots = (SOURCE, ROOT)
    return [file for root in roots for file in root.glob(pattern)]


def rows(heading: str) -> list[list[str]]:
    """The rows of the table below a heading of the page."""
    text = PAGE.read_text(encoding="utf-8").split(f"\n## {heading}\n")[1].split("\n## ")[0]
    lines = [line for line in text.splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines[2:]]


@pytest.mark.parametrize("page", [PAGE, ROOT / "CONTRIBUTING.md"], ids=lambda page: page.name)
def test_paths_on_a_page_exist(page: Path) -> None:
    found = paths(page)
    assert len(found) > 10
    assert [path for path, _ in found if not files(path)] == []
    lost = [
        f"{path}: {name}"
        for path, name in found
        if name and not any(re.search(rf"\b{name}\b", file.read_text()) for file in files(path))
    ]
    assert lost == []


def test_layers_on_the_page_are_those_of_the_law() -> None:
    layers = {
        folders[0].strip("`/"): set(below.replace(",", " ").split())
        for folders, below in (
            (CODE.findall(first), below) for first, _, below in rows("The folders")
        )
        if below or folders == ["core/"]
    }
    assert len(layers) > len(EAGER)
    assert layers == {layer: {*BELOW[layer]} - {layer} for layer in layers}


def test_every_folder_is_on_the_page() -> None:
    named = {path.rstrip("/") for first, *_ in rows("The folders") for path in CODE.findall(first)}
    ours = {path.name for path in SOURCE.iterdir() if (path / "__init__.py").exists()}
    assert ours - named == set()


def test_a_reader_holds_few_concepts() -> None:
    assert len(rows("The concepts")) <= MOST_CONCEPTS
