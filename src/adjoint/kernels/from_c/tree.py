"""The syntax tree of C functions, for the part of C that special functions use."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields
from typing import Any

from adjoint.core.records import record

# -- expressions ----------------------------------------------------------------------------------


@record
class CNumber:
    value: float | int  # 0.5, or 3 of a whole number


@record
class CName:
    id: str


@record
class CUnary:
    sign: str  # "-", "!", "~"; "&" of an address, "*" of a pointer's target
    operand: Any


@record
class CBinary:
    sign: str
    left: Any
    right: Any


@record
class CChoice:
    condition: Any
    then: Any
    otherwise: Any


@record
class CCall:
    function: str
    arguments: tuple[Any, ...]


@record
class CIndex:
    base: Any
    index: Any


@record
class CCast:
    kind: str  # "int" or "double"
    operand: Any


# -- statements -----------------------------------------------------------------------------------


@record
class CDeclare:
    kind: str
    name: str
    sizes: tuple[Any, ...]  # of an array: (14, 14)
    start: Any  # an expression, a tuple of them for an array, or None


@record
class CAssign:
    target: Any
    sign: str  # "=", "+=", …
    value: Any


@record
class CDo:
    expression: Any  # a call for its effect


@record
class CIf:
    condition: Any
    then: tuple[Any, ...]
    otherwise: tuple[Any, ...]


@record
class CFor:
    start: tuple[Any, ...]
    condition: Any
    step: tuple[Any, ...]
    body: tuple[Any, ...]


@record
class CReturn:
    value: Any


@record
class CBreak:
    pass


@record
class CContinue:
    pass


# -- functions and tables -------------------------------------------------------------------------


@record
class CParameter:
    kind: str  # "double" or "int"
    name: str
    rank: int  # 0 of a number, 1 of an array or a pointer, 2 of a matrix


@record
class CFunction:
    name: str
    kind: str  # of the result: "double", "int", "void"
    parameters: tuple[CParameter, ...]
    body: tuple[Any, ...]


@record
class CTable:
    name: str
    numbers: Any  # lists of numbers, one level for each dimension


def walk(part: Any) -> Iterator[Any]:
    """A part and all parts in it, from the outermost on."""
    if isinstance(part, tuple):
        for each in part:
            yield from walk(each)
    elif hasattr(part, "__dataclass_fields__"):
        yield part
        for field in fields(part):
            yield from walk(getattr(part, field.name))


def names_in(part: Any) -> set[str]:
    """The variables that a part reads or writes."""
    found = {each.id for each in walk(part) if isinstance(each, CName)}
    return found | {each.name for each in walk(part) if isinstance(each, CDeclare)}
