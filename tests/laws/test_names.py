"""In the folders that compute a class name stands for one class: who meets it knows its file."""

from __future__ import annotations

import ast
import re
import tokenize
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from tests import ROOT, SOURCE

FOLDERS = (
    *("core", "structures", "kinks", "table", "checks", "expressions", "loops", "ops"),
    *("formulas", "shapes", "batching", "decompositions", "tensor", "tape", "homes", "calls"),
    *("transforms", "graph", "compiler", "toolchain", "c_kernels", "kernels"),
)
# a name with two classes, and why both keep it
ALLOWED = {
    "Node": "public as `ad.graph.Node` in traced programs; `grad_fn` on the tape, as in PyTorch",
}


def test_a_class_name_stands_for_one_class() -> None:
    """A leading underscore does not make another name of it."""
    places: dict[str, list[str]] = defaultdict(list)
    for folder in FOLDERS:
        for path in sorted((SOURCE / folder).rglob("*.py")):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, ast.ClassDef):
                    where = f"{path.relative_to(SOURCE)}:{node.lineno}"
                    places[node.name.lstrip("_")].append(where)
    twice = {name: found for name, found in places.items() if len(found) > 1}
    unknown = {name: found for name, found in twice.items() if name not in ALLOWED}
    assert not unknown, "\n".join(f"{name}: {', '.join(w)}" for name, w in unknown.items())
    assert ALLOWED.keys() <= twice.keys(), "a name that is allowed twice stands once: remove it"


FILE = re.compile(r"(?<![\w.])/?((?:\w+/)*[a-z_]\w*\.(?:py|yaml))\b")
# a user's files, in examples of messages and calls
EXAMPLES = ("main.py", "mine.py", "model.py", "mine.yaml", "my_ops.yaml")


def prose(path: Path) -> Iterator[str]:
    """The docstrings and comments of a module."""
    with path.open("rb") as file:
        for token in tokenize.tokenize(file.readline):
            if token.type == tokenize.COMMENT or token.string.startswith(('"""', 'r"""')):
                yield token.string


def test_files_that_prose_names_exist() -> None:
    """`homes/limits.py`, or `limits.py` next door: a file that moved is named where it went."""
    known = {path.as_posix() for root in (SOURCE, ROOT / "tests") for path in root.rglob("*.*")}
    ends = {end for path in known for end in suffixes(path)}
    lost = [
        f"{path.relative_to(SOURCE)}: {name}"
        for path in sorted(SOURCE.rglob("*.py"))
        for text in prose(path)
        for name in FILE.findall(text)
        if name not in ends and name not in EXAMPLES
    ]
    assert lost == []


def suffixes(path: str) -> list[str]:
    """The ends of a path: a/b/c.py, b/c.py, c.py."""
    parts = path.split("/")
    return ["/".join(parts[start:]) for start in range(len(parts))]
