"""Records: dataclasses that are cheap to define.

`@record` gives a class the methods of `@dataclass(frozen=True)`, and `@structure` those of
`@dataclass`, from one text instead of several. The package defines over a hundred records, and
every process compiles the texts of the records that it uses. A NamedTuple is
for what is unpacked, as results of PyTorch's and NumPy's functions are, and for keys of caches.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, Never, TypeVar, dataclass_transform

T = TypeVar("T")


@dataclass_transform(frozen_default=True, field_specifiers=(dataclasses.field,))
def record(cls: type[T]) -> type[T]:
    """Make a class a frozen dataclass.

    >>> @record
    ... class Point:
    ...     x: int  # 1
    ...     y: int = 0
    >>> Point(1), Point(1) == Point(1, 0), dataclasses.replace(Point(1), y=2)
    (Point(x=1, y=0), True, Point(x=1, y=2))
    """
    return _made(cls, "_set(self, {0!r}, {0})", {"__setattr__": _refuse, "__delattr__": _refuse})


@dataclass_transform(field_specifiers=(dataclasses.field,))
def structure(cls: type[T]) -> type[T]:
    """Make a class a dataclass whose fields may change, so it has no hash."""
    return _made(cls, "self.{0} = {0}", {"__hash__": None})


def _made(cls: type[T], assignment: str, more: dict[str, Any]) -> type[T]:
    own = {name for name, value in vars(cls).items() if value is not None}
    made: Any = dataclasses.dataclass(init=False, repr=False, eq=False)(cls)
    given: dict[str, Any] = {"__repr__": _repr} | more

    def define() -> None:
        """Compile the methods and put them on the class."""
        scope: dict[str, Any] = {"_set": object.__setattr__, "_missing": dataclasses.MISSING}
        methods: dict[str, Any] = {}
        exec("\n".join(_methods(dataclasses.fields(made), assignment, scope)), scope, methods)
        for name in stand_ins:
            type.__setattr__(made, name, methods[name])

    stand_ins = [n for n in _WRITTEN if n not in own and n not in given]
    for name in stand_ins:
        type.__setattr__(made, name, _stand_in(made, name, define))
    for name, method in given.items():
        if name not in own:
            setattr(made, name, method)
    return made


_WRITTEN = ("__init__", "__eq__", "__hash__")


def _stand_in(cls: Any, name: str, define: Callable[[], None]) -> Callable[..., Any]:
    """A method that defines the real ones when first called; many records never call it."""

    def method(*args: Any, **keywords: Any) -> Any:
        define()
        return getattr(cls, name)(*args, **keywords)

    return method


def _methods(
    fields: tuple[dataclasses.Field[Any], ...], assignment: str, scope: dict[str, Any]
) -> list[str]:
    """The text of `__init__`, `__eq__` and `__hash__`; values that it names are put in `scope`."""
    parameters, lines = ["self"], []
    for field in fields:
        name = field.name
        default = name
        if field.default is not dataclasses.MISSING:
            scope[f"_default_{name}"] = field.default
            default = f"{name}=_default_{name}"
        elif field.default_factory is not dataclasses.MISSING:
            scope[f"_make_{name}"] = field.default_factory
            default = f"{name}=_missing"
            lines.append(f"    if {name} is _missing: {name} = _make_{name}()")
        parameters.append(default)
        lines.append(f"    {assignment.format(name)}")
    compared = [f.name for f in fields if f.compare]
    mine, others = ("".join(f"{who}.{n}, " for n in compared) for who in ("self", "other"))
    return [
        f"def __init__({', '.join(parameters)}):",
        *(lines or ["    pass"]),
        "def __eq__(self, other):",
        "    if other.__class__ is not self.__class__: return NotImplemented",
        f"    return ({mine}) == ({others})",
        "def __hash__(self):",
        f"    return hash(({mine}))",
    ]


def _repr(self: Any) -> str:
    shown = (f"{f.name}={getattr(self, f.name)!r}" for f in dataclasses.fields(self) if f.repr)
    return f"{type(self).__qualname__}({', '.join(shown)})"


def _refuse(self: Any, name: str, *value: Any) -> Never:
    raise dataclasses.FrozenInstanceError(f"cannot change {name!r} of a {type(self).__name__}")
