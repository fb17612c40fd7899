"""Functions generated as text for a row: compiled once, and prepared for later processes.

Names that all these texts use are in the namespace beforehand; each other name with an underscore
gets a value from the row. So a function is made from its text or from prepared code in the same
way.
"""

from __future__ import annotations

import linecache
from collections.abc import Callable, Iterator
from types import CodeType
from typing import Any

from adjoint.table.prepared import PREPARED


def function(
    symbol: str,
    filename: str,
    write: Callable[[], list[str]],
    namespace: dict[str, Any],
    value_of: Callable[[str], Any],
    key: str,
) -> tuple[Callable[..., Any], str]:
    """The function `symbol` that the lines of `write` define, and its text.

    The function owns `namespace`, to which the values of its other names are added. `key` is the
    name of its prepared code, '' if it is not prepared.
    """

    def compiled() -> tuple[str, tuple[str, ...], CodeType]:
        text = "\n".join(write()) + "\n"
        code = compile(text, filename, "exec")
        return text, tuple(_own_names(code, {*namespace, symbol})), code

    text, names, code = PREPARED.once(key, compiled)
    linecache.cache[filename] = (len(text), None, text.splitlines(keepends=True), filename)
    for name in names:
        namespace[name] = value_of(name)
    local: dict[str, Any] = {}  # not in the namespace: an operator may be called `any`
    exec(code, namespace, local)
    return local[symbol], text


def _own_names(code: CodeType, known: set[str]) -> Iterator[str]:
    """The names with an underscore that a code reads from its namespace, but for `known` ones."""
    for name in code.co_names:
        if name.startswith("_") and name not in known:
            known.add(name)
            yield name
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _own_names(constant, known)
