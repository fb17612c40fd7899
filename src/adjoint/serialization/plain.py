"""Plain values of Python and NumPy in pickles: made by functions of ours, which run no code.

A pickle names the function that makes such a value: `numpy._core.multiarray.scalar`,
`argparse.Namespace`, `collections.defaultdict`. `functions` has ours by those names, and `built`
gives an object the state that a pickle has for it. What asks for code, arrays of objects, say, is
refused.
"""

from __future__ import annotations

import argparse
import collections
import datetime
import decimal
import math
import pathlib
import re
import types
from collections.abc import Callable
from typing import Any

import numpy as np

from adjoint.core.dtypes import bfloat16
from adjoint.core.errors import FileError
from adjoint.serialization.refusals import brief
from adjoint.serialization.storages import Budget, check_geometry

_KINDS = re.compile(r"[<>|=]?([?]|b1|[biufc](1|2|4|8|16|32)|[SU]\d{1,9}|[mM]8)")
_UNITS = ("Y", "M", "W", "D", "h", "m", "s", "ms", "us", "ns", "ps", "fs", "as", "generic")
_MULTIARRAY = ("numpy._core.multiarray", "numpy.core.multiarray")
_BUILTINS = ("builtins", "__builtin__")  # of Python 3, of Python 2 and protocol 2
_FACTORIES = (list, dict, int, float, str, tuple, bool)
_PATHS = ("PosixPath", "WindowsPath", "PurePosixPath", "PureWindowsPath", "Path")
_STATE = 9  # the fields of a dtype in a pickle

_SCALARS = (
    "bool", "bool_", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64",
    "float16", "float32", "float64", "longdouble", "complex64", "complex128", "clongdouble",
    "str_", "bytes_", "datetime64", "timedelta64",
)  # fmt: skip

# Types that are functions of the table.
_CALLED = {f"{home}.{kind.__name__}": kind for home in _BUILTINS for kind in (set, bytes)}

# Names that stand for themselves: a defaultdict names what makes its values.
CONSTANTS: dict[str, Any] = {
    **{f"{home}.{kind.__name__}": kind for home in _BUILTINS for kind in _FACTORIES},
    **{f"numpy.{name}": getattr(np, name) for name in _SCALARS},
    "ml_dtypes.bfloat16": bfloat16.np.type,
    "numpy.ndarray": np.ndarray,
    "builtins.Ellipsis": ...,
    "__builtin__.Ellipsis": ...,
    "builtins.NotImplemented": NotImplemented,
    "datetime.timezone.utc": datetime.UTC,
}


class Function:
    """A function that a pickle may call."""

    __slots__ = ("call", "name")

    def __init__(self, name: str, call: Callable[..., Any]) -> None:
        self.name = name  # "torch._utils._rebuild_tensor_v2"
        self.call = call


def functions(budget: Budget) -> dict[str, Callable[..., Any]]:
    """The functions by which pickles make plain values, by their names."""
    numpy = _Numpy(budget)
    found: dict[str, Callable[..., Any]] = {
        "numpy.dtype": numpy.dtype,
        "argparse.Namespace": argparse.Namespace,
        "types.SimpleNamespace": types.SimpleNamespace,
        "collections.defaultdict": _defaultdict,
        "collections.deque": lambda items=(), most=None: _deque(budget, items, most),
        "decimal.Decimal": _decimal,
        "datetime.datetime": lambda data, zone=None: _moment(datetime.datetime, 10, data, zone),
        "datetime.date": lambda data: _moment(datetime.date, 4, data, None),
        "datetime.time": lambda data, zone=None: _moment(datetime.time, 6, data, zone),
        "datetime.timedelta": lambda *numbers: datetime.timedelta(*map(_whole, numbers)),
        "datetime.timezone": lambda *given: datetime.timezone(*given),
        "torch.torch_version.TorchVersion": _text,
    }
    for home in _MULTIARRAY:
        found |= {f"{home}._reconstruct": numpy.blank, f"{home}.scalar": numpy.scalar}
    for home in ("numpy._core.numeric", "numpy.core.numeric"):
        found[f"{home}._frombuffer"] = numpy.of_bytes
    for home in ("pathlib", "pathlib._local"):
        found |= {f"{home}.{name}": _path(name) for name in _PATHS}
    for home in _BUILTINS:
        found |= {
            f"{home}.slice": lambda *given: slice(*given),
            f"{home}.range": lambda *given: range(*map(_whole, given)),
        }
    found["__builtin__.xrange"] = found["builtins.range"]
    return found


def built(target: Any, state: Any, budget: Budget) -> bool:
    """Give an object of one of these functions its state; False for any other object."""
    if isinstance(target, np.ndarray):
        _build_array(target, state, budget)
    elif isinstance(target, np.dtype):
        _build_dtype(target, state)
    elif type(target) in (argparse.Namespace, types.SimpleNamespace):
        vars(target).update(attributes(state))
    else:
        return False
    return True


def attributes(state: Any) -> dict[str, Any]:
    """The attributes of an object, checked."""
    if type(state) is not dict or not all(type(name) is str for name in state):
        raise FileError(f"the attributes of an object are {brief(state)}")
    return state


# --- NumPy ----------------------------------------------------------------------------------------


class _Numpy:
    """The functions by which NumPy's pickles make scalars and arrays."""

    def __init__(self, budget: Budget) -> None:
        self.budget = budget

    def dtype(self, kind: Any, align: Any = False, copy: Any = True) -> Any:
        if isinstance(kind, type) and issubclass(kind, np.generic):
            kind = np.dtype(kind).str if kind is not bfloat16.np.type else "bfloat16"
        if type(kind) is str and kind == "bfloat16":  # a name that ml_dtypes has given to NumPy
            return bfloat16.np
        if type(kind) is not str or _KINDS.fullmatch(kind) is None:
            raise FileError(
                f"the file has an array of NumPy whose dtype is {brief(kind)}; numbers, texts and "
                "times are read, objects and records are not"
            )
        # a descriptor of its own, which gets its byte order later
        return np.dtype(kind, align=False, copy=True)

    def blank(self, kind: Any, shape: Any, code: Any) -> Any:
        if kind is not np.ndarray:
            raise FileError("the file has an array of a subclass of NumPy's")
        return np.empty(0, np.uint8)

    def scalar(self, dtype: Any, data: Any) -> Any:
        return self.of_bytes(data, dtype, (), "C")[()]

    def of_bytes(self, data: Any, dtype: Any, shape: Any, order: Any) -> Any:
        _check_array(shape, dtype, data)
        if order not in ("C", "F"):
            raise FileError(f"the file has an array of the order {brief(order)}")
        self.budget.spend(len(data))
        return np.frombuffer(data, dtype).reshape(tuple(shape), order=order).copy(order)


def _check_array(shape: Any, dtype: Any, data: Any) -> None:
    if type(shape) is not tuple or not isinstance(dtype, np.dtype) or dtype.hasobject:
        raise FileError("the file has an array of NumPy without a shape or a dtype")
    check_geometry(0, shape, shape)
    if type(data) not in (bytes, bytearray) or math.prod(shape) * dtype.itemsize != len(data):
        raise FileError(f"an array of the shape {shape} and {dtype} has {brief(data)}")


def _build_array(target: Any, state: Any, budget: Budget) -> None:
    if type(state) is not tuple or len(state) != 5 or target.size:
        raise FileError(f"the state of an array of NumPy is {brief(state)}")
    _, shape, dtype, fortran, data = state
    _check_array(shape, dtype, data)
    budget.spend(len(data))
    # NumPy copies the bytes, which are as many as the shape asks for
    target.__setstate__((1, shape, dtype, bool(fortran), bytes(data)))


def _build_dtype(target: Any, state: Any) -> None:
    """Byte order, and the unit of times: the rest of the state is that of records."""
    if type(state) is not tuple or not 8 <= len(state) <= _STATE or state[1] not in tuple("<>|="):
        raise FileError(f"the state of a dtype of NumPy is {brief(state)}")
    if any(part is not None for part in state[2:5]):
        raise FileError("the file has an array of records, which is not read")
    if target is bfloat16.np:
        return
    if target is np.dtype(target.str):
        raise FileError("the file changes a dtype that NumPy has")
    more = (_unit(state[8]),) if len(state) == _STATE else ()
    sizes = (-1, -1) if target.kind not in "SU" else (target.itemsize, target.alignment)
    target.__setstate__((3 + len(more), state[1], None, None, None, *sizes, target.flags, *more))


def _unit(written: Any) -> Any:
    """The unit of times in a dtype: (b'D', 1, 1, 1)."""
    data = written[1] if type(written) is tuple and len(written) == 2 else None
    if type(data) is not tuple or len(data) != 4 or type(data[0]) is not bytes:
        raise FileError(f"the unit of times of an array is {brief(written)}")
    numbers = [_whole(n) for n in data[1:]]
    if data[0].decode("latin1") not in _UNITS or not all(0 < n < 2**31 for n in numbers):
        raise FileError(f"the unit of times of an array is {brief(data[0])}")
    return {}, data


# --- Python ---------------------------------------------------------------------------------------


def _defaultdict(factory: Any = None) -> Any:
    """A dict of lists, say. What makes its values is a plain type, and called by users only."""
    kind: Any = _CALLED.get(factory.name) if type(factory) is Function else factory
    if kind is not None and not any(kind is known for known in (*_FACTORIES, set, bytes)):
        raise FileError(f"a defaultdict of the file makes its values by {brief(factory)}")
    return collections.defaultdict(kind)


def _deque(budget: Budget, items: Any, most: Any) -> Any:
    if type(items) not in (list, tuple):
        raise FileError(f"a deque of the file has {brief(items)}")
    budget.spend(8 * len(items))
    return collections.deque(items, most if most is None else _whole(most))


def _decimal(text: Any) -> decimal.Decimal:
    return decimal.Decimal(_text(text)[:10_000])


def _moment(kind: Any, count: int, data: Any, zone: Any) -> Any:
    """A date or a time, from the bytes that a pickle has for it."""
    data = data.encode("latin1") if type(data) is str else data
    if type(data) is not bytes or len(data) != count:
        raise FileError(f"a {kind.__name__} of the file is {brief(data)}")
    if zone is None:
        return kind(data)
    if type(zone) is not datetime.timezone:
        raise FileError(f"a {kind.__name__} of the file has the time zone {brief(zone)}")
    return kind(data, zone)


def _path(name: str) -> Callable[..., Any]:
    """A path; one of another system as its pure form."""
    kind: Any = getattr(pathlib, name)
    if name == "WindowsPath" and not issubclass(type(pathlib.Path()), pathlib.WindowsPath):
        kind = pathlib.PureWindowsPath
    if name == "PosixPath" and not issubclass(type(pathlib.Path()), pathlib.PosixPath):
        kind = pathlib.PurePosixPath
    return lambda *parts: kind(*map(_text, parts))


def _text(value: Any) -> str:
    if type(value) is not str:
        raise FileError(f"a text of the file is {brief(value)}")
    return value


def _whole(value: Any) -> int:
    if type(value) is not int:
        raise FileError(f"a whole number of the file is {brief(value)}")
    return value
