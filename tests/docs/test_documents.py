"""Code on the pages of documentation runs, and their links lead somewhere."""

from __future__ import annotations

import doctest
import operator
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import adjoint as ad
from docs.building import stage
from tests import ROOT

OPTIONS = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
PAGES = [ROOT / "README.md", *stage.pages(), *(ROOT / path for path in stage.OUTSIDE)]
BLOCK = re.compile(r"^```(python|pycon)\n(.*?)^```", re.DOTALL | re.MULTILINE)


def blocks(page: Path) -> list[tuple[str, str]]:
    """The blocks of code on a page, with their kind."""
    return BLOCK.findall(page.read_text(encoding="utf-8"))


@pytest.fixture(autouse=True)
def _settings() -> Iterator[None]:
    """Pages may choose a default dtype; the next one starts with PyTorch's."""
    yield
    ad.set_default_dtype(ad.float32)


def title(page: Path) -> str:
    return str(page.relative_to(ROOT))


@pytest.mark.parametrize("page", [p for p in PAGES if blocks(p)], ids=title)
def test_code_on_a_page_runs_in_order(page: Path) -> None:
    scope: dict[str, object] = {}
    report: list[str] = []
    for kind, text in blocks(page):
        if kind == "python":
            exec(compile(text, page.name, "exec"), scope)
            continue
        found = doctest.DocTestParser().get_doctest(text, scope, title(page), None, 0)
        runner = doctest.DocTestRunner(verbose=False, optionflags=OPTIONS)
        runner.run(found, out=report.append, clear_globs=False)
        scope.update(found.globs)
    assert "".join(report) == ""


@pytest.mark.parametrize("page", PAGES, ids=title)
def test_links_of_a_page_lead_to_files(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    made = re.compile(r"(\.\./)*operators/|functions\.md$")  # when the site is built
    missing = [
        link
        for link in stage.links(text)
        if not made.match(link) and not (page.parent / link).exists()
    ]
    assert missing == []


NAME = re.compile(r"(?<![\w.])ad((?:\.[A-Za-z_]\w*)+)")


def named(page: Path) -> set[str]:
    """The names of ours that a page has in its text: {".nn.Linear", ".grad"}."""
    text = BLOCK.sub("", page.read_text(encoding="utf-8"))
    return {name for code in re.findall(r"`([^`\n]+)`", text) for name in NAME.findall(code)}


@pytest.mark.parametrize("page", PAGES, ids=title)
def test_names_on_a_page_exist(page: Path) -> None:
    missing: list[str] = []
    for name in sorted(named(page)):
        try:
            operator.attrgetter(name[1:])(ad)
        except AttributeError:
            missing.append(f"ad{name}")
    assert missing == []


def test_every_page_is_in_the_contents_once() -> None:
    """Sphinx would tell, but the site is not built in tests."""
    index = (stage.DOCS / "index.md").read_text(encoding="utf-8")
    trees = re.findall(r"```\{toctree\}\n(.*?)```", index, re.DOTALL)
    lines = [line for tree in trees for line in tree.splitlines()]
    listed = [line for line in lines if line and not line.startswith(":")]
    outside = {name.removesuffix(".md") for name in stage.OUTSIDE.values()}
    pages = {str(p.relative_to(stage.DOCS)).removesuffix(".md") for p in stage.pages()}
    made = {"operators/index", "functions", "reference/index"}
    assert sorted(listed) == sorted(pages - {"index"} | outside | made)


def test_there_are_pages_with_code() -> None:
    assert {"README.md", "docs/tutorial.md", "docs/compiler.md"} <= {
        title(p) for p in PAGES if blocks(p)
    }


@pytest.mark.parametrize("page", [ROOT / "README.md", ROOT / "docs" / "index.md"], ids=title)
def test_rows_that_a_page_begins_with_are_those_of_the_table(page: Path) -> None:
    (row,) = re.findall(r"^```yaml\n(- name: .*?)^```", page.read_text(), re.DOTALL | re.MULTILINE)
    head, *lines = row.splitlines()
    files = [path.read_text() for path in (ROOT / "src/adjoint/table").glob("*.yaml")]
    (written,) = [text.split(f"{head}\n")[1].split("\n\n")[0] for text in files if head in text]
    assert {*lines} <= {*written.splitlines()}
