"""Kernels written in C: finding them, building them once for each machine, calling them.

A C file begins with declarations; the rest of it is repeated for each type. Where there is no C
compiler, or ADJOINT_NATIVE=0 forbids native kernels, there are none.
"""

from __future__ import annotations

import ctypes
import glob
import math
import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from adjoint.core.c_types import REAL_KINDS
from adjoint.core.shapes import Shape
from adjoint.core.threads import TEAM
from adjoint.toolchain import background, build

Array = np.ndarray[Any, Any]
MOST = 3  # most dimensions of windows, and of batches
_LINE = 64  # bytes of a line of the cache
_pointer = ctypes.c_void_p.from_address

_SPLIT = "/* What follows is written once for each REAL: float, double. */\n"
_INCLUDED = re.compile(r'^#include "(\w+\.c)"\n', re.MULTILINE)


def ready(kernels: str, name: str, dtype: Any, dimensions: int = 1) -> Any:
    """The C function of a file for arrays of a dtype; None if there is none, and while it is being
    built in the background.
    """
    return _found(kernels, name, dtype, dimensions, background.soon)


def function(kernels: str, name: str, dtype: Any, dimensions: int = 1) -> Any:
    """The C function of a file for arrays of a dtype, built if necessary; None if none."""
    return _found(kernels, name, dtype, dimensions, background.now)


def ready_for(kernels: str, name: str, kind: str) -> Any:
    """`ready` for numbers of a C type of one word: "double", "short"."""
    return _of_kind(kernels, name, kind, background.soon)


def routine(kernels: str, name: str, kind: str) -> Any:
    """The C function of a file for numbers of a C type, which is built now; None if there is none.

    Types of one word: "double", "long", "schar".
    """
    return _of_kind(kernels, name, kind, background.now)


def address(kernels: str, name: str, kind: str) -> int:
    """The address of a C function that compiled programs call, built now.

    Unlike eager kernels programs need the function: a compiler that refuses it raises BuildError.
    """
    found = _functions.get((kernels, name, kind))
    if found is None:
        found = _typed(build.library(_source(kernels, kind)), kernels, name, kind)
    place = ctypes.cast(found, ctypes.c_void_p).value
    assert place is not None, "a function has an address"
    return place


def sources() -> Iterator[str]:
    """The texts of all files of kernels, for both types."""
    for path in sorted(glob.glob(os.path.join(os.path.dirname(__file__), "*.c"))):
        name = os.path.basename(path).removesuffix(".c")
        if name != "tiles":  # included by other files
            yield from (_source(name, kind) for kind in REAL_KINDS.values())


_functions: dict[tuple[str, str, str], Any] = {}


def _found(
    kernels: str, name: str, dtype: Any, dimensions: int, library: Callable[[str], Any]
) -> Any:
    kind = REAL_KINDS.get(np.dtype(dtype))
    if kind is None or dimensions > MOST:
        return None
    return _of_kind(kernels, name, kind, library)


def _of_kind(kernels: str, name: str, kind: str, library: Callable[[str], Any]) -> Any:
    key = kernels, name, kind
    if key in _functions:
        return _functions[key]
    made = library(_source(kernels, kind)) if background.is_allowed() else None
    return None if made is None else _typed(made, *key)


def _typed(library: Any, kernels: str, name: str, kind: str) -> Any:
    """A function of a library, which tells whether it failed."""
    found = getattr(library, f"{name}_{kind}")
    found.restype, found.kind = ctypes.c_int, kind
    _functions[kernels, name, kind] = found
    return found


@lru_cache(maxsize=32)
def _source(kernels: str, kind: str) -> str:
    """The C text for numbers of a kind: "float"."""
    place = f"#define DATA {build.data_offset()} /* of the address in an array object */\n"
    return f"{place}{TEAM}\n{_text('kernels.h')}{''.join(_parts(f'{kernels}.c', kind))}"


def standalone(used: Iterable[tuple[str, str]]) -> str:
    """The text of the files of kernels that other C code includes, each given with a kind of
    numbers: ("product", "float"). Nothing in it is visible outside, and each part stands once.
    """
    parts = ["#define KERNEL static __attribute__((unused))\n", _text("kernels.h")]
    for name, kind in sorted(used):
        parts += _parts(f"{name}.c", kind)
    return "".join(dict.fromkeys(parts))


def _parts(name: str, kind: str) -> list[str]:
    """The declarations and the functions of a C file, after those of the file it includes."""
    head, body = _text(name).split(_SPLIT)
    included = _INCLUDED.search(head)
    before = [] if included is None else _parts(included[1], kind)
    return [*before, _INCLUDED.sub("", head), body.replace("REAL", kind)]


def _text(name: str) -> str:
    path = os.path.join(os.path.dirname(__file__), name)
    with open(path, encoding="utf-8") as file:
        return file.read()


def geometry(
    images: int, groups: int, channels: tuple[int, int], large: Shape, small: Shape,
    kernel: Shape, stride: Shape, padding: Shape, dilation: Shape,
    large_steps: Sequence[int], small_steps: Sequence[int],
) -> list[int]:  # fmt: skip
    """The fields of the C structure `Geometry`; the steps of both images are in elements."""
    found = [images, groups, *channels]
    for size in (large, small, kernel, stride):
        found += _three(size, 1)
    found += [*_three(padding, 0), *_three(dilation, 1)]
    return [*found, *_five(large_steps), *_five(small_steps)]


def _three(values: Sequence[int], missing: int) -> list[int]:
    return [missing] * (MOST - len(values)) + list(values)


def _five(steps: Sequence[int]) -> list[int]:
    return [*steps[:2], *_three(steps[2:], 0)]


def block(fields: Sequence[int]) -> Any:
    """Fields as a C structure of integers, which is read-only."""
    return _block(tuple(fields))


@lru_cache(maxsize=4096)
def _block(fields: tuple[int, ...]) -> Any:
    return (ctypes.c_long * len(fields))(*fields)


def call(run: Any, fields: Any, *arguments: Any) -> bool:
    """Call a C function with a `block`, arrays, ctypes numbers or None; whether it failed."""
    kind, place, given = run.kind, build.data_offset(), []
    for value in arguments:
        if isinstance(value, np.ndarray):
            if REAL_KINDS.get(value.dtype, kind) != kind:
                raise TypeError(f"native code for {kind} was called with numbers of {value.dtype}")
            given.append(_pointer(id(value) + place))
        else:
            given.append(value)
    return run(fields, *given) != 0


def call_on(run: Any, sizes: Sequence[int], given: Sequence[Array], made: Sequence[Array]) -> bool:
    """Call a routine, a C function of (sizes, operands, results); whether it failed."""
    return run(block(sizes), _addresses(given), _addresses(made)) != 0


def _addresses(arrays: Sequence[Array]) -> Any:
    place = build.data_offset()
    return (ctypes.c_void_p * len(arrays))(*[_pointer(id(a) + place).value for a in arrays])


def lines(shape: Shape, dtype: Any) -> Array:
    """An uninitialised array that starts at a cache line, so that no vector crosses two lines."""
    size = math.prod(shape) * np.dtype(dtype).itemsize
    memory = np.empty(size + _LINE, np.uint8)
    start = -memory.ctypes.data % _LINE
    return memory[start : start + size].view(dtype).reshape(shape)


def aligned(array: Array) -> Array:
    """The array, or a copy if its elements are not aligned."""
    return array if array.flags.aligned else array.copy()


def steps(array: Array) -> list[int]:
    """The strides of an array in elements."""
    return [stride // array.itemsize for stride in array.strides]
