"""In the folders that compute a class name stands for one class: who meets it knows its file."""

from __future__ import annotations

import ast
from collections import defaultdict

from tests import SOURCE

FOLDERS = (
    *("core", "structures", "kinks", "table", "checks", "elements", "ops", "formulas", "shapes"),
    *("batching", "decompositions", "tensor", "tape", "homes", "calls", "transforms", "graph"),
    *("compiler", "toolchain", "c_kernels", "kernels"),
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
