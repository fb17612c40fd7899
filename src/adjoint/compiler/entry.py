"""The way in for calls of a known signature, with as little Python as possible.

A function is made for one program (`fast_call.py`): it puts the addresses of arrays into the block
of arguments and calls. Native code itself checks the shape, dtype and layout of the arrays through
the fields of NumPy's array objects, and declines if they are wrong. Python handles only the
containers other than tuples and lists of results.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from adjoint.compiler import fast_call
from adjoint.core import pytrees
from adjoint.core.pytrees import TreeDef
from adjoint.core.symbolic_sizes import is_open
from adjoint.graph.ir import Value
from adjoint.toolchain import build

DECLINED = object()  # returned by an entry for arguments that do not fit
_ND, _SIZES, _DTYPE, _FLAGS = 8, 16, 40, 48  # offsets in bytes from the address of the data
_CONTIGUOUS, _ALIGNED = 0x1, 0x100


@lru_cache(maxsize=1)
def fields_are_known() -> bool:
    """Whether array objects have the fields that `fits` in C expects; tried on an array."""
    array = np.empty((3, 5), np.float32)
    start = id(array) + build.data_offset()
    sizes = ctypes.c_void_p.from_address(start + _SIZES).value
    if ctypes.c_int.from_address(start + _ND).value != array.ndim or not sizes:
        return False
    return (
        (ctypes.c_ssize_t * 2).from_address(sizes)[:] == [3, 5]
        and ctypes.c_void_p.from_address(start + _DTYPE).value == id(array.dtype)
        and ctypes.c_int.from_address(start + _FLAGS).value == array.flags.num
    )


def text(
    inputs: list[Value], slots: dict[Value, int], first: int, segments: list[str], opening: str
) -> str:
    """C text that checks the input arrays and runs. Their dtypes begin at `first` in the block of
    arguments; `opening` declares the symbolic sizes.
    """
    offset = build.data_offset()
    lines = [
        "static int fits(void *object, int nd, const long *sizes, void *dtype) {",
        f"  char *field = (char *)object + {offset};",
        f"  const long *have = *(long **)(field + {_SIZES});",
        f"  int same = *(int *)(field + {_ND}) == nd && *(void **)(field + {_DTYPE}) == dtype",
        f"    && (*(int *)(field + {_FLAGS}) & {_CONTIGUOUS | _ALIGNED}) == "
        f"{_CONTIGUOUS | _ALIGNED};",
        "  for (int d = 0; same && d < nd; d++) same = have[d] == sizes[d];",
        "  return same;",
        "}",
        f"int entry(void **p) {{\n{opening}",
    ]
    for number, value in enumerate(inputs):
        sizes = ", ".join(map(str, value.shape)) or "0"
        fixed = "" if is_open(value.shape) else "static "
        lines.append(f"  {{ {fixed}const long sizes[] = {{{sizes}}};")
        lines.append(
            f"    if (!fits(p[{slots[value]}], {len(value.shape)}, sizes, p[{first + number}])) "
            "return 1; }"
        )
    return "\n".join([*lines, *(f"  {s}(p);" for s in segments), "  return 0;", "}", ""])


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
