"""The addresses and numbers of host programs as C text; and the block of arguments of a program."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from adjoint.compiler.host import (
    Address,
    AfterFirst,
    Array,
    CopyArray,
    FillArray,
    Held,
    HostOperand,
    InArena,
    InTurns,
    Offset,
    OfThread,
    RowOf,
    RowsOfBlock,
    Tape,
    TapeLength,
    TurnCounter,
)
from adjoint.core.c_types import C_TYPES
from adjoint.expressions.c_numbers import literal

ARENA, LIBRARY, STATUS, SIZES = 0, 1, 2, 3  # indices into the block of arguments
FIRST = 4  # index of the first array


def size_names(symbols: int) -> list[str]:
    """The C names of the symbolic sizes."""
    return [f"size{k}" for k in range(symbols)]


def opening(symbols: int) -> str:
    """C text that declares the sizes."""
    if not symbols:
        return ""
    names = enumerate(size_names(symbols))
    lines = [f"const long {name} = z[{k}]; (void){name};" for k, name in names]
    return "  " + "\n  ".join([f"const long *const z = p[{SIZES}];", *lines]) + "\n"


def number(size: Any) -> str:
    """C text of a whole number."""
    if type(size) is int:
        return str(size)
    if isinstance(size, Offset):
        return f"z[{size.index}]"
    if isinstance(size, RowsOfBlock):
        return "high - low"
    if isinstance(size, TapeLength):
        return f"({tape(size.tape)})->count"
    return size.name if isinstance(size, TurnCounter) else str(size)


def tape(given: Tape) -> str:
    return f"(Tape *)p[{FIRST + given.number}]"


def address(given: Address | None) -> str:
    """C text of an address, of type char *."""
    match given:
        case None:
            return "0"
        case Array():
            return f"((char *)DATA(p, {FIRST + given.number}))"
        case InArena():
            text = "arena"
            for offset in given.offsets:
                text = f"({text} + {number(offset)})"
            return text
        case Tape():
            return f"({tape(given)})->data"
        case Held():
            return given.name
        case RowOf():
            return f"({address(given.start)} + {given.turn.name} * {number(given.size)})"
        case InTurns():
            odd, even = address(given.odd), address(given.even)
            return f"(({given.turn.name} & 1) ? {odd} : {even})"
        case OfThread():
            return f"(own + {given.offset}{f' - low * {given.row}' if given.row else ''})"
        case HostOperand():
            return f"(char *){pointer(given)}"


def first(operand: HostOperand) -> str:
    """C text of a typed pointer to the memory of an operand."""
    return f"(({C_TYPES[operand.dtype.name]} *){address(operand.address)})"


def pointer(operand: HostOperand, where: Sequence[str] = ()) -> str:
    """C text of a pointer to an operand's first element; `where` is its place along its leading
    dimensions.
    """
    found = first(operand)
    if operand.view.offset:
        found = f"({found} + {operand.view.offset})"
    terms = [f"{n} * {s}" for n, s in zip(where, operand.view.strides, strict=False) if s]
    if operand.row:
        terms.append(f"low * {operand.row}")
    return "".join([found, *(f" + {term}" for term in terms)])


def argument(given: HostOperand | AfterFirst | None, where: Sequence[str] = ()) -> str:
    """C text of an argument of a routine."""
    if isinstance(given, AfterFirst):
        return f"(low > first) ? {pointer(given.operand)} : 0"
    return "0" if given is None else pointer(given, where)


def copied(statement: CopyArray | FillArray) -> str:
    """C text that copies an array, or a number, to an array.

    The pointers are computed once, before the loop: for all that C knows a store may change memory
    that they are read from, and a loop that reads them in each iteration is not vectorised.
    """
    target = statement.target
    size, c_type = math.prod(target.view.shape), C_TYPES[target.dtype.name]
    ends = f"{c_type} *const to = {pointer(target)}"
    if isinstance(statement, CopyArray):
        ends, text = f"{ends}, *const from = {pointer(statement.source)};", "from[k]"
    else:
        ends, text = f"{ends};", literal(statement.number, c_type)
    return f"{{ {ends} for (long k = 0; k < {size}; k++) to[k] = {text}; }}\n"
