"""Modules, and records of `nn` that they hold, in files: the name of the class, and the values.

Reading makes an object without calling its class, and gives it its values back. A class of a file
is taken by name from adjoint's own modules and from those that the reader has named with
`safe_globals`; nothing is imported, so that no file can choose what runs.
"""

from __future__ import annotations

import contextlib
import dataclasses
import enum
import inspect
import pickle
import sys
import types
from collections.abc import Callable, Generator, Iterable, Mapping
from contextvars import ContextVar
from typing import Any

from adjoint import nn
from adjoint.core.errors import FileError
from adjoint.nn.modules.module import Module
from adjoint.serialization.keys import checked_key
from adjoint.serialization.plain import attributes
from adjoint.serialization.refusals import brief

_FUNCTIONAL = "adjoint.nn.functional."
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
    name = getattr(value, "__name__", "")
    if name in nn.functional.__all__ and getattr(nn.functional, name) is value:
        return f"{_FUNCTIONAL}{name}"
    return f"{value.__module__}.{value.__qualname__}"


def is_function(value: Any) -> bool:
    """Whether a value is a function that a file may name: of `nn.functional`, or a safe one."""
    return (
        callable(value)
        and hasattr(value, "__qualname__")
        and (name_of(value).startswith(_FUNCTIONAL) or any(value is v for v in _known().values()))
    )


def is_object(value: Any) -> bool:
    """Whether a file holds a value as a class and values: a module, or a record of `nn`."""
    return isinstance(value, Module) or _is_record(type(value))


def _is_record(kind: type) -> bool:
    return kind.__module__.startswith("adjoint.nn.") and dataclasses.is_dataclass(kind)


def _known() -> dict[str, Any]:
    """The classes and functions that files may have by their names: given as (value, name), too."""
    pairs = (v if isinstance(v, tuple) else (v, name_of(v)) for v in _safe.get())
    return {str(name): value for value, name in pairs}


def function_named(name: str) -> Callable[..., Any]:
    """The function of a file, which must be known."""
    if name in (known := _known()):
        return known[name]
    last = name.removeprefix(_FUNCTIONAL)
    if last not in nn.functional.__all__ or not name.startswith(_FUNCTIONAL):
        raise FileError(_refusal(name))
    return getattr(nn.functional, last)


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
        made.__setstate__(attributes(state))
    else:
        made.__dict__.update(attributes(state))
    return made


# --- objects in pickles ---------------------------------------------------------------------------


class PickleError(FileError, pickle.UnpicklingError):
    """A pickle that is damaged, or that asks for more than plain values and tensors."""


class Others:
    """What the names of a pickle mean beyond tensors and plain values.

    A class or function that the user has named with `safe_globals` is called. With `anything`, a
    class that was imported before is that of a record: an object of it is made without a call of
    the class, and gets its attributes as they are; so no code runs. A class whose objects need
    code for that, or at their end, is refused.
    """

    def __init__(self, safe: Mapping[str, Any] | None = None, *, anything: bool = False) -> None:
        known = _known() if safe is None else safe
        self.safe = {_canonical(name): value for name, value in known.items()}
        self.anything = anything
        self.records: dict[int, type] = {}  # by id, those that the file names

    def named(self, name: str) -> Any:
        """The value of a name."""
        known = _canonical(name)
        if known in self.safe:
            return self.safe[known]
        where, _, last = known.rpartition(".")
        home = sys.modules.get(where) if self.anything else None
        found = None if home is None else vars(home).get(last)
        if not isinstance(found, type):
            raise PickleError(_refused_name(name))
        if not _is_inert(found):
            raise PickleError(
                f"the file has a {name}, and making one runs code of that class. If you trust the "
                f"file, load it inside `with ad.serialization.safe_globals([{last}])`"
            )
        self.records[id(found)] = found
        return found

    def is_safe(self, value: Any) -> bool:
        """Whether the user has named a class or a function."""
        return any(value is known for known in self.safe.values())

    def called(self, function: Any, arguments: tuple[Any, ...], *, new: bool) -> Any:
        """An object of a class, or the result of a function that the user has named."""
        if self.is_safe(function):
            if new and isinstance(function, type):
                return function.__new__(function, *arguments)
            return function(*arguments)
        kind = self.records.get(id(function))
        if kind is None:
            raise PickleError(
                f"a pickle calls {brief(function)}, which is no function that may be called"
            )
        if issubclass(kind, enum.Enum) and len(arguments) == 1:
            found: Any = kind._value2member_map_[checked_key(arguments[0])]
            return found
        if issubclass(kind, tuple) and new:
            return tuple.__new__(kind, arguments)
        if arguments or not new:
            raise PickleError(f"a pickle calls the class {kind.__qualname__}, which would run code")
        return object.__new__(kind)

    def built(self, target: Any, state: Any) -> bool:
        """Give an object its attributes; False if it is no record."""
        kind = type(target)
        if self.is_safe(kind):
            if hasattr(target, "__setstate__"):
                target.__setstate__(state)
            else:
                _give(target, state)
            return True
        if id(kind) not in self.records or issubclass(kind, (enum.Enum, tuple)):
            return False
        _give(target, state)
        return True

    def checked(self, key: Any) -> Any:
        """A key of a dict whose hash runs no code of a class of the file."""
        parts = [key] if self.records else []
        for part in parts:
            if type(part) in (tuple, frozenset):
                parts += part
            elif id(type(part)) in self.records and not isinstance(part, enum.Enum):
                raise PickleError(f"a key of a dict in the file is {brief(part)}")
        return key


def _canonical(name: str) -> str:
    """A name as Python 3 and NumPy 2 have it."""
    for old, new in _RENAMED:
        if name.startswith(old):
            return new + name.removeprefix(old)
    return name


_RENAMED = (
    ("__builtin__.", "builtins."),
    ("copy_reg.", "copyreg."),
    ("numpy.core.", "numpy._core."),
    ("pathlib._local.", "pathlib."),
)


def _is_inert(kind: type) -> bool:
    """Whether objects of a class can be made, and end, without code of it."""
    if hasattr(kind, "__del__") or hasattr(kind, "__setstate__"):
        return False
    if issubclass(kind, enum.Enum):
        return True
    if issubclass(kind, tuple):
        return kind.__bases__ == (tuple,) and hasattr(kind, "_fields")
    holds = kind.__dictoffset__ != 0 or "__slots__" in vars(kind)
    return kind.__new__ is object.__new__ and holds


def _give(target: Any, state: Any) -> None:
    """Put attributes on an object as they are, those in slots, too."""
    plain, slots = state if type(state) is tuple and len(state) == 2 else (state, None)
    if plain is not None:
        vars(target).update(attributes(plain))
    for name, value in attributes(slots or {}).items():
        place = inspect.getattr_static(type(target), name, None)
        if not isinstance(place, types.MemberDescriptorType):
            raise PickleError(f"an object of the file has no slot {name[:40]!r}")
        place.__set__(target, value)


def _refused_name(name: str) -> str:
    last = name.rpartition(".")[2]
    return (
        f"the file names {name[:200]}, which is not among the names of tensors and plain values "
        "that are read; reading it could run code. With weights_only=False values of Python and "
        "NumPy and plain records are read, too; if you trust the file, load it inside `with "
        f"ad.serialization.safe_globals([{last[:100]}])`; or save a state dict in place of whole "
        "objects"
    )
