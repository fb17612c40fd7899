"""Arguments of samples that are made of tensors, such as sparse ones, and the text of arguments."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import adjoint as ad


class Made(tuple[Any, ...]):
    """An argument that is made of tensors, which laws vary: a function and its arguments.

    A sparse tensor is made of its values: `made(lambda v: ad.sparse_coo_tensor(i, v, size), v)`.
    """

    __slots__ = ()

    def value(self) -> Any:
        """The argument."""
        function, *arguments = self
        return function(*arguments)

    def __repr__(self) -> str:
        return brief(self.value())


def made(function: Callable[..., Any], *arguments: Any) -> Made:
    """An argument of a sample that a function makes of tensors."""
    return Made((function, *arguments))


def whole(value: Any) -> Any:
    """An argument as an operator gets it."""
    return value.value() if isinstance(value, Made) else value


def brief(value: Any) -> str:
    """An argument in a few words: its dtype and shape."""
    if isinstance(value, Made):
        return repr(value)
    if isinstance(value, ad.Tensor):
        return f"{value.dtype.name}{list(value.shape)}"
    if isinstance(value, list | tuple):
        inner = ", ".join(map(brief, value))
        return f"[{inner}]" if isinstance(value, list) else f"({inner})"
    return repr(value)
