"""The function `entry` of a program: it checks the arrays of a call, and runs.

It reads the shape, dtype and layout of arrays in the fields of NumPy's array objects.
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from functools import lru_cache

import numpy as np

from adjoint.compiler.targets.c.addresses import opening
from adjoint.core.symbolic_sizes import is_open
from adjoint.graph.ir import Value
from adjoint.toolchain import build

_ND, _SIZES, _DTYPE, _FLAGS = 8, 16, 40, 48  # offsets in bytes from the address of the data
_CONTIGUOUS, _ALIGNED = 0x1, 0x100


@lru_cache(maxsize=1)
def _fields_are_known() -> bool:
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
    inputs: Sequence[Value], slots: Mapping[Value, int], first: int, segments: Sequence[str],
    symbols: int,
) -> str:  # fmt: skip
    """C text of the function; "" if there can be none. The dtypes of the inputs begin at `first` in
    the block of arguments; `symbols` is the number of symbolic sizes.
    """
    if not _fields_are_known():
        return ""
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
        f"int entry(void **p) {{\n{opening(symbols)}",
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
