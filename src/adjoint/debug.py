"""`ad.debug`: look at values while a program runs, also inside transforms and compiled code."""

from __future__ import annotations

import builtins
import functools
from collections.abc import Callable
from typing import Any

from adjoint.graph.control.callbacks import call

__all__ = ["callback", "print"]


def print(fmt: str, *args: Any, ordered: bool = True, **keywords: Any) -> None:
    """Print `fmt.format(*args, **keywords)` with the values of tensors, when they are known.

    Inside `grad` and `jvp` it prints values, inside `vmap` one line for each sample, and in traced
    and compiled functions at each call. Lines are always printed in the order of the program.

    >>> import adjoint as ad
    >>> def f(x):
    ...     ad.debug.print("x = {x:.1f}, {}", x * 2, x=x)
    ...     return x.sin()
    >>> _ = ad.vmap(ad.grad(f))(ad.tensor([1.0, 2.0]))
    x = 1.0, 2.0
    x = 2.0, 4.0
    >>> _ = ad.compile(f)(ad.tensor(3.0))
    x = 3.0, 6.0
    """
    call("debug.print", functools.partial(_print, fmt), (), args, keywords, effect=True)


def _print(fmt: str, *args: Any, **keywords: Any) -> None:
    builtins.print(fmt.format(*args, **keywords))


def callback(
    callback: Callable[..., Any], *args: Any, ordered: bool = True, **keywords: Any
) -> None:
    """Call a function with the values of tensors as NumPy arrays, for what it does; see `print`.

    >>> import adjoint as ad
    >>> seen = []
    >>> def f(x):
    ...     ad.debug.callback(seen.append, x)
    ...     return x**2
    >>> _ = ad.grad(f)(3.0)
    >>> seen
    [array(3., dtype=float32)]
    """
    call("debug.callback", callback, (), args, keywords, effect=True)


def __dir__() -> list[str]:
    return sorted(__all__)
