"""What a C function is made of, as far as the texts of special functions use the language."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields
from typing import Any

from adjoint.core.records import record

# -- expressions ----------------------------------------------------------------------------------


@record
class Number:
    value: float | int  # 0.5, or 3 of a whole number


@record
class Name:
    id: str


@record
class Unary:
    sign: str  # "-", "!", "~"; "&" of an address and "*" of what a pointer points to
    operand: Any


@record
class Binary:
    sign: str
    left: Any
    right: Any


@record
class Choice:
    condition: Any
    then: Any
    otherwise: Any


@record
class Call:
    function: str
    arguments: tuple[Any, ...]


@record
class Index:
    base: Any
    index: Any


@record
class Cast:
    kind: str  # "int" or "double"
    operand: Any


# -- statements -----------------------------------------------------------------------------------


@record
class Declare:
    kind: str
    name: str
    sizes: tuple[Any, ...]  # of an array: (14, 14)
    start: Any  # an expression, a tuple of them for an array, or None


@record
class Assign:
    target: Any
    sign: str  # "=", "+=", …
    value: Any


@record
class Do:
    expression: Any  # a call for what it does


@record
class If:
    condition: Any
    then: tuple[Any, ...]
    otherwise: tuple[Any, ...]


@record
class For:
    start: tuple[Any, ...]
    condition: Any
    step: tuple[Any, ...]
    body: tuple[Any, ...]


@record
class Return:
    value: Any


@record
class Break:
    pass


@record
class Continue:
    pass


# -- functions and tables -------------------------------------------------------------------------


@record
class Parameter:
    kind: str  # "double" or "int"
    name: str
    rank: int  # 0 of a number, 1 of an array or a pointer, 2 of a matrix


@record
class Function:
    name: str
    kind: str  # of what it returns: "double", "int", "void"
    parameters: tuple[Parameter, ...]
    body: tuple[Any, ...]


@record
class Table:
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
    found = {each.id for each in walk(part) if isinstance(each, Name)}
    return found | {each.name for each in walk(part) if isinstance(each, Declare)}
