"""The tests of an operator, where there is a checkout: `adjoint where` prints them.

A law runs over the whole table, and is found by the operator's name as a parameter. A hand test is
found by its own name (`test_tanh_far_out`). Other tests that use the name are counted by folder.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from adjoint.core.records import record
from adjoint.table.rows import Row

_ROOT = Path(__file__).parents[3]  # of a checkout: src/adjoint/cli/tests_of.py


@record
class Test:
    """A test function and the names that its text uses."""

    path: Path
    line: int  # 88
    name: str  # "test_tanh_far_out"
    used: frozenset[str]  # {"ad", "tanh", "np", …}


def tests_of(row: Row) -> Iterator[str]:
    """Yield where the tests of a row are: laws, tests by name, counts of tests that use it."""
    tests = _tests()
    if not tests:
        return
    yield f"{_ROOT / 'tests/laws'} -k {row.full_name}"
    word = re.compile(rf"_{re.escape(row.name.strip('_'))}(_|$)")
    named = [test for test in tests if word.search(test.name)]
    yield from (f"{test.path}:{test.line} {test.name}" for test in named)
    users = Counter(t.path.parent.name for t in tests if row.name in t.used and t not in named)
    if users:
        counts = ", ".join(f"{folder} {count}" for folder, count in users.most_common())
        yield f"{_ROOT / 'tests'}: {users.total()} more use the name ({counts})"


@cache
def _tests() -> list[Test]:
    """All test functions of the checkout; none where the package is installed."""
    return [test for path in sorted((_ROOT / "tests").rglob("test_*.py")) for test in _in(path)]


def _in(path: Path) -> Iterator[Test]:
    text = path.read_text(encoding="utf-8")
    lines = text.splitlines()
    for node in ast.parse(text).body:
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
            source = "\n".join(lines[node.lineno - 1 : node.end_lineno])
            yield Test(path, node.lineno, node.name, frozenset(re.findall(r"\w+", source)))
