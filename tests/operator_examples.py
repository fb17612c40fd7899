"""Fills in the results of the examples of tables: `python -m tests.operator_examples`.

Write a block `name: sentence` with its lines `>>> …` into src/adjoint/table/examples/<family>.txt,
or src/adjoint/doors/torch/examples/<table>.txt, and run this: calls without a result get theirs.
`--all` computes the others again, too, after a change of printing. Look at the difference before
you commit it.
"""

from __future__ import annotations

import contextlib
import doctest
import io
import sys
from pathlib import Path
from typing import Any

import adjoint as ad
from adjoint.table import FAMILIES, examples
from tests import SOURCE

FOLDER = Path(examples.__file__).parent
DOORS = sorted((SOURCE / "doors").glob("*/examples/*.txt"))


def result(source: str, scope: dict[str, Any]) -> str:
    """What an interactive Python prints for a line."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(source, "<example>", "single"), scope)
    return printed.getvalue().rstrip("\n").replace("\n\n", "\n<BLANKLINE>\n")


def filled(example: examples.Example, *, again: bool) -> str:
    """A block with results."""
    scope = {"ad": ad}
    lines = [f"{example.name}: {example.sentence}".rstrip()]
    for part in doctest.DocTestParser().get_examples(example.lines):
        found = result(part.source, scope)
        lines += [
            f"{'...' if n else '>>>'} {line}" for n, line in enumerate(part.source.splitlines())
        ]
        lines += [found if again or not part.want else part.want.rstrip("\n")]
    return "\n".join(line for line in lines if line)


def main() -> None:
    again = "--all" in sys.argv[1:]
    for path in (*(FOLDER / f"{family}.txt" for family in FAMILIES), *DOORS):
        found = [filled(example, again=again) for example in examples.blocks_of(str(path))]
        if found:
            path.write_text("\n\n".join(found) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
