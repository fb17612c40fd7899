"""Keys of the Python objects that a traced function reads: numbers, functions, containers.

A program holds for the objects as they were when it was traced. A plain value is compared by value,
any other object by identity, and a container by its elements unless it is long or deep.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from types import BuiltinFunctionType, FunctionType, ModuleType
from typing import Any

_PLAIN = frozenset((bool, int, float, complex, str, bytes, type(None)))
_CONTAINERS = frozenset((list, tuple, dict))
# Longest container that is taken apart, and most elements in all: each call compares them.
_LONG, _MANY = 64, 4096


class Same:
    """The identity of an object as a key.

    It holds the object weakly where Python allows it, and is equal to nothing once the object is
    gone.
    """

    __slots__ = ("number", "refer")

    def __init__(self, value: Any) -> None:
        self.number = id(value)
        try:
            self.refer: Callable[[], Any] = weakref.ref(value)
        except TypeError:
            self.refer = lambda: value

    def is_gone(self) -> bool:
        """Whether the object has been deleted."""
        return self.refer() is None

    def __eq__(self, other: object) -> bool:
        if type(other) is not Same or other.number != self.number:
            return False
        value = self.refer()
        return value is not None and other.refer() is value

    def __hash__(self) -> int:
        return self.number


def plain_key(value: Any) -> Any:
    """A key of a plain value: 1, 1.0 and True have three keys, 0.0 and -0.0 two, NaN one."""
    if type(value) is float:
        return float, value.hex()
    if type(value) is complex:
        return complex, value.real.hex(), value.imag.hex()
    return type(value), value


def key_of(value: Any) -> Any:
    """A hashable key of a value: equal for two values that are the same to a traced function.

    Containers are taken apart level by level, up to `_MANY` elements in all, so a container that
    contains itself comes to an end.

    >>> key_of([1, 2.0]) == key_of([1, 2.0]), key_of([1]) == key_of([True])
    (True, False)
    """
    if type(value) in _PLAIN:
        return plain_key(value)
    values, keys = [value], []
    for each in values:  # the list grows meanwhile
        kind = type(each)
        if kind in _PLAIN:
            keys.append(plain_key(each))
        elif kind in _CONTAINERS and len(each) <= _LONG and len(values) < _MANY:
            keys.append((kind, len(each)))
            values += each
            if kind is dict:
                values += each.values()
        else:
            keys.append(Same(each))
    return tuple(keys)


def has_attributes(value: Any) -> bool:
    """Whether a value is an object with attributes that is compared by identity."""
    kind = type(value)
    if kind in _PLAIN or isinstance(value, (type, ModuleType, FunctionType, BuiltinFunctionType)):
        return False
    return hasattr(value, "__dict__") and kind.__eq__ is object.__eq__


def attributes_of(value: Any) -> dict[str, Any]:
    """The attributes of an object: each name with the key of its value."""
    return {name: key_of(each) for name, each in vars(value).items()}
