"""Static arguments of a compiled function: values that Python looks at, part of the signature."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

from adjoint.compiler.attributes import plain_key
from adjoint.core.errors import ArgumentError
from adjoint.tensor.tensor import Tensor


class Static:
    """The value of a static argument, as a leaf of a pytree."""

    __slots__ = ("key", "value")

    def __init__(self, value: Any) -> None:
        self.value = value
        self.key = _key(value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Static) and self.key == other.key

    def __hash__(self) -> int:
        return hash(self.key)

    def __repr__(self) -> str:
        return repr(self.value)


class Statics:
    """Which arguments are static, by position and by name."""

    def __init__(
        self,
        function: Callable[..., Any],
        numbers: int | Sequence[int],
        names: str | Sequence[str],
    ) -> None:
        self.numbers = {numbers} if isinstance(numbers, int) else set(numbers)
        self.names = {names} if isinstance(names, str) else set(names)
        if any(type(n) is not int for n in self.numbers):
            raise ArgumentError(
                f"compile: static_argnums takes positions, whole numbers, got {numbers!r}; names "
                "are for static_argnames"
            )
        known = _positional(function)
        for name in self.names - set(_all_names(function) or self.names):
            raise ArgumentError(f"compile: static_argnames: the function has no argument {name!r}")
        _check_numbers(function, self.numbers, len(known))
        self.names |= {known[n] for n in self.numbers if -len(known) <= n < len(known)}
        self.numbers |= {i for i, name in enumerate(known) if name in self.names}

    def marked(
        self, args: tuple[Any, ...], keywords: dict[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The arguments, with static ones wrapped in `Static`."""
        numbers = {n % len(args) for n in self.numbers if -len(args) <= n < len(args)}
        return (
            tuple(_static(i, a) if i in numbers else a for i, a in enumerate(args)),
            {k: _static(k, v) if k in self.names else v for k, v in keywords.items()},
        )


def _key(value: Any) -> Any:
    """A key by which two static values are compared."""
    if isinstance(value, tuple):
        return type(value), *map(_key, value)
    return plain_key(value)


def unwrapped(value: Any) -> Any:
    """The value of a static argument; any other value unchanged."""
    return value.value if isinstance(value, Static) else value


def _static(where: Any, value: Any) -> Static:
    if isinstance(value, Tensor):
        raise ArgumentError(
            f"compile: argument {where!r} is static, and a tensor was given; static arguments are "
            "values that can be hashed"
        )
    try:
        hash(value)
    except TypeError:
        raise ArgumentError(
            f"compile: argument {where!r} is static, and its value, a {type(value).__name__}, "
            "cannot be hashed"
        ) from None
    return Static(value)


def _check_numbers(function: Callable[..., Any], numbers: set[int], count: int) -> None:
    """Refuse positions at which the function has no argument."""
    parameters = parameters_of(function)
    if not parameters or any(p.kind is inspect.Parameter.VAR_POSITIONAL for p in parameters):
        return
    for number in numbers:
        if not -count <= number < count:
            raise ArgumentError(
                f"compile: static_argnums: {number} is no position of an argument; the function "
                f"has {count} that may be given by position"
            )


def _positional(function: Callable[..., Any]) -> list[str]:
    """The names of the arguments that may be given by position."""
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return [p.name for p in parameters_of(function) if p.kind in kinds]


def _all_names(function: Callable[..., Any]) -> list[str]:
    """The names of all arguments; [] if any name is accepted, or if the names are unknown."""
    parameters = parameters_of(function)
    if any(p.kind is inspect.Parameter.VAR_KEYWORD for p in parameters):
        return []
    return [p.name for p in parameters]


def parameters_of(function: Callable[..., Any]) -> list[inspect.Parameter]:
    try:
        return list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        return []
