"""The way in for calls of a known signature: as little Python as possible.

A function is written for one program: it puts the addresses of arrays into the block of arguments
and calls. Native code itself looks whether the arrays are of the right shape, dtype and layout, by
the fields of NumPy's array objects, and declines if they are not.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np

from adjoint.core import pytrees
from adjoint.core.dtypes import DEFAULT
from adjoint.core.pytrees import TreeDef
from adjoint.core.sizes import is_open
from adjoint.core.state import dtype_blocks
from adjoint.graph.ir import Value
from adjoint.native import build
from adjoint.tensor.tensor import Tensor, make

DECLINED = object()  # what an entry returns for arguments that it is not for
_ND, _SIZES, _DTYPE, _FLAGS = 8, 16, 40, 48  # bytes after the address of the data
_CONTIGUOUS, _ALIGNED = 0x1, 0x100


@lru_cache(maxsize=1)
def fields_are_known() -> bool:
    """Whether array objects are laid out as `fits` in native code expects: found by looking."""
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
    """C: check the arrays of the inputs, whose dtypes stand from `first` on, and run. `opening`
    declares the open sizes.
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


def write(program: Any, arguments: TreeDef, structure: TreeDef) -> Callable[..., Any] | None:
    """The Python function that calls a program with tensors and arrays, or None.

    They may stand alone or in tuples, lists and dictionaries; other containers have none.
    """
    names = [f"x{i}" for i in range(len(arguments.children))]
    # what is not said in the arguments may depend on it
    tests = ["(DEFAULT.dtype if dtype_blocks else DEFAULT.process) is default"]
    leaves: list[str] = []
    for name, child in zip(names, arguments.children, strict=True):
        if not _taken(child, name, tests, leaves):
            return None
    lines = [f"def call({', '.join(names)}):"]
    lines.append(f"    if not ({' and '.join(tests)}):\n        return DECLINED")
    for i, leaf in enumerate(leaves):
        lines += [
            f"    a{i} = {leaf}",
            f"    if type(a{i}) is Tensor and a{i}.edge is a{i}.home is None:",
            f"        a{i} = a{i}.value",
            f"    elif type(a{i}) is not ndarray:",
            "        return DECLINED",
        ]
    lines.append("    with lock:")
    for number, (slot, _, _, size) in enumerate(program.results):
        made = f"empty(shape{number}, dtype{number})"
        if size >= program.pooled_from:
            made = f"pooled({number}, shape{number}, dtype{number})"
        lines += [f"        r{number} = {made}", f"        block[{slot}] = id(r{number})"]
    lines += [f"        block[{slot}] = id(a{i})" for i, slot in enumerate(program.inputs)]
    lines.append("        if entry(address):\n            return DECLINED")
    outputs = [f"make(r{n})" for n in program.direct]
    # an index out of range, or a matrix without a factor: the long way says so
    lines.append(
        "        if status.value:\n            status.value = 0\n            return DECLINED"
    )
    listed = f"unflatten(structure, [{', '.join(outputs)}])"
    lines.append(f"    return {_built(structure, iter(outputs)) or listed}")
    scope: dict[str, Any] = {
        "Tensor": Tensor,
        "make": make,
        "DECLINED": DECLINED,
        "empty": np.empty,
        "ndarray": np.ndarray,
        "lock": program.lock,
        "block": memoryview(program.block).cast("B").cast("Q"),
        "entry": program.entry_function,
        "address": ctypes.addressof(program.block),
        "status": program.status,
        "pooled": program.pooled,
        "unflatten": pytrees.unflatten,
        "structure": structure,
        "DEFAULT": DEFAULT,
        "dtype_blocks": dtype_blocks,
        "default": DEFAULT.dtype,
    }
    for number, (_, shape, dtype, _) in enumerate(program.results):
        scope |= {f"shape{number}": shape, f"dtype{number}": dtype}
    exec("\n".join(lines), scope)
    return scope["call"]


def _taken(structure: TreeDef, name: str, tests: list[str], leaves: list[str]) -> bool:
    """Write tests of a container and names of its leaves, as Python text; False if it cannot be."""
    if structure.kind is None:
        leaves.append(name)
        return True
    if structure.kind is dict and all(isinstance(key, str) for key in structure.data):
        keys = [repr(key) for key in structure.data]
        tests.append(f"type({name}) is dict and [*{name}] == [{', '.join(keys)}]")
    elif structure.kind in (tuple, list):
        keys = [str(i) for i in range(len(structure.children))]
        tests.append(f"type({name}) is {structure.kind.__name__} and len({name}) == {len(keys)}")
    else:
        return False
    pairs = zip(keys, structure.children, strict=True)
    return all(_taken(child, f"{name}[{key}]", tests, leaves) for key, child in pairs)


def _built(structure: TreeDef, leaves: Any) -> str:
    """Python text that builds tuples and lists of leaves; nothing for other containers."""
    if structure.kind is None:
        return next(leaves)
    if structure.kind not in (tuple, list):
        return ""
    parts = [_built(child, leaves) for child in structure.children]
    if not all(parts):
        return ""
    inside = ", ".join(parts)
    if structure.kind is list:
        return f"[{inside}]"
    return f"({inside},)" if parts else "()"
