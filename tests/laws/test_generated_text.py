"""Nothing learns from text that we have written: what a program is made of, its data say.

Text is the last step. Reading what people write (rows, schemas, stubs, C by hand) is parsing.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import SOURCE
from tests.laws.test_architecture import imports_of

WRITERS = (
    *("compiler", "loops", "expressions", "optim", "export", "toolchain", "c_kernels"),
    *("calls", "ops", "transforms", "kernels"),
)
# files that import regular expressions, and what they read with them
READERS = {
    "c_kernels/loading.py": "C by hand: which file includes which",
    "expressions/special_functions.py": "C by hand: where a function begins, and what it calls",
    "kernels/from_c/reading.py": "C by hand, translated to Python",
    "expressions/definitions.py": "functions, in the language of elements",
    "expressions/grammar.py": "the language of elements",
    "expressions/parsing.py": "the language of elements",
    "calls/eager.py": "schemas, as people write them",
    "toolchain/discovery.py": "any C source: declarations that a compiler lacks are taken out",
    "toolchain/units.py": "any C source: a long one is cut for several processes",
}
NAMES = frozenset(("text", "source", "body", "code", "c_text", "printed"))  # of generated text
# words that are looked for in a text, each with whose text it is
ASKED = {
    ("cli/functions.py", ".py:"): "a user's argument",
    ("stubs/modules.py", "__getattr__"): "a module of ours",
    ("table/__init__.py", "\n  like: foreach\n"): "rows",
    ("table/__init__.py", "Tensor[] self"): "rows",
    ("table/formula.py", "#"): "a formula of a row",
    ("table/reading.py", "_"): "a word of a row",
}  # fmt: skip


@pytest.mark.parametrize("layer", WRITERS)
def test_who_writes_text_reads_none(layer: str) -> None:
    found = {
        path.relative_to(SOURCE).as_posix()
        for path in (SOURCE / layer).rglob("*.py")
        for module, _ in imports_of(path)
        if module in ("re", "regex")
    }
    assert found == {file for file in READERS if file.startswith(f"{layer}/")}


def asked_in(path: Path) -> Iterator[str]:
    """The words of tests such as `"simd" in source`."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if not isinstance(node, ast.Compare):
            continue
        sides = [node.left, *node.comparators]
        for word, sign, text in zip(sides, node.ops, node.comparators, strict=False):
            name = getattr(text, "id", getattr(text, "attr", ""))
            if isinstance(sign, (ast.In, ast.NotIn)) and name in NAMES:
                if isinstance(word, ast.Constant) and isinstance(word.value, str):
                    yield word.value
                elif isinstance(word, ast.JoinedStr):
                    yield ast.unparse(word)


def test_no_word_is_looked_for_in_text() -> None:
    found = {
        (path.relative_to(SOURCE).as_posix(), word)
        for path in SOURCE.rglob("*.py")
        for word in asked_in(path)
    }
    assert found - {("cli/where.py", "f'\"{key}\":'")} == {*ASKED}
