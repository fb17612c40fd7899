"""Modules, and records of `nn` that they hold, in files: the name of the class, and the values.

Reading makes an object without calling its class, and gives it its values back. A class of a file
is taken by name from adjoint's own modules and from those that the reader has named with
`safe_globals`; nothing is imported, so that no file can choose what runs.
"""

from __future__ import annotations

import contextlib
import dataclasses
import sys
from collections.abc import Callable, Generator, Iterable
from contextvars import ContextVar
from typing import Any

from adjoint import nn
from adjoint.core.errors import FileError
from adjoint.nn.modules.module import Module

_safe: ContextVar[tuple[Any, ...]] = ContextVar("adjoint classes of files", default=())


def add_safe_globals(safe_globals: Iterable[Any]) -> None:
    """Let files have modules of these classes, and these functions in them, from now on."""
    _safe.set((*_safe.get(), *safe_globals))


def get_safe_globals() -> list[Any]:
    """Return the classes and functions that files may have."""
    return list(_safe.get())


def clear_safe_globals() -> None:
    """Let files have adjoint's own modules alone again."""
    _safe.set(())


@contextlib.contextmanager
def safe_globals(safe_globals: Iterable[Any]) -> Generator[None]:
    """Let files have modules of these classes, and these functions in them, in a block.

    >>> import adjoint as ad, io
    >>> class Twice(ad.nn.Module):
    ...     def forward(self, x): return 2 * x
    >>> file = io.BytesIO()
    >>> ad.save(Twice(), file)
    >>> _ = file.seek(0)
    >>> with ad.serialization.safe_globals([Twice]):
    ...     ad.load(file)(ad.ones(2))
    tensor([2., 2.])
    """
    before = _safe.set((*_safe.get(), *safe_globals))
    try:
        yield
    finally:
        _safe.reset(before)


def name_of(value: Any) -> str:
    """The name under which a class or a function stands in a file."""
    function = getattr(nn.functional, getattr(value, "__name__", ""), None)
    if function is value and not isinstance(value, type):
        return f"adjoint.nn.functional.{value.__name__}"
    return f"{value.__module__}.{value.__qualname__}"


def is_function(value: Any) -> bool:
    """Whether a value is a function that a file may name: of `nn.functional`, or a safe one."""
    return (
        callable(value)
        and hasattr(value, "__qualname__")
        and (name_of(value).startswith("adjoint.nn.functional.") or value in _safe.get())
    )


def is_object(value: Any) -> bool:
    """Whether a file holds a value as a class and values: a module, or a record of `nn`."""
    return isinstance(value, Module) or _is_record(type(value))


def _is_record(kind: type) -> bool:
    return kind.__module__.startswith("adjoint.nn.") and dataclasses.is_dataclass(kind)


def _known() -> dict[str, Any]:
    return {name_of(value): value for value in _safe.get()}


def function_named(name: str) -> Callable[..., Any]:
    """The function of a file, which must be known."""
    if name in (known := _known()):
        return known[name]
    where, _, last = name.rpartition(".")
    found = getattr(nn.functional, last, None) if where == "adjoint.nn.functional" else None
    if found is None or isinstance(found, type):
        raise FileError(_refusal(name))
    return found


def class_named(name: str, anything: bool) -> type:
    """The class of an object in a file: ours, a safe one, or any that was imported before."""
    if name in (known := _known()):
        return known[name]
    where, _, last = name.rpartition(".")
    ours = where.startswith("adjoint.nn.")
    found = getattr(sys.modules.get(where), last, None) if ours or anything else None
    if isinstance(found, type) and (issubclass(found, Module) or _is_record(found)):
        return found
    raise FileError(_refusal(name))


def _refusal(name: str) -> str:
    last = name.rpartition(".")[2]
    return (
        f"the file has a {name}, which is not adjoint's. If you trust the file, load it inside "
        f"`with ad.serialization.safe_globals([{last}])`, or save a state_dict() instead"
    )


def restored(kind: type, state: dict[str, Any]) -> Any:
    """An object of a class with the values that it had; its class is not called."""
    made = object.__new__(kind)
    if isinstance(made, Module):
        made.__setstate__(state)
    else:
        made.__dict__.update(state)
    return made
