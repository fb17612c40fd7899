"""Python functions made from the C texts of special functions (`expressions/special/*.c`).

A special function with branches and loops is written once, in C for one element. Compiled programs
and native kernels run that text; here it becomes a function of vectors, and one of single numbers
for arrays of a few elements, so that the same algorithm runs where there is no compiler, or not
yet. `writing.py` says how.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import numpy as np

from adjoint.expressions.special_functions import called
from adjoint.kernels.from_c import lanes, numbers
from adjoint.kernels.from_c.reading import read
from adjoint.kernels.from_c.tree import CCall, CFunction, CName, CTable, walk
from adjoint.kernels.from_c.writing import write

Array = np.ndarray[Any, np.dtype[Any]]
FEW = 31  # elements up to which one after the other is quicker than vectors
_WIDE: dict[str, Any] = {
    "_choose": lanes.branches, "_where": lanes.where, "_some": lanes.some, "_every": lanes.every,
    "_whole": lanes.whole, "_Cells": lanes.Cells, "_both": np.logical_and,
    "_either": np.logical_or, "_no": np.logical_not, **lanes.C_FUNCTIONS,
}  # fmt: skip
_SINGLE: dict[str, Any] = {"_whole": int, "_Cells": lanes.Cells, **numbers.C_FUNCTIONS}


def twin(
    name: str, single: Callable[..., float] | None = None
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Say which NumPy function stands for a C function without a text of its own, and which
    function of numbers if there is one.
    """

    def keep(function: Callable[..., Any]) -> Callable[..., Any]:
        _WIDE[name], _SINGLE[name] = function, single or numbers.single(function)
        return function

    return keep


def computed(name: str, *given: Any) -> Any:
    """The values of a C function: of vectors of float64, real numbers, and whole numbers.

    >>> computed("ad_whole_power", np.array([2.0, 3.0]), 2)
    array([4., 9.])
    """
    size = max(x.size for x in given if isinstance(x, np.ndarray))
    if size == 0:
        return np.zeros(0)
    with np.errstate(all="ignore"):
        if size > FEW:
            wide = [np.full(size, x) if isinstance(x, float) else x for x in given]
            return function(name)(*wide)
        return np.array([_one(name, given, place) for place in range(size)], dtype=np.float64)


def _one(name: str, given: tuple[Any, ...], place: int) -> Any:
    own = [float(x[place]) if isinstance(x, np.ndarray) else x for x in given]
    try:
        return function(name, single=True)(*own)
    except numbers.REFUSED:
        wide = [np.array([x]) if isinstance(x, float) else x for x in own]
        return np.broadcast_to(function(name)(*wide), 1)[0]


@cache
def function(name: str, *, single: bool = False) -> Callable[..., Any]:
    """The Python function of a C function: of vectors, or of single numbers."""
    scope = _SINGLE if single else _WIDE
    for needed in _needed(name, scope):
        _define(needed, scope)
    return scope[name]


def source(name: str, *, single: bool = False) -> str:
    """The Python text of a C function."""
    tree = _tree(name)
    known = {n: _tree(n) for n in _names(tree) if n in called()}
    functions = {n: t for n, t in known.items() if isinstance(t, CFunction)}
    tables = frozenset(n for n, t in known.items() if isinstance(t, CTable))
    return write(tree, functions, tables, single=single)


def _define(name: str, scope: dict[str, Any]) -> None:
    """Make a function or a table."""
    tree, single = _tree(name), scope is _SINGLE
    if isinstance(tree, CTable):
        scope[name] = numbers.entries(tree.numbers) if single else np.array(tree.numbers)
        return
    exec(compile(source(name, single=single), f"<Python text of {name}>", "exec"), scope)
    if tree.kind == "void" and not single:
        scope[f"tabulated_{name}"] = lanes.Tabulated(scope[name])


@cache
def _tree(name: str) -> Any:
    return read(called()[name])


def _names(tree: Any) -> Iterator[str]:
    if isinstance(tree, CFunction):
        for part in walk(tree.body):
            if isinstance(part, (CCall, CName)):
                yield part.function if isinstance(part, CCall) else part.id


def _needed(name: str, scope: dict[str, Any]) -> list[str]:
    """The functions and tables that a function needs and that are not there yet."""
    found: dict[str, None] = {}
    waiting = [name]
    while waiting:
        each = waiting.pop()
        if each not in found and each not in scope:
            found[each] = None
            waiting += [n for n in _names(_tree(each)) if n in called()]
    return list(found)
