"""What Python finds in objects while a function is traced: numbers, functions, tensors.

A program is for objects as they were then. Plain values tell objects apart by what they are, others
by which they are; containers by what is in them, unless that is long or deep.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from types import BuiltinFunctionType, FunctionType, ModuleType
from typing import Any

_PLAIN = frozenset((bool, int, float, complex, str, bytes, type(None)))
_CONTAINERS = frozenset((list, tuple, dict))
# Nobody looks at each call through more elements than these, in one container and in all of them.
_LONG, _MANY = 64, 4096


class Same:
    """An object that is equal to itself alone; what is known of it does not keep it alive, where
    Python allows that, and is equal to nothing once it is gone.
    """

    __slots__ = ("number", "refer")

    def __init__(self, value: Any) -> None:
        self.number = id(value)
        try:
            self.refer: Callable[[], Any] = weakref.ref(value)
        except TypeError:
            self.refer = lambda: value

    def is_gone(self) -> bool:
        """Whether the object is no more."""
        return self.refer() is None

    def __eq__(self, other: object) -> bool:
        if type(other) is not Same or other.number != self.number:
            return False
        value = self.refer()
        return value is not None and other.refer() is value

    def __hash__(self) -> int:
        return self.number


def plain_key(value: Any) -> Any:
    """What tells plain values apart: 1, 1.0 and True are three, 0.0 and -0.0 two, and NaN is one,
    though it is not equal to itself.
    """
    if type(value) is float:
        return float, value.hex()
    if type(value) is complex:
        return complex, value.real.hex(), value.imag.hex()
    return type(value), value


def key_of(value: Any) -> Any:
    """What tells a value from others, as something that can be hashed.

    Containers are taken apart level by level, and not beyond so many elements in all: so those that
    hold themselves, or one another many times, come to an end.

    >>> key_of([1, 2.0]) == key_of([1, 2.0]), key_of([1]) == key_of([True])
    (True, False)
    """
    if type(value) in _PLAIN:
        return plain_key(value)
    values, keys = [value], []
    for each in values:  # which grows meanwhile
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
    """Whether a value is an object that is equal to itself alone, whatever its attributes are."""
    kind = type(value)
    if kind in _PLAIN or isinstance(value, (type, ModuleType, FunctionType, BuiltinFunctionType)):
        return False
    return hasattr(value, "__dict__") and kind.__eq__ is object.__eq__


def attributes_of(value: Any) -> dict[str, Any]:
    """The attributes of an object by their names, each as its key."""
    return {name: key_of(each) for name, each in vars(value).items()}
