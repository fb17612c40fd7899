"""The way in for calls of a known signature, with as little Python as possible.

A function is made for one program (`fast_call.py`): it puts the addresses of arrays into the block
of arguments and calls. Native code itself checks the shape, dtype and layout of the arrays
(`targets/c/entry.py`), and declines if they are wrong. Python handles only the containers other
than tuples and lists of results.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from adjoint.compiler import fast_call
from adjoint.core import pytrees
from adjoint.core.pytrees import TreeDef

DECLINED = object()  # returned by an entry for arguments that do not fit


def write(
    program: Any, arguments: TreeDef, structure: TreeDef, kinds: Sequence[int]
) -> Callable[..., Any] | None:
    """A function that calls a program with tensors and arrays; None if there can be none.

    Arguments stand alone or in tuples, lists and dictionaries. `kinds` says for each whether it is
    a tensor, an array or either (`fast_call.TENSOR`).
    """
    steps = _building_steps(structure, iter(program.direct))
    listed = [*((fast_call.LEAF, n) for n in program.direct), (fast_call.LIST, len(program.direct))]
    native = fast_call.function(program, listed if steps is None else steps, DECLINED, kinds)
    if native is None:
        return None
    names = [f"x{i}" for i in range(len(arguments.children))]
    taken = _Taken()
    if not all(map(taken.take, arguments.children, names)):
        return None
    tests, leaves = taken.tests, taken.leaves
    if not tests and steps is not None:
        return native
    lines = [
        f"def call({', '.join(names)}):",
        f"    if not ({' and '.join(tests) or True}):\n        return DECLINED",
        f"    result = native({', '.join(leaves)})",
    ]
    built = "result"
    if steps is None:
        built = "result if result is DECLINED else unflatten(structure, result)"
    lines.append(f"    return {built}")
    scope: dict[str, Any] = {
        **taken.scope,
        "DECLINED": DECLINED,
        "native": native,
        "unflatten": pytrees.unflatten,
        "structure": structure,
    }
    exec("\n".join(lines), scope)
    return scope["call"]


class _Taken:
    """Builds the text that takes containers apart: its tests, and the expressions of the leaves.

    Keys of dictionaries get names in the scope of the text; core/texts.py says why.
    """

    def __init__(self) -> None:
        self.tests: list[str] = []
        self.leaves: list[str] = []
        self.scope: dict[str, Any] = {}

    def _named(self, value: Any) -> str:
        name = f"k{len(self.scope)}"
        self.scope[name] = value
        return name

    def take(self, structure: TreeDef, name: str) -> bool:
        """Take a container apart; return False for an unknown kind of container."""
        if structure.kind is None:
            self.leaves.append(name)
            return True
        if structure.kind is dict:
            steps = [self._named(key) for key in structure.data]
            keys = self._named([*structure.data])
            self.tests.append(f"type({name}) is dict and [*{name}] == {keys}")
        elif structure.kind in (tuple, list):
            steps = [str(i) for i in range(len(structure.children))]
            kind = structure.kind.__name__
            self.tests.append(f"type({name}) is {kind} and len({name}) == {len(steps)}")
        else:
            return False
        return all(map(self.take, structure.children, [f"{name}[{step}]" for step in steps]))


def _building_steps(structure: TreeDef, leaves: Iterator[int]) -> list[tuple[int, int]] | None:
    """The steps that build the result's tuples and lists; None if it has other containers."""
    if structure.kind is None:
        return [(fast_call.LEAF, next(leaves))]
    if structure.kind not in (tuple, list):
        return None
    found: list[tuple[int, int]] = []
    for child in structure.children:
        steps = _building_steps(child, leaves)
        if steps is None:
            return None
        found += steps
    kind = fast_call.TUPLE if structure.kind is tuple else fast_call.LIST
    return [*found, (kind, len(structure.children))]
