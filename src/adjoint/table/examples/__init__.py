"""One sentence on each public operator, and a call with its result.

`<family>.txt` has a block of lines for each operator of the family: `name: sentence`, then a
doctest. The sentence may be missing where the row has a `doc`. A file is read when the help of one
of its operators is (`ops/documentation.py`), so most processes read none.
`tests/laws/test_operator_examples.py` runs all of them; `python -m tests.operator_examples` fills
in results.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import cache

from adjoint.core.records import record

_FOLDER = os.path.dirname(__file__)


@record
class Example:
    """One block of a file."""

    name: str  # "linalg_svd"
    sentence: str  # "The singular values, descending."
    lines: str  # ">>> ad.neg(ad.tensor([1.0]))\ntensor([-1.])"


def of(family: str, name: str) -> Example:
    """The example of an operator; empty for private operators and users' own.

    >>> of("pointwise", "neg").sentence
    '−x.'
    """
    return Example(name, "", "") if name.startswith("_") else found(_path(family), name)


def found(path: str, name: str) -> Example:
    """The example of a name in a file; an empty one if there is none."""
    text = _text(path)
    start = text.find(f"\n\n{name}:") + 2
    return Example(name, "", "") if start == 1 else _example(text[start:].partition("\n\n")[0])


def blocks(family: str) -> Iterator[Example]:
    """All examples of a family, in the order of its file."""
    return blocks_of(_path(family))


def blocks_of(path: str) -> Iterator[Example]:
    """All examples of a file, in its order."""
    return (_example(block) for block in _text(path).strip().split("\n\n") if block)


def _example(block: str) -> Example:
    head, _, lines = block.partition("\n")
    name, _, sentence = head.partition(":")
    return Example(name, sentence.strip(), lines)


def _path(family: str) -> str:
    return os.path.join(_FOLDER, f"{family}.txt")


@cache
def _text(path: str) -> str:
    """The blocks of a file; "" if there is none, as for a user's own family."""
    if not os.path.isfile(path):
        return ""
    with open(path, encoding="utf-8") as file:
        return f"\n\n{file.read().strip()}\n\n"
