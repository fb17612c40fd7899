"""The scripts of examples/ and the snippets of the README and of docs/ run."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
EXAMPLES = [*sorted((ROOT / "examples").glob("*.py")), ROOT / "docs" / "adjoint_in_200_lines.py"]


@pytest.mark.parametrize("script", EXAMPLES, ids=lambda path: path.stem)
def test_example_runs(script: Path) -> None:
    run = subprocess.run(
        [sys.executable, "-W", "error", str(script)],
        capture_output=True, text=True, timeout=1200, env={**os.environ, "OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    assert run.returncode == 0, run.stderr
    assert run.stdout.strip()


def test_there_are_examples() -> None:
    assert len(EXAMPLES) >= 3


def snippets(page: Path) -> list[str]:
    return re.findall(r"```python\n(.*?)```", page.read_text(), re.S)


PAGES = [p for p in (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))) if snippets(p)]


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.stem)
def test_snippets_run(page: Path) -> None:
    for snippet in snippets(page):
        exec(compile(snippet, page.name, "exec"), {})


def test_there_are_snippets() -> None:
    assert {"README", "compiler"} <= {p.stem for p in PAGES}
