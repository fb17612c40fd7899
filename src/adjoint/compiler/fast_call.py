"""Calls of compiled programs without Python: `targets/c/calling.c` as a built-in function.

It uses stable interfaces of Python and NumPy only. Offsets of object fields are found by searching
objects for known words; if the search fails, programs are called the long way.
"""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import Any

import numpy as np

from adjoint.tensor.nodes import ZERO
from adjoint.tensor.tensor import Tensor, make
from adjoint.toolchain import background

LEAF, TUPLE, LIST = range(3)  # steps that build an output
TENSOR, ARRAY, EITHER = range(3)  # kinds of arguments
_PATH = os.path.join(os.path.dirname(__file__), "targets", "c", "calling.c")
_NEW = 65  # the slot of `__new__` among those of a type
_NEW_FROM_DESCR = 94  # its place in NumPy's table
_FUNCTIONS = (
    "PyObject_CallNoArgs", "PyTuple_New", "PyTuple_SetItem", "PyList_New", "PyList_SetItem",
    "Py_IncRef", "Py_DecRef", "PyEval_SaveThread", "PyEval_RestoreThread",
)  # fmt: skip
_FIELDS = ("value", "edge", "home", "extra", "counter")


def _words(thing: Any, size: int) -> list[int | None]:
    """The words of an object in memory."""
    return [ctypes.c_void_p.from_address(id(thing) + at).value for at in range(0, size, 8)]


def _place(thing: Any, size: int, wanted: int) -> int:
    """The offset in bytes of a word in an object."""
    return 8 * _words(thing, size).index(wanted)


def _fields() -> list[int]:
    """The offsets of an object's type, of a ctypes array's memory, and of the fields of tensors."""
    tensor, memory = make(np.empty(3)), (ctypes.c_long * 4)()
    marks = [object() for _ in _FIELDS]
    for name, mark in zip(_FIELDS, marks, strict=True):
        setattr(tensor, name, mark)
    size = Tensor.__basicsize__
    places = [_place(tensor, size, id(mark)) for mark in marks]
    for name in _FIELDS:
        setattr(tensor, name, None)
    header = _place(memory, 64, id(type(memory)))
    return [header, _place(memory, 64, ctypes.addressof(memory)), *places]


def _functions() -> list[int]:
    """The addresses of Python's and NumPy's functions, in the order of `python` in calling.c."""
    api = ctypes.pythonapi
    api.PyType_GetSlot.restype = api.PyCapsule_GetPointer.restype = ctypes.c_void_p
    api.PyCapsule_GetPointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
    instance = api.PyType_GetSlot(ctypes.py_object(object), _NEW)
    inside: Any = getattr(np, "_core", None) or np.core  # its name before NumPy 2
    table = api.PyCapsule_GetPointer(inside.multiarray._ARRAY_API, None)
    arrays = ctypes.c_void_p.from_address(table + 8 * _NEW_FROM_DESCR).value
    others = [ctypes.cast(getattr(api, name), ctypes.c_void_p).value for name in _FUNCTIONS]
    return [address or 0 for address in (arrays, instance, *others)]


@cache
def _table() -> Any:
    """The array `python` of calling.c; None if the offsets are not found, or without the GIL."""
    if not getattr(sys, "_is_gil_enabled", lambda: True)():
        return None
    try:
        fields, functions = _fields(), _functions()
    except (ValueError, AttributeError):  # another Python
        return None
    if len({*fields[2:]}) < len(_FIELDS) or not all(functions):
        return None
    things = [Tensor, np.ndarray, None, ZERO, ()]
    return (ctypes.c_void_p * 32)(*functions, *map(id, things), *fields)


@cache
def _source() -> str:
    with open(_PATH, encoding="ascii") as file:
        return file.read()


def _method() -> int | None:
    """The address of Python's record of the function; None if there is none, or while it is being
    built in the background.
    """
    table = _table()
    if table is None:
        return None
    build = background.soon if background.is_allowed() else background.now
    library = build(_source())
    if library is None:
        return None
    library.prepare(table)
    return ctypes.addressof(ctypes.c_void_p.in_dll(library, "method"))


def _words_of(
    program: Any, steps: Sequence[tuple[int, int]], declined: Any, kinds: Sequence[int]
) -> Any:
    """The words that tell calling.c how to call a program; they keep their objects alive."""
    lock = program.lock
    acquire, release = lock.acquire, lock.release
    building = (ctypes.c_long * (1 + 2 * len(steps)))(
        len(steps), *(number for step in steps for number in step)
    )
    run = ctypes.cast(program.entry_function, ctypes.c_void_p).value
    words = [
        ctypes.addressof(program.block), run, ctypes.addressof(program.status),
        id(acquire), id(release), id(declined),
        len(program.inputs), len(program.results), ctypes.addressof(building),
        ctypes.addressof(program.busy), program.is_short,
        *(4 * slot + kind for slot, kind in zip(program.inputs, kinds, strict=True)),
    ]  # fmt: skip
    kept = [program, acquire, release, declined, building]
    for number, (slot, shape, dtype, size) in enumerate(program.results):
        words += [slot, id(dtype), len(shape), 0, *map(int, shape)]
        if size >= program.pooled_from:
            kept.append(partial(program.pooled, number, shape, dtype))
            words[-1 - len(shape)] = id(kept[-1])
    found: Any = (ctypes.c_long * len(words))(*words)
    found.kept = kept
    return found


def function(
    program: Any, steps: Sequence[tuple[int, int]], declined: Any, kinds: Sequence[int]
) -> Callable[..., Any] | None:
    """A function of tensors and arrays, as `kinds` says, that runs a program and builds its output
    by `steps`. It returns `declined` for arguments that do not fit. None if it cannot be made.
    """
    method = _method()
    if method is None:
        return None
    new = ctypes.pythonapi.PyCFunction_NewEx
    new.argtypes = [ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p]
    new.restype = ctypes.py_object
    return new(method, _words_of(program, steps, declined, kinds), None)
