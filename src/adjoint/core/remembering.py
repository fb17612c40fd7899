"""Answers that are kept on the object that they are about.

A row or an operator lives as long as the process. Layers above it compute facts about it with
`remembered` functions; a fact that its own class computes is a `cached_property`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Generic, Self, TypeVar, overload

Owner = TypeVar("Owner")
Answer = TypeVar("Answer")


def remembered(function: Callable[[Owner], Answer]) -> Callable[[Owner], Answer]:
    """Make a function of one object run once for each object; the answer is kept on the object."""
    name = f"{function.__module__}.{function.__qualname__}"

    @functools.wraps(function)
    def asked(owner: Any) -> Any:
        known = owner.__dict__
        if name in known:
            return known[name]
        found = known[name] = function(owner)
        return found

    return asked


class Bounded(dict[Owner, Answer]):
    """A dict of at most so many answers: a new one takes the place of the oldest.

    >>> squares: Bounded[int, int] = Bounded(2)
    >>> for n in (1, 2, 1, 3):
    ...     squares[n] = n * n
    >>> squares
    {1: 1, 3: 9}
    """

    def __init__(self, most: int) -> None:
        super().__init__()
        self.most = most

    def __setitem__(self, key: Owner, answer: Answer) -> None:
        self.pop(key, None)
        while len(self) >= self.most:
            try:
                self.pop(next(iter(self)), None)
            except (RuntimeError, StopIteration):  # another thread changed it meanwhile
                continue
        super().__setitem__(key, answer)


class cached_property(Generic[Answer]):  # noqa: N801 - as that of functools
    """A property computed once for each object; threads that ask at the same time each compute it.

    The standard library's one has a lock in Python 3.11; a forked child finds it locked if another
    thread of the parent held it.

    >>> class Circle:
    ...     @cached_property
    ...     def area(self) -> float:
    ...         print("computed")
    ...         return 3.14
    >>> circle = Circle()
    >>> circle.area + circle.area
    computed
    6.28
    """

    def __init__(self, function: Callable[[Any], Answer]) -> None:
        self.function, self.__doc__ = function, function.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    @overload
    def __get__(self, instance: None, owner: type | None = None) -> Self: ...
    @overload
    def __get__(self, instance: object, owner: type | None = None) -> Answer: ...
    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        if instance is None:
            return self
        found = instance.__dict__[self.name] = self.function(instance)
        return found
