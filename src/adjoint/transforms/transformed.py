"""The functions that transforms return; they remember the call that made them.

Such a function has the name, documentation and signature of the original, is bound as a method like
a function, and is pickled as the call that made it: `grad(f, argnums=1)`. If it is found under its
own name in its module, like a decorated function, it is pickled by that name.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from types import MethodType
from typing import Any, Concatenate, Generic, Self, overload

from adjoint.core.errors import ArgumentError
from adjoint.core.source_lines import show_place
from adjoint.transforms.annotations import P, Q, R


class Wrapper(Generic[P, R]):
    """A callable object in place of the function that it wraps."""

    compiled_reads = ("__wrapped__",)  # attributes that compiled programs read
    __wrapped__: Callable[P, R]
    __name__: str  # "grad(f)"
    made_by: str  # "grad"

    def __call__(self, *args: P.args, **keywords: P.kwargs) -> R:
        raise AssertionError(f"{type(self).__name__} defines __call__")

    def __repr__(self) -> str:
        return f"<adjoint.{describe(self)}>"

    @overload
    def __get__(self, instance: None, owner: type | None = None) -> Self: ...
    @overload
    def __get__(
        self: Wrapper[Concatenate[Any, Q], R], instance: object, owner: type | None = None
    ) -> Callable[Q, R]: ...
    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        return self if instance is None else MethodType(self, instance)

    def __reduce__(self) -> Any:
        name = getattr(self, "__qualname__", "")  # a partial has no name
        return name if _named(self.__module__, name) is self else self.remake()

    def remake(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        """A function and arguments that make an equal object."""
        raise AssertionError(f"{type(self).__name__} defines remake")


class Transformed(Wrapper[..., Any]):
    """The result of `transform(function, **options)`; a call of it runs `compute`."""

    def __init__(
        self,
        transform: Callable[..., Any],
        function: Callable[..., Any],
        compute: Callable[..., Any],
        **options: Any,
    ) -> None:
        self.transform, self.compute, self.options = transform, compute, options
        keeps_signature(function, self, transform.__name__)

    def __call__(self, *args: Any, **keywords: Any) -> Any:
        return self.compute(*args, **keywords)

    def remake(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        """The transform with its options, and the function."""
        return _remade, (self.transform, self.__wrapped__, self.options)


def _remade(transform: Callable[..., Any], function: Any, options: dict[str, Any]) -> Any:
    return transform(function, **options)


def _named(module: str, path: str) -> Any:
    """The object at a dotted path in a module; None if there is none."""
    found: Any = sys.modules.get(module)
    for name in path.split("."):
        found = getattr(found, name, None)
    return found


def keeps_signature(
    function: Callable[..., Any], made: Callable[..., Any], name: str
) -> Callable[..., Any]:
    """Give a transformed function the name and signature of the original."""
    if not callable(function):
        raise ArgumentError(f"{name}: needs a function, got {type(function).__name__}")
    functools.update_wrapper(
        made, function, updated=()
    )  # `inspect.signature` follows `__wrapped__`
    made.__name__ = f"{name}({getattr(function, '__name__', 'f')})"
    made.made_by = name  # type: ignore[attr-defined]
    return made


def describe(function: Any) -> str:
    """A function in words: "grad of loss at model.py:12", "adjoint.sin".

    >>> import adjoint as ad
    >>> ad.vmap(ad.grad(ad.sin)), describe(len)
    (<adjoint.vmap of grad of adjoint.sin>, 'len')
    """
    if isinstance(function, Wrapper):
        return f"{function.made_by} of {describe(function.__wrapped__)}"
    name = getattr(function, "__qualname__", None)
    if name is None:
        return f"an object of {type(function).__name__}"
    if function.__module__ == "adjoint":
        return f"adjoint.{name}"
    code = getattr(function, "__code__", None)
    return name if code is None else f"{name} at {show_place((code, 0))}"
