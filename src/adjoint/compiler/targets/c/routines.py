"""Calls of routines as C text, and the addresses of routines: functions of our own in c_kernels,
and those of BLAS and LAPACK through SciPy.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from functools import cache
from typing import Any

from adjoint.c_kernels import loading
from adjoint.compiler.host import (
    AfterFirst,
    CallRoutine,
    HostOperand,
    HostProgram,
    JoinRows,
    PackedArguments,
    Symbol,
)
from adjoint.compiler.targets.c.addresses import argument, number, pointer
from adjoint.core.c_types import C_TYPES
from adjoint.core.importing import imported
from adjoint.core.shapes import Shape

_LIBRARIES = {"blas": "cython_blas", "lapack": "cython_lapack"}  # of SciPy


@cache
def addresses(used: Sequence[str]) -> Any:
    """The addresses of the used routines, in order.

    A program keeps this array as long as its native code may read it.
    """
    return (ctypes.c_void_p * len(used))(*map(_address, used))


def _address(symbol: str) -> int | None:
    file, *names = symbol.split(":")
    if file in _LIBRARIES:
        return _of_scipy(_LIBRARIES[file], *names)
    return loading.address(file, *names)


def _of_scipy(library: str, name: str) -> int | None:
    capsule = imported(f"scipy.linalg.{library}").__pyx_capi__[name]
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    signature = ctypes.pythonapi.PyCapsule_GetName
    signature.restype, signature.argtypes = ctypes.c_char_p, [ctypes.py_object]
    return pointer(capsule, signature(capsule))


def declarations(host: HostProgram) -> str:
    """Macros for the addresses of the routines that a program uses, and the types of its calls."""
    counts = sorted({len(s.arguments) for s in host.statements() if isinstance(s, CallRoutine)})
    kinds = [", ".join(["const long *", *["const void *"] * count]) for count in counts]
    types = [f"typedef int (*of_{n})({kind});" for n, kind in zip(counts, kinds, strict=True)]
    names = enumerate(map(identifier, host.routines))
    return "\n".join([*types, *(f"#define {name} library[{k}]" for k, name in names)])


def identifier(symbol: str) -> str:
    """The C name of the address of a symbol: "factors_lu_double"."""
    return symbol.replace(":", "_")


def called(call: CallRoutine) -> str:
    """C text of a call."""
    loops, where = _batch_loops(call.batch)
    packed, given = [], []
    for each in call.arguments:
        if isinstance(each, PackedArguments):
            given.append(f"&packed{len(packed)}")
            packed.append(_packed(each, f"packed{len(packed)}"))
        else:
            given.append(_argument(each, where))
    lines = [
        *loops,
        _sizes(call.numbers),
        *packed,
        f"if (((of_{len(given)}){identifier(call.symbol.name)})({', '.join(['sizes', *given])})) "
        "*status = 1;",
        *["}"] * len(loops),
    ]
    return _block(lines)


def _argument(given: HostOperand | Symbol | AfterFirst | None, where: Sequence[str]) -> str:
    return identifier(given.name) if isinstance(given, Symbol) else argument(given, where)


def _packed(given: PackedArguments, name: str) -> str:
    """A structure of addresses and real numbers."""
    reals = f" double reals[{len(given.reals)}];" if given.reals else ""
    addresses = ", ".join(_argument(each, ()) for each in given.addresses)
    numbers = f", {{{', '.join(map(repr, given.reals))}}}" if given.reals else ""
    kind = f"struct {{ const void *of[{len(given.addresses)}];{reals} }}"
    return f"const {kind} {name} = {{{{{addresses}}}{numbers}}};"


def _sizes(numbers: Sequence[Any]) -> str:
    """C text of the numbers passed to a routine; a static array if all are known."""
    fixed = "static " if all(type(n) is int for n in numbers) else ""
    return f"{fixed}const long sizes[] = {{{', '.join(map(number, numbers))}}};"


def _batch_loops(batch: Shape) -> tuple[list[str], list[str]]:
    names = [f"n{d}" for d in range(len(batch))]
    lines = [
        f"for (long {name} = 0; {name} < {size}; {name}++) {{"
        for name, size in zip(names, batch, strict=True)
    ]
    return lines, names


def joined(statement: JoinRows) -> str:
    """C text that copies rows of arrays next to each other."""
    target, kind = statement.target, C_TYPES[statement.target.dtype.name]
    row, place, lines = sum(statement.lengths), 0, []
    for source, length in zip(statement.sources, statement.lengths, strict=True):
        if length:
            to = f"{pointer(target)} + n * {row} + {place}"
            text = f"{pointer(source)} + n * {length}"
            lines.append(f"  __builtin_memcpy({to}, {text}, {length} * sizeof({kind}));")
        place += length
    return _block([f"for (long n = 0; n < {statement.rows}; n++) {{", *lines, "}"])


def _block(lines: Sequence[str]) -> str:
    return "\n".join(["{", *(f"  {line}" for line in lines), "}", ""])
